//! Latches, barriers, double barriers, counters and groups. Calls have a request number, so a late copy of a call has
//! no effect.
//!
//! A wait that is longer than one call repeats the call with the same id, which keeps the place. Dropping the future of
//! a wait, or an [`DoubleBarrierGuard`], gives up the place.

mod barrier;
mod counter;
mod group;
mod latch;

use holdfast_types::RecipeName;

use crate::error::argument;
use crate::{Client, Error};

pub use barrier::{Barrier, DoubleBarrier, DoubleBarrierGuard};
pub use counter::Counter;
pub use group::{Group, GroupMember, Membership};
pub use latch::Latch;

impl Client {
    /// Prepares a latch, which counts down once for each key and opens at zero.
    pub fn latch(&self, name: impl Into<String>) -> Latch {
        Latch { client: self.clone(), name: name.into() }
    }

    /// Prepares a barrier that trips when `parties` callers have arrived.
    pub fn barrier(&self, name: impl Into<String>, parties: u32) -> Barrier {
        Barrier { client: self.clone(), name: name.into(), parties }
    }

    /// Prepares a double barrier that `parties` callers enter together and leave together.
    pub fn double_barrier(&self, name: impl Into<String>, parties: u32) -> DoubleBarrier {
        DoubleBarrier { client: self.clone(), name: name.into(), parties }
    }

    /// Prepares a counter of 64 bits.
    pub fn counter(&self, name: impl Into<String>) -> Counter {
        Counter { client: self.clone(), name: name.into() }
    }

    /// Prepares a group of members, each with a value.
    pub fn group(&self, name: impl Into<String>) -> Group {
        Group { client: self.clone(), name: name.into() }
    }
}

fn checked_name(name: &str) -> Result<RecipeName, Error> {
    RecipeName::new(name).map_err(argument)
}
