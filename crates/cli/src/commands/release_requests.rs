//! The release requests (`holdfast unlock --ask`) of the locks that this process holds.
//!
//! One task for each lock subscribes to its hold. Bound: each task buffers one unread request.

use holdfast_client::{Hold, MultiGuard, ReleaseRequest};
use holdfast_types::LockName;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The requests, in the order of their arrival. Dropping `ReleaseRequests` ends the tasks.
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
