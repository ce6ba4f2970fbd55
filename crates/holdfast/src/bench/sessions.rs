//! Many sessions, each holding one lock: how fast they are opened, what they cost each node, what survives restarts.
//!
//! At the end, after every node was restarted, every lock must still be held.

use std::time::{Duration, Instant};

use holdfast_client::{Client, LockQuery};

use super::bulk::Bulk;
use super::footprint;
use super::report::BulkReport;
use super::requests::Requests;
use super::target::Own;
use crate::cli::SessionsArgs;
use crate::exit::Stop;

/// Nothing is renewed while we measure.
const TTL: Duration = Duration::from_hours(24);
/// Below this name the locks lie.
const PREFIX: &str = "sessions/";

/// Measures and reports.
pub(super) async fn run(args: &SessionsArgs) -> Result<(), Stop> {
    let mut own = Own::start(3).await.map_err(Stop::Failed)?;
    let measured = measure(args, &mut own).await;
    own.stop().await;
    measured.map_err(Stop::Failed)?.finish(args.output)
}

async fn measure(args: &SessionsArgs, own: &mut Own) -> Result<BulkReport, String> {
    let began = Instant::now();
    let bulk = Bulk {
        what: "opening sessions",
        calls: args.count,
        clients: args.clients,
        request: acquire,
        is_done: |_| false,
    };
    let errors = bulk.make(&own.cluster.layout().endpoints()).await?;
    let elapsed = began.elapsed();
    let nodes = footprint::measure(own).await?;
    let held = count_held(own.cluster.layout().endpoints()).await?;
    let what = "sessions, each holding a lock,";
    Ok(BulkReport::new(what, args.count, elapsed, errors, nodes, held))
}

fn acquire(number: u32) -> Result<Vec<u8>, String> {
    let (lock, session) = (format!("{PREFIX}{number}"), format!("session-{number}"));
    Requests::new(&lock, &session, TTL, Duration::ZERO)
        .map(|requests| requests.acquire)
        .map_err(|error| error.to_string())
}

/// Locks held, read through the front door.
async fn count_held(endpoints: Vec<String>) -> Result<u64, String> {
    let client = Client::new(endpoints).map_err(|error| error.to_string())?;
    let query = LockQuery { prefix: Some(PREFIX.to_owned()), held: true, ..LockQuery::default() };
    let mut held = 0;
    client.each_lock(query, |_| held += 1).await.map_err(|error| error.to_string())?;
    Ok(held)
}
