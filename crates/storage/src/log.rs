//! The log: records by index, Raft metadata, and one thread that makes them durable in order.
//!
//! Requests of a [`Log`] go into one bounded queue. The thread takes all queued requests, writes them in batches, syncs
//! once if any of them must be durable, and calls their callbacks in order. Reads run on the caller's thread and use the
//! engine; the log is not kept in memory.
//!
//! Bounds: the queue holds [`LogOptions::queue_bytes_max`] (and always one request), and the thread may hold as much again.
//! A request that does not fit is returned as [`Refused`]. Any disk error is final: every pending and every later call
//! gets it.

mod directory;
mod queue;
mod read;
mod recover;
mod sweep;
mod writer;

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use self::queue::{Queue, Request};
use self::recover::Start;
use self::writer::Writer;
use crate::engine::{Engine, MemoryEngine};
use crate::error::StoreError;
use crate::head::{Head, Span};
use crate::keys::RaftMeta;

pub use self::queue::{Refused, WhenRoom};

/// The longest record, bytes.
pub const RECORD_BYTES_MAX: usize = 4 << 20;
/// The longest value of Raft metadata, bytes.
pub const META_BYTES_MAX: usize = 4 << 10;

/// One entry of the log. Its meaning is the caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Position in the log; the next record has the next number.
    pub index: u64,
    /// Content, at most [`RECORD_BYTES_MAX`] bytes; may be empty.
    pub bytes: Bytes,
}

/// How a request is answered: called once, on the log's thread, in the order of the requests. It must be quick and
/// must not block: the log waits for it.
pub type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The tunables of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Bytes of records that may wait for the log's thread; more are [`Refused`]. Default 32 MiB.
    pub queue_bytes_max: usize,
    /// Bytes of the engine's page cache, which holds several times as much in memory. Default 8 MiB: the log is written
    /// at its end and purged at its beginning, and what is read again soon is cached by the reader.
    pub cache_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { queue_bytes_max: 32 << 20, cache_bytes: 8 << 20 }
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
    /// The engine, until the log is shut down. Held for writing only while records that readers may be looking at go
    /// away, so that a reader never meets a hole.
    engine: RwLock<Option<Box<dyn Engine>>>,
    /// What readers may ask for.
    bounds: Mutex<Bounds>,
    failed: Mutex<Option<StoreError>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Ends the thread with the last handle; the thread itself holds only [`Shared`].
struct Owner {
    shared: Arc<Shared>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bounds {
    purged: Option<u64>,
    span: Option<Span>,
}

impl Log {
    /// Opens the log in `dir` on sled, creating both if there is none, and verifies every record of it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if anything that was acknowledged is missing or changed: the node must not start.
    /// [`StoreError::InUse`], [`StoreError::Io`], [`StoreError::Full`].
    pub fn open(dir: &Path, options: LogOptions) -> Result<Self, StoreError> {
        let start = directory::open(dir, options.cache_bytes)?;
        let log = Self::spawn(start, options)?;
        let (first, last) = log.bounds();
        tracing::info!(dir = %dir.display(), first, last, "log open and verified");
        Ok(log)
    }

    /// A log that forgets everything when it is dropped.
    ///
    /// # Errors
    /// [`StoreError::Io`] if no thread can be started.
    pub fn in_memory() -> Result<Self, StoreError> {
        Self::with_engine(MemoryEngine::default())
    }

    /// A log on any engine, with the default options: the faulty twin for tests, or another database.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_engine(engine: impl Engine) -> Result<Self, StoreError> {
        Self::with_engine_and_options(engine, LogOptions::default())
    }

    /// As [`with_engine`](Self::with_engine), with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_engine_and_options(
        engine: impl Engine,
        options: LogOptions,
    ) -> Result<Self, StoreError> {
        let head = recover::recover(&engine)?;
        let head = head.map_or_else(|| recover::create(&engine), Ok)?;
        Self::spawn(Start { engine: Box::new(engine), head, watermark: None, lock: None }, options)
    }

    fn spawn(start: Start, options: LogOptions) -> Result<Self, StoreError> {
        let Start { engine, head, watermark, lock } = start;
        let shared = Arc::new(Shared {
            queue: Queue::new(options.queue_bytes_max),
            engine: RwLock::new(Some(engine)),
            bounds: Mutex::new(Bounds::of(&head)),
            failed: Mutex::new(None),
            thread: Mutex::new(None),
        });
        let writer = Writer::new(Arc::clone(&shared), head, watermark);
        let thread = thread::Builder::new()
            .name("holdfast-log".to_owned())
            .spawn(move || {
                writer.run();
                drop(lock);
            })
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

    /// Sets a value of Raft metadata (at most [`META_BYTES_MAX`] bytes). If `durable`, `done` is called when it and everything before it
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
    /// changes nothing. `done` is called when it is written, as for [`truncate_after`](Self::truncate_after); the
    /// room is given back little by little.
    ///
    /// # Errors
    /// [`Refused`] as for [`append`](Self::append).
    pub fn purge_through(&self, index: u64, meta: Bytes, done: Done) -> Result<(), Refused> {
        self.submit(Request::Purge { through: index, meta, done })
    }

    /// Records of `range` that are there, in order and without a gap, up to about `bytes_max` bytes, but at least one
    /// if there is any. Shorter than the range means: purged below, not yet written above, or `bytes_max`.
    ///
    /// Reads the engine on the caller's thread; may touch the disk.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for damage, which is final for the whole log; [`StoreError::Io`], [`StoreError::Closed`].
    pub fn read(
        &self,
        range: RangeInclusive<u64>,
        bytes_max: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.shared.on_engine(|engine, bounds| match bounds.span {
            Some(span) => read::records(engine, span, range, bytes_max),
            None => Ok(Vec::new()),
        })
    }

    /// The last written value of Raft metadata; `None` if there is none.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn meta(&self, meta: RaftMeta) -> Result<Option<Bytes>, StoreError> {
        self.shared.on_engine(|engine, _| read::meta(engine, meta))
    }

    /// The first and the last index that [`read`](Self::read) has; both or neither.
    pub fn bounds(&self) -> (Option<u64>, Option<u64>) {
        let span = self.shared.bounds.lock().span;
        (span.map(|span| span.first), span.map(|span| span.last))
    }

    /// The last purged index.
    pub fn purged(&self) -> Option<u64> {
        self.shared.bounds.lock().purged
    }

    /// The last index that [`read`](Self::read) returns. Records appended above it are not written yet: a caller that needs
    /// them keeps a copy until then.
    pub fn written(&self) -> Option<u64> {
        self.shared.bounds.lock().span.map(|span| span.last)
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

    /// Does what is queued, calls its answers, closes the engine and ends the thread. Every later call gets
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

impl Bounds {
    fn of(head: &Head) -> Self {
        Self { purged: head.purged, span: head.span }
    }
}

impl Shared {
    /// Runs a read while no record goes away; a damaged disk closes the log.
    fn on_engine<T>(
        &self,
        read: impl FnOnce(&dyn Engine, Bounds) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let engine = self.engine.read();
        if let Some(error) = self.failed.lock().clone() {
            return Err(error);
        }
        let engine = engine.as_deref().ok_or(StoreError::Closed)?;
        let bounds = *self.bounds.lock();
        read(engine, bounds).inspect_err(|error| self.fail(error))
    }

    /// Closes the log for good if the error says so.
    fn fail(&self, error: &StoreError) {
        if error.is_final() {
            self.close(error);
        }
    }

    /// Closes the log for good. The first error stays.
    fn close(&self, error: &StoreError) {
        let mut failed = self.failed.lock();
        if failed.is_none() {
            tracing::error!(%error, "the log is closed for good");
            *failed = Some(error.clone());
        }
    }
}
