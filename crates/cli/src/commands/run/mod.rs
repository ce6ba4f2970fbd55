//! `holdfast run`: runs a command while it holds a lock, and stops the command before the lock can be lost.
//!
//! The command never runs without the lock: this process and a separate watchdog both schedule the kill. stdin, stdout
//! and stderr belong to the command; progress goes to stderr before the command starts.

mod handle;
mod launcher;
mod processes;
mod protocol;
mod supervise;
mod timeline;
mod watchdog;

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use holdfast_client::MultiGuard;
use nix::sys::signal::Signal;

use self::handle::CommandWatchdog;
use self::supervise::{CommandEnd, Supervision};
use super::acquire::{AcquireArgs, Acquirer, lost_locks, unless_stopped};
use crate::arguments::{NodesArgs, duration};
use crate::exit::{CommandFailure, exit_code};
use crate::output::{flush_stderr, write_stderr};
use crate::signals::JobSignals;

pub(crate) use launcher::{LAUNCHER, launch};
pub(crate) use watchdog::{WATCHDOG, WatchdogArgs, watchdog};

/// The time limit for releasing a lock whose command could not start: a `min_hold` that stays keeps all other callers out.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two rounds of `--forever`: other candidates get the lock first, and a failing command does not
/// spin.
const PAUSE: Duration = Duration::from_secs(1);

const LOSS: &str = "When the lock is lost, or not acquired";

/// Run a command while holding one or several locks; stop it before a lock can be lost.
#[derive(Debug, Args)]
#[command(
    override_usage = "holdfast run [OPTIONS] <NAME> [NAME]... -- <COMMAND> [ARGS]...",
    after_help = "Exit codes: the command's own (128 + n if signal n ended it), 75 if the lock was not acquired, 76 if \
                  it was lost and the command was killed, 77 if the acquire would close a deadlock cycle, 126 or 127 if the \
                  command could not be started. --busy-exit and --lost-exit replace 75 and 76. If a signal ends the wait for \
                  the lock, or SIGINT ends the command, holdfast run ends by that signal.\n\
                  The command gets HOLDFAST_LOCK, HOLDFAST_TOKEN, HOLDFAST_MIN_VALID_TOKEN (the floor), HOLDFAST_SESSION and \
                  HOLDFAST_ADDR; with --max-hold HOLDFAST_DEADLINE, with --permits HOLDFAST_SLOTS, with --shards HOLDFAST_SHARD. \
                  With several locks it gets HOLDFAST_TOKENS, a line NAME TOKEN for each, instead of HOLDFAST_LOCK and \
                  HOLDFAST_TOKEN, and HOLDFAST_MIN_VALID_TOKENS."
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) acquire: AcquireArgs,
    #[command(flatten)]
    pub(super) command: CommandArgs,
}

/// The command, and the rules for its end.
#[derive(Debug, Args)]
pub(super) struct CommandArgs {
    /// The exit code if the lock was not acquired.
    #[arg(help_heading = LOSS, long, value_name = "CODE", default_value_t = 75)]
    busy_exit: u8,
    /// The exit code if the lock was lost and the command was killed.
    #[arg(help_heading = LOSS, long, value_name = "CODE", default_value_t = 76)]
    lost_exit: u8,
    /// What to do with the command when the lock is about to be lost.
    #[arg(help_heading = LOSS, long, value_enum, default_value_t = OnLoss::Term)]
    pub(super) on_loss: OnLoss,
    /// The time from a signal that requests the end to SIGKILL. Before a loss it is at most a third of the ttl.
    #[arg(help_heading = LOSS, long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(super) grace: Duration,
    /// The signal for the command when a caller asks for the release of the lock (holdfast unlock --ask): TERM, USR1, none.
    #[arg(help_heading = LOSS, long, value_name = "SIGNAL", default_value = "none", value_parser = on_release_request)]
    pub(super) on_release_request: OnReleaseRequest,
    /// Let processes that the command left running continue without the lock. By default they get --grace to end, then
    /// SIGTERM, then SIGKILL, and the lock is held until the last one has ended.
    #[arg(help_heading = LOSS, long)]
    pub(super) leave_running: bool,
    #[command(flatten)]
    pub(super) nodes: NodesArgs,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

/// What to do with the command when the lock is about to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OnLoss {
    /// Send SIGTERM, and SIGKILL before another session can hold the lock.
    Term,
    /// Send SIGKILL before another session can hold the lock.
    Kill,
    /// Let it run: only the fencing token protects its writes.
    Ignore,
}

/// The signal that reports a release request to the command, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OnReleaseRequest(pub(super) Option<Signal>);

fn on_release_request(text: &str) -> Result<OnReleaseRequest, String> {
    let name = text.to_ascii_uppercase();
    if name == "NONE" {
        return Ok(OnReleaseRequest(None));
    }
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let signal = format!("SIG{name}").parse();
    signal
        .map(|signal| OnReleaseRequest(Some(signal)))
        .map_err(|_| format!("{text:?} is not a signal: write one, like TERM or USR1, or none"))
}

pub(crate) async fn run(args: RunArgs) -> Result<(), CommandFailure> {
    let mut signals = JobSignals::install()?;
    let (end, _) = run_once(&args, &mut signals).await;
    end
}

/// Applies `--lost-exit`.
fn with_lost_exit(args: &RunArgs, end: Result<(), CommandFailure>) -> Result<(), CommandFailure> {
    if let Err(CommandFailure::Lost(reason)) = end {
        return Err(CommandFailure::Code(args.command.lost_exit, Some(reason)));
    }
    end
}

/// Acquires the lock and runs the command again after each end, loss or outage. Returns after the last round, or if no
/// node has accepted this candidate.
pub(super) async fn run_forever(args: &RunArgs) -> Result<(), CommandFailure> {
    let mut signals = JobSignals::install()?;
    let (mut accepted_before, mut rejected) = (false, false);
    loop {
        let (end, round) = run_once(args, &mut signals).await;
        accepted_before |= round != RunRound::NotAccepted;
        match &end {
            _ if round == RunRound::Last || !accepted_before => return end,
            Err(CommandFailure::Unauthenticated(_)) if rejected => {}
            Err(stop) if !stop.is_silent() => write_stderr(&format!("holdfast: {stop}")),
            Ok(()) | Err(_) => {}
        }
        rejected = matches!(end, Err(CommandFailure::Unauthenticated(_)));
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            signal = signals.next_stop() => return Err(CommandFailure::Signalled(signal, None)),
        }
    }
}

/// The progress of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunRound {
    /// No node accepted the candidate or waiter.
    NotAccepted,
    /// It was in the queue, or held the lock.
    Accepted,
    /// `--forever` ends: a signal requested the end, the lock was busy, the command could not be executed, or its
    /// processes could not be killed.
    Last,
}

impl RunRound {
    fn of_grant(end: &CommandEnd) -> Self {
        match end {
            CommandEnd::Alive(_) | CommandEnd::NotExecuted(_) => Self::Last,
            // A second command must not start beside a process that may still write.
            CommandEnd::Killed(killed) if killed.has_survivors() => Self::Last,
            CommandEnd::Exited(_) | CommandEnd::Killed(_) | CommandEnd::NotStarted(_) => {
                Self::Accepted
            }
        }
    }
}

/// Acquires the lock, runs the command, releases the lock.
async fn run_once(
    args: &RunArgs,
    signals: &mut JobSignals,
) -> (Result<(), CommandFailure>, RunRound) {
    let waiting = &args.acquire.waiting;
    let acquirer = match Acquirer::new(waiting, &args.command.nodes) {
        Ok(acquirer) => acquirer,
        Err(stop) => return (Err(stop), RunRound::NotAccepted),
    };
    // Before the wait: an upgrade of the package, or a lack of memory at that time, must not fail a waiter.
    let watchdog = match CommandWatchdog::start(&args.command).await {
        Ok(watchdog) => watchdog,
        Err(stop) => return (Err(stop), RunRound::NotAccepted),
    };
    let guard = match acquirer.acquire(&args.acquire, signals.next_stop()).await {
        Ok(guard) => guard,
        Err(CommandFailure::NotAcquired(reason)) => {
            let reason = Some(reason).filter(|_| !waiting.quiet);
            return (Err(CommandFailure::Code(args.command.busy_exit, reason)), RunRound::Last);
        }
        Err(stop @ CommandFailure::Signalled(..)) => return (Err(stop), RunRound::Last),
        Err(stop) => return map_failed_acquire(args, &acquirer, stop),
    };
    let watchdog = Some(watchdog).filter(|watchdog| !watchdog.has_ended());
    let end = match Supervision::start(&guard, args, watchdog, signals).await {
        Ok(mut command) => command.run().await,
        Err(end) => end,
    };
    let round = RunRound::of_grant(&end);
    let end = finish(args, guard, &acquirer, end, signals).await;
    let round = if signals.stop_received() { RunRound::Last } else { round };
    flush_stderr();
    (with_lost_exit(args, end), round)
}

/// Maps the failure of an acquire. An outage, or an access token that has expired, ends the queue entry of a candidate
/// as it ends a hold, so `--forever` continues after both.
fn map_failed_acquire(
    args: &RunArgs,
    acquirer: &Acquirer<'_>,
    failure: CommandFailure,
) -> (Result<(), CommandFailure>, RunRound) {
    let is_temporary = matches!(
        failure,
        CommandFailure::Unauthenticated(_)
            | CommandFailure::NoAnswer { .. }
            | CommandFailure::Lost(_)
    );
    let is_accepted = is_temporary && acquirer.was_accepted();
    let round = if is_accepted { RunRound::Accepted } else { RunRound::NotAccepted };
    let CommandFailure::Lost(reason) = failure else { return (Err(failure), round) };
    let names = args.acquire.names();
    let reason = format!("{names} was not acquired: {reason}; the command did not run");
    (Err(CommandFailure::Code(args.command.busy_exit, Some(reason))), round)
}

/// Releases the lock and maps the end of the command to an exit code.
async fn finish(
    args: &RunArgs,
    guard: MultiGuard,
    acquirer: &Acquirer<'_>,
    end: CommandEnd,
    signals: &mut JobSignals,
) -> Result<(), CommandFailure> {
    let names = args.acquire.names();
    match end {
        CommandEnd::Exited(status) => {
            let is_reported = args.command.on_loss == OnLoss::Ignore && guard.ensure().is_err();
            let released = unless_stopped(acquirer.release(guard), signals).await;
            if !is_reported {
                warn_unless_released(&names, released);
            }
            exit_code(status)
        }
        CommandEnd::NotExecuted(status) => {
            let release = acquirer.release_unused(guard);
            warn_unless_released(&names, unless_stopped(release, signals).await);
            exit_code(status)
        }
        CommandEnd::Alive(processes) => {
            leave_held(guard);
            let free = "it is not released, and free when its session ends";
            Err(CommandFailure::failed(format!("{names}: {processes}; {free}")))
        }
        CommandEnd::Killed(killed) => {
            let lost = CommandFailure::Lost(format!("{}: {killed}", lost_locks(&guard)));
            // The release is safe only after the end of the command: some of several locks may not be lost.
            if killed.has_survivors() {
                leave_held(guard);
            } else {
                acquirer.release_lost(guard).await;
            }
            Err(lost)
        }
        CommandEnd::NotStarted(failure) => {
            drop(tokio::time::timeout(UNUSED_TIMEOUT, acquirer.release_unused(guard)).await);
            Err(failure)
        }
    }
}

/// Leaves locks to the end of their sessions, because a process may still write. A dropped guard would release them.
fn leave_held(guard: MultiGuard) {
    std::mem::forget(guard);
}

fn warn_unless_released(names: &str, released: Result<(), String>) {
    if let Err(reason) = released {
        write_stderr(&format!(
            "holdfast: {names} may not be released, it is free when its session ends: {reason}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_command::parse;

    #[test]
    fn the_command_is_everything_after_the_dashes() {
        let line = "run shop/nightly --try --max-hold 2h -- backup --wait 3";
        let RunArgs { acquire, command } = parse(line).unwrap();
        assert_eq!(acquire.name.as_str(), "shop/nightly");
        assert_eq!(command.command, ["backup", "--wait", "3"]);
        assert_eq!((acquire.waiting.try_once, acquire.waiting.wait), (true, None));
        assert_eq!(acquire.max_hold, Some(Duration::from_hours(2)));
        assert_eq!(command.grace, Duration::from_secs(5));
        assert_eq!((command.on_loss, command.busy_exit, command.lost_exit), (OnLoss::Term, 75, 76));
    }

    #[test]
    fn a_release_request_is_reported_by_the_named_signal() {
        let signal = |text: &str| {
            parse::<RunArgs>(&format!("run a --on-release-request {text} -- true"))
                .map(|args| args.command.on_release_request.0)
        };
        assert_eq!(signal("none"), Ok(None));
        for text in ["USR1", "usr1", "SIGUSR1"] {
            assert_eq!(signal(text), Ok(Some(Signal::SIGUSR1)));
        }
        assert!(signal("LOUD").unwrap_err().contains("TERM or USR1"));
        let default = parse::<RunArgs>("run a -- true").unwrap();
        assert_eq!(default.command.on_release_request.0, None);
    }

    #[test]
    fn the_usage_without_a_command_shows_the_dashes() {
        for line in ["run nightly", "run nightly backup"] {
            let error = parse::<RunArgs>(line).unwrap_err();
            assert!(error.contains("-- <COMMAND>"), "{error}");
        }
    }
}
