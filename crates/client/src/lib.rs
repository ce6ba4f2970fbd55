//! The Rust client: takes locks over HTTP, keeps them alive, and says when they are lost.
//!
//! Owns the rotation over the cluster's nodes, the retries that are safe, and the deadline of a held lock, counted
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
//! Queues: none. Each guard has one task with one call under way.

mod acquire;
mod client;
mod endpoint;
mod error;
mod exchange;
mod guard;
#[cfg(test)]
mod tests;

pub use acquire::Acquire;
pub use client::Client;
pub use endpoint::EndpointError;
pub use error::Error;
pub use guard::{Guard, Loss};
