//! From the loss of a leader to the next grant, and until every client has a lock again.
//!
//! Clients at every node acquire and release their own locks. Each lock is new, so no lease of a dead client delays a
//! grant. Only a grant that was requested after the loss ends a gap, so an earlier reply cannot shorten it. A node that stops
//! in order serves until it has handed over. The gap is then the longest time between two grants. The fencing tokens of
//! holdfast grow across all locks: a trial fails if a grant after the loss has no larger token than those before. Without
//! another node, this tool restarts the server or promotes its replica at once; in production, the detection of the loss takes
//! additional time. Bounds: [`CLIENTS`] clients; a trial ends at its deadline, and a system after [`FAILURES_MAX`] failed
//! trials.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use holdfast_cli::output::table;
use nix::sys::signal::Signal;
use parking_lot::Mutex;
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
use crate::wait::poll_until;
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
/// The systems that elect another leader.
const ELECTING: &str = "holdfast-http, holdfast-sdk, zookeeper-curator, etcd-lock";
/// The pause between two locks of a client, and before a reconnect.
const PAUSE: Duration = Duration::from_millis(5);
/// The interval at which the runner reads the grants; they have their own times.
const STEP: Duration = Duration::from_millis(5);

/// How the cluster loses its leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailoverCause {
    /// The process dies (SIGKILL).
    #[default]
    Kill,
    /// The process stops in order (SIGTERM).
    Stop,
    /// The process runs no more, and its connections stay open (SIGSTOP), as after the loss of a machine.
    Freeze,
}

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

    fn description(self, loss: FailoverCause) -> &'static str {
        match self {
            Self::Election => match loss {
                FailoverCause::Kill => "kill -9 of the leader; the other two nodes elect one",
                FailoverCause::Stop => "SIGTERM to the leader; the longest time between two grants",
                FailoverCause::Freeze => "SIGSTOP of the leader; the other two nodes elect one",
            },
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
    loss: FailoverCause,
    records: &Records,
    progress: &Progress,
) -> Result<Vec<Failover>, String> {
    let trials = trials.unwrap_or(match settings.size {
        RunSize::Full => 30,
        RunSize::Quick => 3,
        RunSize::Tiny => 1,
    });
    let mut rows = Vec::new();
    let with_replacement = |system: &&'static System| {
        let replacement = Replacement::of(system)?;
        let can_lose = loss == FailoverCause::Kill || replacement == Replacement::Election;
        can_lose.then_some((*system, replacement))
    };
    let systems: Vec<_> = settings.systems.iter().filter_map(with_replacement).collect();
    if systems.is_empty() {
        return Err(format!("none of these systems has another node: choose one of {ELECTING}"));
    }
    progress.add_steps(u64::from(trials) * u64::try_from(systems.len()).unwrap_or(0));
    for (system, replacement) in systems {
        let below = &settings.directory;
        let participant = Participant { system: Some(system), fenced: false };
        let runner = TrialRunner { participant, replacement, loss, below, cluster: None };
        let row = runner.measure(system, trials, progress).await;
        progress.note_failure(system.name, row.failure.as_deref());
        records.append(&Row::Failover(row.clone())).map_err(|error| error.to_string())?;
        rows.push(row);
    }
    Ok(rows)
}

/// A p99 needs this many trials.
pub(crate) const P99_TRIALS: usize = 100;

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
        // Of fewer trials, it would be the longest one.
        let p99 = if gaps.len() < P99_TRIALS { "–".to_owned() } else { p99 };
        [name, gaps.len().to_string(), p50, p99, longest]
    };
    table(header, lines.map(line))
}

/// The trials of one system, one after the other.
struct TrialRunner<'a> {
    participant: Participant,
    replacement: Replacement,
    loss: FailoverCause,
    below: &'a Path,
    /// The servers of the last trial, if all of them restart.
    cluster: Option<FaultCluster>,
}

impl TrialRunner<'_> {
    async fn measure(mut self, system: &System, trials: u32, progress: &Progress) -> Failover {
        let (mut gaps_ms, mut all_gaps_ms, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        let ms = |gap: Duration| gap.as_secs_f64() * 1_000.0;
        for trial in 1..=trials {
            progress.step(&format!("failover: {}: {trial} of {trials}", system.name));
            if failures.len() < FAILURES_MAX {
                match self.trial_in_time().await {
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
            method: self.replacement.description(self.loss).to_owned(),
            failure: (!failures.is_empty()).then(|| failures.join("; ")),
        }
    }

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
        let clients = FailoverClients::start(self.participant, cluster);
        clients.wait_for_grants_after(Instant::now(), FIRST_GRANT_TIMEOUT).await?;
        let leader = match self.replacement {
            Replacement::Election => {
                cluster.leader().await.ok_or("no node replies that it leads")?
            }
            Replacement::Promotion | Replacement::Restart => 0,
        };
        let began = Instant::now();
        lose(cluster, leader, self.loss).await?;
        let lost = Instant::now();
        match self.replacement {
            Replacement::Election => {}
            Replacement::Promotion => cluster.promote_replica().await?,
            Replacement::Restart => cluster.restart(leader)?,
        }
        clients.wait_for_grants_after(lost, GAP_MAX).await?;
        if self.loss == FailoverCause::Freeze {
            cluster.signal(leader, Signal::SIGCONT)?;
        } else if self.replacement == Replacement::Election {
            cluster.restart(leader)?;
        }
        let grants = clients.grants();
        let is_holdfast = self.participant.kind() == Some(ServerKind::Holdfast);
        if is_holdfast {
            check_tokens(&grants, lost)?;
        }
        Ok(match self.loss {
            FailoverCause::Kill | FailoverCause::Freeze => {
                FailoverGap::to_grants(&grants, began, lost)
            }
            FailoverCause::Stop => FailoverGap::between_grants(&grants, began),
        })
    }
}

/// Returns once the leader has ended, or is frozen.
async fn lose(
    cluster: &mut FaultCluster,
    leader: usize,
    loss: FailoverCause,
) -> Result<(), String> {
    match loss {
        FailoverCause::Kill => cluster.crash(leader),
        FailoverCause::Freeze => cluster.signal(leader, Signal::SIGSTOP)?,
        FailoverCause::Stop => {
            cluster.signal(leader, Signal::SIGTERM)?;
            if !poll_until(GAP_MAX, STEP, async || cluster.has_ended(leader)).await {
                return Err(format!("the leader did not stop within {} s", GAP_MAX.as_secs()));
            }
        }
    }
    Ok(())
}

/// The times without grants of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FailoverGap {
    /// Of all clients together.
    first: Duration,
    /// Of the client with the longest.
    all: Duration,
}

impl FailoverGap {
    /// From `began` to the first grants that were requested after the loss.
    fn to_grants(grants: &[FailoverGrant], began: Instant, lost: Instant) -> Self {
        let firsts = (0..CLIENTS).filter_map(|client| {
            let mut own = grants.iter().filter(|grant| grant.client == client);
            own.find(|grant| grant.requested >= lost)
        });
        let gaps = firsts.map(|grant| grant.at.saturating_duration_since(began));
        let gaps: Vec<Duration> = gaps.collect();
        let [first, all] = [gaps.iter().min(), gaps.iter().max()];
        Self { first: first.copied().unwrap_or_default(), all: all.copied().unwrap_or_default() }
    }

    /// The longest times between two grants, of which the second is after `began`.
    fn between_grants(grants: &[FailoverGrant], began: Instant) -> Self {
        let longest = |mut times: Vec<Instant>| {
            times.sort();
            let pairs = times.windows(2).filter(|pair| pair[1] >= began);
            pairs.map(|pair| pair[1].duration_since(pair[0])).max().unwrap_or_default()
        };
        let of = |client| grants.iter().filter(move |grant| grant.client == client);
        Self {
            first: longest(grants.iter().map(|grant| grant.at).collect()),
            all: (0..CLIENTS)
                .map(|client| longest(of(client).map(|grant| grant.at).collect()))
                .max()
                .unwrap_or_default(),
        }
    }
}

/// holdfast's tokens grow across all locks.
fn check_tokens(grants: &[FailoverGrant], lost: Instant) -> Result<(), String> {
    let before =
        grants.iter().filter(|grant| grant.at < lost).filter_map(|grant| grant.token).max();
    let after =
        grants.iter().filter(|grant| grant.requested >= lost).filter_map(|grant| grant.token).min();
    match (before, after) {
        (Some(before), Some(after)) if after <= before => Err(format!(
            "a grant after the loss has the token {after}, and an earlier one had {before}: keep the data of the nodes and report this"
        )),
        _ => Ok(()),
    }
}

/// A grant of a client.
#[derive(Clone, Copy, Debug)]
struct FailoverGrant {
    client: usize,
    requested: Instant,
    at: Instant,
    token: Option<u64>,
}

/// Clients that acquire and release locks until the drop of this value.
struct FailoverClients {
    grants: Arc<Mutex<Vec<FailoverGrant>>>,
    _tasks: JoinSet<()>,
}

impl FailoverClients {
    fn start(participant: Participant, cluster: &FaultCluster) -> Self {
        let (mut tasks, grants, run) = (JoinSet::new(), Arc::<Mutex<Vec<_>>>::default(), nonce());
        for client in 0..CLIENTS {
            let addresses = cluster.addresses().starting_at(client);
            let connector = participant.connector(addresses, LockSettings::new(LEASE));
            let locks = format!("failover-{run}-{client}");
            let connection = ReconnectingClient::new(connector);
            tasks.spawn(acquire_and_release(client, connection, locks, grants.clone()));
        }
        Self { grants, _tasks: tasks }
    }

    fn grants(&self) -> Vec<FailoverGrant> {
        self.grants.lock().clone()
    }

    /// Waits until every client has a grant that it requested after this instant.
    async fn wait_for_grants_after(&self, since: Instant, time: Duration) -> Result<(), String> {
        let has_grant = |client| {
            let grants = self.grants.lock();
            grants.iter().rev().any(|grant| grant.client == client && grant.requested >= since)
        };
        let is_over = poll_until(time, STEP, async || (0..CLIENTS).all(has_grant)).await;
        is_over
            .then_some(())
            .ok_or_else(|| format!("a client got no lock within {} s", time.as_secs()))
    }
}

/// Takes new locks. Their names begin with `locks`, so that no other trial has used them.
async fn acquire_and_release(
    client: usize,
    mut connection: ReconnectingClient,
    locks: String,
    grants: Arc<Mutex<Vec<FailoverGrant>>>,
) {
    for number in 1_u64.. {
        let requested = Instant::now();
        if let Ok(held) = connection.acquire(&format!("{locks}-{number}")).await {
            let (at, token) = (Instant::now(), held.token);
            grants.lock().push(FailoverGrant { client, requested, at, token });
            // An unreleased lock expires.
            drop(connection.release(held).await);
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Selection};

    /// Grants of two clients: client, requested, granted (milliseconds), token.
    fn grants(began: Instant, each: &[(usize, u64, u64, u64)]) -> Vec<FailoverGrant> {
        let at = |ms| began + Duration::from_millis(ms);
        let grant = |&(client, requested, granted, token)| {
            let (requested, at, token) = (at(requested), at(granted), Some(token));
            FailoverGrant { client, requested, at, token }
        };
        each.iter().map(grant).collect()
    }

    #[test]
    fn a_token_that_does_not_grow_over_a_failover_is_a_failure() {
        let began = Instant::now();
        let lost = began + Duration::from_millis(10);
        let check = |token| check_tokens(&grants(began, &[(0, 0, 5, 7), (1, 12, 50, token)]), lost);
        assert_eq!(check(8), Ok(()));
        for token in [6, 7] {
            let error = check(token).unwrap_err();
            assert!(error.contains("had 7"), "{error}");
        }
    }

    #[test]
    fn a_gap_ends_with_a_grant_that_was_requested_after_the_loss() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let all = grants(start, &[(0, 0, 9, 1), (1, 8, 30, 2), (0, 12, 50, 3), (1, 31, 90, 4)]);
        let gap = FailoverGap::to_grants(&all, at(10), at(11));
        assert_eq!((gap.first.as_millis(), gap.all.as_millis()), (40, 80));
        let gap = FailoverGap::between_grants(&all, at(10));
        assert_eq!((gap.first.as_millis(), gap.all.as_millis()), (40, 60));
        let gap = FailoverGap::between_grants(&all, at(60));
        assert_eq!((gap.first.as_millis(), gap.all.as_millis()), (40, 60));
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
