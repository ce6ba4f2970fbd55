//! The resource a lock protects: a counter that refuses old fencing tokens, and remembers everything it was asked.
//!
//! The check and the write are one step under one mutex. A holder advances the mark before it reads, as the fencing
//! rules demand, so a stale write cannot slip between a read and a write.

use std::sync::{Arc, Mutex};

/// What was asked of the store, in the order it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOp {
    /// Advance the mark and read.
    Read {
        /// The token shown.
        token: u64,
        /// Whether it was let in.
        accepted: bool,
    },
    /// Write a value.
    Write {
        /// The token shown.
        token: u64,
        /// The value.
        value: u64,
        /// Whether it was let in.
        accepted: bool,
    },
}

#[derive(Default)]
struct Inner {
    mark: u64,
    value: u64,
    ops: Vec<StoreOp>,
}

/// A fenced counter. Clones share it.
#[derive(Clone, Default)]
pub struct FencedStore {
    inner: Arc<Mutex<Inner>>,
}

impl FencedStore {
    /// Advances the mark and reads the value; nothing if the token is stale.
    pub fn read(&self, token: u64) -> Option<u64> {
        let mut inner = self.inner.lock().expect("the store");
        let accepted = token >= inner.mark;
        inner.mark = inner.mark.max(token);
        inner.ops.push(StoreOp::Read { token, accepted });
        accepted.then_some(inner.value)
    }

    /// Writes the value; false if the token is stale.
    pub fn write(&self, token: u64, value: u64) -> bool {
        let mut inner = self.inner.lock().expect("the store");
        let accepted = token >= inner.mark;
        if accepted {
            inner.mark = token;
            inner.value = value;
        }
        inner.ops.push(StoreOp::Write { token, value, accepted });
        accepted
    }

    /// The counter now.
    pub fn value(&self) -> u64 {
        self.inner.lock().expect("the store").value
    }

    /// Everything so far.
    pub fn ops(&self) -> Vec<StoreOp> {
        self.inner.lock().expect("the store").ops.clone()
    }
}
