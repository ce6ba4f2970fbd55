//! `MariaDB` by its driver.
//!
//! Owns the mapping of values and of error codes. Statements with parameters are prepared once a connection.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, Params, Row};

use super::connection::Wire;
use super::{Said, Value};
use crate::{LockError, LockFuture};

/// A lock was waited for in vain, or not at all, as it was asked.
const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// The victim of a deadlock.
const DEADLOCK: u16 = 1213;

pub(super) struct MariaDb {
    connection: Conn,
}

impl MariaDb {
    pub(super) async fn connect(url: &str) -> Result<Self, LockError> {
        let opts = Opts::from_url(url).map_err(|error| LockError::Refused(error.to_string()))?;
        let connected = Conn::new(opts).await;
        Ok(Self { connection: connected.map_err(|error| trouble(&error))? })
    }
}

impl Wire for MariaDb {
    fn ask<'a>(&'a mut self, statement: &'a str, values: Vec<Value>) -> LockFuture<'a, Said> {
        Box::pin(async move {
            let values = match values.len() {
                0 => Params::Empty,
                _ => Params::Positional(values.into_iter().map(value).collect()),
            };
            let asked = self.connection.exec_iter(statement, values).await;
            let mut answer = asked.map_err(|error| trouble(&error))?;
            let affected = answer.affected_rows();
            let rows: Vec<Row> = answer.collect().await.map_err(|error| trouble(&error))?;
            Ok(Said { rows: rows.iter().map(numbers).collect(), affected })
        })
    }

    fn run<'a>(&'a mut self, statements: &'a str) -> LockFuture<'a, ()> {
        Box::pin(async move {
            self.connection.query_drop(statements).await.map_err(|error| trouble(&error))
        })
    }
}

fn value(value: Value) -> mysql_async::Value {
    match value {
        Value::Text(text) => text.into(),
        Value::Number(number) => number.into(),
    }
}

fn numbers(row: &Row) -> Vec<Option<i64>> {
    let number = |at| mysql_async::from_value_opt(row.as_ref(at)?.clone()).ok();
    (0..row.len()).map(number).collect()
}

fn trouble(error: &Error) -> LockError {
    match error {
        Error::Server(said) if [LOCK_WAIT_TIMEOUT, DEADLOCK].contains(&said.code) => {
            LockError::Busy
        }
        Error::Server(said) => LockError::Refused(said.to_string()),
        Error::Driver(_) | Error::Io(_) | Error::Other(_) | Error::Url(_) => {
            LockError::Unreachable(error.to_string())
        }
    }
}
