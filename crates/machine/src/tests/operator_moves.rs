//! Random breaks, release requests, hand-overs and multi-locks, and acquires of further locks by existing owners, so
//! that deadlocks arise.

use holdfast_types::*;
use proptest::prelude::*;

use super::history::{attempt, nth_timer, owner, pick, session};
use super::model::{Model, Node, QueueEntry};
use super::script_commands::{self, lock_name, path};

/// One of these calls. Numbers pick among existing items, modulo their count.
#[derive(Clone, Debug)]
pub(super) enum OperatorMove {
    /// Breaks the n-th entry of all queues by ticket, sequence number or token, or breaks all holders of its lock.
    ForceRelease(usize, u8),
    /// Requests a release from the n-th holder, or from all holders of its lock.
    RequestRelease { n: usize, one: bool, named: Option<bool>, deadline_ms: u64, revoke: bool },
    /// The n-th holder hands over to the n-th waiter of its lock, or to a random owner.
    HandOver(usize, usize, bool, SessionName, Owner),
    /// Acquires a multi-lock.
    MultiLock(Box<Acquire>),
    /// Repeats the acquire of the n-th multi-lock entry, perhaps in another mode.
    MultiLockAgain(usize, bool, Option<Mode>),
    /// Releases the n-th multi-lock, or a random one.
    ReleaseMultiLock(usize, Release),
    /// The owner of the n-th entry acquires another lock.
    AnotherLock(usize, LockName, bool),
    /// One holder acquires the lock of another; this closes a cycle if the other waits for the first.
    Cross(usize, u8),
    /// A holder acquires the lock of the n-th timer at its stamp, with the highest priority.
    UrgentAtTimer(usize, usize, Mode),
}

/// An entry with its lock and session.
struct Found<'a> {
    lock: LockName,
    session: SessionName,
    node: &'a Node,
    entry: &'a QueueEntry,
}

impl Found<'_> {
    fn is_of(&self, other: &Self) -> bool {
        self.session == other.session && self.entry.owner == other.entry.owner
    }

    fn acquire(&self, lock: &LockName) -> Acquire {
        let open = script_commands::open(self.session.as_str());
        Acquire::new(lock.clone(), open, self.entry.owner.clone())
    }
}

fn found(model: &Model, keep: impl Fn(&QueueEntry) -> bool) -> Vec<Found<'_>> {
    let count = model.nodes.iter().filter(|node| node.entry.is_some()).count();
    let all = (0..count).filter_map(|n| pick(model, n));
    let kept = all.filter(|(_, entry, _)| keep(entry));
    let found = kept.filter_map(|(node, entry, session)| {
        let lock = path(&node.path).parent()?.as_lock()?;
        Some(Found { lock, session: session.name.clone(), node, entry })
    });
    found.collect()
}

fn nth<T>(all: &[T], n: usize) -> Option<&T> {
    all.get(n % all.len().max(1))
}

fn request_release(
    holder_entry: &Found<'_>,
    (one, named): (bool, Option<bool>),
    (deadline_ms, revoke): (u64, bool),
) -> Command {
    let reason = Some(Reason::new("because").unwrap());
    let holder = one.then(|| (holder_entry.session.clone(), holder_entry.entry.owner.clone()));
    let lock = holder_entry.lock.clone();
    // The token of this hold, or of an earlier one.
    let token = holder_entry.entry.token().zip(named);
    let token = token.map(|(token, current)| FencingToken(token - u64::from(!current)));
    Command::RequestRelease(RequestRelease { lock, holder, token, reason, deadline_ms, revoke })
}

impl OperatorMove {
    /// The minimum stamp of this call.
    pub(super) fn stamp(&self, model: &Model) -> u64 {
        match self {
            OperatorMove::UrgentAtTimer(n, ..) => nth_timer(model, *n).map_or(0, |(at, _)| at),
            _ => 0,
        }
    }

    pub(super) fn command(&self, model: &Model) -> Option<Command> {
        let holders = || found(model, |entry| entry.hold.is_some());
        let multi_lock_of = |n: usize| {
            let all = found(model, |entry| !entry.multi_lock.is_empty());
            let one = nth(&all, n)?;
            let owner = one.entry.owner.clone();
            let locks = LockSet::new(one.entry.multi_lock.clone()).unwrap();
            Some((locks, one.session.clone(), owner, one.entry.mode))
        };
        Some(match self {
            OperatorMove::ForceRelease(n, how) => {
                let all = found(model, |_| true);
                let one = nth(&all, *n)?;
                let last = || model.fence(&one.lock).highest.map(|token| token.0);
                let what = match (how, one.entry.token().or_else(last)) {
                    (0, _) => ForceReleaseTarget::Ticket(Ticket(one.node.stat.czxid.0)),
                    (1, _) => ForceReleaseTarget::Sequence(one.entry.sequence),
                    (2, Some(token)) => ForceReleaseTarget::Token(FencingToken(token)),
                    _ => ForceReleaseTarget::Holders,
                };
                let (lock, reason) = (one.lock.clone(), Reason::new("because").unwrap());
                Command::ForceRelease(ForceRelease { lock, what, reason })
            }
            OperatorMove::RequestRelease { n, one, named, deadline_ms, revoke } => {
                request_release(nth(&holders(), *n)?, (*one, *named), (*deadline_ms, *revoke))
            }
            OperatorMove::HandOver(n, to, exactly, session, owner) => {
                let (all, waiters) = (holders(), found(model, |entry| entry.hold.is_none()));
                let from = nth(&all, *n)?;
                let waiters: Vec<_> = waiters.iter().filter(|w| w.lock == from.lock).collect();
                let to = match nth(&waiters, to / 2).filter(|_| to.is_multiple_of(2)) {
                    Some(waiter) => (waiter.session.clone(), waiter.entry.owner.clone()),
                    None => (session.clone(), owner.clone()),
                };
                let token = from.entry.token().filter(|_| *exactly).map(FencingToken);
                let (lock, from) =
                    (from.lock.clone(), (from.session.clone(), from.entry.owner.clone()));
                Command::HandOver(HandOver { lock, from, to, token })
            }
            OperatorMove::MultiLock(all) => Command::Acquire((**all).clone()),
            OperatorMove::MultiLockAgain(n, wait, other) => {
                let (locks, session, owner, mode) = multi_lock_of(*n)?;
                let mode = other.unwrap_or(mode);
                let (open, wait) = (script_commands::open(session.as_str()), *wait);
                let (wait_ms, mode) = (wait.then_some(7_000), Some(mode));
                Command::Acquire(Acquire {
                    wait,
                    wait_ms,
                    mode,
                    ..Acquire::new(locks, open, owner)
                })
            }
            OperatorMove::ReleaseMultiLock(n, any) => {
                let own = multi_lock_of(*n).filter(|_| !n.is_multiple_of(4));
                let own = own.map(|(locks, session, owner, _)| Release {
                    locks,
                    session,
                    owner,
                    target: any.target,
                });
                Command::Release(own.unwrap_or_else(|| any.clone()))
            }
            OperatorMove::AnotherLock(n, lock, wait) => {
                let all = found(model, |_| true);
                let acquire = nth(&all, *n)?.acquire(lock);
                Command::Acquire(Acquire { wait: *wait, ..acquire })
            }
            OperatorMove::Cross(n, priority) => cross(model, *n, *priority)?,
            OperatorMove::UrgentAtTimer(n, who, mode) => urgent_at_timer(model, *n, *who, *mode)?,
        })
    }
}

fn cross(model: &Model, n: usize, priority: u8) -> Option<Command> {
    let holders = found(model, |entry| entry.hold.is_some());
    let waiters = found(model, |entry| entry.hold.is_none());
    let (mut pairs, mut cycles) = (Vec::new(), Vec::new());
    for one in &holders {
        for other in holders.iter().filter(|other| other.lock != one.lock && !other.is_of(one)) {
            let waits = |waiter: &Found<'_>| waiter.lock == one.lock && waiter.is_of(other);
            if waiters.iter().any(waits) {
                cycles.push((one, other));
            }
            pairs.push((one, other));
        }
    }
    let of = if n.is_multiple_of(2) && !cycles.is_empty() { cycles } else { pairs };
    let (one, other) = nth(&of, n / 2)?;
    Some(Command::Acquire(Acquire {
        options: AcquireOptions { priority, ..AcquireOptions::PLAIN },
        ..one.acquire(&other.lock)
    }))
}

fn urgent_at_timer(model: &Model, n: usize, who: usize, mode: Mode) -> Option<Command> {
    let (_, lock) = nth_timer(model, n)?;
    let holders = found(model, |entry| entry.hold.is_some());
    let holders: Vec<_> = holders.into_iter().filter(|holder| holder.lock != lock).collect();
    let waiters = found(model, |entry| entry.hold.is_none());
    // Prefer a holder of a lock that a waiter of this lock also waits for.
    let is_wanted = |holder: &&Found<'_>| {
        let mut wants = waiters.iter().filter(|waiter| waiter.lock == holder.lock);
        wants.any(|want| waiters.iter().any(|waiter| waiter.lock == lock && waiter.is_of(want)))
    };
    let wanted: Vec<_> = holders.iter().filter(is_wanted).collect();
    let comes = match nth(&wanted, who / 2).filter(|_| !who.is_multiple_of(4)) {
        Some(wanted) => *wanted,
        None => nth(&holders, who / 2)?,
    };
    let plain = comes.acquire(&lock);
    let mode = model.view(&lock).policy.limit.is_none().then_some(mode);
    Some(Command::Acquire(Acquire {
        mode,
        options: AcquireOptions { priority: AcquireOptions::PRIORITY_MAX, ..AcquireOptions::PLAIN },
        ..plain
    }))
}

fn locks() -> impl Strategy<Value = LockSet> {
    let sets =
        vec!["a b", "a b", "a a/c", "a s", "b s", "a/c b", "a a/c b", "a b s", "b", "a a/c b s"];
    prop::sample::select(sets)
        .prop_map(|names| LockSet::new(names.split_whitespace().map(lock_name).collect()).unwrap())
}

fn multi_lock() -> impl Strategy<Value = Acquire> {
    let modes = prop_oneof![
        12 => Just(Mode::Exclusive), 8 => Just(Mode::Shared), 1 => Just(Mode::Upgradable)
    ];
    let hold = prop::option::weighted(0.2, prop_oneof![20 => 5..80_u64, 1 => Just(0)]);
    let who = (session(), owner(), attempt());
    (locks(), who, prop::bool::weighted(0.8), any::<bool>(), modes, hold).prop_map(
        |(locks, (session, owner, attempt), wait, ends, mode, max_hold_ms)| {
            let (open, wait_ms) = (script_commands::open(session.as_str()), ends.then_some(5_000));
            let options = AcquireOptions { max_hold_ms, ..AcquireOptions::PLAIN };
            let plain = Acquire::new(locks, open, owner);
            Acquire { wait, wait_ms, mode: Some(mode), options, attempt, ..plain }
        },
    )
}

fn release_multi_lock() -> impl Strategy<Value = Release> {
    (locks(), session(), owner(), attempt()).prop_map(|(locks, session, owner, attempt)| {
        let target = attempt.map_or(ReleaseTarget::AnyEntry, ReleaseTarget::Attempt);
        Release { locks, session, owner, target }
    })
}

/// A random operator call or multi-lock call.
pub(super) fn operator_move() -> impl Strategy<Value = OperatorMove> {
    let n = any::<usize>;
    let modes = prop::sample::select(vec![Mode::Exclusive, Mode::Exclusive, Mode::Shared]);
    let lock = prop::sample::select(vec!["a", "a/c", "b", "s"]).prop_map(lock_name);
    let deadline = prop_oneof![30 => 1..40_u64, 1 => Just(0)];
    prop_oneof![
        3 => (n(), 0..4_u8).prop_map(|(n, how)| OperatorMove::ForceRelease(n, how)),
        5 => (n(), any::<bool>(), prop::option::of(any::<bool>()), deadline, any::<bool>()).prop_map(
            |(n, one, named, deadline_ms, revoke)| {
                OperatorMove::RequestRelease { n, one, named, deadline_ms, revoke }
            }
        ),
        10 => (n(), n(), any::<bool>(), session(), owner()).prop_map(
            |(n, to, exactly, session, owner)| OperatorMove::HandOver(n, to, exactly, session, owner)
        ),
        16 => multi_lock().prop_map(|all| OperatorMove::MultiLock(all.into())),
        3 => (n(), any::<bool>(), prop::option::weighted(0.3, modes.clone())).prop_map(
            |(n, wait, other)| OperatorMove::MultiLockAgain(n, wait, other)
        ),
        5 => (n(), release_multi_lock()).prop_map(|(n, any)| OperatorMove::ReleaseMultiLock(n, any)),
        6 => (n(), lock, prop::bool::weighted(0.9))
            .prop_map(|(n, lock, wait)| OperatorMove::AnotherLock(n, lock, wait)),
        10 => (n(), prop_oneof![2 => Just(0), 1 => 1..10_u8])
            .prop_map(|(n, priority)| OperatorMove::Cross(n, priority)),
        4 => (n(), n(), modes).prop_map(|(n, who, mode)| OperatorMove::UrgentAtTimer(n, who, mode)),
    ]
}
