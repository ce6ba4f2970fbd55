//! `holdfast fence`: the guards as text, a token check, and the drill against the user's own endpoint or database.

mod drill;

use clap::{Args, Subcommand};
use holdfast_api::{FenceBody, fence_path};
use holdfast_client::Call;
use holdfast_fence::recipes;

use crate::arguments::OneLockArgs;
use crate::exit::CommandFailure;
use crate::output::{answer, print};

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

/// Print the guard for a store.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag, and clap accepts only one of them"
)]
pub(crate) struct FenceInitArgs {
    /// SQL for `PostgreSQL` 14 or later: a table, a function and a trigger.
    #[arg(long)]
    postgres: bool,
    /// SQL for `MySQL` and `MariaDB`: a table and two procedures.
    #[arg(long)]
    mysql: bool,
    /// SQL for `SQLite` 3.35 or later: a table and a trigger.
    #[arg(long)]
    sqlite: bool,
    /// A Lua script for Redis and Valkey.
    #[arg(long)]
    redis: bool,
    /// A shell script for files on a local disk.
    #[arg(long)]
    file: bool,
}

/// Check whether a token still belongs to the holder.
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
            print(recipe(&args).trim_end());
            Ok(())
        }
        FenceCommand::Check(args) => check(&args).await,
        FenceCommand::Drill(args) => drill::run(&args).await,
    }
}

fn recipe(args: &FenceInitArgs) -> String {
    if args.postgres {
        format!("BEGIN;\n{}\nCOMMIT;", recipes::POSTGRES_SCHEMA)
    } else if args.mysql {
        recipes::mysql_script()
    } else if args.sqlite {
        let check = recipes::SQLITE_CHECK.lines().map(|line| format!("-- {line}\n"));
        let check: String = check.collect::<Vec<_>>().concat();
        format!("{}\n{}", recipes::SQLITE_SCHEMA, check.replace("-- -- ", "-- "))
    } else if args.redis {
        recipes::REDIS_KEY.to_owned()
    } else {
        recipes::FILE_SCRIPT.to_owned()
    }
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
