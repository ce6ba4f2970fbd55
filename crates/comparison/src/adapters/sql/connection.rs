//! One connection to one database, whichever it is.
//!
//! Owns the seam between the locks and the drivers: text and whole numbers in, whole numbers out. Refuses to retry.

use std::sync::Arc;

use super::Database;
use crate::lock::UsageCounter;
use crate::{LockError, LockFuture, LockUsage};

/// A parameter of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text.
    Text(String),
    /// A whole number.
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// What a statement answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its rows; none in the place of what is null or no whole number.
    pub rows: Vec<Vec<Option<i64>>>,
    /// Rows that it changed.
    pub affected: u64,
}

impl Said {
    /// The first column of the first row.
    pub fn first(&self) -> Option<i64> {
        self.rows.first()?.first().copied()?
    }
}

/// What a driver can do.
pub(super) trait Wire: Send {
    /// One statement with parameters, one round trip once it is known.
    fn ask<'a>(&'a mut self, statement: &'a str, values: Vec<Value>) -> LockFuture<'a, Said>;
    /// Statements without parameters and without rows, one round trip.
    fn run<'a>(&'a mut self, statements: &'a str) -> LockFuture<'a, ()>;
}

/// A connection.
pub struct Door {
    pub(super) database: Database,
    pub(super) counter: Arc<UsageCounter>,
    wire: Box<dyn Wire>,
}

impl Door {
    /// Connects.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if that fails, [`LockError::Refused`] if the database's driver was not built in.
    pub async fn open(database: Database, url: &str) -> Result<Self, LockError> {
        let wire: Box<dyn Wire> = match database {
            Database::Postgres => Box::new(super::postgres::Postgres::connect(url).await?),
            Database::MariaDb => Box::new(super::mariadb::MariaDb::connect(url).await?),
        };
        Ok(Self { database, counter: Arc::default(), wire })
    }

    /// One statement with parameters.
    ///
    /// # Errors
    /// [`LockError::Busy`] if it waited in vain for a lock or was the victim of a deadlock; otherwise as for any request.
    pub async fn ask(&mut self, statement: &str, values: Vec<Value>) -> Result<Said, LockError> {
        self.counter.round_trip();
        self.wire.ask(statement, values).await
    }

    /// Statements without parameters.
    ///
    /// # Errors
    /// As [`Door::ask`].
    pub async fn run(&mut self, statements: &str) -> Result<(), LockError> {
        self.counter.round_trip();
        self.wire.run(statements).await
    }

    /// The number by which the server knows this connection.
    ///
    /// # Errors
    /// As [`Door::ask`].
    pub async fn connection(&mut self) -> Result<i64, LockError> {
        let said = self.ask(self.database.words().connection, Vec::new()).await?;
        said.first().ok_or_else(|| LockError::Refused("a connection without a number".to_owned()))
    }

    /// What was done through it.
    pub fn usage(&self) -> LockUsage {
        self.counter.usage()
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Door").field("database", &self.database).finish_non_exhaustive()
    }
}
