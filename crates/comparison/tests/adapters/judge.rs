//! The judge is judged: a lock that lets everybody in is caught.

use std::sync::Arc;
use std::time::Duration;

use holdfast_comparison::{Hold, Limitation, LockClient, LockFuture, LockUsage, System};

use crate::campaign::campaign;

/// Lets everybody in, with tokens that stand still.
struct Open;

impl System for Open {
    fn name(&self) -> &'static str {
        "open"
    }

    fn limitations(&self) -> &'static [Limitation] {
        &[]
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        Box::pin(async { Ok(Box::new(Open) as Box<dyn LockClient>) })
    }
}

impl LockClient for Open {
    fn acquire<'a>(&'a mut self, lock: &'a str, _patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async { Ok(Hold::new(lock, "").fenced(1)) })
    }

    fn release(&mut self, _hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn usage(&self) -> LockUsage {
        LockUsage { round_trips: 1, ..LockUsage::default() }
    }
}

#[tokio::test]
async fn a_lock_that_excludes_nobody_loses_updates_and_is_caught() {
    let verdict = campaign(Arc::new(Open)).await;
    assert!(verdict.lost > 0 && verdict.overlaps > 0 && verdict.backwards > 0, "{verdict:?}");
}
