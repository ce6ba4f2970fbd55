//! Where a waiter stands: boards with the order of a lock's queue, for those who asked to be told.
//!
//! Owns one board a lock that somebody follows: read anew when the lock changes, at most once in [`PACE`], and shared by
//! all who follow it, so that a release wakes one task and not every waiter. Refuses to grant anything: a board is
//! information, and may be late. Bounds: a board has as many places as the lock has waiters; one task a lock that is
//! followed, which ends with its last follower. Followers have the seats of their calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_types::{Event, HolderView, LockName, Revision, Ticket, WaiterView};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::contention::WaitEstimate;
use crate::service::Service;

/// A board is read at most this often.
const PACE: Duration = Duration::from_millis(250);
/// And at least this often: a newcomer with priority is no event of those it overtakes.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How many of those ahead are named.
const NAMED_MAX: usize = 10;

/// The queue of one lock, as this node has it.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// From 1.
    places: HashMap<Ticket, u32>,
    holder: Option<HolderView>,
    first: Vec<WaiterView>,
    waiting: u32,
    revision: Revision,
}

#[derive(Debug)]
struct Line {
    changed: Arc<Notify>,
    board: watch::Sender<Arc<Board>>,
}

/// All locks whose queues are followed.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    by_lock: Mutex<BTreeMap<LockName, Line>>,
    /// How many, for those who need no lock to know that there are none.
    count: AtomicUsize,
}

/// Where a waiter stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    /// Which lock.
    pub lock: LockName,
    /// 1 is the next in line.
    pub position: u32,
    /// How many wait in all.
    pub waiting: u32,
    /// Who holds the lock.
    pub holder: Option<HolderView>,
    /// The first of those who wait before it.
    pub ahead: Vec<WaiterView>,
    /// How long it may take, from the holds that this node has seen.
    pub estimate: Option<WaitEstimate>,
    /// When that was so.
    pub revision: Revision,
}

/// One waiter's view of the board of its lock.
#[derive(Debug)]
pub(crate) struct Following {
    service: Service,
    lock: LockName,
    ticket: Ticket,
    board: watch::Receiver<Arc<Board>>,
    told: Option<u32>,
}

impl Lines {
    /// Something happened. Inside the apply step.
    pub(crate) fn see(&self, event: &Event) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Event::Lock(event) = event else { return };
        if let Some(line) = self.by_lock.lock().get(event.lock()) {
            line.changed.notify_one();
        }
    }

    /// Follows a place in a queue.
    pub(crate) fn follow(&self, service: &Service, lock: &LockName, ticket: Ticket) -> Following {
        let mut by_lock = self.by_lock.lock();
        let board = if let Some(line) = by_lock.get(lock) {
            line.changed.notify_one();
            line.board.subscribe()
        } else {
            let (sender, board) = watch::channel(Arc::default());
            let changed = Arc::new(Notify::new());
            let line = Line { changed: changed.clone(), board: sender.clone() };
            by_lock.insert(lock.clone(), line);
            self.count.store(by_lock.len(), Ordering::Relaxed);
            tokio::spawn(keep(service.clone(), lock.clone(), changed, sender));
            board
        };
        Following { service: service.clone(), lock: lock.clone(), ticket, board, told: None }
    }

    /// Takes a board away if nobody follows it any more.
    fn end(&self, lock: &LockName) -> bool {
        let mut by_lock = self.by_lock.lock();
        let followed = by_lock.get(lock).is_some_and(|line| line.board.receiver_count() > 0);
        if !followed {
            by_lock.remove(lock);
            self.count.store(by_lock.len(), Ordering::Relaxed);
        }
        !followed
    }
}

/// Keeps one board as long as somebody follows it.
async fn keep(
    service: Service,
    lock: LockName,
    changed: Arc<Notify>,
    sender: watch::Sender<Arc<Board>>,
) {
    loop {
        if sender.receiver_count() == 0 && service.lines().end(&lock) {
            return;
        }
        sender.send_replace(Arc::new(read(&service, &lock)));
        tokio::select! {
            () = sender.closed() => continue,
            () = tokio::time::sleep(PACE) => {}
        }
        tokio::select! {
            () = sender.closed() => {}
            () = changed.notified() => {}
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
}

fn read(service: &Service, lock: &LockName) -> Board {
    let (tickets, view, revision) = service.raft().read(|machine| {
        let queue = machine.queue(lock, usize::MAX);
        (queue, machine.lock(lock, NAMED_MAX), machine.revision())
    });
    Board {
        places: tickets.into_iter().zip(1..).collect(),
        holder: view.holder().cloned(),
        first: view.waiters,
        waiting: view.waiters_total,
        revision,
    }
}

impl Following {
    /// Resolves when the waiter stands somewhere else than told before, at first as soon as it is known. Never
    /// resolves for a place that is no more. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> QueuePosition {
        loop {
            let found = {
                let board = self.board.borrow_and_update();
                let place = board.places.get(&self.ticket).copied();
                place.filter(|place| self.told != Some(*place)).map(|place| (place, board.clone()))
            };
            if let Some((place, board)) = found {
                self.told = Some(place);
                return self.position(place, &board);
            }
            if self.board.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn position(&self, position: u32, board: &Board) -> QueuePosition {
        let before = |waiter: &&WaiterView| waiter.ticket != self.ticket;
        let now = self.service.log_time();
        let held_since = board.holder.as_ref().map(|holder| (holder.granted_at, now));
        QueuePosition {
            lock: self.lock.clone(),
            position,
            waiting: board.waiting,
            holder: board.holder.clone(),
            ahead: board.first.iter().take_while(before).cloned().collect(),
            estimate: self.service.lock_times().estimate(&self.lock, position, held_since),
            revision: board.revision,
        }
    }
}
