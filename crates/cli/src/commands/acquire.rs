//! The acquisition of locks, for `lock`, `run` and `elect`: options, session, progress, signals.
//!
//! The session itself holds the lock, so `holdfast unlock --session` and plain HTTP calls with this session address
//! the same hold. Several locks form a multi-lock: the loss of one lock ends all holds. Below `holdfast run`, the locks of
//! the outer commands are re-entered in their sessions; all others get a session of their own.

use std::pin::pin;
use std::time::{Duration, Instant};

use clap::Args;
use holdfast_api::{ErrorCode, Problem};
use holdfast_client::{Client, ClientBuilder, Error, Hold, Lock, Loss, MultiGuard};
use holdfast_types::{LockName, Mode};
use nix::sys::signal::Signal;

use super::lock_text::{OwnSession, holder_name, report_waiting};
use super::outer_locks::{OuterLock, OuterLocks};
use crate::arguments::{NodesArgs, duration, key_value};
use crate::exit::{CommandFailure, NoAnswerEffect};
use crate::output::{short_time, write_stderr};
use crate::signals::JobSignals;

/// The time limit for releasing a lock that is lost or about to be lost.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// A signal within this time can be a copy of the one that began a release. `timeout` sends each signal twice, and a
/// terminal also signals the command.
const SAME_SIGNAL: Duration = Duration::from_millis(500);
/// The time limit for leaving a queue, a barrier or a group at exit.
pub(super) const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// The default of `--timeout`: the time to look for a reachable node.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The default of `--timeout` for a caller that does not wait: the duration of a leader election.
const TIMEOUT_SHORT: Duration = Duration::from_secs(3);

const KIND: &str = "Kind of lock";
const LESS_COMMON: &str = "Less common";

/// Which locks to acquire, and how.
#[derive(Debug, Args)]
pub(super) struct AcquireArgs {
    /// The lock; its name may contain '/'.
    pub(super) name: LockName,
    /// More locks, acquired together with it: all or none.
    #[arg(conflicts_with_all = ["permits", "shards", "shard", "min_hold", "priority", "value"])]
    pub(super) also: Vec<LockName>,
    #[command(flatten)]
    pub(super) waiting: WaitingArgs,
    /// Hold the lock together with other shared holders.
    #[arg(help_heading = KIND, long, conflicts_with = "permits")]
    pub(super) shared: bool,
    /// Acquire N permits of a semaphore; with `/LIMIT` an unused lock becomes a semaphore of LIMIT permits.
    #[arg(help_heading = KIND, long, value_name = "N[/LIMIT]", value_parser = permits)]
    pub(super) permits: Option<PermitsOfLimit>,
    /// Acquire one of N shards, each a lock of its own: a free one, or else the one with the shortest queue. The first
    /// caller sets N, and later callers must name the same number.
    #[arg(help_heading = KIND, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) shards: Option<u32>,
    /// Acquire the shard with this number, from 0.
    #[arg(help_heading = KIND, long, value_name = "I", value_parser = clap::value_parser!(u32).range(0..1024))]
    pub(super) shard: Option<u32>,
    /// Fail at once instead of queueing when this many callers or more wait already.
    #[arg(help_heading = LESS_COMMON, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) queue_max: Option<u32>,
    /// The hold ends after this time, regardless of renewals; `run` stops the command before.
    #[arg(help_heading = LESS_COMMON, long, value_name = "TIME", value_parser = duration)]
    pub(super) max_hold: Option<Duration>,
    /// No other session gets the lock before this time after the grant, even if it is released earlier.
    #[arg(help_heading = LESS_COMMON, long, value_name = "TIME", value_parser = duration)]
    pub(super) min_hold: Option<Duration>,
    /// The priority in the queue, 0 to 9: one level equals ten seconds of waiting.
    #[arg(help_heading = LESS_COMMON, long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub(super) priority: u8,
    /// A text that is shown with the queue entry, e.g. an address or a job number.
    #[arg(help_heading = LESS_COMMON, long, value_name = "TEXT")]
    pub(super) value: Option<String>,
}

/// The session, and how long to wait. Elections have the same options.
#[derive(Debug, Args)]
pub(super) struct WaitingArgs {
    /// The session that holds the lock and stays open after this process; by default that of an outer holdfast run, or else
    /// a new session that ends with this process. Jobs that share a session are one client: they do not exclude each other.
    #[arg(long, value_name = "SESSION")]
    pub(super) session: Option<String>,
    /// How long the lock stays held if this process dies: 30s, or the ttl that the session already has.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) ttl: Option<Duration>,
    /// How long to wait in the queue; by default without limit.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) wait: Option<Duration>,
    /// Do not wait in the queue.
    #[arg(long = "try", conflicts_with = "wait")]
    pub(super) try_once: bool,
    /// How long to look for a node that replies: 10s; 3s with --try or a shorter --wait.
    #[arg(help_heading = LESS_COMMON, long, value_name = "TIME", value_parser = duration)]
    pub(super) timeout: Option<Duration>,
    /// A label of the session that other callers see; may be given several times.
    #[arg(help_heading = LESS_COMMON, long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(super) label: Vec<(String, String)>,
    /// Print no progress on stderr.
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// Permits of a semaphore, with its limit if given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PermitsOfLimit {
    pub(super) count: u32,
    pub(super) limit: Option<u32>,
}

fn permits(text: &str) -> Result<PermitsOfLimit, String> {
    let number = |text: &str| text.parse().ok().filter(|count| *count > 0);
    let (count, limit) = match text.split_once('/') {
        Some((count, limit)) => (number(count), number(limit).map(Some)),
        None => (number(text), Some(None)),
    };
    match (count, limit) {
        (Some(count), Some(limit)) if limit.is_none_or(|limit| count <= limit) => {
            Ok(PermitsOfLimit { count, limit })
        }
        _ => Err(format!(
            "{text:?} is neither a number of permits, like 1, nor permits of a limit, like 1/4"
        )),
    }
}

impl AcquireArgs {
    /// Arguments for one exclusive lock, without options.
    pub(super) fn of(name: LockName, waiting: WaitingArgs) -> Self {
        Self {
            name,
            also: Vec::new(),
            waiting,
            shared: false,
            permits: None,
            shards: None,
            shard: None,
            queue_max: None,
            max_hold: None,
            min_hold: None,
            priority: 0,
            value: None,
        }
    }

    /// The name of the lock, or `a and b`, for messages.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.locks().map(LockName::as_str).collect();
        names.join(" and ")
    }

    fn locks(&self) -> impl Iterator<Item = &LockName> {
        std::iter::once(&self.name).chain(&self.also)
    }

    /// The lock with the number of the requested shard.
    fn shard_name(&self) -> Option<LockName> {
        self.shard.and_then(|shard| LockName::new(format!("{}/{shard}", self.name)).ok())
    }

    /// The locks whose queues the progress shows while this process waits for `locks`.
    fn watched(&self, locks: &[LockName]) -> Vec<LockName> {
        self.shard_name().map_or_else(|| locks.to_vec(), |shard| vec![shard])
    }
}

/// A client with the session that acquires the locks.
#[derive(Debug)]
pub(super) struct Acquirer<'a> {
    nodes: &'a NodesArgs,
    client: Client,
    session: OwnSession,
    outer: OuterLocks,
}

impl<'a> Acquirer<'a> {
    pub(super) fn new(args: &WaitingArgs, nodes: &'a NodesArgs) -> Result<Self, CommandFailure> {
        let outer =
            if args.session.is_some() { OuterLocks::default() } else { OuterLocks::inherited() };
        let selected = || std::env::var("HOLDFAST_SESSION").ok().filter(|name| !name.is_empty());
        let selected = || selected().filter(|_| outer.is_empty());
        let named = args.session.clone().or_else(selected);
        let nested = || outer.nested_prefix(&std::process::id().to_string());
        let session = named.clone().or_else(nested).unwrap_or_else(generated_prefix);
        let client = nodes.client_with(|builder| {
            let builder = match &named {
                Some(name) => builder.named_session(name),
                None => with_process_labels(builder.session_prefix(&session)),
            };
            let builder = args.ttl.into_iter().fold(builder, ClientBuilder::ttl);
            let labels = args.label.iter();
            let builder = labels.fold(builder, |builder, (key, value)| builder.label(key, value));
            builder.request_timeout(timeout(args))
        })?;
        let session = named.map_or_else(|| OwnSession::Generated(session), OwnSession::Named);
        Ok(Self { nodes, client, session, outer })
    }

    /// Acquires the locks and prints progress on stderr; the signal `stop` ends the wait.
    pub(super) async fn acquire(
        &self,
        args: &AcquireArgs,
        stop: impl Future<Output = Signal>,
    ) -> Result<MultiGuard, CommandFailure> {
        let result = tokio::select! {
            result = self.enter_all(args) => result,
            signal = stop => {
                let reason = format!("{signal} while waiting for {}", args.names());
                Err(CommandFailure::Signalled(signal, Some(reason).filter(|_| !args.waiting.quiet)))
            }
        };
        if result.is_err() {
            self.leave(args).await;
        }
        result
    }

    /// Acquires the locks, and re-enters those of outer commands.
    async fn enter_all(&self, args: &AcquireArgs) -> Result<MultiGuard, CommandFailure> {
        let sharded = args.shards.is_some() || args.shard.is_some();
        let (mut held, mut others) = (Vec::new(), Vec::new());
        for lock in args.locks() {
            let wanted = args.shard_name().unwrap_or_else(|| lock.clone());
            let found = self.outer.find_held(&self.client, &wanted, sharded).await;
            match found.map_err(|error| not_acquired(args, error))? {
                Some(outer) => held.push((lock, outer)),
                None => others.push(lock.clone()),
            }
        }
        if args.locks().all(|lock| self.outer.find(lock, sharded).is_none()) {
            self.outer.report_if_over(&self.client).await;
        }
        if others.is_empty() && args.waiting.ttl.is_some() {
            return Err(CommandFailure::failed(
                "--ttl would change the session of the outer holdfast run (HOLDFAST_SESSION): \
                 leave it out, or name another session with --session",
            ));
        }
        let mut guards = None;
        if !others.is_empty() {
            guards = Some(self.acquire_new(&others, args).await?);
        }
        for (lock, outer) in held {
            match (self.reenter(outer, lock, args).await, guards.take()) {
                (Ok(guard), Some(entered)) => guards = Some(entered.join(guard)),
                (Ok(guard), None) => guards = Some(guard),
                (Err(failure), Some(entered)) => {
                    // The session of an outer command would keep them.
                    drop(tokio::time::timeout(LEAVE_TIMEOUT, entered.release_unused()).await);
                    return Err(failure);
                }
                (Err(failure), None) => return Err(failure),
            }
        }
        guards.ok_or_else(|| CommandFailure::usage("name a lock"))
    }

    /// Enters a lock once more. Exclusive work in a shared hold is rejected: an upgrade would replace the outer token.
    async fn reenter(
        &self,
        outer: &OuterLock,
        lock: &LockName,
        args: &AcquireArgs,
    ) -> Result<MultiGuard, CommandFailure> {
        if !args.shared && args.permits.is_none() && outer.mode == Mode::Shared {
            let what = "is held in shared mode by the outer holdfast run: add --shared here, or leave it out there";
            return Err(CommandFailure::failed(format!("{lock} {what}")));
        }
        let client = self.nodes.client_with(|builder| {
            builder.named_session(outer.session.as_str()).request_timeout(timeout(&args.waiting))
        })?;
        let wait = !args.waiting.try_once;
        let lock = with_options(client.lock(lock.as_str()), args);
        let lock = with_lock_options(lock, args).entering();
        let result = if wait { lock.acquire().await } else { lock.try_acquire().await };
        let result = result.map(MultiGuard::from);
        result.map_err(|error| not_acquired(args, error))
    }

    async fn acquire_new(
        &self,
        locks: &[LockName],
        args: &AcquireArgs,
    ) -> Result<MultiGuard, CommandFailure> {
        let watched = args.watched(locks);
        tokio::select! {
            result = send(&self.client, locks, args) => result.map_err(|error| not_acquired(args, error)),
            never = report_waiting(&self.client, &watched, &self.session), if !args.waiting.quiet => match never {},
        }
    }

    /// As [`release`](Self::release), without the `min_hold`.
    pub(super) async fn release_unused(&self, guard: MultiGuard) -> Result<(), Error> {
        guard.release_unused().await.and(self.client.close().await)
    }

    /// Whether a node has accepted the credential of this process.
    pub(super) fn was_accepted(&self) -> bool {
        self.client.was_accepted()
    }

    /// Releases the locks, and closes the session that this process opened.
    pub(super) async fn release(&self, guard: MultiGuard) -> Result<(), Error> {
        guard.release().await.and(self.client.close().await)
    }

    /// As [`release`](Self::release), after a loss: the other locks are not renewed any more.
    pub(super) async fn release_lost(&self, guard: MultiGuard) {
        drop(tokio::time::timeout(RELEASE_TIMEOUT, self.release(guard)).await);
    }

    /// Closes the session, which removes the queue entries of this process.
    async fn leave(&self, args: &AcquireArgs) {
        let left = tokio::time::timeout(LEAVE_TIMEOUT, self.client.close()).await;
        if !matches!(left, Ok(Ok(()) | Err(Error::Lost(_)))) {
            write_stderr(&format!(
                "holdfast: may still be in the queue of {}, until its session ends",
                args.names()
            ));
        }
    }
}

/// Waits for a release, until another signal requests the end of this process.
///
/// # Errors
/// Why the lock may still be held.
pub(super) async fn unless_stopped(
    release: impl Future<Output = Result<(), Error>>,
    signals: &mut JobSignals,
) -> Result<(), String> {
    let (began, mut release) = (Instant::now(), pin!(release));
    loop {
        tokio::select! {
            released = &mut release => return released.map_err(|error| error.to_string()),
            signal = signals.next_stop() => if began.elapsed() >= SAME_SIGNAL {
                return Err(signal.to_string());
            },
        }
    }
}

async fn send(
    client: &Client,
    locks: &[LockName],
    args: &AcquireArgs,
) -> Result<MultiGuard, Error> {
    let wait = !args.waiting.try_once;
    if let [lock] = locks {
        let lock = with_options(client.lock(lock.as_str()), args);
        let lock = with_lock_options(lock, args);
        let acquired = if wait { lock.acquire().await } else { lock.try_acquire().await };
        return acquired.map(MultiGuard::from);
    }
    let locks = with_options(client.lock_many(locks.iter().map(LockName::as_str)), args);
    if wait { locks.acquire().await } else { locks.try_acquire().await }
}

fn with_options<T>(lock: Lock<T>, args: &AcquireArgs) -> Lock<T> {
    let lock = lock.owned_by_session().end_with_session();
    let lock = if args.shared { lock.shared() } else { lock };
    let lock = args.queue_max.into_iter().fold(lock, Lock::queue_max);
    let lock = args.max_hold.into_iter().fold(lock, Lock::max_hold);
    args.waiting.wait.into_iter().fold(lock, Lock::timeout)
}

/// Applies the options that a multi-lock does not have.
fn with_lock_options(lock: Lock, args: &AcquireArgs) -> Lock {
    let mut lock = lock.priority(args.priority);
    if let Some(PermitsOfLimit { count, limit }) = args.permits {
        lock = lock.permits(count);
        lock = limit.into_iter().fold(lock, Lock::limit);
    }
    lock = args.shards.into_iter().fold(lock, Lock::shards);
    lock = args.shard.into_iter().fold(lock, Lock::shard);
    lock = args.min_hold.into_iter().fold(lock, Lock::min_hold);
    args.value.iter().fold(lock, Lock::value)
}

fn timeout(args: &WaitingArgs) -> Duration {
    let wait = if args.try_once { Some(Duration::ZERO) } else { args.wait };
    let usual = wait.map_or(TIMEOUT, |wait| wait.clamp(TIMEOUT_SHORT, TIMEOUT));
    args.timeout.unwrap_or(usual)
}

/// Says which locks are lost. Before a loss that comes at the deadline, these are all.
pub(super) fn lost_locks(guard: &MultiGuard) -> String {
    let (lost, held): (Vec<&Hold>, Vec<&Hold>) = guard.holds().partition(|hold| !hold.is_held());
    let holds = if lost.is_empty() { held } else { lost };
    let names: Vec<&str> = holds.iter().map(|hold| hold.lock().as_str()).collect();
    format!("{} {} lost", names.join(" and "), if names.len() == 1 { "is" } else { "are" })
}

/// Returns the loss of the locks, or the loss that will follow at the deadline.
pub(super) fn loss(guard: &MultiGuard) -> Loss {
    let coming = || guard.holds().next().map_or(Loss::ReleasedElsewhere, Hold::next_loss);
    guard.ensure().err().unwrap_or_else(coming)
}

fn not_acquired(args: &AcquireArgs, error: Error) -> CommandFailure {
    if let Error::Unavailable(reason) | Error::OutcomeUnknown(reason) = error {
        let time = short_time(holdfast_types::millis(timeout(&args.waiting)));
        let lead = Some(format!("no node answered in {time}"));
        return CommandFailure::NoAnswer { lead, reason, effect: NoAnswerEffect::DidNotRun };
    }
    if let Error::Lost(_) = error {
        return CommandFailure::Lost(error.to_string());
    }
    let Error::Busy(problem) = &error else { return CommandFailure::from(error) };
    let lock = problem.facts.lock.as_ref().unwrap_or(&args.name);
    if let Some(text) = cooldown_text(problem) {
        return CommandFailure::NotAcquired(format!("{lock} is {text}"));
    }
    let state = match error.holder() {
        Some(holder) => {
            format!("held by {} for {}", holder_name(holder), short_time(holder.held_for_ms))
        }
        None if !problem.detail.is_empty() => format!("unavailable: {}", problem.detail),
        None => "held by another session".to_owned(),
    };
    let advice = match (args.waiting.try_once, problem.code) {
        (true, _) => "queue with --wait 30s",
        (false, ErrorCode::LockBusy) if args.queue_max.is_some() => {
            "the queue is full, so raise --queue-max or try again later"
        }
        (false, _) => "wait longer with --wait",
    };
    CommandFailure::NotAcquired(format!("{lock} is {state}: {advice}"))
}

/// `free again in 9m59s (its last holder set min_hold): try then, or queue with --wait 10m`
fn cooldown_text(problem: &Problem) -> Option<String> {
    let left =
        problem.facts.retry_after_ms.filter(|_| problem.code == ErrorCode::LockInCooldown)?;
    let reason = problem.detail.rsplit(": ").next().unwrap_or_default();
    let (unit, name) = match left / 1_000 {
        0..60 => (1_000, "s"),
        60..3_600 => (60_000, "m"),
        _ => (3_600_000, "h"),
    };
    let (free, wait) = (short_time(left), left / unit + 1);
    Some(format!("free again in {free} ({reason}): try then, or queue with --wait {wait}{name}"))
}

fn with_process_labels(builder: ClientBuilder) -> ClientBuilder {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let labels = [("host", host()), ("user", user)];
    let labels = labels.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let builder = builder.label("pid", std::process::id().to_string());
    labels.fold(builder, |builder, (key, value)| builder.label(key, value))
}

/// `web-3-812`: the host and the process id. The client appends random digits.
fn generated_prefix() -> String {
    let host = host().unwrap_or_else(|| "cli".to_owned());
    format!("{host}-{}", std::process::id())
}

fn host() -> Option<String> {
    let name = nix::unistd::gethostname().ok()?.into_string().ok()?;
    Some(name).filter(|name| !name.is_empty() && name.len() <= 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_command::parse;
    use crate::commands::lock::LockArgs;

    fn parsed(line: &str) -> Result<AcquireArgs, String> {
        parse::<LockArgs>(line).map(|args| args.acquire)
    }

    #[test]
    fn try_and_wait_exclude_each_other() {
        assert!(parsed("lock a --try --wait 1s").is_err());
    }

    #[test]
    fn a_time_without_a_unit_is_rejected_with_the_fix() {
        let error = parsed("lock a --ttl 30").unwrap_err();
        assert_eq!(error.matches("did you mean 30s?").count(), 1, "{error}");
    }

    #[test]
    fn a_cooldown_is_described_with_its_end_and_its_reason() {
        for (ms, expected) in [
            (599_880, "free again in 9m59s (set): try then, or queue with --wait 10m"),
            (7_100_000, "free again in 1h58m (set): try then, or queue with --wait 2h"),
            (900, "free again in 900ms (set): try then, or queue with --wait 1s"),
        ] {
            let mut problem = Problem::new(ErrorCode::LockInCooldown, format!("{ms} ms: set"));
            problem.facts.retry_after_ms = Some(ms);
            assert_eq!(cooldown_text(&problem).as_deref(), Some(expected));
            problem.code = ErrorCode::LockBusy;
            assert_eq!(cooldown_text(&problem), None);
        }
    }

    #[test]
    fn labels_are_pairs() {
        let args = parsed("lock a --label team=shop --label why=x=y").unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(args.waiting.label, [pair("team", "shop"), pair("why", "x=y")]);
        assert!(parsed("lock a --label team").unwrap_err().contains("KEY=VALUE"));
    }

    #[test]
    fn permits_are_a_count_or_a_count_and_a_limit() {
        let permits =
            |text: &str| parsed(&format!("lock pool --permits {text}")).map(|args| args.permits);
        assert_eq!(permits("2"), Ok(Some(PermitsOfLimit { count: 2, limit: None })));
        assert_eq!(permits("1/4"), Ok(Some(PermitsOfLimit { count: 1, limit: Some(4) })));
        for wrong in ["0", "5/4", "1/", "x", "1/0", "-1/4"] {
            assert!(permits(wrong).is_err(), "{wrong}");
        }
        assert!(parsed("lock pool --shared --permits 1").is_err());
    }
}
