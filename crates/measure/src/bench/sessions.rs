//! Many sessions, each with one lock: the rate, the memory and disk of each node, the restart time.
//!
//! After the restart of every node, the sessions must still hold all locks.

use std::time::{Duration, Instant};

use clap::Args;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_client::{Client, LockQuery};

use super::bulk::BulkCalls;
use super::footprint;
use super::report::BulkReport;
use super::requests::Requests;
use super::target::OwnCluster;

/// The TTL of the sessions; the measurement does not renew them.
const TTL: Duration = Duration::from_hours(24);
/// The prefix of the lock names.
const PREFIX: &str = "sessions/";

/// Measure many sessions, each with a lock: rate, memory, restart time.
#[derive(Debug, Args)]
pub(super) struct SessionsArgs {
    /// The number of sessions, each with one lock.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// The number of connections that open them.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn run(args: &SessionsArgs) -> Result<(), CommandFailure> {
    let mut own = OwnCluster::start(3).await.map_err(CommandFailure::Failed)?;
    let measured = measure(args, &mut own).await;
    own.stop().await;
    measured.map_err(CommandFailure::Failed)?.finish(args.output.format)
}

async fn measure(args: &SessionsArgs, own: &mut OwnCluster) -> Result<BulkReport, String> {
    let start = Instant::now();
    let bulk = BulkCalls {
        what: "opening sessions",
        calls: args.count,
        clients: args.clients,
        request: Box::new(acquire),
        is_done: |_| false,
    };
    let errors = bulk.make(&own.cluster.layout().endpoints()).await?;
    let elapsed = start.elapsed();
    let nodes = footprint::measure(own).await?;
    let held = count_held(own.cluster.layout().endpoints()).await?;
    let what = "sessions with a lock each";
    Ok(BulkReport::new(what, args.count, elapsed, errors, nodes, held))
}

fn acquire(number: u32) -> Result<Vec<u8>, String> {
    let (lock, session) = (format!("{PREFIX}{number}"), format!("session-{number}"));
    Requests::new(&lock, &session, TTL, Duration::ZERO)
        .map(|requests| requests.acquire)
        .map_err(|error| error.to_string())
}

async fn count_held(endpoints: Vec<String>) -> Result<u64, String> {
    let client = Client::new(endpoints).map_err(|error| error.to_string())?;
    let query = LockQuery { prefix: Some(PREFIX.to_owned()), held: true, ..LockQuery::default() };
    let mut held = 0;
    client.for_each_lock(query, |_| held += 1).await.map_err(|error| error.to_string())?;
    Ok(held)
}
