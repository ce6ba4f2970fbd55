//! `holdfast fence`: the guards as text, one question to the cluster, and the drill against a user's own endpoint or
//! database.
//!
//! Owns what is printed. Refuses to know how a guard works: the texts are those of the crate `fence`.

mod database;
mod drill;
mod endpoint;

use holdfast_api::{FenceBody, fence_path};
use holdfast_fence::recipes;

use super::asking::{Ask, Asking};
use super::lock_name;
use crate::cli::{FenceCheckArgs, FenceCommand, FenceInitArgs};
use crate::exit::Stop;
use crate::output::{answer, print};

pub(super) async fn run(command: FenceCommand) -> Result<(), Stop> {
    match command {
        FenceCommand::Init(args) => {
            print(recipe(&args).trim_end());
            Ok(())
        }
        FenceCommand::Check(args) => check(&args).await,
        FenceCommand::Drill(args) => drill::run(&args).await,
    }
}

/// The command line has exactly one of them.
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

async fn check(args: &FenceCheckArgs) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let question = format!("{}?token={}", fence_path(&lock), args.token);
    let body: FenceBody = Asking::new(&args.target, None)?.json(&Ask::get(question)).await?;
    let people =
        || format!("token {} of {} is good: its holder has the lock now", body.token, body.lock);
    answer(args.target.output, &body, || "valid".to_owned(), people);
    Ok(())
}
