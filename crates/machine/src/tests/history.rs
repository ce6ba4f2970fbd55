//! Random histories. A step picks from the state it meets, so that it always has an effect to test.

use holdfast_types::*;
use proptest::prelude::*;

use super::acquire_strategies::{lock, policy, with_options};
use super::changes::{Change, multi};
use super::history_start::beginning;
use super::model::{Model, Node, QueueEntry, Session};
use super::operator_moves::{OperatorMove, operator_move};
use super::recipe::history::recipe;
use super::script_commands::{create, of_session, path, session_name};

/// One step of a history. Numbers pick among existing items, modulo their count.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Command(Command),
    /// Changes znodes.
    Multi(Change),
    /// Uses a latch, a barrier or a counter.
    Recipe(Recipe),
    /// Cancels the n-th wait at a barrier, with its last revision (true) or the one before.
    CancelArrival(usize, bool),
    /// An operator's call, or an acquire of several locks.
    Operator(OperatorMove),
    /// Cancels the n-th entry of all queues, with the revision of its last acquire (true) or its first.
    Cancel(usize, bool),
    /// A claim of the n-th holder gets another mode, with or without waiting: a change by name, or a plain acquire.
    Convert(usize, Mode, bool),
    /// Expires the n-th session, with the current generation (true) or the one before.
    Expire(usize, bool),
    /// Moves the n-th session to another connection, with a password.
    Attach(usize, u8),
    /// Closes the n-th session, with the current attachment (true) or the one before.
    Close(usize, bool),
    /// Closes the n-th live or ended session, with its incarnation (true) or the one before.
    CloseByIncarnation(usize, bool),
    /// Releases the n-th entry of all queues.
    Release(usize, u8),
    /// Repeats the acquire of the n-th entry of all queues, with or without an attempt, with or without waiting.
    Reacquire(usize, Option<Attempt>, bool),
    /// A ZooKeeper client creates an entry of a lock, as a reader or a writer.
    TreeAcquire(SessionName, LockName, bool),
    /// Lowers the limit of a semaphore below the permits that the n-th waiter requests.
    LowerLimit(usize),
    /// An urgent no-wait acquire at the stamp of the n-th timer.
    UrgentAtTimer(usize, SessionName),
    /// Closes a session that lost a lock, or one of the last two ended, to acknowledge the loss.
    Acknowledge(usize),
    /// Sends `Due` for the n-th timer: on time, or 1 ms early (true).
    Due(usize, bool),
    /// Advances the time to the n-th timer, without a command.
    AdvanceToTimer(usize),
    /// Repeats the n-th last command.
    Retry(usize),
    /// Repeats the last commands in order.
    RetryAll(usize),
    /// Repeats a run of commands in order: the index of the first, and the count.
    RetryFrom(usize, usize),
    /// Dumps a snapshot and loads it.
    Reload,
    /// Keeps a frozen view, compared at the end.
    Freeze,
    /// Advances the time.
    Wait(u64),
}

impl Move {
    /// The minimum stamp of this step.
    pub(super) fn stamp(&self, model: &Model) -> u64 {
        match self {
            Move::Due(n, early) => {
                nth_timer(model, *n).map_or(0, |(at, _)| at.saturating_sub(u64::from(*early)))
            }
            Move::AdvanceToTimer(n) | Move::UrgentAtTimer(n, _) => {
                nth_timer(model, *n).map_or(0, |(at, _)| at)
            }
            Move::Operator(operator_move) => operator_move.stamp(model),
            _ => 0,
        }
    }

    /// The command of this step, or `None` if it has none or nothing to pick.
    pub(super) fn command(&self, model: &Model, before: &[Command]) -> Option<Command> {
        let session = |n: usize| model.sessions.get(n % model.sessions.len().max(1));
        let attached = |n: usize| {
            let attached = model.sessions.iter().filter(|session| session.attachment.is_some());
            let all: Vec<_> = attached.filter(|_| !n.is_multiple_of(4)).collect();
            all.get(n % all.len().max(1)).copied()
        };
        match self {
            Move::Command(command) => Some(numbered(model, command.clone())),
            Move::Multi(change) => Some(change.command(model)),
            Move::Operator(deal) => deal.command(model).map(|command| numbered(model, command)),
            Move::Recipe(recipe) => Some(Command::Recipe(recipe.clone())),
            Move::CancelArrival(n, last) => {
                let waits = model.recipes.waits();
                let (cancel, _) = waits.get(n % waits.len().max(1))?.clone();
                let requested_in = Revision(cancel.requested_in.0 - u64::from(!last));
                Some(Command::Recipe(Recipe::CancelArrival(CancelArrival {
                    requested_in,
                    ..cancel
                })))
            }
            Move::Cancel(n, last) => cancel(model, *n, *last),
            Move::Convert(n, mode, wait) => super::conversions::convert(model, *n, *mode, *wait),
            Move::Expire(n, current) => {
                let session = session(*n)?;
                let generation = session.generation - u64::from(!current);
                Some(Command::ExpireSession { session: SessionId(session.id), generation })
            }
            Move::Attach(n, password) => {
                let one = attached(*n).or_else(|| session(*n))?;
                let own = one.password.filter(|_| !n.is_multiple_of(3));
                let (session, ttl) = (SessionId(one.id), Ttl::DEFAULT);
                let password = own.unwrap_or(Password([*password; 16]));
                Some(Command::AttachSession { session, password, ttl })
            }
            Move::CloseByIncarnation(n, current) => close_by_incarnation(model, *n, *current),
            Move::Close(n, current) => {
                let session = attached(*n).or_else(|| session(*n))?;
                let attachment = session.attachment.map(|at| Revision(at - u64::from(!current)));
                let (session, incarnation) = (session.name.clone(), None);
                Some(Command::CloseSession { session, attachment, incarnation })
            }
            Move::Release(n, how) => release_nth(model, *n, *how),
            Move::Reacquire(n, attempt, wait) => {
                reacquire(model, *n, *attempt, *wait).map(|command| numbered(model, command))
            }
            Move::TreeAcquire(session, lock, reads) => {
                let name = match (*reads, model.revision % 2) {
                    (false, _) => "m-lock-",
                    (true, 0) => "x__READ__",
                    (true, _) => "x__rlock__",
                };
                Some(tree_acquire(session, &format!("/locks/{lock}/{name}")))
            }
            Move::LowerLimit(n) => lower_limit(model, *n),
            Move::UrgentAtTimer(n, session) => urgent_at_timer(model, *n, session),
            Move::Acknowledge(n) => {
                let ended = model.ended.iter().rev().take(2).map(|ended| &ended.name);
                let known: Vec<_> = model.losers().into_iter().chain(ended).collect();
                let session = (*known.get(n % known.len().max(1))?).clone();
                Some(Command::CloseSession { session, attachment: None, incarnation: None })
            }
            Move::Due(n, _) => nth_timer(model, *n).map(|(_, lock)| Command::RunTimers { lock }),
            Move::Retry(n) => before.get(before.len().checked_sub(1 + n)?).cloned(),
            Move::AdvanceToTimer(_)
            | Move::RetryAll(_)
            | Move::RetryFrom(..)
            | Move::Reload
            | Move::Freeze
            | Move::Wait(_) => None,
        }
    }
}

/// Creates a queue entry as a ZooKeeper client does.
fn tree_acquire(session: &SessionName, at: &str) -> Command {
    let create = create(at, CreateKind::Ephemeral, true, Vec::new());
    super::script_commands::multi(of_session(session.as_str()), vec![create])
}

fn urgent_at_timer(model: &Model, n: usize, session: &SessionName) -> Option<Command> {
    let (_, lock) = nth_timer(model, n)?;
    let open = super::script_commands::open(session.as_str());
    let plain = Acquire::new(lock, open, Owner::new("t1").unwrap());
    let options = AcquireOptions { priority: 9, ..AcquireOptions::PLAIN };
    Some(Command::Acquire(Acquire { wait: false, options, ..plain }))
}

fn close_by_incarnation(model: &Model, n: usize, current: bool) -> Option<Command> {
    let ended = model.ended.iter().map(|ended| (&ended.name, ended.id));
    let live = model.sessions.iter().map(|live| (&live.name, live.id));
    let all: Vec<_> = live.chain(ended).collect();
    let (session, id) = *all.get(n % all.len().max(1))?;
    let incarnation = Some(SessionId(if current { id } else { id.saturating_sub(1) }));
    Some(Command::CloseSession { session: session.clone(), attachment: None, incarnation })
}

/// The n-th timer: its stamp and its lock.
pub(super) fn nth_timer(model: &Model, n: usize) -> Option<(u64, LockName)> {
    let pending_timers = model.pending_timers();
    pending_timers.get(n % pending_timers.len().max(1)).cloned()
}

fn lower_limit(model: &Model, n: usize) -> Option<Command> {
    let wants = |node: &&Node| {
        node.entry.as_ref().is_some_and(|entry| entry.hold.is_none() && entry.permits > 1)
    };
    let waiters: Vec<_> = model.nodes.iter().filter(wants).collect();
    let node = waiters.get(n % waiters.len().max(1))?;
    let limit = Some(Some(node.entry.as_ref()?.permits - 1));
    let change = PolicyChange { limit, ..PolicyChange::default() };
    Some(Command::SetPolicy { lock: node_parent(&node.path).as_lock()?, change })
}

fn reacquire(model: &Model, n: usize, attempt: Option<Attempt>, wait: bool) -> Option<Command> {
    let (node, entry, session) = pick(model, n)?;
    let open = super::script_commands::open(session.name.as_str());
    let plain = Acquire::new(node_parent(&node.path).as_lock()?, open, entry.owner.clone());
    let mode = [None, Some(entry.held), Some(Mode::Shared), Some(Mode::Exclusive)][n / 8 % 4];
    let durable = session.name.is_durable().then(|| Reason::new("again").unwrap());
    let attempt = attempt.or(durable.as_ref().map(|_| Attempt(1)));
    let wait_ms = durable.as_ref().map(|_| 50);
    let options = AcquireOptions { durable, ..AcquireOptions::PLAIN };
    Some(Command::Acquire(Acquire { attempt, wait, wait_ms, mode, options, ..plain }))
}

/// The n-th entry of all queues.
pub(super) fn pick(model: &Model, n: usize) -> Option<(&Node, &QueueEntry, &Session)> {
    let entries: Vec<_> = model.nodes.iter().filter(|node| node.entry.is_some()).collect();
    let node = entries.get(n % entries.len().max(1))?;
    let owner = node.stat.ephemeral_owner;
    let session = model.sessions.iter().find(|session| session.id as i64 == owner)?;
    Some((node, node.entry.as_ref()?, session))
}

/// Releases the n-th entry: by its oldest or newest attempt, by its token, or by owner.
fn release_nth(model: &Model, n: usize, how: u8) -> Option<Command> {
    let (node, entry, session) = pick(model, n)?;
    let (lock, session) = (node_parent(&node.path).as_lock()?, session.name.clone());
    let target = match (how, entry.token()) {
        (0, _) => ReleaseTarget::Attempt(entry.claims.iter().map(|claim| claim.attempt).min()?),
        (1, _) => ReleaseTarget::Attempt(*entry.numbers().iter().max()?),
        (2, Some(token)) => ReleaseTarget::Hold(FencingToken(token)),
        (3, token) => {
            let oldest = entry.claims.iter().map(|claim| claim.attempt).min()?;
            let of = match token {
                Some(token) if n.is_multiple_of(2) => HoldName::Token(FencingToken(token)),
                _ if oldest == Attempt::UNNAMED => HoldName::Unnamed,
                _ => HoldName::Attempt(oldest),
            };
            ReleaseTarget::Permits(of, 1)
        }
        _ => ReleaseTarget::AnyEntry,
    };
    let target = match target {
        ReleaseTarget::Attempt(Attempt::UNNAMED) => ReleaseTarget::AnyEntry,
        named => named,
    };
    Some(Command::Release(Release {
        locks: lock.into(),
        session,
        owner: entry.owner.clone(),
        target,
    }))
}

fn cancel(model: &Model, n: usize, last: bool) -> Option<Command> {
    let count = model.nodes.iter().filter(|node| node.entry.is_some()).count();
    let reacquired = |n: &usize| {
        pick(model, *n).is_some_and(|(node, entry, _)| entry.requested_in > node.stat.czxid.0)
    };
    let again: Vec<usize> = (0..count).filter(|n| !last && reacquired(n)).collect();
    let n = again.get(n % again.len().max(1)).copied().unwrap_or(n);
    let (node, entry, session) = pick(model, n)?;
    let ticket = node.stat.czxid.0;
    Some(Command::Cancel(Cancel {
        lock: node_parent(&node.path).as_lock()?,
        session: session.name.clone(),
        owner: entry.owner.clone(),
        ticket: Ticket(ticket),
        requested_in: Revision(if last { entry.requested_in } else { ticket }),
    }))
}

pub(super) fn node_parent(of: &str) -> ZnodePath {
    path(of).parent().unwrap()
}

pub(super) fn session() -> impl Strategy<Value = SessionName> {
    prop::sample::select(vec!["s1", "s2", "s3", "s4"]).prop_map(session_name)
}

pub(super) fn owner() -> impl Strategy<Value = Owner> {
    prop::sample::select(vec!["-", "-", "t1"]).prop_map(|name| Owner::new(name).unwrap())
}

/// [`numbered`] turns these numbers into attempts of the session.
pub(super) fn attempt() -> impl Strategy<Value = Option<Attempt>> {
    prop::option::of((1..=ATTEMPTS).prop_map(Attempt))
}

fn target() -> impl Strategy<Value = ReleaseTarget> {
    prop_oneof![
        3 => Just(ReleaseTarget::AnyEntry),
        3 => (1..=ATTEMPTS).prop_map(|n| ReleaseTarget::Attempt(Attempt(n))),
        1 => (0..3_u64).prop_map(|n| ReleaseTarget::Hold(FencingToken(n))),
        1 => (0..3_u32).prop_map(|n| ReleaseTarget::Permits(HoldName::Unnamed, n)),
    ]
}

const ATTEMPTS: u64 = 5;

/// Replaces random numbers by plausible ones: attempts around the newest of the session, some new and some ended, and
/// one of the last tokens.
pub(super) fn numbered(model: &Model, command: Command) -> Command {
    let around = |session: &SessionName, n: Attempt| {
        let newest = model.newest_attempt(session).0;
        Attempt((newest + n.0).saturating_sub(2).max(1))
    };
    match command {
        Command::Acquire(acquire) => {
            let attempt = acquire.attempt.map(|n| around(&acquire.open.session, n));
            Command::Acquire(Acquire { attempt, ..acquire })
        }
        Command::OpenSession { open, attempt } => {
            let attempt = attempt.map(|n| around(&open.session, n));
            Command::OpenSession { open, attempt }
        }
        Command::Release(release) => {
            let target = match release.target {
                ReleaseTarget::AnyEntry | ReleaseTarget::Permits(..) => release.target,
                ReleaseTarget::Attempt(n) => ReleaseTarget::Attempt(around(&release.session, n)),
                ReleaseTarget::Hold(n) => {
                    ReleaseTarget::Hold(FencingToken(model.grants.saturating_sub(n.0)))
                }
            };
            Command::Release(Release { target, ..release })
        }
        other => other,
    }
}

fn ttl() -> impl Strategy<Value = Option<Ttl>> {
    prop::option::of(prop::sample::select(vec![Ttl::MIN, Ttl::DEFAULT]))
}

fn open() -> impl Strategy<Value = OpenSession> {
    let anonymous = prop::sample::select(vec!["n1", "n2"]).prop_map(session_name);
    let name = prop_oneof![
        3 => session().prop_map(|name| (name, false)),
        1 => anonymous.prop_map(|name| (name, true)),
    ];
    (name, ttl(), incarnation()).prop_map(|((session, anonymous), ttl, incarnation)| OpenSession {
        ttl,
        anonymous,
        incarnation,
        ..OpenSession::of(session)
    })
}

/// A few require an incarnation of their session, of which some have ended.
pub(super) fn incarnation() -> impl Strategy<Value = Option<SessionId>> {
    prop::option::weighted(0.1, (1..6_u64).prop_map(SessionId))
}

/// An open with a password, as a connection sends it.
fn open_for_a_connection() -> impl Strategy<Value = Command> {
    // Few ids, so that they repeat, and one that only the state machine may assign.
    let id = (0..4_u64).prop_map(|n| SessionId(SessionId::CHOSEN.start - 1 + n));
    (session(), 1..3_u8, prop::option::of(id)).prop_map(|(session, password, id)| {
        let password = Some(Password([password; 16]));
        let open = OpenSession { password, id, ..OpenSession::of(session) };
        Command::OpenSession { open, attempt: None }
    })
}

fn acquire() -> impl Strategy<Value = Command> {
    let plain = (lock(), open(), owner(), attempt(), prop::bool::weighted(0.7)).prop_map(
        |(lock, open, owner, attempt, wait)| {
            let wait_ms = (wait && attempt.is_none()).then_some(5_000);
            Acquire { attempt, wait, wait_ms, ..Acquire::new(lock, open, owner) }
        },
    );
    plain.prop_flat_map(with_options).prop_map(Command::Acquire)
}

fn converted() -> impl Strategy<Value = Mode> {
    prop_oneof![3 => Just(Mode::Exclusive), 2 => prop::sample::select(Mode::ALL.to_vec())]
}

fn release() -> impl Strategy<Value = Command> {
    (lock(), open(), owner(), target()).prop_map(|(lock, open, owner, target)| {
        Command::Release(Release { locks: lock.into(), session: open.session, owner, target })
    })
}

fn limits() -> impl Strategy<Value = Command> {
    let bytes = prop_oneof![2 => Just(Limits::default().tree_bytes_max), 1 => 60..600_u64];
    (2..6_u32, 12..30_u32, 1..4_u32, 2..5_u32, 1..4_u32, 0..6_u32, 0..3_u32, bytes).prop_map(
        |(sessions, znodes, waiters, queue_entries, hold_count, memo, ephemerals, bytes)| {
            Command::SetLimits(Limits {
                tree_bytes_max: bytes,
                sessions_max: sessions,
                znodes_max: znodes,
                waiters_per_lock_max: waiters,
                queue_entries_per_session_max: queue_entries,
                hold_count_max: hold_count,
                data_bytes_max: 64,
                memo_per_session_max: memo,
                ephemerals_per_session_max: ephemerals,
                ..Limits::default()
            })
        },
    )
}

fn session_command() -> impl Strategy<Value = Command> {
    prop_oneof![
        3 => (open(), attempt())
            .prop_map(|(open, attempt)| Command::OpenSession { open, attempt }),
        2 => open_for_a_connection(),
        1 => session().prop_map(|session| Command::RenewSession { session }),
        1 => session()
            .prop_map(|session| Command::CloseSession { session, attachment: None, incarnation: None }),
        1 => session().prop_map(|session| Command::EndSession {
            session, incarnation: None, reason: Reason::new("stuck").unwrap()
        }),
    ]
}

fn sweep() -> impl Strategy<Value = Command> {
    (0..300_u64, 0..4_u32)
        .prop_map(|(before, count_max)| Command::Sweep { empty_before: Stamp(before), count_max })
}

/// The subject of a history, whose steps are the most frequent. Few kinds of steps interact more often than many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum HistorySubject {
    Everything,
    Tree,
    Time,
    Operators,
    Recipes,
}

fn step(subject: HistorySubject) -> impl Strategy<Value = Move> {
    let about = |what: HistorySubject| match subject {
        HistorySubject::Everything => 4,
        subject if subject == what => 16,
        _ => 1,
    };
    let (tree, time, operators, recipes) = (
        about(HistorySubject::Tree),
        about(HistorySubject::Time),
        about(HistorySubject::Operators),
        about(HistorySubject::Recipes),
    );
    prop_oneof![
        160 => acquire().prop_map(Move::Command),
        40 => release().prop_map(Move::Command),
        40 => (any::<usize>(), 0..6_u8).prop_map(|(n, how)| Move::Release(n, how)),
        24 => (any::<usize>(), attempt(), any::<bool>())
            .prop_map(|(n, attempt, wait)| Move::Reacquire(n, attempt, wait)),
        40 => (session(), lock(), any::<bool>())
            .prop_map(|(session, lock, reads)| Move::TreeAcquire(session, lock, reads)),
        time * 33 => timer_step(),
        tree * 30 => multi().prop_map(Move::Multi),
        tree * 4 => sweep().prop_map(Move::Command),
        operators * 60 => operator_move().prop_map(Move::Operator),
        recipes * 24 => recipe().prop_map(Move::Recipe),
        recipes * 3 => (any::<usize>(), prop::bool::weighted(0.8))
            .prop_map(|(n, last)| Move::CancelArrival(n, last)),
        40 => session_command().prop_map(Move::Command),
        tree * 3 => (any::<usize>(), 1..3_u8)
            .prop_map(|(n, password)| Move::Attach(n, password)),
        tree * 2 => (any::<usize>(), any::<bool>())
            .prop_map(|(n, current)| Move::Close(n, current)),
        8 => (any::<usize>(), any::<bool>())
            .prop_map(|(n, current)| Move::CloseByIncarnation(n, current)),
        40 => (any::<usize>(), any::<bool>()).prop_map(|(n, last)| Move::Cancel(n, last)),
        time * 8 => (any::<usize>(), converted(), any::<bool>())
            .prop_map(|(n, mode, wait)| Move::Convert(n, mode, wait)),
        36 => (any::<usize>(), prop::bool::weighted(0.7))
            .prop_map(|(n, right)| Move::Expire(n, right)),
        60 => again(),
        tree * 5 => limits().prop_map(Move::Command),
        16 => Just(Move::Reload),
        4 => Just(Move::Freeze),
    ]
}

/// Steps that concern timers.
fn timer_step() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => any::<usize>().prop_map(Move::AdvanceToTimer),
        8 => any::<usize>().prop_map(Move::LowerLimit),
        5 => (any::<usize>(), session()).prop_map(|(n, session)| Move::UrgentAtTimer(n, session)),
        12 => policy().prop_map(Move::Command),
        3 => lock().prop_map(|lock| Move::Command(Command::RunTimers { lock })),
        10 => (any::<usize>(), prop::bool::weighted(0.3))
            .prop_map(|(n, early)| Move::Due(n, early)),
        6 => any::<usize>().prop_map(Move::Acknowledge),
        5 => (1..50_u64).prop_map(Move::Wait),
    ]
}

/// Repeated commands.
fn again() -> impl Strategy<Value = Move> {
    prop_oneof![
        10 => (0..6_usize).prop_map(Move::Retry),
        1 => (2..8_usize).prop_map(Move::RetryAll),
        1 => (prop_oneof![Just(0), any::<usize>()], 1..20_usize)
            .prop_map(|(from, count)| Move::RetryFrom(from, count)),
    ]
}

/// A history of up to `len` random steps after its beginning.
pub(super) fn history(len: usize) -> impl Strategy<Value = Vec<Move>> {
    let themes = vec![
        HistorySubject::Everything,
        HistorySubject::Tree,
        HistorySubject::Time,
        HistorySubject::Operators,
        HistorySubject::Recipes,
    ];
    prop::sample::select(themes).prop_flat_map(move |subject| history_about(subject, len))
}

/// A history of one subject.
pub(super) fn history_about(
    subject: HistorySubject,
    len: usize,
) -> impl Strategy<Value = Vec<Move>> {
    let steps = prop::collection::vec(step(subject), 1..len);
    (beginning(), steps).prop_map(|(beginning, steps)| beginning.into_iter().chain(steps).collect())
}
