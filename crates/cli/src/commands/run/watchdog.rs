//! The watchdog process: the parent of the user's command and, as a child subreaper, of every orphan below it.
//!
//! `holdfast run` starts it before it waits for the lock. The watchdog starts the command, reports its end, and kills
//! every descendant at the end of the lease, even if `run` is stopped, starved or killed at that moment. If `run` is
//! killed, it ends all descendants and then releases the locks. The proof of their end is that the watchdog has no
//! child left. The command starts in the process group of `run`; then the watchdog leaves that group, so that no signal
//! reaches both guards. It blocks every signal that a process can block. It needs neither network nor locks for a kill.
//! Bounds: it never waits for `run` to read; one release at a time, one for each of at most 16 locks.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use clap::Parser;
use holdfast_client::http::Method;
use holdfast_client::{Call, Moment};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2, setpgid, setsid};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

use super::launcher::LAUNCHER;
use super::processes::{
    WATCHDOG_NAME, is_orphaned_group, kill_listed, live_descendants, terminate, without_nested,
};
use super::protocol::{
    CommandEnvironment, WatchdogOrder, WatchdogReport, from_ms, inherited, line, parse, to_ms,
};
use crate::arguments::{CredentialArgs, NodesArgs};
use crate::exit::CommandFailure;

/// The first argument of this mode. It is no command of the command line, so no tip and no completion shows it.
pub(crate) const WATCHDOG: &str = "__watchdog";
/// This program, even after an upgrade of the package has replaced its file.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";
/// The interval of clock reads: timers stop while the machine is suspended, but deadlines do not.
const CLOCK_CHECK: Duration = Duration::from_millis(500);
/// The time between two scans of the processes during a kill.
pub(super) const SCAN_INTERVAL: Duration = Duration::from_millis(10);
/// The time between two readings of the list of children.
const KILL_INTERVAL: Duration = Duration::from_millis(1);
/// The time after which a killed process counts as one that cannot be killed: it belongs to another user, or waits
/// for a device.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit of a release after the death of `run`.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// The watchdog of a command: `holdfast run` starts it.
#[derive(Debug, Parser)]
pub(crate) struct WatchdogArgs {
    /// The file descriptor of the pipe with the orders.
    orders: i32,
    /// The file descriptor of the pipe for the reports.
    reports: i32,
    #[command(flatten)]
    credentials: CredentialArgs,
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// Runs the watchdog process.
pub(crate) async fn watchdog(args: WatchdogArgs) -> Result<(), CommandFailure> {
    let internal = |error| {
        CommandFailure::usage(format!("only holdfast run starts this internal command: {error}"))
    };
    let orders = pipe::Receiver::from_file(inherited(args.orders, false).map_err(internal)?);
    let mut orders = BufReader::new(orders.map_err(internal)?).lines();
    let reports = inherited(args.reports, true).map_err(internal)?;
    let mut mask = SigSet::all();
    mask.remove(Signal::SIGCHLD);
    mask.thread_set_mask().map_err(CommandFailure::failed)?;
    prctl::set_child_subreaper(true).map_err(CommandFailure::failed)?;
    drop(std::ffi::CString::new(WATCHDOG_NAME).map(|name| prctl::set_name(&name)));
    let mut children = signal(SignalKind::child()).map_err(CommandFailure::failed)?;
    let mut watchdog = WatchdogProcess::new(args, reports);
    watchdog.report(WatchdogReport::Ready);
    loop {
        tokio::select! {
            order = orders.next_line() => match order.ok().flatten() {
                Some(order) => watchdog.follow(&order),
                None => break,
            },
            _ = children.recv() => {
                watchdog.reap();
            }
            () = reached_if_any(watchdog.kill_at) => {
                watchdog.kill_at = None;
                watchdog.kill_all().await;
            }
        }
    }
    // `run` has ended, so no process renews the lease: every descendant must end before the lease.
    watchdog.end_orphans().await;
    Ok(())
}

/// The state of the watchdog process.
#[derive(Debug)]
struct WatchdogProcess {
    args: WatchdogArgs,
    reports: File,
    releases: Vec<ReleaseCall>,
    /// The time from SIGTERM to SIGKILL after the death of `run`.
    grace: Duration,
    /// The last kill time; `None` for a command that may outlive its lock.
    lease_end: Option<Moment>,
    /// The next kill; `None` after it.
    kill_at: Option<Moment>,
    /// The command; `None` before its start and after its end.
    command: Option<Pid>,
    was_started: bool,
    /// The launcher writes a byte into this pipe if it cannot execute the command.
    not_executed: Option<File>,
}

impl WatchdogProcess {
    fn new(args: WatchdogArgs, reports: File) -> Self {
        let grace = Duration::ZERO;
        Self {
            args,
            reports,
            releases: vec![],
            grace,
            lease_end: None,
            kill_at: None,
            command: None,
            was_started: false,
            not_executed: None,
        }
    }

    /// Writes a report. If `run` does not read for so long that the pipe is full, it gets no further report.
    fn report(&mut self, report: WatchdogReport) {
        let _ended_or_stopped = self.reports.write_all(&line(&report));
    }

    fn follow(&mut self, order: &str) {
        match parse(order) {
            Some(WatchdogOrder::Until { ms }) => {
                self.lease_end = Some(from_ms(ms));
                self.kill_at = self.lease_end;
            }
            Some(WatchdogOrder::Release { nodes, target }) => {
                self.releases.push(ReleaseCall::new(nodes, target, &self.args.credentials));
            }
            Some(WatchdogOrder::Start { environment, grace_ms }) => {
                self.grace = Duration::from_millis(grace_ms);
                let report = if self.lease_has_ended() {
                    WatchdogReport::TooLate
                } else {
                    self.start(&environment).unwrap_or_else(|error| WatchdogReport::NotStarted {
                        errno: error.raw_os_error().unwrap_or(0),
                    })
                };
                self.report(report);
            }
            None => {}
        }
    }

    fn lease_has_ended(&self) -> bool {
        self.lease_end.is_some_and(|end| Moment::now() >= end)
    }

    /// Starts the command in the process group of `run`, so that it is in the foreground of the terminal if `run` is.
    fn start(&mut self, environment: &CommandEnvironment) -> std::io::Result<WatchdogReport> {
        let (not_executed, pipe_there) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        fcntl(&pipe_there, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let mut command = Command::new(OWN_PROGRAM);
        command.arg0("holdfast").arg(LAUNCHER).arg(std::process::id().to_string());
        command.arg(pipe_there.as_raw_fd().to_string()).args(&self.args.command);
        for name in &environment.removed {
            command.env_remove(name);
        }
        let set = environment.set.iter().map(|(name, value)| (name, value));
        let child = command.envs(set).spawn()?;
        leave_group();
        let id = i32::try_from(child.id()).unwrap_or(0);
        self.command = Some(Pid::from_raw(id));
        self.was_started = true;
        self.not_executed = Some(File::from(not_executed));
        Ok(WatchdogReport::Started { id })
    }

    /// Reaps all ended children, and reports the end of the command and of its last descendant. Returns `true` if no
    /// child is left.
    fn reap(&mut self) -> bool {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        loop {
            match waitpid(None, Some(flags)) {
                Ok(WaitStatus::Stopped(id, signal)) if Some(id) == self.command => {
                    self.report(WatchdogReport::Stopped { signal: signal as i32 });
                }
                Ok(WaitStatus::Exited(id, code)) => self.ended(id, code << 8),
                Ok(WaitStatus::Signaled(id, signal, _)) => self.ended(id, signal as i32),
                Ok(WaitStatus::StillAlive) => return false,
                Err(Errno::ECHILD) => {
                    // A real-time signal has no name, so its victim was reaped without a status.
                    if let Some(command) = self.command {
                        self.ended(command, Signal::SIGKILL as i32);
                    }
                    if std::mem::take(&mut self.was_started) {
                        self.report(WatchdogReport::Gone { ms: to_ms(Moment::now()) });
                    }
                    return true;
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn ended(&mut self, id: Pid, status: i32) {
        if Some(id) == self.command {
            self.command = None;
            let not_executed = self.not_executed.take().map(|mut pipe| pipe.read(&mut [0]));
            self.report(match not_executed {
                Some(Ok(1)) => WatchdogReport::NotExecuted { status },
                Some(Ok(_) | Err(_)) | None => WatchdogReport::Ended { status },
            });
        }
    }

    /// Kills all descendants, until none is left or [`KILL_TIMEOUT`] has passed. Returns `true` if none is left.
    async fn kill_all(&mut self) -> bool {
        let give_up = Moment::now().plus(KILL_TIMEOUT);
        let mut next_scan = Moment::now();
        while !self.reap() {
            kill_listed(Pid::this());
            if !next_scan.left(Moment::now()).is_zero() {
                // A process that forks fast is dead only if the list of children is read more often than it forks.
                tokio::time::sleep(KILL_INTERVAL).await;
                continue;
            }
            for process in live_descendants(Pid::this(), &[]) {
                // `run` reports processes that cannot be killed.
                let _of_another_user = process.signal(Signal::SIGKILL);
            }
            if let Some(command) = self.command {
                let _reaped_above = nix::sys::signal::kill(command, Signal::SIGKILL);
            }
            if Moment::now() >= give_up {
                return false;
            }
            next_scan = Moment::now().plus(SCAN_INTERVAL);
        }
        true
    }

    /// Ends all descendants of a `run` that was killed. Releases the locks after the last one has ended, unless the
    /// lease ends before.
    async fn end_orphans(&mut self) {
        let kill_after = Moment::now().plus(self.grace);
        let kill_after = self.lease_end.map_or(kill_after, |end| kill_after.min(end));
        terminate(&without_nested(live_descendants(Pid::this(), &[])), self.command);
        while !self.reap() && Moment::now() < kill_after {
            tokio::time::sleep(SCAN_INTERVAL).await;
        }
        if !self.kill_all().await || self.lease_has_ended() {
            return;
        }
        for release in &self.releases {
            // If no node accepts the release, the lock is free when the TTL expires.
            drop(release.send().await);
        }
    }
}

/// The call that releases one hold and no other.
#[derive(Debug)]
struct ReleaseCall {
    nodes: NodesArgs,
    /// The path and query of a `DELETE`.
    target: String,
}

impl ReleaseCall {
    fn new(addr: Vec<String>, target: String, credentials: &CredentialArgs) -> Self {
        Self { nodes: NodesArgs { addr, credentials: credentials.clone() }, target }
    }

    async fn send(&self) -> Result<(), CommandFailure> {
        let call = Call::new(Method::DELETE, self.target.clone());
        let client = self.nodes.client()?;
        let sent = tokio::time::timeout(RELEASE_TIMEOUT, client.call_raw(&call)).await;
        sent.map_err(CommandFailure::failed)?.map(drop).map_err(CommandFailure::from)
    }
}

/// Moves the watchdog out of the process group of `run`, which a shell signals as a whole, e.g. for `kill %1`.
fn leave_group() {
    let own = Pid::from_raw(0);
    // An orphaned group stays orphaned only if the parent of the command leaves the session, too: otherwise ^Z would stop
    // a group that no shell continues. Below a shell with job control the watchdog stays in the session, so that a
    // command in a group of its own, e.g. `timeout`, is not orphaned: it could neither stop nor wait for the terminal.
    let _leads_no_group = if is_orphaned_group() { setsid().map(drop) } else { setpgid(own, own) };
}

async fn reached_if_any(moment: Option<Moment>) {
    match moment {
        Some(moment) => reached(moment).await,
        None => std::future::pending().await,
    }
}

/// Resolves at a moment of the shared clock, even if the timers of the runtime stop.
pub(super) async fn reached(moment: Moment) {
    loop {
        let left = moment.left(Moment::now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(CLOCK_CHECK)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The watchdog reads both orders in one piece, and the kill can come between them.
    #[test]
    fn a_command_is_not_started_after_the_end_of_its_lease() {
        let (reports, there) = pipe2(OFlag::O_CLOEXEC).unwrap();
        let args = WatchdogArgs::parse_from(["holdfast", "0", "1", "--", "true"]);
        let mut watchdog = WatchdogProcess::new(args, File::from(there));
        let mut follow = |order: &WatchdogOrder| {
            watchdog.follow(&String::from_utf8(line(order)).unwrap());
            watchdog.kill_at = None;
        };
        follow(&WatchdogOrder::Until { ms: 1 });
        follow(&WatchdogOrder::Start { environment: CommandEnvironment::default(), grace_ms: 0 });
        assert!(!watchdog.was_started && watchdog.lease_end == Some(from_ms(1)));
        drop(watchdog);
        let reported = std::io::read_to_string(File::from(reports)).unwrap();
        assert_eq!(parse::<WatchdogReport>(reported.trim_end()), Some(WatchdogReport::TooLate));
    }
}
