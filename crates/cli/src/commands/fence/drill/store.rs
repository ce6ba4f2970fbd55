//! The store under test: one write to an HTTP endpoint, or to PostgreSQL in a separate connection and transaction.
//!
//! The SQLSTATE separates a rejection from a failure. If the statement itself compares the token, zero affected rows
//! are a rejection.

use std::time::Duration;

use holdfast_client::http::{HttpClient, HttpRequest, Method, Uri};
use holdfast_fence::{FencingToken, guard_table_for_sql, try_table_sql};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, IsolationLevel, NoTls, SimpleQueryMessage};

use super::DrillArgs;
use crate::exit::CommandFailure;

/// The placeholder for the number of the token.
const TOKEN: &str = "{token}";

/// The time limit of one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// The store's reply to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WriteResult {
    Accepted(String),
    /// The store reported an error of the caller.
    Rejected(String),
    /// The store failed, redirected the call, or did not reply.
    Failed(String),
}

impl std::fmt::Display for WriteResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Accepted(answer) => write!(f, "accepted ({answer})"),
            Self::Rejected(answer) => write!(f, "rejected ({answer})"),
            Self::Failed(reason) => write!(f, "no verdict ({reason})"),
        }
    }
}

/// The store under test.
pub(super) enum DrilledStore<'a> {
    Http(Endpoint<'a>),
    Postgres(Box<DrilledDatabase<'a>>),
}

impl<'a> DrilledStore<'a> {
    pub(super) fn of(args: &'a DrillArgs) -> Result<Self, CommandFailure> {
        match (&args.url, &args.postgres) {
            (Some(url), _) => Endpoint::new(url, args).map(Self::Http),
            (None, Some(url)) => {
                DrilledDatabase::new(url, args).map(|store| Self::Postgres(Box::new(store)))
            }
            (None, None) => Err(CommandFailure::usage("name the store with --url or --postgres")),
        }
    }

    pub(super) async fn write(&self, token: Option<FencingToken>) -> WriteResult {
        match self {
            Self::Http(endpoint) => endpoint.write(token).await,
            Self::Postgres(database) => database.write(token).await,
        }
    }

    /// The options that can fix a rejected write of the current holder.
    pub(super) fn options(&self) -> &'static str {
        match self {
            Self::Http(_) => "see --resource, --method, --body and --header",
            Self::Postgres(_) => "see --lock, --resource and --sql",
        }
    }

    /// A write with a token, in words.
    pub(super) fn request(&self, token: FencingToken) -> String {
        match self {
            Self::Http(endpoint) => endpoint.request(token),
            Self::Postgres(_) => format!("the statements with token {token}"),
        }
    }

    /// Returns the fix for an accepted stale write.
    pub(super) async fn fix(&self) -> String {
        match self {
            Self::Http(_) => "the endpoint must compare Fencing-Token where the data is written, and answer 412: \
                docs/fencing/http.md".to_owned(),
            Self::Postgres(database) => database.fix().await,
        }
    }
}

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
    fn new(url: &str, args: &'a DrillArgs) -> Result<Self, CommandFailure> {
        let mut config: Config =
            url.parse().map_err(|error| CommandFailure::usage(format!("--postgres: {error}")))?;
        config.connect_timeout(WRITE_TIMEOUT).application_name("holdfast fence drill");
        let statement = match (&args.table, &args.sql) {
            (Some(table), _) => try_table_sql(table).map_err(CommandFailure::usage)?,
            (None, Some(sql)) => sql.clone(),
            (None, None) => {
                return Err(CommandFailure::usage("name the write with --table or --sql"));
            }
        };
        let resource = args.resource();
        let trigger = args.table.as_ref().map(|table| guard_table_for_sql(table, resource));
        let trigger = trigger.transpose().map_err(CommandFailure::usage)?;
        Ok(Self { config, statement, trigger, counts_rows: args.table.is_none(), resource })
    }

    /// Writes with the token of a holder, or without a token.
    async fn write(&self, token: Option<FencingToken>) -> WriteResult {
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
    async fn fix(&self) -> String {
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

const HEADER: &str = "Fencing-Token";

/// The endpoint that the command line describes.
pub(super) struct Endpoint<'a> {
    http: HttpClient,
    method: Method,
    url: &'a str,
    args: &'a DrillArgs,
}

impl<'a> Endpoint<'a> {
    fn new(url: &'a str, args: &'a DrillArgs) -> Result<Self, CommandFailure> {
        let parsed: Uri = (url.replace(TOKEN, "1").parse())
            .map_err(|error| CommandFailure::usage(format!("--url {url}: {error}")))?;
        if parsed.scheme_str() != Some("http") {
            return Err(CommandFailure::usage(
                "--url must begin with http://, the drill does not support TLS: use the address of the service behind its proxy",
            ));
        }
        let method = Method::from_bytes(args.method.to_uppercase().as_bytes()).map_err(|_| {
            CommandFailure::usage(format!("--method {:?} is not an HTTP method", args.method))
        })?;
        if method.is_safe() {
            return Err(CommandFailure::usage(format!(
                "--method {method} does not write: use a method that writes"
            )));
        }
        let http = HttpClient::new(WRITE_TIMEOUT);
        Ok(Self { http, method, url, args })
    }

    /// The header of a write: the number alone, as in the reply of a grant, and the resource if the caller names it.
    fn header(&self, token: FencingToken) -> String {
        let quoted = |resource: &str| resource.replace('\\', "\\\\").replace('"', "\\\"");
        let resource = self.args.resource.as_deref();
        let resource = resource.map(|name| format!("; resource=\"{}\"", quoted(name)));
        format!("{token}{}", resource.unwrap_or_default())
    }

    /// The request with a token, in words.
    fn request(&self, token: FencingToken) -> String {
        let url = self.url.replace(TOKEN, &token.to_string());
        format!("{} {url} with {HEADER}: {}", self.method, self.header(token))
    }

    /// Writes with the token of a holder, or without a token.
    async fn write(&self, token: Option<FencingToken>) -> WriteResult {
        let number = token.map(|token| token.to_string()).unwrap_or_default();
        let filled = |text: &str| text.replace(TOKEN, &number);
        let mut request = HttpRequest::new(self.method.clone(), filled(self.url), WRITE_TIMEOUT);
        request.body = filled(&self.args.body).into_bytes();
        request.headers.extend(token.map(|token| (HEADER.to_owned(), self.header(token))));
        for (name, value) in &self.args.header {
            // A header that contains the token is omitted from the write without a token.
            if token.is_some() || !value.contains(TOKEN) {
                request.headers.push((name.clone(), filled(value)));
            }
        }
        match self.http.send(request).await {
            Ok(answer) if answer.status.is_success() => {
                WriteResult::Accepted(answer.status.to_string())
            }
            Ok(answer) if answer.status.is_client_error() => {
                WriteResult::Rejected(answer.status.to_string())
            }
            Ok(answer) => WriteResult::Failed(answer.status.to_string()),
            Err(error) => WriteResult::Failed(error.to_string()),
        }
    }
}
