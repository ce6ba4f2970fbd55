//! A lock without exclusion: the baseline for the others, and the test of the fault counts.

use std::time::Duration;

use crate::lock::{Adapter, HeldLock, LoadUsage, LockClient, LockError, LockKind};

pub const LOCK: LockKind = LockKind {
    name: "no-lock",
    limitations: &[],
    connect: |_| Box::pin(async { Ok(Box::new(NoLock) as Box<dyn LockClient>) }),
};

struct NoLock;

impl Adapter for NoLock {
    async fn acquire(&mut self, lock: &str, _timeout: Duration) -> Result<HeldLock, LockError> {
        Ok(HeldLock::new(lock, ""))
    }

    async fn release(&mut self, _held: HeldLock) -> Result<(), LockError> {
        Ok(())
    }

    fn usage(&self) -> LoadUsage {
        LoadUsage::default()
    }
}
