//! A release without a script: `WATCH`, compare, `MULTI`, `DEL`, `EXEC`.
//!
//! Owns the steps, apart, so that a test can come between them. Between `WATCH` and `EXEC` any change of the key makes
//! `EXEC` do nothing; then it is tried again. The connection must be the client's own: `WATCH` belongs to it.

use redis::{Pipeline, cmd};

use super::Door;
use crate::LockError;

/// How often a release is tried before it gives up.
const TRIES: usize = 10;

/// What a watched key turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Ours, and under watch: go on with [`Raced`] or leave it with `UNWATCH`.
    Ours,
    /// Somebody else's or gone; not under watch any more.
    Foreign,
}

/// What became of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raced {
    /// The key was deleted.
    Deleted,
    /// The key had changed since it was watched: nothing was done.
    Changed,
}

impl Watched {
    /// Watches the key, and looks whose it is.
    ///
    /// # Errors
    /// As for any command.
    pub async fn look(door: &Door, key: &str, owner: &str) -> Result<Self, LockError> {
        door.ask::<()>(cmd("WATCH").arg(key)).await?;
        let found: Option<String> = door.ask(cmd("GET").arg(key)).await?;
        if found.as_deref() == Some(owner) {
            return Ok(Self::Ours);
        }
        door.ask::<()>(&cmd("UNWATCH")).await?;
        Ok(Self::Foreign)
    }
}

impl Raced {
    /// Deletes the watched key unless it has changed.
    ///
    /// # Errors
    /// As for any command.
    pub async fn delete(door: &Door, key: &str) -> Result<Self, LockError> {
        let mut pipeline = Pipeline::new();
        pipeline.atomic().cmd("DEL").arg(key);
        let done: Option<(u64,)> = door.transaction(&pipeline).await?;
        Ok(if done.is_some() { Self::Deleted } else { Self::Changed })
    }
}

/// The whole release; whether the key was ours.
///
/// # Errors
/// [`LockError::Refused`] if somebody changed the key every time.
pub async fn release_watched(door: &Door, key: &str, owner: &str) -> Result<bool, LockError> {
    for _ in 0..TRIES {
        if Watched::look(door, key, owner).await? == Watched::Foreign {
            return Ok(false);
        }
        if Raced::delete(door, key).await? == Raced::Deleted {
            return Ok(true);
        }
    }
    Err(LockError::Refused(format!("the key changed {TRIES} times between WATCH and EXEC")))
}
