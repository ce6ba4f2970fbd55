//! Fenced transactions on `MySQL` and `MariaDB` through `mysql_async`.
//!
//! Owns the order "raise the mark, then read, then write" and the mapping from SQLSTATE to [`FenceError`]; each of
//! [`SCHEMA_SQL`] must have been run in the database. Refuses to know what is written, and holds nothing between calls.
//!
//! Only transactional tables (`InnoDB`) are protected. The mark stays locked until the transaction ends, and the next
//! holder waits for it: do not think inside it. `START TRANSACTION WITH CONSISTENT SNAPSHOT`, and a `SELECT` before the
//! guard at `REPEATABLE READ`, take the snapshot before the mark is raised: the guard refuses that snapshot if it is older
//! than the last fenced transaction.

use holdfast_types::FencingToken;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, ServerError, Transaction, TxOpts};

use crate::claim::{named, numbers};
use crate::{Claim, FenceError};

pub use crate::recipes::MYSQL_SCHEMA as SCHEMA_SQL;

/// SQLSTATE of a refused stale token.
pub const STALE: &str = "FN001";
/// SQLSTATE of a write without a usable token.
pub const MISSING_TOKEN: &str = "FN002";
/// SQLSTATE of a transaction whose snapshot is older than the last fenced transaction.
pub const UNSAFE_SNAPSHOT: &str = "FN003";

/// Server errors that mean "another transaction came first": deadlock, lock wait timeout, record has changed.
const CONFLICTS: [u16; 3] = [1213, 1205, 1020];

/// Begins a transaction and, before anything can be read in it, raises the mark of `resource` to `token`.
///
/// # Errors
/// [`FenceError::Stale`] if a newer token was seen, [`FenceError::Conflict`] if another holder's transaction kept the
/// mark longer than `innodb_lock_wait_timeout`; the transaction is rolled back.
pub async fn begin<'a>(
    connection: &'a mut Conn,
    resource: &str,
    token: impl Into<Claim>,
) -> Result<Transaction<'a>, FenceError> {
    begin_with(connection, resource, token.into(), None).await
}

/// As [`begin`], naming the holder: its session, host or person.
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
        Err(refusal) => {
            transaction.rollback().await?;
            Err(refusal)
        }
    }
}

/// Raises the mark inside a transaction that the caller began. Must be the transaction's first statement: what was
/// read before it is not protected.
///
/// # Errors
/// [`FenceError::Stale`] if a newer token was seen, [`FenceError::UnsafeSnapshot`] if the transaction has read before and
/// its snapshot is older than the last fenced transaction, [`FenceError::Conflict`] if another holder was faster. The
/// transaction is then good for a rollback only.
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
            Err(refusal(transaction, resource, claim.token()).await)
        }
        Err(error) => Err(error.into()),
    }
}

/// Says who was faster.
async fn refusal(
    transaction: &mut Transaction<'_>,
    resource: &str,
    token: FencingToken,
) -> FenceError {
    let facts = transaction.query_first("SELECT @fence_newest, @fence_holder").await;
    match facts {
        Ok(Some((newest, holder))) => {
            let newest = FencingToken(newest);
            FenceError::Stale { resource: resource.to_owned(), token, newest, holder }
        }
        Ok(None) => FenceError::Conflict { reason: "the mark has gone".to_owned() },
        Err(error) => error.into(),
    }
}

impl From<Error> for FenceError {
    /// Tells a lost race and a missing token from a failure, also in later statements and at the commit.
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
