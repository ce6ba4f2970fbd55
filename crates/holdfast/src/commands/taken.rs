//! `holdfast unlock --force` and `holdfast ask`: a lock is taken from those who hold it, or asked for. For operators.

use holdfast_api::LockBody;
use holdfast_client::Error;
use holdfast_types::{LockName, Owner, Reason, RequestRelease, SessionName, millis};

use super::{connect, for_people, lock_name, name_of, stop};
use crate::cli::{AskArgs, UnlockArgs};
use crate::exit::Stop;
use crate::output::complain;

/// Takes the lock from everybody who holds it now, hold by hold: whoever comes after keeps what he has.
pub(super) async fn force(args: &UnlockArgs, reason: &str) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let reason = Reason::new(reason).map_err(Stop::usage)?;
    let client = connect(&args.target)?;
    let failed = |error| stop(&args.target, &error);
    let body: LockBody = client.look(&lock).await.map_err(failed)?;
    if body.holders.is_empty() {
        complain(&format!("holdfast: nobody holds {lock}"));
        return Ok(());
    }
    for holder in &body.holders {
        let broken = client.break_lock(&lock, Some(holder.token), &reason).await;
        let broken = broken.map_err(failed)?.broken;
        let (who, since) = (name_of(holder), for_people(holder.since_ms));
        let told = match broken {
            0 => format!("{who} no longer held {lock} under the token {}", holder.token),
            _ => {
                format!("took {lock} from {who}, who held it for {since} (token {})", holder.token)
            }
        };
        complain(&format!("holdfast: {told}"));
    }
    Ok(())
}

/// Asks everybody who holds the lock, or one session, to give it back.
pub(super) async fn ask(args: &AskArgs) -> Result<(), Stop> {
    let lock: LockName = lock_name(&args.name)?;
    let session = args.session.as_deref().map(SessionName::new).transpose();
    let reason = args.reason.as_deref().map(Reason::new).transpose();
    let request = RequestRelease {
        lock: lock.clone(),
        holder: session.map_err(Stop::usage)?.map(|session| (session, Owner::unnamed())),
        reason: reason.map_err(Stop::usage)?,
        deadline_ms: millis(args.deadline),
        revoke: args.revoke,
    };
    let client = connect(&args.target)?;
    let asked =
        client.request_release(&request).await.map_err(|error| match (error, &args.session) {
            (Error::Lost(_), Some(session)) => {
                Stop::failed(format!("no session {session} is open, it has ended or never was"))
            }
            (error, _) => stop(&args.target, &error),
        });
    match usize::try_from(asked?.asked).unwrap_or(usize::MAX) {
        0 => complain(&format!("holdfast: nobody holds {lock}")),
        asked => match client.look(&lock).await {
            Ok(body) => report_asked(&body, asked),
            Err(_) => complain(&format!("holdfast: asked {asked} of the holders of {lock}")),
        },
    }
    Ok(())
}

/// A line for each holder that was asked. The cluster keeps the request with the hold, and does not know who listens.
fn report_asked(body: &LockBody, asked: usize) {
    let lock = &body.lock;
    let has_request = body.holders.iter().filter(|holder| holder.release_request.is_some());
    let mut listed = 0;
    for holder in has_request.take(asked) {
        let (who, since) = (name_of(holder), for_people(holder.since_ms));
        complain(&format!(
            "holdfast: asked {who} to release {lock}, held for {since} under token {}",
            holder.token
        ));
        listed += 1;
    }
    // Of many holders only the first are listed, and some may have released it already.
    if asked > listed {
        complain(&format!("holdfast: asked {} more holders of {lock}", asked - listed));
    }
}
