//! Latches, barriers, double barriers, counters and groups. Each call has an id of its own, so that sending it again is harmless.
//!
//! Owns waits that are longer than one call: the call is sent again with the same id, which keeps the place. Refuses to
//! know when something opens. Dropping the future of a wait gives the place up, and so does dropping an [`Inside`].

mod barrier;
mod counter;
mod double;
mod group;
mod latch;

use std::time::{Duration, Instant};

use holdfast_types::{NameError, Owner, RecipeName, RequestId};
use reqwest::Method;
use serde::de::DeserializeOwned;

use crate::clock::Moment;
use crate::error::argument;
use crate::session::Use;
use crate::{Client, Error, random};

pub use barrier::Barrier;
pub use counter::Counter;
pub use double::{DoubleBarrier, Inside};
pub use group::{Group, Member, Membership};
pub use latch::Latch;

impl Client {
    /// A latch: counted down once for each key, open at zero.
    pub fn latch(&self, name: impl Into<String>) -> Latch {
        Latch { client: self.clone(), name: name.into() }
    }

    /// A barrier that so many pass together.
    pub fn barrier(&self, name: impl Into<String>, parties: u32) -> Barrier {
        Barrier { client: self.clone(), name: name.into(), parties }
    }

    /// A double barrier that so many enter together and leave together.
    pub fn double_barrier(&self, name: impl Into<String>, parties: u32) -> DoubleBarrier {
        DoubleBarrier { client: self.clone(), name: name.into(), parties }
    }

    /// A counter of 64 bits.
    pub fn counter(&self, name: impl Into<String>) -> Counter {
        Counter { client: self.clone(), name: name.into() }
    }

    /// A group: who is there, each with something to say.
    pub fn group(&self, name: impl Into<String>) -> Group {
        Group { client: self.clone(), name: name.into() }
    }
}

fn checked(name: &str) -> Result<RecipeName, Error> {
    RecipeName::new(name).map_err(argument)
}

/// What names one attempt, and nobody else's.
fn own_request() -> Result<RequestId, Error> {
    named("r", RequestId::new)
}

/// Who arrives: each arrival of one program is one of its own.
fn own_owner() -> Result<Owner, Error> {
    named("a", Owner::new)
}

fn named<T>(kind: &str, new: impl Fn(String) -> Result<T, NameError>) -> Result<T, Error> {
    new(format!("{kind}-{:016x}", random::bits()?)).map_err(argument)
}

/// How long the next call is to wait: as long as is left, and no longer than one call may.
fn slice(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).min(holdfast_api::WAIT_MAX)
}

/// Sends a call that waits, again and again as long as no answer came and there is time left.
async fn ask_until<T: DeserializeOwned>(
    client: &Client,
    used: Option<&Use>,
    (method, until): (Method, Instant),
    target: impl Fn(Duration) -> String,
) -> Result<T, Error> {
    loop {
        let wait = slice(until);
        let ended = client.calls().ask_waiting(method.clone(), target(wait), wait).await;
        let over = Instant::now() >= until;
        let lives = used.is_none_or(|used| used.session().standing(Moment::now()).is_ok());
        match ended.result {
            Ok(answered) => return Ok(answered.body),
            Err(Error::Retry(_) | Error::Unknown(_)) if !over && lives => {}
            Err(error) => return Err(error),
        }
    }
}

/// A place at a barrier that is given up in the background when this is dropped, unless it is settled.
#[derive(Debug)]
struct Place {
    client: Client,
    used: Option<Use>,
    /// Path and query of the DELETE.
    target: String,
}

impl Place {
    /// Nothing is left to be given up.
    fn settle(mut self) -> Option<Use> {
        self.used.take()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(used) = self.used.take() else { return };
        let (client, target) = (self.client.clone(), self.target.clone());
        let runtime = used.session().runtime.clone();
        runtime.spawn(async move {
            while used.session().standing(Moment::now()).is_ok() {
                match client.calls().tell(Method::DELETE, target.clone()).await {
                    Err(Error::Retry(_) | Error::Unknown(_)) => {}
                    Ok(()) | Err(_) => break,
                }
            }
        });
    }
}
