//! The leash: a small process that leads the command's process group and kills the group when the lease runs out,
//! even if `holdfast run` is stopped, starved or killed at that moment.
//!
//! Owns both of its ends. `holdfast run` writes lines to its stdin: `until MS`, the moment of the kill on a clock that
//! both processes share, and `done`. It never believes in more time than it was last told, and it needs no
//! network, no lock and no memory to do its one thing. It blocks every signal that can be blocked, because those sent to
//! its group are meant for the command. Bounds: one line at a time.

use std::process::Stdio;
use std::time::Duration;

use holdfast_client::Moment;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, getpgrp};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::exit::Stop;
use crate::output::print;

/// What it says once no signal but SIGKILL can end it.
const READY: &str = "ready";
/// If `holdfast run` is gone, the command is asked to end and has this time, or what is left of the lease.
const ORPHAN_GRACE: Duration = Duration::from_secs(5);

/// Our end: the process that leads the group.
#[derive(Debug)]
pub(super) struct Leash {
    child: Child,
    stdin: ChildStdin,
    group: Pid,
}

impl Leash {
    /// Starts it with the first moment of the kill, and waits until it cannot be ended by a signal that is meant for
    /// the command.
    pub(super) async fn start(kill_at: Moment) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("leash")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()?;
        let missing = || std::io::Error::other("the leash has no stdin or no id");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let mut leash = Self { child, stdin, group: Pid::from_raw(id) };
        leash.until(kill_at).await?;
        match BufReader::new(stdout).lines().next_line().await? {
            Some(line) if line == READY => Ok(leash),
            Some(_) | None => Err(std::io::Error::other("the leash ended before it was ready")),
        }
    }

    /// The group that it leads.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Moves the moment of the kill.
    pub(super) async fn until(&mut self, kill_at: Moment) -> std::io::Result<()> {
        let line = format!("until {}\n", kill_at.since_origin().as_millis());
        self.stdin.write_all(line.as_bytes()).await
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

    /// Nothing is left to guard.
    pub(super) async fn done(mut self) {
        // If it is gone already, all the better.
        drop(self.stdin.write_all(b"done\n").await);
        drop(self.stdin);
        drop(self.child.wait().await);
    }

    /// Kills the whole group, the leash included, and reaps it.
    pub(super) async fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        drop(self.child.wait().await);
    }
}

/// The other end: `holdfast leash`.
pub(in crate::commands) async fn run() -> Result<(), Stop> {
    SigSet::all().thread_block().map_err(Stop::failed)?;
    print(READY);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut kill_at = Moment::now().plus(ORPHAN_GRACE);
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = reached(kill_at) => return kill_group(),
        };
        match line.ok().flatten().as_deref().map(|line| line.split_once(' ').unwrap_or((line, "")))
        {
            Some(("done", _)) => return Ok(()),
            Some(("until", ms)) => kill_at = moment(ms).unwrap_or(kill_at),
            Some(_) => {}
            None => break,
        }
    }
    // Nobody renews any more: whatever the group was, it ends before the lease does.
    killpg(getpgrp(), Signal::SIGTERM).map_err(Stop::failed)?;
    reached(kill_at.min(Moment::now().plus(ORPHAN_GRACE))).await;
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
        tokio::time::sleep(left).await;
    }
}
