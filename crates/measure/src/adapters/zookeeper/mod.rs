//! Locks on ZooKeeper: Curator's recipe and the simple ephemeral node. Curator's recipe also runs against holdfast's
//! ZooKeeper port.

pub mod curator;
pub mod ephemeral;
mod session;

pub use curator::Curator;
pub use ephemeral::EphemeralNode;
pub use session::{ZooKeeperError, ZooKeeperSession};

use crate::lock::{LockClient, LockFuture, Target};

/// Opens a client with its own session at the first node.
fn connect<C: LockClient + 'static>(
    target: Target,
    client: fn(ZooKeeperSession) -> C,
) -> LockFuture<'static, Box<dyn LockClient>> {
    Box::pin(async move {
        let session = ZooKeeperSession::open(target.node()?, target.settings.ttl).await?;
        Ok(Box::new(client(session)) as Box<dyn LockClient>)
    })
}

/// The znode of a lock: below `/locks`, unless the lock is a path.
fn directory(lock: &str) -> String {
    if lock.starts_with('/') { lock.to_owned() } else { format!("/locks/{lock}") }
}
