//! The gap of a failover: from `kill -9` of the leader to the next new grant.
//!
//! In each round, with clients taking locks all the while, the leader is killed, and one probe on every surviving
//! node asks for a lock of its own until it gets it. The gap ends with the first grant to a call that was *sent after*
//! the kill, so that no answer already on its way can make it look short. Then the dead node is started again, and
//! the next round begins when every node knows one leader and clients have gone on for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_client::load::{LoadClient, LoadJudge, load_histogram};
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::signal::Signal;
use tokio::task::JoinSet;

use super::client::BenchClient;
use super::report::{FailoverReport, Times, judged};
use super::requests::{Requests, run_name};
use super::target::Own;
use crate::cli::FailoverArgs;
use crate::dev::START_MAX;
use crate::exit::Stop;

const TTL: Duration = Duration::from_secs(30);
/// How long an acquire queues; the locks here are free, so this bounds only a lost release.
const WAIT: Duration = Duration::from_secs(2);
/// The rest of a client after an error.
const REST: Duration = Duration::from_millis(2);
/// A gap longer than this ends the measurement.
const GAP_MAX: Duration = Duration::from_mins(1);
/// Cycles of the clients between two kills.
const CYCLES_BETWEEN: u64 = 200;

/// What clients, probes and the rounds share.
struct FailoverLoad {
    over: AtomicBool,
    cycles: AtomicU64,
    judges: Vec<LoadJudge>,
    /// The largest token that anybody has seen, for the order of tokens over all locks.
    newest: AtomicU64,
}

/// Measures and reports.
pub(super) async fn run(args: &FailoverArgs) -> Result<(), Stop> {
    let mut own = Own::start(args.nodes).await.map_err(Stop::Failed)?;
    let measured = measure(args, &mut own).await;
    own.stop().await;
    let report = measured.map_err(Stop::Failed)?;
    report.print(args.output);
    judged(report.violations)
}

async fn measure(args: &FailoverArgs, own: &mut Own) -> Result<FailoverReport, String> {
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
    let (gaps, late) = rounds?;
    let mut times = load_histogram::<u32>()?;
    for gap in &gaps {
        times.saturating_record(holdfast_types::micros(*gap));
    }
    Ok(FailoverReport {
        nodes: args.nodes,
        rounds: args.rounds,
        times: Times::of(&times),
        gaps_ms: gaps.iter().map(|gap| gap.as_secs_f64() * 1_000.0).collect(),
        violations: late + load.judges.iter().map(LoadJudge::violations).sum::<u64>(),
    })
}

/// The gaps, and how many grants after a kill did not have a larger token than all before it.
async fn rounds(
    args: &FailoverArgs,
    own: &mut Own,
    load: &FailoverLoad,
    name: &str,
) -> Result<(Vec<Duration>, u64), String> {
    let bar = ProgressBar::new(u64::from(args.rounds));
    if let Ok(style) = ProgressStyle::with_template("killing leaders {bar:40} {pos}/{len}") {
        bar.set_style(style);
    }
    let (mut gaps, mut violations) = (Vec::new(), 0);
    for round in 0..args.rounds {
        let view = own.cluster.wait_ready(START_MAX).await?;
        go_on_for(load, CYCLES_BETWEEN).await?;
        let leader = view.leader.ok_or("no leader to kill")?.0;
        let survivors: Vec<u64> =
            own.cluster.layout().ids().filter(|node| *node != leader).collect();
        let before = load.newest.load(Ordering::SeqCst);
        let killed = Instant::now();
        own.cluster.signal(leader, Signal::SIGKILL).await;
        let token = first_grant(own, &survivors, &format!("{name}-{round}")).await?;
        gaps.push(killed.elapsed());
        violations += u64::from(token <= before);
        own.cluster.next_exit().await;
        own.cluster.spawn(leader)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((gaps, violations))
}

/// Waits until clients have completed so many cycles more.
async fn go_on_for(load: &FailoverLoad, cycles: u64) -> Result<(), String> {
    let enough = load.cycles.load(Ordering::Relaxed) + cycles;
    let go_on = async {
        while load.cycles.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(GAP_MAX, go_on).await;
    waited.map_err(|_| format!("clients did not complete {cycles} cycles in {GAP_MAX:?}"))
}

/// The token of the first grant that any surviving node gives from now on.
async fn first_grant(own: &Own, survivors: &[u64], name: &str) -> Result<u64, String> {
    let mut probes = JoinSet::new();
    for node in survivors {
        let (lock, session) = (format!("probe/{name}/{node}"), format!("probe-{name}-{node}"));
        let requests = Requests::new(&lock, &session, TTL, Duration::ZERO)
            .map_err(|error| error.to_string())?;
        probes.spawn(probe(own.cluster.layout().http(*node).to_string(), requests));
    }
    let first = tokio::time::timeout(GAP_MAX, probes.join_next()).await;
    match first {
        Ok(Some(Ok(token))) => Ok(token),
        Ok(Some(Err(error))) => Err(error.to_string()),
        Ok(None) => Err("no node survives to be asked".to_owned()),
        Err(_) => Err(format!("no new grant within {GAP_MAX:?} of the leader's death")),
    }
}

/// Asks one node for a lock until it is granted.
async fn probe(endpoint: String, requests: Requests) -> u64 {
    let mut client = BenchClient::new(requests, &[endpoint], 0);
    loop {
        if let Ok(Some(token)) = client.acquire().await {
            return token;
        }
        client.disconnect();
        tokio::time::sleep(REST).await;
    }
}

/// One client: acquires and releases its lock, at another node after every error.
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
            tokio::time::sleep(REST).await;
        } else {
            load.cycles.fetch_add(1, Ordering::Relaxed);
        }
    }
}
