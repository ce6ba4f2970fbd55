//! `holdfast unlock`: gives a lock back, or leaves its queue. Done twice, it is done still. `taken.rs` has `--force`.

use holdfast_api::HolderBody;
use holdfast_client::Error;
use holdfast_types::SessionName;

use super::{connect, for_people, lock_name, name_of, stop, taken};
use crate::cli::UnlockArgs;
use crate::exit::Stop;
use crate::output::complain;

pub(super) async fn run(args: &UnlockArgs) -> Result<(), Stop> {
    if let Some(reason) = args.reason.as_deref().filter(|_| args.force) {
        return taken::force(args, reason).await;
    }
    let lock = lock_name(&args.name)?;
    let Some(session) = &args.session else {
        return Err(Stop::failed(
            "say whose place is given up (--session), or --force --reason TEXT",
        ));
    };
    let session = SessionName::new(session).map_err(Stop::failed)?;
    let client = connect(&args.target)?;
    match client.release(&lock, &session).await {
        Ok(()) => {
            complain(&format!("holdfast: {session} no longer holds {lock} or waits for it"));
            Ok(())
        }
        Err(Error::Lost(_)) => {
            let looked = client.look(&lock).await.map_err(|error| stop(&args.target, &error))?;
            let ended = format!("no session {session} is open, it has ended or never was");
            Err(not_released(&args.name, &session, looked.holder(), &ended))
        }
        Err(Error::Refused(problem)) => {
            let holder = problem.facts.holder.as_deref();
            Err(not_released(
                &args.name,
                &session,
                holder,
                &Error::Refused(problem.clone()).to_string(),
            ))
        }
        Err(error) => Err(stop(&args.target, &error)),
    }
}

fn not_released(
    lock: &str,
    session: &SessionName,
    holder: Option<&HolderBody>,
    reason: &str,
) -> Stop {
    match holder {
        Some(holder) => Stop::failed(format!(
            "{lock} is held by {} for {}, not by {session}: release it with --session {}",
            name_of(holder),
            for_people(holder.since_ms),
            holder.session
        )),
        None => Stop::failed(format!("{session} does not hold {lock}: {reason}")),
    }
}
