//! The gap of a failover: from `kill -9` of the leader to the next new grant.
//!
//! In each round the benchmark kills the leader under load. One probe on every surviving node then requests its own
//! lock until the node grants it. The gap ends with the first grant to a call *sent after* the kill, so an earlier
//! reply cannot shorten it. A client of the Rust library that used only the leader so far acquires a lock as well: its
//! gap includes the change of the node. Then the benchmark restarts the killed node. The next round begins when all
//! nodes report one leader and the clients have completed more cycles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use holdfast_cli::arguments::OutputArgs;
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::{answer, table};
use holdfast_client::Client;
use holdfast_client::load::{LoadClient, LoadJudge, load_histogram};
use nix::sys::signal::Signal;
use serde::Serialize;
use tokio::task::JoinSet;

use super::client::BenchClient;
use super::report::{Quantiles, check_violations, progress_bar};
use super::requests::{Requests, run_name};
use super::target::OwnCluster;
use crate::dev::START_TIMEOUT;

const TTL: Duration = Duration::from_secs(30);
/// The maximum wait of an acquire. The locks are free, so an acquire waits only after a lost release.
const WAIT: Duration = Duration::from_secs(2);
/// The pause of a client after an error.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest accepted gap; a longer gap ends the measurement.
const GAP_TIMEOUT: Duration = Duration::from_mins(1);
/// The cycles of the clients between two kills.
const CYCLES_BETWEEN: u64 = 200;

/// Measure the time from `kill -9` of the leader to the next new grant.
#[derive(Debug, Args)]
pub(super) struct FailoverArgs {
    /// How often the leader is killed.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) rounds: u32,
    /// The number of clients that acquire locks meanwhile.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,
    /// The number of nodes: 3 or 5.
    #[arg(long, default_value_t = 3, value_parser = voter_count)]
    nodes: u64,
    #[command(flatten)]
    output: OutputArgs,
}

fn voter_count(text: &str) -> Result<u64, String> {
    match text {
        "3" | "5" => text.parse().map_err(|_| String::new()),
        other => Err(format!("{other} nodes cannot survive the loss of their leader: use 3 or 5")),
    }
}

#[derive(Debug, Serialize)]
struct FailoverReport {
    nodes: u64,
    rounds: u32,
    #[serde(flatten)]
    times: Quantiles,
    /// The gaps of the Rust client that used only the leader.
    client: Quantiles,
    gaps_ms: Vec<f64>,
    violations: u64,
}

impl FailoverReport {
    fn text(&self) -> String {
        let header =
            ["nodes", "leaders killed", "to the next", "p50 ms", "p99 ms", "max ms", "violations"];
        let row = |to: &str, times: &Quantiles| {
            [
                self.nodes.to_string(),
                self.rounds.to_string(),
                to.to_owned(),
                format!("{:.0}", times.p50),
                format!("{:.0}", times.p99),
                format!("{:.0}", times.max),
                self.violations.to_string(),
            ]
        };
        let rows =
            [row("grant", &self.times), row("grant to a client of the leader", &self.client)];
        table(header, rows)
    }
}

/// State shared by the clients and the rounds.
struct FailoverLoad {
    over: AtomicBool,
    cycles: AtomicU64,
    judges: Vec<LoadJudge>,
    /// The largest token so far; tokens grow across all locks.
    newest: AtomicU64,
}

pub(super) async fn run(args: &FailoverArgs) -> Result<(), CommandFailure> {
    let mut own = OwnCluster::start(args.nodes).await.map_err(CommandFailure::Failed)?;
    let measured = measure(args, &mut own).await;
    own.stop().await;
    let report = measured.map_err(CommandFailure::Failed)?;
    let p99 = format!("{:.0}", report.times.p99);
    answer(args.output.format, &report, p99, &report.text());
    check_violations(report.violations)
}

async fn measure(args: &FailoverArgs, own: &mut OwnCluster) -> Result<FailoverReport, String> {
    let clients = usize::try_from(args.clients).map_err(|error| error.to_string())?;
    let load = Arc::new(FailoverLoad {
        over: AtomicBool::new(false),
        cycles: AtomicU64::new(0),
        judges: (0..clients).map(|_| LoadJudge::default()).collect(),
        newest: AtomicU64::new(0),
    });
    let name = run_name();
    let endpoints = own.cluster.layout().endpoints();
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let (lock, session) =
            (format!("failover/{name}/{client}"), format!("failover-{name}-{client}"));
        let requests =
            Requests::new(&lock, &session, TTL, WAIT).map_err(|error| error.to_string())?;
        let http = BenchClient::new(requests, &endpoints, client);
        tasks.spawn(keep_cycling(load.clone(), client, http));
    }
    let rounds = rounds(args, own, &load, &name).await;
    load.over.store(true, Ordering::SeqCst);
    while tasks.join_next().await.is_some() {}
    let Gaps { first, of_client, late } = rounds?;
    Ok(FailoverReport {
        nodes: args.nodes,
        rounds: args.rounds,
        times: quantiles(&first)?,
        client: quantiles(&of_client)?,
        gaps_ms: first.iter().map(|gap| gap.as_secs_f64() * 1_000.0).collect(),
        violations: late + load.judges.iter().map(LoadJudge::violations).sum::<u64>(),
    })
}

fn quantiles(gaps: &[Duration]) -> Result<Quantiles, String> {
    let mut times = load_histogram::<u32>()?;
    for gap in gaps {
        times.saturating_record(holdfast_types::micros(*gap));
    }
    Ok(Quantiles::of(&times))
}

/// The times from each kill.
#[derive(Default)]
struct Gaps {
    /// To the first grant.
    first: Vec<Duration>,
    /// To the first grant of the Rust client.
    of_client: Vec<Duration>,
    /// Grants after a kill whose token was not the largest.
    late: u64,
}

async fn rounds(
    args: &FailoverArgs,
    own: &mut OwnCluster,
    load: &FailoverLoad,
    name: &str,
) -> Result<Gaps, String> {
    let bar = progress_bar("killing leaders", u64::from(args.rounds), "");
    let mut gaps = Gaps::default();
    for round in 0..args.rounds {
        let view = own.cluster.wait_ready(START_TIMEOUT).await?;
        wait_for_cycles(load, CYCLES_BETWEEN).await?;
        let leader = view.leader.ok_or("no leader to kill")?.0;
        let survivors: Vec<u64> =
            own.cluster.layout().ids().filter(|node| *node != leader).collect();
        let lock = format!("client/{name}/{round}");
        let client = client_of_leader(own, leader, &survivors)?;
        take_and_release(&client, &lock).await?;
        let before = load.newest.load(Ordering::SeqCst);
        let killed = Instant::now();
        own.cluster.signal(leader, Signal::SIGKILL).await;
        let run = format!("{name}-{round}");
        let first = async {
            let token = first_grant(own, &survivors, &run).await?;
            Ok::<_, String>((token, killed.elapsed()))
        };
        let of_client = async {
            take_and_release(&client, &lock).await?;
            Ok::<_, String>(killed.elapsed())
        };
        let ((token, first), of_client) = tokio::try_join!(first, of_client)?;
        gaps.first.push(first);
        gaps.of_client.push(of_client);
        gaps.late += u64::from(token <= before);
        own.cluster.next_exit().await;
        own.cluster.spawn(leader)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(gaps)
}

/// A client that calls the leader until a call fails.
fn client_of_leader(own: &OwnCluster, leader: u64, survivors: &[u64]) -> Result<Client, String> {
    let nodes = [leader].into_iter().chain(survivors.iter().copied());
    let endpoints: Vec<_> = nodes.map(|node| own.cluster.layout().http(node).to_string()).collect();
    Client::new(endpoints).map_err(|error| error.to_string())
}

async fn take_and_release(client: &Client, lock: &str) -> Result<(), String> {
    let guard = client.lock(lock).timeout(GAP_TIMEOUT).acquire().await;
    let released = guard.map_err(|error| error.to_string())?.release().await;
    released.map(drop).map_err(|error| error.to_string())
}

/// Waits until the clients have completed more cycles.
async fn wait_for_cycles(load: &FailoverLoad, cycles: u64) -> Result<(), String> {
    let enough = load.cycles.load(Ordering::Relaxed) + cycles;
    let completed = async {
        while load.cycles.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(GAP_TIMEOUT, completed).await;
    waited.map_err(|_| format!("clients did not complete {cycles} cycles in {GAP_TIMEOUT:?}"))
}

/// Returns the token of the next grant by one of the surviving nodes.
async fn first_grant(own: &OwnCluster, survivors: &[u64], name: &str) -> Result<u64, String> {
    let mut probes = JoinSet::new();
    for node in survivors {
        let (lock, session) = (format!("probe/{name}/{node}"), format!("probe-{name}-{node}"));
        let requests = Requests::new(&lock, &session, TTL, Duration::ZERO)
            .map_err(|error| error.to_string())?;
        probes.spawn(probe(own.cluster.layout().http(*node).to_string(), requests));
    }
    let first = tokio::time::timeout(GAP_TIMEOUT, probes.join_next()).await;
    match first {
        Ok(Some(Ok(token))) => Ok(token),
        Ok(Some(Err(error))) => Err(error.to_string()),
        Ok(None) => Err("no node survives".to_owned()),
        Err(_) => Err(format!("no new grant within {GAP_TIMEOUT:?} of the death of the leader")),
    }
}

/// Requests a lock at one node until the node grants it.
async fn probe(endpoint: String, requests: Requests) -> u64 {
    let mut client = BenchClient::new(requests, &[endpoint], 0);
    loop {
        if let Ok(Some(token)) = client.acquire().await {
            return token;
        }
        client.disconnect();
        tokio::time::sleep(PAUSE).await;
    }
}

/// Acquires and releases a lock in a loop; moves to another node after every error.
async fn keep_cycling(load: Arc<FailoverLoad>, index: usize, mut client: BenchClient) {
    let Some(judge) = load.judges.get(index) else { return };
    let mut repeated = false;
    while !load.over.load(Ordering::Relaxed) {
        let cycle = async {
            let token = client.acquire().await?;
            judge.granted(token, repeated);
            load.newest.fetch_max(token.unwrap_or(0), Ordering::SeqCst);
            judge.releasing();
            client.release().await
        };
        let done: Result<(), String> = cycle.await;
        repeated = done.is_err();
        if repeated {
            client.disconnect();
            tokio::time::sleep(PAUSE).await;
        } else {
            load.cycles.fetch_add(1, Ordering::Relaxed);
        }
    }
}
