//! Every kind of `holdfast run` and `holdfast elect` under every fault: of its process, of the leader, of both, of all
//! nodes. The command and its whole group are dead before another session holds the lock.
//!
//! Each fault has one test. `HOLDFAST_TRIALS` is the number of trials of each kind over all faults; by default each
//! test has two. The next command in the queue scans for the processes of the first command as soon as it has the
//! lock.

use std::cell::Cell;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::program::{DevCluster, Program, eventually, is_running, send};

const TTL: Duration = Duration::from_secs(3);
/// Prints two process ids, its own and a child's, and ignores SIGTERM.
const STUBBORN: &str = r#"trap "" TERM; sh -c 'trap "" TERM; while :; do sleep 0.2; done' & echo $$ $!; while :; do sleep 0.2; done"#;

/// How the command acquires its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Shared,
    Permits,
    MultiLock,
    Leader,
}

const KINDS: [Kind; 5] =
    [Kind::Exclusive, Kind::Shared, Kind::Permits, Kind::MultiLock, Kind::Leader];

impl Kind {
    /// The arguments that acquire the free lock.
    fn words(self, lock: &str) -> Vec<String> {
        let too = format!("{lock}/too");
        let words = match self {
            Self::Exclusive => vec!["run", lock],
            Self::Shared => vec!["run", lock, "--shared"],
            Self::Permits => vec!["run", lock, "--permits", "2/2"],
            Self::MultiLock => vec!["run", lock, &too],
            Self::Leader => vec!["elect", lock],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// The arguments of the next command, which gets the lock only after the end of the first hold.
    fn words_of_next(self, lock: &str) -> Vec<String> {
        let kind = if self == Self::Shared { Self::Exclusive } else { self };
        kind.words(lock)
    }

    /// The name of the held lock.
    fn lock(self, name: &str) -> String {
        if self == Self::Leader { format!("elections/{name}") } else { name.to_owned() }
    }
}

fn spawn(cluster: &DevCluster, words: &[String], more: &[&str]) -> Program {
    let words = words.iter().map(String::as_str).chain(more.iter().copied());
    cluster.spawn_client(&words.collect::<Vec<_>>())
}

/// The number of trials of each kind in a round.
const TRIALS_OF_A_ROUND: usize = 2;

/// The processes that a test kills or stops while the commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedFault {
    RunStops,
    LeaderIsKilled,
    NodesStop,
    RunIsKilled,
    LeaderStops,
    BothAreKilled,
    BothStop,
}

const FAULTS: usize = 7;

/// A command that runs under a lock.
struct Holder {
    lock: String,
    kind: Kind,
    run: Program,
}

impl Holder {
    fn start(cluster: &DevCluster, lock: String, kind: Kind) -> Self {
        let how = ["--ttl", "3s", "--", "sh", "-c", STUBBORN];
        let run = spawn(cluster, &kind.words(&lock), &how);
        Self { lock, kind, run }
    }
}

/// One command under a lock, and the next command in its queue.
struct Trial {
    holder: Holder,
    processes: Vec<u32>,
    next: Program,
}

impl Trial {
    /// Waits until the holder's command runs, and starts the next command.
    fn begin(cluster: &DevCluster, mut holder: Holder) -> Self {
        let line = holder.run.next_stdout_line();
        let processes: Vec<u32> = line.split(' ').map(|id| id.parse().unwrap()).collect();
        // A process is alive if it exists and is not a zombie.
        let search = format!(
            "for id in {line}; do grep -q ') [^ZX] ' /proc/$id/stat 2>/dev/null && echo $id lives; done; echo looked"
        );
        let how = ["--quiet", "--", "sh", "-c", &search];
        let next = spawn(cluster, &holder.kind.words_of_next(&holder.lock), &how);
        Self { holder, processes, next }
    }

    /// Waits until the next command is in the queue. On an overloaded machine the hold may end earlier, and the next
    /// command has already scanned.
    fn wait_until_queued(&self, cluster: &DevCluster) {
        let lock = self.holder.kind.lock(&self.holder.lock);
        eventually("the next one to wait", || {
            let who = cluster.client(&["who", &lock, "-o", "json"]);
            let who: serde_json::Value = serde_json::from_str(&who.stdout).unwrap_or_default();
            who["waiters"] == 1 || self.is_gone()
        });
    }

    fn is_gone(&self) -> bool {
        self.processes.iter().all(|id| !is_running(*id))
    }

    /// Checks the result of the next command's scan.
    fn end(&mut self, fault: InjectedFault) {
        let next = self.next.wait();
        assert_eq!((next.code, next.stdout.as_str()), (Some(0), "looked\n"), "{fault:?}");
        if matches!(fault, InjectedFault::RunStops | InjectedFault::BothStop) {
            self.holder.run.signal(Signal::SIGCONT);
            let end = self.holder.run.wait();
            assert_eq!(end.code, Some(76), "{fault:?}: {}", end.stderr);
        }
    }
}

/// Waits until every command is dead in time, or, if the fault is survivable, has outlived its old lease.
fn outcome(trials: &[Trial], fault: InjectedFault, struck: Instant) {
    if matches!(fault, InjectedFault::LeaderIsKilled | InjectedFault::LeaderStops) {
        eventually("losses, or lives beyond the old lease", || {
            trials.iter().all(Trial::is_gone) || struck.elapsed() > TTL * 2
        });
        return;
    }
    // The time is read before the processes, so that a late scan causes no false failure.
    let seen_alive = Cell::new(Duration::ZERO);
    eventually("the commands are gone", || {
        let looked = struck.elapsed();
        let gone = trials.iter().all(Trial::is_gone);
        if !gone {
            seen_alive.set(looked);
        }
        gone
    });
    let lasted = seen_alive.get();
    assert!(lasted < TTL, "{fault:?}: {lasted:?} after the last renewal");
}

fn leader(cluster: &DevCluster) -> u32 {
    let status = cluster.client(&["status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let leader = usize::try_from(status["leader"].as_u64().unwrap()).unwrap();
    cluster.node_pids()[leader - 1]
}

/// Injects the fault into all targets at once. From then on, stopped or dead processes send no renewal.
fn strike(cluster: &DevCluster, fault: InjectedFault, trials: &mut [Trial]) -> Instant {
    let leader = leader(cluster);
    match fault {
        InjectedFault::NodesStop => {
            cluster.node_pids().iter().for_each(|id| send(*id, Signal::SIGSTOP));
        }
        InjectedFault::LeaderStops | InjectedFault::BothStop => send(leader, Signal::SIGSTOP),
        InjectedFault::LeaderIsKilled | InjectedFault::BothAreKilled => {
            send(leader, Signal::SIGKILL);
        }
        InjectedFault::RunStops | InjectedFault::RunIsKilled => {}
    }
    for trial in trials {
        match fault {
            InjectedFault::RunStops | InjectedFault::BothStop => {
                trial.holder.run.signal(Signal::SIGSTOP);
            }
            InjectedFault::RunIsKilled | InjectedFault::BothAreKilled => trial.holder.run.kill(),
            InjectedFault::NodesStop
            | InjectedFault::LeaderIsKilled
            | InjectedFault::LeaderStops => {}
        }
    }
    Instant::now()
}

/// Concurrent trials of every kind, on a separate cluster.
fn round(fault: InjectedFault, round: usize) {
    let cluster = DevCluster::start(&["--nodes", "3"]);
    let numbers = 0..TRIALS_OF_A_ROUND * KINDS.len();
    let holders: Vec<Holder> = numbers
        .map(|number| {
            let lock = format!("round/{round}/{number}");
            Holder::start(&cluster, lock, KINDS[number % KINDS.len()])
        })
        .collect();
    let mut trials: Vec<Trial> =
        holders.into_iter().map(|holder| Trial::begin(&cluster, holder)).collect();
    for trial in &trials {
        trial.wait_until_queued(&cluster);
    }
    let struck = strike(&cluster, fault, &mut trials);
    outcome(&trials, fault, struck);
    if fault == InjectedFault::NodesStop {
        cluster.node_pids().iter().for_each(|id| send(*id, Signal::SIGCONT));
    }
    for survivor in trials.iter_mut().filter(|trial| !trial.is_gone()) {
        survivor.holder.run.kill();
    }
    for trial in &mut trials {
        trial.end(fault);
    }
    if matches!(fault, InjectedFault::LeaderStops | InjectedFault::BothStop) {
        let stopped = cluster.node_pids();
        stopped.iter().filter(|id| is_running(**id)).for_each(|id| send(*id, Signal::SIGCONT));
    }
}

/// In every trial of every kind, the command is dead before the next grant of its lock.
fn every_command_is_dead_before_the_next_grant(fault: InjectedFault) {
    let trials = std::env::var("HOLDFAST_TRIALS").ok().and_then(|trials| trials.parse().ok());
    let rounds = trials.map_or(1, |trials: usize| trials.div_ceil(TRIALS_OF_A_ROUND * FAULTS));
    (0..rounds).for_each(|number| round(fault, number));
}

#[test]
fn the_command_is_dead_before_the_next_grant_when_run_is_stopped() {
    every_command_is_dead_before_the_next_grant(InjectedFault::RunStops);
}

#[test]
fn the_command_is_dead_before_the_next_grant_when_the_leader_is_killed() {
    every_command_is_dead_before_the_next_grant(InjectedFault::LeaderIsKilled);
}

#[test]
fn the_command_is_dead_before_the_next_grant_when_all_nodes_are_stopped() {
    every_command_is_dead_before_the_next_grant(InjectedFault::NodesStop);
}

#[test]
fn the_command_is_dead_before_the_next_grant_when_run_is_killed() {
    every_command_is_dead_before_the_next_grant(InjectedFault::RunIsKilled);
}

#[test]
fn the_command_is_dead_before_the_next_grant_when_the_leader_is_stopped() {
    every_command_is_dead_before_the_next_grant(InjectedFault::LeaderStops);
}

#[test]
fn the_command_is_dead_before_the_next_grant_when_run_and_the_leader_are_killed() {
    every_command_is_dead_before_the_next_grant(InjectedFault::BothAreKilled);
}

#[test]
fn the_command_is_dead_before_the_next_grant_when_run_and_the_leader_are_stopped() {
    every_command_is_dead_before_the_next_grant(InjectedFault::BothStop);
}
