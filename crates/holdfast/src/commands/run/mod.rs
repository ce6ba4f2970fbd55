//! `holdfast run`: runs a command while a lock is held, and stops it before the lock can be lost.
//!
//! Owns the command's life: its environment, its process group, the signals it is passed, its end. The command is
//! never left running without the lock: this process counts down to the kill, and so does the leash beside it.
//! Stdin, stdout and stderr are the command's; progress goes to stderr before it starts.

mod leash;
mod timeline;

use std::process::ExitStatus;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_client::{Guard, Moment};
use nix::sys::signal::Signal;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

pub(super) use leash::run as leash;

use self::leash::{Leash, reached};
use self::timeline::{Due, Timeline};
use super::taking::{client_for, take};
use crate::cli::{Format, OnLoss, RunArgs, Target};
use crate::exit::Stop;
use crate::output::complain;
use crate::serve::Signals;

/// How long giving back a lock that is as good as lost may hold up the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Of a signal that ended the command, added to its number, as shells do.
const SIGNALLED: i32 = 128;

pub(super) async fn run(args: RunArgs) -> Result<(), Stop> {
    let mut signals = Signals::install().map_err(Stop::failed)?;
    let target = Target { addr: args.addr.clone(), output: Format::Value };
    let client = client_for(&args.take, &target)?;
    let guard = match take(&args.take, &target, &client, &mut signals).await {
        Err(Stop::NotAcquired(reason)) if !args.take.quiet => {
            return Err(Stop::Code(args.busy_exit, Some(reason)));
        }
        Err(Stop::NotAcquired(_)) => return Err(Stop::Code(args.busy_exit, None)),
        taken => taken?,
    };
    let mut forwarded = Forwarded::install(signals).map_err(Stop::failed)?;
    let end = match args.on_loss {
        OnLoss::Ignore => unleashed(&guard, &args, &mut forwarded).await,
        OnLoss::Term => leashed(&guard, &args, Some(args.grace), &mut forwarded).await,
        OnLoss::Kill => leashed(&guard, &args, None, &mut forwarded).await,
    };
    let release = async { guard.release().await.and(client.0.close().await) };
    match end {
        Ok(Ended::By(status)) => {
            if let Err(error) = release.await {
                complain(&format!(
                    "holdfast: {} is not certainly released, it is free when its ttl has passed: {error}",
                    args.take.name
                ));
            }
            exit_code(status)
        }
        Ok(Ended::Killed(loss)) => {
            // The command is dead, so the lock may go; if it is gone already, so be it.
            drop(tokio::time::timeout(FAREWELL, release).await);
            let name = &args.take.name;
            Err(Stop::Lost(format!("{name} is lost, and the command was stopped before: {loss}")))
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
    /// By us, because of this.
    Killed(String),
}

/// Runs the command with a leash.
async fn leashed(
    guard: &Guard,
    args: &RunArgs,
    grace: Option<Duration>,
    forwarded: &mut Forwarded,
) -> Result<Ended, Stop> {
    let timeline = Timeline::new(grace, guard.remaining());
    let Some(mut deadline) = guard.deadline_moment() else {
        return Ok(Ended::Killed("it was lost before the command was started".to_owned()));
    };
    let started = Leash::start(timeline.leash_at(deadline)).await;
    let mut leash = started
        .map_err(|error| Stop::failed(format!("cannot start the leash of the command: {error}")))?;
    let mut child = match spawn(args, guard, leash.group().as_raw()) {
        Ok(child) => child,
        Err(stop) => {
            leash.done().await;
            return Err(stop);
        }
    };
    let (mut asked, mut alone) = (false, false);
    loop {
        let wake = match timeline.due(deadline, asked, Moment::now()) {
            Due::Kill => return Ok(killed(leash, child, reason(guard)).await),
            Due::Terminate => {
                complain(&format!(
                    "holdfast: {} is about to be lost ({}): SIGTERM",
                    args.take.name,
                    reason(guard)
                ));
                leash.signal(Signal::SIGTERM);
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
                    leash.kill().await;
                    return Ok(Ended::Killed(reason(guard)));
                }
                leash.done().await;
                return Ok(Ended::By(status));
            }
            signal = forwarded.next() => leash.signal(signal),
            () = leash.ended(), if !alone => {
                complain("holdfast: the leash of the command was killed: only this process guards the lock now");
                alone = true;
            }
            // Once asked to end, the command gets no more time than it was told.
            moved = guard.deadline_after(deadline), if !asked => match moved {
                Ok(moved) => {
                    deadline = moved;
                    // If the leash is gone, we are still here.
                    drop(leash.until(timeline.leash_at(deadline)).await);
                }
                Err(loss) => return Ok(killed(leash, child, loss.to_string()).await),
            },
            () = reached(wake) => {}
        }
    }
}

async fn killed(leash: Leash, mut child: Child, reason: String) -> Ended {
    leash.kill().await;
    // It cannot refuse; wait so that it is certainly gone.
    drop(child.wait().await);
    Ended::Killed(reason)
}

/// Why the lock is lost, or about to be.
fn reason(guard: &Guard) -> String {
    guard.ensure().err().unwrap_or_else(|| guard.about_to_lose()).to_string()
}

/// Runs the command whatever becomes of the lock.
async fn unleashed(
    guard: &Guard,
    args: &RunArgs,
    forwarded: &mut Forwarded,
) -> Result<Ended, Stop> {
    let mut child = spawn(args, guard, 0)?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).map(nix::unistd::Pid::from_raw);
    let mut told = false;
    loop {
        tokio::select! {
            status = child.wait() => return status.map(Ended::By).map_err(Stop::failed),
            signal = forwarded.next() => if let Some(group) = group {
                let _gone = nix::sys::signal::killpg(group, signal);
            },
            loss = guard.lost(), if !told => {
                complain(&format!(
                    "holdfast: {} is lost ({loss}), and the command goes on without it (--on-loss ignore)",
                    args.take.name
                ));
                told = true;
            }
        }
    }
}

fn spawn(args: &RunArgs, guard: &Guard, group: i32) -> Result<Child, Stop> {
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(Stop::failed("no command: write it after --"));
    };
    let mut command = Command::new(program);
    command.args(arguments).process_group(group);
    command
        .env("HOLDFAST_LOCK", guard.lock().as_str())
        .env("HOLDFAST_TOKEN", guard.token().to_string())
        .env("HOLDFAST_SESSION", guard.session().as_str())
        .env("HOLDFAST_ADDR", args.addr.join(","))
        .env_remove("HOLDFAST_DEADLINE")
        .env_remove("HOLDFAST_SEGMENT")
        .env_remove("HOLDFAST_SLOTS");
    if let Some(segment) = guard.segment() {
        command.env("HOLDFAST_SEGMENT", segment.to_string());
    }
    let slots: Vec<String> = guard.grant().slots.iter().map(u32::to_string).collect();
    if !slots.is_empty() {
        command.env("HOLDFAST_SLOTS", slots.join(","));
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
struct Forwarded {
    wishes: Signals,
    hangup: Stream,
    quit: Stream,
}

impl Forwarded {
    fn install(wishes: Signals) -> std::io::Result<Self> {
        let (hangup, quit) = (signal(SignalKind::hangup())?, signal(SignalKind::quit())?);
        Ok(Self { wishes, hangup, quit })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            name = self.wishes.next() => match name {
                "SIGINT" => Signal::SIGINT,
                _ => Signal::SIGTERM,
            },
            _ = self.hangup.recv() => Signal::SIGHUP,
            _ = self.quit.recv() => Signal::SIGQUIT,
        }
    }
}
