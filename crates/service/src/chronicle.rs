//! What `apply` tells about holds, taken away from it: a thread of its own counts how long locks are waited for and held,
//! and writes the holds that are over into the node's history.
//!
//! Owns one bounded queue and the thread behind it. The apply step never waits for it: what does not fit is left out, and
//! the revision up to which something was left out is kept, so that nobody takes the rest for the whole. Refuses to touch
//! the machine. Bounds: [`QUEUE_MAX`] items; [`BATCH_MAX`] are taken at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::Thread;
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{Applied, Event, LockEvent, LockName, Revision};
use tokio::sync::oneshot;

use crate::contention::Contention;
use crate::history::{Archive, Found, HistoryBounds, PastHold, Question};
use crate::metrics::Metrics;

/// Items waiting for the thread.
const QUEUE_MAX: usize = 16_384;
/// Items the thread takes at a time.
const BATCH_MAX: usize = 512;
/// How often the thread looks what has come. It is woken for questions alone: to be woken for each hold would cost the
/// node more than the rest of the chronicle.
const TURN: Duration = Duration::from_millis(250);
/// How often what was written is made to survive the end of the process and a power cut, if there is anything.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// How long a node that stops waits for its history.
const STOPPING: Duration = Duration::from_secs(2);

/// One thing to note, or to say.
#[derive(Debug)]
enum Item {
    /// A lock was granted after a wait.
    Waited { lock: LockName, ms: u64 },
    /// A hold ended.
    Held(Box<PastHold>),
    /// The machine is at this revision, and nobody saw how it came there.
    Restored(Revision),
    /// What is known of a lock?
    Ask(Question, oneshot::Sender<Found>),
    /// The node stops.
    Stop(oneshot::Sender<()>),
}

/// Where the history is kept, and how much of it.
#[derive(Clone, Debug)]
pub(crate) struct Keep {
    pub(crate) dir: PathBuf,
    pub(crate) bounds: HistoryBounds,
}

#[derive(Debug, Default)]
struct Shared {
    /// The last revision of which something was left out.
    missed: AtomicU64,
    /// Everything up to here is in the queue, or has been.
    head: AtomicU64,
}

/// The queue's end in the apply step.
#[derive(Debug)]
pub(crate) struct Chronicle {
    items: SyncSender<Item>,
    shared: Arc<Shared>,
    /// None if there is no thread.
    thread: Option<Thread>,
}

impl Chronicle {
    /// Starts the thread. It ends with this handle, or when it is told to.
    pub(crate) fn start(keep: Keep, contention: Arc<Contention>, metrics: Metrics) -> Self {
        let (items, queue) = sync_channel(QUEUE_MAX);
        let shared = Arc::<Shared>::default();
        let scribe = Scribe { contention, metrics, shared: shared.clone(), archive: None };
        let named = std::thread::Builder::new().name("chronicle".to_owned());
        let thread = match named.spawn(move || scribe.run(&keep, &queue)) {
            Ok(handle) => Some(handle.thread().clone()),
            Err(error) => {
                tracing::error!(%error, "no thread for the chronicle: waits and holds are not noted");
                None
            }
        };
        Self { items, shared, thread }
    }

    /// Notes what an entry changed. Inside the apply step: never waits.
    pub(crate) fn see(&self, machine: &Machine, applied: &Applied) {
        for (revision, event) in &applied.events {
            if let Some(item) = item(machine, *revision, event) {
                self.put(item, *revision);
            }
        }
        self.shared.head.store(applied.revision.0, Ordering::Release);
    }

    /// Entries were skipped.
    pub(crate) fn restart(&self, revision: Revision) {
        self.put(Item::Restored(revision), revision);
        self.shared.head.store(revision.0, Ordering::Release);
    }

    fn put(&self, item: Item, revision: Revision) {
        if self.items.try_send(item).is_err() {
            self.shared.missed.fetch_max(revision.0, Ordering::Relaxed);
        }
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }

    /// What is known of a lock, of all that was applied before the question. None if there is no room for it.
    pub(crate) async fn ask(&self, question: Question) -> Option<Found> {
        let (reply, found) = oneshot::channel();
        self.items.try_send(Item::Ask(question, reply)).ok()?;
        self.wake();
        found.await.ok()
    }

    /// Writes what is in the queue, and ends the thread.
    pub(crate) async fn stop(&self) {
        let stopped = async {
            let (done, stopped) = oneshot::channel();
            let mut stop = Item::Stop(done);
            while let Err(error) = self.items.try_send(stop) {
                stop = match error {
                    std::sync::mpsc::TrySendError::Full(stop) => stop,
                    std::sync::mpsc::TrySendError::Disconnected(_) => return,
                };
                self.wake();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            self.wake();
            // An error means that the thread has ended.
            let _ended = stopped.await;
        };
        let _in_time = tokio::time::timeout(STOPPING, stopped).await;
    }
}

fn item(machine: &Machine, revision: Revision, event: &Event) -> Option<Item> {
    match event {
        // Granted in the step in which it was asked for: it did not wait.
        Event::Lock(LockEvent::Granted(grant)) if grant.ticket.0 == grant.granted_in.0 => None,
        Event::Lock(LockEvent::Granted(grant)) => {
            machine.waited_ms(grant).map(|ms| Item::Waited { lock: grant.lock.clone(), ms })
        }
        Event::Lock(LockEvent::HoldEnded {
            lock,
            session,
            owner,
            token,
            granted_at,
            granted_in,
            cause,
            ..
        }) => Some(Item::Held(Box::new(PastHold {
            lock: lock.clone(),
            session: session.clone(),
            owner: owner.clone(),
            token: *token,
            since: *granted_at,
            granted_in: *granted_in,
            until: machine.now(),
            ended_in: revision,
            cause: *cause,
        }))),
        Event::Lock(
            LockEvent::WaitEnded { .. }
            | LockEvent::ModeChanged(_)
            | LockEvent::ValueChanged(_)
            | LockEvent::PolicyChanged { .. }
            | LockEvent::CooldownStarted { .. }
            | LockEvent::CooldownEnded { .. }
            | LockEvent::BrokenByOperator { .. }
            | LockEvent::ReleaseRequested { .. },
        )
        | Event::Session(_)
        | Event::Tree(_)
        | Event::Recipe(_)
        | Event::NodeRegistered { .. } => None,
    }
}

/// The thread.
struct Scribe {
    contention: Arc<Contention>,
    metrics: Metrics,
    shared: Arc<Shared>,
    /// None while the history cannot be kept.
    archive: Option<Archive>,
}

/// What was in the queue.
struct Drained {
    items: Vec<Item>,
    /// Up to where nothing is left in it; none if there may be more.
    all: Option<Revision>,
    /// Nobody puts anything into it any more.
    abandoned: bool,
}

impl Scribe {
    fn run(mut self, keep: &Keep, queue: &Receiver<Item>) {
        let mut opened = false;
        let mut synced = Instant::now();
        let mut more = false;
        loop {
            if !more {
                std::thread::park_timeout(TURN);
            }
            let Drained { items, all, abandoned } = self.drain(queue);
            more = all.is_none();
            if !opened {
                opened = self.open(keep, &items);
            }
            if self.take(items, all) || abandoned {
                return;
            }
            self.contention.fade(Instant::now());
            if synced.elapsed() >= SYNC_EVERY {
                self.with_archive(Archive::sync);
                synced = Instant::now();
            }
        }
    }

    /// Takes what is in the queue, up to a batch.
    fn drain(&self, queue: &Receiver<Item>) -> Drained {
        let mut items = Vec::new();
        while items.len() < BATCH_MAX {
            // Everything up to here has been put into the queue.
            let head = Revision(self.shared.head.load(Ordering::Acquire));
            match queue.try_recv() {
                Ok(item) => items.push(item),
                Err(error) => {
                    let abandoned = error == TryRecvError::Disconnected;
                    return Drained { items, all: Some(head), abandoned };
                }
            }
        }
        Drained { items, all: None, abandoned: false }
    }

    /// Opens the archive with the first thing to note: by then the node has found that the directory is its own.
    fn open(&mut self, keep: &Keep, items: &[Item]) -> bool {
        if items.is_empty() {
            return false;
        }
        match Archive::open(&keep.dir, keep.bounds) {
            Ok(archive) => self.archive = Some(archive),
            Err(error) => tracing::warn!(%error, "this node keeps no history of locks"),
        }
        true
    }

    /// Notes a batch and answers the questions in it. True if the node stops.
    fn take(&mut self, items: Vec<Item>, all: Option<Revision>) -> bool {
        let (mut holds, mut questions, mut stop) = (Vec::new(), Vec::new(), None);
        let mut gap = Revision(self.shared.missed.load(Ordering::Relaxed));
        for item in items {
            match item {
                Item::Waited { lock, ms } => {
                    self.metrics.wait_seconds.note_ms(ms);
                    self.contention.waited(&lock, ms);
                }
                Item::Held(hold) => {
                    let ms = hold.until.0.saturating_sub(hold.since.0);
                    self.metrics.hold_seconds.note_ms(ms);
                    self.contention.held(&hold.lock, ms);
                    holds.push(*hold);
                }
                Item::Restored(revision) => gap = gap.max(self.skipped(revision)),
                Item::Ask(question, reply) => questions.push((question, reply)),
                Item::Stop(done) => stop = Some(done),
            }
        }
        self.write(&holds, all, gap);
        for (question, reply) in questions {
            // An error means that nobody waits for it any more.
            reply.send(self.find(&question)).ok();
        }
        if stop.is_some() {
            self.with_archive(Archive::sync);
        }
        stop.is_some()
    }

    /// Up to where something is missing, of a machine that came to a revision unseen.
    fn skipped(&self, revision: Revision) -> Revision {
        match &self.archive {
            Some(archive) if archive.stored() < revision => revision,
            Some(_) | None => Revision(0),
        }
    }

    fn write(&mut self, holds: &[PastHold], all: Option<Revision>, gap: Revision) {
        self.with_archive(|archive| {
            let news = all.is_some_and(|all| all > archive.stored());
            if holds.is_empty() && !news && gap <= archive.complete_after() {
                return Ok(());
            }
            archive.gap(gap);
            archive.add(holds, all)
        });
    }

    fn find(&self, question: &Question) -> Found {
        let head = || Revision(self.shared.head.load(Ordering::Acquire));
        let nothing = || Found { holds: Vec::new(), complete_after: head() };
        self.archive.as_ref().map_or_else(nothing, |archive| archive.find(question))
    }

    /// Does something with the archive. After an error it is not touched any more.
    fn with_archive(
        &mut self,
        act: impl FnOnce(&mut Archive) -> Result<(), holdfast_storage::StoreError>,
    ) {
        let done = self.archive.as_mut().map_or(Ok(()), act);
        if let Err(error) = done {
            tracing::warn!(%error, "this node keeps no history of locks until it is started again");
            self.archive = None;
        }
    }
}
