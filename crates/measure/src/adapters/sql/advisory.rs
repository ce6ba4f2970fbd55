//! Named locks of the server: `pg_advisory_lock` and `GET_LOCK`.
//!
//! PostgreSQL takes a number, so the adapter hashes the name to 32 bits, as is common. These locks are in the
//! server's memory and end with the connection.

use std::time::Duration;

use super::{Database, SqlConnection, connect};
use crate::limitation::Limitation::{EndsWithConnection, NamesCollide, NoToken, OneServer};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockError, LockKind};

pub const POSTGRES: LockKind = LockKind {
    name: "postgres-advisory",
    limitations: &[EndsWithConnection, NamesCollide, NoToken, OneServer],
    connect: |target| connect(target, |connection, _| NamedLock::new(connection)),
};
pub const MARIADB: LockKind = LockKind {
    name: "mariadb-get-lock",
    limitations: &[EndsWithConnection, NoToken, OneServer],
    ..POSTGRES
};

#[derive(Debug)]
pub struct NamedLock {
    connection: SqlConnection,
    /// The current lock timeout of this PostgreSQL connection.
    timeout_ms: Option<u128>,
}

impl NamedLock {
    pub fn new(connection: SqlConnection) -> Self {
        Self { connection, timeout_ms: None }
    }

    pub fn connection(&mut self) -> &mut SqlConnection {
        &mut self.connection
    }

    async fn postgres(&mut self, lock: &str, timeout: Duration) -> Result<(), LockError> {
        // Zero would disable the timeout.
        let timeout_ms = timeout.as_millis().max(1);
        if self.timeout_ms != Some(timeout_ms) {
            self.connection.execute(&format!("SET lock_timeout = {timeout_ms}")).await?;
            self.timeout_ms = Some(timeout_ms);
        }
        let statement = self.connection.statements().acquire_named;
        self.connection.query(statement, vec![lock.into()]).await.map(drop)
    }

    async fn mariadb(&mut self, lock: &str, timeout: Duration) -> Result<(), LockError> {
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let statement = self.connection.statements().acquire_named;
        let values = vec![lock.into(), timeout_ms.into()];
        let reply = self.connection.query(statement, values).await?;
        (reply.first() == Some(1)).then_some(()).ok_or(LockError::Busy)
    }
}

impl Adapter for NamedLock {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        match self.connection.database {
            Database::Postgres => self.postgres(lock, timeout).await?,
            Database::MariaDb => self.mariadb(lock, timeout).await?,
        }
        Ok(HeldLock::new(lock, ""))
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let statement = self.connection.statements().release_named;
        let reply = self.connection.query(statement, vec![held.lock.as_str().into()]).await?;
        let lost = || LockError::Lost("this connection did not hold it".to_owned());
        (reply.first() == Some(1)).then_some(()).ok_or_else(lost)
    }

    fn usage(&self) -> LoadUsage {
        self.connection.usage()
    }
}
