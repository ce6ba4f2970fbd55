//! Release requests: `holdfast unlock --ask` sends them to the holders of a lock, and a holder receives them.
//!
//! One task for each lock that this process holds subscribes to its hold. Bound: each task buffers one unread request.

use std::time::Duration;

use clap::Args;
use holdfast_api::{HolderBody, LockBody};
use holdfast_client::{Client, Hold, MultiGuard, ReleaseRequest};
use holdfast_types::{FencingToken, LockName, Owner, Reason, RequestRelease, SessionName, millis};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::lock_text::holder_name;
use crate::arguments::duration;
use crate::exit::CommandFailure;
use crate::output::{short_time, write_stderr};

/// The options of `--ask`.
#[derive(Debug, Args)]
pub(super) struct AskArgs {
    /// Ask the holders to release the lock; no hold ends.
    #[arg(long, conflicts_with_all = ["force", "to"])]
    pub(super) ask: bool,
    /// Ask only this session.
    #[arg(long, value_name = "SESSION", requires = "ask")]
    holder: Option<SessionName>,
    /// The time from now until the lock is needed.
    #[arg(long, value_name = "TIME", requires = "ask", value_parser = duration, default_value = "30s")]
    deadline: Duration,
    /// End the hold at the deadline if the lock was not released.
    #[arg(long, requires = "ask")]
    revoke: bool,
}

pub(super) async fn request_release(
    client: &Client,
    lock: &LockName,
    args: &AskArgs,
    reason: Option<Reason>,
) -> Result<(), CommandFailure> {
    let request = RequestRelease {
        lock: lock.clone(),
        holder: args.holder.clone().map(|session| (session, Owner::unnamed())),
        token: only_holder(client, lock, args.holder.as_ref()).await?,
        reason,
        deadline_ms: millis(args.deadline),
        revoke: args.revoke,
    };
    let body = client.request_release(&request).await?;
    match usize::try_from(body.asked).unwrap_or(usize::MAX) {
        0 => write_stderr(&format!("holdfast: {lock} is not held")),
        asked => match client.lock_state(lock).await {
            Ok(body) => report(&body, asked),
            Err(_) => write_stderr(&format!("holdfast: asked {asked} holders of {lock}")),
        },
    }
    Ok(())
}

/// The token of the hold to ask, so that a late copy of the call asks no later holder; `None` for several holders.
async fn only_holder(
    client: &Client,
    lock: &LockName,
    asked: Option<&SessionName>,
) -> Result<Option<FencingToken>, CommandFailure> {
    let body = client.lock_state(lock).await?;
    let is_asked = |holder: &&HolderBody| {
        holder.owner.is_none() && asked.is_none_or(|session| *session == holder.session)
    };
    match body.holders.iter().filter(is_asked).collect::<Vec<_>>()[..] {
        [only] if asked.is_some() || body.holders_total == 1 => Ok(Some(only.token)),
        _ => Ok(None),
    }
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

/// The requests for the locks that this process holds, in the order of their arrival. Dropping `ReleaseRequests` ends the tasks.
#[derive(Debug)]
pub(super) struct ReleaseRequests {
    requests: mpsc::Receiver<(LockName, ReleaseRequest)>,
    _tasks: JoinSet<()>,
}

impl ReleaseRequests {
    pub(super) fn of(guard: &MultiGuard) -> Self {
        let (sender, requests) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        for hold in guard.holds() {
            tasks.spawn(follow(hold.clone(), sender.clone()));
        }
        Self { requests, _tasks: tasks }
    }

    /// Returns the next request, as `lock: request`.
    pub(super) async fn next(&mut self) -> String {
        match self.requests.recv().await {
            Some((lock, request)) => format!("holdfast: {lock}: {request}"),
            // The tasks have ended, so no more requests arrive.
            None => std::future::pending().await,
        }
    }
}

async fn follow(hold: Hold, requests: mpsc::Sender<(LockName, ReleaseRequest)>) {
    let mut known = None;
    loop {
        let request = hold.release_requested_after(known.as_ref()).await;
        if requests.send((hold.lock().clone(), request.clone())).await.is_err() {
            return;
        }
        known = Some(request);
    }
}
