//! Fenced transactions on SQLite through `rusqlite`.
//!
//! A transaction takes the write lock, raises the mark, then reads, then writes. Run [`SCHEMA_SQL`] in the database
//! first. The calls block their thread.
//!
//! SQLite has one writer at a time: a fenced transaction blocks all other writers, so do no long work inside it.

use holdfast_types::FencingToken;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, TransactionBehavior};

use crate::claim::{named, numbers, stale};
use crate::{Claim, FenceError};

pub use crate::recipes::{SQLITE_CHECK as CHECK_SQL, SQLITE_SCHEMA as SCHEMA_SQL};

/// Begins an immediate transaction and raises the mark of `resource` to `token` before the first read.
///
/// # Errors
/// [`FenceError::Stale`] if the resource has seen a newer token, [`FenceError::Conflict`] if another writer has the
/// database locked longer than the connection's `busy_timeout`; the transaction is rolled back.
pub fn begin<'a>(
    connection: &'a mut Connection,
    resource: &str,
    token: impl Into<Claim>,
) -> Result<Transaction<'a>, FenceError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    advance(&transaction, resource, token, None)?;
    Ok(transaction)
}

/// As [`begin`], with the name of the holder: its session, host or person.
///
/// # Errors
/// As [`begin`].
pub fn begin_as<'a>(
    connection: &'a mut Connection,
    resource: &str,
    token: impl Into<Claim>,
    holder: &str,
) -> Result<Transaction<'a>, FenceError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    advance(&transaction, resource, token, Some(holder))?;
    Ok(transaction)
}

/// Raises the mark inside a transaction of the caller. It must be the first statement: earlier reads are not protected.
///
/// # Errors
/// [`FenceError::Stale`] if the resource has seen a newer token, [`FenceError::Conflict`] if another writer has the
/// database locked. Then the transaction can only be rolled back.
pub fn advance(
    transaction: &Transaction<'_>,
    resource: &str,
    token: impl Into<Claim>,
    holder: Option<&str>,
) -> Result<(), FenceError> {
    let claim = token.into();
    let (resource, (token, floor)) = (named(resource)?, numbers(claim)?);
    let mut check = transaction.prepare(CHECK_SQL)?;
    let mut rows = check.query((resource, token, floor, holder))?;
    let accepted = rows.next()?.is_some();
    // A statement that returns rows takes effect only when all its rows are read.
    while rows.next()?.is_some() {}
    if accepted {
        return Ok(());
    }
    let select = "SELECT token, holder FROM fence WHERE resource = ?1";
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?));
    let mark = transaction.query_row(select, [resource], read).optional()?;
    Err(stale(resource, claim.token(), mark))
}

/// The largest mark of the database; `None` without a mark or a fence table.
///
/// # Errors
/// [`FenceError::Store`], [`FenceError::Conflict`] if the database is locked.
pub fn largest_mark(connection: &Connection) -> Result<Option<FencingToken>, FenceError> {
    if !connection.table_exists(None, "fence")? {
        return Ok(None);
    }
    let select = "SELECT max(token) FROM fence";
    let mark: Option<i64> = connection.query_row(select, [], |row| row.get(0))?;
    Ok(mark.map(|mark| FencingToken(mark.cast_unsigned())))
}

impl From<rusqlite::Error> for FenceError {
    /// Maps the error code, so that `?` works for later statements and the commit too.
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Conflict { reason: error.to_string() }
            }
            Some(_) | None => Self::Store(Box::new(error)),
        }
    }
}
