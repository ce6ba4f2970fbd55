//! The simple lock: whoever makes the ephemeral node has it; all others watch that node, and all wake when it goes.
//!
//! Owns the recipe, herd included.

use std::time::Duration;

use holdfast_zkwire::CreateMode;

use super::curator::directory;
use super::{Session, ZooKeeperError};
use crate::{Deadline, Hold, Limitation, LockClient, LockError, LockFuture, LockUsage};

/// A client of this lock.
#[derive(Debug)]
pub struct Ephemeral {
    session: Session,
}

impl Ephemeral {
    pub(super) const LIMITATIONS: &[Limitation] = &[
        Limitation::Herd,
        Limitation::Unfair,
        Limitation::NoFence,
        Limitation::ExpiresUnderHolder,
    ];

    /// A client in this session.
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    async fn make(&self, path: &str) -> Result<bool, ZooKeeperError> {
        match self.session.create(path, CreateMode::Ephemeral).await {
            Ok(_) => Ok(true),
            Err(ZooKeeperError::Exists) => Ok(false),
            Err(ZooKeeperError::Missing) => {
                self.session.create_parents(path).await?;
                Box::pin(self.make(path)).await
            }
            Err(trouble) => Err(trouble),
        }
    }
}

impl LockClient for Ephemeral {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            let (patience, path) =
                (Deadline::after(patience), format!("{}/holder", directory(lock)));
            loop {
                if self.make(&path).await? {
                    return Ok(Hold::new(lock, path));
                }
                if self.session.watch(&path).await? && !self.session.hear(patience).await? {
                    return Err(LockError::Busy);
                }
            }
        })
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move { Ok(self.session.delete(&hold.proof).await?) })
    }

    fn usage(&self) -> LockUsage {
        self.session.usage()
    }
}
