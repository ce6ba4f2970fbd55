//! Many sessions, each holding one lock: how fast they are opened, what they cost each node, what survives restarts.
//!
//! Memory is what the kernel counts as resident (`/proc/<pid>/status`), disk what the files of the data directory
//! occupy. Then each node in turn is asked to stop and started again, and at the end every lock must still be held.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use holdfast_api::{LIST_LIMIT_MAX, ListParams};
use holdfast_client::Client;
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::signal::Signal;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::report::{NodeFootprint, SessionsReport, per_second};
use super::requests::{Requests, error_kind};
use super::target::Own;
use crate::cli::SessionsArgs;
use crate::dev::START_MAX;
use crate::exit::Stop;

/// Nothing is renewed while we measure.
const TTL: Duration = Duration::from_hours(24);
/// A restart reads all state; a large one takes its time.
const RESTART_MAX: Duration = Duration::from_mins(5);
/// How often a call is repeated before its session is given up.
const TRIES: u32 = 20;
const REST: Duration = Duration::from_millis(50);
/// Below this name the locks lie.
const PREFIX: &str = "sessions/";

/// Measures and reports.
pub(super) async fn run(args: &SessionsArgs) -> Result<(), Stop> {
    let mut own = Own::start(3).await.map_err(Stop::Failed)?;
    let measured = measure(args, &mut own).await;
    own.stop().await;
    let report = measured.map_err(Stop::Failed)?;
    report.print(args.output);
    match report.lost {
        0 => Ok(()),
        lost => Err(Stop::failed(format!("{lost} locks that were granted are no longer held"))),
    }
}

async fn measure(args: &SessionsArgs, own: &mut Own) -> Result<SessionsReport, String> {
    let began = Instant::now();
    let errors = open_all(args, own.cluster.layout().endpoints()).await?;
    let elapsed = began.elapsed();
    let mut nodes = Vec::new();
    for node in own.cluster.layout().ids() {
        nodes.push(NodeFootprint {
            node,
            resident_bytes: resident(own, node)?,
            data_bytes: occupied(&own.cluster.layout().node_dir(node)),
            restart_ms: 0.0,
            resident_after_restart_bytes: 0,
        });
    }
    for footprint in &mut nodes {
        footprint.restart_ms = restart(own, footprint.node).await?.as_secs_f64() * 1_000.0;
        footprint.resident_after_restart_bytes = resident(own, footprint.node)?;
    }
    let held = count_held(own.cluster.layout().endpoints()).await?;
    Ok(SessionsReport {
        sessions: args.count,
        seconds: elapsed.as_secs_f64(),
        sessions_per_second: per_second(u64::from(args.count), elapsed),
        errors,
        nodes,
        lost: u64::from(args.count).saturating_sub(held),
    })
}

/// Opens every session with its lock; answers the errors met on the way.
async fn open_all(
    args: &SessionsArgs,
    endpoints: Vec<String>,
) -> Result<BTreeMap<String, u64>, String> {
    let bar = ProgressBar::new(u64::from(args.count));
    if let Ok(style) = ProgressStyle::with_template("opening sessions {bar:40} {pos}/{len}") {
        bar.set_style(style);
    }
    let next = Arc::new(AtomicU32::new(0));
    let mut workers = JoinSet::new();
    for endpoint in endpoints.iter().cycle().take(usize::try_from(args.clients).unwrap_or(1)) {
        workers.spawn(open_some(next.clone(), args.count, endpoint.clone(), bar.clone()));
    }
    let mut errors = BTreeMap::new();
    while let Some(worker) = workers.join_next().await {
        for (kind, count) in worker.map_err(|error| error.to_string())?? {
            *errors.entry(kind).or_default() += count;
        }
    }
    bar.finish_and_clear();
    Ok(errors)
}

/// One connection's share.
async fn open_some(
    next: Arc<AtomicU32>,
    count: u32,
    endpoint: String,
    bar: ProgressBar,
) -> Result<BTreeMap<String, u64>, String> {
    let mut errors = BTreeMap::new();
    let mut connection = None;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(errors);
        }
        let (lock, session) = (format!("{PREFIX}{number}"), format!("session-{number}"));
        let requests = Requests::new(&lock, &session, TTL, Duration::ZERO)
            .map_err(|error| error.to_string())?;
        let mut tries = 0;
        while let Err(kind) = open_one(&mut connection, &endpoint, &requests.acquire).await {
            tries += 1;
            if tries == TRIES {
                return Err(format!("session {number} could not be opened: {kind}"));
            }
            *errors.entry(kind).or_default() += 1;
            connection = None;
            tokio::time::sleep(REST).await;
        }
        bar.inc(1);
    }
}

async fn open_one(
    connection: &mut Option<Connection>,
    endpoint: &str,
    request: &[u8],
) -> Result<(), String> {
    if connection.is_none() {
        *connection =
            Some(Connection::open(endpoint).await.map_err(|error| error.kind().to_string())?);
    }
    let Some(open) = connection else { return Err("no connection".to_owned()) };
    let answer = open.exchange(request).await.map_err(|error| error.kind().to_string())?;
    match answer.status {
        200 => Ok(()),
        status => Err(error_kind(status, answer.body)),
    }
}

/// From the node's end to the moment when all nodes, this one included, know one leader.
async fn restart(own: &mut Own, node: u64) -> Result<Duration, String> {
    own.cluster.signal(node, Signal::SIGTERM).await;
    own.cluster.next_exit().await;
    let began = Instant::now();
    own.cluster.spawn(node)?;
    own.cluster.wait_ready(RESTART_MAX.max(START_MAX)).await?;
    Ok(began.elapsed())
}

/// Locks held, read through the front door.
async fn count_held(endpoints: Vec<String>) -> Result<u64, String> {
    let client = Client::new(endpoints).map_err(|error| error.to_string())?;
    let mut params = ListParams {
        prefix: PREFIX.to_owned(),
        held: true,
        limit: LIST_LIMIT_MAX,
        ..ListParams::default()
    };
    let mut held = 0;
    loop {
        let page = client.locks(&params).await.map_err(|error| error.to_string())?;
        held += u64::try_from(page.locks.len()).unwrap_or(0);
        params.page_token = page.next_page_token;
        if params.page_token.is_none() {
            return Ok(held);
        }
    }
}

/// Resident memory of a node, bytes.
fn resident(own: &Own, node: u64) -> Result<u64, String> {
    let pid = own.cluster.pid(node).ok_or_else(|| format!("node {node} does not run"))?;
    let file = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .ok_or_else(|| format!("{file} does not tell the resident memory"))?;
    Ok(kib * 1024)
}

/// What the files of a directory occupy on disk, bytes; what vanishes meanwhile counts nothing.
fn occupied(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => occupied(&entry.path()),
            Ok(data) => data.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}
