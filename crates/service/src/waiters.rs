//! Callers parked on this node until their place in a queue is granted or gone.
//!
//! Owns who is to be woken; only the caller whose ticket an event names wakes. Refuses to know why somebody waits
//! or for how long. Bound: `waiters_max` callers a node; one more is told so before anything is proposed.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_types::{Grant, LossCause, Ticket};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;

/// Why a parked caller wakes.
#[derive(Clone, Debug)]
pub(crate) enum Woken {
    /// Its place was granted.
    Granted(Grant),
    /// Its place is gone.
    Left(LossCause),
    /// Events may have been missed: look at the state.
    Look,
}

/// Several callers may wait for one ticket: each has a number of its own.
type Key = (Ticket, u64);

/// The registry of parked callers; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Waiters(Arc<Registry>);

#[derive(Debug)]
struct Registry {
    parked: Mutex<BTreeMap<Key, mpsc::Sender<Woken>>>,
    permits: Arc<tokio::sync::Semaphore>,
    limit: usize,
    /// Reasons to wake that were given.
    wake_ups: Counter,
}

/// A permission to park, taken before anything is proposed.
#[derive(Debug)]
pub(crate) struct Seat {
    waiters: Waiters,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

/// One parked caller. Dropping it leaves the registry.
#[derive(Debug)]
pub(crate) struct Parked {
    waiters: Waiters,
    key: Key,
    woken: mpsc::Receiver<Woken>,
}

impl Waiters {
    pub(crate) fn new(limit: usize, wake_ups: Counter) -> Self {
        let permits = Arc::new(tokio::sync::Semaphore::new(limit));
        Self(Arc::new(Registry { parked: Mutex::default(), permits, limit, wake_ups }))
    }

    /// Takes a seat.
    ///
    /// # Errors
    /// The bound, if all seats are taken.
    pub(crate) fn seat(&self) -> Result<Seat, usize> {
        match self.0.permits.clone().try_acquire_owned() {
            Ok(permit) => Ok(Seat { waiters: self.clone(), _permit: permit }),
            Err(_) => Err(self.0.limit),
        }
    }

    /// Resolves when nobody has a seat, and then nobody gets one any more. Can be asked again.
    pub(crate) async fn empty(&self) {
        let all = u32::try_from(self.0.limit).unwrap_or(u32::MAX);
        // An error means that they were closed before.
        if let Ok(_all_seats) = self.0.permits.acquire_many(all).await {
            self.0.permits.close();
        }
    }

    /// Callers parked now.
    pub(crate) fn len(&self) -> usize {
        self.0.parked.lock().len()
    }

    pub(crate) fn granted(&self, grant: &Grant) {
        self.wake(grant.ticket, &Woken::Granted(grant.clone()));
    }

    pub(crate) fn left(&self, ticket: Ticket, cause: LossCause) {
        self.wake(ticket, &Woken::Left(cause));
    }

    /// Wakes everybody to look at the state, after events were skipped.
    pub(crate) fn look(&self) {
        for sender in self.0.parked.lock().values() {
            self.give(sender, Woken::Look);
        }
    }

    fn wake(&self, ticket: Ticket, woken: &Woken) {
        let parked = self.0.parked.lock();
        for (_, sender) in parked.range((ticket, 0)..=(ticket, u64::MAX)) {
            self.give(sender, woken.clone());
        }
    }

    fn give(&self, sender: &mpsc::Sender<Woken>, woken: Woken) {
        // A full channel already holds a reason to wake.
        if sender.try_send(woken).is_ok() {
            self.0.wake_ups.inc();
        }
    }
}

impl Seat {
    /// Parks for a ticket. From now on its events are kept; look at the state once after this.
    pub(crate) fn park(&self, ticket: Ticket) -> Parked {
        let (sender, woken) = mpsc::channel(2);
        let key = {
            let mut parked = self.waiters.0.parked.lock();
            let last = parked.range((ticket, 0)..=(ticket, u64::MAX)).next_back();
            let key = (ticket, last.map_or(0, |((_, number), _)| number + 1));
            parked.insert(key, sender);
            key
        };
        Parked { waiters: self.waiters.clone(), key, woken }
    }
}

impl Parked {
    /// Waits for the next reason to wake.
    pub(crate) async fn woken(&mut self) -> Woken {
        // The sender lives in the registry until `self` is dropped.
        self.woken.recv().await.unwrap_or(Woken::Look)
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.waiters.0.parked.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn emptiness_waits_for_the_last_seat_and_can_be_asked_again() {
        let waiters = Waiters::new(2, Counter::default());
        let seat = waiters.seat().unwrap();
        let mut empty = std::pin::pin!(waiters.empty());
        assert!(futures_util::poll!(&mut empty).is_pending());
        drop(seat);
        empty.await;
        waiters.empty().await;
        assert_eq!(waiters.seat().unwrap_err(), 2);
    }

    #[tokio::test]
    async fn only_callers_with_the_ticket_wake() {
        let wake_ups = Counter::default();
        let waiters = Waiters::new(3, wake_ups.clone());
        let seat = waiters.seat().unwrap();
        let mut one = seat.park(Ticket(1));
        let mut other = seat.park(Ticket(2));
        let mut same = seat.park(Ticket(1));
        waiters.left(Ticket(1), LossCause::Deleted);
        assert!(matches!(one.woken().await, Woken::Left(LossCause::Deleted)));
        assert!(matches!(same.woken().await, Woken::Left(LossCause::Deleted)));
        assert!(futures_util::poll!(std::pin::pin!(other.woken())).is_pending());
        assert_eq!(wake_ups.get(), 2, "and no other is counted");
        drop((one, other, same));
        assert_eq!(waiters.len(), 0);
    }
}
