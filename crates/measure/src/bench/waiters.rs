//! Many waiters in one queue: the wake-ups of a release, the memory of each waiter, and the rate of hand-overs compared
//! with a short queue.
//!
//! All waiters queue while the lock is held, each with its own connection and session. Then the holder releases the
//! lock, and each waiter queues again after its release. A waiter whose call fails leaves the queue and counts as an
//! error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::load::{LoadClient, LoadJudge};
use clap::Args;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table};
use holdfast_client::{Client, LockName};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::JoinSet;

use super::access::Access;
use super::client::BenchClient;
use super::connection::node_metric;
use super::footprint::resident;
use super::report::{check_violations, error_counts, per_second};
use super::requests::Requests;
use super::target::OwnCluster;

/// The TTL of the sessions; the measurement does not renew them.
const TTL: Duration = Duration::from_hours(24);
/// The longest wait that the API accepts.
const WAIT: Duration = holdfast_api::WAIT_MAX;
/// The time limit until all waiters are queued.
const QUEUEING_TIMEOUT: Duration = Duration::from_mins(3);
const WAKE_UPS: &str = "holdfast_lock_wake_ups_total";

/// Compare many waiters on one lock with a few: hand-overs, wake-ups, memory.
#[derive(Debug, Args)]
pub(super) struct WaitersArgs {
    /// The number of waiters on one lock, each with its own connection and session.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    count: u32,
    /// The number of waiters of the comparison.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    few: u32,
    /// The measured time of each queue, seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// The measurements of one queue.
#[derive(Debug, Serialize)]
struct WaitersRow {
    waiters: u32,
    hand_overs: u64,
    hand_overs_per_second: f64,
    wake_ups: u64,
    /// Summed over all nodes.
    resident_bytes_per_waiter: u64,
    errors: BTreeMap<String, u64>,
    violations: u64,
}

#[derive(Debug, Serialize)]
struct WaitersReport {
    few: WaitersRow,
    many: WaitersRow,
}

impl WaitersReport {
    fn text(&self) -> String {
        let header = [
            "waiters",
            "hand-overs/s",
            "hand-overs",
            "wake-ups",
            "KiB a waiter, all nodes",
            "errors",
            "violations",
        ];
        table(header, [&self.few, &self.many].map(WaitersRow::cells))
    }
}

impl WaitersRow {
    fn cells(&self) -> [String; 7] {
        [
            self.waiters.to_string(),
            format!("{:.0}", self.hand_overs_per_second),
            self.hand_overs.to_string(),
            self.wake_ups.to_string(),
            (self.resident_bytes_per_waiter >> 10).to_string(),
            error_counts(&self.errors),
            self.violations.to_string(),
        ]
    }
}

pub(super) async fn run(args: &WaitersArgs) -> Result<(), CommandFailure> {
    let own = OwnCluster::start(3).await.map_err(CommandFailure::Failed)?;
    let measured = measure(args, &own).await;
    own.stop().await;
    let report = measured.map_err(CommandFailure::Failed)?;
    let rate = format!("{:.0}", report.many.hand_overs_per_second);
    answer(args.output.format, &report, rate, &report.text());
    check_violations(report.few.violations + report.many.violations)
}

async fn measure(args: &WaitersArgs, own: &OwnCluster) -> Result<WaitersReport, String> {
    let few = row(own, "bench/few", args.few, args.seconds).await?;
    let many = row(own, "bench/many", args.count, args.seconds).await?;
    Ok(WaitersReport { few, many })
}

/// The shared state of the waiters of one lock.
#[derive(Debug, Default)]
struct WaiterGroup {
    judge: LoadJudge,
    handed: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

async fn row(own: &OwnCluster, lock: &str, count: u32, seconds: u64) -> Result<WaitersRow, String> {
    let endpoints = own.cluster.layout().endpoints();
    let before = residents(own)?;
    let mut holder = connect(&endpoints, lock, 0).await?;
    holder.acquire().await?;
    let group = Arc::<WaiterGroup>::default();
    let mut waiters = JoinSet::new();
    for number in 1..=count {
        waiters.spawn(take_turns(group.clone(), endpoints.clone(), lock.to_owned(), number));
    }
    wait_until_queued(&endpoints, lock, count, &group).await?;
    let after = residents(own)?;
    let woken = wake_ups(&endpoints).await?;
    let start = Instant::now();
    holder.release().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (handed, elapsed) = (group.handed.load(Ordering::SeqCst), start.elapsed());
    let woken = wake_ups(&endpoints).await?.saturating_sub(woken);
    waiters.shutdown().await;
    let errors = group.errors.lock().clone();
    Ok(WaitersRow {
        waiters: count,
        hand_overs: handed,
        hand_overs_per_second: per_second(handed, elapsed),
        wake_ups: woken,
        resident_bytes_per_waiter: after.saturating_sub(before) / u64::from(count),
        errors,
        violations: group.judge.violations(),
    })
}

/// Opens the connection of a waiter.
async fn connect(endpoints: &[String], lock: &str, number: u32) -> Result<BenchClient, String> {
    let session = format!("{}-{number}", lock.replace('/', "-"));
    let requests = Requests::new(lock, &session, TTL, WAIT);
    let requests = requests.map_err(|error| error.to_string())?;
    let first = usize::try_from(number).map_err(|error| error.to_string())?;
    let mut client = BenchClient::new(requests, endpoints, first);
    client.connect().await?;
    Ok(client)
}

/// Acquires and releases the lock until a call fails.
async fn take_turns(group: Arc<WaiterGroup>, endpoints: Vec<String>, lock: String, number: u32) {
    let turns = async {
        let mut client = connect(&endpoints, &lock, number).await?;
        loop {
            let token = client.acquire().await?;
            group.judge.granted(token, false);
            group.handed.fetch_add(1, Ordering::SeqCst);
            // Other clients run here, so that the judge detects a second holder.
            tokio::task::yield_now().await;
            group.judge.releasing();
            client.release().await?;
        }
    };
    let Err::<std::convert::Infallible, String>(kind) = turns.await;
    *group.errors.lock().entry(kind).or_default() += 1;
}

/// Waits until all waiters are queued.
async fn wait_until_queued(
    endpoints: &[String],
    lock: &str,
    count: u32,
    group: &WaiterGroup,
) -> Result<(), String> {
    let client = Client::new(endpoints).map_err(|error| error.to_string())?;
    let name = LockName::new(lock).map_err(|error| error.to_string())?;
    let until = Instant::now() + QUEUEING_TIMEOUT;
    loop {
        let waiting = client.lock_state(&name).await.map_err(|error| error.to_string())?.waiters;
        if waiting == count {
            return Ok(());
        }
        if let Some((kind, times)) = group.errors.lock().first_key_value() {
            return Err(format!(
                "{waiting} of {count} waiters are queued, and {times} failed: {kind}"
            ));
        }
        if Instant::now() > until {
            return Err(format!(
                "only {waiting} of {count} waiters are queued after {QUEUEING_TIMEOUT:?}"
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the resident memory of all nodes together, bytes.
fn residents(own: &OwnCluster) -> Result<u64, String> {
    own.cluster.layout().ids().map(|node| resident(own, node)).sum()
}

/// Returns the number of calls that all nodes have woken so far.
async fn wake_ups(endpoints: &[String]) -> Result<u64, String> {
    let mut sum = 0;
    for endpoint in endpoints {
        sum += node_metric::<u64>(endpoint, WAKE_UPS, &Access::default()).await?;
    }
    Ok(sum)
}
