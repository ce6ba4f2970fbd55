//! No lock: `WATCH` and `GET` read a number, `MULTI`, `SET` and `EXEC` write it, unless another client has set the key.

use std::time::Duration;

use redis::{Pipeline, cmd};

use super::{RedisConnection, connect};
use crate::limitation::Limitation::{FailsUnderContention, LostOnFailover, OneServer};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind};

/// A system without a lock, for `measure writers`.
pub const LOCK: LockKind = LockKind {
    name: "redis-watch",
    limitations: &[FailsUnderContention, LostOnFailover, OneServer],
    connect: |target| connect(target, |connection, _| WatchingWriter { connection, read: 0 }),
};

/// The time after which a server that somebody else runs is rid of the number.
const KEPT_SECONDS: u64 = 3_600;

/// A writer that adds one to a number: its acquire only reads the number, and its release writes if it is unchanged.
#[derive(Debug)]
struct WatchingWriter {
    /// No other client may use it: `WATCH` belongs to the connection.
    connection: RedisConnection,
    read: i64,
}

impl Adapter for WatchingWriter {
    async fn acquire(&mut self, lock: &str, _timeout: Duration) -> Result<HeldLock, LockError> {
        self.connection.query::<()>(cmd("WATCH").arg(lock)).await?;
        let read: Option<i64> = self.connection.query(cmd("GET").arg(lock)).await?;
        self.read = read.unwrap_or(0);
        Ok(HeldLock::new(lock, ""))
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let mut pipeline = Pipeline::new();
        pipeline.atomic().cmd("SET").arg(&held.lock).arg(self.read + 1).arg("EX").arg(KEPT_SECONDS);
        let done: Option<(String,)> = self.connection.transaction(&pipeline).await?;
        let lost = || LockError::Lost("another client has set the key".to_owned());
        done.map(drop).ok_or_else(lost)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
