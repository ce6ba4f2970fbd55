//! The life of the command under `holdfast run`: its environment, its process group, its signals and its end.

use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::election_of;
use holdfast_client::{Hold, Moment, MultiGuard};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};

use super::RunArgs;
use super::orphan::release_line;
use super::stderr::StderrQueue;
use super::timeline::{KillStep, KillTimeline};
use super::watchdog::{CommandWatchdog, reached};
use crate::commands::acquire::loss;
use crate::commands::child;
use crate::commands::lock::token_lines;
use crate::commands::release_requests::ReleaseRequests;
use crate::exit::CommandFailure;
use crate::signals::StopSignals;

/// How the command ended.
pub(super) enum CommandEnd {
    /// The command exited by itself, or after a signal of another process.
    Exited(ExitStatus),
    /// This process killed the command because of a loss.
    Killed(KilledCommand),
}

/// A command that this process killed because its lock was lost or about to be lost.
#[derive(Debug)]
pub(super) struct KilledCommand {
    loss: String,
    /// The time at which this process detected the loss.
    detected: SystemTime,
    /// The time from `detected` to the death of the command.
    took: Duration,
    /// Whether the lock was certainly still held when the command died.
    in_time: bool,
}

impl std::fmt::Display for KilledCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { loss, detected, took, in_time } = self;
        if *in_time {
            return write!(f, "{loss}; the command was stopped before anyone else could hold it");
        }
        let (at, ms) = (httpdate::fmt_http_date(*detected), took.as_millis());
        write!(
            f,
            "{loss}; holdfast run detected it at {at} and killed the command within {ms}ms. \
             Another holder may have entered before the command was dead"
        )
    }
}

/// Runs the command, and kills it before the deadline of the lock. `grace` is the time from SIGTERM to SIGKILL.
pub(super) async fn supervise(
    guard: &MultiGuard,
    args: &RunArgs,
    grace: Option<Duration>,
    forwarded: &mut ForwardedSignals<'_>,
    stderr: &StderrQueue,
) -> Result<CommandEnd, CommandFailure> {
    let timeline = KillTimeline::new(grace, guard.remaining());
    let names = args.acquire.names();
    let Some(mut deadline) = guard.deadline_moment() else {
        let loss = loss(guard);
        return Err(CommandFailure::Lost(format!(
            "{names} is lost: {loss}; the command was not started"
        )));
    };
    let mut watchdog = start_watchdog(guard, args, timeline.watchdog_at(deadline)).await?;
    let mut child = match spawn(args, guard, watchdog.group().as_raw()) {
        Ok(child) => child,
        Err(stop) => {
            watchdog.kill_watchdog().await;
            return Err(stop);
        }
    };
    let (mut terminated, mut alone) = (false, false);
    let mut requests = ReleaseRequests::of(guard);
    loop {
        let wake = match timeline.step(deadline, terminated, Moment::now()) {
            KillStep::Kill => return Ok(kill(watchdog, Some(child), guard).await),
            KillStep::Terminate => {
                watchdog.signal(Signal::SIGTERM);
                let loss = loss(guard);
                stderr.print(format!("holdfast: {names} is about to be lost ({loss}): SIGTERM"));
                terminated = true;
                continue;
            }
            KillStep::Wait(wake) => wake,
        };
        tokio::select! {
            status = child.wait() => {
                let status = status.map_err(CommandFailure::failed)?;
                let late = timeline.step(deadline, terminated, Moment::now()) == KillStep::Kill;
                if terminated || late {
                    // This process or the watchdog ended the command. The command's group must also end before the
                    // lock.
                    return Ok(kill(watchdog, None, guard).await);
                }
                watchdog.kill_watchdog().await;
                return Ok(CommandEnd::Exited(status));
            }
            signal = forwarded.next() => watchdog.signal(signal),
            () = watchdog.ended(), if !alone => {
                stderr.print("holdfast: the watchdog of the command was killed: only this process guards the lock now".to_owned());
                alone = true;
            }
            // After SIGTERM a renewal does not extend the time of the command.
            moved = guard.deadline_after(deadline), if !terminated => match moved {
                Ok(moved) => {
                    deadline = moved;
                    watchdog.kill_at(timeline.watchdog_at(deadline));
                }
                Err(_loss) => return Ok(kill(watchdog, Some(child), guard).await),
            },
            _lost = guard.lost(), if terminated => return Ok(kill(watchdog, Some(child), guard).await),
            request = requests.next() => {
                if let Some(signal) = report(request, args, stderr) {
                    watchdog.signal(signal);
                }
            }
            () = reached(wake) => {}
        }
    }
}

/// Runs the command to its end, even if the lock is lost.
pub(super) async fn supervise_without_kill(
    guard: &MultiGuard,
    args: &RunArgs,
    forwarded: &mut ForwardedSignals<'_>,
    stderr: &StderrQueue,
) -> Result<CommandEnd, CommandFailure> {
    let mut child = spawn(args, guard, 0)?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let send = |signal| {
        let _ended = group.map(|group| nix::sys::signal::killpg(group, signal));
    };
    let (mut is_lost, mut requests) = (false, ReleaseRequests::of(guard));
    loop {
        tokio::select! {
            status = child.wait() => return status.map(CommandEnd::Exited).map_err(CommandFailure::failed),
            signal = forwarded.next() => send(signal),
            request = requests.next(), if !is_lost => {
                if let Some(signal) = report(request, args, stderr) {
                    send(signal);
                }
            }
            (lock, loss) = guard.lost(), if !is_lost => {
                stderr.print(format!(
                    "holdfast: {lock} is lost ({loss}), and the command continues without it (--on-loss ignore)"
                ));
                is_lost = true;
            }
        }
    }
}

async fn start_watchdog(
    guard: &MultiGuard,
    args: &RunArgs,
    kill_at: Moment,
) -> Result<CommandWatchdog, CommandFailure> {
    let addresses = &args.command.nodes.addr;
    let line =
        |hold: &Hold| release_line(addresses, &hold.release_target(), hold.session().as_str());
    let releases: Vec<String> = guard.holds().map(line).collect();
    CommandWatchdog::start(kill_at, &releases, &args.command.nodes.credentials).await.map_err(
        |error| {
            CommandFailure::failed(format!("cannot start the watchdog of the command: {error}"))
        },
    )
}

/// Prints a release request. Returns the signal for the command, if any.
fn report(request: String, args: &RunArgs, stderr: &StderrQueue) -> Option<Signal> {
    let signal = args.command.on_release_request.0;
    let sent = signal.map(|signal| format!(": {signal}")).unwrap_or_default();
    stderr.print(request + &sent);
    signal
}

/// Kills the command with its group, and waits for its death.
async fn kill(watchdog: CommandWatchdog, child: Option<Child>, guard: &MultiGuard) -> CommandEnd {
    let (loss, detected, start) = (loss(guard).to_string(), SystemTime::now(), Instant::now());
    watchdog.kill().await;
    if let Some(mut child) = child {
        drop(child.wait().await);
    }
    let (took, in_time) = (start.elapsed(), guard.is_held());
    CommandEnd::Killed(KilledCommand { loss, detected, took, in_time })
}

fn spawn(args: &RunArgs, guard: &MultiGuard, group: i32) -> Result<Child, CommandFailure> {
    child::spawn(&args.command.command, |command| {
        command.process_group(group);
        set_environment(command, args, guard);
    })
}

fn set_environment(command: &mut Command, args: &RunArgs, guard: &MultiGuard) {
    for name in ["LOCK", "TOKEN", "TOKENS", "DEADLINE", "SLOTS", "SHARD", "ELECTION"] {
        command.env_remove(format!("HOLDFAST_{name}"));
    }
    command.env("HOLDFAST_ADDR", args.command.nodes.addr.join(","));
    command.envs(args.command.nodes.credentials.variables());
    let is_multi_lock = guard.holds().count() > 1;
    if is_multi_lock {
        command.env("HOLDFAST_TOKENS", token_lines(guard).join("\n"));
    }
    for hold in guard.holds() {
        command.env("HOLDFAST_SESSION", hold.session().as_str());
        if !is_multi_lock {
            command.env("HOLDFAST_LOCK", hold.lock().as_str());
            command.env("HOLDFAST_TOKEN", hold.token().to_string());
        }
        let slots: Vec<String> = hold.grant().slots.iter().map(u32::to_string).collect();
        if !slots.is_empty() {
            command.env("HOLDFAST_SLOTS", slots.join(","));
        }
        if let Some(shard) = hold.shard() {
            command.env("HOLDFAST_SHARD", shard.to_string());
        }
        if let Some(election) = election_of(hold.lock()) {
            command.env("HOLDFAST_ELECTION", election.as_str());
        }
    }
    if let Some(max) = args.acquire.max_hold {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        command.env("HOLDFAST_DEADLINE", now.saturating_add(max).as_secs().to_string());
    }
}

/// The signals that are forwarded to the command's group.
pub(super) struct ForwardedSignals<'s> {
    stop: &'s mut StopSignals,
    quit: unix::Signal,
    /// Whether this process received one of the signals.
    pub(super) received: bool,
}

impl<'s> ForwardedSignals<'s> {
    pub(super) fn install(stop: &'s mut StopSignals) -> std::io::Result<Self> {
        Ok(Self { stop, quit: signal(SignalKind::quit())?, received: false })
    }

    async fn next(&mut self) -> Signal {
        let signal = tokio::select! {
            signal = self.stop.next() => signal,
            _ = self.quit.recv() => Signal::SIGQUIT,
        };
        self.received = true;
        signal
    }
}
