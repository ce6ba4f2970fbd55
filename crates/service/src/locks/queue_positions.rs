//! Queue positions of waiting callers that requested them.
//!
//! A watcher reads its first position as soon as this node has applied its queue entry. After that one task per lock
//! reads the queue after a change, at most once in [`READ_INTERVAL_MIN`], for all watching callers. So a release wakes
//! one task instead of every waiter. Positions are informational and may be late.
//!
//! Bounds: one task for each watched lock, which ends with its last watcher; one position per waiter. The waiter
//! permits of the calls bound the watchers.

use std::sync::Arc;
use std::time::Duration;

use holdfast_types::{
    EntryState, HolderView, LockName, Owner, Revision, SessionName, Ticket, WaiterView,
};
use tokio::sync::watch;

use crate::history::contention::WaitEstimate;
use crate::locks::watched_queues::{QueueContents, WatchedQueue};
use crate::service::Service;

/// The shortest time between two reads of one queue.
const READ_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// The longest time between two reads: an arrival with priority moves waiters without an event.
const READ_INTERVAL_MAX: Duration = Duration::from_secs(2);
/// The maximum number of waiters in [`QueuePosition::ahead`].
const AHEAD_MAX: usize = 10;

/// The position of a waiter in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePosition {
    pub lock: LockName,
    /// Starts at 1.
    pub position: u32,
    /// All waiters of the lock.
    pub waiting: u32,
    pub holder: Option<HolderView>,
    /// The first waiters of the queue that are ahead of this one.
    pub ahead: Vec<WaiterView>,
    /// Computed from the holds that this node has recorded.
    pub estimate: Option<WaitEstimate>,
    /// The revision at which the queue was read.
    pub revision: Revision,
}

/// Reports the positions of one waiter.
#[derive(Debug)]
pub(crate) struct PositionWatcher {
    service: Service,
    lock: LockName,
    ticket: Ticket,
    session: SessionName,
    owner: Owner,
    contents: watch::Receiver<Arc<QueueContents>>,
    reported: Option<u32>,
}

impl Service {
    /// Starts to report the position of a waiter.
    pub(crate) fn watch_position(
        &self,
        lock: &LockName,
        ticket: Ticket,
        session: SessionName,
        owner: Owner,
    ) -> PositionWatcher {
        let (contents, new) = self.observer().watched_queues.subscribe(lock);
        if let Some(queue) = new {
            tokio::spawn(publish_contents(self.clone(), lock.clone(), queue));
        }
        PositionWatcher {
            service: self.clone(),
            lock: lock.clone(),
            ticket,
            session,
            owner,
            contents,
            reported: None,
        }
    }
}

/// Publishes the contents of one queue until it has no subscribers.
async fn publish_contents(service: Service, lock: LockName, queue: WatchedQueue) {
    let WatchedQueue { changed, contents } = queue;
    loop {
        if contents.receiver_count() == 0
            && service.observer().watched_queues.remove_if_unused(&lock)
        {
            return;
        }
        contents.send_replace(Arc::new(read(&service, &lock)));
        tokio::select! {
            () = contents.closed() => continue,
            () = tokio::time::sleep(READ_INTERVAL_MIN) => {}
        }
        tokio::select! {
            () = contents.closed() => {}
            () = changed.notified() => {}
            () = tokio::time::sleep(READ_INTERVAL_MAX) => {}
        }
    }
}

fn read(service: &Service, lock: &LockName) -> QueueContents {
    let (tickets, view, revision) = service.raft().read(|machine| {
        let queue = machine.queue(lock, usize::MAX);
        (queue, machine.lock(lock, AHEAD_MAX), machine.revision())
    });
    QueueContents {
        positions: tickets.into_iter().zip(1..).collect(),
        ..QueueContents::of(view, revision)
    }
}

impl PositionWatcher {
    /// Resolves with the first position, and then with each changed position. Never resolves after the waiter has left
    /// the queue. Dropping the future loses no position.
    pub(crate) async fn next(&mut self) -> QueuePosition {
        if self.reported.is_none()
            && let Some((position, contents)) = self.first().await
        {
            self.reported = Some(position);
            return self.position(position, &contents);
        }
        loop {
            let found = {
                let contents = self.contents.borrow_and_update();
                let position = contents.positions.get(&self.ticket).copied();
                position
                    .filter(|position| self.reported != Some(*position))
                    .map(|position| (position, contents.clone()))
            };
            if let Some((position, contents)) = found {
                self.reported = Some(position);
                return self.position(position, &contents);
            }
            if self.contents.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the position now; `None` if the caller does not wait any more.
    pub(crate) async fn now(&self) -> Option<QueuePosition> {
        let (position, contents) = self.first().await?;
        Some(self.position(position, &contents))
    }

    /// Waits until this node has applied the entry. A follower may receive the leader's reply before the entry.
    async fn first(&self) -> Option<(u32, QueueContents)> {
        let (service, entry_in) = (&self.service, Revision(self.ticket.0));
        service.observer().applied_waiters.wait(entry_in, || service.revision()).await;
        let lock = self.lock.clone().into();
        let (entry, view, revision) = service.raft().read(|machine| {
            let entry = machine.entry_state(&lock, &self.session, &self.owner, Some(self.ticket));
            (entry, machine.lock(&self.lock, AHEAD_MAX), machine.revision())
        });
        let Some(EntryState::Waiting(queued)) = entry else { return None };
        let own = queued.iter().find(|queued| queued.ticket == self.ticket)?;
        Some((own.ahead + 1, QueueContents::of(view, revision)))
    }

    fn position(&self, position: u32, contents: &QueueContents) -> QueuePosition {
        let before = |waiter: &&WaiterView| waiter.ticket != self.ticket;
        let now = self.service.log_time();
        let held_since = contents.holder.as_ref().map(|holder| (holder.granted_at, now));
        let mut ahead: Vec<_> = contents.first.iter().take_while(before).cloned().collect();
        self.service.raft().read(|machine| self.service.hide_locks_of(machine, &mut ahead));
        QueuePosition {
            lock: self.lock.clone(),
            position,
            waiting: contents.waiting,
            holder: contents.holder.clone(),
            ahead,
            estimate: self.service.observer().contention.estimate(&self.lock, position, held_since),
            revision: contents.revision,
        }
    }
}
