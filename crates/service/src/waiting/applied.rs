//! Callers that wait until this node has applied a revision.
//!
//! `apply` wakes exactly the callers whose revision it reaches, after it has dispatched the events of the log entry.
//! Bound: one registration for each call; a dropped call removes its registration.

use holdfast_types::Revision;
use prometheus_client::metrics::counter::Counter;

use super::parked::ParkedCalls;

#[derive(Debug)]
pub(crate) struct AppliedWaiters(ParkedCalls<Revision, ()>);

impl Default for AppliedWaiters {
    fn default() -> Self {
        Self(ParkedCalls::new(Counter::default()))
    }
}

impl AppliedWaiters {
    /// Resolves when the revision is applied; `applied` reads the last applied revision.
    pub(crate) async fn wait(&self, revision: Revision, applied: impl Fn() -> Revision) {
        if applied() >= revision {
            return;
        }
        let mut parked = self.0.park(revision);
        // Either the revision was applied before this check, or `reached` finds the call.
        if applied() < revision {
            parked.woken().await;
        }
    }

    /// Wakes callers that wait for this revision or an earlier one. Runs inside the apply step.
    pub(crate) fn reached(&self, revision: Revision) {
        self.0.wake(Revision(0)..=revision, |_| None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_callers_whose_revision_is_reached_wake() {
        let waiters = AppliedWaiters::default();
        let behind = || Revision(1);
        waiters.wait(Revision(1), behind).await;
        let mut third = std::pin::pin!(waiters.wait(Revision(3), behind));
        let mut fifth = std::pin::pin!(waiters.wait(Revision(5), behind));
        assert!(futures_util::poll!(&mut third).is_pending());
        assert!(futures_util::poll!(&mut fifth).is_pending());
        waiters.reached(Revision(2));
        assert!(futures_util::poll!(&mut third).is_pending());
        waiters.reached(Revision(4));
        third.await;
        assert!(futures_util::poll!(&mut fifth).is_pending());
        waiters.reached(Revision(5));
        fifth.await;
    }

    #[tokio::test]
    async fn a_dropped_waiter_leaves_no_registration() {
        let waiters = AppliedWaiters::default();
        {
            let mut waiter = std::pin::pin!(waiters.wait(Revision(3), || Revision(1)));
            assert!(futures_util::poll!(&mut waiter).is_pending());
            assert_eq!(waiters.0.len(), 1);
        }
        assert_eq!(waiters.0.len(), 0);
    }
}
