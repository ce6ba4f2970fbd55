//! One write to a user's own `PostgreSQL`, in a connection and a transaction of its own, and what came of it.
//!
//! Owns how a refusal is told from a failure: by SQLSTATE, and by no row where the statement compares; and what an open
//! table is missing. Refuses to judge.

use holdfast_fence::{FencingToken, guard_table_for_sql, try_table_sql};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, IsolationLevel, NoTls, SimpleQueryMessage};

use super::endpoint::{PATIENCE, Said, TOKEN};
use crate::cli::DrillArgs;
use crate::exit::Stop;

/// What a trigger reads, for this transaction.
const SHOW: &str =
    "SELECT set_config('fence.resource', $1, true), set_config('fence.token', $2, true)";
/// A guard's own codes, what `RAISE EXCEPTION` says without one, and constraints that do not hold.
const REFUSALS: [&str; 3] = ["FN", "P0001", "23"];

/// Whether `fence init` was run in a schema that the connection sees.
const INSTALLED: &str = "SELECT to_regproc('fence_guard') IS NOT NULL";

/// The database as the command line describes it.
pub(super) struct Database<'a> {
    config: Config,
    statement: String,
    /// The trigger that guards the table, if a table is drilled.
    trigger: Option<String>,
    /// Whether no row is a refusal.
    counts_rows: bool,
    resource: &'a str,
}

impl<'a> Database<'a> {
    /// Checks what can be checked without asking.
    pub(super) fn new(url: &str, args: &'a DrillArgs) -> Result<Self, Stop> {
        let mut config: Config =
            url.parse().map_err(|error| Stop::failed(format!("--postgres: {error}")))?;
        config.connect_timeout(PATIENCE).application_name("holdfast fence drill");
        let statement = match (&args.table, &args.sql) {
            (Some(table), _) => try_table_sql(table).map_err(Stop::failed)?,
            (None, Some(sql)) => sql.clone(),
            (None, None) => return Err(Stop::failed("say how to write: --table or --sql")),
        };
        let resource = args.resource.as_deref().unwrap_or(&args.lock);
        let trigger = args.table.as_ref().map(|table| guard_table_for_sql(table, resource));
        let trigger = trigger.transpose().map_err(Stop::failed)?;
        Ok(Self { config, statement, trigger, counts_rows: args.table.is_none(), resource })
    }

    /// Writes as the holder of a token would, or as somebody without one.
    pub(super) async fn write(&self, token: Option<FencingToken>) -> Said {
        match tokio::time::timeout(PATIENCE, self.connect_and_write(token)).await {
            Ok(Ok(0)) if self.counts_rows => Said::Refused("no row".to_owned()),
            Ok(Ok(1)) if self.counts_rows => Said::Accepted("1 row".to_owned()),
            Ok(Ok(rows)) if self.counts_rows => Said::Accepted(format!("{rows} rows")),
            Ok(Ok(_)) => Said::Accepted("committed".to_owned()),
            Ok(Err(error)) => sorted(&error),
            Err(_) => Said::Nothing(format!("no answer in {PATIENCE:?}")),
        }
    }

    /// What to do if a stale write was accepted. A statement to run is on a line of its own.
    pub(super) async fn fix(&self) -> String {
        let Some(trigger) = &self.trigger else {
            return "the statement has to compare the token, or to call fence_check first: docs/fencing.md".to_owned();
        };
        let statement = trigger.trim_end();
        match tokio::time::timeout(PATIENCE, self.is_installed()).await {
            Ok(Ok(true)) => format!("the table has no fence trigger that fires, run:\n{statement}"),
            Ok(Ok(false) | Err(_)) | Err(_) => format!(
                "install the guard (holdfast fence init --postgres), and then put its trigger on the table:\n{statement}"
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

    /// How many rows the last statement was about.
    async fn transact(
        &self,
        client: &mut Client,
        token: Option<FencingToken>,
    ) -> Result<u64, Error> {
        let mut start = client.build_transaction();
        if self.trigger.is_some() {
            // The guard refuses more; a statement of the user's runs at the database's default.
            start = start.isolation_level(IsolationLevel::ReadCommitted);
        }
        let transaction = start.start().await?;
        let number = token.map(|token| token.to_string());
        if let Some(number) = &number {
            let shown: [(&(dyn ToSql + Sync), Type); 2] =
                [(&self.resource, Type::TEXT), (number, Type::TEXT)];
            transaction.query_typed(SHOW, &shown).await?;
        }
        let statement = self.statement.replace(TOKEN, number.as_deref().unwrap_or("NULL"));
        let said = transaction.simple_query(&statement).await?;
        transaction.commit().await?;
        let rows = said.iter().rev().find_map(|message| {
            if let SimpleQueryMessage::CommandComplete(rows) = message { Some(*rows) } else { None }
        });
        Ok(rows.unwrap_or(0))
    }
}

fn sorted(error: &Error) -> Said {
    let Some(refusal) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        return Said::Nothing(cause.unwrap_or_else(|| error.to_string()));
    };
    let code = refusal.code().code();
    let shown = format!("{code}: {}", refusal.message());
    if REFUSALS.iter().any(|beginning| code.starts_with(beginning)) {
        Said::Refused(shown)
    } else {
        Said::Nothing(shown)
    }
}
