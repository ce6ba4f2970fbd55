//! Mailboxes of calls that are parked on this node under a key until `apply` wakes them.
//!
//! Invariant: a call that parks and then reads the state misses no event, because later events are in its mailbox. A
//! mailbox holds at most [`EVENTS_MAX`] events and one flag to read the state again; further events set the flag.
//! Callers hold permits, which bound the registry.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use holdfast_types::{Grant, LossCause, Revision};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::request::Failure;

/// Events buffered in one mailbox.
const EVENTS_MAX: usize = 2;

/// Why a parked call wakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WakeUp<E> {
    Event(E),
    /// The state may have changed: read it.
    Look,
}

/// An event of a waiting caller's queue entry.
#[derive(Clone, Debug)]
pub(crate) enum QueueEvent {
    Granted(Grant),
    Left(LossCause),
}

/// The registry of parked calls. Calls under the same key have different numbers.
#[derive(Debug)]
pub(crate) struct ParkedCalls<K: Ord, E>(Arc<Registry<K, E>>);

type Mailboxes<K, E> = BTreeMap<(K, u64), Arc<Mailbox<E>>>;

#[derive(Debug)]
struct Registry<K: Ord, E> {
    calls: Mutex<Mailboxes<K, E>>,
    wake_ups: Counter,
}

#[derive(Debug)]
struct Mailbox<E> {
    /// Events, and whether to read the state after them.
    content: Mutex<(VecDeque<E>, bool)>,
    filled: Notify,
}

/// One parked call. Dropping it removes it from the registry.
#[derive(Debug)]
pub(crate) struct Parked<K: Ord, E> {
    registry: Arc<Registry<K, E>>,
    key: (K, u64),
    mailbox: Arc<Mailbox<E>>,
}

impl<K: Ord + Clone, E> ParkedCalls<K, E> {
    /// `wake_ups` counts the events and the requests to read the state that reach a mailbox.
    pub(crate) fn new(wake_ups: Counter) -> Self {
        Self(Arc::new(Registry { calls: Mutex::default(), wake_ups }))
    }

    /// Parks a call. Its mailbox receives events from now on; the caller then reads the state once.
    pub(crate) fn park(&self, key: K) -> Parked<K, E> {
        let content = Mutex::new((VecDeque::new(), false));
        let mailbox = Arc::new(Mailbox { content, filled: Notify::new() });
        let mut calls = self.0.calls.lock();
        let last = calls.range((key.clone(), 0)..=(key.clone(), u64::MAX)).next_back();
        let key = (key, last.map_or(0, |((_, number), _)| number + 1));
        calls.insert(key.clone(), mailbox.clone());
        drop(calls);
        Parked { registry: self.0.clone(), key, mailbox }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.calls.lock().len()
    }

    /// Wakes the calls parked under these keys. If `event` returns `None` for a key, its calls read the state.
    pub(crate) fn wake(&self, keys: RangeInclusive<K>, event: impl Fn(&K) -> Option<E>) {
        let (first, last) = keys.into_inner();
        let calls = self.0.calls.lock();
        for ((key, _), mailbox) in calls.range((first, 0)..=(last, u64::MAX)) {
            self.post(mailbox, event(key));
        }
    }

    /// Wakes every call to read the state, after events were skipped.
    pub(crate) fn wake_all(&self) {
        self.0.calls.lock().values().for_each(|mailbox| self.post(mailbox, None));
    }

    fn post(&self, mailbox: &Mailbox<E>, event: Option<E>) {
        let mut content = mailbox.content.lock();
        let (events, look) = &mut *content;
        match event {
            Some(event) if events.len() < EVENTS_MAX => events.push_back(event),
            Some(_) | None if *look => return,
            Some(_) | None => *look = true,
        }
        drop(content);
        self.0.wake_ups.inc();
        mailbox.filled.notify_one();
    }
}

impl<K: Ord, E: Clone> Parked<K, E> {
    /// Waits for the next wake-up. Dropping the future loses no event.
    pub(crate) async fn woken(&mut self) -> WakeUp<E> {
        loop {
            {
                let mut content = self.mailbox.content.lock();
                if let Some(event) = content.0.pop_front() {
                    return WakeUp::Event(event);
                }
                if std::mem::take(&mut content.1) {
                    return WakeUp::Look;
                }
            }
            self.mailbox.filled.notified().await;
        }
    }

    /// Returns the next event, if there is one, and leaves it in the mailbox.
    pub(crate) fn event(&self) -> Option<E> {
        self.mailbox.content.lock().0.front().cloned()
    }
}

impl<K: Ord, E> Drop for Parked<K, E> {
    fn drop(&mut self) {
        self.registry.calls.lock().remove(&self.key);
    }
}

/// Callers that wait until this node has applied a revision. `apply` wakes exactly those whose revision it reaches, after
/// it has dispatched the events of the log entry. Bound: one registration for each call.
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

/// Permits to wait on this node: they bound all parked calls, and shutdown waits until all are returned.
#[derive(Debug)]
pub(crate) struct WaiterPermits {
    permits: Arc<Semaphore>,
    limit: usize,
}

/// A permit to wait. A call takes it before proposing a command and keeps it until its wait is cleaned up.
#[derive(Debug)]
pub(crate) struct WaiterPermit(
    #[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit,
);

impl WaiterPermits {
    pub(crate) fn new(limit: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(limit)), limit }
    }

    pub(crate) fn take(&self) -> Result<WaiterPermit, Failure> {
        match self.permits.clone().try_acquire_owned() {
            Ok(permit) => Ok(WaiterPermit(permit)),
            Err(_) => Err(Failure::TooManyWaiters { limit: self.limit }),
        }
    }

    pub(crate) fn in_use(&self) -> usize {
        self.limit - self.permits.available_permits()
    }

    /// Resolves when no permit is in use; afterwards none can be taken. May be awaited more than once.
    pub(crate) async fn drained(&self) {
        let all = u32::try_from(self.limit).unwrap_or(u32::MAX);
        // An error means that an earlier call closed the semaphore.
        if let Ok(_all) = self.permits.acquire_many(all).await {
            self.permits.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_calls_under_the_key_wake() {
        let wake_ups = Counter::default();
        let calls = ParkedCalls::new(wake_ups.clone());
        let (mut one, mut other, mut same) = (calls.park(1), calls.park(2), calls.park(1));
        calls.wake(1..=1, |_| Some("left"));
        assert_eq!(one.woken().await, WakeUp::Event("left"));
        assert_eq!(same.woken().await, WakeUp::Event("left"));
        assert!(futures_util::poll!(std::pin::pin!(other.woken())).is_pending());
        assert_eq!(wake_ups.get(), 2, "only these wake-ups are counted");
        drop((one, other, same));
        assert_eq!(calls.len(), 0);
    }

    #[tokio::test]
    async fn an_event_stays_in_the_mailbox_after_further_wake_ups() {
        let calls = ParkedCalls::new(Counter::default());
        let mut parked = calls.park(7);
        calls.wake_all();
        calls.wake(7..=7, |_| Some("opened"));
        calls.wake_all();
        calls.wake(0..=9, |_| None);
        assert_eq!(parked.event(), Some("opened"));
        assert_eq!(parked.woken().await, WakeUp::Event("opened"));
        assert_eq!(parked.woken().await, WakeUp::Look);
        assert!(futures_util::poll!(std::pin::pin!(parked.woken())).is_pending());
    }

    #[tokio::test]
    async fn a_full_mailbox_makes_the_call_read_the_state() {
        let calls = ParkedCalls::new(Counter::default());
        let mut parked = calls.park(());
        for event in 0..2 * EVENTS_MAX {
            calls.wake(()..=(), |()| Some(event));
        }
        for event in 0..EVENTS_MAX {
            assert_eq!(parked.woken().await, WakeUp::Event(event));
        }
        assert_eq!(parked.woken().await, WakeUp::Look);
    }

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

    #[tokio::test]
    async fn draining_waits_for_the_last_permit_and_may_be_awaited_again() {
        let permits = WaiterPermits::new(2);
        let permit = permits.take().unwrap();
        let mut drained = std::pin::pin!(permits.drained());
        assert!(futures_util::poll!(&mut drained).is_pending());
        drop(permit);
        drained.await;
        permits.drained().await;
        assert!(matches!(permits.take(), Err(Failure::TooManyWaiters { limit: 2 })));
    }
}
