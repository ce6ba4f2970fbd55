//! Records waits and holds outside of the apply step: durations for the metrics, ended holds for the lock history.
//!
//! `apply` puts records into a bounded queue and never waits. A thread writes them. If the queue is full, the record is
//! dropped and the history is marked incomplete up to its revision.
//!
//! Bounds: [`QUEUE_MAX`] records; the thread takes [`BATCH_MAX`] at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::Thread;
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{Applied, Event, LockEvent, LockName, Revision};
use tokio::sync::oneshot;

use crate::history::contention::Contention;
use crate::history::hold_history::{
    HistoryBounds, HistoryRequest, HistoryResult, HoldHistory, PastHold,
};
use crate::metrics::ServiceMetrics;

const QUEUE_MAX: usize = 16_384;
const BATCH_MAX: usize = 512;
/// How often the thread drains the queue. Only queries and a stop wake it: a wake-up for each hold costs more than
/// the recording.
const DRAIN_INTERVAL: Duration = Duration::from_millis(250);
/// How often written holds are synced to the disk.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// How long after a dropped record the gap is recent.
const GAP_SHOWN: Duration = Duration::from_hours(1);
/// How long a shutdown waits for the thread.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A record, or a request to the thread.
#[derive(Debug)]
enum RecorderItem {
    /// A lock was granted after a wait.
    Waited {
        lock: LockName,
        ms: u64,
    },
    /// A hold ended.
    Held(Box<PastHold>),
    /// Entries up to this revision were skipped.
    Restored(Revision),
    /// A query of the history.
    Query(HistoryRequest, oneshot::Sender<HistoryResult>),
    Stop(oneshot::Sender<()>),
}

#[derive(Debug, Default)]
struct RecorderProgress {
    /// The last revision with a dropped record.
    missed: AtomicU64,
    /// All records up to this revision were put into the queue.
    head: AtomicU64,
    dropped_at: parking_lot::Mutex<Option<Instant>>,
    /// Whether this node records no history until its next start.
    is_off: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct HoldRecorder {
    items: SyncSender<RecorderItem>,
    progress: Arc<RecorderProgress>,
    /// `None` if the thread could not start.
    thread: Option<Thread>,
}

impl HoldRecorder {
    /// Starts the thread. It ends when this handle is dropped, or after [`Self::stop`].
    pub(crate) fn start(
        dir: PathBuf,
        bounds: HistoryBounds,
        contention: Arc<Contention>,
        metrics: ServiceMetrics,
    ) -> Self {
        let (items, queue) = sync_channel(QUEUE_MAX);
        let progress = Arc::<RecorderProgress>::default();
        let (of_writer, history) = (progress.clone(), None);
        let writer = HoldWriter { dir, bounds, contention, metrics, progress: of_writer, history };
        let named = std::thread::Builder::new().name("hold-recorder".to_owned());
        let thread = match named.spawn(move || writer.run(&queue)) {
            Ok(handle) => Some(handle.thread().clone()),
            Err(error) => {
                tracing::error!(%error, "cannot start the thread that records holds: no durations, no lock history");
                None
            }
        };
        Self { items, progress, thread }
    }

    /// Runs inside the apply step; never waits.
    pub(crate) fn on_applied(&self, machine: &Machine, applied: &Applied) {
        for (revision, event) in &applied.events {
            if let Some(item) = item(machine, *revision, event) {
                self.put(item, *revision);
            }
        }
        self.progress.head.store(applied.revision.0, Ordering::Release);
    }

    pub(crate) fn restart(&self, revision: Revision) {
        self.put(RecorderItem::Restored(revision), revision);
        self.progress.head.store(revision.0, Ordering::Release);
    }

    fn put(&self, item: RecorderItem, revision: Revision) {
        if self.items.try_send(item).is_err() {
            self.progress.missed.fetch_max(revision.0, Ordering::Relaxed);
            *self.progress.dropped_at.lock() = Some(Instant::now());
        }
    }

    /// Why the history of this node is incomplete, if that happened within [`GAP_SHOWN`].
    pub(crate) fn recent_gap(&self) -> Option<&'static str> {
        if self.thread.is_none() || self.progress.is_off.load(Ordering::Relaxed) {
            return Some("this node records no lock history until its next start");
        }
        let dropped_at = *self.progress.dropped_at.lock();
        dropped_at
            .filter(|at| at.elapsed() < GAP_SHOWN)
            .map(|_| "this node dropped records of the lock history, because too many waited")
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }

    /// Queries the history, including everything applied before the query. `None` if the queue is full.
    pub(crate) async fn query(&self, query: HistoryRequest) -> Option<HistoryResult> {
        let (reply, found) = oneshot::channel();
        self.items.try_send(RecorderItem::Query(query, reply)).ok()?;
        self.wake();
        found.await.ok()
    }

    /// Writes the queued records and ends the thread.
    pub(crate) async fn stop(&self) {
        let stopped = async {
            let (done, stopped) = oneshot::channel();
            let mut stop = RecorderItem::Stop(done);
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
        let _in_time = tokio::time::timeout(STOP_TIMEOUT, stopped).await;
    }
}

fn item(machine: &Machine, revision: Revision, event: &Event) -> Option<RecorderItem> {
    let Event::Lock(event) = event else { return None };
    match event {
        // The request was granted in its own entry: it did not wait.
        LockEvent::Granted(grant) if grant.ticket.0 == grant.granted_in.0 => None,
        LockEvent::Granted(grant) => {
            machine.waited_ms(grant).map(|ms| RecorderItem::Waited { lock: grant.lock.clone(), ms })
        }
        LockEvent::HoldEnded {
            lock, session, owner, token, granted_at, granted_in, cause, ..
        } => Some(RecorderItem::Held(Box::new(PastHold {
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
        LockEvent::WaitEnded { .. }
        | LockEvent::ModeChanged(_)
        | LockEvent::ValueChanged(_)
        | LockEvent::PolicyChanged { .. }
        | LockEvent::CooldownStarted { .. }
        | LockEvent::CooldownEnded { .. }
        | LockEvent::BrokenByOperator { .. }
        | LockEvent::ReleaseRequested { .. } => None,
    }
}

struct HoldWriter {
    dir: PathBuf,
    bounds: HistoryBounds,
    contention: Arc<Contention>,
    metrics: ServiceMetrics,
    progress: Arc<RecorderProgress>,
    /// `None` while the history cannot be written.
    history: Option<HoldHistory>,
}

/// Items taken from the queue.
struct Drained {
    items: Vec<RecorderItem>,
    /// All records up to this revision were taken; `None` if the queue may have more items.
    all: Option<Revision>,
    /// The queue has no sender left.
    abandoned: bool,
}

impl HoldWriter {
    fn run(mut self, queue: &Receiver<RecorderItem>) {
        let mut opened = false;
        let mut synced = Instant::now();
        let mut more = false;
        loop {
            if !more {
                std::thread::park_timeout(DRAIN_INTERVAL);
            }
            let Drained { items, all, abandoned } = self.drain(queue);
            more = all.is_none();
            if !opened {
                opened = self.open(&items);
            }
            if self.take(items, all) || abandoned {
                return;
            }
            self.contention.halve_if_due(Instant::now());
            if synced.elapsed() >= SYNC_INTERVAL {
                self.with_history(HoldHistory::sync);
                synced = Instant::now();
            }
        }
    }

    /// Takes at most a batch of items.
    fn drain(&self, queue: &Receiver<RecorderItem>) -> Drained {
        let mut items = Vec::new();
        while items.len() < BATCH_MAX {
            // All records up to this revision are in the queue.
            let head = Revision(self.progress.head.load(Ordering::Acquire));
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

    /// Opens the history with the first item: by then the node has verified that it owns the directory.
    fn open(&mut self, items: &[RecorderItem]) -> bool {
        if items.is_empty() {
            return false;
        }
        match HoldHistory::open(&self.dir, self.bounds) {
            Ok(history) => self.history = Some(history),
            Err(error) => {
                tracing::warn!(%error, "cannot open the lock history: this node records none");
                self.progress.is_off.store(true, Ordering::Relaxed);
            }
        }
        true
    }

    /// Records a batch and replies to its queries. Returns true if the node stops.
    fn take(&mut self, items: Vec<RecorderItem>, all: Option<Revision>) -> bool {
        let (mut holds, mut queries, mut stop) = (Vec::new(), Vec::new(), None);
        let mut gap = Revision(self.progress.missed.load(Ordering::Relaxed));
        for item in items {
            match item {
                RecorderItem::Waited { lock, ms } => {
                    self.metrics.wait_seconds.note_ms(ms);
                    self.contention.waited(&lock, ms);
                }
                RecorderItem::Held(hold) => {
                    let ms = hold.until.0.saturating_sub(hold.since.0);
                    self.metrics.hold_seconds.note_ms(ms);
                    self.contention.held(&hold.lock, ms);
                    holds.push(*hold);
                }
                RecorderItem::Restored(revision) => gap = gap.max(self.skipped(revision)),
                RecorderItem::Query(query, reply) => queries.push((query, reply)),
                RecorderItem::Stop(done) => stop = Some(done),
            }
        }
        self.write(&holds, all, gap);
        for (query, reply) in queries {
            // An error means that the caller has disconnected.
            reply.send(self.find(&query)).ok();
        }
        if stop.is_some() {
            self.with_history(HoldHistory::sync);
        }
        stop.is_some()
    }

    /// The revision up to which the history is incomplete after skipped entries.
    fn skipped(&self, revision: Revision) -> Revision {
        match &self.history {
            Some(history) if history.stored() < revision => revision,
            Some(_) | None => Revision(0),
        }
    }

    fn write(&mut self, holds: &[PastHold], all: Option<Revision>, gap: Revision) {
        self.with_history(|history| {
            let has_new_revisions = all.is_some_and(|all| all > history.stored());
            if holds.is_empty() && !has_new_revisions && gap <= history.complete_after() {
                return Ok(());
            }
            history.gap(gap);
            history.add(holds, all)
        });
    }

    fn find(&self, query: &HistoryRequest) -> HistoryResult {
        let head = || Revision(self.progress.head.load(Ordering::Acquire));
        let nothing = || HistoryResult { holds: Vec::new(), complete_after: head() };
        self.history.as_ref().map_or_else(nothing, |history| history.find(query))
    }

    /// Runs `act` on the history. After an error the history stays closed.
    fn with_history(
        &mut self,
        act: impl FnOnce(&mut HoldHistory) -> Result<(), holdfast_storage::StoreError>,
    ) {
        let done = self.history.as_mut().map_or(Ok(()), act);
        if let Err(error) = done {
            tracing::warn!(%error, "cannot write the lock history: this node records none until its next start");
            self.progress.is_off.store(true, Ordering::Relaxed);
            self.history = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    fn start(dir: PathBuf) -> HoldRecorder {
        let bounds = HistoryBounds { holds_max: 10, per_lock_max: 10 };
        let metrics = ServiceMetrics::register(&mut Registry::default());
        HoldRecorder::start(dir, bounds, Arc::default(), metrics)
    }

    #[test]
    fn dropped_records_are_a_recent_gap() {
        let dir = tempfile::tempdir().unwrap();
        let recorder = start(dir.path().join("history"));
        assert_eq!(recorder.recent_gap(), None);
        // The queue fills up between two turns of the thread.
        let full = (1..1_000_000).any(|revision| {
            recorder.restart(Revision(revision));
            recorder.recent_gap().is_some()
        });
        assert!(full, "the queue has a bound");
        assert!(recorder.recent_gap().unwrap().contains("too many waited"));
    }

    #[tokio::test]
    async fn a_history_that_cannot_be_opened_is_a_gap() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let recorder = start(file.path().join("history"));
        recorder.restart(Revision(1));
        recorder.stop().await;
        assert!(recorder.recent_gap().unwrap().contains("until its next start"));
    }
}
