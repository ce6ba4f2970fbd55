//! `holdfast run` and `holdfast elect` of every kind under every fault of its process, of the leader, of both and of all nodes: the command is
//! dead, with its whole group, before its lock is another's.
//!
//! As many trials of each kind as `HOLDFAST_TRIALS` says; without it, two a fault. The next in the queue looks for the
//! command's processes itself, as the first thing it does with the lock.

use std::cell::Cell;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::program::{DevCluster, Program, eventually, is_running, kill, send};

const TTL: Duration = Duration::from_secs(3);
/// Tells two process ids, its own and a child's, and cannot be asked to end.
const STUBBORN: &str = r#"trap "" TERM; sh -c 'trap "" TERM; while :; do sleep 0.2; done' & echo $$ $!; while :; do sleep 0.2; done"#;

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Shared,
    Permits,
    Several,
    Leader,
}

const KINDS: [Kind; 5] =
    [Kind::Exclusive, Kind::Shared, Kind::Permits, Kind::Several, Kind::Leader];

impl Kind {
    /// The words that take it, for whom the lock is free.
    fn words(self, lock: &str) -> Vec<String> {
        let too = format!("{lock}/too");
        let words = match self {
            Self::Exclusive => vec!["run", lock],
            Self::Shared => vec!["run", lock, "--shared"],
            Self::Permits => vec!["run", lock, "--permits", "2/2"],
            Self::Several => vec!["run", lock, &too],
            Self::Leader => vec!["elect", lock],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// The words of the next one, who gets it only when the first one is through with it.
    fn words_of_next(self, lock: &str) -> Vec<String> {
        let kind = if self == Self::Shared { Self::Exclusive } else { self };
        kind.words(lock)
    }

    /// The lock that is held.
    fn lock(self, name: &str) -> String {
        if self == Self::Leader { format!("elections/{name}") } else { name.to_owned() }
    }
}

fn spawn(cluster: &DevCluster, words: &[String], more: &[&str]) -> Program {
    let words = words.iter().map(String::as_str).chain(more.iter().copied());
    cluster.spawn_client(&words.collect::<Vec<_>>())
}

/// Trials of each kind in a round.
const AT_ONCE: usize = 2;

/// What happens in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    RunStops,
    LeaderIsKilled,
    NodesStop,
    RunIsKilled,
    LeaderStops,
    BothAreKilled,
    BothStop,
}

const FAULTS: [Fault; 7] = [
    Fault::RunStops,
    Fault::LeaderIsKilled,
    Fault::NodesStop,
    Fault::RunIsKilled,
    Fault::LeaderStops,
    Fault::BothAreKilled,
    Fault::BothStop,
];

/// One command under a lock, and the next one behind it.
struct Trial {
    run: Program,
    processes: Vec<u32>,
    next: Program,
}

impl Trial {
    fn begin(cluster: &DevCluster, name: &str, kind: Kind) -> Self {
        let how = ["--ttl", "3s", "--", "sh", "-c", STUBBORN];
        let mut run = spawn(cluster, &kind.words(name), &how);
        let processes: Vec<u32> =
            run.next_stdout_line().split(' ').map(|id| id.parse().unwrap()).collect();
        let ids = format!("{} {}", processes[0], processes[1]);
        // What is there and no zombie lives.
        let search = format!(
            "for id in {ids}; do grep -q ') [^ZX] ' /proc/$id/stat 2>/dev/null && echo $id lives; done; echo looked"
        );
        let how = ["--quiet", "--", "sh", "-c", &search];
        let next = spawn(cluster, &kind.words_of_next(name), &how);
        let trial = Self { run, processes, next };
        // On a machine with too much to do the hold may be over by now, and the next one has seen that.
        eventually("the next one to wait", || {
            let who = cluster.client(&["who", &kind.lock(name), "-o", "json"]);
            let who: serde_json::Value = serde_json::from_str(&who.stdout).unwrap_or_default();
            who["waiters"] == 1 || trial.is_gone()
        });
        trial
    }

    fn is_gone(&self) -> bool {
        self.processes.iter().all(|id| !is_running(*id))
    }

    /// Ends a command that has survived, and hears what the next one has seen.
    fn end(&mut self, fault: Fault) {
        if !self.is_gone() {
            self.run.kill();
        }
        let next = self.next.wait();
        assert_eq!((next.code, next.stdout.as_str()), (Some(0), "looked\n"), "{fault:?}");
        if matches!(fault, Fault::RunStops | Fault::BothStop) {
            self.run.signal(Signal::SIGCONT);
            let end = self.run.wait();
            assert_eq!(end.code, Some(76), "{fault:?}: {}", end.stderr);
        }
    }
}

/// Waits until every command is gone, in time; or, if a fault can be survived, has lived beyond its old lease.
fn outcome(trials: &[Trial], fault: Fault, struck: Instant) {
    if matches!(fault, Fault::LeaderIsKilled | Fault::LeaderStops) {
        eventually("losses, or lives beyond the old lease", || {
            trials.iter().all(Trial::is_gone) || struck.elapsed() > TTL * 2
        });
        return;
    }
    // Looked at before the processes are, so that a look that comes late accuses nobody.
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

/// Strikes everything at once; from here on nothing is renewed by what stands still or is gone.
fn strike(cluster: &DevCluster, fault: Fault, trials: &mut [Trial]) -> Instant {
    let leader = leader(cluster);
    match fault {
        Fault::NodesStop => cluster.node_pids().iter().for_each(|id| send(*id, Signal::SIGSTOP)),
        Fault::LeaderStops | Fault::BothStop => send(leader, Signal::SIGSTOP),
        Fault::LeaderIsKilled | Fault::BothAreKilled => kill(leader),
        Fault::RunStops | Fault::RunIsKilled => {}
    }
    for trial in trials {
        match fault {
            Fault::RunStops | Fault::BothStop => trial.run.signal(Signal::SIGSTOP),
            Fault::RunIsKilled | Fault::BothAreKilled => trial.run.kill(),
            Fault::NodesStop | Fault::LeaderIsKilled | Fault::LeaderStops => {}
        }
    }
    Instant::now()
}

#[test]
fn in_every_trial_of_every_kind_the_command_is_dead_before_the_lock_is_anothers() {
    let trials = std::env::var("HOLDFAST_TRIALS").ok().and_then(|trials| trials.parse().ok());
    let rounds = trials.map_or(FAULTS.len(), |trials: usize| trials.div_ceil(AT_ONCE));
    for (round, fault) in FAULTS.into_iter().cycle().take(rounds).enumerate() {
        let cluster = DevCluster::start(&["--nodes", "3"]);
        let begin = |number| {
            let lock = format!("round/{round}/{number}");
            Trial::begin(&cluster, &lock, KINDS[number % KINDS.len()])
        };
        let mut all: Vec<Trial> = (0..AT_ONCE * KINDS.len()).map(begin).collect();
        let struck = strike(&cluster, fault, &mut all);
        outcome(&all, fault, struck);
        if fault == Fault::NodesStop {
            cluster.node_pids().iter().for_each(|id| send(*id, Signal::SIGCONT));
        }
        for trial in &mut all {
            trial.end(fault);
        }
        if matches!(fault, Fault::LeaderStops | Fault::BothStop) {
            let stopped = cluster.node_pids();
            stopped.iter().filter(|id| is_running(**id)).for_each(|id| send(*id, Signal::SIGCONT));
        }
    }
}
