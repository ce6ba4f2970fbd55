//! The life of the command under `holdfast run`: its environment, its signals and its end.

use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_api::election_of;
use holdfast_client::{Hold, Loss, Moment, MultiGuard};
use nix::sys::signal::Signal;

use super::handle::{CommandWatchdog, KillOutcome};
use super::processes::{give_terminal_to, names, take_terminal_back_from};
use super::protocol::{CommandEnvironment, WatchdogOrder, WatchdogReport};
use super::timeline::{KillStep, KillTimeline, StopTimeline};
use super::watchdog::reached;
use super::{OnLoss, RunArgs};
use crate::commands::acquire::{loss, lost_locks};
use crate::commands::lock::token_lines;
use crate::commands::outer_locks::{HELD, OuterLocks};
use crate::commands::release_requests::ReleaseRequests;
use crate::exit::CommandFailure;
use crate::output::queue_stderr;
use crate::signals::{JobSignals, ReceivedSignal, leads_session};

/// A stop until SIGCONT that took less time did not happen: the kernel ignores it in a process group without a shell.
const NOT_STOPPED: Duration = Duration::from_millis(5);

/// The interval of checks whether the command moved into its own process group, if stdin is a terminal.
const TERMINAL_CHECK: Duration = Duration::from_millis(200);

/// How the command ended.
pub(super) enum CommandEnd {
    /// The watchdog could not start the command, and no process of it is alive.
    NotStarted(CommandFailure),
    /// The command exited by itself, or after a signal of another process.
    Exited(ExitStatus),
    /// The command could not be executed; the status has the exit code of shells.
    NotExecuted(ExitStatus),
    /// This process killed the command because of a loss.
    Killed(KilledCommand),
    /// The command is not dead: a process of another user, or one that waits for a device. The text names it.
    Alive(String),
}

/// A command that was killed because its lock was lost or about to be lost.
#[derive(Debug)]
pub(super) struct KilledCommand {
    loss: String,
    /// The time at which this process detected the loss.
    detected: SystemTime,
    /// The time from `detected` to the death of the last process; zero if the watchdog had killed it before.
    took: Duration,
    /// Whether the lock was certainly still held when the last process died.
    in_time: bool,
    /// The processes that could not be killed.
    survivors: String,
}

impl KilledCommand {
    /// Whether processes of the command are alive, so that no other command may start.
    pub(super) fn has_survivors(&self) -> bool {
        !self.survivors.is_empty()
    }
}

impl std::fmt::Display for KilledCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { loss, detected, took, in_time, survivors } = self;
        if !survivors.is_empty() {
            return write!(f, "{loss}; {survivors}. Another holder may have entered");
        }
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

/// A command that runs under a lock.
pub(super) struct Supervision<'run> {
    pub(super) guard: &'run MultiGuard,
    pub(super) args: &'run RunArgs,
    pub(super) watchdog: CommandWatchdog,
    pub(super) signals: &'run mut JobSignals,
    /// The times of the end before the lock is lost; `None` if the command may outlive its lock.
    timeline: Option<KillTimeline>,
    deadline: Moment,
    stop: StopTimeline,
    state: SupervisionState,
}

#[derive(Debug, Default)]
struct SupervisionState {
    /// The command got SIGTERM because the lock is about to be lost.
    terminated: bool,
    /// The lock is lost, and the command may outlive it.
    is_lost: bool,
    /// The command has ended; processes that it left running may be alive.
    ended: Option<ExitStatus>,
    /// This process received a signal that requests the end of the whole program.
    stop_received: bool,
    /// The processes that could not be killed, as reported: the lock is held until they end.
    survivors: Option<String>,
    /// The process group that has the terminal in place of the group of this process.
    has_terminal: Option<nix::unistd::Pid>,
}

impl<'run> Supervision<'run> {
    /// Starts the command, unless the lock is lost already. `watchdog` is `None` if the watchdog ended during the wait.
    pub(super) async fn start(
        guard: &'run MultiGuard,
        args: &'run RunArgs,
        watchdog: Option<CommandWatchdog>,
        signals: &'run mut JobSignals,
    ) -> Result<Self, CommandEnd> {
        let command = &args.command;
        let mut watchdog = match watchdog {
            Some(watchdog) => watchdog,
            None => CommandWatchdog::start(command).await.map_err(CommandEnd::NotStarted)?,
        };
        let grace = Some(command.grace).filter(|_| command.on_loss == OnLoss::Term);
        let timeline = (command.on_loss != OnLoss::Ignore)
            .then(|| KillTimeline::new(grace, guard.remaining()));
        let lost = || {
            let reason =
                format!("{}: {}; the command was not started", lost_locks(guard), loss(guard));
            CommandFailure::Lost(reason)
        };
        let Some(deadline) = guard.deadline_moment() else {
            return Err(CommandEnd::NotStarted(lost()));
        };
        let release = |hold: &Hold| WatchdogOrder::Release {
            nodes: command.nodes.addr.clone(),
            target: hold.release_target(),
        };
        let releases = guard.holds().map(release).collect();
        let kill_at = timeline.map(|timeline| timeline.watchdog_at(deadline));
        let environment = environment(args, guard);
        let started = watchdog.start_command(releases, environment, command.grace, kill_at).await;
        let failure = match started {
            Ok(true) => None,
            Ok(false) => Some(lost()),
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            let KillOutcome { survivors, .. } = watchdog.abandon().await;
            return Err(if survivors.is_empty() {
                CommandEnd::NotStarted(failure)
            } else {
                CommandEnd::Alive(format!("{failure}; {}", cannot_kill(&survivors)))
            });
        }
        let (stop, state) = (StopTimeline::default(), SupervisionState::default());
        Ok(Self { guard, args, watchdog, signals, timeline, deadline, stop, state })
    }

    /// Runs the command to its end and to the end of every process that it left running. Ends them before the deadline
    /// of the lock.
    pub(super) async fn run(&mut self) -> CommandEnd {
        let mut requests = ReleaseRequests::of(self.guard);
        let mut known = self.deadline;
        loop {
            let wake = match self.step(Moment::now()) {
                (KillStep::Kill, true) => return self.kill_because_of_loss().await,
                (KillStep::Kill, false) => {
                    let end = self.kill_rest().await;
                    if let CommandEnd::Alive(left) = &end
                        && self.keeps_lock(left)
                    {
                        // The client renewed the lease during the kill.
                        if let Some(moved) = self.guard.deadline_moment() {
                            self.deadline_moved(moved);
                        }
                        continue;
                    }
                    return end;
                }
                (KillStep::Terminate, is_loss) => {
                    self.terminate(is_loss);
                    continue;
                }
                (KillStep::Wait(wake), _) => self.offer_terminal(wake),
            };
            tokio::select! {
                report = self.watchdog.next() => if let Some(end) = self.reported(report).await {
                    return end;
                },
                received = self.signals.next() => self.pass_on(received),
                moved = self.guard.deadline_after(known), if self.timeline.is_some() => match moved {
                    Ok(moved) => {
                        known = moved;
                        self.deadline_moved(moved);
                    }
                    Err(_loss) => return self.kill_because_of_loss().await,
                },
                (lock, loss) = self.guard.lost(), if !self.state.is_lost => {
                    if self.timeline.is_some() {
                        return self.kill_because_of_loss().await;
                    }
                    queue_stderr(&format!(
                        "holdfast: {lock} is lost: {loss}; the command continues without it (--on-loss ignore)"
                    ));
                    self.state.is_lost = true;
                }
                request = requests.next(), if !self.state.is_lost => self.report_request(request),
                () = reached(wake) => {}
            }
        }
    }

    /// Returns the next step, and whether the coming loss is its reason.
    fn step(&self, now: Moment) -> (KillStep, bool) {
        let never = Moment::from_origin(Duration::MAX);
        let loss = self.timeline.map_or(KillStep::Wait(never), |timeline| {
            timeline.step(self.deadline, self.state.terminated, now)
        });
        let stop = self.stop.step(now).unwrap_or(KillStep::Wait(never));
        match (loss, stop) {
            (KillStep::Wait(loss), KillStep::Wait(stop)) => (KillStep::Wait(loss.min(stop)), false),
            (KillStep::Kill, _) => (KillStep::Kill, true),
            (_, KillStep::Kill) => (KillStep::Kill, false),
            (KillStep::Terminate, _) => (KillStep::Terminate, true),
            (KillStep::Wait(_), KillStep::Terminate) => (KillStep::Terminate, false),
        }
    }

    fn terminate(&mut self, is_loss: bool) {
        let processes = self.watchdog.terminate_all();
        if is_loss {
            let (names, loss) = (self.args.acquire.names(), loss(self.guard));
            queue_stderr(&format!("holdfast: {names} is about to be lost ({loss}): SIGTERM"));
            self.state.terminated = true;
            return;
        }
        self.stop.terminate_at = None;
        if !processes.is_empty() && !self.state.stop_received {
            let left = names(&processes);
            queue_stderr(&format!(
                "holdfast: the command left processes running, SIGTERM to {left}"
            ));
        }
    }

    /// After SIGTERM a renewal does not extend the time of the command, but an earlier deadline shortens it.
    fn deadline_moved(&mut self, deadline: Moment) {
        if self.state.terminated && deadline >= self.deadline {
            return;
        }
        self.deadline = deadline;
        if let Some(timeline) = &mut self.timeline {
            timeline.renewed(self.guard.remaining());
            self.watchdog.kill_at(timeline.watchdog_at(deadline));
        }
    }

    /// Handles a report of the watchdog. Returns the end if no process is left.
    async fn reported(&mut self, report: Option<WatchdogReport>) -> Option<CommandEnd> {
        match report {
            Some(WatchdogReport::Ended { status }) => {
                let status = ExitStatus::from_raw(status);
                self.state.ended = Some(status);
                self.take_terminal_back();
                self.watchdog.command_ended();
                if self.args.command.leave_running
                    && !self.state.terminated
                    && self.timeline_is_early()
                {
                    return Some(CommandEnd::Exited(status));
                }
                self.stop.command_ended(self.args.command.grace, Moment::now());
            }
            Some(WatchdogReport::NotExecuted { status }) => {
                self.take_terminal_back();
                self.watchdog.command_ended();
                return Some(CommandEnd::NotExecuted(ExitStatus::from_raw(status)));
            }
            Some(WatchdogReport::Stopped { signal }) => self.stop_with_command(signal),
            Some(WatchdogReport::Gone { ms }) => {
                let at = super::protocol::from_ms(ms);
                if self.state.terminated || !self.timeline_is_early() {
                    // This process or the watchdog ended the command before the deadline.
                    return Some(self.killed(at, SystemTime::now(), String::new()));
                }
                return Some(CommandEnd::Exited(self.state.ended.unwrap_or_default()));
            }
            Some(_) => {}
            None => {
                queue_stderr(
                    "holdfast: the watchdog of the command was killed, so the command is killed, too",
                );
                return Some(self.kill_rest().await);
            }
        }
        None
    }

    /// Whether the time of the kill before a loss is still to come.
    fn timeline_is_early(&self) -> bool {
        let now = Moment::now();
        self.timeline.is_none_or(|timeline| {
            timeline.step(self.deadline, self.state.terminated, now) != KillStep::Kill
        })
    }

    /// Passes a signal on to the command. The terminal has sent its signals to the command already, if the command is
    /// in the process group of `run`.
    fn pass_on(&mut self, received: ReceivedSignal) {
        let ReceivedSignal { signal, is_for_group } = received;
        self.state.stop_received |= received.is_stop();
        if is_for_group && self.watchdog.own_group().is_none() && self.state.ended.is_none() {
            return;
        }
        // Before the signal: a command that gets the terminal is continued.
        self.offer_terminal(Moment::now());
        if received.is_stop() {
            self.watchdog.signal_group(signal);
            self.watchdog.signal_group(Signal::SIGCONT);
            self.stop.requested(self.args.command.grace, Moment::now());
            if self.state.ended.is_some() {
                self.stop.command_ended(self.args.command.grace, Moment::now());
            }
        } else if let Some(group) = self.watchdog.own_group().filter(|_| signal == Signal::SIGTSTP)
        {
            let _ended = nix::sys::signal::killpg(group, signal);
        } else if signal == Signal::SIGTSTP || !received.is_suspend() {
            self.watchdog.signal_command(signal);
        }
    }

    /// Follows a command that a signal stopped: this process stops, too, so that the shell can continue both. A command
    /// in a process group of its own that wants the terminal gets it.
    fn stop_with_command(&mut self, signal: i32) {
        let Ok(signal @ (Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU)) =
            Signal::try_from(signal)
        else {
            return;
        };
        let own_group = self.watchdog.own_group();
        if let Some(group) =
            own_group.filter(|group| signal != Signal::SIGTSTP && give_terminal_to(*group))
        {
            self.state.has_terminal = Some(group);
        } else if !self.suspend(signal) && signal != Signal::SIGTSTP {
            let wants =
                "holdfast: the command is stopped: it wants the terminal, but is in the background";
            return queue_stderr(wants);
        }
        match own_group {
            Some(group) => drop(nix::sys::signal::killpg(group, Signal::SIGCONT)),
            None => self.watchdog.signal_group(Signal::SIGCONT),
        }
    }

    /// Gives the terminal to a command that leads its own process group, as a shell does. `timeout` does not report that
    /// a process below it waits for the terminal, so this happens before. Returns the time of the next check.
    fn offer_terminal(&mut self, wake: Moment) -> Moment {
        let state = &mut self.state;
        if state.ended.is_some() || state.has_terminal.is_some() || !std::io::stdin().is_terminal()
        {
            return wake;
        }
        if let Some(group) = self.watchdog.own_group().filter(|group| give_terminal_to(*group)) {
            state.has_terminal = Some(group);
            let _ended = nix::sys::signal::killpg(group, Signal::SIGCONT);
        }
        wake.min(Moment::now().plus(TERMINAL_CHECK))
    }

    /// Stops this process until SIGCONT. Returns `false` if no shell can continue it, so that it did not stop.
    fn suspend(&mut self, signal: Signal) -> bool {
        self.take_terminal_back();
        let begun = Instant::now();
        // No shell continues the leader of a session.
        if !leads_session() {
            JobSignals::suspend(signal);
        }
        begun.elapsed() > NOT_STOPPED
    }

    fn take_terminal_back(&mut self) {
        if let Some(group) = self.state.has_terminal.take() {
            take_terminal_back_from(group);
        }
    }

    /// Prints a release request, and passes it on as a signal if the user wants that.
    fn report_request(&mut self, request: String) {
        let signal = self.args.command.on_release_request.0;
        let sent = signal.map(|signal| format!(": {signal}")).unwrap_or_default();
        queue_stderr(&(request + &sent));
        if let Some(signal) = signal {
            self.watchdog.signal_group(signal);
        }
    }

    /// Kills everything because the lock is lost or about to be lost.
    async fn kill_because_of_loss(&mut self) -> CommandEnd {
        let detected = SystemTime::now();
        let KillOutcome { at, survivors, .. } = self.watchdog.kill_all().await;
        let survivors = if survivors.is_empty() { String::new() } else { cannot_kill(&survivors) };
        self.killed(at, detected, survivors)
    }

    /// `at` is the time since which no process is alive.
    fn killed(&mut self, at: Moment, detected: SystemTime, survivors: String) -> CommandEnd {
        self.take_terminal_back();
        let loss = loss(self.guard);
        let ends_at_deadline = matches!(
            loss,
            Loss::NotRenewed { .. } | Loss::MaxHoldExceeded { .. } | Loss::Revoked { .. }
        );
        let in_time = self.guard.is_held() || (ends_at_deadline && at < self.deadline);
        let age = SystemTime::now().duration_since(detected).unwrap_or_default();
        let took = age.saturating_sub(Moment::now().left(at));
        CommandEnd::Killed(KilledCommand {
            loss: loss.to_string(),
            detected,
            took,
            in_time,
            survivors,
        })
    }

    /// Kills everything although the lock is safe.
    async fn kill_rest(&mut self) -> CommandEnd {
        let KillOutcome { survivors, status, .. } = self.watchdog.kill_all().await;
        self.state.ended = self.state.ended.or(status.map(ExitStatus::from_raw));
        self.take_terminal_back();
        if !survivors.is_empty() {
            return CommandEnd::Alive(cannot_kill(&survivors));
        }
        let killed = ExitStatus::from_raw(Signal::SIGKILL as i32);
        CommandEnd::Exited(self.state.ended.unwrap_or(killed))
    }

    /// Whether the lock stays held beside processes that cannot be killed: until they end, the lock is lost, or another
    /// signal requests the end.
    fn keeps_lock(&mut self, left: &str) -> bool {
        let is_first = self.state.survivors.replace(left.to_owned()).is_none();
        if self.state.is_lost || self.watchdog.has_ended() {
            return false;
        }
        if is_first {
            queue_stderr(&format!(
                "holdfast: {left}; {} is held until it ends, or until another signal ends holdfast run",
                self.args.acquire.names()
            ));
        }
        self.stop = StopTimeline::default();
        let was_requested = std::mem::take(&mut self.state.stop_received);
        is_first || !was_requested
    }
}

fn cannot_kill(survivors: &str) -> String {
    format!("could not kill {survivors}: a process of another user, or one that waits for a device")
}

fn environment(args: &RunArgs, guard: &MultiGuard) -> CommandEnvironment {
    let mut command = CommandEnvironment::default();
    for name in [
        "LOCK",
        "TOKEN",
        "TOKENS",
        "MIN_VALID_TOKEN",
        "MIN_VALID_TOKENS",
        "DEADLINE",
        "SLOTS",
        "SHARD",
        "ELECTION",
    ] {
        command.env_remove(format!("HOLDFAST_{name}"));
    }
    command.env(HELD, OuterLocks::inherited().with(guard.holds()));
    command.env("HOLDFAST_ADDR", args.command.nodes.addr.join(","));
    let is_multi_lock = guard.holds().count() > 1;
    if is_multi_lock {
        command.env("HOLDFAST_TOKENS", token_lines(guard).join("\n"));
        let floors =
            guard.holds().map(|hold| format!("{} {}", hold.lock(), hold.min_valid_token()));
        command.env("HOLDFAST_MIN_VALID_TOKENS", floors.collect::<Vec<_>>().join("\n"));
    }
    for hold in guard.holds() {
        command.env("HOLDFAST_SESSION", hold.session().as_str());
        if !is_multi_lock {
            command.env("HOLDFAST_LOCK", hold.lock().as_str());
            command.env("HOLDFAST_TOKEN", hold.token().to_string());
            command.env("HOLDFAST_MIN_VALID_TOKEN", hold.min_valid_token().to_string());
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
    // A lock that is entered again keeps its end.
    if let Some(end) = guard.holds().filter_map(Hold::max_hold_end).min() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let deadline = now.saturating_add(end.left(Moment::now()));
        command.env("HOLDFAST_DEADLINE", deadline.as_secs().to_string());
    }
    command
}
