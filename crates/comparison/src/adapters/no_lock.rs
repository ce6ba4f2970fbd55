//! A lock that lets everybody in: what the others are compared with, and what proves that the counting counts.
//!
//! Owns nothing. Refuses nobody.

use std::time::Duration;

use crate::{Hold, Limitation, LockClient, LockError, LockFuture, LockUsage, System};
use futures_util::future::BoxFuture;

/// Its name in rows.
pub const NAME: &str = "no-lock";

/// The lock and its clients.
#[derive(Debug)]
pub struct NoLock;

impl System for NoLock {
    fn name(&self) -> &'static str {
        NAME
    }

    fn limitations(&self) -> &'static [Limitation] {
        &[]
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        at_once(Box::new(Self) as Box<dyn LockClient>)
    }
}

impl LockClient for NoLock {
    fn acquire<'a>(&'a mut self, lock: &'a str, _patience: Duration) -> LockFuture<'a, Hold> {
        at_once(Hold::new(lock, ""))
    }

    fn release(&mut self, _hold: Hold) -> LockFuture<'_, ()> {
        at_once(())
    }

    fn usage(&self) -> LockUsage {
        LockUsage::default()
    }
}

fn at_once<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, LockError>> {
    Box::pin(async { Ok(value) })
}
