//! Fenced transactions on PostgreSQL through `tokio-postgres`.
//!
//! A transaction raises the mark, then reads, then writes (rule 3 of `docs/fencing.md`). Run [`crate::schema_sql`] in
//! the database first.
//!
//! The mark stays locked until the transaction ends, and the next holder waits for it. Do no long work and call no
//! other service inside the transaction. For long work, read in one transaction and write in a second one with the same
//! token; if another holder got the lock meanwhile, the second `begin` fails.

use holdfast_types::FencingToken;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::claim::{named, numbers};
use crate::{Claim, FenceError};

/// SQLSTATE of a stale token.
pub const STALE: &str = "FN001";
/// SQLSTATE of a write without a valid token.
pub const MISSING_TOKEN: &str = "FN002";
/// SQLSTATE of a transaction above `READ COMMITTED`.
pub const UNSAFE_SNAPSHOT: &str = "FN003";

const ADVANCE: &str = "SELECT fence_check_shared($1, $2, $3, $4), \
     set_config('fence.resource', $1, true), \
     set_config('fence.token', $2::bigint::text, true), \
     set_config('fence.floor', $3::bigint::text, true), \
     set_config('fence.holder', coalesce($4, ''), true)";

/// Begins a transaction at `READ COMMITTED` and raises the mark of `resource` to `token` before the first read. Tables
/// guarded by [`crate::guard_table_sql`] accept its writes. The holder in errors of others is the `application_name` of
/// the connection. For a shared hold, use a [`Claim`] as the token.
///
/// # Errors
/// [`FenceError::Stale`] if the resource has seen a newer token; the transaction is rolled back.
pub async fn begin<'a>(
    client: &'a mut Client,
    resource: &str,
    token: impl Into<Claim>,
) -> Result<Transaction<'a>, FenceError> {
    let transaction = read_committed(client).await?;
    advance(&transaction, resource, token, None).await?;
    Ok(transaction)
}

/// As [`begin`], with the name of the holder: its session, host or person.
///
/// # Errors
/// [`FenceError::Stale`] if the resource has seen a newer token; the transaction is rolled back.
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

/// Raises the mark inside a transaction of the caller. It must be the first statement: earlier reads are not protected.
///
/// # Errors
/// [`FenceError::Stale`] if the resource has seen a newer token, [`FenceError::UnsafeSnapshot`] if the isolation level
/// is above `READ COMMITTED`. Then the transaction can only be rolled back.
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

/// The largest mark of all fence tables of the database; `None` without a mark.
///
/// # Errors
/// [`FenceError::Store`], also without the right to read a table.
pub async fn largest_mark(client: &Client) -> Result<Option<FencingToken>, FenceError> {
    const TABLES: &str = "SELECT quote_ident(n.nspname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relname = 'fence' AND c.relkind IN ('r', 'p') \
         AND to_regprocedure(quote_ident(n.nspname) || '.fence_check_shared(text,bigint,bigint,text)') IS NOT NULL";
    let mut largest = None;
    for row in client.query(TABLES, &[]).await? {
        let schema: String = row.get(0);
        let select = format!("SELECT max(token) FROM {schema}.fence");
        let mark: Option<i64> = client.query_one(&select, &[]).await?.get(0);
        largest = largest.max(mark.map(|mark| FencingToken(mark.cast_unsigned())));
    }
    Ok(largest)
}

impl From<tokio_postgres::Error> for FenceError {
    /// Maps the SQLSTATE, so that `?` works for later statements and the commit too.
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error().and_then(from_db) {
            Some(error) => error,
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

/// The facts of a stale token, from the JSON in the DETAIL.
fn stale(detail: &str) -> Option<FenceError> {
    let facts: serde_json::Value = serde_json::from_str(detail).ok()?;
    Some(FenceError::Stale {
        resource: facts["resource"].as_str()?.to_owned(),
        token: FencingToken(facts["token"].as_u64()?),
        newest: FencingToken(facts["newest"].as_u64()?),
        holder: facts["holder"].as_str().map(str::to_owned),
    })
}
