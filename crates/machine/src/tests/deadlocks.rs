//! Deadlocks: the search finds the same ones as a naive search over the whole state.

use holdfast_types::LockRejection;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::random::{config, seeded_runner};
use super::script_commands::{self, lock_name, session_name};
use crate::lock::index::{Lock, StoredPolicy};
use crate::lock::lock_entry::LockEntry;
use crate::snapshot::part::Part;
use crate::{LockFilter, Machine, SnapshotPart};

type Agent = (SessionName, Owner);

/// A state to search, and an agent whose waits do not count as ahead of the waiters of other shards.
#[derive(Clone, Copy)]
struct Searched<'a>(&'a Machine, Option<&'a Agent>);

/// All waits of the largest set of agents that wait only for one another.
fn endless_waits(searched: Searched<'_>) -> Vec<(LockName, Arc<LockEntry>)> {
    let Searched(machine, _) = searched;
    let locks = machine.locks.range(Bound::Unbounded);
    let mut waits: Vec<_> = locks
        .flat_map(|(name, lock)| {
            let converting = lock.holders.iter().filter(|holder| holder.converts());
            lock.waiters.values().chain(converting).map(|one| (name.clone(), Arc::clone(one)))
        })
        .collect();
    loop {
        let blocked: BTreeSet<Agent> = waits.iter().map(|(_, entry)| agent(entry)).collect();
        let before = waits.len();
        waits.retain(|(name, entry)| is_blocked(searched, name, entry, &blocked));
        if waits.len() == before {
            return waits;
        }
    }
}

/// The locks for which an agent waits without an end, along a chain of such waits that leads back to it.
fn waits_for_itself(searched: Searched<'_>, whose: &Agent) -> BTreeSet<LockName> {
    let Searched(machine, _) = searched;
    let waits = endless_waits(searched);
    let mut leading_back = BTreeSet::from([whose.clone()]);
    loop {
        let is_waiting = |(name, entry): &&(LockName, Arc<LockEntry>)| {
            shards_of(machine, name, entry).iter().any(|shard| {
                let lock = machine.locks.get(shard);
                lock.is_some_and(|lock| waits_for_one_of(searched, lock, entry, &leading_back))
            })
        };
        let leading: Vec<_> = waits.iter().filter(is_waiting).collect();
        let before = leading_back.len();
        let own = leading.iter().filter(|(_, entry)| agent(entry) == *whose);
        let own = own.map(|(name, _)| name.clone()).collect();
        leading_back.extend(leading.iter().map(|(_, entry)| agent(entry)));
        if leading_back.len() == before {
            return own;
        }
    }
}

fn agent(entry: &LockEntry) -> Agent {
    (entry.session_name.clone(), entry.owner.clone())
}

/// The locks of which a waiter gets one: all shards, for a waiter for any shard.
fn shards_of(machine: &Machine, name: &LockName, entry: &LockEntry) -> Vec<LockName> {
    match ShardRequest::sharded_name(name).map(lock_name) {
        Some(sharded) if entry.any_shard && entry.hold.is_none() => {
            let count = machine.lock(&sharded, 0).policy.shards.unwrap();
            (0..count).map(|at| ShardRequest::shard_name(&sharded, at).unwrap()).collect()
        }
        _ => vec![name.clone()],
    }
}

/// A waiter for any shard is blocked only if it is blocked in each of them.
fn is_blocked(
    searched: Searched<'_>,
    name: &LockName,
    entry: &LockEntry,
    blocked: &BTreeSet<Agent>,
) -> bool {
    let Searched(machine, _) = searched;
    shards_of(machine, name, entry).iter().all(|shard| {
        machine.locks.get(shard).is_some_and(|lock| is_blocked_by(searched, lock, entry, blocked))
    })
}

fn is_blocked_by(
    searched: Searched<'_>,
    lock: &Lock,
    entry: &LockEntry,
    blocked: &BTreeSet<Agent>,
) -> bool {
    let Some(limit) = lock.policy().limit.filter(|_| !entry.converts()) else {
        return waits_for_one_of(searched, lock, entry, blocked);
    };
    // A multi-lock gets no lock before it gets all of them.
    let waits = |other: &Arc<LockEntry>| other.hold.is_none() && other.is_of_multi_lock();
    if in_the_way(searched, lock, entry, blocked).any(waits) {
        return true;
    }
    // The permits that these agents hold after all other agents have released.
    let kept = in_the_way(searched, lock, entry, blocked).map(|other| other.permits);
    kept.sum::<u32>() + entry.permits > limit
}

fn waits_for_one_of(
    searched: Searched<'_>,
    lock: &Lock,
    entry: &LockEntry,
    agents: &BTreeSet<Agent>,
) -> bool {
    in_the_way(searched, lock, entry, agents).next().is_some()
}

/// The holders and the earlier waiters among these agents for which an entry waits.
fn in_the_way<'a>(
    Searched(_, ignored): Searched<'a>,
    lock: &'a Lock,
    entry: &'a LockEntry,
    agents: &'a BTreeSet<Agent>,
) -> impl Iterator<Item = &'a Arc<LockEntry>> {
    let is_one =
        |other: &&Arc<LockEntry>| agent(other) != agent(entry) && agents.contains(&agent(other));
    let is_own_queue = lock.waiters.values().any(|other| other.path == entry.path);
    let is_before = move |other: &&Arc<LockEntry>| {
        let is_before = other.rank < entry.rank;
        !entry.converts() && if is_own_queue { is_before } else { ignored != Some(&agent(other)) }
    };
    let is_upgradable =
        |other: &&Arc<LockEntry>| other.mode == Mode::Upgradable && !other.any_shard;
    let last_upgradable = lock.waiters.values().filter(is_before).rfind(is_upgradable);
    let is_ahead = move |other: &&Arc<LockEntry>| {
        let is_beside = match (other.mode, entry.mode) {
            (Mode::Shared, Mode::Shared | Mode::Upgradable) => true,
            // The earlier waiter then holds beside the reader. The reader waits for the holders that block it.
            (Mode::Upgradable, Mode::Shared) => {
                last_upgradable.is_some_and(|last| last.rank == other.rank)
            }
            _ => false,
        };
        let is_admitted = lock.policy().limit.is_none() && is_beside && !other.is_of_multi_lock();
        is_before(other) && !is_admitted
    };
    let wanted = match entry.mode {
        Mode::Shared if last_upgradable.is_some() => Mode::Upgradable,
        mode => mode,
    };
    let is_incompatible = move |holder: &&Arc<LockEntry>| {
        let shares = match (holder.hold.as_ref().unwrap().mode, wanted) {
            (Mode::Shared, Mode::Shared | Mode::Upgradable) => true,
            (Mode::Upgradable, Mode::Shared) => !holder.converts(),
            _ => false,
        };
        lock.policy().limit.is_some() || entry.converts() || !shares
    };
    let holders = lock.holders.iter().filter(is_incompatible);
    lock.waiters.values().filter(is_ahead).chain(holders).filter(is_one)
}

/// The same state with deadlock detection disabled for each lock.
fn without_detection(machine: &Machine) -> Machine {
    let locks = machine.locks(&LockFilter::default(), None, usize::MAX, |_| true).items;
    let locks: BTreeSet<ZnodePath> = locks.iter().map(|l| ZnodePath::of_lock(&l.lock)).collect();
    let mut parts: Vec<SnapshotPart> = machine.dump().collect();
    for SnapshotPart(part) in &mut parts {
        let Part::Nodes(nodes) = part else { continue };
        for node in nodes.iter_mut().filter(|node| locks.contains(&node.path)) {
            let directory = node.lock_directory.get_or_insert_default();
            let stored = directory.stored_policy.as_ref();
            let (policy, kept) =
                stored.map_or((LockPolicy::DEFAULT, false), |r| (r.policy, r.kept));
            let policy = LockPolicy { detect_deadlocks: false, ..policy };
            directory.stored_policy = Some(StoredPolicy { policy, kept }.into());
        }
    }
    Machine::load(parts).unwrap()
}

/// Whether an acquire must be rejected because it would close a cycle, and whether it may be: applies it, without the
/// detection if that rejects it, and searches the state. A cycle of an earlier wait of the caller counts, if it had none. A
/// cycle may be missed if the caller is in it only as a waiter before the waiters of other shards.
fn closes_cycle(machine: &Machine, stamp: Stamp, acquire: &Acquire) -> (bool, bool) {
    let acquired = |mut machine: Machine| {
        let commands = vec![Command::Acquire(acquire.clone())];
        let outcome = machine.apply(Entry { stamped_at: stamp, commands }).outcomes.remove(0);
        (machine, outcome)
    };
    let (after, outcome) = match acquired(machine.clone()) {
        (_, Err(Rejection::Lock(LockRejection::Deadlock { .. }))) => {
            acquired(without_detection(machine))
        }
        other => other,
    };
    let caller = (acquire.open.session.clone(), acquire.owner.clone());
    let is_named = |lock: &LockName| {
        let mut named = acquire.locks.iter();
        named.any(|named| lock == named || ShardRequest::sharded_name(lock) == Some(named.as_str()))
    };
    let before = waits_for_itself(Searched(machine, None), &caller);
    let closes = |after| {
        let after = waits_for_itself(after, &caller);
        let is_new = after.iter().any(is_named) && !before.iter().any(is_named);
        is_new || before.is_empty() && !after.is_empty()
    };
    let may_reject = outcome.is_ok() && closes(Searched(&after, None));
    (may_reject && closes(Searched(&after, Some(&caller))), may_reject)
}

/// Checks a reported cycle: each agent waits for a lock that the next one blocks, and the last one waits for the
/// caller. The caller is first if its session was open.
pub(super) fn check_cycle(
    machine: &Machine,
    stamp: Stamp,
    command: &Command,
    cycle: &[Blocked],
) -> Result<(), String> {
    let caller = match command {
        Command::Acquire(acquire) => (acquire.open.session.clone(), acquire.owner.clone()),
        Command::HandOver(hand_over) => hand_over.to.clone(),
        other => return Err(format!("{other:?} cannot close a cycle")),
    };
    let agents: Vec<Agent> = cycle.iter().map(|(s, o, _)| (s.clone(), o.clone())).collect();
    let is_new = !matches!(machine.session(&caller.0), SessionStatus::Open(_));
    if agents.is_empty() || (agents.first() != Some(&caller) && !is_new) {
        return Err(format!("the caller {caller:?} is not the first of {cycle:?}"));
    }
    let mut undetected = without_detection(machine);
    // The acquire must queue, whatever it stores.
    undetected.limits.tree_bytes_max = u64::MAX;
    undetected.apply(Entry { stamped_at: stamp, commands: vec![command.clone()] });
    for (at, (_, _, lock)) in cycle.iter().enumerate() {
        let next = match agents.get(at + 1) {
            None if cycle.len() == LockRejection::CYCLE_MAX => return Ok(()),
            next => next.unwrap_or(&caller),
        };
        let view = undetected.lock(lock, usize::MAX);
        let sharded = ShardRequest::sharded_name(lock).map(lock_name);
        let shards =
            sharded.and_then(|lock| undetected.lock(&lock, 0).policy.shards.zip(Some(lock)));
        let queues = shards.into_iter().flat_map(|(count, sharded)| {
            (0..count).map(move |at| ShardRequest::shard_name(&sharded, at).unwrap())
        });
        let mut queues = queues.filter_map(|shard| undetected.locks.get(&shard));
        let in_a_shard = queues.any(|queue| {
            queue.waiters.values().any(|one| one.any_shard && agent(one) == agents[at])
        });
        if !waits_for(&view, &agents[at], next, in_a_shard) {
            return Err(format!("{next:?} does not block {lock} in {cycle:?}: {view:?}"));
        }
    }
    Ok(())
}

/// Whether `waits` waits for a lock or an upgrade that `other` holds, or waits for ahead of it. `in_a_shard` is whether it
/// waits for any shard of the lock.
fn waits_for(view: &LockView, waits: &Agent, other: &Agent, in_a_shard: bool) -> bool {
    let waiter = |one: &WaiterView| (one.session.clone(), one.owner.clone());
    let holder = |one: &HolderView| (one.session.clone(), one.owner.clone());
    let at = view.waiters.iter().rposition(|one| waiter(one) == *waits);
    let converts = view.holders.iter().any(|one| one.upgrading && holder(one) == *waits);
    let at = at.or(in_a_shard.then_some(view.waiters.len()));
    let ahead = view.waiters.iter().take(at.unwrap_or(0)).any(|one| waiter(one) == *other);
    (at.is_some() || converts) && (ahead || view.holders.iter().any(|one| holder(one) == *other))
}

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        lock: usize,
        session: usize,
        owner: bool,
        mode: usize,
        permits: u32,
        priority: u8,
        named: bool,
    },
    Release {
        lock: usize,
        session: usize,
        owner: bool,
    },
    Close(usize),
}

const LOCKS: [&str; 9] = ["a", "b", "c", "sem", "urgent", "sharded", "permits", "a,b", "b,c"];

fn step() -> impl Strategy<Value = Step> {
    let other = || prop::bool::weighted(0.2);
    let acquire = (0..9_usize, 0..5_usize, other(), 0..5_usize, 1..3_u32, 0..3_u8, any::<bool>());
    prop_oneof![
        8 => acquire.prop_map(|(lock, session, owner, mode, permits, priority, named)| {
            Step::Acquire { lock, session, owner, mode, permits, priority, named }
        }),
        1 => (0..9_usize, 0..5_usize, other())
            .prop_map(|(lock, session, owner)| Step::Release { lock, session, owner }),
        1 => (0..5_usize).prop_map(Step::Close),
    ]
}

impl Step {
    /// In a semaphore, a named attempt has an entry of its own.
    fn command(&self, attempt: u64) -> Command {
        let session = |n: usize| format!("s{n}");
        let owner = |other: bool| if other { Owner::new("t").unwrap() } else { Owner::unnamed() };
        match *self {
            Self::Acquire { lock, session: n, owner: other, mode, permits, priority, named } => {
                let [_, shared, upgradable] = Mode::ALL;
                let mode =
                    [None, None, Some(shared), Some(upgradable), Some(Mode::Exclusive)][mode];
                let semaphore = ["sem", "permits"].contains(&LOCKS[lock]);
                let choice = if priority == 2 { ShardChoice::At(0) } else { ShardChoice::Any };
                let shards = ShardRequest { count: Some(2), choice };
                let plain = Acquire::new(
                    script_commands::lock_set(&LOCKS[lock].split(',').collect::<Vec<_>>()),
                    script_commands::open(&session(n)),
                    owner(other),
                );
                Command::Acquire(Acquire {
                    mode: mode.filter(|_| !semaphore),
                    permits: semaphore.then_some(permits),
                    limit: semaphore.then_some(if LOCKS[lock] == "sem" { 3 } else { 2 }),
                    shards: ["sharded", "permits"].contains(&LOCKS[lock]).then_some(shards),
                    attempt: (semaphore && named).then_some(Attempt(attempt)),
                    options: AcquireOptions {
                        priority: if LOCKS[lock] == "urgent" || semaphore { priority } else { 0 },
                        ..AcquireOptions::PLAIN
                    },
                    ..plain
                })
            }
            Self::Release { lock, session: n, owner: other } => Command::Release(Release {
                locks: script_commands::lock_set(&LOCKS[lock].split(',').collect::<Vec<_>>()),
                session: session_name(&session(n)),
                owner: owner(other),
                target: ReleaseTarget::AnyEntry,
            }),
            Self::Close(n) => {
                let session = session_name(&session(n));
                Command::CloseSession { session, attachment: None, incarnation: None }
            }
        }
    }
}

/// Runs a history and compares every acquire with the naive search. Returns the number of deadlocks.
fn run(steps: &[Step]) -> Result<usize, String> {
    let mut machine = Machine::new();
    let mut found = 0;
    for (now, step) in steps.iter().enumerate() {
        let (stamp, command) = (Stamp(now as u64), step.command(now as u64 + 1));
        let (must_reject, may_reject) = match &command {
            Command::Acquire(acquire) => closes_cycle(&machine, stamp, acquire),
            _ => (false, false),
        };
        let before = machine.clone();
        let entry = Entry { stamped_at: stamp, commands: vec![command.clone()] };
        let outcome = machine.apply(entry).outcomes.remove(0);
        let rejected = matches!(outcome, Err(Rejection::Lock(LockRejection::Deadlock { .. })));
        if !(if rejected { may_reject } else { !must_reject }) {
            return Err(format!("{command:?}: {outcome:?}, expected deadlock: {must_reject}"));
        }
        if let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = &outcome {
            found += 1;
            check_cycle(&before, stamp, &command, cycle)?;
            let (old, new) = (contents(&before), contents(&machine));
            if old != new {
                return Err(format!("{command:?} changed the state"));
            }
        }
        machine.check_invariants()?;
    }
    Ok(found)
}

fn contents(machine: &Machine) -> BTreeMap<String, usize> {
    let page = machine.locks(&LockFilter::default(), None, 100, |_| true);
    let view = |view: LockView| (format!("{view:?}"), 1);
    page.items.into_iter().map(view).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_acquire_is_rejected_exactly_if_it_closes_a_cycle(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        prop_assert_eq!(run(&steps).err(), None);
    }
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_deadlocks_are_detected_without_false_positives() {
    let mut runner = seeded_runner();
    let steps = prop::collection::vec(step(), 60);
    let found: usize =
        (0..300).map(|_| run(&steps.new_tree(&mut runner).unwrap().current()).unwrap()).sum();
    assert!(found > 300, "only {found} deadlocks in all histories");
}
