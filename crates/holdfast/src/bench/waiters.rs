//! Many waiters in one queue: whether a release wakes one of them alone, what each costs the nodes, and whether hand-overs
//! are slower than in a short queue.
//!
//! All waiters queue while the lock is held, each with a connection and a session of its own. Then the holder releases,
//! and each waiter queues again after its turn. A waiter whose call fails leaves the queue and is counted as an error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_client::load::{LoadClient, LoadJudge};
use holdfast_client::{Client, LockName};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::client::BenchClient;
use super::connection::Connection;
use super::footprint::resident;
use super::report::{WaitersReport, WaitersRow, per_second};
use super::requests::{Requests, get};
use super::target::Own;
use crate::cli::WaitersArgs;
use crate::exit::Stop;
use crate::exposition;

/// Nothing is renewed while we measure.
const TTL: Duration = Duration::from_hours(24);
/// The longest wait that the API accepts.
const WAIT: Duration = holdfast_api::WAIT_MAX;
/// How long it may take until all wait.
const QUEUEING_TIMEOUT: Duration = Duration::from_mins(3);
const WAKE_UPS: &str = "holdfast_lock_wake_ups_total";

/// Measures and reports.
pub(super) async fn run(args: &WaitersArgs) -> Result<(), Stop> {
    crate::serve::raise_open_files();
    let own = Own::start(3).await.map_err(Stop::Failed)?;
    let measured = measure(args, &own).await;
    own.stop().await;
    let report = measured.map_err(Stop::Failed)?;
    report.finish(args.output)
}

async fn measure(args: &WaitersArgs, own: &Own) -> Result<WaitersReport, String> {
    let few = row(own, "bench/few", args.few, args.seconds).await?;
    let many = row(own, "bench/many", args.count, args.seconds).await?;
    Ok(WaitersReport { few, many })
}

/// What the waiters of one lock share.
#[derive(Debug, Default)]
struct WaiterGroup {
    judge: LoadJudge,
    handed: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

async fn row(own: &Own, lock: &str, count: u32, seconds: u64) -> Result<WaitersRow, String> {
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
    let began = Instant::now();
    holder.release().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (handed, elapsed) = (group.handed.load(Ordering::SeqCst), began.elapsed());
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

/// A connected waiter of this number.
async fn connect(endpoints: &[String], lock: &str, number: u32) -> Result<BenchClient, String> {
    let session = format!("{}-{number}", lock.replace('/', "-"));
    let requests = Requests::new(lock, &session, TTL, WAIT);
    let requests = requests.map_err(|error| error.to_string())?;
    let first = usize::try_from(number).map_err(|error| error.to_string())?;
    let mut client = BenchClient::new(requests, endpoints, first);
    client.connect().await?;
    Ok(client)
}

/// Queues, holds for a moment, and queues again, as long as nothing fails.
async fn take_turns(group: Arc<WaiterGroup>, endpoints: Vec<String>, lock: String, number: u32) {
    let turns = async {
        let mut client = connect(&endpoints, &lock, number).await?;
        loop {
            let token = client.acquire().await?;
            group.judge.granted(token, false);
            group.handed.fetch_add(1, Ordering::SeqCst);
            group.judge.releasing();
            client.release().await?;
        }
    };
    let Err::<std::convert::Infallible, String>(kind) = turns.await;
    *group.errors.lock().entry(kind).or_default() += 1;
}

/// Waits until all of them are queued.
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
        let waiting = client.look(&name).await.map_err(|error| error.to_string())?.waiters;
        if waiting == count {
            return Ok(());
        }
        if let Some((kind, times)) = group.errors.lock().first_key_value() {
            return Err(format!("{waiting} of {count} wait, and {times} could not: {kind}"));
        }
        if Instant::now() > until {
            return Err(format!("only {waiting} of {count} wait after {QUEUEING_TIMEOUT:?}"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Resident memory of all nodes together, bytes.
fn residents(own: &Own) -> Result<u64, String> {
    own.cluster.layout().ids().map(|node| resident(own, node)).sum()
}

/// Calls that all nodes have woken so far.
async fn wake_ups(endpoints: &[String]) -> Result<u64, String> {
    let mut sum = 0;
    for endpoint in endpoints {
        let mut connection = Connection::open(endpoint).await.map_err(|error| error.to_string())?;
        let answer = connection.exchange(&get("/metrics")).await;
        let answer = answer.map_err(|error| format!("/metrics of {endpoint}: {error}"))?;
        let text = String::from_utf8_lossy(answer.body);
        sum += exposition::value(&text, WAKE_UPS)
            .ok_or_else(|| format!("{endpoint} does not count wake-ups"))?;
    }
    Ok(sum)
}
