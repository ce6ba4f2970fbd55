//! The watchdog: a small process that leads the command's process group. It kills the group at the end of the lease,
//! even if `holdfast run` is stopped, starved or killed at that moment.
//!
//! `holdfast run` writes two kinds of lines to the stdin of the watchdog. `release` has the call that releases a lock
//! after the death of `run` and of the group. `until MS` is the kill time on a clock that both processes share. The
//! watchdog kills no later than the last `until`, and needs neither network nor locks for the kill. It blocks every
//! signal that a process can block, because signals to its group are for the command. Bound: `run` never waits for the
//! watchdog to read.

use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use holdfast_client::Moment;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::orphan::OrphanedGroup;
use crate::arguments::CredentialArgs;
use crate::exit::CommandFailure;
use crate::output::print;

/// The command that `holdfast run` starts beside the user's command. The name differs from every user command, so clap
/// never suggests it.
pub(crate) const WATCHDOG: &str = "__process-group";
/// The line that the watchdog prints when only SIGKILL can end it.
const READY: &str = "ready";
/// The interval of clock reads: timers stop while the machine is suspended, but deadlines do not.
const CLOCK_CHECK: Duration = Duration::from_millis(500);

/// Kill this process group at the time that stdin names.
#[derive(Debug, Args)]
pub(crate) struct WatchdogArgs {
    #[command(flatten)]
    credentials: CredentialArgs,
}

/// The watchdog process, from the side of `holdfast run`.
#[derive(Debug)]
pub(super) struct CommandWatchdog {
    child: Child,
    group: Pid,
    kill_at: watch::Sender<Moment>,
    writer: JoinHandle<()>,
}

impl CommandWatchdog {
    /// Starts the process with the first kill time, and waits until the process blocks all signals for the command.
    pub(super) async fn start(
        kill_at: Moment,
        releases: &[String],
        credentials: &CredentialArgs,
    ) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(WATCHDOG)
            .envs(credentials.variables())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()?;
        let missing = || std::io::Error::other("the watchdog has no stdin, stdout or process id");
        let mut stdin = child.stdin.take().ok_or_else(missing)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        for release in releases {
            stdin.write_all(format!("release {release}\n").as_bytes()).await?;
        }
        let (kill_at, moments) = watch::channel(kill_at);
        let writer = tokio::spawn(write_moments(stdin, moments));
        let watchdog = Self { child, group: Pid::from_raw(id), kill_at, writer };
        match BufReader::new(stdout).lines().next_line().await? {
            Some(line) if line == READY => Ok(watchdog),
            Some(_) | None => Err(std::io::Error::other("the watchdog ended before it was ready")),
        }
    }

    /// The process group that the watchdog leads.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Moves the kill time. Does not block: a stopped watchdog does not read its stdin.
    pub(super) fn kill_at(&self, moment: Moment) {
        self.kill_at.send_replace(moment);
    }

    /// Sends a signal to the group. The watchdog itself blocks all signals except SIGKILL.
    pub(super) fn signal(&self, signal: Signal) {
        // An error means that the group has ended.
        let _ended = killpg(self.group, signal);
    }

    /// Resolves if the process ends unexpectedly.
    pub(super) async fn ended(&mut self) {
        drop(self.child.wait().await);
    }

    /// Kills only the watchdog. Its stdin stays open until then, so the watchdog does not treat this process as dead.
    pub(super) async fn kill_watchdog(mut self) {
        drop(self.child.kill().await);
        self.writer.abort();
    }

    /// Kills the group including the watchdog, and reaps the watchdog.
    pub(super) async fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        drop(self.child.wait().await);
        self.writer.abort();
    }
}

/// Writes the latest kill time, at the rate at which the watchdog reads.
async fn write_moments(mut stdin: ChildStdin, mut moments: watch::Receiver<Moment>) {
    loop {
        let kill_at = *moments.borrow_and_update();
        let line = format!("until {}\n", kill_at.since_origin().as_millis());
        // If the watchdog has ended, `run` still guards the lock.
        if stdin.write_all(line.as_bytes()).await.is_err() || moments.changed().await.is_err() {
            return;
        }
    }
}

/// Runs the watchdog process.
pub(crate) async fn watchdog(args: WatchdogArgs) -> Result<(), CommandFailure> {
    SigSet::all().thread_block().map_err(CommandFailure::failed)?;
    print(READY);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut orphan = OrphanedGroup::default();
    let mut kill_at = Moment::now().plus(OrphanedGroup::GRACE);
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = reached(kill_at) => return kill_group(),
        };
        match line.ok().flatten().as_deref().map(|line| line.split_once(' ').unwrap_or((line, "")))
        {
            Some(("until", ms)) => kill_at = moment(ms).unwrap_or(kill_at),
            Some(("release", release)) => orphan.add(release, &args.credentials),
            Some(_) => {}
            None => break,
        }
    }
    // `run` has ended, so no process renews the lease: the group must end before the lease.
    tokio::select! {
        () = orphan.end(getpgrp()) => {}
        () = reached(kill_at) => {}
    }
    kill_group()
}

fn kill_group() -> Result<(), CommandFailure> {
    killpg(getpgrp(), Signal::SIGKILL).map_err(CommandFailure::failed)
}

fn moment(ms: &str) -> Option<Moment> {
    ms.parse().ok().map(|ms| Moment::from_origin(Duration::from_millis(ms)))
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
