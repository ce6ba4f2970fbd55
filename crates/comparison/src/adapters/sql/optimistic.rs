//! No lock: a row is changed only if nobody has changed it since it was read, and otherwise everything is done again.
//!
//! Owns the comparison by version, with its retries counted, and the comparison by value, which misses what changed and
//! changed back (ABA). There is nothing to hold, so this is no [`crate::LockClient`].

use super::{Door, Value};
use crate::{Limitation, LockError, LockUsage};

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The value.
    pub stock: i64,
    /// How often it was changed.
    pub version: i64,
}

/// A client of rows that are changed so.
#[derive(Debug)]
pub struct Optimistic {
    door: Door,
}

impl Optimistic {
    /// What the comparison by value, and any comparison under contention, are documented not to do.
    pub const LIMITATIONS: &[Limitation] =
        &[Limitation::FailsUnderContention, Limitation::ChangedBack];

    /// A client at this door.
    pub fn new(door: Door) -> Self {
        Self { door }
    }

    /// Makes the row if it is not there.
    ///
    /// # Errors
    /// As for any statement.
    pub async fn add_row(&mut self, name: &str) -> Result<(), LockError> {
        self.door.ask(self.door.database.words().add_row, vec![name.into()]).await.map(drop)
    }

    /// Reads the row.
    ///
    /// # Errors
    /// [`LockError::Refused`] if it is not there.
    pub async fn read(&mut self, name: &str) -> Result<Seen, LockError> {
        let said = self.door.ask(self.door.database.words().read_row, vec![name.into()]).await?;
        match said.rows.first().map(Vec::as_slice) {
            Some([Some(stock), Some(version)]) => Ok(Seen { stock: *stock, version: *version }),
            _ => Err(LockError::Refused(format!("no row {name}"))),
        }
    }

    /// Writes if the version is as it was read; whether it did.
    ///
    /// # Errors
    /// As for any statement.
    pub async fn write_if_version(
        &mut self,
        name: &str,
        seen: Seen,
        stock: i64,
    ) -> Result<bool, LockError> {
        let statement = self.door.database.words().write_if_version;
        self.write(statement, vec![stock.into(), name.into(), seen.version.into()]).await
    }

    /// Writes if the value is as it was read; whether it did.
    ///
    /// # Errors
    /// As for any statement.
    pub async fn write_if_value(
        &mut self,
        name: &str,
        seen: Seen,
        stock: i64,
    ) -> Result<bool, LockError> {
        let statement = self.door.database.words().write_if_value;
        self.write(statement, vec![stock.into(), name.into(), seen.stock.into()]).await
    }

    /// Adds to the value by its version, as often as it takes; how often it had to be done again.
    ///
    /// # Errors
    /// As for any statement.
    pub async fn add(&mut self, name: &str, by: i64) -> Result<u64, LockError> {
        let mut retries = 0;
        loop {
            let seen = self.read(name).await?;
            if self.write_if_version(name, seen, seen.stock + by).await? {
                return Ok(retries);
            }
            retries += 1;
            self.door.counter.poll();
        }
    }

    /// What was done so far.
    pub fn usage(&self) -> LockUsage {
        self.door.usage()
    }

    async fn write(&mut self, statement: &str, values: Vec<Value>) -> Result<bool, LockError> {
        match self.door.ask(statement, values).await {
            Ok(said) => Ok(said.affected == 1),
            // The victim of a deadlock has changed nothing.
            Err(LockError::Busy) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }
}
