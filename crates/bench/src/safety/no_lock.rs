//! A lock that lets everybody in: what the others are compared with, and what proves that the counting counts.
//!
//! Owns nothing. Refuses nobody.

use std::time::Duration;

use futures_util::future::BoxFuture;
use holdfast_rivals::{Answer, Caveat, Hold, Rival, System, Tally, Trouble};

/// Its name in rows.
pub const NAME: &str = "no-lock";

/// The lock and its clients.
#[derive(Debug)]
pub struct NoLock;

impl System for NoLock {
    fn name(&self) -> &'static str {
        NAME
    }

    fn caveats(&self) -> &'static [Caveat] {
        &[]
    }

    fn client(&self) -> Answer<'_, Box<dyn Rival>> {
        at_once(Box::new(Self) as Box<dyn Rival>)
    }
}

impl Rival for NoLock {
    fn acquire<'a>(&'a mut self, lock: &'a str, _patience: Duration) -> Answer<'a, Hold> {
        at_once(Hold::new(lock, ""))
    }

    fn release(&mut self, _hold: Hold) -> Answer<'_, ()> {
        at_once(())
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

fn at_once<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, Trouble>> {
    Box::pin(async { Ok(value) })
}
