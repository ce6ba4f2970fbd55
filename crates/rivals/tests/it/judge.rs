//! The judge is judged: a lock that lets everybody in is caught.

use std::sync::Arc;
use std::time::Duration;

use holdfast_rivals::{Answer, Caveat, Hold, Rival, System, Tally};

use crate::campaign::campaign;

/// Lets everybody in, with tokens that stand still.
struct Open;

impl System for Open {
    fn name(&self) -> &'static str {
        "open"
    }

    fn caveats(&self) -> &'static [Caveat] {
        &[]
    }

    fn client(&self) -> Answer<'_, Box<dyn Rival>> {
        Box::pin(async { Ok(Box::new(Open) as Box<dyn Rival>) })
    }
}

impl Rival for Open {
    fn acquire<'a>(&'a mut self, lock: &'a str, _patience: Duration) -> Answer<'a, Hold> {
        Box::pin(async { Ok(Hold::new(lock, "").fenced(1)) })
    }

    fn release(&mut self, _hold: Hold) -> Answer<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn tally(&self) -> Tally {
        Tally { round_trips: 1, ..Tally::default() }
    }
}

#[tokio::test]
async fn a_lock_that_excludes_nobody_loses_updates_and_is_caught() {
    let verdict = campaign(Arc::new(Open)).await;
    assert!(verdict.lost > 0 && verdict.overlaps > 0 && verdict.backwards > 0, "{verdict:?}");
}
