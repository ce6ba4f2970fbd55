//! From the loss of a leader to the next grant.
//!
//! Clients at every node acquire and release their own locks. Each lock is new, so no lease of a dead client delays a
//! grant. The tool kills the leader (`kill -9`); the gap ends with the first grant requested after its death. Without
//! another node, this tool restarts the server or promotes its replica at once; in production, the detection of the
//! loss takes additional time. Bounds: [`CLIENTS`] clients; a trial ends at its deadline, and a system after
//! [`FAILURES_MAX`] failed trials.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::catalogue::System;
use crate::lock::{Connector, LockSettings};
use crate::progress::Progress;
use crate::record::{Failover, RunSize};
use crate::safety::reconnecting::ReconnectingClient;
use crate::safety::{FaultCluster, Participant};
use crate::{Records, Row, Settings};

pub const CLIENTS: usize = 6;
pub const FAILURES_MAX: usize = 3;
/// The lease of the clients; no client waits for its end.
const LEASE: Duration = Duration::from_secs(3);
/// The time limit for every client to get its first lock.
const FIRST_GRANT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for the first grant after the loss.
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

/// Measures and records every system that can fail over.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<(), String> {
    let trials = match settings.size {
        RunSize::Full => 30,
        RunSize::Quick => 3,
        RunSize::Tiny => 1,
    };
    let with_replacement = |system: &&'static System| Some((*system, Replacement::of(system)?));
    let systems: Vec<_> = settings.systems.iter().filter_map(with_replacement).collect();
    progress.add_steps(u64::from(trials) * u64::try_from(systems.len()).unwrap_or(0));
    for (system, replacement) in systems {
        let row = measure(system, replacement, trials, &settings.directory, progress).await;
        progress.note_failure(system.name, row.failure.as_deref());
        records.append(&Row::Failover(row)).map_err(|error| error.to_string())?;
    }
    Ok(())
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
    let (mut gaps_ms, mut failures) = (Vec::new(), Vec::new());
    for trial in 1..=trials {
        progress.step(&format!("failover: {}: {trial} of {trials}", system.name));
        if failures.len() < FAILURES_MAX {
            match runner.trial_in_time().await {
                Ok(gap) => gaps_ms.push(gap.as_secs_f64() * 1_000.0),
                Err(failure) => failures.push(format!("trial {trial}: {failure}")),
            }
        }
        progress.done();
    }
    Failover {
        system: system.name.to_owned(),
        trials,
        gaps_ms,
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
    async fn trial_in_time(&mut self) -> Result<Duration, String> {
        let late = |_| Err(format!("not done within {} s", TRIAL_TIMEOUT.as_secs()));
        let gap = timeout(TRIAL_TIMEOUT, self.trial()).await.unwrap_or_else(late);
        if gap.is_err() || self.replacement == Replacement::Promotion {
            self.cluster = None;
        }
        gap
    }

    async fn trial(&mut self) -> Result<Duration, String> {
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

/// Kills the leader, starts the replacement, and waits for the first grant.
async fn gap(
    participant: Participant,
    replacement: Replacement,
    cluster: &mut FaultCluster,
) -> Result<Duration, String> {
    let mut clients = FailoverClients::start(participant, cluster);
    clients.wait_first_grants().await?;
    let leader = match replacement {
        Replacement::Election => cluster.leader().await.ok_or("no node replies that it leads")?,
        Replacement::Promotion | Replacement::Restart => 0,
    };
    let began = Instant::now();
    cluster.crash(leader);
    clients.lost.send_replace(Some(Instant::now()));
    match replacement {
        Replacement::Election => {}
        Replacement::Promotion => cluster.promote_replica().await?,
        Replacement::Restart => cluster.restart(leader)?,
    }
    let granted = clients.next_grant().await?;
    if replacement == Replacement::Election {
        cluster.restart(leader)?;
    }
    Ok(granted.saturating_duration_since(began))
}

/// Clients that acquire and release locks until the drop of this value.
struct FailoverClients {
    /// The time of the leader's death.
    lost: watch::Sender<Option<Instant>>,
    /// The first grant of each client, and its first grant requested after the loss.
    grants: mpsc::Receiver<Instant>,
    _tasks: JoinSet<()>,
}

impl FailoverClients {
    fn start(participant: Participant, cluster: &FaultCluster) -> Self {
        let (lost, loss_seen) = watch::channel(None);
        let (sender, grants) = mpsc::channel(2 * CLIENTS);
        let mut tasks = JoinSet::new();
        for number in 0..CLIENTS {
            let addresses = cluster.addresses().starting_at(number);
            let connector = participant.connector(addresses, LockSettings::new(LEASE));
            tasks.spawn(acquire_and_release(number, connector, loss_seen.clone(), sender.clone()));
        }
        Self { lost, grants, _tasks: tasks }
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

    /// Returns the time of the first grant after the loss.
    async fn next_grant(&mut self) -> Result<Instant, String> {
        let late = || format!("no grant within {} s", GAP_MAX.as_secs());
        timeout(GAP_MAX, self.grants.recv()).await.ok().flatten().ok_or_else(late)
    }
}

async fn acquire_and_release(
    number: usize,
    connector: Connector,
    loss: watch::Receiver<Option<Instant>>,
    grants: mpsc::Sender<Instant>,
) {
    let (mut client, mut is_first, mut locks) = (ReconnectingClient::new(connector), true, 0_u64);
    loop {
        locks += 1;
        let requested = Instant::now();
        if let Ok(held) = client.acquire(&format!("failover-{number}-{locks}")).await {
            let granted = Instant::now();
            let after_loss = loss.borrow().is_some_and(|lost| requested >= lost);
            let is_counted = is_first || after_loss;
            let is_over = is_counted && grants.send(granted).await.is_err();
            if is_over || after_loss {
                return;
            }
            is_first = false;
            // An unreleased lock expires.
            drop(client.release(held).await);
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Selection};

    #[test]
    fn every_kind_of_server_of_a_full_run_has_a_replacement() {
        let full = catalogue::selected(Selection::FullRuns);
        for system in &full {
            let mut same = full.iter().filter(|other| other.kind == system.kind);
            assert!(same.any(|other| Replacement::of(other).is_some()), "{:?}", system.kind);
        }
    }
}
