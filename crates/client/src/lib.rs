//! The Rust client: takes locks over HTTP, keeps them alive, and says when they are lost.
//!
//! Owns the rotation over the cluster's nodes, the retries that are safe, and the deadline of what is held, counted
//! from the *sending* of the last acknowledged renewal, so that this side always gives up first. Refuses to know how
//! the cluster works: any node answers for all. Calls name their session, so that sending one again is harmless.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! let client = holdfast_client::Client::new(["127.0.0.1:7400", "127.0.0.1:7410"])?;
//! let guard = client.lock("orders").ttl(Duration::from_secs(30)).wait(Duration::from_secs(10)).acquire().await?;
//! println!("write with token {}", guard.token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! One session a client, renewed at a third of its time-to-live while a guard needs it, and not longer. A
//! [`Guard`] exists only while the lock is held, and what it says of itself is judged by the clock at the moment it
//! is asked: a process that was paused learns of the loss from its own guard. What no client can do is stop a write
//! that is already on its way; that is what the token is for.
//!
//! Queues: none. Each session has one task with one call under way, each guard one task without calls.

mod attempt;
pub mod blocking;
mod calls;
mod claim;
mod client;
mod clock;
mod convert;
mod election;
mod endpoint;
mod error;
mod exchange;
mod guard;
mod guard_all;
mod handover;
mod hold;
mod keeper;
mod lease;
mod limit;
mod listen;
mod lock;
mod loss;
mod nodes;
mod observe;
mod random;
pub mod recipes;
mod request;
mod semaphore;
mod session;
mod sessions;
mod subtree;
#[cfg(test)]
mod tests;
mod together;
mod wanted;

pub use client::{Client, ClientBuilder};
pub use clock::Moment;
pub use election::{Election, Leadership};
pub use endpoint::EndpointError;
pub use error::Error;
pub use guard::Guard;
pub use guard_all::GuardAll;
pub use handover::NotHandedOver;
pub use hold::Hold;
pub use holdfast_api::{ElectionBody, LeaderBody, PolicyParams};
pub use holdfast_types::{
    FencingToken, LockName, Mode, QueueOrder, Revision, SessionName, ZnodePath,
};
pub use lock::Lock;
pub use loss::Loss;
pub use nodes::Node;
pub use observe::{Observed, Observer};
pub use request::ReleaseRequest;
pub use semaphore::{Permit, Semaphore};
pub use session::SessionHandle;
pub use subtree::{Change, Subtree};
pub use together::LockAll;
pub use tokio_util::sync::CancellationToken;

/// The code of the recipes' rules is compiled with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/semantics.md")]
struct Semantics;

/// The code of the guide is compiled with the documentation's tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sdk.md")]
struct Guide;
