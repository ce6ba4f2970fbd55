//! Latches, barriers, double barriers, counters and groups. Calls have a request number, so a late copy of a call has
//! no effect.
//!
//! A wait that is longer than one call repeats the call with the same id, which keeps the place. Dropping the future of
//! a wait, or an [`DoubleBarrierGuard`], gives up the place.

mod barrier;
mod counter;
mod double_barrier;
mod group;
mod latch;

use holdfast_api::Query;
use holdfast_api::parameters::recipe::LEFT_ARRIVAL;
use holdfast_types::{NameError, Owner, RecipeName, RequestNumber};

use crate::calls::call::Call;
use crate::error::argument;
use crate::http::Method;
use crate::sessions::session::SessionUse;
use crate::{Client, Error, numbers};

pub use barrier::Barrier;
pub use counter::Counter;
pub use double_barrier::{DoubleBarrier, DoubleBarrierGuard};
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

/// Builds the owner of one arrival, so that several arrivals of one program are separate parties.
fn unique_owner() -> Result<Owner, Error> {
    unique("a", Owner::new)
}

fn unique<T>(prefix: &str, new: impl Fn(String) -> Result<T, NameError>) -> Result<T, Error> {
    new(format!("{prefix}-{:016x}", numbers::bits()?)).map_err(argument)
}

/// A place at a barrier. Dropping it gives up the place in the background, unless `disarm` was called.
#[derive(Debug)]
struct BarrierEntry {
    client: Client,
    session: Option<SessionUse>,
    /// Path and query of the `DELETE` that gives up the place.
    target: String,
    /// The number of an arrival that may still wait, or may not have arrived.
    arrival: Option<RequestNumber>,
}

impl BarrierEntry {
    /// Drops the place without a call, because the cluster no longer has it.
    fn disarm(mut self) {
        self.session = None;
    }
}

impl Drop for BarrierEntry {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let client = self.client.clone();
        let withdrawal = self.arrival.map(|arrival| {
            let query = Query::default().with(&LEFT_ARRIVAL, &arrival).target("");
            format!("{}{}", self.target, query.replacen('?', "&", 1))
        });
        let targets = withdrawal.into_iter().chain([std::mem::take(&mut self.target)]);
        let targets: Vec<String> = targets.collect();
        let (pending, runtime) =
            (session.session().pending.clone(), session.session().runtime.clone());
        let withdraw = async move {
            for target in targets {
                let call = Call::new(Method::DELETE, target);
                if session.session().is_alive() {
                    let is_needed = || session.session().is_alive();
                    client.calls().send_until_certain(&call, is_needed).await;
                }
            }
        };
        pending.spawn_on(withdraw, &runtime);
    }
}
