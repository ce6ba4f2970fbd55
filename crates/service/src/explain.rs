//! Why a lock is not free, and which locks are wanted most: what the machine, the leader's leases and this node's own
//! memory know, put together.
//!
//! Refuses to decide anything. Bounds: those of what it reads; a leader is asked once, with little patience, and what it
//! does not say is left out.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_machine::{BlockingLink, LockFilter};
use holdfast_types::{HolderView, LockName, LockView, Revision, Stamp};

use crate::acquire::WAITERS_SHOWN;
use crate::answer::{Answer, Failure, Response};
use crate::contention::LockTimes;
use crate::history::{PastHold, Question};
use crate::leases::LeaseView;
use crate::request::ReadMode;
use crate::service::{Service, respond};

/// A lock with all that is known about it.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Who holds it and who waits.
    pub view: LockView,
    /// The leases of those who hold it, in their order; none where no leader could say.
    pub leases: Vec<Option<LeaseView>>,
    /// What the holder waits for itself, and so on.
    pub chain: Vec<BlockingLink>,
    /// How long it was waited for and held, as this node has seen it.
    pub times: Option<LockTimes>,
}

/// Which part of a lock's past.
#[derive(Clone, Debug)]
pub struct HistoryRequest {
    /// Which lock.
    pub lock: LockName,
    /// Only who held it at this time.
    pub at: Option<Stamp>,
    /// Past holds at most.
    pub limit: usize,
}

/// A lock's past and present, as one node knows it.
#[derive(Clone, Debug)]
pub struct LockHistory {
    /// Which lock.
    pub lock: LockName,
    /// Who holds it now; with a time asked for, only if it did so then.
    pub holders: Vec<HolderView>,
    /// Holds that are over, the youngest first.
    pub holds: Vec<PastHold>,
    /// Every hold of this lock that ended after this revision is known.
    pub complete_after: Revision,
}

impl Service {
    /// Asks the node's history, once it has noted everything applied so far.
    pub(crate) async fn past_holds(&self, request: HistoryRequest) -> Result<Response, Failure> {
        let HistoryRequest { lock, at, limit } = request;
        self.raft().read_barrier(self.deadline()).await?;
        let (view, revision) =
            self.raft().read(|machine| (machine.lock(&lock, WAITERS_SHOWN), machine.revision()));
        let question = Question { lock: lock.clone(), at, limit };
        let found = tokio::time::timeout_at(self.deadline().into(), self.chronicle().ask(question));
        let Ok(Some(found)) = found.await else {
            return Err(Failure::Overloaded { retry_after: Duration::from_secs(1) });
        };
        let is_asked_for = |holder: &HolderView| at.is_none_or(|at| holder.granted_at <= at);
        let holders = view.holders.into_iter().filter(is_asked_for).collect();
        let (holds, complete_after) = (found.holds, found.complete_after);
        let history = LockHistory { lock, holders, holds, complete_after };
        Ok(respond(Answer::History(history), revision))
    }

    pub(crate) async fn explain(&self, lock: LockName) -> Result<Response, Failure> {
        self.raft().read_barrier(self.deadline()).await?;
        let (view, chain, revision) = self.raft().read(|machine| {
            let view = machine.lock(&lock, WAITERS_SHOWN);
            (view, machine.blocking_chain(&lock), machine.revision())
        });
        let leases = self.leases_of_holders(&view).await;
        let times = self.contention().of(&lock);
        let explanation = Explanation { view, leases, chain, times };
        Ok(respond(Answer::Explained(Box::new(explanation)), revision))
    }

    /// First those with the longest queues now, then those that were waited for longest lately.
    pub(crate) async fn most_wanted(
        &self,
        prefix: String,
        limit: usize,
        read: ReadMode,
    ) -> Result<Response, Failure> {
        if read == ReadMode::Linearizable {
            self.raft().read_barrier(self.deadline()).await?;
        }
        let lately = self.contention().busiest(&prefix, limit);
        let filter = LockFilter { prefix, ..LockFilter::default() };
        let (views, revision) = self.raft().read(|machine| {
            let mut views = machine.most_wanted(&filter, limit);
            let shown: BTreeSet<_> = views.iter().map(|view| view.lock.clone()).collect();
            let others = lately.iter().filter(|lock| !shown.contains(*lock));
            let room = limit.saturating_sub(views.len());
            views.extend(others.take(room).map(|lock| machine.lock_in_list(lock)));
            (views, machine.revision())
        });
        let known = |view: LockView| {
            let times = self.contention().of(&view.lock);
            (view, times)
        };
        let found = views.into_iter().map(known).collect();
        Ok(self.labelled(Answer::Contention(found), revision, read))
    }
}
