//! The program as a user calls it: missing servers, interrupts, and failovers.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use holdfast_measure::record::{Failover, Safety};
use holdfast_measure::servers::ServerKind;
use holdfast_measure::{Records, Row};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{are_here, compare};

/// The time limit, sufficient on a loaded machine.
const DEADLINE: Duration = Duration::from_mins(2);
const STEP: Duration = Duration::from_millis(20);

/// A run with its files in a separate directory.
struct Run {
    directory: tempfile::TempDir,
    child: Child,
}

impl Run {
    fn start(part: &str, systems: &str, path: Option<&Path>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), all).unwrap();
        let mut command = Command::new(compare());
        command.args([part, "--tiny", "--systems", systems, "--out"]).arg(rows(directory.path()));
        command.arg("--directory").arg(directory.path()).stderr(Stdio::null());
        command.envs(path.map(|path| ("PATH", path)));
        let child = command.spawn().unwrap();
        Self { directory, child }
    }

    fn rows(&self) -> Vec<Row> {
        Records::read(&rows(self.directory.path())).unwrap_or_default()
    }

    fn safety(&self) -> Vec<Safety> {
        let of = |row| if let Row::Safety(row) = row { Some(row) } else { None };
        self.rows().into_iter().filter_map(of).collect()
    }

    fn failover(&self) -> Vec<Failover> {
        let of = |row| if let Row::Failover(row) = row { Some(row) } else { None };
        self.rows().into_iter().filter_map(of).collect()
    }

    /// Returns all processes that the run has started, with their descendants.
    fn tree(&self) -> BTreeSet<u32> {
        let mut tree = BTreeSet::from([self.child.id()]);
        let all = parents();
        loop {
            let before = tree.len();
            tree.extend(
                all.iter()
                    .filter(|(_, of)| tree.contains(of))
                    .map(|(pid, _)| *pid)
                    .collect::<Vec<_>>(),
            );
            if tree.len() == before {
                return tree;
            }
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The servers end with the run.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn rows(directory: &Path) -> PathBuf {
    directory.join("rows")
}

/// Returns every process and its parent, without zombies.
fn parents() -> Vec<(u32, u32)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?;
        (state != "Z").then_some(())?;
        Some((pid, fields.next()?.parse().ok()?))
    };
    pids.filter_map(parent).collect()
}

/// Waits for a condition with a deadline.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting for: {what}");
        std::thread::sleep(STEP);
    }
}

#[test]
fn a_missing_server_is_a_row_with_a_failure_and_the_others_go_on() {
    if !are_here(&[ServerKind::Postgres]) {
        return;
    }
    // The path contains PostgreSQL but not Redis.
    let path = tempfile::tempdir().unwrap();
    for program in ["setpriv", "initdb", "postgres"] {
        let addresses =
            std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
        let found = addresses.iter().map(|place| place.join(program)).find(|file| file.is_file());
        if let Some(found) = found {
            symlink(found, path.path().join(program)).unwrap();
        }
    }
    let systems = "redis-set-nx-px,postgres-advisory";
    let mut run = Run::start("safety", systems, Some(path.path()));
    until("its end", || run.child.try_wait().unwrap().is_some());
    let rows = run.safety();
    let none = |system: &str| {
        rows.iter().find(|row| row.system == system && row.fault == "none").unwrap().clone()
    };
    let redis = none("redis-set-nx-px").failure.unwrap();
    assert!(redis.contains("not installed"), "{redis}");
    let postgres = none("postgres-advisory");
    assert_eq!((&postgres.failure, postgres.oversold), (&None, 0), "{postgres:?}");
    assert!(postgres.sold > 0, "{postgres:?}");
}

#[test]
fn an_interrupt_leaves_no_process_and_no_file_behind() {
    if !are_here(&[ServerKind::Postgres, ServerKind::Redis]) {
        return;
    }
    let mut run = Run::start("safety", "redis-set-nx-px", None);
    until("a holder that is paused", || stopped(&run).is_some());
    let tree = run.tree();
    assert!(tree.len() > 4, "a PostgreSQL, a Redis and workers: {tree:?}");
    let pid = Pid::from_raw(i32::try_from(run.child.id()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    until("its end", || run.child.try_wait().unwrap().is_some());
    until("the end of all that it started", || {
        parents().iter().all(|(pid, _)| !tree.contains(pid))
    });
    let left = std::fs::read_dir(run.directory.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["rows"]);
}

/// Returns a stopped process of a run.
fn stopped(run: &Run) -> Option<u32> {
    run.tree().into_iter().find(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    })
}

#[test]
fn after_the_loss_of_a_leader_or_of_the_only_server_there_is_a_grant_again() {
    if !are_here(&[ServerKind::Redis, ServerKind::Holdfast]) {
        return;
    }
    let systems = "holdfast-http,redis-set-nx-px,redis-set-nx-px-always";
    let mut run = Run::start("failover", systems, None);
    until("its end", || run.child.try_wait().unwrap().is_some());
    let rows = run.failover();
    assert_eq!(rows.len(), 3, "{rows:?}");
    for row in rows {
        assert_eq!((row.gaps_ms.len(), &row.failure), (1, &None), "{row:?}");
    }
}
