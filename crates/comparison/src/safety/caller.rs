//! A client that goes on after any trouble: it forgets its connection and opens another, at the next node.
//!
//! Owns the connection and how long anything may take. Refuses to retry by itself: whoever calls decides.

use std::sync::Arc;
use std::time::Duration;

use crate::{Hold, LockClient, LockError, System};
use tokio::time::timeout;

/// How long one request for the lock waits. No divisor of the times after which a paused holder goes on: a wait that ends in
/// the very moment of the grant is a case of its own.
pub const PATIENCE: Duration = Duration::from_millis(4_300);
/// What a call may take beside that; then the connection is given up.
pub const CALL: Duration = Duration::from_secs(2);

/// A client, connected or not.
pub struct Caller {
    system: Arc<dyn System>,
    client: Option<Box<dyn LockClient>>,
}

impl Caller {
    /// Not connected yet.
    pub fn new(system: Arc<dyn System>) -> Self {
        Self { system, client: None }
    }

    /// Opens a connection if there is none.
    ///
    /// # Errors
    /// As for any request.
    pub async fn connect(&mut self) -> Result<&mut Box<dyn LockClient>, LockError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => timeout(CALL, self.system.client()).await.map_err(|_| late("connecting"))??,
        };
        Ok(self.client.insert(client))
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// [`LockError::Busy`] if it was not free within [`PATIENCE`]; any other costs the connection.
    pub async fn take(&mut self, lock: &str) -> Result<Hold, LockError> {
        let client = self.connect().await?;
        let asked = timeout(PATIENCE + CALL, client.acquire(lock, PATIENCE)).await;
        let asked = asked.unwrap_or_else(|_| Err(late("acquire")));
        self.keep_if(matches!(asked, Ok(_) | Err(LockError::Busy)));
        asked
    }

    /// Gives it back.
    ///
    /// # Errors
    /// Any costs the connection.
    pub async fn give_back(&mut self, hold: Hold) -> Result<(), LockError> {
        let client = self.connect().await?;
        let released = timeout(CALL, client.release(hold)).await;
        let released = released.unwrap_or_else(|_| Err(late("release")));
        self.keep_if(released.is_ok());
        released
    }

    fn keep_if(&mut self, good: bool) {
        if !good {
            self.client = None;
        }
    }
}

fn late(what: &str) -> LockError {
    LockError::Unreachable(format!("{what}: no answer in time"))
}
