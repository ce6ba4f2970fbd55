//! `PostgreSQL` by its driver.
//!
//! Owns the mapping of values and of SQLSTATEs.

use futures_util::TryStreamExt;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, NoTls, Row};

use super::connection::Wire;
use super::{Said, Value};
use crate::{LockError, LockFuture};

pub(super) struct Postgres {
    client: Client,
}

impl Postgres {
    pub(super) async fn connect(url: &str) -> Result<Self, LockError> {
        let connected = tokio_postgres::connect(url, NoTls).await;
        let (client, connection) = connected.map_err(|error| trouble(&error))?;
        // Ends with the client, or with the server.
        tokio::spawn(connection);
        Ok(Self { client })
    }
}

impl Wire for Postgres {
    fn ask<'a>(&'a mut self, statement: &'a str, values: Vec<Value>) -> LockFuture<'a, Said> {
        Box::pin(async move {
            let values: Vec<(&(dyn ToSql + Sync), Type)> = values.iter().map(typed).collect();
            let asked = self.client.query_typed_raw(statement, values).await;
            let mut stream = std::pin::pin!(asked.map_err(|error| trouble(&error))?);
            let mut said = Said::default();
            while let Some(row) = stream.try_next().await.map_err(|error| trouble(&error))? {
                said.rows.push(numbers(&row));
            }
            said.affected = stream.rows_affected().unwrap_or(0);
            Ok(said)
        })
    }

    fn run<'a>(&'a mut self, statements: &'a str) -> LockFuture<'a, ()> {
        Box::pin(async move {
            self.client.batch_execute(statements).await.map_err(|error| trouble(&error))
        })
    }
}

fn typed(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Text(text) => (text, Type::TEXT),
        Value::Number(number) => (number, Type::INT8),
    }
}

fn numbers(row: &Row) -> Vec<Option<i64>> {
    (0..row.len()).map(|at| row.try_get(at).ok().flatten()).collect()
}

fn trouble(error: &Error) -> LockError {
    let busy = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
    ];
    let gone = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    match error.code() {
        Some(code) if busy.contains(code) => LockError::Busy,
        Some(code) if !gone.contains(code) => LockError::Refused(described(error)),
        Some(_) | None => LockError::Unreachable(described(error)),
    }
}

/// The driver's own words leave out what the server said.
fn described(error: &Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}
