//! Random dealings with places: they are broken, asked for and handed over, several are asked for at once, and owners
//! that have a place somewhere come to other locks, so that they come to wait for each other.

use holdfast_types::*;
use proptest::prelude::*;

use super::history::{attempt, due, owner, pick, session};
use super::model::{Model, Node, Place};
use super::script_commands::{self, lock_name, path};

/// One of them. Numbers pick from what there is.
#[derive(Clone, Debug)]
pub(super) enum OperatorMove {
    /// An operator breaks the n-th place of all queues: by its ticket, its number or its token, or all holders beside it.
    Break(usize, u8),
    /// The n-th holder is asked to give back, or all of its lock.
    Ask { n: usize, one: bool, deadline_ms: u64, revoke: bool },
    /// The n-th holder hands over to the n-th waiter of its lock, or to somebody.
    Hand(usize, usize, bool, SessionName, Owner),
    /// Several locks are asked for.
    Several(Acquire),
    /// Whoever has the n-th place that was asked for with others asks for them again, perhaps in another mode.
    SeveralAgain(usize, bool, Option<Mode>),
    /// Several locks are given back: those of the n-th place that was asked for with others, or any.
    GiveBack(usize, Release),
    /// Whoever has the n-th place comes to another lock.
    Also(usize, LockName, bool),
    /// Of two holders one comes to the other's lock; if the other waits for the one, a circle closes.
    Cross(usize, u8),
    /// Of those who hold something one comes to the n-th lock that is due, more urgent than all, just in time.
    RushIn(usize, usize, Mode),
}

/// A place with its lock and who has it.
struct Found<'a> {
    lock: LockName,
    session: SessionName,
    node: &'a Node,
    place: &'a Place,
}

impl Found<'_> {
    fn is_of(&self, other: &Self) -> bool {
        self.session == other.session && self.place.owner == other.place.owner
    }

    fn acquire(&self, lock: &LockName) -> Acquire {
        let open = script_commands::open(self.session.as_str());
        Acquire::new(lock.clone(), open, self.place.owner.clone())
    }
}

fn found(model: &Model, keep: impl Fn(&Place) -> bool) -> Vec<Found<'_>> {
    let count = model.nodes.iter().filter(|node| node.place.is_some()).count();
    let all = (0..count).filter_map(|n| pick(model, n));
    let kept = all.filter(|(_, place, _)| keep(place));
    let found = kept.filter_map(|(node, place, session)| {
        let lock = path(&node.path).parent()?.as_lock()?;
        Some(Found { lock, session: session.name.clone(), node, place })
    });
    found.collect()
}

fn nth<T>(all: &[T], n: usize) -> Option<&T> {
    all.get(n % all.len().max(1))
}

fn ask(asked: &Found<'_>, one: bool, (deadline_ms, revoke): (u64, bool)) -> Command {
    let reason = Some(Reason::new("because").unwrap());
    let holder = one.then(|| (asked.session.clone(), asked.place.owner.clone()));
    let lock = asked.lock.clone();
    Command::RequestRelease(RequestRelease { lock, holder, reason, deadline_ms, revoke })
}

impl OperatorMove {
    /// The stamp that this needs at least.
    pub(super) fn stamp(&self, model: &Model) -> u64 {
        match self {
            OperatorMove::RushIn(n, ..) => due(model, *n).map_or(0, |(at, _)| at),
            _ => 0,
        }
    }

    pub(super) fn command(&self, model: &Model) -> Option<Command> {
        let holders = || found(model, |place| place.hold.is_some());
        let together = |n: usize| {
            let all = found(model, |place| !place.bundle.is_empty());
            let one = nth(&all, n)?;
            let owner = one.place.owner.clone();
            let locks = LockSet::new(one.place.bundle.clone()).unwrap();
            Some((locks, one.session.clone(), owner, one.place.mode))
        };
        Some(match self {
            OperatorMove::Break(n, how) => {
                let all = found(model, |_| true);
                let one = nth(&all, *n)?;
                let what = match (how, one.place.token()) {
                    (0, _) => BreakTarget::Ticket(Ticket(one.node.stat.czxid.0)),
                    (1, _) => BreakTarget::Sequence(one.place.sequence),
                    (2, Some(token)) => BreakTarget::Token(FencingToken(token)),
                    _ => BreakTarget::Holders,
                };
                let (lock, reason) = (one.lock.clone(), Reason::new("because").unwrap());
                Command::Break(Break { lock, what, reason })
            }
            OperatorMove::Ask { n, one, deadline_ms, revoke } => {
                ask(nth(&holders(), *n)?, *one, (*deadline_ms, *revoke))
            }
            OperatorMove::Hand(n, to, exactly, session, owner) => {
                let (all, waiters) = (holders(), found(model, |place| place.hold.is_none()));
                let from = nth(&all, *n)?;
                let waiters: Vec<_> = waiters.iter().filter(|w| w.lock == from.lock).collect();
                let to = match nth(&waiters, to / 2).filter(|_| to.is_multiple_of(2)) {
                    Some(waiter) => (waiter.session.clone(), waiter.place.owner.clone()),
                    None => (session.clone(), owner.clone()),
                };
                let token = from.place.token().filter(|_| *exactly).map(FencingToken);
                let (lock, from) =
                    (from.lock.clone(), (from.session.clone(), from.place.owner.clone()));
                Command::HandOver(HandOver { lock, from, to, token })
            }
            OperatorMove::Several(all) => Command::Acquire(all.clone()),
            OperatorMove::SeveralAgain(n, wait, other) => {
                let (locks, session, owner, mode) = together(*n)?;
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
            OperatorMove::GiveBack(n, any) => {
                let own = together(*n).filter(|_| !n.is_multiple_of(4));
                let own = own.map(|(locks, session, owner, _)| Release {
                    locks,
                    session,
                    owner,
                    target: any.target,
                });
                Command::Release(own.unwrap_or_else(|| any.clone()))
            }
            OperatorMove::Also(n, lock, wait) => {
                let all = found(model, |_| true);
                let acquire = nth(&all, *n)?.acquire(lock);
                Command::Acquire(Acquire { wait: *wait, ..acquire })
            }
            OperatorMove::Cross(n, priority) => cross(model, *n, *priority)?,
            OperatorMove::RushIn(n, who, mode) => rush_in(model, *n, *who, *mode)?,
        })
    }
}

fn cross(model: &Model, n: usize, priority: u8) -> Option<Command> {
    let holders = found(model, |place| place.hold.is_some());
    let waiters = found(model, |place| place.hold.is_none());
    let (mut pairs, mut circles) = (Vec::new(), Vec::new());
    for one in &holders {
        for other in holders.iter().filter(|other| other.lock != one.lock && !other.is_of(one)) {
            let waits = |waiter: &Found<'_>| waiter.lock == one.lock && waiter.is_of(other);
            if waiters.iter().any(waits) {
                circles.push((one, other));
            }
            pairs.push((one, other));
        }
    }
    let of = if n.is_multiple_of(2) && !circles.is_empty() { circles } else { pairs };
    let (one, other) = nth(&of, n / 2)?;
    Some(Command::Acquire(Acquire {
        options: AcquireOptions { priority, ..AcquireOptions::PLAIN },
        ..one.acquire(&other.lock)
    }))
}

fn rush_in(model: &Model, n: usize, who: usize, mode: Mode) -> Option<Command> {
    let (_, lock) = due(model, n)?;
    let holders = found(model, |place| place.hold.is_some());
    let holders: Vec<_> = holders.into_iter().filter(|holder| holder.lock != lock).collect();
    let waiters = found(model, |place| place.hold.is_none());
    // Somebody who waits for the lock may wait for what the one who comes holds.
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

fn several() -> impl Strategy<Value = Acquire> {
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

fn given_back() -> impl Strategy<Value = Release> {
    (locks(), session(), owner(), attempt()).prop_map(|(locks, session, owner, attempt)| {
        let target = attempt.map_or(ReleaseTarget::AnyPlace, ReleaseTarget::Attempt);
        Release { locks, session, owner, target }
    })
}

/// A call that deals with entries of others, or with several locks, as a step of a history.
pub(super) fn operator_move() -> impl Strategy<Value = OperatorMove> {
    let n = any::<usize>;
    let modes = prop::sample::select(vec![Mode::Exclusive, Mode::Exclusive, Mode::Shared]);
    let lock = prop::sample::select(vec!["a", "a/c", "b", "s"]).prop_map(lock_name);
    let deadline = prop_oneof![30 => 1..40_u64, 1 => Just(0)];
    prop_oneof![
        3 => (n(), 0..4_u8).prop_map(|(n, how)| OperatorMove::Break(n, how)),
        5 => (n(), any::<bool>(), deadline, any::<bool>()).prop_map(
            |(n, one, deadline_ms, revoke)| OperatorMove::Ask { n, one, deadline_ms, revoke }
        ),
        10 => (n(), n(), any::<bool>(), session(), owner()).prop_map(
            |(n, to, exactly, session, owner)| OperatorMove::Hand(n, to, exactly, session, owner)
        ),
        16 => several().prop_map(OperatorMove::Several),
        3 => (n(), any::<bool>(), prop::option::weighted(0.3, modes.clone())).prop_map(
            |(n, wait, other)| OperatorMove::SeveralAgain(n, wait, other)
        ),
        5 => (n(), given_back()).prop_map(|(n, any)| OperatorMove::GiveBack(n, any)),
        6 => (n(), lock, prop::bool::weighted(0.9))
            .prop_map(|(n, lock, wait)| OperatorMove::Also(n, lock, wait)),
        10 => (n(), prop_oneof![2 => Just(0), 1 => 1..10_u8])
            .prop_map(|(n, priority)| OperatorMove::Cross(n, priority)),
        4 => (n(), n(), modes).prop_map(|(n, who, mode)| OperatorMove::RushIn(n, who, mode)),
    ]
}
