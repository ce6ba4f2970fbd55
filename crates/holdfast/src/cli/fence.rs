//! The command line of `holdfast fence`.

use clap::{ArgGroup, Args, Subcommand};

use super::Target;

/// `holdfast fence`.
#[derive(Debug, Subcommand)]
pub(crate) enum FenceCommand {
    /// Print the guard for a store, ready to be pasted.
    Init(FenceInitArgs),
    /// Ask the cluster whether a token is still good. Advice only: the guard that counts is where the write lands.
    Check(FenceCheckArgs),
    /// Play a holder that was away against your own endpoint or database, and say whether it refuses. It writes for real.
    Drill(DrillArgs),
}

/// `holdfast fence init`.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag to be typed, and clap keeps it to one of them"
)]
pub(crate) struct FenceInitArgs {
    /// SQL for `PostgreSQL` 14 or later: a table, a function and a trigger.
    #[arg(long)]
    pub(crate) postgres: bool,
    /// SQL for `MySQL` and `MariaDB`: a table and two procedures.
    #[arg(long)]
    pub(crate) mysql: bool,
    /// SQL for `SQLite` 3.35 or later: a table and a trigger.
    #[arg(long)]
    pub(crate) sqlite: bool,
    /// A Lua script for Redis and Valkey.
    #[arg(long)]
    pub(crate) redis: bool,
    /// A shell script for files on a local disk.
    #[arg(long)]
    pub(crate) file: bool,
}

/// `holdfast fence check`.
#[derive(Debug, Args)]
pub(crate) struct FenceCheckArgs {
    /// The lock.
    pub(crate) name: String,
    /// The token of its grant.
    pub(crate) token: u64,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast fence drill`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("store").args(["url", "postgres"]).required(true))]
#[command(group = ArgGroup::new("write").args(["table", "sql"]))]
pub(crate) struct DrillArgs {
    /// Your endpoint, which should refuse stale tokens. {token} in it becomes the number.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Or your database, as libpq has it: host=... user=... dbname=..., or a URL. Without TLS.
    #[arg(long, value_name = "URL", requires = "write")]
    pub(crate) postgres: Option<String>,
    /// The table whose trigger is tried, by a statement that changes nothing.
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    pub(crate) table: Option<String>,
    /// Or the statements that write, as your program sends them: no row is a refusal. {token} becomes the number.
    #[arg(long, value_name = "SQL", conflicts_with = "url")]
    pub(crate) sql: Option<String>,
    /// The lock that protects it; taken twice.
    #[arg(long, value_name = "NAME", default_value = "fence-drill")]
    pub(crate) lock: String,
    /// What the header, or the trigger, calls the protected resource; the lock's name unless told otherwise.
    #[arg(long, value_name = "NAME")]
    pub(crate) resource: Option<String>,
    /// The method of the writes.
    #[arg(long, default_value = "PUT", conflicts_with = "postgres")]
    pub(crate) method: String,
    /// The body of the writes. {token} in it becomes the number.
    #[arg(long, default_value = "", conflicts_with = "postgres")]
    pub(crate) body: String,
    /// Another header of the writes. {token} in it becomes the number.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header, conflicts_with = "postgres")]
    pub(crate) header: Vec<(String, String)>,
    /// Where to ask for the lock.
    #[command(flatten)]
    pub(crate) target: Target,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        Some(_) | None => Err(format!("{text:?} is no 'NAME: VALUE'")),
    }
}
