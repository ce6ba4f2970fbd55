//! What the storage tests share: blocking calls, contents that can be made again from an index, a gated engine.

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
    Done, Engine, Log, LogOptions, MemoryEngine, Order, RaftMeta, Record, Refused, StoreError,
    Visit, WriteBatch,
};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Calls that wait for their answer.
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

fn wait(call: impl FnOnce(Done) -> Result<(), Refused>) -> Result<(), StoreError> {
    let (answer, answered) = mpsc::channel();
    call(Box::new(move |result| answer.send(result).expect("the caller waits"))).expect("room");
    answered.recv().expect("every request is answered")
}

/// A record whose bytes follow from its index and length.
pub(crate) fn content(index: u64, length: u64) -> Record {
    let mut state = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ length;
    let bytes = (0..length).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    });
    Record { index, bytes: bytes.collect() }
}

/// Every record of a log, read in small pieces.
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

/// Lets the log's thread wait in its first write until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    /// Barriers so far.
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

struct GatedEngine {
    gate: Gate,
    inner: MemoryEngine,
}

/// A log in memory that does nothing until the gate is open.
pub(crate) fn gated_log(options: LogOptions) -> (Gate, Log) {
    let gate = Gate::default();
    let inner = MemoryEngine::default();
    // The head of a new log is written before the gate matters.
    gate.open();
    let engine = GatedEngine { gate: gate.clone(), inner };
    let log = Log::with_engine_and_options(engine, options).expect("open");
    *gate.state.0.lock() = false;
    (gate, log)
}

impl Engine for GatedEngine {
    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.gate.pass();
        self.inner.write(batch)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.gate.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key)
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        order: Order,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.inner.scan(from, to, order, visit)
    }
}
