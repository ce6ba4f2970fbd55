//! A test of the campaign itself: it detects a lock without exclusion.

use std::time::Duration;

use holdfast_measure::lock::{Connector, HeldLock, LoadUsage, LockClient, LockFuture};

use crate::campaign::campaign;

/// A lock without exclusion; its tokens do not grow.
struct OpenLock;

impl LockClient for OpenLock {
    fn acquire<'a>(&'a mut self, lock: &'a str, _timeout: Duration) -> LockFuture<'a, HeldLock> {
        Box::pin(async { Ok(HeldLock::new(lock, "").with_token(1)) })
    }

    fn release(&mut self, _held: HeldLock) -> LockFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn usage(&self) -> LoadUsage {
        LoadUsage { round_trips: 1, ..LoadUsage::default() }
    }
}

#[tokio::test]
async fn a_lock_that_excludes_nobody_loses_updates_and_is_caught() {
    let connector =
        Connector::new(|_| Box::pin(async { Ok(Box::new(OpenLock) as Box<dyn LockClient>) }));
    let verdict = campaign(&connector).await;
    assert!(verdict.lost > 0 && verdict.overlaps > 0 && verdict.backwards > 0, "{verdict:?}");
}
