//! The failure of this node, e.g. because of a disk error.
//!
//! The first failure is final. Every part checks it before it handles a request.

use tokio::sync::watch;

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    reason: watch::Sender<Option<String>>,
}

impl Failure {
    pub(crate) fn new() -> Self {
        Self { reason: watch::Sender::new(None) }
    }

    /// Records the failure, unless one is already recorded.
    pub(crate) fn report(&self, reason: impl Into<String>) {
        let reason = reason.into();
        self.reason.send_if_modified(|first| {
            if first.is_some() {
                return false;
            }
            tracing::error!(reason, "this node stops serving and voting");
            *first = Some(reason);
            true
        });
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.borrow().clone()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.reason.borrow().is_some()
    }

    /// Resolves with the reason when the node fails.
    pub(crate) async fn wait(&self) -> String {
        let mut receiver = self.reason.subscribe();
        // The sender lives as long as `self`.
        let reason = receiver.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_default()
    }
}
