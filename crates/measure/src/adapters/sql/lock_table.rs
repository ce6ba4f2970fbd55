//! A table of locks: a unique name, an owner, and an expiry by the server's clock. Waiters poll.

use std::time::{Duration, Instant};

use super::{SqlConnection, SqlValue, connect};
use crate::limitation::Limitation::{ExpiresUnderHolder, NoToken, OneServer, Polls, Unfair};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind, LockSettings, nonce};
use crate::polling::Polling;

pub const LOCK: LockKind = LockKind {
    name: "lock-table",
    limitations: &[ExpiresUnderHolder, NoToken, Polls, Unfair, OneServer],
    connect: |target| connect(target, LockTable::new),
};

/// The maximum number of deletes of one release that become the victim of a deadlock.
const DELETE_TRIES: usize = 5;

#[derive(Debug)]
pub struct LockTable {
    connection: SqlConnection,
    settings: LockSettings,
    owner: String,
}

impl LockTable {
    pub fn new(connection: SqlConnection, settings: LockSettings) -> Self {
        Self { connection, settings, owner: nonce() }
    }

    /// Inserts the row or replaces an expired one; returns `true` if it did.
    async fn attempt(&mut self, lock: &str) -> Result<bool, LockError> {
        let (statements, owner) = (self.connection.statements(), SqlValue::from(&*self.owner));
        let ttl_ms = SqlValue::Integer(self.settings.ttl_ms().try_into().unwrap_or(i64::MAX));
        let values = vec![lock.into(), owner.clone(), ttl_ms.clone()];
        let inserted = self.connection.query(statements.insert_lock, values).await;
        match (inserted, statements.take_over_lock) {
            (Ok(reply), _) if reply.rows_affected == 1 => Ok(true),
            (Ok(_), Some(take_over)) => {
                let values = vec![owner, ttl_ms, lock.into()];
                Ok(self.connection.query(take_over, values).await?.rows_affected == 1)
            }
            (Ok(_), None) => Ok(false),
            (Err(error), _) => Err(error),
        }
    }
}

impl Adapter for LockTable {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let polling = Polling::new(timeout, self.settings.pause);
        loop {
            let since = Instant::now();
            match self.attempt(lock).await {
                Ok(true) => {
                    let held = HeldLock::new(lock, &*self.owner);
                    return Ok(held.for_ttl(since, self.settings.ttl));
                }
                Ok(false) | Err(LockError::Busy) => {}
                Err(error) => return Err(error),
            }
            polling.pause(&self.connection.counter).await?;
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let statement = self.connection.statements().delete_lock;
        let mut deleted = Err(LockError::Busy);
        for _ in 0..DELETE_TRIES {
            let values = vec![held.lock.as_str().into(), held.owner.as_str().into()];
            deleted = self.connection.query(statement, values).await;
            if deleted != Err(LockError::Busy) {
                break;
            }
        }
        let lost = || LockError::Lost("the row no longer exists or has another owner".to_owned());
        (deleted?.rows_affected == 1).then_some(()).ok_or_else(lost)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
