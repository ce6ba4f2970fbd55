//! `holdfast run`: runs a command while a lock is held, and stops it before the lock can be lost.
//!
//! Owns the command's life: its environment, its process group, the signals it is passed, its end. The command is
//! never left running without the lock: this process counts down to the kill, and so does the leash beside it.
//! Stdin, stdout and stderr are the command's; progress goes to stderr before it starts.

mod leash;
mod orphan;
mod stderr;
mod timeline;

use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::election_of;
use holdfast_client::{Client, Hold, Moment, ReleaseRequest};
use nix::sys::signal::Signal;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

pub(super) use leash::run as leash;

use self::leash::{Leash, reached};
use self::orphan::release_line;
use self::stderr::Stderr;
use self::timeline::{Due, Timeline};
use super::held::{Held, Requests, name_of, take_all};
use super::taking::client_for;
use crate::cli::{Format, OnLoss, RunArgs, Target};
use crate::exit::Stop;
use crate::output::complain;
use crate::serve::Signals;

/// How long giving back a lock that is as good as lost may hold up the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Of a signal that ended the command, added to its number, as shells do.
const SIGNALLED: i32 = 128;

/// Between two rounds, so that others come first and a command that fails at once is not started a thousand times.
const REST: Duration = Duration::from_secs(1);
/// The exit codes of a command that could not be started.
const NOT_STARTED: [u8; 2] = [126, 127];

pub(super) async fn run(args: RunArgs) -> Result<(), Stop> {
    let mut signals = Signals::install().map_err(Stop::failed)?;
    let (end, _) = once(&args, &mut signals).await;
    end
}

/// Takes the lock and runs the command again whenever it has ended or the lock was lost, until a signal ends it, the
/// command cannot be started, or the lock was never had.
pub(super) async fn for_ever(args: &RunArgs) -> Result<(), Stop> {
    let mut signals = Signals::install().map_err(Stop::failed)?;
    let mut held_before = false;
    loop {
        let (end, round) = once(args, &mut signals).await;
        held_before |= round != Round::NotHeld;
        match &end {
            Err(Stop::Code(code, _)) if NOT_STARTED.contains(code) => return end,
            _ if round == Round::Signalled || !held_before => return end,
            Err(stop) if !stop.is_silent() => complain(&format!("holdfast: {stop}")),
            Ok(()) | Err(_) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(REST) => {}
            _ = signals.next() => return end,
        }
    }
}

/// What became of one round, beside its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    NotHeld,
    Held,
    /// Somebody wants the whole program to end.
    Signalled,
}

/// Takes the lock, runs the command, gives the lock back.
async fn once(args: &RunArgs, signals: &mut Signals) -> (Result<(), Stop>, Round) {
    let target = Target { addr: args.addr.clone(), output: Format::Value };
    let client = match client_for(&args.take, &target) {
        Ok(client) => client,
        Err(stop) => return (Err(stop), Round::NotHeld),
    };
    let held = match take_all(&args.take, &target, &client, signals).await {
        Ok(held) => held,
        Err(Stop::NotAcquired(reason)) => {
            let reason = Some(reason).filter(|_| !args.take.quiet);
            return (Err(Stop::Code(args.busy_exit, reason)), Round::Signalled);
        }
        Err(stop) => return (Err(stop), Round::NotHeld),
    };
    let mut forwarded = match Forwarded::install(signals) {
        Ok(forwarded) => forwarded,
        Err(error) => return (Err(Stop::failed(error)), Round::Held),
    };
    let stderr = Stderr::start();
    let end = match args.on_loss {
        OnLoss::Ignore => unleashed(&held, args, &mut forwarded, &stderr).await,
        OnLoss::Term => leashed(&held, args, Some(args.grace), &mut forwarded, &stderr).await,
        OnLoss::Kill => leashed(&held, args, None, &mut forwarded, &stderr).await,
    };
    let round = if forwarded.stopped { Round::Signalled } else { Round::Held };
    let end = finish(args, held, &client.0, end).await;
    stderr.finish();
    (end, round)
}

/// Gives the lock back, and says how it ended.
async fn finish(
    args: &RunArgs,
    held: Held,
    client: &Client,
    end: Result<Ended, Stop>,
) -> Result<(), Stop> {
    let name = name_of(&args.take);
    let release = async { held.release().await.and(client.close().await) };
    match end {
        Ok(Ended::By(status)) => {
            if let Err(error) = release.await {
                complain(&format!(
                    "holdfast: {name} is not certainly released, it is free when its ttl has passed: {error}"
                ));
            }
            exit_code(status)
        }
        Ok(Ended::Killed(killed)) => {
            // The command is dead, so the lock may go; if it is gone already, so be it.
            drop(tokio::time::timeout(FAREWELL, release).await);
            Err(Stop::Lost(format!("{name} is lost: {killed}")))
        }
        Err(stop) => {
            drop(tokio::time::timeout(FAREWELL, release).await);
            Err(stop)
        }
    }
}

/// How the command ended.
enum Ended {
    /// By itself, or by somebody else.
    By(ExitStatus),
    /// By us, because of a loss.
    Killed(Killed),
}

/// A command that was killed because its lock was lost, or about to be.
#[derive(Debug)]
struct Killed {
    loss: String,
    /// When this process learned of it.
    learned: SystemTime,
    /// From then until the command was dead.
    took: Duration,
    /// The command was dead while the lock was certainly still held.
    in_time: bool,
}

impl std::fmt::Display for Killed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { loss, learned, took, in_time } = self;
        if *in_time {
            return write!(f, "{loss}; the command was stopped before anyone else could hold it");
        }
        let (at, ms) = (httpdate::fmt_http_date(*learned), took.as_millis());
        write!(
            f,
            "{loss}; holdfast run learned of it at {at} and killed the command within {ms}ms. \
             Another holder may have entered before the command was dead"
        )
    }
}

/// Runs the command with a leash.
async fn leashed(
    held: &Held,
    args: &RunArgs,
    grace: Option<Duration>,
    forwarded: &mut Forwarded<'_>,
    stderr: &Stderr,
) -> Result<Ended, Stop> {
    let timeline = Timeline::new(grace, held.remaining());
    let Some(mut deadline) = held.deadline_moment() else {
        let (name, loss) = (name_of(&args.take), held.reason());
        return Err(Stop::Lost(format!("{name} is lost: {loss}; the command was not started")));
    };
    let mut leash = start_leash(held, args, timeline.leash_at(deadline)).await?;
    let mut child = match spawn(args, held, leash.group().as_raw()) {
        Ok(child) => child,
        Err(stop) => {
            leash.done().await;
            return Err(stop);
        }
    };
    let (mut asked, mut alone, mut requests) = (false, false, Requests::default());
    loop {
        let wake = match timeline.due(deadline, asked, Moment::now()) {
            Due::Kill => return Ok(killed(leash, Some(child), held).await),
            Due::Terminate => {
                leash.signal(Signal::SIGTERM);
                let (name, loss) = (name_of(&args.take), held.reason());
                stderr.say(format!("holdfast: {name} is about to be lost ({loss}): SIGTERM"));
                asked = true;
                continue;
            }
            Due::Wait(wake) => wake,
        };
        tokio::select! {
            status = child.wait() => {
                let status = status.map_err(Stop::failed)?;
                let late = timeline.due(deadline, asked, Moment::now()) == Due::Kill;
                if asked || late {
                    // It was us, or the leash. What it left running in its group does not outlive the lock either.
                    return Ok(killed(leash, None, held).await);
                }
                leash.done().await;
                return Ok(Ended::By(status));
            }
            signal = forwarded.next() => leash.signal(signal),
            () = leash.ended(), if !alone => {
                stderr.say("holdfast: the leash of the command was killed: only this process guards the lock now".to_owned());
                alone = true;
            }
            // Once asked to end, the command gets no more time than it was told.
            moved = held.deadline_after(deadline), if !asked => match moved {
                Ok(moved) => {
                    deadline = moved;
                    leash.until(timeline.leash_at(deadline));
                }
                Err(_loss) => return Ok(killed(leash, Some(child), held).await),
            },
            _lost = held.lost(), if asked => return Ok(killed(leash, Some(child), held).await),
            request = held.release_requested(&requests) => {
                if let Some(signal) = report(request, &mut requests, args, stderr) {
                    leash.signal(signal);
                }
            }
            () = reached(wake) => {}
        }
    }
}

async fn start_leash(held: &Held, args: &RunArgs, kill_at: Moment) -> Result<Leash, Stop> {
    let line =
        |hold: &Hold| release_line(&args.addr, &hold.release_target(), hold.session().as_str());
    let releases: Vec<String> = held.holds().into_iter().map(line).collect();
    Leash::start(kill_at, &releases)
        .await
        .map_err(|error| Stop::failed(format!("cannot start the leash of the command: {error}")))
}

/// Prints a release request. Returns the signal that reports it to the command, if one does.
fn report(
    request: (String, ReleaseRequest),
    requests: &mut Requests,
    args: &RunArgs,
    stderr: &Stderr,
) -> Option<Signal> {
    let signal = args.on_release_request.0;
    stderr.say(requests.learn(request, signal));
    signal
}

/// Kills the command with its group, and waits until it is gone, which it cannot refuse.
async fn killed(leash: Leash, child: Option<Child>, held: &Held) -> Ended {
    let (loss, learned, began) = (held.reason(), SystemTime::now(), Instant::now());
    leash.kill().await;
    if let Some(mut child) = child {
        drop(child.wait().await);
    }
    Ended::Killed(Killed { loss, learned, took: began.elapsed(), in_time: held.is_held() })
}

/// Runs the command whatever becomes of the lock.
async fn unleashed(
    held: &Held,
    args: &RunArgs,
    forwarded: &mut Forwarded<'_>,
    stderr: &Stderr,
) -> Result<Ended, Stop> {
    let mut child = spawn(args, held, 0)?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(nix::unistd::Pid::from_raw);
    let send = |signal| {
        let _gone = group.map(|group| nix::sys::signal::killpg(group, signal));
    };
    let (mut told, mut requests) = (false, Requests::default());
    loop {
        tokio::select! {
            status = child.wait() => return status.map(Ended::By).map_err(Stop::failed),
            signal = forwarded.next() => send(signal),
            request = held.release_requested(&requests), if !told => {
                if let Some(signal) = report(request, &mut requests, args, stderr) {
                    send(signal);
                }
            }
            (name, loss) = held.lost(), if !told => {
                stderr.say(format!(
                    "holdfast: {name} is lost ({loss}), and the command goes on without it (--on-loss ignore)"
                ));
                told = true;
            }
        }
    }
}

fn spawn(args: &RunArgs, held: &Held, group: i32) -> Result<Child, Stop> {
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(Stop::failed("no command: write it after --"));
    };
    let mut command = Command::new(program);
    command.args(arguments).process_group(group);
    for (name, value) in held.environment() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("HOLDFAST_ADDR", args.addr.join(","));
    for name in ["HOLDFAST_DEADLINE", "HOLDFAST_SLOTS", "HOLDFAST_SEGMENT", "HOLDFAST_ELECTION"] {
        command.env_remove(name);
    }
    for hold in held.holds() {
        command.env("HOLDFAST_SESSION", hold.session().as_str());
        let slots: Vec<String> = hold.grant().slots.iter().map(u32::to_string).collect();
        if !slots.is_empty() {
            command.env("HOLDFAST_SLOTS", slots.join(","));
        }
        if let Some(segment) = hold.segment() {
            command.env("HOLDFAST_SEGMENT", segment.to_string());
        }
        if let Some(election) = election_of(hold.lock()) {
            command.env("HOLDFAST_ELECTION", election.as_str());
        }
    }
    if let Some(max) = args.take.max_hold {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        command.env("HOLDFAST_DEADLINE", now.saturating_add(max).as_secs().to_string());
    }
    command.spawn().map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        Stop::Code(code, Some(format!("cannot run {}: {error}", program.to_string_lossy())))
    })
}

/// The command's exit code becomes ours.
pub(super) fn exit_code(status: ExitStatus) -> Result<(), Stop> {
    use std::os::unix::process::ExitStatusExt;
    let signalled = status.signal().map(|signal| SIGNALLED + signal);
    match status.code().or(signalled).unwrap_or(1) {
        0 => Ok(()),
        code => Err(Stop::Code(u8::try_from(code).unwrap_or(1), None)),
    }
}

/// Signals that are passed on to the command's group.
struct Forwarded<'s> {
    wishes: &'s mut Signals,
    hangup: Stream,
    quit: Stream,
    /// One of them was to end the program.
    stopped: bool,
}

impl<'s> Forwarded<'s> {
    fn install(wishes: &'s mut Signals) -> std::io::Result<Self> {
        let (hangup, quit) = (signal(SignalKind::hangup())?, signal(SignalKind::quit())?);
        Ok(Self { wishes, hangup, quit, stopped: false })
    }

    async fn next(&mut self) -> Signal {
        let signal = tokio::select! {
            name = self.wishes.next() => match name {
                "SIGINT" => Signal::SIGINT,
                _ => Signal::SIGTERM,
            },
            _ = self.hangup.recv() => Signal::SIGHUP,
            _ = self.quit.recv() => Signal::SIGQUIT,
        };
        self.stopped = true;
        signal
    }
}
