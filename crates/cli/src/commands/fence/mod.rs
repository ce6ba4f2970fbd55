//! `holdfast fence`: the guards as text, a token check, and the drill against the user's own endpoint or database.

mod drill;

use clap::{ArgGroup, Args, Subcommand};
use holdfast_api::{FenceBody, fence_path};
use holdfast_client::Call;
use holdfast_fence::{guard_table_for_sql, recipes};
use holdfast_types::LockName;

use crate::arguments::OneLockArgs;
use crate::exit::CommandFailure;
use crate::output::{answer, check_complete, print};

/// Protect a data store from stale lock holders: guards, checks and drills.
#[derive(Debug, Subcommand)]
pub(crate) enum FenceCommand {
    /// Print the guard for a store.
    Init(FenceInitArgs),
    /// Check whether a token still belongs to the holder. Advice only: the guard of the store decides about writes.
    Check(FenceCheckArgs),
    /// Test whether your own endpoint or database rejects the write of a former holder. It writes real data.
    Drill(drill::DrillArgs),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("store").args(["postgres", "mysql", "sqlite", "redis", "file"]).required(true))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag, and clap accepts only one of them"
)]
pub(crate) struct FenceInitArgs {
    /// SQL for PostgreSQL 14 or later: a table, a function and a trigger function.
    #[arg(long)]
    postgres: bool,
    /// With --postgres: also the trigger that guards this table, TABLE or SCHEMA.TABLE.
    #[arg(long, value_name = "NAME", requires = "lock", conflicts_with_all = ["mysql", "sqlite", "redis", "file"])]
    table: Option<String>,
    /// The lock that protects the table: its trigger accepts only tokens of this lock.
    #[arg(long, value_name = "NAME", requires = "table")]
    lock: Option<LockName>,
    /// SQL for MySQL and MariaDB: a table and two procedures.
    #[arg(long)]
    mysql: bool,
    /// SQL for SQLite 3.35 or later: a table and a trigger.
    #[arg(long)]
    sqlite: bool,
    /// A Lua script for Redis and Valkey.
    #[arg(long)]
    redis: bool,
    /// A shell script for files on a local disk.
    #[arg(long)]
    file: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FenceCheckArgs {
    #[command(flatten)]
    lock: OneLockArgs,
    /// The fencing token of the grant.
    token: u64,
}

pub(crate) async fn run(command: FenceCommand) -> Result<(), CommandFailure> {
    match command {
        FenceCommand::Init(args) => {
            print(recipe(&args)?.trim_end());
            check_complete()
        }
        FenceCommand::Check(args) => check(&args).await,
        FenceCommand::Drill(args) => drill::run(&args).await,
    }
}

fn recipe(args: &FenceInitArgs) -> Result<String, CommandFailure> {
    if args.postgres {
        return postgres_recipe(args);
    }
    Ok(if args.mysql {
        recipes::mysql_script()
    } else if args.sqlite {
        let check = recipes::SQLITE_CHECK.lines().map(|line| format!("-- {line}\n"));
        let check: String = check.collect::<Vec<_>>().concat();
        format!("{}\n{}", recipes::SQLITE_SCHEMA, check.replace("-- -- ", "-- "))
    } else if args.redis {
        recipes::REDIS_KEY.to_owned()
    } else {
        recipes::FILE_SCRIPT.to_owned()
    })
}

fn postgres_recipe(args: &FenceInitArgs) -> Result<String, CommandFailure> {
    let trigger = match (&args.table, &args.lock) {
        (Some(table), Some(lock)) => {
            guard_table_for_sql(table, lock.as_str()).map_err(CommandFailure::usage)?
        }
        (None, _) | (_, None) => String::new(),
    };
    Ok(format!("BEGIN;\n{}\n{trigger}COMMIT;", recipes::POSTGRES_SCHEMA))
}

async fn check(args: &FenceCheckArgs) -> Result<(), CommandFailure> {
    let OneLockArgs { name, cluster } = &args.lock;
    let call = Call::get(format!("{}?token={}", fence_path(name), args.token));
    let body: FenceBody = cluster.client()?.call(&call).await?;
    let text =
        format!("token {} of {} is good: its holder has the lock now", body.token, body.lock);
    answer(cluster.format(), &body, "valid", &text);
    Ok(())
}
