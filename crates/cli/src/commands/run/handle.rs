//! The watchdog process, from the side of `holdfast run`: its start, its orders and reports, and the end of everything
//! below it.
//!
//! Bound: `run` waits for the watchdog to read only while the command is not started yet.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use holdfast_client::Moment;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid, getpgrp, pipe2};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::CommandArgs;
use super::processes::{
    ProcessInfo, is_stopped, kill_listed, live_descendants, names, parent, terminate,
    without_nested,
};
use super::protocol::{
    CommandEnvironment, WatchdogOrder, WatchdogReport, from_ms, line, parse, to_ms,
};
use super::watchdog::{KILL_TIMEOUT, OWN_PROGRAM, SCAN_INTERVAL, WATCHDOG};
use crate::exit::CommandFailure;

/// The time limit for the start of the watchdog, and for the start of the command.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The time without a live process after which a watchdog that reports nothing counts as stopped.
const REPORT_TIMEOUT: Duration = Duration::from_millis(200);

/// The watchdog process and the command below it.
#[derive(Debug)]
pub(super) struct CommandWatchdog {
    watchdog: Pid,
    /// The descendants of this process before the start: a shell may have started them, and then become this program.
    earlier: Vec<ProcessInfo>,
    orders: Option<pipe::Sender>,
    reports: Lines<BufReader<pipe::Receiver>>,
    is_dead: bool,
    writer: Option<(watch::Sender<Option<Moment>>, JoinHandle<()>)>,
    command: Option<Pid>,
}

/// The end of all descendants.
#[derive(Debug)]
pub(super) struct KillOutcome {
    /// No descendant was alive from this time on.
    pub(super) at: Moment,
    /// The processes that SIGKILL did not end, for messages; empty if all are dead.
    pub(super) survivors: String,
    /// The status of the command, if the watchdog reported it.
    pub(super) status: Option<i32>,
}

impl CommandWatchdog {
    /// Starts the watchdog, and waits until it can neither be ended by a signal nor lose an orphan.
    pub(super) async fn start(args: &CommandArgs) -> Result<Self, CommandFailure> {
        let failed = |error: &dyn std::fmt::Display| {
            CommandFailure::failed(format!("cannot start the watchdog of the command: {error}"))
        };
        let mut watchdog = Self::spawn(args).map_err(|error| failed(&error))?;
        match tokio::time::timeout(START_TIMEOUT, watchdog.next()).await {
            Ok(Some(WatchdogReport::Ready)) => Ok(watchdog),
            Ok(_) => Err(failed(&"it ended before it was ready")),
            Err(_late) => Err(failed(&not_in_time("it was not ready"))),
        }
    }

    fn spawn(args: &CommandArgs) -> std::io::Result<Self> {
        // Without the watchdog, this process adopts the orphans.
        set_child_subreaper(true)?;
        let earlier = live_descendants(Pid::this(), &[]);
        let (orders_there, orders) = pipe2(OFlag::O_CLOEXEC)?;
        let (reports, reports_there) = pipe2(OFlag::O_CLOEXEC)?;
        let inherit = |end: &OwnedFd| fcntl(end, FcntlArg::F_SETFD(FdFlag::empty()));
        inherit(&orders_there)?;
        inherit(&reports_there)?;
        let mut command = Command::new(OWN_PROGRAM);
        command.arg0("holdfast").arg(WATCHDOG);
        command
            .args([orders_there.as_raw_fd(), reports_there.as_raw_fd()].map(|end| end.to_string()));
        command.arg("--").args(&args.command);
        let child = command.envs(args.nodes.credentials.variables()).spawn()?;
        Ok(Self {
            watchdog: Pid::from_raw(i32::try_from(child.id()).unwrap_or(0)),
            earlier,
            orders: Some(pipe::Sender::from_owned_fd(orders)?),
            reports: BufReader::new(pipe::Receiver::from_owned_fd(reports)?).lines(),
            is_dead: false,
            writer: None,
            command: None,
        })
    }

    /// Starts the command. `kill_at` is the first kill time, and `None` for a command that may outlive its lock. Returns
    /// `false` if the watchdog got the order after the kill time, so that it started nothing.
    pub(super) async fn start_command(
        &mut self,
        orders: Vec<WatchdogOrder>,
        environment: CommandEnvironment,
        grace: Duration,
        kill_at: Option<Moment>,
    ) -> Result<bool, CommandFailure> {
        let failed = |error: &dyn std::fmt::Display| {
            CommandFailure::failed(format!("the watchdog cannot start the command: {error}"))
        };
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let until = kill_at.map(|moment| WatchdogOrder::Until { ms: to_ms(moment) });
        let start = WatchdogOrder::Start { environment, grace_ms };
        let text: Vec<u8> = orders.iter().chain(&until).chain([&start]).flat_map(line).collect();
        let mut pipe = self.orders.take().ok_or_else(|| failed(&"it is already started"))?;
        let started = async {
            pipe.write_all(&text).await.ok()?;
            self.next().await
        };
        let started = tokio::time::timeout(START_TIMEOUT, started).await;
        let (sender, moments) = watch::channel(None);
        self.writer = Some((sender, tokio::spawn(write_moments(pipe, moments))));
        match started {
            Ok(Some(WatchdogReport::Started { id })) => {
                self.command = Some(Pid::from_raw(id));
                Ok(true)
            }
            Ok(Some(WatchdogReport::TooLate)) => Ok(false),
            Ok(Some(WatchdogReport::NotStarted { errno })) => Err(failed(&Errno::from_raw(errno))),
            Ok(_) => Err(failed(&"it was killed")),
            Err(_late) => Err(failed(&not_in_time("it did not answer"))),
        }
    }

    /// Moves the kill time. Does not block: a stopped watchdog does not read.
    pub(super) fn kill_at(&self, moment: Moment) {
        self.writer.as_ref().map(|(sender, _)| sender.send_replace(Some(moment)));
    }

    /// Resolves with the next report, and with `None` if the watchdog has ended.
    pub(super) async fn next(&mut self) -> Option<WatchdogReport> {
        while let Ok(Some(line)) = self.reports.next_line().await {
            if let Some(report) = parse(&line) {
                return Some(report);
            }
        }
        self.is_dead = true;
        None
    }

    /// The command. `None` if another process has its number. The watchdog may have reaped the command long ago, if this
    /// process was stopped and has not read the report.
    fn command(&self) -> Option<Pid> {
        let is_parent = |parent| parent == self.watchdog || parent == Pid::this();
        self.command.filter(|command| parent(*command).is_none_or(is_parent))
    }

    /// The process group of the command, if it is not the group of this process.
    pub(super) fn own_group(&self) -> Option<Pid> {
        let group = getpgid(Some(self.command()?)).ok()?;
        (group != getpgrp()).then_some(group)
    }

    /// Sends a signal to the command alone.
    pub(super) fn signal_command(&self, signal: Signal) {
        if let Some(command) = self.command() {
            let _ended = kill(command, signal);
        }
    }

    /// Sends a signal to the command and to its descendants in the same process group. A command that leads its own
    /// group, e.g. `timeout`, passes signals on itself.
    pub(super) fn signal_group(&self, signal: Signal) {
        if self.own_group().is_none() {
            let group = getpgrp().as_raw();
            let command = self.command.map_or(0, Pid::as_raw);
            let others = without_nested(self.live());
            for process in others.iter().filter(|other| other.group == group && other.id != command)
            {
                let _ended = process.signal(signal);
            }
        }
        self.signal_command(signal);
    }

    /// Sends SIGTERM to all descendants, and returns them.
    pub(super) fn terminate_all(&self) -> Vec<ProcessInfo> {
        let all = without_nested(self.live());
        terminate(&all, self.command());
        all
    }

    /// The live processes of the command. The watchdog adopts their orphans. While it lives, other children of this process
    /// are foreign, e.g. orphans of a process that a shell started before it became this program.
    fn live(&self) -> Vec<ProcessInfo> {
        if self.has_ended() {
            live_descendants(Pid::this(), &self.earlier)
        } else {
            live_descendants(self.watchdog, &[])
        }
    }

    /// Kills the watchdog and all descendants, after a start that failed: the watchdog may have started the command
    /// although it reported nothing.
    pub(super) async fn abandon(&mut self) -> KillOutcome {
        self.kill_watchdog();
        self.kill_all().await
    }

    /// Kills all descendants, and returns after the proof of their end or after [`KILL_TIMEOUT`]. The proof is that the
    /// watchdog has no child left, or, if the watchdog is dead or stopped, that this process has none.
    pub(super) async fn kill_all(&mut self) -> KillOutcome {
        let give_up = Moment::now().plus(KILL_TIMEOUT);
        let (mut status, mut none_since) = (None, None);
        loop {
            self.kill_listed();
            let live = self.live();
            for process in &live {
                let _of_another_user = process.signal(Signal::SIGKILL);
            }
            let now = Moment::now();
            let since = *none_since.get_or_insert(now);
            if !live.is_empty() {
                none_since = None;
            } else if self.is_dead && self.has_no_child() {
                return KillOutcome { at: since, survivors: String::new(), status };
            } else if since.plus(REPORT_TIMEOUT) < now && is_stopped(self.watchdog) {
                self.kill_watchdog();
            }
            match tokio::time::timeout(SCAN_INTERVAL, self.next()).await {
                Ok(Some(
                    WatchdogReport::Ended { status: ended }
                    | WatchdogReport::NotExecuted { status: ended },
                )) => {
                    status = Some(ended);
                    self.command = None;
                }
                Ok(Some(WatchdogReport::Gone { ms })) => {
                    return KillOutcome { at: from_ms(ms), survivors: String::new(), status };
                }
                Ok(None) => tokio::time::sleep(SCAN_INTERVAL).await,
                Ok(Some(_)) | Err(_) => {}
            }
            // For a `/proc` that shows no process. After the reports: the command may be dead, and its number in use.
            self.signal_command(Signal::SIGKILL);
            if Moment::now() >= give_up {
                let unseen = "a process that no list of processes shows".to_owned();
                let survivors = if live.is_empty() { unseen } else { names(&live) };
                return KillOutcome { at: now, survivors, status };
            }
        }
    }

    /// Kills the processes that the kernel lists below the watchdog, or below this process after the watchdog's death.
    fn kill_listed(&self) {
        if !self.has_ended() {
            kill_listed(self.watchdog);
        } else if self.earlier.is_empty() {
            kill_listed(Pid::this());
        }
    }

    /// Reaps the orphans that this process adopted after the watchdog's death. Returns `true` if no child is left. A list
    /// of processes is no proof: a process that forks faster than the list is read is never in it. With children from
    /// before the start, the list must do.
    fn has_no_child(&self) -> bool {
        if !self.earlier.is_empty() {
            return true;
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return false,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn kill_watchdog(&self) {
        if !self.has_ended() {
            let _ended = kill(self.watchdog, Signal::SIGKILL);
        }
    }

    /// Whether the watchdog has ended. Then its number may already belong to another process.
    pub(super) fn has_ended(&self) -> bool {
        self.is_dead
            || waitpid(self.watchdog, Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive)
    }

    /// Records the end of the command, so that no signal reaches another process with its number.
    pub(super) fn command_ended(&mut self) {
        self.command = None;
    }
}

/// The pipe of the orders stays open until the watchdog is dead, so it does not treat this process as killed.
impl Drop for CommandWatchdog {
    fn drop(&mut self) {
        self.kill_watchdog();
        if let Some((_, writer)) = &self.writer {
            writer.abort();
        }
    }
}

fn not_in_time(what: &str) -> String {
    let limit = START_TIMEOUT.as_secs();
    format!("{what} within {limit}s: the machine is overloaded or out of memory")
}

/// Writes the latest kill time, at the rate at which the watchdog reads.
async fn write_moments(mut pipe: pipe::Sender, mut moments: watch::Receiver<Option<Moment>>) {
    while moments.changed().await.is_ok() {
        let moment = *moments.borrow_and_update();
        let Some(moment) = moment else { continue };
        // If the watchdog has ended, `run` still guards the lock.
        if pipe.write_all(&line(&WatchdogOrder::Until { ms: to_ms(moment) })).await.is_err() {
            return;
        }
    }
}
