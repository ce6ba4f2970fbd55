//! From the loss of a leader to the next grant, and until every client has a lock again.
//!
//! Clients at every node acquire and release their own locks. Each lock is new, so no lease of a dead client delays a
//! grant. The tool kills the leader (`kill -9`). Only a grant that was requested after its death ends a gap, so an
//! earlier reply cannot shorten it. The fencing tokens of holdfast grow across all locks: a trial fails if the token of
//! its first grant is not above all earlier ones. Without another node, this tool restarts the server or promotes its
//! replica at once; in production, the detection of the loss takes additional time. Bounds: [`CLIENTS`] clients; a trial
//! ends at its deadline, and a system after [`FAILURES_MAX`] failed trials.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_cli::output::table;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::catalogue::System;
use crate::lock::{LockSettings, nonce};
use crate::progress::Progress;
use crate::record::{Failover, RunSize};
use crate::safety::reconnecting::ReconnectingClient;
use crate::safety::{FaultCluster, Participant};
use crate::servers::ServerKind;
use crate::statistics::quantile;
use crate::{Records, Row, Settings};

pub const CLIENTS: usize = 6;
pub const FAILURES_MAX: usize = 3;
/// The lease of the clients; no client waits for its end.
const LEASE: Duration = Duration::from_secs(3);
/// The time limit for every client to get its first lock.
const FIRST_GRANT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for the grants after the loss.
const GAP_MAX: Duration = Duration::from_mins(1);
/// The time limit of a trial, including the start of the servers.
const TRIAL_TIMEOUT: Duration = Duration::from_mins(5);
/// The pause between two locks of a client, and before a reconnect.
const PAUSE: Duration = Duration::from_millis(5);

/// The replacement of the lost server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replacement {
    /// The other nodes elect another leader.
    Election,
    /// The tool promotes the replica.
    Promotion,
    /// The tool restarts the server.
    Restart,
}

impl Replacement {
    /// Returns `None` for a lock whose servers fail over like those of another measured lock.
    fn of(system: &System) -> Option<Self> {
        Some(match system.name {
            "holdfast-http" | "holdfast-sdk" | "zookeeper-curator" | "etcd-lock" => Self::Election,
            "redis-set-nx-px" => Self::Promotion,
            "redis-set-nx-px-always" | "postgres-advisory" | "mariadb-get-lock" => Self::Restart,
            _ => return None,
        })
    }

    fn description(self) -> &'static str {
        match self {
            Self::Election => "kill -9 of the leader; the other two nodes elect one",
            Self::Promotion => {
                "kill -9 of the Redis; this tool promotes its replica, which gets its address, at once"
            }
            Self::Restart => {
                "kill -9 of the only server; this tool starts it again with its disk at once"
            }
        }
    }
}

/// Measures and records every system that can fail over. Returns the rows.
pub async fn run(
    settings: &Settings,
    trials: Option<u32>,
    records: &Records,
    progress: &Progress,
) -> Result<Vec<Failover>, String> {
    let trials = trials.unwrap_or(match settings.size {
        RunSize::Full => 30,
        RunSize::Quick => 3,
        RunSize::Tiny => 1,
    });
    let mut rows = Vec::new();
    let with_replacement = |system: &&'static System| Some((*system, Replacement::of(system)?));
    let systems: Vec<_> = settings.systems.iter().filter_map(with_replacement).collect();
    progress.add_steps(u64::from(trials) * u64::try_from(systems.len()).unwrap_or(0));
    for (system, replacement) in systems {
        let row = measure(system, replacement, trials, &settings.directory, progress).await;
        progress.note_failure(system.name, row.failure.as_deref());
        records.append(&Row::Failover(row.clone())).map_err(|error| error.to_string())?;
        rows.push(row);
    }
    Ok(rows)
}

/// Formats the rows as a table for the terminal.
pub fn text(rows: &[Failover]) -> String {
    let header = ["after the loss", "trials", "p50 ms", "p99 ms", "longest ms"];
    let lines = rows.iter().flat_map(|row| {
        let name = &row.system;
        [
            (format!("{name}: next grant"), &row.gaps_ms),
            (format!("{name}: every client"), &row.all_gaps_ms),
        ]
    });
    let line = |(name, gaps): (String, &Vec<f64>)| {
        let [p50, p99, longest] = [0.5, 0.99, 1.0].map(|of| format!("{:.0}", quantile(gaps, of)));
        [name, gaps.len().to_string(), p50, p99, longest]
    };
    table(header, lines.map(line))
}

async fn measure(
    system: &'static System,
    replacement: Replacement,
    trials: u32,
    below: &Path,
    progress: &Progress,
) -> Failover {
    let participant = Participant { system: Some(system), fenced: false };
    let mut runner = TrialRunner { participant, replacement, below, cluster: None };
    let (mut gaps_ms, mut all_gaps_ms, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let ms = |gap: Duration| gap.as_secs_f64() * 1_000.0;
    for trial in 1..=trials {
        progress.step(&format!("failover: {}: {trial} of {trials}", system.name));
        if failures.len() < FAILURES_MAX {
            match runner.trial_in_time().await {
                Ok(gap) => {
                    gaps_ms.push(ms(gap.first));
                    all_gaps_ms.push(ms(gap.all));
                }
                Err(failure) => failures.push(format!("trial {trial}: {failure}")),
            }
        }
        progress.done();
    }
    Failover {
        system: system.name.to_owned(),
        trials,
        gaps_ms,
        all_gaps_ms,
        method: replacement.description().to_owned(),
        failure: (!failures.is_empty()).then(|| failures.join("; ")),
    }
}

/// The trials of one system, one after the other.
struct TrialRunner<'a> {
    participant: Participant,
    replacement: Replacement,
    below: &'a Path,
    /// The servers of the last trial, if all of them restart.
    cluster: Option<FaultCluster>,
}

impl TrialRunner<'_> {
    async fn trial_in_time(&mut self) -> Result<FailoverGap, String> {
        let late = |_| Err(format!("not done within {} s", TRIAL_TIMEOUT.as_secs()));
        let gap = timeout(TRIAL_TIMEOUT, self.trial()).await.unwrap_or_else(late);
        if gap.is_err() || self.replacement == Replacement::Promotion {
            self.cluster = None;
        }
        gap
    }

    async fn trial(&mut self) -> Result<FailoverGap, String> {
        let cluster = match self.cluster.take() {
            Some(cluster) => cluster,
            None => FaultCluster::start(self.participant, self.below, LEASE).await?,
        };
        let cluster = self.cluster.insert(cluster);
        if self.replacement == Replacement::Promotion {
            cluster.add_replica().await?;
        }
        cluster.wait_ready().await?;
        gap(self.participant, self.replacement, cluster).await
    }
}

/// The times from the loss.
#[derive(Clone, Copy, Debug)]
struct FailoverGap {
    /// To the first grant.
    first: Duration,
    /// Until every client had a lock again.
    all: Duration,
}

/// Kills the leader, starts the replacement, and waits for the grants.
async fn gap(
    participant: Participant,
    replacement: Replacement,
    cluster: &mut FaultCluster,
) -> Result<FailoverGap, String> {
    let mut clients = FailoverClients::start(participant, cluster);
    clients.wait_first_grants().await?;
    let leader = match replacement {
        Replacement::Election => cluster.leader().await.ok_or("no node replies that it leads")?,
        Replacement::Promotion | Replacement::Restart => 0,
    };
    let newest = clients.newest.load(Ordering::SeqCst);
    let began = Instant::now();
    cluster.crash(leader);
    clients.lost.send_replace(Some(Instant::now()));
    match replacement {
        Replacement::Election => {}
        Replacement::Promotion => cluster.promote_replica().await?,
        Replacement::Restart => cluster.restart(leader)?,
    }
    let first = clients.next_grant().await?;
    check_token(participant, first.token, newest)?;
    let mut last = first;
    for _ in 1..CLIENTS {
        last = clients.next_grant().await?;
    }
    if replacement == Replacement::Election {
        cluster.restart(leader)?;
    }
    let since = |grant: FailoverGrant| grant.at.saturating_duration_since(began);
    Ok(FailoverGap { first: since(first), all: since(last) })
}

/// holdfast's tokens grow across all locks.
fn check_token(participant: Participant, token: Option<u64>, newest: u64) -> Result<(), String> {
    let is_holdfast = participant.kind() == Some(ServerKind::Holdfast);
    match token {
        Some(token) if is_holdfast && token <= newest => Err(format!(
            "the first grant after the loss has the token {token}, and an earlier one had {newest}: keep the data of the nodes and report this"
        )),
        Some(_) | None => Ok(()),
    }
}

/// A grant of a client.
#[derive(Clone, Copy, Debug)]
struct FailoverGrant {
    at: Instant,
    token: Option<u64>,
}

/// Clients that acquire and release locks until the drop of this value.
struct FailoverClients {
    /// The time of the leader's death.
    lost: watch::Sender<Option<Instant>>,
    /// The first grant of each client, and its first grant requested after the loss.
    grants: mpsc::Receiver<FailoverGrant>,
    /// The largest token so far.
    newest: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl FailoverClients {
    fn start(participant: Participant, cluster: &FaultCluster) -> Self {
        let (lost, loss_seen) = watch::channel(None);
        let (sender, grants) = mpsc::channel(2 * CLIENTS);
        let (mut tasks, newest, run) = (JoinSet::new(), Arc::<AtomicU64>::default(), nonce());
        for number in 0..CLIENTS {
            let addresses = cluster.addresses().starting_at(number);
            let connector = participant.connector(addresses, LockSettings::new(LEASE));
            let client = FailoverClient {
                run: run.clone(),
                number,
                client: ReconnectingClient::new(connector),
                loss: loss_seen.clone(),
                grants: sender.clone(),
                newest: newest.clone(),
            };
            tasks.spawn(client.acquire_and_release());
        }
        Self { lost, grants, newest, _tasks: tasks }
    }

    async fn wait_first_grants(&mut self) -> Result<(), String> {
        let all = async {
            for _ in 0..CLIENTS {
                self.grants.recv().await;
            }
        };
        let late = |_| "the clients did not get their first locks".to_owned();
        timeout(FIRST_GRANT_TIMEOUT, all).await.map_err(late)
    }

    /// Returns the next first grant of a client after the loss.
    async fn next_grant(&mut self) -> Result<FailoverGrant, String> {
        let late = || format!("a client got no lock within {} s", GAP_MAX.as_secs());
        timeout(GAP_MAX, self.grants.recv()).await.ok().flatten().ok_or_else(late)
    }
}

/// A client that takes new locks until it has one that it requested after the loss.
struct FailoverClient {
    /// Part of the names of the locks, so that no other trial has used them: a client leaves its last lock held.
    run: String,
    number: usize,
    client: ReconnectingClient,
    loss: watch::Receiver<Option<Instant>>,
    grants: mpsc::Sender<FailoverGrant>,
    newest: Arc<AtomicU64>,
}

impl FailoverClient {
    async fn acquire_and_release(mut self) {
        let (mut is_first, mut locks) = (true, 0_u64);
        loop {
            locks += 1;
            let requested = Instant::now();
            let lock = format!("failover-{}-{}-{locks}", self.run, self.number);
            if let Ok(held) = self.client.acquire(&lock).await {
                let grant = FailoverGrant { at: Instant::now(), token: held.token };
                self.newest.fetch_max(held.token.unwrap_or(0), Ordering::SeqCst);
                let after_loss = self.loss.borrow().is_some_and(|lost| requested >= lost);
                let is_counted = is_first || after_loss;
                let is_over = is_counted && self.grants.send(grant).await.is_err();
                if is_over || after_loss {
                    return;
                }
                is_first = false;
                // An unreleased lock expires.
                drop(self.client.release(held).await);
            }
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Selection};

    #[test]
    fn a_token_that_does_not_grow_over_a_failover_is_a_failure() {
        let of = |name| Participant { system: catalogue::named(name), fenced: false };
        let holdfast = of("holdfast-http");
        assert_eq!(check_token(holdfast, Some(8), 7), Ok(()));
        for token in [6, 7] {
            let error = check_token(holdfast, Some(token), 7).unwrap_err();
            assert!(error.contains("had 7"), "{error}");
        }
        // Other systems count the holders of each lock alone.
        assert_eq!(check_token(of("redis-set-nx-px"), Some(1), 7), Ok(()));
    }

    #[test]
    fn every_kind_of_server_of_a_full_run_has_a_replacement() {
        let full = catalogue::selected(Selection::FullRuns);
        for system in &full {
            let mut same = full.iter().filter(|other| other.kind == system.kind);
            assert!(same.any(|other| Replacement::of(other).is_some()), "{:?}", system.kind);
        }
    }
}
