//! The Rust client: acquires locks over HTTP, renews them, and reports when they are lost.
//!
//! Any node accepts calls, and retries are safe because every call names its session. A hold's deadline counts from the
//! *sending* of the last acknowledged renewal. If no renewal succeeds, the client therefore reports the loss before the
//! cluster grants the lock to another client.
//!
//! ```toml
//! [dependencies]
//! holdfast-client = "0.1"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use holdfast_client::Client;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::new(["10.0.0.1:7400", "10.0.0.2:7400", "10.0.0.3:7400"])?;
//!     let guard = client.lock("orders").timeout(Duration::from_secs(30)).acquire().await?;
//!     guard.ensure()?;
//!     println!("UPDATE orders SET state = 'sent', fence = {0} WHERE id = 1 AND fence <= {0}", guard.token());
//!     guard.release().await?;
//!     Ok(())
//! }
//! ```
//!
//! | intent | method |
//! |---|---|
//! | acquire a lock, and wait without bound | [`Client::lock`], [`Lock::acquire`] |
//! | wait for at most 30 s | [`Lock::timeout`] |
//! | acquire only a free lock | [`Lock::try_acquire`] |
//! | run a closure under a lock, cancelled at the loss | [`Client::with_lock`] |
//! | check the lock before each write | [`Guard::ensure`](Hold::ensure) |
//! | reject stale writes in the store | [`Guard::token`](Hold::token) |
//! | react to a late renewal | [`Guard::at_risk`](Hold::at_risk) |
//! | react to the loss | [`Guard::lost`](Hold::lost), [`Guard::cancel_token`] |
//! | react to a release request | [`Guard::release_requested`](Hold::release_requested) |
//! | release the lock if the work hangs | [`Lock::progress_timeout`], [`Guard::report_progress`](Hold::report_progress) |
//! | bound the hold | [`Lock::max_hold`] |
//! | several readers, one writer | [`Lock::shared`], [`Lock::upgradable`], [`Guard::upgrade`] |
//! | at most N holders | [`Client::semaphore`] |
//! | several locks, all or none | [`Client::lock_many`] |
//! | one of N shards of a hot resource | [`Lock::shards`] |
//! | elect a leader | [`Client::election`], [`Election::campaign`], [`Election::observe`] |
//! | transfer a lock to another session | [`Guard::transfer`], [`Lock::receive_transfer`] |
//! | latches, barriers, counters, groups | [`recipes`] |
//! | a cache of a subtree | [`Client::subtree`] |
//! | read or force-release any lock | [`Client::lock_state`], [`Client::force_release`] |
//! | without an async runtime | [`blocking::Client`] |
//!
//! [`Lock::acquire`] waits without bound unless [`Lock::timeout`] is set. Each variant of [`Error`] is one decision of
//! the caller, each variant of [`Loss`] one cause.
//!
//! A client has one session, renewed while a guard needs it, and no longer. A [`Guard`] exists only while the lock is
//! held. Its methods compare the clock with the deadline on each call, so a process that was paused sees the loss in
//! its own guard. No client can stop a write that is already in flight; the fencing token protects against it.
//!
//! # Tracing
//!
//! The crate emits spans and events of the `tracing` crate at level debug. Their targets start with `holdfast_client`.
//!
//! | span | fields | duration |
//! |---|---|---|
//! | `acquire` | `lock`, `session`, `attempt` | one acquire or re-entry, from the call to its result |
//! | `release` | `lock`, `session`, `background` | one release; `background` is set after the drop of a guard |
//! | `renew` | `session` | the renewal of one session, from its first to its last use |
//! | `transfer`, `receive_transfer` | `lock`, `session`, `to` | one transfer |
//!
//! A failed call has an event with its error. The events `lock lost`, `session over` and `renewal failed` have the
//! cause. Neither a successful renewal nor a repetition of a call has a span or an event.
//!
//! Queues: none. Each session has one task with one call in flight; each guard has one task without calls.

pub mod blocking;
mod calls;
mod client;
mod clock;
mod election;
mod error;
pub mod http;
mod locks;
mod numbers;
mod observer;
pub mod recipes;
mod sessions;
mod subtree;
#[cfg(test)]
mod tests;
mod tree;

pub use calls::access_token::AccessToken;
pub use calls::call::{Call, Copies};
pub use calls::send::Download;
pub use client::{Client, ClientBuilder};
pub use clock::Moment;
pub use election::{Election, Leadership};
pub use error::{Error, Loss};
/// The bodies and the error codes of the HTTP API, which some methods return.
pub use holdfast_api as api;
pub use holdfast_api::{ElectionBody, LeaderBody};
pub use holdfast_types::{
    FencingToken, LockName, Mode, PolicyChange, QueueOrder, Reason, RequestRelease, Revision,
    SessionName, ZnodePath,
};
pub use http::EndpointError;
pub use locks::guard::{Guard, MultiGuard};
pub use locks::hold::Hold;
pub use locks::hold_limits::ReleaseRequest;
pub use locks::lock::{Lock, Many, MultiLock, One};
pub use locks::lock_calls::LockQuery;
pub use locks::transfer::TransferError;
pub use numbers::with_request_number;
pub use observer::{ElectionChange, Observer};
pub use sessions::session::SessionHandle;
pub use subtree::{Subtree, SubtreeChange};
pub use tokio_util::sync::CancellationToken;
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
