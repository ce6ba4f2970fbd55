//! The resource that a lock protects: a counter that rejects stale fencing tokens and records every operation.
//!
//! Check and write are atomic under one mutex. A read also advances the fence mark, so that no stale write is accepted
//! between a holder's read and its write.

use std::sync::{Arc, Mutex};

/// An operation on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOp {
    /// Advance the fence mark and read.
    Read {
        /// Fencing token of the caller.
        token: u64,
        /// False if the token was stale.
        accepted: bool,
    },
    /// Write a value.
    Write {
        /// Fencing token of the caller.
        token: u64,
        /// The value.
        value: u64,
        /// False if the token was stale.
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
    /// Advances the fence mark and reads the value; `None` if the token is stale.
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

    /// The current value.
    pub fn value(&self) -> u64 {
        self.inner.lock().expect("the store").value
    }

    /// All operations so far, in execution order.
    pub fn ops(&self) -> Vec<StoreOp> {
        self.inner.lock().expect("the store").ops.clone()
    }
}
