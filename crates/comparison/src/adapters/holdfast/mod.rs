//! Our own lock, as its users reach it: over HTTP, and through the Rust client. Its `ZooKeeper` port is reached by
//! [`crate::adapters::zookeeper`].
//!
//! Owns the two adapters. Clients are spread over the nodes.

mod http;
mod rust_client;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

pub use http::Http;
pub use rust_client::Sdk;

use crate::{Limitation, LockClient, LockError, LockFuture, System};

/// How it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// One call to take, one to release.
    Http,
    /// The Rust client, with its session and its guards.
    Sdk,
}

/// A cluster of ours.
#[derive(Debug)]
pub struct HoldfastSystem {
    door: Door,
    nodes: Vec<SocketAddr>,
    ttl: Duration,
    next: AtomicUsize,
}

impl HoldfastSystem {
    /// These nodes by this door, with sessions of 30 s.
    pub fn new(door: Door, nodes: Vec<SocketAddr>) -> Self {
        Self { door, nodes, ttl: Duration::from_secs(30), next: AtomicUsize::new(0) }
    }

    /// With sessions of another length.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// The nodes, another one first each time.
    fn nodes(&self) -> Vec<SocketAddr> {
        let mut nodes = self.nodes.clone();
        let by = self.next.fetch_add(1, Relaxed) % nodes.len().max(1);
        nodes.rotate_left(by);
        nodes
    }
}

impl System for HoldfastSystem {
    fn name(&self) -> &'static str {
        match self.door {
            Door::Http => "holdfast-http",
            Door::Sdk => "holdfast-sdk",
        }
    }

    /// The holder's late write is what the fence is for.
    fn limitations(&self) -> &'static [Limitation] {
        &[Limitation::ExpiresUnderHolder]
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        Box::pin(async move {
            let nodes = self.nodes();
            let first = nodes.first().ok_or_else(|| LockError::Refused("no nodes".to_owned()))?;
            Ok(match self.door {
                Door::Http => Box::new(Http::new(*first, self.ttl)?) as Box<dyn LockClient>,
                Door::Sdk => Box::new(Sdk::new(&nodes, self.ttl)?),
            })
        })
    }
}
