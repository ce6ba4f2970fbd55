//! The log: records by index, Raft metadata, and one thread that makes them durable in order.
//!
//! The log is a list of changes (`change.rs`). Each change is a checksummed frame at the end of the newest segment
//! file (`frame.rs`). The log starts a new segment when one is full, and removes a segment when all its records are
//! purged. The frames determine the records and their locations (`state.rs`); an open computes them again
//! (`recover.rs`). Invariants:
//!
//! - After a crash the log equals a prefix of the frames, which includes every acknowledged frame.
//! - The log thread writes only the newest segment, and only after its last frame.
//! - The first frame of each segment summarizes all segments before it, so that these can be removed.
//!
//! Requests of a [`Log`] enter one bounded queue (`queue.rs`). The thread takes all queued requests, writes their
//! frames, syncs once if a request must be durable, and calls the callbacks in order (`writer.rs`). Reads run on the
//! caller's thread and read the segment files.
//!
//! Bounds: the queue holds [`LogOptions::queue_bytes_max`] (and always one request), and the thread holds up to the
//! same amount; each record takes 16 bytes of memory. The log returns a request that does not fit as [`QueueFull`]. Any
//! disk error is final: every pending and every later call gets it.

mod change;
mod frame;
mod queue;
mod recover;
mod state;
mod writer;

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use prometheus_client::metrics::histogram::Histogram;

use self::queue::{Queue, Request};
use self::state::LogState;
use self::writer::Writer;
use crate::disk::{DirectoryDisk, Disk, FaultyDisk, RecentSyncs, SyncTimes};
use crate::error::StoreError;

pub use self::change::{META_BYTES_MAX, RECORD_BYTES_MAX, RaftMeta, Record};
pub use self::queue::{QueueFull, QueueRoomCallback};

/// The accepted values of [`LogOptions::segment_bytes`].
const SEGMENT_BYTES: RangeInclusive<usize> = 4 << 10..=1 << 30;

/// The completion callback of a request. The log thread calls it once, in the order of the requests. It must be fast
/// and must not block, because it delays the log.
pub type CompletionCallback = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The options of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// The maximum bytes of records in the queue of the log thread; the log rejects more as [`QueueFull`]. Default 32
    /// MiB.
    pub queue_bytes_max: usize,
    /// The size at which a segment file is full. Purges free space in whole segments. Default 8 MiB.
    pub segment_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { queue_bytes_max: 32 << 20, segment_bytes: 8 << 20 }
    }
}

/// A handle to the log; clones share one log. After the drop of the last handle the thread completes the queued
/// requests and ends; [`shutdown`](Self::shutdown) waits for that.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    _owner: Arc<Owner>,
}

/// State shared by the handles and the thread.
struct Shared {
    queue: Queue,
    /// The state that readers see. Only the log thread changes it.
    state: RwLock<LogState>,
    failed: Mutex<Option<StoreError>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    syncs: SyncTimes,
    /// The bytes of a full segment, and of the file of the newest one.
    segment_bytes: u64,
    newest_bytes: AtomicU64,
}

/// Ends the thread when the last handle is dropped; the thread itself holds only [`Shared`].
struct Owner {
    shared: Arc<Shared>,
}

impl Log {
    /// Opens the log in `dir`, creates both if they do not exist, and verifies every record.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if acknowledged data is missing or changed: the node must not start.
    /// [`StoreError::UnknownFormat`], [`StoreError::InUse`], [`StoreError::Io`], [`StoreError::Full`].
    pub fn open(dir: &Path, options: LogOptions) -> Result<Self, StoreError> {
        let log = Self::with_disk_and_options(DirectoryDisk::open(dir)?, options)?;
        let (first, last) = log.bounds();
        tracing::info!(dir = %dir.display(), first, last, "log open and verified");
        Ok(log)
    }

    /// Creates a log in memory. The drop discards its content.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the thread cannot start.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::with_disk(FaultyDisk::default().open())
    }

    /// Opens a log on any disk, with the default options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_disk(disk: impl Disk) -> Result<Self, StoreError> {
        Self::with_disk_and_options(disk, LogOptions::default())
    }

    /// Like [`with_disk`](Self::with_disk), with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_disk_and_options(disk: impl Disk, options: LogOptions) -> Result<Self, StoreError> {
        let (state, tail) = recover::open(&disk)?;
        let segment_bytes =
            options.segment_bytes.clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
        let shared = Arc::new(Shared {
            queue: Queue::new(options.queue_bytes_max),
            state: RwLock::new(state),
            failed: Mutex::new(None),
            thread: Mutex::new(None),
            syncs: SyncTimes::new(),
            segment_bytes: segment_bytes as u64,
            newest_bytes: AtomicU64::new(0),
        });
        let writer = Writer::new(Arc::clone(&shared), Box::new(disk), tail, segment_bytes);
        let thread = thread::Builder::new()
            .name("holdfast-log".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::io("starting the log's thread", &error))?;
        *shared.thread.lock() = Some(thread);
        let owner = Arc::new(Owner { shared: Arc::clone(&shared) });
        Ok(Self { shared, _owner: owner })
    }

    /// Appends records that follow the last record without a gap; the log calls `done` when they are durable. Reads
    /// may return them slightly earlier, see [`written`](Self::written). The first record of a new log may have any
    /// index.
    ///
    /// `done` gets [`StoreError::Misuse`] for a gap and [`StoreError::TooLarge`] for a record above the limit. In both
    /// cases this call writes nothing and the log continues. Every other error is final.
    ///
    /// # Errors
    /// [`QueueFull`] if the queue is full. The log queued nothing and did not call `done`; `QueueFull` contains the
    /// request and `done`.
    pub fn append(&self, records: Vec<Record>, done: CompletionCallback) -> Result<(), QueueFull> {
        self.submit(Request::Append { records, done })
    }

    /// Sets a value of Raft metadata (at most `META_BYTES_MAX` bytes). If `durable`, the log calls `done` when the
    /// value and all earlier requests are durable. Otherwise the log calls `done` after the write, and the next
    /// durable request makes the value durable.
    ///
    /// `done` gets [`StoreError::Misuse`] for [`RaftMeta::Purged`], which only a purge sets.
    ///
    /// # Errors
    /// [`QueueFull`] as for [`append`](Self::append).
    pub fn set_meta(
        &self,
        meta: RaftMeta,
        bytes: Bytes,
        durable: bool,
        done: CompletionCallback,
    ) -> Result<(), QueueFull> {
        self.submit(Request::SetMeta { meta, bytes, durable, lazy: false, done })
    }

    /// Sets a value of Raft metadata without waking the log thread. The log writes the value with the next request, at
    /// the latest at shutdown, and then calls `done`, which must not hold the log.
    ///
    /// # Errors
    /// [`QueueFull`] as for [`append`](Self::append).
    pub fn set_meta_lazily(
        &self,
        meta: RaftMeta,
        bytes: Bytes,
        done: CompletionCallback,
    ) -> Result<(), QueueFull> {
        self.submit(Request::SetMeta { meta, bytes, durable: false, lazy: true, done })
    }

    /// Removes every record after `last_kept`; all records for `None`. The log calls `done` when the removal is durable.
    ///
    /// `done` gets [`StoreError::Misuse`] if `last_kept` is below the purged index.
    ///
    /// # Errors
    /// [`QueueFull`] as for [`append`](Self::append).
    pub fn truncate_after(
        &self,
        last_kept: Option<u64>,
        done: CompletionCallback,
    ) -> Result<(), QueueFull> {
        self.submit(Request::Truncate { last_kept, done })
    }

    /// Removes every record up to `index` (inclusive) and sets [`RaftMeta::Purged`] in the same step. `index` may
    /// exceed the last record: then the log is empty and continues at `index + 1`. An `index` below an earlier purge
    /// has no effect. The log calls `done` when the purge is durable, and then removes the segments without records
    /// one by one.
    ///
    /// # Errors
    /// [`QueueFull`] as for [`append`](Self::append).
    pub fn purge_through(
        &self,
        index: u64,
        meta: Bytes,
        done: CompletionCallback,
    ) -> Result<(), QueueFull> {
        self.submit(Request::Purge { through: index, meta, done })
    }

    /// Completes when the log thread has completed every earlier request. Changes nothing.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub fn probe(&self, done: CompletionCallback) -> Result<(), QueueFull> {
        self.submit(Request::Probe { done })
    }

    /// Returns the records of `range`, in order and without a gap, up to about `bytes_max` bytes, but at least one
    /// record if one exists. A result shorter than the range means: purged at the start, not yet written at the end,
    /// or limited by `bytes_max`.
    ///
    /// Reads the segment files on the caller's thread.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for damage, which closes the whole log; [`StoreError::Io`], [`StoreError::Closed`].
    pub fn read(
        &self,
        range: RangeInclusive<u64>,
        bytes_max: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.check()?;
        // The log never overwrites frames, and an open file stays readable after its removal.
        let found = self.shared.state.read().find(&range, bytes_max);
        let records: Result<_, _> = found.iter().map(state::FoundRecord::read).collect();
        records.inspect_err(|error| self.shared.fail(error))
    }

    /// Makes the next reads of every segment read the disk instead of memory.
    pub fn drop_cached_pages(&self) {
        let segments: Vec<_> = self.shared.state.read().segments.values().cloned().collect();
        for segment in segments {
            segment.drop_cached_pages();
        }
    }

    /// The last written value of Raft metadata; `None` if it was never set.
    ///
    /// # Errors
    /// The error that closed the log.
    pub fn meta(&self, meta: RaftMeta) -> Result<Option<Bytes>, StoreError> {
        self.check()?;
        Ok(self.shared.state.read().metas[usize::from(meta.number())].clone())
    }

    /// The durations of the syncs of segment files.
    pub fn sync_seconds(&self) -> Histogram {
        self.shared.syncs.seconds.clone()
    }

    /// The syncs of the last minute.
    pub fn recent_syncs(&self) -> RecentSyncs {
        self.shared.syncs.recent()
    }

    /// The bytes of the segment files, to within one write for each segment.
    pub fn bytes(&self) -> u64 {
        let full = self.shared.state.read().segments.len().saturating_sub(1) as u64;
        full * self.shared.segment_bytes + self.shared.newest_bytes.load(Ordering::Relaxed)
    }

    /// The first and the last index that [`read`](Self::read) returns; both or neither.
    pub fn bounds(&self) -> (Option<u64>, Option<u64>) {
        let bounds = self.shared.state.read().bounds;
        (bounds.last().map(|_| bounds.first), bounds.last())
    }

    /// The last purged index.
    pub fn purged(&self) -> Option<u64> {
        self.shared.state.read().bounds.purged
    }

    /// The last index that [`read`](Self::read) returns. Records appended above it are not yet written: a caller that
    /// needs them keeps a copy until then.
    pub fn written(&self) -> Option<u64> {
        self.bounds().1
    }

    /// The number of bytes in the queue.
    pub fn queued_bytes(&self) -> usize {
        self.shared.queue.bytes()
    }

    /// Calls `room` once, when the queue has room: immediately, or later from the log thread.
    pub fn on_queue_room(&self, room: QueueRoomCallback) {
        self.shared.queue.on_queue_room(room);
    }

    /// The error that closed the log permanently; `None` while the log works.
    pub fn failed(&self) -> Option<StoreError> {
        self.shared.failed.lock().clone()
    }

    /// Completes the queued requests, closes the disk and ends the thread. Every later call gets
    /// [`StoreError::Closed`]. A call from inside a [`CompletionCallback`] does not wait.
    pub fn shutdown(&self) {
        self.shared.queue.close();
        let thread = self.shared.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the log thread panicked");
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failed().map_or(Ok(()), Err)
    }

    fn submit(&self, request: Request) -> Result<(), QueueFull> {
        self.shared.queue.push(request)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("bounds", &self.bounds()).finish_non_exhaustive()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl Shared {
    /// Closes the log permanently if the error is final. The first error stays.
    fn fail(&self, error: &StoreError) {
        let mut failed = self.failed.lock();
        if failed.is_none() && error.is_final() {
            tracing::error!(%error, "the log is closed permanently");
            *failed = Some(error.clone());
        }
    }
}
