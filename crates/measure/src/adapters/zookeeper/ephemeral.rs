//! The simple lock: the client that creates the ephemeral node holds it. All others watch that node, and all of them
//! wake at its deletion.

use std::time::Duration;

use holdfast_zkwire::CreateMode;

use super::{ZooKeeperError, ZooKeeperSession, connect, directory};
use crate::limitation::Limitation::{ExpiresUnderHolder, NoToken, Unfair, WakesAll};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind};
use crate::wait::Deadline;

pub const LOCK: LockKind = LockKind {
    name: "zookeeper-ephemeral",
    limitations: &[WakesAll, Unfair, NoToken, ExpiresUnderHolder],
    connect: |target| connect(target, EphemeralNode::new),
};

#[derive(Debug)]
pub struct EphemeralNode {
    session: ZooKeeperSession,
}

impl EphemeralNode {
    pub fn new(session: ZooKeeperSession) -> Self {
        Self { session }
    }
}

impl Adapter for EphemeralNode {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let (deadline, path) = (Deadline::after(timeout), format!("{}/holder", directory(lock)));
        loop {
            match self.session.create(&path, CreateMode::Ephemeral).await {
                Ok(_) => return Ok(HeldLock::new(lock, path)),
                Err(ZooKeeperError::Missing) => self.session.create_parents(&path).await?,
                Err(ZooKeeperError::Exists) => {
                    if self.session.watch(&path).await? {
                        self.session.next_event(deadline).await?;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        Ok(self.session.delete(&held.owner).await?)
    }

    fn usage(&self) -> LoadUsage {
        self.session.usage()
    }
}
