//! Fenced transactions on MySQL and MariaDB through `mysql_async`.
//!
//! A transaction raises the mark, then reads, then writes. Run each statement of [`SCHEMA_SQL`] in the database first.
//!
//! Only transactional tables (`InnoDB`) are protected. The mark stays locked until the transaction ends, and the next
//! holder waits for it, so do no long work inside the transaction. `START TRANSACTION WITH CONSISTENT SNAPSHOT`, and a
//! `SELECT` before the guard at `REPEATABLE READ`, take the snapshot before the mark is raised. The guard rejects such
//! a snapshot if it is older than the last fenced transaction.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, ServerError, Transaction, TxOpts};

use crate::claim::{named, numbers, stale};
use crate::{Claim, FenceError};

pub use crate::recipes::MYSQL_SCHEMA as SCHEMA_SQL;

/// SQLSTATE of a stale token.
pub const STALE: &str = "FN001";
/// SQLSTATE of a write without a valid token.
pub const MISSING_TOKEN: &str = "FN002";
/// SQLSTATE of a transaction whose snapshot is older than the last fenced transaction.
pub const UNSAFE_SNAPSHOT: &str = "FN003";

/// Server errors that mean "another transaction was faster": deadlock, lock wait timeout, record has changed.
const CONFLICTS: [u16; 3] = [1213, 1205, 1020];

/// Begins a transaction and raises the mark of `resource` to `token` before the first read.
///
/// # Errors
/// [`FenceError::Stale`] if the resource has seen a newer token, [`FenceError::Conflict`] if another transaction kept
/// the mark locked longer than `innodb_lock_wait_timeout`; the transaction is rolled back.
pub async fn begin<'a>(
    connection: &'a mut Conn,
    resource: &str,
    token: impl Into<Claim>,
) -> Result<Transaction<'a>, FenceError> {
    begin_with(connection, resource, token.into(), None).await
}

/// As [`begin`], with the name of the holder: its session, host or person.
///
/// # Errors
/// As [`begin`].
pub async fn begin_as<'a>(
    connection: &'a mut Conn,
    resource: &str,
    token: impl Into<Claim>,
    holder: &str,
) -> Result<Transaction<'a>, FenceError> {
    begin_with(connection, resource, token.into(), Some(holder)).await
}

async fn begin_with<'a>(
    connection: &'a mut Conn,
    resource: &str,
    claim: Claim,
    holder: Option<&str>,
) -> Result<Transaction<'a>, FenceError> {
    let mut transaction = connection.start_transaction(TxOpts::default()).await?;
    match advance(&mut transaction, resource, claim, holder).await {
        Ok(()) => Ok(transaction),
        Err(error) => {
            transaction.rollback().await?;
            Err(error)
        }
    }
}

/// Raises the mark inside a transaction of the caller. It must be the first statement: earlier reads are not protected.
///
/// # Errors
/// [`FenceError::Stale`] if the resource has seen a newer token; [`FenceError::UnsafeSnapshot`] if the snapshot of
/// earlier reads is older than the last fenced transaction; [`FenceError::Conflict`] if another transaction was faster.
/// After an error the transaction can only be rolled back.
pub async fn advance(
    transaction: &mut Transaction<'_>,
    resource: &str,
    token: impl Into<Claim>,
    holder: Option<&str>,
) -> Result<(), FenceError> {
    let claim = token.into();
    let (resource, (token, floor)) = (named(resource)?, numbers(claim)?);
    let call = "CALL fence_check_shared(?, ?, ?, ?)";
    match transaction.exec_drop(call, (resource, token, floor, holder)).await {
        Ok(()) => Ok(()),
        Err(Error::Server(error)) if error.state == STALE => {
            let mark = transaction.query_first("SELECT @fence_newest, @fence_holder").await?;
            Err(stale(resource, claim.token(), mark))
        }
        Err(error) => Err(error.into()),
    }
}

impl From<Error> for FenceError {
    /// Maps the error code, so that `?` works for later statements and the commit too.
    fn from(error: Error) -> Self {
        match error {
            Error::Server(ServerError { code, message, .. }) if CONFLICTS.contains(&code) => {
                Self::Conflict { reason: message }
            }
            Error::Server(ServerError { state, message, .. }) if state == MISSING_TOKEN => {
                Self::MissingToken { reason: message }
            }
            Error::Server(ServerError { state, message, .. }) if state == UNSAFE_SNAPSHOT => {
                Self::UnsafeSnapshot { reason: message }
            }
            Error::Server(_)
            | Error::Driver(_)
            | Error::Io(_)
            | Error::Url(_)
            | Error::Other(_) => Self::Store(Box::new(error)),
        }
    }
}
