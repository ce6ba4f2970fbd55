//! The log: records by index, Raft metadata, and one thread that makes them durable in order.
//!
//! The log is a list of changes (`change.rs`), each a checksummed frame at the end of the newest segment file (`frame.rs`). A full segment
//! is followed by a new one; a segment whose records are all purged is removed. Which records there are, and where, is
//! the sum of the frames (`state.rs`), and an open computes it again (`recover.rs`). Invariants:
//!
//! - After a crash the log is the sum of a prefix of the frames, which includes every acknowledged one.
//! - Only the newest segment is written, and only behind its last frame.
//! - The first frame of each segment sums up all segments before it, so that these can be removed.
//!
//! Requests of a [`Log`] go into one bounded queue (`queue.rs`). The thread takes all queued requests, writes their frames,
//! syncs once if any of them must be durable, and calls their callbacks in order (`writer.rs`). Reads run on the caller's
//! thread and read the segment files.
//!
//! Bounds: the queue holds [`LogOptions::queue_bytes_max`] (and always one request), and the thread may hold as much again;
//! 16 bytes in memory for each record. A request that does not fit is returned as [`Refused`]. Any disk error is final: every
//! pending and every later call gets it.

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
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use self::queue::{Queue, Request};
use self::state::LogState;
use self::writer::Writer;
use crate::disk::{DirectoryDisk, Disk, FaultyDisk};
use crate::error::StoreError;
use crate::record::{RaftMeta, Record};

pub use self::queue::{Refused, WhenRoom};

/// Lengths of a segment that [`LogOptions`] can ask for.
const SEGMENT_BYTES: RangeInclusive<usize> = 4 << 10..=1 << 30;

/// How a request is answered: called once, on the log's thread, in the order of the requests. It must be quick and
/// must not block: the log waits for it.
pub type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The tunables of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Bytes of records that may wait for the log's thread; more are [`Refused`]. Default 32 MiB.
    pub queue_bytes_max: usize,
    /// Bytes after which a segment file is full. Purged records give their space back by whole segments. Default 8 MiB.
    pub segment_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { queue_bytes_max: 32 << 20, segment_bytes: 8 << 20 }
    }
}

/// A handle to the log; clones are the same log. When the last one is dropped the thread does what is queued
/// and ends; [`shutdown`](Self::shutdown) waits for that.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
    _owner: Arc<Owner>,
}

/// What the handles and the thread share.
struct Shared {
    queue: Queue,
    /// What readers see. Only the log's thread changes it.
    state: RwLock<LogState>,
    failed: Mutex<Option<StoreError>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Ends the thread with the last handle; the thread itself holds only [`Shared`].
struct Owner {
    shared: Arc<Shared>,
}

impl Log {
    /// Opens the log in `dir`, creating both if there is none, and verifies every record of it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if anything that was acknowledged is missing or changed: the node must not start.
    /// [`StoreError::UnknownFormat`], [`StoreError::InUse`], [`StoreError::Io`], [`StoreError::Full`].
    pub fn open(dir: &Path, options: LogOptions) -> Result<Self, StoreError> {
        let log = Self::with_disk_and_options(DirectoryDisk::open(dir)?, options)?;
        let (first, last) = log.bounds();
        tracing::info!(dir = %dir.display(), first, last, "log open and verified");
        Ok(log)
    }

    /// A log that forgets everything when it is dropped.
    ///
    /// # Errors
    /// [`StoreError::Io`] if no thread can be started.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::with_disk(FaultyDisk::default().open())
    }

    /// A log on any disk, with the default options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_disk(disk: impl Disk) -> Result<Self, StoreError> {
        Self::with_disk_and_options(disk, LogOptions::default())
    }

    /// As [`with_disk`](Self::with_disk), with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_disk_and_options(disk: impl Disk, options: LogOptions) -> Result<Self, StoreError> {
        let (state, tail) = recover::open(&disk)?;
        let shared = Arc::new(Shared {
            queue: Queue::new(options.queue_bytes_max),
            state: RwLock::new(state),
            failed: Mutex::new(None),
            thread: Mutex::new(None),
        });
        let segment_bytes =
            options.segment_bytes.clamp(*SEGMENT_BYTES.start(), *SEGMENT_BYTES.end());
        let writer = Writer::new(Arc::clone(&shared), Box::new(disk), tail, segment_bytes);
        let thread = thread::Builder::new()
            .name("holdfast-log".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::io("starting the log's thread", &error))?;
        *shared.thread.lock() = Some(thread);
        let owner = Arc::new(Owner { shared: Arc::clone(&shared) });
        Ok(Self { shared, _owner: owner })
    }

    /// Appends records that follow the last one without a gap; `done` is called when they are durable. They can be
    /// read a little before, see [`written`](Self::written). The first record of a log that never had one may have
    /// any index.
    ///
    /// `done` gets [`StoreError::Misuse`] for a gap and [`StoreError::TooLarge`] for a record too long; then nothing
    /// of this call was written and the log goes on. Every other error is final.
    ///
    /// # Errors
    /// [`Refused`] if the queue is full: nothing was queued, `done` was not called, both are inside.
    pub fn append(&self, records: Vec<Record>, done: Done) -> Result<(), Refused> {
        self.submit(Request::Append { records, done })
    }

    /// Sets a value of Raft metadata (at most `META_BYTES_MAX` bytes). If `durable`, `done` is called when it and everything before it
    /// is; otherwise when it is written, and it becomes durable with whatever comes later.
    ///
    /// `done` gets [`StoreError::Misuse`] for [`RaftMeta::Purged`], which only a purge sets.
    ///
    /// # Errors
    /// [`Refused`] as for [`append`](Self::append).
    pub fn set_meta(
        &self,
        meta: RaftMeta,
        bytes: Bytes,
        durable: bool,
        done: Done,
    ) -> Result<(), Refused> {
        self.submit(Request::SetMeta { meta, bytes, durable, lazy: false, done })
    }

    /// Sets a value of Raft metadata without a waiting caller: it is written with whatever comes next, at the latest when the log is shut
    /// down, and does not wake the log's thread. `done` is called then; it must not hold the log.
    ///
    /// # Errors
    /// [`Refused`] as for [`append`](Self::append).
    pub fn note_meta(&self, meta: RaftMeta, bytes: Bytes, done: Done) -> Result<(), Refused> {
        self.submit(Request::SetMeta { meta, bytes, durable: false, lazy: true, done })
    }

    /// Removes every record after `last_kept`; all of them for `None`. `done` is called when it is written: the order
    /// against later requests holds on the disk as well, durability comes with the next durable one.
    ///
    /// `done` gets [`StoreError::Misuse`] if `last_kept` is below what was purged.
    ///
    /// # Errors
    /// [`Refused`] as for [`append`](Self::append).
    pub fn truncate_after(&self, last_kept: Option<u64>, done: Done) -> Result<(), Refused> {
        self.submit(Request::Truncate { last_kept, done })
    }

    /// Removes every record up to `index` (inclusive) and sets [`RaftMeta::Purged`] in the same step. `index` may be
    /// beyond the last record: then the log is empty and goes on at `index + 1`. An `index` below an earlier purge
    /// changes nothing. `done` is called when it is durable; then the
    /// segments without a record are removed one by one.
    ///
    /// # Errors
    /// [`Refused`] as for [`append`](Self::append).
    pub fn purge_through(&self, index: u64, meta: Bytes, done: Done) -> Result<(), Refused> {
        self.submit(Request::Purge { through: index, meta, done })
    }

    /// Records of `range` that are there, in order and without a gap, up to about `bytes_max` bytes, but at least one
    /// if there is any. Shorter than the range means: purged below, not yet written above, or `bytes_max`.
    ///
    /// Reads the segment files on the caller's thread.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for damage, which is final for the whole log; [`StoreError::Io`], [`StoreError::Closed`].
    pub fn read(
        &self,
        range: RangeInclusive<u64>,
        bytes_max: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.check()?;
        // Frames are never overwritten, and an open file can be read after its removal.
        let found = self.shared.state.read().find(&range, bytes_max);
        let records: Result<_, _> = found.iter().map(state::FoundRecord::read).collect();
        records.inspect_err(|error| self.shared.fail(error))
    }

    /// The last written value of Raft metadata; `None` if there is none.
    ///
    /// # Errors
    /// The error that closed the log.
    pub fn meta(&self, meta: RaftMeta) -> Result<Option<Bytes>, StoreError> {
        self.check()?;
        Ok(self.shared.state.read().metas[usize::from(meta.number())].clone())
    }

    /// The first and the last index that [`read`](Self::read) has; both or neither.
    pub fn bounds(&self) -> (Option<u64>, Option<u64>) {
        let bounds = self.shared.state.read().bounds;
        (bounds.last().map(|_| bounds.first), bounds.last())
    }

    /// The last purged index.
    pub fn purged(&self) -> Option<u64> {
        self.shared.state.read().bounds.purged
    }

    /// The last index that [`read`](Self::read) returns. Records appended above it are not written yet: a caller that needs
    /// them keeps a copy until then.
    pub fn written(&self) -> Option<u64> {
        self.bounds().1
    }

    /// Bytes waiting in the queue.
    pub fn queued_bytes(&self) -> usize {
        self.shared.queue.bytes()
    }

    /// Calls `room` once, as soon as the queue has room again: at once, or from the log's thread.
    pub fn when_room(&self, room: WhenRoom) {
        self.shared.queue.when_room(room);
    }

    /// Why the log is closed for good; `None` while it works.
    pub fn failed(&self) -> Option<StoreError> {
        self.shared.failed.lock().clone()
    }

    /// Does what is queued, calls its answers, closes the disk and ends the thread. Every later call gets
    /// [`StoreError::Closed`]. Called from inside a [`Done`] it does not wait.
    pub fn shutdown(&self) {
        self.shared.queue.close();
        let thread = self.shared.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the log's thread ended by a panic");
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failed().map_or(Ok(()), Err)
    }

    fn submit(&self, request: Request) -> Result<(), Refused> {
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
    /// Closes the log for good if the error says so. The first error stays.
    fn fail(&self, error: &StoreError) {
        let mut failed = self.failed.lock();
        if failed.is_none() && error.is_final() {
            tracing::error!(%error, "the log is closed for good");
            *failed = Some(error.clone());
        }
    }
}
