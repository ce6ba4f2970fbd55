//! The leash: a small process that leads the command's process group and kills the group when the lease runs out,
//! even if `holdfast run` is stopped, starved or killed at that moment.
//!
//! Owns both of its ends. `holdfast run` writes lines to its stdin: `release` with what to call once the group is dead and
//! `run` is gone, and `until MS`, the moment of the kill on a clock that both processes share. The leash never believes in more
//! time than the last `until`, and needs no network and no lock to kill. It blocks every signal that can be blocked,
//! because those sent to its group are meant for the command. Bounds: one line at a time; `run` never waits for the leash
//! to read.

use std::process::Stdio;
use std::time::Duration;

use holdfast_client::Moment;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::orphan::Orphan;
use crate::cli::LEASH;
use crate::exit::Stop;
use crate::output::print;

/// What it says once no signal but SIGKILL can end it.
const READY: &str = "ready";
/// Timers stand still while the machine is suspended, and deadlines do not: the clock is looked at this often.
const CLOCK_CHECK: Duration = Duration::from_millis(500);

/// Our end: the process that leads the group.
#[derive(Debug)]
pub(super) struct Leash {
    child: Child,
    group: Pid,
    kill_at: watch::Sender<Moment>,
    writer: JoinHandle<()>,
}

impl Leash {
    /// Starts it with the first moment of the kill and the lines of what to release, and waits until it cannot be ended by a
    /// signal that is meant for the command.
    pub(super) async fn start(kill_at: Moment, releases: &[String]) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(LEASH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()?;
        let missing = || std::io::Error::other("the leash has no stdin or no id");
        let mut stdin = child.stdin.take().ok_or_else(missing)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        for release in releases {
            stdin.write_all(format!("release {release}\n").as_bytes()).await?;
        }
        let (kill_at, moments) = watch::channel(kill_at);
        let writer = tokio::spawn(write_moments(stdin, moments));
        let leash = Self { child, group: Pid::from_raw(id), kill_at, writer };
        match BufReader::new(stdout).lines().next_line().await? {
            Some(line) if line == READY => Ok(leash),
            Some(_) | None => Err(std::io::Error::other("the leash ended before it was ready")),
        }
    }

    /// The group that it leads.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Moves the moment of the kill. Does not wait: a leash that is stopped reads nothing.
    pub(super) fn until(&self, kill_at: Moment) {
        self.kill_at.send_replace(kill_at);
    }

    /// Sends a signal to the whole group. The leash itself blocks all but SIGKILL.
    pub(super) fn signal(&self, signal: Signal) {
        // Nothing to tell if the group is gone: that is what was wanted.
        let _gone = killpg(self.group, signal);
    }

    /// Resolves when it has ended, which it should not.
    pub(super) async fn ended(&mut self) {
        drop(self.child.wait().await);
    }

    /// Nothing is left to guard. It is killed while its stdin is open, so it does not take this process for dead.
    pub(super) async fn done(mut self) {
        drop(self.child.kill().await);
        self.writer.abort();
    }

    /// Kills the whole group, the leash included, and reaps it.
    pub(super) async fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        drop(self.child.wait().await);
        self.writer.abort();
    }
}

/// Writes the latest moment of the kill, and each later one, as fast as the leash reads them.
async fn write_moments(mut stdin: ChildStdin, mut moments: watch::Receiver<Moment>) {
    loop {
        let kill_at = *moments.borrow_and_update();
        let line = format!("until {}\n", kill_at.since_origin().as_millis());
        // If the leash is gone, `run` is still here.
        if stdin.write_all(line.as_bytes()).await.is_err() || moments.changed().await.is_err() {
            return;
        }
    }
}

/// The other end: `holdfast leash`.
pub(in crate::commands) async fn run() -> Result<(), Stop> {
    SigSet::all().thread_block().map_err(Stop::failed)?;
    print(READY);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut orphan = Orphan::default();
    let mut kill_at = Moment::now().plus(Orphan::GRACE);
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = reached(kill_at) => return kill_group(),
        };
        match line.ok().flatten().as_deref().map(|line| line.split_once(' ').unwrap_or((line, "")))
        {
            Some(("until", ms)) => kill_at = moment(ms).unwrap_or(kill_at),
            Some(("release", what)) => orphan.add(what),
            Some(_) => {}
            None => break,
        }
    }
    // Nobody renews any more: whatever the group was, it ends before the lease does.
    tokio::select! {
        () = orphan.end(getpgrp()) => {}
        () = reached(kill_at) => {}
    }
    kill_group()
}

fn kill_group() -> Result<(), Stop> {
    killpg(getpgrp(), Signal::SIGKILL).map_err(Stop::failed)
}

fn moment(ms: &str) -> Option<Moment> {
    ms.parse().ok().map(|ms| Moment::from_origin(Duration::from_millis(ms)))
}

/// Resolves at a moment of the shared clock, however late the runtime's own timers are.
pub(super) async fn reached(moment: Moment) {
    loop {
        let left = moment.left(Moment::now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(CLOCK_CHECK)).await;
    }
}
