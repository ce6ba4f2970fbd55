//! From the loss of a leader to the next grant.
//!
//! Owns the trials: clients at every node take and give back locks of their own, new ones each time, so that no lease of a
//! dead client is waited for; the leader is killed (`kill -9`); the gap ends with the first grant that was asked for after
//! its death. Where there is no other node, the server is started again at once, or its copy takes its place at once, by
//! this tool: what notices the loss and acts on it in earnest takes its time besides. Bounds: [`CLIENTS`] clients; a trial
//! ends at its deadline, and a system after [`FAILURES_MAX`] that failed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::System;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::catalogue::Listed;
use crate::progress::Progress;
use crate::record::{Failover, Size};
use crate::safety::caller::Caller;
use crate::safety::{FaultCluster, Participant, scratch};
use crate::{Records, Row, Settings};

/// Clients of one trial.
pub const CLIENTS: usize = 6;
/// Trials of a system that may fail before it is given up.
pub const FAILURES_MAX: usize = 3;
/// Leases, where they can be chosen; nobody waits for one.
const LEASE: Duration = Duration::from_secs(3);
/// Until every client has had its first lock.
const STEADY: Duration = Duration::from_secs(30);
/// Until the first grant after the loss.
const GAP: Duration = Duration::from_mins(1);
/// The whole trial, servers that are started and come back included.
const TRIAL: Duration = Duration::from_mins(5);
/// Between two locks of a client, and before it connects again.
const PAUSE: Duration = Duration::from_millis(5);

/// What is lost, and what takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The others elect another.
    Election,
    /// Its copy is promoted.
    Promotion,
    /// It is started again.
    Restart,
}

impl Way {
    /// None for a lock whose servers fail over like those of another that is tried.
    fn of(listed: &Listed) -> Option<Self> {
        Some(match listed.name {
            "holdfast-http" | "holdfast-sdk" | "zookeeper-curator" | "etcd-lock" => Self::Election,
            "redis-set-nx-px" => Self::Promotion,
            "redis-set-nx-px-always" | "postgres-advisory" | "mariadb-get-lock" => Self::Restart,
            _ => return None,
        })
    }

    fn words(self) -> &'static str {
        match self {
            Self::Election => "kill -9 of the leader; the other two nodes elect one",
            Self::Promotion => {
                "kill -9 of the Redis; its copy is promoted and gets its address, by this tool, at once"
            }
            Self::Restart => {
                "kill -9 of the only server; it is started again with its disk, by this tool, at once"
            }
        }
    }
}

/// Kills leaders of every system of these settings that has a way to go on, and records the gaps.
///
/// # Errors
/// In words, if rows cannot be written; a system that cannot be measured is a row.
pub async fn run(
    settings: &Settings,
    records: &Records,
    progress: &Progress,
) -> Result<(), String> {
    let trials = match settings.size {
        Size::Full => 30,
        Size::Quick => 3,
        Size::Tiny => 1,
    };
    let chosen = || settings.systems.iter().filter_map(|listed| Some((*listed, Way::of(listed)?)));
    progress.add_steps(u64::from(trials) * u64::try_from(chosen().count()).unwrap_or(0));
    for (listed, way) in chosen() {
        let row = measure(listed, way, trials, &settings.directory, progress).await;
        if let Some(trouble) = &row.trouble {
            progress.note(&format!("{}: {trouble}", listed.name));
        }
        records.append(&Row::Failover(row)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn measure(
    listed: &'static Listed,
    way: Way,
    trials: u32,
    below: &Path,
    progress: &Progress,
) -> Failover {
    let mut lab = Lab { listed, way, below, kept: None };
    let (mut gaps_ms, mut failures) = (Vec::new(), Vec::new());
    for trial in 1..=trials {
        progress.step(&format!("failover: {}: {trial} of {trials}", listed.name));
        if failures.len() < FAILURES_MAX {
            match lab.trial().await {
                Ok(gap) => gaps_ms.push(gap.as_secs_f64() * 1_000.0),
                Err(why) => failures.push(format!("trial {trial}: {why}")),
            }
        }
        progress.done();
    }
    Failover {
        system: listed.name.to_owned(),
        trials,
        gaps_ms,
        how: way.words().to_owned(),
        trouble: (!failures.is_empty()).then(|| failures.join("; ")),
    }
}

/// One system's trials, one after the other.
struct Lab<'a> {
    listed: &'static Listed,
    way: Way,
    below: &'a Path,
    /// Servers of the last trial, if all of them are to come back. They stop before their directory is removed.
    kept: Option<(FaultCluster, TempDir)>,
}

impl Lab<'_> {
    async fn trial(&mut self) -> Result<Duration, String> {
        let late = |_| Err(format!("not done within {} s", TRIAL.as_secs()));
        let gap = timeout(TRIAL, self.one()).await.unwrap_or_else(late);
        if gap.is_err() || self.way == Way::Promotion {
            self.kept = None;
        }
        gap
    }

    async fn one(&mut self) -> Result<Duration, String> {
        let participant = Participant { listed: Some(self.listed), fenced: false };
        let (mut cluster, directory) = if let Some(kept) = self.kept.take() {
            kept
        } else {
            let directory = scratch(self.below)?;
            let home = directory.path().join("servers");
            (FaultCluster::start(participant, &home, LEASE).await?, directory)
        };
        if self.way == Way::Promotion {
            cluster.with_copy(directory.path()).await?;
        }
        cluster.serving().await?;
        let gap = self.strike(participant, &mut cluster).await;
        self.kept = Some((cluster, directory));
        gap
    }

    /// Kills, lets go on what goes on, and waits for the first grant.
    async fn strike(
        &self,
        participant: Participant,
        cluster: &mut FaultCluster,
    ) -> Result<Duration, String> {
        let mut crowd = Crowd::of(participant, cluster)?;
        crowd.steady().await?;
        let leader = match self.way {
            Way::Election => cluster.leader().await.ok_or("no node says that it leads")?,
            Way::Promotion | Way::Restart => 0,
        };
        let began = Instant::now();
        cluster.crash(leader);
        crowd.lost.send_replace(Some(Instant::now()));
        match self.way {
            Way::Election => {}
            Way::Promotion => cluster.promote().await?,
            Way::Restart => cluster.restart(leader)?,
        }
        let granted = crowd.next().await?;
        if self.way == Way::Election {
            cluster.restart(leader)?;
        }
        Ok(granted.saturating_duration_since(began))
    }
}

/// Clients that take and give back locks until it is dropped.
struct Crowd {
    /// Since when the leader is dead.
    lost: watch::Sender<Option<Instant>>,
    /// The first grant of each client, and its first that was asked for after the loss.
    grants: mpsc::Receiver<Instant>,
    _clients: JoinSet<()>,
}

impl Crowd {
    fn of(participant: Participant, cluster: &FaultCluster) -> Result<Self, String> {
        let (lost, told) = watch::channel(None);
        let (tell, grants) = mpsc::channel(2 * CLIENTS);
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let addresses = cluster.addresses().from_node(number);
            let system =
                participant.system(&addresses, LEASE).map_err(|trouble| trouble.to_string())?;
            clients.spawn(take_and_give_back(number, system, told.clone(), tell.clone()));
        }
        Ok(Self { lost, grants, _clients: clients })
    }

    /// Waits until every client has had a lock.
    async fn steady(&mut self) -> Result<(), String> {
        let all = async {
            for _ in 0..CLIENTS {
                self.grants.recv().await;
            }
        };
        let late = |_| "the clients did not get their first locks".to_owned();
        timeout(STEADY, all).await.map_err(late)
    }

    /// When the first grant after the loss came.
    async fn next(&mut self) -> Result<Instant, String> {
        let late = || format!("no grant within {} s", GAP.as_secs());
        timeout(GAP, self.grants.recv()).await.ok().flatten().ok_or_else(late)
    }
}

async fn take_and_give_back(
    number: usize,
    system: Arc<dyn System>,
    lost: watch::Receiver<Option<Instant>>,
    tell: mpsc::Sender<Instant>,
) {
    let (mut caller, mut is_first, mut locks) = (Caller::new(system), true, 0_u64);
    loop {
        locks += 1;
        let asked = Instant::now();
        if let Ok(hold) = caller.take(&format!("failover-{number}-{locks}")).await {
            let granted = Instant::now();
            let after_the_loss = lost.borrow().is_some_and(|lost| asked >= lost);
            // Nobody listens any more when the trial is over.
            if (is_first || after_the_loss) && tell.send(granted).await.is_err() {
                return;
            }
            is_first = false;
            if after_the_loss {
                return;
            }
            // What could not be given back ends by itself.
            drop(caller.give_back(hold).await);
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Chosen};

    #[test]
    fn every_kind_of_server_of_a_full_run_has_a_way_to_go_on() {
        let full = catalogue::chosen(Chosen::Full);
        for listed in &full {
            let mut same = full.iter().filter(|other| other.kind == listed.kind);
            assert!(same.any(|other| Way::of(other).is_some()), "{:?}", listed.kind);
        }
    }
}
