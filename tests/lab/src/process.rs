//! One `holdfast serve` process: signals, exit, and its log file.
//!
//! Dropping a [`Process`] kills the child, also while it is stopped. Both output streams go to one file that is kept
//! across restarts, so that a failed test can print the log of all starts.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock::WallClock;
use crate::until::{until, until_some};

/// A running node.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `<program> serve --config <config> <flags>` and appends its output to `log`. Without `clock`, the process
    /// uses the system's wall clock.
    pub fn serve(
        program: &Path,
        (config, flags): (&Path, &[&str]),
        log: &Path,
        clock: Option<&WallClock>,
    ) -> Self {
        let output = append_to(log);
        let errors = output.try_clone().expect("a second handle of the log");
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(config).args(flags);
        command.env_clear().env("RUST_BACKTRACE", "1");
        command.envs(clock.iter().flat_map(|clock| clock.environment()));
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().expect("the binary starts");
        Self { child, log: log.to_owned() }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGKILL and reaps the process.
    pub fn kill(&mut self) {
        // `kill` fails if the process has already exited.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Sends SIGTERM and waits for the exit.
    pub async fn terminate(&mut self, deadline: Duration) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.exit(deadline).await
    }

    /// Waits until the process exits.
    pub async fn exit(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("the end of process {}", self.pid());
        until_some(&what, deadline, async || self.child.try_wait().expect("wait")).await
    }

    /// The exit status, if the process has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("wait")
    }

    /// Sends any signal.
    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Resident memory, KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// The last lines of the log.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends SIGSTOP and waits until every thread of the process is stopped.
pub(crate) async fn pause(pid: u32) {
    send(pid, Signal::SIGSTOP);
    let stopped = || async { all_threads_stopped(pid) };
    until("a stopped process", Duration::from_secs(5), stopped).await;
}

/// Sends a signal; panics if the process does not exist.
pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).expect("a pid fits");
    kill(Pid::from_raw(pid), signal).expect("the process is ours");
}

fn all_threads_stopped(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 't', 'X', 'Z']))
    })
}

fn append_to(log: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(log).expect("a log file")
}

/// The last `lines` lines of a file; empty if the file cannot be read.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// True if a process exists and is not a zombie.
pub fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
    })
}
