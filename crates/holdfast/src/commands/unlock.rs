//! `holdfast unlock`: gives a lock back, leaves its queue, or hands the lock on. Done twice, it is done still. `taken.rs` has `--force`.

use holdfast_api::HolderBody;
use holdfast_client::{Client, Error};
use holdfast_types::{LockName, SessionName};

use super::{connect, for_people, lock_name, name_of, stop, taken};
use crate::cli::UnlockArgs;
use crate::exit::Stop;
use crate::output::{answer, complain};

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
    let session = SessionName::new(session).map_err(Stop::usage)?;
    let client = connect(&args.target)?;
    if let Some(to) = &args.to {
        return hand_over(args, (&client, &lock), &session, to).await;
    }
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

/// The lock goes on to another session at once.
async fn hand_over(
    args: &UnlockArgs,
    (client, lock): (&Client, &LockName),
    session: &SessionName,
    to: &str,
) -> Result<(), Stop> {
    let to = SessionName::new(to).map_err(Stop::usage)?;
    match client.hand_over(lock, session, &to).await {
        Ok(body) => {
            let people = || format!("{to} holds {lock} now, token {}", body.token);
            answer(args.target.output, &body, || body.token.to_string(), people);
            Ok(())
        }
        Err(Error::Lost(_)) => Err(Stop::failed(format!(
            "one of {session} and {to} is no open session: holdfast who {lock}"
        ))),
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
