//! MariaDB through its driver: values and error codes. Each connection prepares a statement with parameters once.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder, Params, Row};

use super::connection::SqlDriver;
use super::{SqlReply, SqlValue};
use crate::lock::{LockError, LockFuture};

/// `ER_LOCK_WAIT_TIMEOUT`, also the reply to `NOWAIT`.
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// `ER_LOCK_DEADLOCK`.
const DEADLOCK: u16 = 1213;

pub(super) struct MariaDbDriver {
    connection: Conn,
}

impl MariaDbDriver {
    pub(super) async fn connect(url: &str) -> Result<Self, LockError> {
        let opts = Opts::from_url(url).map_err(|error| LockError::Rejected(error.to_string()))?;
        // Over TCP, as for every other system: by default this client connects to a local server over its socket.
        let opts = OptsBuilder::from_opts(opts).prefer_socket(false);
        Ok(Self { connection: Conn::new(opts).await? })
    }
}

impl SqlDriver for MariaDbDriver {
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        values: Vec<SqlValue>,
    ) -> LockFuture<'a, SqlReply> {
        Box::pin(async move {
            let values = match values.len() {
                0 => Params::Empty,
                _ => Params::Positional(values.into_iter().map(value).collect()),
            };
            let mut reply = self.connection.exec_iter(statement, values).await?;
            let rows_affected = reply.affected_rows();
            let rows: Vec<Row> = reply.collect().await?;
            Ok(SqlReply { rows: rows.iter().map(integers).collect(), rows_affected })
        })
    }

    fn execute<'a>(&'a mut self, statements: &'a str) -> LockFuture<'a, ()> {
        Box::pin(async move { Ok(self.connection.query_drop(statements).await?) })
    }
}

fn value(value: SqlValue) -> mysql_async::Value {
    match value {
        SqlValue::Text(text) => text.into(),
        SqlValue::Integer(number) => number.into(),
    }
}

fn integers(row: &Row) -> Vec<Option<i64>> {
    let integer = |at| mysql_async::from_value_opt(row.as_ref(at)?.clone()).ok();
    (0..row.len()).map(integer).collect()
}

impl From<Error> for LockError {
    fn from(error: Error) -> Self {
        match error {
            Error::Server(server) if [LOCK_WAIT_TIMEOUT, DEADLOCK].contains(&server.code) => {
                Self::Busy
            }
            Error::Server(server) => Self::Rejected(server.to_string()),
            Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => {
                Self::Unreachable(error.to_string())
            }
        }
    }
}
