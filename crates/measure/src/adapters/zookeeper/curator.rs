//! The recipe of Curator's mutex: ephemeral sequential children. The lowest child holds the lock, and each waiter
//! watches the child before its own.
//!
//! ZooKeeper assigns the sequence number at the enqueue, and restarts the numbers after a deletion of the lock's
//! directory. As a fencing token the number is valid only while the directory exists. A disconnected client continues
//! until it detects the loss.

use std::time::Duration;

use holdfast_zkwire::CreateMode;

use super::{ZooKeeperError, ZooKeeperSession, connect, directory};
use crate::limitation::Limitation::{ExpiresUnderHolder, TokenFromEnqueue, TokenNotDurable};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, Target};
use crate::wait::Deadline;

pub const LOCK: LockKind = LockKind {
    name: "zookeeper-curator",
    limitations: &[ExpiresUnderHolder, TokenFromEnqueue, TokenNotDurable],
    connect: |target| connect(target, Curator::new),
};

/// The same recipe on holdfast's ZooKeeper port.
pub const HOLDFAST: LockKind = LockKind {
    name: "holdfast-zookeeper",
    connect: |mut target: Target| {
        target.addresses.nodes.clone_from(&target.addresses.zookeeper);
        connect(target, Curator::new)
    },
    ..LOCK
};

#[derive(Debug)]
pub struct Curator {
    session: ZooKeeperSession,
}

impl Curator {
    pub fn new(session: ZooKeeperSession) -> Self {
        Self { session }
    }

    pub fn session(&self) -> &ZooKeeperSession {
        &self.session
    }

    /// Creates the child, and its directory if it is missing; returns the path of the child.
    async fn enqueue(&self, directory: &str) -> Result<String, ZooKeeperError> {
        let path = format!("{directory}/lock-");
        match self.session.create(&path, CreateMode::EphemeralSequential).await {
            Err(ZooKeeperError::Missing) => {
                self.session.create_parents(&path).await?;
                self.session.create(&path, CreateMode::EphemeralSequential).await
            }
            created => created,
        }
    }

    /// Waits until the child is the lowest.
    async fn wait(
        &mut self,
        directory: &str,
        child: &str,
        deadline: Deadline,
    ) -> Result<(), LockError> {
        loop {
            let mut names = self.session.children(directory).await?;
            names.sort_unstable();
            let name = child.rsplit('/').next().unwrap_or_default();
            let Some(at) = names.iter().position(|other| other == name) else {
                return Err(LockError::Lost("the child in the queue no longer exists".to_owned()));
            };
            let Some(before) = at.checked_sub(1).and_then(|at| names.get(at)) else {
                return Ok(());
            };
            if self.session.watch_data(&format!("{directory}/{before}")).await? {
                self.session.next_event(deadline).await?;
            }
        }
    }
}

impl Adapter for Curator {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let (deadline, directory) = (Deadline::after(timeout), directory(lock));
        let child = self.enqueue(&directory).await?;
        match self.wait(&directory, &child, deadline).await {
            Ok(()) => {
                let token = child.rsplit('-').next().and_then(|number| number.parse().ok());
                Ok(HeldLock { token, ..HeldLock::new(lock, child) })
            }
            Err(LockError::Busy) => {
                self.session.delete(&child).await?;
                Err(LockError::Busy)
            }
            Err(error) => Err(error),
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        Ok(self.session.delete(&held.owner).await?)
    }

    fn usage(&self) -> LoadUsage {
        self.session.usage()
    }
}
