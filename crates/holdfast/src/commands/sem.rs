//! `holdfast sem`: semaphores, which are locks with several permits.

use clap::{Args, Subcommand};
use holdfast_api::LockBody;
use holdfast_types::PolicyChange;

use super::acquire::PermitsOfLimit;
use super::lock::{self, LockArgs};
use super::lock_text::{holders_total, labels_text, limit};
use crate::arguments::OneLockArgs;
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, cell, more, short_time, table};

/// Semaphores: locks with several permits.
#[derive(Debug, Subcommand)]
pub(crate) enum SemCommand {
    /// Acquire permits (one, or as many as --permits), print the fencing token, and hold until ^C.
    Take(Box<LockArgs>),
    /// Show the holders of the permits with their slots, and the number of waiters.
    Ls(OneLockArgs),
    /// Set the number of permits. A number below the permits in use revokes none of them.
    Set(SemSetArgs),
}

/// Set the number of permits.
#[derive(Debug, Args)]
pub(crate) struct SemSetArgs {
    #[command(flatten)]
    lock: OneLockArgs,
    /// The number of permits.
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

pub(crate) async fn run(command: SemCommand) -> Result<(), CommandFailure> {
    match command {
        SemCommand::Take(mut args) => {
            if let Some(other) = args.acquire.also.first() {
                return Err(CommandFailure::usage(format!(
                    "permits belong to one semaphore: leave {other} out"
                )));
            }
            args.acquire.permits.get_or_insert(PermitsOfLimit { count: 1, limit: None });
            lock::run(*args).await
        }
        SemCommand::Ls(args) => ls(args).await,
        SemCommand::Set(args) => set(args).await,
    }
}

async fn ls(OneLockArgs { name, cluster }: OneLockArgs) -> Result<(), CommandFailure> {
    let body = cluster.client()?.look(&name).await?;
    let Some(limit) = limit(&body) else {
        return Err(CommandFailure::failed(format!(
            "{name} is not a semaphore: while it is not in use, holdfast sem set {name} N makes it one"
        )));
    };
    let sessions = body.holders.iter().map(|holder| &holder.session);
    answer_rows(cluster.format(), &body, &body.holders, sessions, &show(&body, limit));
    Ok(())
}

fn show(body: &LockBody, limit: u32) -> String {
    let held = body.permits_held.unwrap_or_default();
    let line = format!("{}: {held} of {limit} permits held, {} waiting", body.lock, body.waiters);
    if body.holders.is_empty() {
        return line;
    }
    let rows = body.holders.iter().map(|holder| {
        let slots: Vec<String> = holder.slots.iter().map(u32::to_string).collect();
        [
            holder.session.to_string(),
            holder.permits.to_string(),
            cell(Some(slots.join(","))),
            holder.token.to_string(),
            short_time(holder.held_for_ms),
            cell(Some(labels_text(&holder.session, &holder.labels))),
        ]
    });
    let header = ["holder", "permits", "slots", "token", "for", "labels"];
    let more = more(holders_total(body), body.holders.len());
    format!("{line}\n\n{}{more}", table(header, rows))
}

async fn set(args: SemSetArgs) -> Result<(), CommandFailure> {
    let OneLockArgs { name, cluster } = args.lock;
    let policy = PolicyChange { limit: Some(Some(args.limit)), ..PolicyChange::default() };
    let body = cluster.client()?.set_policy(&name, &policy).await?;
    let limit = body.limit.unwrap_or_default();
    answer(cluster.format(), &body, limit, &format!("{name} has {limit} permits"));
    Ok(())
}
