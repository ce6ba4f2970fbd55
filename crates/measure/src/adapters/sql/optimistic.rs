//! No lock: a client changes a row only if no other client has changed it since the read, and otherwise repeats.
//!
//! The update compares either the version or only the value. The latter misses a value that changed and changed back
//! (ABA).

use std::time::Duration;

use super::{SqlConnection, SqlValue, connect};
use crate::LockError;
use crate::limitation::Limitation::{FailsUnderContention, OneServer};
use crate::lock::{Adapter, HeldLock, LoadUsage, LockKind};

/// A system without a lock, for `measure writers`.
pub const LOCK: LockKind = LockKind {
    name: "optimistic",
    limitations: &[FailsUnderContention, OneServer],
    connect: |target| {
        connect(target, |connection, _| OptimisticWriter {
            row: OptimisticRow { connection, name: String::new() },
            read: None,
        })
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionedValue {
    pub value: i64,
    /// The number of changes of the value.
    pub version: i64,
}

#[derive(Debug)]
pub struct OptimisticRow {
    connection: SqlConnection,
    name: String,
}

impl OptimisticRow {
    /// Creates the row if it is missing.
    pub async fn open(connection: SqlConnection, name: &str) -> Result<Self, LockError> {
        let mut row = Self { connection, name: String::new() };
        row.switch_to(name).await?;
        Ok(row)
    }

    async fn switch_to(&mut self, name: &str) -> Result<(), LockError> {
        if self.name != name {
            let statement = self.connection.statements().add_row;
            self.connection.query(statement, vec![name.into()]).await?;
            name.clone_into(&mut self.name);
        }
        Ok(())
    }

    /// # Errors
    /// [`LockError::Rejected`] if the row is missing.
    pub async fn read(&mut self) -> Result<VersionedValue, LockError> {
        let statement = self.connection.statements().read_row;
        let reply = self.connection.query(statement, vec![self.name.as_str().into()]).await?;
        match reply.rows.first().map(Vec::as_slice) {
            Some([Some(value), Some(version)]) => {
                Ok(VersionedValue { value: *value, version: *version })
            }
            _ => Err(LockError::Rejected(format!("no row {}", self.name))),
        }
    }

    /// Writes if the version is unchanged since the read; returns `true` if it did.
    pub async fn write_if_version(
        &mut self,
        read: VersionedValue,
        value: i64,
    ) -> Result<bool, LockError> {
        self.write(self.connection.statements().write_if_version, value, read.version).await
    }

    /// Writes if the value is unchanged since the read; returns `true` if it did.
    pub async fn write_if_value(
        &mut self,
        read: VersionedValue,
        value: i64,
    ) -> Result<bool, LockError> {
        self.write(self.connection.statements().write_if_value, value, read.value).await
    }

    /// Adds to the value by its version; returns the number of repetitions.
    pub async fn add(&mut self, by: i64) -> Result<u64, LockError> {
        let mut retries = 0;
        loop {
            let read = self.read().await?;
            if self.write_if_version(read, read.value + by).await? {
                return Ok(retries);
            }
            retries += 1;
        }
    }

    async fn write(
        &mut self,
        statement: &str,
        value: i64,
        expected: i64,
    ) -> Result<bool, LockError> {
        let values: Vec<SqlValue> = vec![value.into(), self.name.as_str().into(), expected.into()];
        match self.connection.query(statement, values).await {
            Ok(reply) => Ok(reply.rows_affected == 1),
            // The victim of a deadlock has changed no row.
            Err(LockError::Busy) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// A writer that adds one to a row: its acquire only reads the row, and its release writes if the row is unchanged.
#[derive(Debug)]
struct OptimisticWriter {
    row: OptimisticRow,
    read: Option<VersionedValue>,
}

impl Adapter for OptimisticWriter {
    async fn acquire(&mut self, lock: &str, _timeout: Duration) -> Result<HeldLock, LockError> {
        self.row.switch_to(lock).await?;
        self.read = Some(self.row.read().await?);
        Ok(HeldLock::new(lock, ""))
    }

    async fn release(&mut self, _held: HeldLock) -> Result<(), LockError> {
        let lost = || LockError::Lost("another writer has changed the row".to_owned());
        let read = self.read.take().ok_or_else(lost)?;
        let is_written = self.row.write_if_version(read, read.value + 1).await?;
        is_written.then_some(()).ok_or_else(lost)
    }

    fn usage(&self) -> LoadUsage {
        self.row.connection.usage()
    }
}
