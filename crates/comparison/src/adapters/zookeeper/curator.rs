//! The recipe of Curator's mutex: a numbered ephemeral child; the lowest holds, and each watches the one before it.
//!
//! Owns the recipe. The number is the enqueue's, and begins anew when the lock's directory is deleted; as a fence it is good as
//! long as nobody deletes that. A client that is cut off goes on until it hears of it.

use std::time::Duration;

use holdfast_zkwire::CreateMode;

use super::{Session, ZooKeeperError};
use crate::{Deadline, Hold, Limitation, LockClient, LockError, LockFuture, LockUsage};

/// A client of this lock.
#[derive(Debug)]
pub struct Curator {
    session: Session,
}

impl Curator {
    pub(super) const LIMITATIONS: &[Limitation] = &[
        Limitation::ExpiresUnderHolder,
        Limitation::FenceFromEnqueue,
        Limitation::FenceNotDurable,
    ];

    /// A client in this session.
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    /// Its session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Ends its session.
    ///
    /// # Errors
    /// As for any request.
    pub async fn close(self) -> Result<(), LockError> {
        self.session.close().await
    }

    /// A place in the queue; its directory is made on the way.
    async fn enqueue(&self, directory: &str) -> Result<String, ZooKeeperError> {
        let path = format!("{directory}/lock-");
        match self.session.create(&path, CreateMode::EphemeralSequential).await {
            Err(ZooKeeperError::Missing) => {
                self.session.create_parents(&path).await?;
                self.session.create(&path, CreateMode::EphemeralSequential).await
            }
            done => done,
        }
    }

    /// Waits until nobody is before us; whether that came in time.
    async fn is_first(
        &mut self,
        directory: &str,
        place: &str,
        patience: Deadline,
    ) -> Result<bool, LockError> {
        loop {
            let mut names = self.session.children(directory).await?;
            names.sort_unstable();
            let ours = place.rsplit('/').next().unwrap_or_default();
            let Some(at) = names.iter().position(|name| name == ours) else {
                return Err(LockError::Lost("its place in the queue is gone".to_owned()));
            };
            let Some(before) = at.checked_sub(1).and_then(|at| names.get(at)) else {
                return Ok(true);
            };
            if self.session.watch_data(&format!("{directory}/{before}")).await?
                && !self.session.hear(patience).await?
            {
                return Ok(false);
            }
        }
    }
}

/// The directory of a lock.
pub(super) fn directory(lock: &str) -> String {
    format!("/locks/{lock}")
}

impl LockClient for Curator {
    fn acquire<'a>(&'a mut self, lock: &'a str, patience: Duration) -> LockFuture<'a, Hold> {
        Box::pin(async move {
            let (patience, directory) = (Deadline::after(patience), directory(lock));
            let place = self.enqueue(&directory).await?;
            if self.is_first(&directory, &place, patience).await? {
                let number = place.rsplit('-').next().and_then(|number| number.parse().ok());
                return Ok(Hold { fence: number, ..Hold::new(lock, place) });
            }
            self.session.delete(&place).await?;
            Err(LockError::Busy)
        })
    }

    fn release(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move { Ok(self.session.delete(&hold.proof).await?) })
    }

    fn usage(&self) -> LockUsage {
        self.session.usage()
    }
}
