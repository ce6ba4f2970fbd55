//! The Rust client: acquires locks over HTTP, keeps them alive, and reports when they are lost.
//!
//! Any node accepts calls, and retries are safe because every call names its session. A hold's deadline counts from the
//! *sending* of the last acknowledged renewal. The client therefore always reports the loss before the cluster grants
//! the lock to another client.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! let client = holdfast_client::Client::new(["127.0.0.1:7400", "127.0.0.1:7410"])?;
//! let guard = client.lock("orders").ttl(Duration::from_secs(30)).timeout(Duration::from_secs(10)).acquire().await?;
//! println!("write with token {}", guard.token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A client has one session, renewed at a third of its time-to-live while a guard needs it, and no longer. A [`Guard`]
//! exists only while the lock is held. Its methods compare the clock with the deadline on each call, so a process that
//! was paused sees the loss in its own guard. No client can stop a write that is already in flight; the fencing token
//! protects against it.
//!
//! Queues: none. Each session has one task with one call in flight; each guard has one task without calls.

mod acquire;
mod attempt;
pub mod blocking;
mod calls;
mod client;
mod clock;
mod election;
mod error;
mod error_text;
mod guard;
mod held_locks;
mod hold;
mod hold_limits;
pub mod http;
mod lease;
#[cfg(feature = "load")]
pub mod load;
mod lock;
mod lock_calls;
mod lock_request;
mod loss;
mod mode_change;
mod multi_guard;
mod observer;
mod queue_entry;
mod random;
pub mod recipes;
mod release_request;
mod renewal;
mod retry;
mod session;
mod session_events;
mod sessions;
mod spans;
mod subtree;
#[cfg(test)]
mod tests;
mod transfer;
mod tree;

pub use client::{Client, ClientBuilder};
pub use clock::Moment;
pub use election::{Election, Leadership};
pub use error::Error;
pub use guard::Guard;
pub use hold::Hold;
pub use holdfast_api::{ElectionBody, LeaderBody};
pub use holdfast_types::{
    FencingToken, LockName, Mode, PolicyChange, QueueOrder, Reason, RequestRelease, Revision,
    SessionName, ZnodePath,
};
pub use http::EndpointError;
pub use lock::{Lock, Many, MultiLock, One};
pub use lock_calls::LockQuery;
pub use loss::Loss;
pub use multi_guard::MultiGuard;
pub use observer::{ElectionChange, Observer};
pub use release_request::ReleaseRequest;
pub use retry::Call;
pub use session::SessionHandle;
pub use subtree::{Subtree, SubtreeChange};
pub use tokio_util::sync::CancellationToken;
pub use transfer::TransferError;
pub use tree::CachedZnode;

/// The doctests compile the code of this page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/semantics.md")]
struct Semantics;

/// The doctests compile the code of this page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The doctests compile the code of this page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sdk.md")]
struct Guide;
