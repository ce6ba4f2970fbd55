//! Fenced transactions on `SQLite` through `rusqlite`.
//!
//! Owns the order "take the write lock, raise the mark, then read, then write" and the mapping from `SQLite`'s codes
//! to [`FenceError`]; [`SCHEMA_SQL`] must have been run in the database. Refuses to know what is written, and holds
//! nothing between calls. The calls block their thread.
//!
//! `SQLite` has one writer at a time: a fenced transaction keeps all others out until it ends. Do not think inside it.

use holdfast_types::FencingToken;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior};

use crate::claim::{named, numbers};
use crate::{Claim, FenceError};

pub use crate::recipes::{SQLITE_CHECK as CHECK_SQL, SQLITE_SCHEMA as SCHEMA_SQL};

/// Begins an immediate transaction and, before anything can be read in it, raises the mark of `resource` to `token`.
///
/// # Errors
/// [`FenceError::Stale`] if a newer token was seen, [`FenceError::Conflict`] if another writer keeps the database
/// longer than the connection's `busy_timeout`; the transaction is rolled back.
pub fn begin<'a>(
    connection: &'a mut Connection,
    resource: &str,
    token: impl Into<Claim>,
) -> Result<Transaction<'a>, FenceError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    advance(&transaction, resource, token, None)?;
    Ok(transaction)
}

/// As [`begin`], naming the holder: its session, host or person.
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

/// Raises the mark inside a transaction that the caller began. Must be the transaction's first statement: what was
/// read before it is not protected.
///
/// # Errors
/// [`FenceError::Stale`] if a newer token was seen, [`FenceError::Conflict`] if the database is another writer's. The
/// transaction is then good for a rollback only.
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
    // A statement that returns rows has done its work only when it has come to its end.
    while rows.next()?.is_some() {}
    if accepted { Ok(()) } else { Err(refusal(transaction, resource, claim.token())) }
}

/// Says who was faster.
fn refusal(transaction: &Transaction<'_>, resource: &str, token: FencingToken) -> FenceError {
    let newest = "SELECT token, holder FROM fence WHERE resource = ?1";
    let row = transaction
        .query_row(newest, [resource], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))
        .optional();
    match row {
        Ok(Some((newest, holder))) => {
            let newest = FencingToken(newest.cast_unsigned());
            FenceError::Stale { resource: resource.to_owned(), token, newest, holder }
        }
        Ok(None) => FenceError::Conflict { reason: "the mark has gone".to_owned() },
        Err(error) => error.into(),
    }
}

impl From<rusqlite::Error> for FenceError {
    /// Tells a database that is another writer's from a failure, also in later statements and at the commit.
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Conflict { reason: error.to_string() }
            }
            Some(_) | None => Self::Store(Box::new(error)),
        }
    }
}
