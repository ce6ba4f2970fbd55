//! Random histories: what may happen next, said so that it always means something in the state it meets.

use holdfast_types::*;
use proptest::prelude::*;

use super::acquire_strategies::{lock, policy, wished};
use super::changes::{Change, multi};
use super::history_start::beginning;
use super::model::{Model, Node, Place, Session};
use super::operator_moves::{OperatorMove, operator_move};
use super::recipe::history::recipe;
use super::script_commands::{create, of_session, path, session_name};

/// One step of a history. Numbers pick from what there is.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Command(Command),
    /// Changes znodes.
    Multi(Change),
    /// A latch, a barrier or a counter is used.
    Recipe(Recipe),
    /// The n-th wait at a barrier ends, as asked for last or before.
    EndArrival(usize, bool),
    /// Somebody deals with places of others, or with several locks.
    Deal(OperatorMove),
    /// Cancels the n-th place of all queues, as asked first or last.
    Cancel(usize, bool),
    /// The n-th holder asks to hold in another mode.
    Convert(usize, Mode, bool),
    /// Expires the n-th session, with the present generation or one before.
    Expire(usize, bool),
    /// Moves the n-th session to another connection, with a password.
    Attach(usize, u8),
    /// Closes the n-th session, through its connection or one before.
    Close(usize, bool),
    /// Closes the n-th session that is or was open by its incarnation, or by the one before.
    CloseExactly(usize, bool),
    /// The n-th place of all queues is given back.
    GiveBack(usize, u8),
    /// The n-th place of all queues is asked for again, with an attempt or a wish to wait or without.
    AskAgain(usize, Option<Attempt>, bool),
    /// A client of the tree comes to a lock.
    Contend(SessionName, LockName, bool),
    /// The limit of a semaphore falls below what the n-th waiter with several permits asks for.
    Lower(usize),
    /// Somebody urgent who does not want to wait comes just when something of the n-th lock is due.
    Rush(usize, SessionName),
    /// A session that lost a lock, or one of the last that ended, takes note of it.
    Acknowledge(usize),
    /// The leader's clockwork comes for the n-th lock of which something is due: just in time, or a moment too early.
    Due(usize, bool),
    /// Time passes until something of the n-th lock is due, and nobody comes for it.
    Until(usize),
    /// Sends the n-th command before again.
    Retry(usize),
    /// Sends the last commands again, in their order.
    RetryAll(usize),
    /// Sends so many commands again from the n-th on, in their order; often from the first.
    RetryFrom(usize, usize),
    /// Goes through a snapshot.
    Reload,
    /// Keeps a frozen view, to be looked at in the end.
    Freeze,
    /// Time passes.
    Wait(u64),
}

impl Move {
    /// The stamp that this step needs at least.
    pub(super) fn stamp(&self, model: &Model) -> u64 {
        match self {
            Move::Due(n, early) => {
                due(model, *n).map_or(0, |(at, _)| at.saturating_sub(u64::from(*early)))
            }
            Move::Until(n) | Move::Rush(n, _) => due(model, *n).map_or(0, |(at, _)| at),
            Move::Deal(operator_move) => operator_move.stamp(model),
            _ => 0,
        }
    }

    /// The command of this step in this state; none if it is no command, or nothing is there to pick.
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
            Move::Deal(deal) => deal.command(model).map(|command| numbered(model, command)),
            Move::Recipe(recipe) => Some(Command::Recipe(recipe.clone())),
            Move::EndArrival(n, last) => {
                let waits = model.recipes.waits();
                let (give_up, _) = waits.get(n % waits.len().max(1))?.clone();
                let asked = Revision(give_up.asked.0 - u64::from(!last));
                Some(Command::Recipe(Recipe::CancelArrival(CancelArrival { asked, ..give_up })))
            }
            Move::Cancel(n, last) => cancel(model, *n, *last),
            Move::Convert(n, mode, wait) => convert(model, *n, *mode, *wait),
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
            Move::CloseExactly(n, current) => close_exactly(model, *n, *current),
            Move::Close(n, current) => {
                let session = attached(*n).or_else(|| session(*n))?;
                let attachment = session.attachment.map(|at| Revision(at - u64::from(!current)));
                let (session, incarnation) = (session.name.clone(), None);
                Some(Command::CloseSession { session, attachment, incarnation })
            }
            Move::GiveBack(n, how) => give_back(model, *n, *how),
            Move::AskAgain(n, attempt, wait) => {
                ask_again(model, *n, *attempt, *wait).map(|command| numbered(model, command))
            }
            Move::Contend(session, lock, reads) => {
                let name = if *reads { "x__READ__" } else { "m-" };
                let at = format!("/locks/{lock}/{name}");
                let create = create(&at, CreateKind::Ephemeral, true, Vec::new());
                Some(super::script_commands::multi(of_session(session.as_str()), vec![create]))
            }
            Move::Lower(n) => lower(model, *n),
            Move::Rush(n, session) => rush(model, *n, session),
            Move::Acknowledge(n) => {
                let ended = model.ended.iter().rev().take(2).map(|ended| &ended.name);
                let known: Vec<_> = model.losers().into_iter().chain(ended).collect();
                let session = (*known.get(n % known.len().max(1))?).clone();
                Some(Command::CloseSession { session, attachment: None, incarnation: None })
            }
            Move::Due(n, _) => due(model, *n).map(|(_, lock)| Command::Due { lock }),
            Move::Retry(n) => before.get(before.len().checked_sub(1 + n)?).cloned(),
            Move::Until(_)
            | Move::RetryAll(_)
            | Move::RetryFrom(..)
            | Move::Reload
            | Move::Freeze
            | Move::Wait(_) => None,
        }
    }
}

fn rush(model: &Model, n: usize, session: &SessionName) -> Option<Command> {
    let (_, lock) = due(model, n)?;
    let open = super::script_commands::open(session.as_str());
    let plain = Acquire::new(lock, open, Owner::new("t1").unwrap());
    let options = AcquireOptions { priority: 9, ..AcquireOptions::PLAIN };
    Some(Command::Acquire(Acquire { wait: false, options, ..plain }))
}

fn close_exactly(model: &Model, n: usize, current: bool) -> Option<Command> {
    let ended = model.ended.iter().map(|ended| (&ended.name, ended.id));
    let live = model.sessions.iter().map(|live| (&live.name, live.id));
    let all: Vec<_> = live.chain(ended).collect();
    let (session, id) = *all.get(n % all.len().max(1))?;
    let incarnation = Some(SessionId(if current { id } else { id.saturating_sub(1) }));
    Some(Command::CloseSession { session: session.clone(), attachment: None, incarnation })
}

/// The n-th lock of which something is due, and when.
pub(super) fn due(model: &Model, n: usize) -> Option<(u64, LockName)> {
    let dues = model.dues();
    dues.get(n % dues.len().max(1)).cloned()
}

fn lower(model: &Model, n: usize) -> Option<Command> {
    let wants = |node: &&Node| {
        node.place.as_ref().is_some_and(|place| place.hold.is_none() && place.permits > 1)
    };
    let waiters: Vec<_> = model.nodes.iter().filter(wants).collect();
    let node = waiters.get(n % waiters.len().max(1))?;
    let limit = Some(Some(node.place.as_ref()?.permits - 1));
    let change = PolicyChange { limit, ..PolicyChange::default() };
    Some(Command::SetPolicy { lock: node_parent(&node.path).as_lock()?, change })
}

fn ask_again(model: &Model, n: usize, attempt: Option<Attempt>, wait: bool) -> Option<Command> {
    let (node, place, session) = pick(model, n)?;
    let open = super::script_commands::open(session.name.as_str());
    let plain = Acquire::new(node_parent(&node.path).as_lock()?, open, place.owner.clone());
    Some(Command::Acquire(Acquire { attempt, wait, ..plain }))
}

/// The n-th place of all queues.
pub(super) fn pick(model: &Model, n: usize) -> Option<(&Node, &Place, &Session)> {
    let places: Vec<_> = model.nodes.iter().filter(|node| node.place.is_some()).collect();
    let node = places.get(n % places.len().max(1))?;
    let owner = node.stat.ephemeral_owner;
    let session = model.sessions.iter().find(|session| session.id as i64 == owner)?;
    Some((node, node.place.as_ref()?, session))
}

/// The n-th place is given up: as such, by its oldest or newest attempt, or by its token.
fn give_back(model: &Model, n: usize, how: u8) -> Option<Command> {
    let (node, place, session) = pick(model, n)?;
    let (lock, session) = (node_parent(&node.path).as_lock()?, session.name.clone());
    let target = match (how, place.token()) {
        (0, _) => ReleaseTarget::Attempt(*place.attempts.iter().min()?),
        (1, _) => ReleaseTarget::Attempt(*place.attempts.iter().max()?),
        (2, Some(token)) => ReleaseTarget::Hold(FencingToken(token)),
        _ => ReleaseTarget::AnyPlace,
    };
    let target = match target {
        ReleaseTarget::Attempt(Attempt::UNNAMED) => ReleaseTarget::AnyPlace,
        named => named,
    };
    Some(Command::Release(Release {
        locks: lock.into(),
        session,
        owner: place.owner.clone(),
        target,
    }))
}

fn cancel(model: &Model, n: usize, last: bool) -> Option<Command> {
    let count = model.nodes.iter().filter(|node| node.place.is_some()).count();
    let asked_again =
        |n: &usize| pick(model, *n).is_some_and(|(node, place, _)| place.asked > node.stat.czxid.0);
    let again: Vec<usize> = (0..count).filter(|n| !last && asked_again(n)).collect();
    let n = again.get(n % again.len().max(1)).copied().unwrap_or(n);
    let (node, place, session) = pick(model, n)?;
    let ticket = node.stat.czxid.0;
    Some(Command::Cancel(Cancel {
        lock: node_parent(&node.path).as_lock()?,
        session: session.name.clone(),
        owner: place.owner.clone(),
        ticket: Ticket(ticket),
        asked: Revision(if last { place.asked } else { ticket }),
    }))
}

fn convert(model: &Model, n: usize, mode: Mode, wait: bool) -> Option<Command> {
    let any = n.is_multiple_of(5);
    let holds = |place: &Place| place.hold.is_some() && (any || place.held != Mode::Exclusive);
    let holds = |node: &&Node| node.place.as_ref().is_some_and(holds);
    let mut holders: Vec<_> = model.nodes.iter().filter(holds).collect();
    let waited_for = |node: &&Node| {
        node_parent(&node.path).as_lock().is_some_and(|lock| !model.waiters(&lock).is_empty())
    };
    if any && holders.iter().any(waited_for) {
        holders.retain(waited_for);
    }
    if n.is_multiple_of(2) {
        // There is more to convert to for the upgradable one.
        holders.sort_by_key(|node| node.place.as_ref().unwrap().held != Mode::Upgradable);
        holders.truncate(1);
    }
    let node = holders.get(n / 2 % holders.len().max(1))?;
    let owner = node.stat.ephemeral_owner;
    let session = model.sessions.iter().find(|session| session.id as i64 == owner)?;
    let lock = node_parent(&node.path).as_lock()?;
    let open = super::script_commands::open(session.name.as_str());
    let plain = Acquire::new(lock, open, node.place.as_ref()?.owner.clone());
    Some(Command::Acquire(Acquire { mode: Some(mode), wait, ..plain }))
}

fn node_parent(of: &str) -> ZnodePath {
    path(of).parent().unwrap()
}

pub(super) fn session() -> impl Strategy<Value = SessionName> {
    prop::sample::select(vec!["s1", "s2", "s3", "s4"]).prop_map(session_name)
}

pub(super) fn owner() -> impl Strategy<Value = Owner> {
    prop::sample::select(vec!["-", "-", "t1"]).prop_map(|name| Owner::new(name).unwrap())
}

/// [`numbered`] says what these numbers stand for.
pub(super) fn attempt() -> impl Strategy<Value = Option<Attempt>> {
    prop::option::of((1..=ATTEMPTS).prop_map(Attempt))
}

fn target() -> impl Strategy<Value = ReleaseTarget> {
    prop_oneof![
        3 => Just(ReleaseTarget::AnyPlace),
        3 => (1..=ATTEMPTS).prop_map(|n| ReleaseTarget::Attempt(Attempt(n))),
        1 => (0..3_u64).prop_map(|n| ReleaseTarget::Hold(FencingToken(n))),
    ]
}

const ATTEMPTS: u64 = 5;

/// The numbers of a random command as a client would choose them: attempts around the newest one of the session, so that
/// some are new and some are over, and one of the last tokens.
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
        Command::Release(release) => {
            let target = match release.target {
                ReleaseTarget::AnyPlace => ReleaseTarget::AnyPlace,
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
    (name, ttl()).prop_map(|((session, anonymous), ttl)| {
        let labels = Labels::default();
        OpenSession { session, ttl, anonymous, labels, password: None }
    })
}

/// As a connection opens one.
fn open_for_a_connection() -> impl Strategy<Value = Command> {
    (session(), 1..3_u8).prop_map(|(session, password)| {
        let (labels, password) = (Labels::default(), Some(Password([password; 16])));
        let (ttl, anonymous) = (None, false);
        Command::OpenSession(OpenSession { session, ttl, anonymous, labels, password })
    })
}

fn acquire() -> impl Strategy<Value = Command> {
    let plain = (lock(), open(), owner(), attempt(), prop::bool::weighted(0.7)).prop_map(
        |(lock, open, owner, attempt, wait)| {
            let wait_ms = (wait && attempt.is_none()).then_some(5_000);
            Acquire { attempt, wait, wait_ms, ..Acquire::new(lock, open, owner) }
        },
    );
    plain.prop_flat_map(wished).prop_map(Command::Acquire)
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
        |(sessions, znodes, waiters, contenders, entries, memo, ephemerals, bytes)| {
            Command::SetLimits(Limits {
                tree_bytes_max: bytes,
                sessions_max: sessions,
                znodes_max: znodes,
                waiters_per_lock_max: waiters,
                queue_entries_per_session_max: contenders,
                hold_count_max: entries,
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
        3 => open().prop_map(Command::OpenSession),
        2 => open_for_a_connection(),
        1 => (session(), ttl())
            .prop_map(|(session, ttl)| Command::RenewSession { session, ttl }),
        1 => session()
            .prop_map(|session| Command::CloseSession { session, attachment: None, incarnation: None }),
    ]
}

fn sweep() -> impl Strategy<Value = Command> {
    (0..300_u64, 0..4_u32)
        .prop_map(|(before, count_max)| Command::Sweep { empty_before: Stamp(before), count_max })
}

/// What a history is about: what happens often in it. Few things at a time meet each other more often than many.
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
    let (tree, time, dealings, recipes) = (
        about(HistorySubject::Tree),
        about(HistorySubject::Time),
        about(HistorySubject::Operators),
        about(HistorySubject::Recipes),
    );
    prop_oneof![
        160 => acquire().prop_map(Move::Command),
        40 => release().prop_map(Move::Command),
        40 => (any::<usize>(), 0..5_u8).prop_map(|(n, how)| Move::GiveBack(n, how)),
        24 => (any::<usize>(), attempt(), any::<bool>())
            .prop_map(|(n, attempt, wait)| Move::AskAgain(n, attempt, wait)),
        40 => (session(), lock(), any::<bool>())
            .prop_map(|(session, lock, reads)| Move::Contend(session, lock, reads)),
        time * 33 => timely(),
        tree * 30 => multi().prop_map(Move::Multi),
        tree * 4 => sweep().prop_map(Move::Command),
        dealings * 60 => operator_move().prop_map(Move::Deal),
        recipes * 24 => recipe().prop_map(Move::Recipe),
        recipes * 3 => (any::<usize>(), prop::bool::weighted(0.8))
            .prop_map(|(n, last)| Move::EndArrival(n, last)),
        40 => session_command().prop_map(Move::Command),
        tree * 3 => (any::<usize>(), 1..3_u8)
            .prop_map(|(n, password)| Move::Attach(n, password)),
        tree * 2 => (any::<usize>(), any::<bool>())
            .prop_map(|(n, current)| Move::Close(n, current)),
        8 => (any::<usize>(), any::<bool>())
            .prop_map(|(n, current)| Move::CloseExactly(n, current)),
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

/// What has to do with time.
fn timely() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => any::<usize>().prop_map(Move::Until),
        8 => any::<usize>().prop_map(Move::Lower),
        5 => (any::<usize>(), session()).prop_map(|(n, session)| Move::Rush(n, session)),
        12 => policy().prop_map(Move::Command),
        3 => lock().prop_map(|lock| Move::Command(Command::Due { lock })),
        10 => (any::<usize>(), prop::bool::weighted(0.3))
            .prop_map(|(n, early)| Move::Due(n, early)),
        6 => any::<usize>().prop_map(Move::Acknowledge),
        5 => (1..50_u64).prop_map(Move::Wait),
    ]
}

/// Commands that are sent again.
fn again() -> impl Strategy<Value = Move> {
    prop_oneof![
        10 => (0..6_usize).prop_map(Move::Retry),
        1 => (2..8_usize).prop_map(Move::RetryAll),
        1 => (prop_oneof![Just(0), any::<usize>()], 1..20_usize)
            .prop_map(|(from, count)| Move::RetryFrom(from, count)),
    ]
}

/// A history of up to `len` steps, and how it begins.
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

/// One that is about something.
pub(super) fn history_about(
    subject: HistorySubject,
    len: usize,
) -> impl Strategy<Value = Vec<Move>> {
    let steps = prop::collection::vec(step(subject), 1..len);
    (beginning(), steps).prop_map(|(beginning, steps)| beginning.into_iter().chain(steps).collect())
}
