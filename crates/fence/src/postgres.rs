//! Fenced transactions on `PostgreSQL` through `tokio-postgres`.
//!
//! Owns the order "raise the mark, then read, then write" (rule 3 of `docs/fencing.md`) and the mapping from
//! SQLSTATE to [`FenceError`]; [`crate::schema_sql`] must have been run in the database. Refuses to know what is
//! written, and holds nothing between calls.
//!
//! The mark stays locked until the transaction ends, and the next holder waits for it: do not think, and do not
//! call other services, inside the transaction. Read in one transaction, think, write in a second one begun with
//! the same token; if the lock went elsewhere meanwhile, the second `begin` says so.

use holdfast_types::FencingToken;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::claim::{named, numbers};
use crate::{Claim, FenceError};

/// SQLSTATE of a refused stale token.
pub const STALE: &str = "FN001";
/// SQLSTATE of a write without a usable token.
pub const MISSING_TOKEN: &str = "FN002";
/// SQLSTATE of a transaction above `READ COMMITTED`.
pub const UNSAFE_SNAPSHOT: &str = "FN003";

const ADVANCE: &str = "SELECT fence_check_shared($1, $2, $3, $4), \
     set_config('fence.resource', $1, true), \
     set_config('fence.token', $2::bigint::text, true), \
     set_config('fence.floor', $3::bigint::text, true), \
     set_config('fence.holder', coalesce($4, ''), true)";

/// Begins a transaction at `READ COMMITTED`, whatever the session's default is. Before anything can be read in it, raises
/// the mark of `resource` to `token`. Tables guarded by [`crate::guard_table_sql`] accept its writes. The holder's name shown to those who come too late
/// is the connection's `application_name`. A [`Claim`] in the token's place is that of a shared hold.
///
/// # Errors
/// [`FenceError::Stale`] if a newer token was seen; the transaction is rolled back.
pub async fn begin<'a>(
    client: &'a mut Client,
    resource: &str,
    token: impl Into<Claim>,
) -> Result<Transaction<'a>, FenceError> {
    let transaction = read_committed(client).await?;
    advance(&transaction, resource, token, None).await?;
    Ok(transaction)
}

/// As [`begin`], naming the holder: its session, host or person.
///
/// # Errors
/// [`FenceError::Stale`] if a newer token was seen; the transaction is rolled back.
pub async fn begin_as<'a>(
    client: &'a mut Client,
    resource: &str,
    token: impl Into<Claim>,
    holder: &str,
) -> Result<Transaction<'a>, FenceError> {
    let transaction = read_committed(client).await?;
    advance(&transaction, resource, token, Some(holder)).await?;
    Ok(transaction)
}

async fn read_committed(client: &mut Client) -> Result<Transaction<'_>, tokio_postgres::Error> {
    client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await
}

/// Raises the mark inside a transaction that the caller began. Must be the transaction's first statement: what was read
/// before it is not protected.
///
/// # Errors
/// [`FenceError::Stale`] if a newer token was seen, [`FenceError::UnsafeSnapshot`] if the transaction's isolation level is
/// above `READ COMMITTED`. The transaction is then good for a rollback only.
pub async fn advance(
    transaction: &Transaction<'_>,
    resource: &str,
    token: impl Into<Claim>,
    holder: Option<&str>,
) -> Result<(), FenceError> {
    let resource = named(resource)?;
    let (token, floor) = numbers(token.into())?;
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
        (&resource, Type::TEXT),
        (&token, Type::INT8),
        (&floor, Type::INT8),
        (&holder, Type::TEXT),
    ];
    transaction.query_typed(ADVANCE, &params).await?;
    Ok(())
}

impl From<tokio_postgres::Error> for FenceError {
    /// Reads the SQLSTATE, so that `?` tells a refusal by a guard from a failure also in later statements and at
    /// the commit.
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error().and_then(from_db) {
            Some(meaning) => meaning,
            None => Self::Store(Box::new(error)),
        }
    }
}

fn from_db(error: &DbError) -> Option<FenceError> {
    let reason = || error.message().to_owned();
    match error.code().code() {
        STALE => stale(error.detail()?),
        MISSING_TOKEN => Some(FenceError::MissingToken { reason: reason() }),
        UNSAFE_SNAPSHOT => {
            let fix = error.hint().unwrap_or("use READ COMMITTED");
            Some(FenceError::UnsafeSnapshot { reason: format!("{}: {fix}", error.message()) })
        }
        _ if is_conflict(error.code()) => Some(FenceError::Conflict { reason: reason() }),
        _ => None,
    }
}

fn is_conflict(code: &SqlState) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code)
}

/// The facts of a refusal, from the JSON in its DETAIL.
fn stale(detail: &str) -> Option<FenceError> {
    let facts: serde_json::Value = serde_json::from_str(detail).ok()?;
    Some(FenceError::Stale {
        resource: facts["resource"].as_str()?.to_owned(),
        token: FencingToken(facts["token"].as_u64()?),
        newest: FencingToken(facts["newest"].as_u64()?),
        holder: facts["holder"].as_str().map(str::to_owned),
    })
}
