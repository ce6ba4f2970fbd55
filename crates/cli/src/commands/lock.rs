//! `holdfast lock`: acquires locks, prints the fencing tokens, and holds the locks until SIGINT or SIGTERM.
//!
//! stdout gets only the tokens, after the grant. If they cannot be written, the locks are released. A loss is exit code
//! 76: the caller must stop the work that the lock protects.

use std::pin::pin;
use std::time::SystemTime;

use clap::Args;
use holdfast_api::{GrantAllBody, GrantBody};
use holdfast_client::{Hold, MultiGuard};
use holdfast_types::{Owner, Reason};
use tokio::sync::oneshot;

use super::acquire::{AcquireArgs, Acquirer, unless_stopped};
use super::release_requests::ReleaseRequests;
use crate::arguments::{ClusterArgs, Format};
use crate::exit::CommandFailure;
use crate::output::{
    answer, answer_rows, check_complete, flush_stderr, print_in_thread, queue_stderr, short_time,
    write_stderr,
};
use crate::signals::JobSignals;

/// Acquire one or several locks, print the fencing token, and hold until ^C.
#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    pub(super) acquire: AcquireArgs,
    #[command(flatten)]
    durable: DurableArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// A hold that outlasts this process and every session.
#[derive(Debug, Args)]
struct DurableArgs {
    /// Keep the lock without a session, until holdfast unlock with --owner and --token, or --force. Prints the token and
    /// ends; with --wait it waits in the queue first, at most 5m. A repeated command returns the same token.
    #[arg(help_heading = "Durable hold", long, requires = "owner", requires = "reason", conflicts_with_all = NOT_DURABLE)]
    durable: bool,
    /// Who keeps the lock: a person, or a name that a job keeps when it is repeated.
    #[arg(help_heading = "Durable hold", long, value_name = "NAME", requires = "durable")]
    owner: Option<Owner>,
    /// Why, for everybody who reads the lock.
    #[arg(help_heading = "Durable hold", long, value_name = "TEXT", requires = "durable")]
    reason: Option<Reason>,
}

/// The options that need a session, or a process that holds the lock.
const NOT_DURABLE: [&str; 14] = [
    "also",
    "session",
    "ttl",
    "label",
    "timeout",
    "shared",
    "permits",
    "shards",
    "shard",
    "queue_max",
    "max_hold",
    "min_hold",
    "priority",
    "value",
];

pub(crate) async fn run(args: LockArgs) -> Result<(), CommandFailure> {
    let DurableArgs { durable, owner, reason } = &args.durable;
    if let (true, Some(owner), Some(reason)) = (*durable, owner, reason) {
        return hold_durably(&args, owner, reason).await;
    }
    let mut signals = JobSignals::install()?;
    let acquirer = Acquirer::new(&args.acquire.waiting, &args.cluster.nodes)?;
    let guard = acquirer.acquire(&args.acquire, signals.next_stop()).await;
    let guard = guard.map_err(|failure| {
        let CommandFailure::Lost(reason) = failure else { return failure };
        let names = args.acquire.names();
        CommandFailure::NotAcquired(format!(
            "{names} was not acquired: {reason}; repeat the command"
        ))
    })?;
    let (holding, printing) = (holding(&guard), print_grants(&guard, args.cluster.format()));
    let print = async move {
        let printed = printing.await.is_ok_and(|printed| printed);
        if printed && !args.acquire.waiting.quiet {
            queue_stderr(&holding);
        }
        printed
    };
    let end = hold(guard, &args.acquire, &acquirer, &mut signals, print).await;
    flush_stderr();
    end
}

async fn hold_durably(
    args: &LockArgs,
    owner: &Owner,
    reason: &Reason,
) -> Result<(), CommandFailure> {
    let AcquireArgs { name, waiting, .. } = &args.acquire;
    let wait = waiting.wait.unwrap_or_default();
    let client = args.cluster.client()?;
    let grant = client.hold_durably(name, owner, reason, wait).await?;
    let token = grant.token;
    answer(args.cluster.format(), &grant, token, &token.to_string());
    if !waiting.quiet {
        write_stderr(&format!(
            "holdfast: {owner} holds {name} until: holdfast unlock {name} --owner {owner} --token {token}"
        ));
    }
    check_complete()
}

/// Prints the token, or a line `NAME TOKEN` for each of several locks. Resolves with whether all was written.
fn print_grants(guard: &MultiGuard, format: Format) -> oneshot::Receiver<bool> {
    let grants: Vec<GrantBody> = guard.holds().map(|hold| (*hold.grant()).clone()).collect();
    let lines = token_lines(guard);
    print_in_thread(move || {
        if let [grant] = grants.as_slice() {
            answer(format, grant, grant.token, &grant.token.to_string());
        } else {
            let revision = grants.first().map(|grant| grant.revision).unwrap_or_default();
            let body = GrantAllBody { grants, note: None, revision };
            answer_rows(format, &body, &body.grants, &lines, &lines.join("\n"));
        }
    })
}

/// `NAME TOKEN` for each lock.
pub(super) fn token_lines(guard: &MultiGuard) -> Vec<String> {
    guard.holds().map(|hold| format!("{} {}", hold.lock(), hold.token())).collect()
}

fn holding(guard: &MultiGuard) -> String {
    let named: Vec<String> =
        guard.holds().map(|hold| format!("{}, token {}", hold.lock(), hold.token())).collect();
    let them = if named.len() == 1 { "it" } else { "them" };
    format!("holdfast: holding {}; ^C or SIGTERM releases {them}", named.join("; "))
}

async fn hold(
    guard: MultiGuard,
    args: &AcquireArgs,
    acquirer: &Acquirer<'_>,
    signals: &mut JobSignals,
    print: impl Future<Output = bool>,
) -> Result<(), CommandFailure> {
    let mut requests = ReleaseRequests::of(&guard);
    let (mut print, mut is_printed) = (pin!(print), false);
    loop {
        tokio::select! {
            printed = &mut print, if !is_printed => {
                if !printed {
                    return Err(not_printed(guard, args, acquirer, signals).await);
                }
                is_printed = true;
            }
            (lock, loss) = guard.lost() => {
                let at = httpdate::fmt_http_date(SystemTime::now());
                if guard.holds().any(Hold::is_held) {
                    acquirer.release_lost(guard).await;
                }
                return Err(CommandFailure::Lost(format!(
                    "{lock} is lost: {loss}, detected at {at}; stop the work that it protected"
                )));
            }
            _ = signals.next_stop() => break,
            request = requests.next() => queue_stderr(&request),
        }
    }
    let left = guard.remaining();
    unless_stopped(acquirer.release(guard), signals).await.map_err(|reason| {
        let left = short_time(holdfast_types::millis(left));
        let names = args.names();
        CommandFailure::failed(format!(
            "{names} may not be released, it is free in about {left}: {reason}"
        ))
    })
}

/// Releases locks whose tokens could not be printed.
async fn not_printed(
    guard: MultiGuard,
    args: &AcquireArgs,
    acquirer: &Acquirer<'_>,
    signals: &mut JobSignals,
) -> CommandFailure {
    let released = match unless_stopped(acquirer.release(guard), signals).await {
        Ok(()) => "the lock is released".to_owned(),
        Err(reason) => format!("the lock is free when its session ends: {reason}"),
    };
    let names = args.names();
    CommandFailure::failed(format!("the token of {names} could not be printed, so {released}"))
}
