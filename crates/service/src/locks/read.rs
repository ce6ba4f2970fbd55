//! Reading locks, why one is not free, and their past holds; releasing locks, and changing their policy.
//!
//! An explanation combines the state machine, the leader's leases and this node's own records. The node calls the leader once, for
//! at most a second; without a reply, leases are omitted.

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_machine::{BlockingLink, LockFilter, LockUrgency, Machine};
use holdfast_types::{
    Blocked, Command, FenceView, FencingToken, Grant, HandOver, HolderView, LockName, LockPolicy,
    LockRejection, LockView, Page, PolicyChange, Rejection, Release, ReleaseTarget, Released,
    Reply, RequestRelease, Revision, Right, WaiterView,
};

use crate::auth::authorization::allows;
use crate::history::contention::LockTimes;
use crate::history::hold_history::{HistoryRequest, PastHold};
use crate::request::{Failure, ReadMode, Response};
use crate::service::Service;
use crate::service_call::LeaseView;

/// The tokens that a fence check accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceMode {
    /// Only the token of a current holder.
    Current,
    /// Any token at or above the smallest token of the holders. Without a holder: at or above the last minted token.
    Monotonic,
}

#[derive(Clone, Copy, Debug)]
pub struct TokenCheck {
    pub valid: bool,
    /// The lock's tokens that the check compared.
    pub view: FenceView,
}

/// The maximum number of waiters listed in the view of a lock; the view also has their total number.
pub(crate) const WAITERS_SHOWN: usize = 100;

impl Service {
    /// Releases locks, or leaves their queues.
    ///
    /// # Errors
    /// A [`Failure`] states the reason, and whether the command may have taken effect. This applies to all methods
    /// here.
    pub async fn release(&self, release: Release) -> Result<Response<Released>, Failure> {
        let is_of_attempt = matches!(release.target, ReleaseTarget::Attempt(_));
        match self.propose(Command::Release(release), Reply::into_released).await {
            // As for a session that does not exist.
            Err(failure) if is_of_attempt && failure.is_hidden_session() => {
                let nothing = Released { hold_count: 0, changed: false };
                Ok(Response::new(nothing, self.revision()))
            }
            released => released,
        }
    }

    /// Requests holders to release a lock. Returns the number of holders that received the request.
    pub async fn request_release(&self, request: RequestRelease) -> Result<Response<u32>, Failure> {
        self.propose(Command::RequestRelease(request), Reply::into_release_requested).await
    }

    /// Hands a hold to another session. Returns the new hold of that session.
    pub async fn hand_over(&self, hand_over: HandOver) -> Result<Response<Grant>, Failure> {
        self.propose(Command::HandOver(hand_over), Reply::into_handed_over).await
    }

    /// Changes the policy of a lock. Returns the complete policy.
    pub async fn set_policy(
        &self,
        lock: LockName,
        change: PolicyChange,
    ) -> Result<Response<LockPolicy>, Failure> {
        self.propose(Command::SetPolicy { lock, change }, Reply::into_policy).await
    }

    /// Returns the holders and the first waiters of a lock.
    pub async fn lock(
        &self,
        lock: &LockName,
        mode: ReadMode,
    ) -> Result<Response<LockView>, Failure> {
        self.read(mode, |machine| {
            self.check(machine, Right::LockRead, lock.as_str())?;
            Ok(self.without_hidden(machine, machine.lock(lock, WAITERS_SHOWN)))
        })
        .await
    }

    /// Returns a lock as [`Service::lock`] does, and rejects the name of a sharded lock, whose holders have its shards.
    pub async fn unsharded_lock(
        &self,
        lock: &LockName,
        mode: ReadMode,
    ) -> Result<Response<LockView>, Failure> {
        self.read(mode, |machine| {
            self.check(machine, Right::LockRead, lock.as_str())?;
            machine.check_not_sharded(lock)?;
            Ok(self.without_hidden(machine, machine.lock(lock, WAITERS_SHOWN)))
        })
        .await
    }

    /// Returns at most `limit` locks in name order, starting after `after`.
    pub async fn locks(
        &self,
        filter: &LockFilter,
        after: Option<&str>,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Page<LockView>>, Failure> {
        let after = after.map(str::to_owned);
        let key = |next: &str| Some(next.to_owned());
        self.read_page((mode, after, limit), key, |machine, after, limit| {
            let rights = self.enforced_rights(machine)?;
            let is_visible = |lock: &LockName| allows(rights, Right::LockRead, lock.as_str());
            let page = machine.locks(filter, after.map(String::as_str), limit, is_visible);
            let views = page.items.into_iter().map(|view| self.without_hidden(machine, view));
            Ok(Page { items: views.collect(), ..page })
        })
        .await
    }

    pub async fn check_token(
        &self,
        lock: &LockName,
        token: FencingToken,
        accepted: FenceMode,
        mode: ReadMode,
    ) -> Result<Response<TokenCheck>, Failure> {
        self.read(mode, |machine| {
            self.check(machine, Right::LockCheck, lock.as_str())?;
            machine.check_not_sharded(lock)?;
            let view = machine.fence(lock);
            let valid = match accepted {
                FenceMode::Current => machine.is_held_with(lock, token),
                FenceMode::Monotonic => is_not_overtaken(token, view),
            };
            Ok(TokenCheck { valid, view })
        })
        .await
    }
}

/// With a holder, only tokens below the floor are stale. Without one, tokens older than the last grant are stale.
fn is_not_overtaken(token: FencingToken, view: FenceView) -> bool {
    match view.current {
        Some(_) => token >= view.floor,
        None => view.highest.is_none_or(|highest| token >= highest),
    }
}

#[derive(Clone, Debug)]
pub struct Explanation {
    /// Holders and waiters.
    pub view: LockView,
    /// The leases of the holders, in their order; `None` if no leader replied.
    pub leases: Vec<Option<LeaseView>>,
    /// The lock that the holder waits for, the holder of that lock, and so on.
    pub chain: Vec<BlockingLink>,
    /// Waits and holds, as recorded by this node.
    pub times: Option<LockTimes>,
}

/// The holds of a lock, as recorded by one node.
#[derive(Clone, Debug)]
pub struct LockHistory {
    pub lock: LockName,
    /// The current holders; with `at`, only the holders that held the lock at that time.
    pub holders: Vec<HolderView>,
    /// Past holds, the newest first.
    pub holds: Vec<PastHold>,
    /// Every hold that ended after this revision is included.
    pub complete_after: Revision,
}

#[derive(Clone, Debug)]
pub struct ContendedLock {
    pub view: LockView,
    pub times: Option<LockTimes>,
}

impl Service {
    /// Returns the lock history of this node, including everything applied so far.
    ///
    /// # Errors
    /// [`Failure::Overloaded`] if the history thread does not reply in time; otherwise the errors of any read.
    pub async fn history(
        &self,
        request: HistoryRequest,
        mode: ReadMode,
    ) -> Result<Response<LockHistory>, Failure> {
        let (lock, at) = (request.lock.clone(), request.at);
        let view = self.unsharded_lock(&lock, mode).await?;
        let found = self.observer().hold_recorder.query(request);
        let found = tokio::time::timeout_at(self.deadline().into(), found);
        let Ok(Some(found)) = found.await else {
            return Err(Failure::Overloaded { retry_after: Duration::from_secs(1) });
        };
        let held_at_that_time = |holder: &HolderView| at.is_none_or(|at| holder.granted_at <= at);
        Ok(view.map(|view| {
            let holders = view.holders.into_iter().filter(held_at_that_time).collect();
            let (holds, complete_after) = (found.holds, found.complete_after);
            LockHistory { lock, holders, holds, complete_after }
        }))
    }

    /// Returns the holders and waiters of a lock, and why it is not free. Linearizable.
    pub async fn explain(&self, lock: &LockName) -> Result<Response<Explanation>, Failure> {
        let read_lock = |machine: &Machine| {
            let rights = self.enforced_rights(machine)?;
            self.check(machine, Right::LockRead, lock.as_str())?;
            let chain = machine.blocking_chain(lock).into_iter();
            // The rest of a chain stays hidden behind the first lock that the caller may not read.
            let is_visible =
                |link: &BlockingLink| allows(rights, Right::LockRead, link.waits_for.as_str());
            let view = self.without_hidden(machine, machine.lock(lock, WAITERS_SHOWN));
            Ok((view, chain.take_while(is_visible).collect()))
        };
        let read = self.read(ReadMode::Linearizable, read_lock).await?;
        let Response { value: (view, chain), revision, .. } = read;
        let leases = self.leases_of_holders(&view).await;
        let times = self.observer().contention.of(lock);
        Ok(Response::new(Explanation { view, leases, chain, times }, revision))
    }

    /// Removes what the caller may not read from a rejection. `lock` is the lock that the command names, if it is one.
    /// The cycle of a deadlock ends before the first hidden lock. A lock's holder is shown to callers that may read the
    /// lock, or acquire it.
    pub(crate) fn hide_unreadable(&self, rejection: &mut Rejection, lock: Option<&LockName>) {
        let Rejection::Lock(rejected) = rejection else { return };
        if let LockRejection::Deadlock { cycle } = rejected {
            let is_readable = |machine: &Machine| {
                let waits = cycle.iter();
                waits.take_while(|(_, _, lock): &&Blocked| self.may_read(machine, lock)).count()
            };
            let readable = self.raft().read(is_readable);
            cycle.truncate(readable);
        } else if let LockRejection::OfMultiLock { lock, why } = rejected {
            self.hide_unreadable(why, Some(lock));
        } else if let (LockRejection::NotHolder { .. }, Some(lock)) = (&*rejected, lock) {
            let may_see = |machine: &Machine| {
                self.may_read(machine, lock) || self.may(machine, Right::LockAcquire, lock)
            };
            if !self.raft().read(may_see) {
                *rejected = LockRejection::NotHeld;
            }
        }
    }

    fn may(&self, machine: &Machine, right: Right, lock: &LockName) -> bool {
        let rights = self.enforced_rights(machine);
        rights.is_ok_and(|rights| allows(rights, right, lock.as_str()))
    }

    fn may_read(&self, machine: &Machine, lock: &LockName) -> bool {
        self.may(machine, Right::LockRead, lock)
    }

    /// Removes the locks of multi-locks that the caller may not read.
    pub(crate) fn without_hidden(&self, machine: &Machine, mut view: LockView) -> LockView {
        for note in &mut view.notes {
            self.hide_locks(machine, &mut note.multi_lock);
        }
        self.hide_locks_of(machine, &mut view.waiters);
        view
    }

    /// As [`without_hidden`](Self::without_hidden), for waiters.
    pub(crate) fn hide_locks_of(&self, machine: &Machine, waiters: &mut [WaiterView]) {
        for waiter in waiters {
            self.hide_locks(machine, &mut waiter.multi_lock);
        }
    }

    fn hide_locks(&self, machine: &Machine, locks: &mut Vec<LockName>) {
        locks.retain(|lock| self.may_read(machine, lock));
    }

    /// Returns the most urgent locks. Among [`LockUrgency::Waiters`], the locks with the longest recent waits are the last.
    pub async fn most_urgent_locks(
        &self,
        prefix: String,
        urgency: LockUrgency,
        limit: usize,
        mode: ReadMode,
    ) -> Result<Response<Vec<ContendedLock>>, Failure> {
        let lately = match urgency {
            LockUrgency::Waiters => self.observer().contention.busiest(&prefix, limit),
            LockUrgency::LongestWait | LockUrgency::OldestHold => Vec::new(),
        };
        let filter = LockFilter { prefix, ..LockFilter::default() };
        let read = self.read(mode, |machine| {
            let rights = self.enforced_rights(machine)?;
            let is_visible = |lock: &LockName| allows(rights, Right::LockRead, lock.as_str());
            let mut views = machine.most_urgent(&filter, urgency, limit, is_visible);
            let shown: BTreeSet<_> = views.iter().map(|view| view.lock.clone()).collect();
            let others = lately.iter().filter(|lock| !shown.contains(*lock) && is_visible(lock));
            let room = limit.saturating_sub(views.len());
            views.extend(others.take(room).map(|lock| machine.lock_in_list(lock)));
            let shown = views.into_iter().map(|view| self.without_hidden(machine, view));
            Ok(shown.collect::<Vec<_>>())
        });
        let known = |view: LockView| ContendedLock {
            times: self.observer().contention.of(&view.lock),
            view,
        };
        Ok(read.await?.map(|views| views.into_iter().map(known).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_rejects_overtaken_tokens() {
        let [old, floor, newest, next] = [5, 7, 9, 10].map(FencingToken);
        let held = FenceView { current: Some(newest), floor, highest: Some(newest) };
        assert!(is_not_overtaken(floor, held) && is_not_overtaken(newest, held));
        assert!(!is_not_overtaken(old, held));
        let free = FenceView { current: None, floor: next, highest: Some(newest) };
        assert!(is_not_overtaken(newest, free) && !is_not_overtaken(floor, free));
        assert!(is_not_overtaken(old, FenceView { highest: None, ..free }));
    }
}
