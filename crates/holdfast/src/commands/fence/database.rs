//! One write to a user's own `PostgreSQL`, in a connection and a transaction of its own, and what came of it.
//!
//! Owns how a refusal is told from a failure: by SQLSTATE, and by no row where the statement compares. Refuses to know which
//! guard it is, and to judge.

use holdfast_fence::{FencingToken, try_table_sql};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

use super::endpoint::{PATIENCE, Said, TOKEN};
use crate::cli::DrillArgs;
use crate::exit::Stop;

/// What a trigger reads, for this transaction.
const SHOW: &str =
    "SELECT set_config('fence.resource', $1, true), set_config('fence.token', $2, true)";
/// A guard's own codes, what `RAISE EXCEPTION` says without one, and constraints that do not hold.
const REFUSALS: [&str; 3] = ["FN", "P0001", "23"];

/// The database as the command line describes it.
pub(super) struct Database<'a> {
    config: Config,
    statement: String,
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
        Ok(Self { config, statement, counts_rows: args.table.is_none(), resource })
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
        let transaction = client.transaction().await?;
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
