//! Latches, barriers, double barriers, counters and groups. Each call has a request id, so that a copy has no effect.
//!
//! A wait that is longer than one call sends the call again with the same id, which keeps the place. Dropping the future of
//! a wait gives the place up, and so does dropping an [`Inside`].

mod barrier;
mod counter;
mod double_barrier;
mod group;
mod latch;

use holdfast_types::{NameError, Owner, RecipeName, RequestId};

use crate::error::argument;
use crate::http::Method;
use crate::retry::Call;
use crate::session::SessionUse;
use crate::{Client, Error, random};

pub use barrier::Barrier;
pub use counter::Counter;
pub use double_barrier::{DoubleBarrier, Inside};
pub use group::{Group, Member, Membership};
pub use latch::Latch;

impl Client {
    /// A latch: counted down once for each key, open at zero.
    pub fn latch(&self, name: impl Into<String>) -> Latch {
        Latch { client: self.clone(), name: name.into() }
    }

    /// A barrier that trips when `parties` callers have arrived.
    pub fn barrier(&self, name: impl Into<String>, parties: u32) -> Barrier {
        Barrier { client: self.clone(), name: name.into(), parties }
    }

    /// A double barrier that `parties` callers enter together and leave together.
    pub fn double_barrier(&self, name: impl Into<String>, parties: u32) -> DoubleBarrier {
        DoubleBarrier { client: self.clone(), name: name.into(), parties }
    }

    /// A counter of 64 bits.
    pub fn counter(&self, name: impl Into<String>) -> Counter {
        Counter { client: self.clone(), name: name.into() }
    }

    /// A group: its members, each with a value.
    pub fn group(&self, name: impl Into<String>) -> Group {
        Group { client: self.clone(), name: name.into() }
    }
}

fn checked_name(name: &str) -> Result<RecipeName, Error> {
    RecipeName::new(name).map_err(argument)
}

fn unique_request() -> Result<RequestId, Error> {
    unique("r", RequestId::new)
}

/// Each arrival of one program is a party of its own.
fn unique_owner() -> Result<Owner, Error> {
    unique("a", Owner::new)
}

fn unique<T>(prefix: &str, new: impl Fn(String) -> Result<T, NameError>) -> Result<T, Error> {
    new(format!("{prefix}-{:016x}", random::bits()?)).map_err(argument)
}

/// A place at a barrier. Dropping it gives the place up in the background, unless it is settled.
#[derive(Debug)]
struct Place {
    client: Client,
    session: Option<SessionUse>,
    /// Path and query of the `DELETE` that gives the place up.
    target: String,
}

impl Place {
    /// Notes that nothing is left to give up.
    fn settle(mut self) {
        self.session = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let (client, target) = (self.client.clone(), std::mem::take(&mut self.target));
        let runtime = session.session().runtime.clone();
        runtime.spawn(async move {
            let call = Call::new(Method::DELETE, target);
            while session.session().is_alive() {
                if !client.calls().send(&call).await.is_err_and(|error| error.is_uncertain()) {
                    break;
                }
            }
        });
    }
}
