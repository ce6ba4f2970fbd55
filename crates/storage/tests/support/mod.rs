//! Shared code of the storage tests: blocking calls, reproducible contents, a gated disk.

#![allow(dead_code, reason = "each test target uses a part")]
#![allow(
    clippy::allow_attributes,
    reason = "an expectation would fail in the targets that use all of it"
)]

pub(crate) mod model;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use holdfast_storage::{
    CompletionCallback, Disk, FaultyDisk, Log, LogOptions, OpenFaultyDisk, QueueFull, RaftMeta,
    Record, SegmentFile, StoreError,
};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Calls that block until their completion.
pub(crate) trait Driver {
    fn do_append(&self, records: Vec<Record>) -> Result<(), StoreError>;
    fn do_meta(&self, meta: RaftMeta, bytes: &[u8], durable: bool) -> Result<(), StoreError>;
    fn do_truncate(&self, last_kept: Option<u64>) -> Result<(), StoreError>;
    fn do_purge(&self, through: u64, meta: &str) -> Result<(), StoreError>;
}

impl Driver for Log {
    fn do_append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        wait(|done| self.append(records, done))
    }

    fn do_meta(&self, meta: RaftMeta, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
        wait(|done| self.set_meta(meta, Bytes::copy_from_slice(bytes), durable, done))
    }

    fn do_truncate(&self, last_kept: Option<u64>) -> Result<(), StoreError> {
        wait(|done| self.truncate_after(last_kept, done))
    }

    fn do_purge(&self, through: u64, meta: &str) -> Result<(), StoreError> {
        wait(|done| self.purge_through(through, Bytes::copy_from_slice(meta.as_bytes()), done))
    }
}

fn wait(call: impl FnOnce(CompletionCallback) -> Result<(), QueueFull>) -> Result<(), StoreError> {
    let (answer, answered) = mpsc::channel();
    call(Box::new(move |result| answer.send(result).expect("the caller waits"))).expect("room");
    answered.recv().expect("every request is answered")
}

/// A record with bytes determined by its index and length.
pub(crate) fn content(index: u64, length: u64) -> Record {
    let mut state = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ length;
    let bytes = (0..length).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    });
    Record { index, bytes: bytes.collect() }
}

/// Returns every record of a log, read in small pieces.
pub(crate) fn records(log: &Log) -> Vec<Record> {
    let mut all: Vec<Record> = Vec::new();
    let (first, last) = log.bounds();
    let (Some(mut next), Some(last)) = (first, last) else { return all };
    while next <= last {
        let some = log.read(next..=last, 3_000).expect("read");
        next += some.len() as u64;
        all.extend(some);
    }
    all
}

/// Blocks the log thread in its first write until the gate is open.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    /// The number of syncs so far.
    pub(crate) syncs: Arc<AtomicU64>,
    state: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.state.0.lock() = true;
        self.state.1.notify_all();
    }

    fn pass(&self) {
        let mut open = self.state.0.lock();
        while !*open {
            self.state.1.wait(&mut open);
        }
    }
}

/// A gated disk, or a segment file of it.
struct Gated<T> {
    gate: Gate,
    inner: T,
}

/// A log in memory that blocks until the gate is open.
pub(crate) fn gated_log(options: LogOptions) -> (Gate, Log) {
    let gate = Gate::default();
    let disk = Gated { gate: gate.clone(), inner: FaultyDisk::default().open() };
    let log = Log::with_disk_and_options(disk, options).expect("open");
    (gate, log)
}

impl Gated<OpenFaultyDisk> {
    fn segment(&self, inner: Arc<dyn SegmentFile>) -> Arc<dyn SegmentFile> {
        Arc::new(Gated { gate: self.gate.clone(), inner })
    }
}

impl Disk for Gated<OpenFaultyDisk> {
    fn segments(&self) -> Result<Vec<u32>, StoreError> {
        self.inner.segments()
    }

    fn open(&self, number: u32) -> Result<Arc<dyn SegmentFile>, StoreError> {
        self.inner.open(number).map(|file| self.segment(file))
    }

    fn create(&self, number: u32, content: &[u8]) -> Result<Arc<dyn SegmentFile>, StoreError> {
        self.inner.create(number, content).map(|file| self.segment(file))
    }

    fn remove(&self, number: u32) -> Result<(), StoreError> {
        self.inner.remove(number)
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }

    fn raise_watermark(&self, frames: u64) -> Result<(), StoreError> {
        self.inner.raise_watermark(frames)
    }
}

impl SegmentFile for Gated<Arc<dyn SegmentFile>> {
    fn read_all(&self) -> Result<Bytes, StoreError> {
        self.inner.read_all()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, StoreError> {
        self.inner.read_at(offset, len)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.gate.pass();
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.gate.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync()
    }
}
