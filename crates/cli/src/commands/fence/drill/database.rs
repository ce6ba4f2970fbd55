//! One write to the PostgreSQL under test, in a separate connection and transaction.
//!
//! The SQLSTATE separates a rejection from a failure. If the statement itself compares the token, zero affected rows
//! are a rejection.

use std::time::Duration;

use holdfast_fence::{FencingToken, guard_table_for_sql, try_table_sql};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, IsolationLevel, NoTls, SimpleQueryMessage};

use super::{DrillArgs, TOKEN, WriteResult};
use crate::exit::CommandFailure;

/// The time limit of one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// Sets the variables that the trigger reads, for this transaction.
const SET_TOKEN: &str =
    "SELECT set_config('fence.resource', $1, true), set_config('fence.token', $2, true)";
/// The SQLSTATE classes of rejections: the codes of the guards, `RAISE EXCEPTION` without a code, violated constraints.
const REJECTIONS: [&str; 3] = ["FN", "P0001", "23"];

/// Whether the guard is installed in the search path of the connection.
const INSTALLED: &str = "SELECT to_regproc('fence_guard') IS NOT NULL";

/// The database that the command line describes.
pub(super) struct DrilledDatabase<'a> {
    config: Config,
    statement: String,
    /// The trigger that guards the table; `None` without `--table`.
    trigger: Option<String>,
    /// Whether zero affected rows are a rejection.
    counts_rows: bool,
    resource: &'a str,
}

impl<'a> DrilledDatabase<'a> {
    pub(super) fn new(url: &str, args: &'a DrillArgs) -> Result<Self, CommandFailure> {
        let mut config: Config =
            url.parse().map_err(|error| CommandFailure::failed(format!("--postgres: {error}")))?;
        config.connect_timeout(WRITE_TIMEOUT).application_name("holdfast fence drill");
        let statement = match (&args.table, &args.sql) {
            (Some(table), _) => try_table_sql(table).map_err(CommandFailure::failed)?,
            (None, Some(sql)) => sql.clone(),
            (None, None) => {
                return Err(CommandFailure::failed("name the write with --table or --sql"));
            }
        };
        let resource = args.resource();
        let trigger = args.table.as_ref().map(|table| guard_table_for_sql(table, resource));
        let trigger = trigger.transpose().map_err(CommandFailure::failed)?;
        Ok(Self { config, statement, trigger, counts_rows: args.table.is_none(), resource })
    }

    /// Writes with the token of a holder, or without a token.
    pub(super) async fn write(&self, token: Option<FencingToken>) -> WriteResult {
        match tokio::time::timeout(WRITE_TIMEOUT, self.connect_and_write(token)).await {
            Ok(Ok(0)) if self.counts_rows => WriteResult::Rejected("no row".to_owned()),
            Ok(Ok(1)) if self.counts_rows => WriteResult::Accepted("1 row".to_owned()),
            Ok(Ok(rows)) if self.counts_rows => WriteResult::Accepted(format!("{rows} rows")),
            Ok(Ok(_)) => WriteResult::Accepted("committed".to_owned()),
            Ok(Err(error)) => result(&error),
            Err(_) => WriteResult::Failed(format!("no answer within {WRITE_TIMEOUT:?}")),
        }
    }

    /// Returns the fix for an accepted stale write. A statement to run is on a separate line.
    pub(super) async fn fix(&self) -> String {
        let Some(trigger) = &self.trigger else {
            return "the statement must compare the token, or call fence_check first: docs/fencing/postgresql.md".to_owned();
        };
        let statement = trigger.trim_end();
        match tokio::time::timeout(WRITE_TIMEOUT, self.is_installed()).await {
            Ok(Ok(true)) => format!("the table has no active fence trigger, run:\n{statement}"),
            Ok(Ok(false) | Err(_)) | Err(_) => format!(
                "install the guard (holdfast fence init --postgres), then create its trigger on the table:\n{statement}"
            ),
        }
    }

    async fn is_installed(&self) -> Result<bool, Error> {
        let (client, connection) = self.config.connect(NoTls).await?;
        let driver = tokio::spawn(connection);
        let row = client.query_typed(INSTALLED, &[]).await;
        driver.abort();
        Ok(row?.first().is_some_and(|row| row.get(0)))
    }

    async fn connect_and_write(&self, token: Option<FencingToken>) -> Result<u64, Error> {
        let (mut client, connection) = self.config.connect(NoTls).await?;
        let driver = tokio::spawn(connection);
        let rows = self.transact(&mut client, token).await;
        driver.abort();
        rows
    }

    /// Runs the write in a transaction and returns the row count of the last statement.
    async fn transact(
        &self,
        client: &mut Client,
        token: Option<FencingToken>,
    ) -> Result<u64, Error> {
        let mut start = client.build_transaction();
        if self.trigger.is_some() {
            // The guard rejects higher levels; a user's statement runs at the default level of the database.
            start = start.isolation_level(IsolationLevel::ReadCommitted);
        }
        let transaction = start.start().await?;
        let number = token.map(|token| token.to_string());
        if let Some(number) = &number {
            let params: [(&(dyn ToSql + Sync), Type); 2] =
                [(&self.resource, Type::TEXT), (number, Type::TEXT)];
            transaction.query_typed(SET_TOKEN, &params).await?;
        }
        let statement = self.statement.replace(TOKEN, number.as_deref().unwrap_or("NULL"));
        let messages = transaction.simple_query(&statement).await?;
        transaction.commit().await?;
        let rows = messages.iter().rev().find_map(|message| {
            if let SimpleQueryMessage::CommandComplete(rows) = message { Some(*rows) } else { None }
        });
        Ok(rows.unwrap_or(0))
    }
}

fn result(error: &Error) -> WriteResult {
    let Some(rejection) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        return WriteResult::Failed(cause.unwrap_or_else(|| error.to_string()));
    };
    let code = rejection.code().code();
    let shown = format!("{code}: {}", rejection.message());
    if REJECTIONS.iter().any(|beginning| code.starts_with(beginning)) {
        WriteResult::Rejected(shown)
    } else {
        WriteResult::Failed(shown)
    }
}
