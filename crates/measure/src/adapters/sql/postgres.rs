//! PostgreSQL through its driver: values and SQLSTATEs.

use futures_util::TryStreamExt;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, NoTls, Row};

use super::connection::SqlDriver;
use super::{SqlReply, SqlValue};
use crate::lock::{LockError, LockFuture};

pub(super) struct PostgresDriver {
    client: Client,
}

impl PostgresDriver {
    pub(super) async fn connect(url: &str) -> Result<Self, LockError> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // The task ends with the client or with the server.
        tokio::spawn(connection);
        Ok(Self { client })
    }
}

impl SqlDriver for PostgresDriver {
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        values: Vec<SqlValue>,
    ) -> LockFuture<'a, SqlReply> {
        Box::pin(async move {
            let values: Vec<(&(dyn ToSql + Sync), Type)> = values.iter().map(typed).collect();
            let rows = self.client.query_typed_raw(statement, values).await?;
            let mut rows = std::pin::pin!(rows);
            let mut reply = SqlReply::default();
            while let Some(row) = rows.try_next().await? {
                reply.rows.push(integers(&row));
            }
            reply.rows_affected = rows.rows_affected().unwrap_or(0);
            Ok(reply)
        })
    }

    fn execute<'a>(&'a mut self, statements: &'a str) -> LockFuture<'a, ()> {
        Box::pin(async move { Ok(self.client.batch_execute(statements).await?) })
    }
}

fn typed(value: &SqlValue) -> (&(dyn ToSql + Sync), Type) {
    match value {
        SqlValue::Text(text) => (text, Type::TEXT),
        SqlValue::Integer(number) => (number, Type::INT8),
    }
}

fn integers(row: &Row) -> Vec<Option<i64>> {
    (0..row.len()).map(|at| row.try_get(at).ok().flatten()).collect()
}

impl From<Error> for LockError {
    fn from(error: Error) -> Self {
        let busy = [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
        ];
        let down =
            [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
        match error.code() {
            Some(code) if busy.contains(code) => Self::Busy,
            Some(code) if !down.contains(code) => Self::Rejected(described(&error)),
            Some(_) | None => Self::Unreachable(described(&error)),
        }
    }
}

/// Returns the server's message, which the driver's text omits.
pub(crate) fn described(error: &Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}
