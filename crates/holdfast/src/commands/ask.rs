//! `holdfast ask`: asks the holders of a lock to release it.

use std::time::Duration;

use clap::Args;
use holdfast_api::LockBody;
use holdfast_client::Error;
use holdfast_types::{LockName, Owner, Reason, RequestRelease, SessionName, millis};

use super::lock_text::holder_name;
use super::unlock::{no_session, reason};
use crate::arguments::{ClusterArgs, duration, lock_name, session_name};
use crate::exit::CommandFailure;
use crate::output::{short_time, write_stderr};

/// Ask the holders of a lock to release it.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The lock.
    #[arg(value_parser = lock_name)]
    name: LockName,
    /// Ask only this session.
    #[arg(long, value_parser = session_name)]
    session: Option<SessionName>,
    /// The reason, which the holder sees.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<Reason>,
    /// The time from now until the lock is needed.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    deadline: Duration,
    /// End the hold at the deadline if the lock was not released.
    #[arg(long)]
    revoke: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(args: AskArgs) -> Result<(), CommandFailure> {
    let lock = &args.name;
    let request = RequestRelease {
        lock: lock.clone(),
        holder: args.session.clone().map(|session| (session, Owner::unnamed())),
        reason: args.reason,
        deadline_ms: millis(args.deadline),
        revoke: args.revoke,
    };
    let client = args.cluster.client()?;
    let body = client.request_release(&request).await;
    let body = body.map_err(|error| match (error, &args.session) {
        (Error::Lost(_), Some(session)) => CommandFailure::failed(no_session(session)),
        (error, _) => error.into(),
    })?;
    match usize::try_from(body.asked).unwrap_or(usize::MAX) {
        0 => write_stderr(&format!("holdfast: {lock} is not held")),
        asked => match client.look(lock).await {
            Ok(body) => report(&body, asked),
            Err(_) => write_stderr(&format!("holdfast: asked {asked} holders of {lock}")),
        },
    }
    Ok(())
}

/// Prints a line for each holder that got the request. The cluster does not record whether a holder subscribes to
/// requests.
fn report(body: &LockBody, asked: usize) {
    let lock = &body.lock;
    let has_request = body.holders.iter().filter(|holder| holder.release_request.is_some());
    let listed: Vec<_> = has_request.take(asked).collect();
    for holder in &listed {
        let (name, since) = (holder_name(holder), short_time(holder.held_for_ms));
        let token = holder.token;
        write_stderr(&format!(
            "holdfast: asked {name} to release {lock}, held for {since} with token {token}"
        ));
    }
    // The reply lists only the first of many holders, and some of these may have released the lock.
    if asked > listed.len() {
        write_stderr(&format!("holdfast: asked {} more holders of {lock}", asked - listed.len()));
    }
}
