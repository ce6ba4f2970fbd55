//! Locks on `ZooKeeper`: the recipe of Curator, and the simple ephemeral node. Both also stand before our own port.
//!
//! Owns the systems. Clients are spread over the nodes, each with a session of its own.

mod curator;
mod ephemeral;
mod session;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

pub use curator::Curator;
pub use ephemeral::Ephemeral;
pub use session::{Session, ZooKeeperError};

use crate::{Limitation, LockClient, LockError, LockFuture, System};

/// A session's timeout, unless it is said otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Which of the recipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// A numbered child, watching the one before it.
    Curator,
    /// One node that everybody tries to make, and everybody watches.
    Ephemeral,
}

/// One of the locks on a cluster.
#[derive(Debug)]
pub struct ZooKeeperSystem {
    name: &'static str,
    recipe: Recipe,
    nodes: Vec<SocketAddr>,
    timeout: Duration,
    next: AtomicUsize,
}

impl ZooKeeperSystem {
    /// On these nodes; `name` tells `ZooKeeper` and our own port apart.
    pub fn new(name: &'static str, recipe: Recipe, nodes: Vec<SocketAddr>) -> Self {
        Self { name, recipe, nodes, timeout: TIMEOUT, next: AtomicUsize::new(0) }
    }

    /// With sessions of another length.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// A session at the next node.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if it does not answer.
    pub async fn session(&self) -> Result<Session, LockError> {
        let at = self.next.fetch_add(1, Relaxed) % self.nodes.len().max(1);
        let node = self.nodes.get(at).ok_or_else(|| LockError::Refused("no nodes".to_owned()))?;
        Session::open(*node, self.timeout).await
    }
}

impl System for ZooKeeperSystem {
    fn name(&self) -> &'static str {
        self.name
    }

    fn limitations(&self) -> &'static [Limitation] {
        match self.recipe {
            Recipe::Curator => Curator::LIMITATIONS,
            Recipe::Ephemeral => Ephemeral::LIMITATIONS,
        }
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        Box::pin(async move {
            let session = self.session().await?;
            Ok(match self.recipe {
                Recipe::Curator => Box::new(Curator::new(session)) as Box<dyn LockClient>,
                Recipe::Ephemeral => Box::new(Ephemeral::new(session)),
            })
        })
    }
}
