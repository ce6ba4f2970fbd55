//! The simple lock: whoever makes the ephemeral node has it; all others watch that node, and all wake when it goes.
//!
//! Owns the recipe, herd included.

use std::time::Duration;

use holdfast_zkwire::CreateMode;

use super::curator::directory;
use super::{Session, ZkTrouble};
use crate::{Answer, Caveat, Hold, Patience, Rival, Tally, Trouble};

/// A client of this lock.
#[derive(Debug)]
pub struct Ephemeral {
    session: Session,
}

impl Ephemeral {
    pub(super) const CAVEATS: &[Caveat] =
        &[Caveat::Herd, Caveat::Unfair, Caveat::NoFence, Caveat::ExpiresUnderHolder];

    /// A client in this session.
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    async fn make(&self, path: &str) -> Result<bool, ZkTrouble> {
        match self.session.create(path, CreateMode::Ephemeral).await {
            Ok(_) => Ok(true),
            Err(ZkTrouble::Exists) => Ok(false),
            Err(ZkTrouble::Missing) => {
                self.session.create_parents(path).await?;
                Box::pin(self.make(path)).await
            }
            Err(trouble) => Err(trouble),
        }
    }
}

impl Rival for Ephemeral {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> Answer<'a, Hold> {
        Box::pin(async move {
            let (patience, path) = (Patience::of(patience), format!("{}/holder", directory(lock)));
            loop {
                if self.make(&path).await? {
                    return Ok(Hold::new(lock, path));
                }
                if self.session.watch(&path).await? && !self.session.hear(patience).await? {
                    return Err(Trouble::Busy);
                }
            }
        })
    }

    fn release(&mut self, hold: Hold) -> Answer<'_, ()> {
        Box::pin(async move { Ok(self.session.delete(&hold.proof).await?) })
    }

    fn tally(&self) -> Tally {
        self.session.tally()
    }
}
