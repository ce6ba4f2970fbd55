//! One connection to one database: text and integers as parameters, integers as results. It retries no statement.

use std::sync::Arc;

use super::Database;
use super::dialect::Statements;
use crate::LockError;
use crate::lock::{LoadUsage, LockFuture, UsageCounter};

/// A parameter of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlValue {
    Text(String),
    Integer(i64),
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlReply {
    /// `None` stands for NULL and for values other than integers.
    pub rows: Vec<Vec<Option<i64>>>,
    pub rows_affected: u64,
}

impl SqlReply {
    /// Returns the first column of the first row.
    pub fn first(&self) -> Option<i64> {
        self.rows.first()?.first().copied()?
    }
}

pub(super) trait SqlDriver: Send {
    /// Runs one statement with parameters: one round trip after its preparation.
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        values: Vec<SqlValue>,
    ) -> LockFuture<'a, SqlReply>;
    /// Runs statements without parameters and rows: one round trip.
    fn execute<'a>(&'a mut self, statements: &'a str) -> LockFuture<'a, ()>;
}

pub struct SqlConnection {
    pub(super) database: Database,
    pub(super) counter: Arc<UsageCounter>,
    driver: Box<dyn SqlDriver>,
}

impl SqlConnection {
    pub async fn open(database: Database, url: &str) -> Result<Self, LockError> {
        let driver: Box<dyn SqlDriver> = match database {
            Database::Postgres => Box::new(super::postgres::PostgresDriver::connect(url).await?),
            Database::MariaDb => Box::new(super::mariadb::MariaDbDriver::connect(url).await?),
        };
        Ok(Self { database, counter: Arc::default(), driver })
    }

    /// # Errors
    /// [`LockError::Busy`] after a lock timeout and for the victim of a deadlock.
    pub async fn query(
        &mut self,
        statement: &str,
        values: Vec<SqlValue>,
    ) -> Result<SqlReply, LockError> {
        self.counter.round_trip();
        self.driver.query(statement, values).await
    }

    pub async fn execute(&mut self, statements: &str) -> Result<(), LockError> {
        self.counter.round_trip();
        self.driver.execute(statements).await
    }

    pub(super) fn statements(&self) -> &'static Statements {
        self.database.statements()
    }

    /// Returns the server's number of this connection.
    pub async fn number(&mut self) -> Result<i64, LockError> {
        let reply = self.query(self.statements().connection_number, Vec::new()).await?;
        reply.first().ok_or_else(|| LockError::Rejected("a connection without a number".to_owned()))
    }

    pub fn usage(&self) -> LoadUsage {
        self.counter.usage()
    }
}

impl std::fmt::Debug for SqlConnection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SqlConnection")
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}
