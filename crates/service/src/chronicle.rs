//! What `apply` tells about holds, taken away from it: a thread of its own counts how long locks are waited for and held.
//!
//! Owns one bounded queue and the thread behind it. The apply step never waits for it: what does not fit is left out, and
//! the revision up to which something was left out is kept, so that nobody takes the rest for the whole. Refuses to
//! touch the machine. Bounds: [`QUEUE_MAX`] items; [`BATCH_MAX`] are taken at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{Applied, Event, LockName};

use crate::contention::Contention;
use crate::metrics::Metrics;

/// Items waiting for the thread.
const QUEUE_MAX: usize = 16_384;
/// Items the thread takes at a time.
const BATCH_MAX: usize = 512;
/// How often the thread looks up when nothing comes.
const TURN: Duration = Duration::from_secs(1);

/// One thing to note.
#[derive(Debug)]
enum Item {
    /// A lock was granted after a wait.
    Waited { lock: LockName, ms: u64 },
    /// A hold ended.
    Held { lock: LockName, ms: u64 },
}

/// The queue's end in the apply step.
#[derive(Debug)]
pub(crate) struct Chronicle {
    items: SyncSender<Item>,
    /// The last revision of which something was left out.
    missed: Arc<AtomicU64>,
}

impl Chronicle {
    /// Starts the thread. It ends with this handle.
    pub(crate) fn start(contention: Arc<Contention>, metrics: Metrics) -> Self {
        let (items, queue) = sync_channel(QUEUE_MAX);
        let scribe = Scribe { contention, metrics };
        let named = std::thread::Builder::new().name("chronicle".to_owned());
        if let Err(error) = named.spawn(move || scribe.run(&queue)) {
            tracing::error!(%error, "no thread for the chronicle: waits and holds are not counted");
        }
        Self { items, missed: Arc::default() }
    }

    /// Notes what an entry changed. Inside the apply step: never waits.
    pub(crate) fn see(&self, machine: &Machine, applied: &Applied) {
        for (revision, event) in &applied.events {
            let item = match event {
                // Granted in the step in which it was asked for: it did not wait.
                Event::Granted(grant) if grant.ticket.0 == grant.granted_in.0 => None,
                Event::Granted(grant) => {
                    machine.waited_ms(grant).map(|ms| Item::Waited { lock: grant.lock.clone(), ms })
                }
                Event::Lost { lock, granted_at, .. } => {
                    let ms = machine.now().0.saturating_sub(granted_at.0);
                    Some(Item::Held { lock: lock.clone(), ms })
                }
                Event::Left { .. }
                | Event::SessionTouched { .. }
                | Event::SessionEnded { .. }
                | Event::NodeCreated { .. }
                | Event::NodeDeleted { .. }
                | Event::NodeChanged { .. }
                | Event::SessionAttached { .. }
                | Event::NodeRegistered { .. }
                | Event::QuotaPassed { .. } => None,
            };
            if let Some(item) = item
                && self.items.try_send(item).is_err()
            {
                self.missed.fetch_max(revision.0, Ordering::Relaxed);
            }
        }
    }
}

/// The thread.
#[derive(Debug)]
struct Scribe {
    contention: Arc<Contention>,
    metrics: Metrics,
}

impl Scribe {
    fn run(self, queue: &Receiver<Item>) {
        loop {
            match queue.recv_timeout(TURN) {
                Ok(first) => {
                    let rest = queue.try_iter().take(BATCH_MAX - 1);
                    std::iter::once(first).chain(rest).for_each(|item| self.note(&item));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.contention.fade(Instant::now());
        }
    }

    fn note(&self, item: &Item) {
        match item {
            Item::Waited { lock, ms } => {
                self.metrics.wait_seconds.note_ms(*ms);
                self.contention.waited(lock, *ms);
            }
            Item::Held { lock, ms } => {
                self.metrics.hold_seconds.note_ms(*ms);
                self.contention.held(lock, *ms);
            }
        }
    }
}
