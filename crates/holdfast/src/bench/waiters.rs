//! A crowd in one queue: whether a release wakes one of them alone, what each costs the nodes, and whether hand-overs become
//! slower than in the queue of a few.
//!
//! Everybody queues, each with a connection and a session of its own, while the lock is held; then it is given back, and
//! each that has had it queues again. Queues of the generator: its crowd. A waiter whose call fails leaves the crowd and is
//! counted as an error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_client::{Client, LockName};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::footprint::resident;
use super::judge::Judge;
use super::report::{CrowdRow, WaitersReport, per_second};
use super::requests::{Requests, error_kind, get};
use super::target::Own;
use crate::cli::WaitersArgs;
use crate::exit::Stop;
use crate::exposition;

/// Nothing is renewed while we measure.
const TTL: Duration = Duration::from_hours(24);
/// How long everybody may wait: the most there is.
const WAIT: Duration = holdfast_api::WAIT_MAX;
/// How long the crowd may take to come together.
const GATHERING: Duration = Duration::from_mins(3);
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

/// What the crowd of one lock shares.
#[derive(Debug, Default)]
struct Crowd {
    judge: Judge,
    handed: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

async fn row(own: &Own, lock: &str, count: u32, seconds: u64) -> Result<CrowdRow, String> {
    let endpoints = own.cluster.layout().endpoints();
    let before = residents(own)?;
    let mut gate = Member::come(&endpoints, lock, 0).await?;
    gate.acquire().await?.ok_or("the lock of a new cluster is held")?;
    let crowd = Arc::<Crowd>::default();
    let mut members = JoinSet::new();
    for number in 1..=count {
        members.spawn(take_turns(crowd.clone(), endpoints.clone(), lock.to_owned(), number));
    }
    gathered(&endpoints, lock, count, &crowd).await?;
    let after = residents(own)?;
    let woken = wake_ups(&endpoints).await?;
    let began = Instant::now();
    gate.release().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (handed, elapsed) = (crowd.handed.load(Ordering::SeqCst), began.elapsed());
    let woken = wake_ups(&endpoints).await?.saturating_sub(woken);
    members.shutdown().await;
    let errors = crowd.errors.lock().clone();
    Ok(CrowdRow {
        waiters: count,
        hand_overs: handed,
        hand_overs_per_second: per_second(handed, elapsed),
        wake_ups: woken,
        resident_bytes_per_waiter: after.saturating_sub(before) / u64::from(count),
        errors,
        violations: crowd.judge.violations(),
    })
}

/// One of the crowd, with its connection.
struct Member {
    connection: Connection,
    requests: Requests,
}

impl Member {
    async fn come(endpoints: &[String], lock: &str, number: u32) -> Result<Self, String> {
        let index = usize::try_from(number).map_err(|error| error.to_string())?;
        let endpoint = endpoints.get(index % endpoints.len().max(1)).ok_or("no node")?;
        let session = format!("{}-{number}", lock.replace('/', "-"));
        let requests = Requests::new(lock, &session, TTL, WAIT);
        let requests = requests.map_err(|error| error.to_string())?;
        let connection = Connection::open(endpoint).await;
        let connection = connection.map_err(|error| format!("connect: {}", error.kind()))?;
        Ok(Self { connection, requests })
    }

    async fn acquire(&mut self) -> Result<Option<u64>, String> {
        call(&mut self.connection, &self.requests.acquire).await
    }

    async fn release(&mut self) -> Result<(), String> {
        call(&mut self.connection, &self.requests.release).await.map(drop)
    }
}

async fn call(connection: &mut Connection, request: &[u8]) -> Result<Option<u64>, String> {
    match connection.exchange(request).await {
        Ok(answer) if (200..300).contains(&answer.status) => Ok(answer.token),
        Ok(answer) => Err(error_kind(answer.status, answer.body)),
        Err(error) => Err(format!("connection: {}", error.kind())),
    }
}

/// Queues, holds for a moment, and queues again, as long as nothing fails.
async fn take_turns(crowd: Arc<Crowd>, endpoints: Vec<String>, lock: String, number: u32) {
    let turns = async {
        let mut member = Member::come(&endpoints, &lock, number).await?;
        loop {
            let token = member.acquire().await?.ok_or("a grant without a token")?;
            crowd.judge.granted(token, false);
            crowd.handed.fetch_add(1, Ordering::SeqCst);
            crowd.judge.releasing();
            member.release().await?;
        }
    };
    let Err::<std::convert::Infallible, String>(kind) = turns.await;
    *crowd.errors.lock().entry(kind).or_default() += 1;
}

/// Waits until the whole crowd stands in the queue.
async fn gathered(
    endpoints: &[String],
    lock: &str,
    count: u32,
    crowd: &Crowd,
) -> Result<(), String> {
    let client = Client::new(endpoints).map_err(|error| error.to_string())?;
    let name = LockName::new(lock).map_err(|error| error.to_string())?;
    let until = Instant::now() + GATHERING;
    loop {
        let waiting = client.look(&name).await.map_err(|error| error.to_string())?.waiters;
        if waiting == count {
            return Ok(());
        }
        if let Some((kind, times)) = crowd.errors.lock().first_key_value() {
            return Err(format!("{waiting} of {count} wait, and {times} could not: {kind}"));
        }
        if Instant::now() > until {
            return Err(format!("only {waiting} of {count} wait after {GATHERING:?}"));
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
