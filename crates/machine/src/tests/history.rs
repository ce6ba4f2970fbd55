//! Random histories: what may happen next, said so that it always means something in the state it meets.

use holdfast_types::*;
use proptest::prelude::*;

use super::changes::{Change, multi};
use super::model::{Model, Node, Place};
use super::words::{lock_name, path, session_name};

/// One step of a history. Numbers pick from what there is.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Command(Command),
    /// Changes znodes.
    Multi(Change),
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
    /// Sends the n-th command before again.
    Retry(usize),
    /// Goes through a snapshot.
    Reload,
    /// Keeps a frozen view, to be looked at in the end.
    Freeze,
    /// Time passes.
    Wait(u64),
}

impl Move {
    /// The command of this step in this state; none if it is no command, or nothing is there to pick.
    pub(super) fn command(&self, model: &Model, before: &[Command]) -> Option<Command> {
        let session = |n: usize| model.sessions.get(n % model.sessions.len().max(1));
        match self {
            Move::Command(command) => Some(command.clone()),
            Move::Multi(change) => Some(change.command(model)),
            Move::Cancel(n, last) => cancel(model, *n, *last),
            Move::Convert(n, mode, wait) => convert(model, *n, *mode, *wait),
            Move::Expire(n, current) => {
                let session = session(*n)?;
                let generation = session.generation - u64::from(!current);
                Some(Command::ExpireSession { session: SessionId(session.id), generation })
            }
            Move::Attach(n, password) => {
                let (session, ttl) = (SessionId(session(*n)?.id), Ttl::DEFAULT);
                let password = Password([*password; 16]);
                Some(Command::AttachSession { session, password, ttl })
            }
            Move::Close(n, current) => {
                let session = session(*n)?;
                let attachment = session.attachment.map(|at| Revision(at - u64::from(!current)));
                Some(Command::CloseSession { session: session.name.clone(), attachment })
            }
            Move::Retry(n) => before.get(before.len().checked_sub(1 + n)?).cloned(),
            Move::Reload | Move::Freeze | Move::Wait(_) => None,
        }
    }
}

fn cancel(model: &Model, n: usize, last: bool) -> Option<Command> {
    let places: Vec<_> = model.nodes.iter().filter(|node| node.place.is_some()).collect();
    let node = places.get(n % places.len().max(1))?;
    let place = node.place.as_ref()?;
    let owner = node.stat.ephemeral_owner;
    let session = model.sessions.iter().find(|session| session.id as i64 == owner)?;
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
    let holds = |place: &Place| place.hold.is_some() && place.held != Mode::Exclusive;
    let holds = |node: &&Node| node.place.as_ref().is_some_and(holds);
    let holders: Vec<_> = model.nodes.iter().filter(holds).collect();
    let node = holders.get(n % holders.len().max(1))?;
    let owner = node.stat.ephemeral_owner;
    let session = model.sessions.iter().find(|session| session.id as i64 == owner)?;
    let lock = node_parent(&node.path).as_lock()?;
    let open = super::words::open(session.name.as_str());
    let plain = Acquire::new(lock, open, node.place.as_ref()?.owner.clone());
    Some(Command::Acquire(Acquire { mode: Some(mode), wait, ..plain }))
}

fn node_parent(of: &str) -> ZnodePath {
    path(of).parent().unwrap()
}

fn lock() -> impl Strategy<Value = LockName> {
    prop::sample::select(vec!["a", "b", "a/c"]).prop_map(lock_name)
}

pub(super) fn session() -> impl Strategy<Value = SessionName> {
    prop::sample::select(vec!["s1", "s2", "s3", "s4"]).prop_map(session_name)
}

fn owner() -> impl Strategy<Value = Owner> {
    prop::sample::select(vec!["-", "-", "t1"]).prop_map(|name| Owner::new(name).unwrap())
}

fn entry() -> impl Strategy<Value = Option<EntryId>> {
    let names = prop::sample::select(vec!["x", "y", "-"]);
    prop::option::of(names.prop_map(|name| EntryId::new(name).unwrap()))
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
    (lock(), open(), owner(), entry(), prop::bool::weighted(0.8), mode()).prop_map(
        |(lock, open, owner, entry, wait, mode)| {
            let wait_ms = (wait && entry.is_none()).then_some(5_000);
            let plain = Acquire::new(lock, open, owner);
            Command::Acquire(Acquire { entry, wait, wait_ms, mode, ..plain })
        },
    )
}

fn mode() -> impl Strategy<Value = Option<Mode>> {
    let [exclusive, shared, upgradable] = Mode::ALL.map(Some);
    prop::sample::select(vec![
        None, None, exclusive, shared, shared, shared, upgradable, upgradable,
    ])
}

fn release() -> impl Strategy<Value = Command> {
    (lock(), open(), owner(), entry()).prop_map(|(lock, open, owner, entry)| {
        Command::Release(Release { lock, session: open.session, owner, entry })
    })
}

fn limits() -> impl Strategy<Value = Command> {
    (2..6_u32, 12..26_u32, 1..4_u32, 2..5_u32, 1..4_u32, 0..6_u32, 0..4_u32).prop_map(
        |(sessions, znodes, waiters, contenders, entries, memo, ephemerals)| {
            Command::SetLimits(Limits {
                sessions_max: sessions,
                znodes_max: znodes,
                waiters_per_lock_max: waiters,
                contenders_per_session_max: contenders,
                entries_per_hold_max: entries,
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
        1 => open_for_a_connection(),
        1 => (session(), ttl())
            .prop_map(|(session, ttl)| Command::RenewSession { session, ttl }),
        1 => session()
            .prop_map(|session| Command::CloseSession { session, attachment: None }),
    ]
}

fn sweep() -> impl Strategy<Value = Command> {
    (0..300_u64, 0..4_u32)
        .prop_map(|(before, count_max)| Command::Sweep { empty_before: Stamp(before), count_max })
}

fn step() -> impl Strategy<Value = Move> {
    prop_oneof![
        30 => acquire().prop_map(Move::Command),
        15 => release().prop_map(Move::Command),
        30 => multi().prop_map(Move::Multi),
        10 => session_command().prop_map(Move::Command),
        3 => (any::<usize>(), 1..3_u8).prop_map(|(n, password)| Move::Attach(n, password)),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(n, current)| Move::Close(n, current)),
        8 => (any::<usize>(), any::<bool>()).prop_map(|(n, last)| Move::Cancel(n, last)),
        8 => (any::<usize>(), prop::sample::select(Mode::ALL.to_vec()), any::<bool>())
            .prop_map(|(n, mode, wait)| Move::Convert(n, mode, wait)),
        6 => (any::<usize>(), prop::bool::weighted(0.7))
            .prop_map(|(n, right)| Move::Expire(n, right)),
        12 => (0..6_usize).prop_map(Move::Retry),
        4 => sweep().prop_map(Move::Command),
        1 => limits().prop_map(Move::Command),
        4 => Just(Move::Reload),
        1 => Just(Move::Freeze),
        5 => (1..50_u64).prop_map(Move::Wait),
    ]
}

/// A history of up to `len` steps.
pub(super) fn history(len: usize) -> impl Strategy<Value = Vec<Move>> {
    prop::collection::vec(step(), 1..len)
}
