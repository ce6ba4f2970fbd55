//! The program: its report of a missing server, and its cleanup after an interrupt.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use holdfast_measure::Records;
use holdfast_measure::record::Row;
use holdfast_measure::servers::ServerKind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::skip::is_here;
use holdfast_lab::{DEADLINE, until};

/// The tool with its rows in `place/rows` and its servers in `place/servers`.
fn compare(place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_measure"));
    command.args(arguments).arg("--out").arg(place.join("rows"));
    command.arg("--directory").arg(place.join("servers"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A directory for the path with only these programs.
pub(crate) fn path_with(place: &Path, programs: &[&str]) -> std::path::PathBuf {
    let bin = place.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for name in programs {
        let path = std::env::var_os("PATH").unwrap();
        let found =
            std::env::split_paths(&path).map(|place| place.join(name)).find(|at| at.is_file());
        let link = bin.join(name);
        if !link.exists() {
            symlink(found.unwrap(), link).unwrap();
        }
    }
    bin
}

#[test]
fn a_server_that_is_missing_is_a_row_and_the_others_go_on() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let bin = path_with(place.path(), &["redis-server", "setpriv"]);
    for part in ["speed", "fairness"] {
        let arguments = [part, "--tiny", "--systems", "etcd-lock,redis-set-nx-px"];
        let ended = compare(place.path(), &arguments).env("PATH", &bin).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let rows = Records::read(&place.path().join("rows")).unwrap();
    let (mut missing, mut measured) = (0, 0);
    for row in &rows {
        let (system, failure) = match row {
            Row::Speed(row) => (&row.system, &row.failure),
            Row::Fairness(row) => (&row.system, &row.failure),
            Row::Run(_)
            | Row::System(_)
            | Row::WarmUp(_)
            | Row::ClientLibrary(_)
            | Row::Safety(_)
            | Row::Failover(_)
            | Row::Writers(_)
            | Row::Nodes(_) => continue,
        };
        if system == "etcd-lock" {
            assert!(failure.as_ref().unwrap().contains("apt-get install etcd-server"), "{row:?}");
            missing += 1;
        } else {
            assert_eq!(*failure, None, "{row:?}");
            measured += 1;
        }
    }
    assert!(missing > 1 && missing == measured, "{missing} {measured}");
    let report = ["report"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_measure"));
    let ended = command.args(report).arg("--out").arg(place.path().join("rows")).output().unwrap();
    assert!(ended.status.success());
    let page = std::fs::read_to_string(place.path().join("rows/comparison.md")).unwrap();
    assert!(page.contains("- speed, etcd-lock: etcd is not installed"), "{page}");
    assert!(page.contains("A trial of the tool"), "{page}");
}

/// A process that the drop kills.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns `true` if any process has this text on its command line.
fn mentioned(text: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(text))
}

/// Returns the number of server directories below the place.
fn stages(place: &Path) -> usize {
    std::fs::read_dir(place.join("servers")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn an_interrupted_run_stops_its_servers_and_removes_their_files() {
    if !is_here(ServerKind::Etcd) {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let place = tempfile::tempdir().unwrap();
        let servers = place.path().join("servers").display().to_string();
        let arguments = ["speed", "--systems", "etcd-lock", "--seconds", "60", "--clients", "1"];
        let mut command = compare(place.path(), &arguments);
        let mut running =
            Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        // The command lines of the servers and of the tool contain the directory.
        until("servers", DEADLINE, async || mentioned(&format!("{servers}/holdfast-measure-")))
            .await;
        let pid = Pid::from_raw(i32::try_from(running.0.id()).unwrap());
        kill(pid, signal).unwrap();
        let status = running.0.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{signal}");
        until("the end of the servers", DEADLINE, async || !mentioned(&servers)).await;
        assert_eq!(stages(place.path()), 0, "{signal}");
    }
}
