//! Deadlocks: the search finds what a naive one over the whole state finds, and nothing else.

use holdfast_types::LockRejection;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use holdfast_types::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::script_commands::{self, lock_name, session_name};
use crate::lock::index::Lock;
use crate::lock::index::StoredPolicy;
use crate::lock::lock_entry::LockEntry;
use crate::snapshot::part::Part;
use crate::{LockFilter, Machine, SnapshotPart};

type Agent = (SessionName, Owner);

/// Everybody who waits in vain once an agent never gives anything back, this one's own waits included if they do.
fn hopeless(machine: &Machine, first: &Agent) -> BTreeSet<(Agent, LockName)> {
    let (mut lost, mut stuck) = (BTreeSet::from([first.clone()]), BTreeSet::new());
    loop {
        let before = (lost.len(), stuck.len());
        for (name, lock) in machine.locks.range(Bound::Unbounded) {
            let converting = lock.holders.iter().filter(|holder| holder.converts());
            for place in lock.waiters.values().chain(converting) {
                if waits_in_vain(lock, place, &lost) {
                    stuck.insert((agent(place), name.clone()));
                    lost.insert(agent(place));
                }
            }
        }
        if before == (lost.len(), stuck.len()) {
            return stuck;
        }
    }
}

fn agent(place: &LockEntry) -> Agent {
    (place.session_name.clone(), place.owner.clone())
}

fn waits_in_vain(lock: &Lock, place: &LockEntry, lost: &BTreeSet<Agent>) -> bool {
    let me = agent(place);
    let lost = |other: &LockEntry| agent(other) != me && lost.contains(&agent(other));
    if place.converts() {
        return lock.holders.iter().any(|holder| lost(holder));
    }
    if lock.waiters.values().any(|other| other.rank < place.rank && lost(other)) {
        return true;
    }
    // What is held when all who can have given back.
    let kept: Vec<_> = lock.holders.iter().filter(|holder| lost(holder)).collect();
    if let Some(limit) = lock.policy().limit {
        let permits: u32 = kept.iter().map(|holder| holder.permits).sum();
        return permits + place.permits > limit;
    }
    kept.iter().any(|holder| {
        let held = holder.hold.as_ref().unwrap().mode;
        let shares = match (held, place.mode) {
            (Mode::Shared, Mode::Shared | Mode::Upgradable) => true,
            (Mode::Upgradable, Mode::Shared) => !holder.converts(),
            _ => false,
        };
        !shares
    })
}

/// The same state with the search for deadlocks turned off for each lock.
fn without_detection(machine: &Machine) -> Machine {
    let locks = machine.locks(&LockFilter::default(), None, usize::MAX).items;
    let locks: BTreeSet<ZnodePath> = locks.iter().map(|l| ZnodePath::of_lock(&l.lock)).collect();
    let mut parts: Vec<SnapshotPart> = machine.dump().collect();
    for SnapshotPart(part) in &mut parts {
        let Part::Nodes(nodes) = part else { continue };
        for node in nodes.iter_mut().filter(|node| locks.contains(&node.path)) {
            let past = node.lock_directory.get_or_insert_default();
            let stored = past.stored_policy.as_ref();
            let (policy, kept) =
                stored.map_or((LockPolicy::DEFAULT, false), |r| (r.policy, r.kept));
            let policy = LockPolicy { detect_deadlocks: false, ..policy };
            past.stored_policy = Some(StoredPolicy { policy, kept }.into());
        }
    }
    Machine::load(parts).unwrap()
}

/// Whether an acquire would close a circle: it is done, without the search if that rejects it, and the state is looked at.
fn closes_a_circle(machine: &Machine, stamp: Stamp, acquire: &Acquire) -> bool {
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
    let newcomer = (acquire.open.session.clone(), acquire.owner.clone());
    let waited =
        hopeless(machine, &newcomer).contains(&(newcomer.clone(), acquire.locks.first().clone()));
    matches!(outcome, Ok(Reply::Queued(_)))
        && !waited
        && hopeless(&after, &newcomer).contains(&(newcomer, acquire.locks.first().clone()))
}

/// The circle that was told is one: each waits for something that the next is in the way of, and the last for something
/// that the caller is in the way of, who is named first if its session was there.
pub(super) fn check_circle(
    machine: &Machine,
    stamp: Stamp,
    command: &Command,
    cycle: &[Blocked],
) -> Result<(), String> {
    let caller = match command {
        Command::Acquire(acquire) => (acquire.open.session.clone(), acquire.owner.clone()),
        Command::HandOver(hand_over) => hand_over.to.clone(),
        other => return Err(format!("{other:?} waits for nothing")),
    };
    let agents: Vec<Agent> = cycle.iter().map(|(s, o, _)| (s.clone(), o.clone())).collect();
    let is_new = !matches!(machine.session(&caller.0), SessionStatus::Open(_));
    if agents.is_empty() || (agents.first() != Some(&caller) && !is_new) {
        return Err(format!("the caller {caller:?} is not the first of {cycle:?}"));
    }
    let mut blind = without_detection(machine);
    // It is to wait, whatever it stores.
    blind.limits.tree_bytes_max = u64::MAX;
    blind.apply(Entry { stamped_at: stamp, commands: vec![command.clone()] });
    for (at, (_, _, lock)) in cycle.iter().enumerate() {
        let next = match agents.get(at + 1) {
            None if cycle.len() == LockRejection::CYCLE_MAX => return Ok(()),
            next => next.unwrap_or(&caller),
        };
        let view = blind.lock(lock, usize::MAX);
        if !is_in_the_way(&view, &agents[at], next) {
            return Err(format!("{next:?} is not in the way at {lock} in {cycle:?}: {view:?}"));
        }
    }
    Ok(())
}

/// Whether one waits for a lock, or for holding it alone, that another one holds or waits for before it.
fn is_in_the_way(view: &LockView, waits: &Agent, other: &Agent) -> bool {
    let waiter = |one: &WaiterView| (one.session.clone(), one.owner.clone());
    let holder = |one: &HolderView| (one.session.clone(), one.owner.clone());
    let at = view.waiters.iter().rposition(|one| waiter(one) == *waits);
    let converts = view.holders.iter().any(|one| one.upgrading && holder(one) == *waits);
    let ahead = view.waiters.iter().take(at.unwrap_or(0)).any(|one| waiter(one) == *other);
    (at.is_some() || converts) && (ahead || view.holders.iter().any(|one| holder(one) == *other))
}

#[derive(Clone, Debug)]
enum Step {
    Acquire { lock: usize, session: usize, owner: bool, mode: usize, permits: u32, priority: u8 },
    Release { lock: usize, session: usize, owner: bool },
    Close(usize),
}

const LOCKS: [&str; 5] = ["a", "b", "c", "sem", "urgent"];

fn step() -> impl Strategy<Value = Step> {
    let acquire =
        (0..5_usize, 0..5_usize, prop::bool::weighted(0.2), 0..5_usize, 1..3_u32, 0..3_u8);
    prop_oneof![
        8 => acquire.prop_map(|(lock, session, owner, mode, permits, priority)| {
            Step::Acquire { lock, session, owner, mode, permits, priority }
        }),
        1 => (0..5_usize, 0..5_usize, prop::bool::weighted(0.2))
            .prop_map(|(lock, session, owner)| Step::Release { lock, session, owner }),
        1 => (0..5_usize).prop_map(Step::Close),
    ]
}

impl Step {
    fn command(&self) -> Command {
        let session = |n: usize| format!("s{n}");
        let owner = |other: bool| if other { Owner::new("t").unwrap() } else { Owner::unnamed() };
        match *self {
            Self::Acquire { lock, session: n, owner: other, mode, permits, priority } => {
                let [_, shared, upgradable] = Mode::ALL;
                let mode =
                    [None, None, Some(shared), Some(upgradable), Some(Mode::Exclusive)][mode];
                let semaphore = LOCKS[lock] == "sem";
                let plain = Acquire::new(
                    lock_name(LOCKS[lock]),
                    script_commands::open(&session(n)),
                    owner(other),
                );
                Command::Acquire(Acquire {
                    mode: mode.filter(|_| !semaphore),
                    permits: semaphore.then_some(permits),
                    limit: semaphore.then_some(3),
                    options: AcquireOptions {
                        priority: if LOCKS[lock] == "urgent" { priority } else { 0 },
                        ..AcquireOptions::PLAIN
                    },
                    ..plain
                })
            }
            Self::Release { lock, session: n, owner: other } => Command::Release(Release {
                locks: lock_name(LOCKS[lock]).into(),
                session: session_name(&session(n)),
                owner: owner(other),
                target: ReleaseTarget::AnyPlace,
            }),
            Self::Close(n) => {
                let session = session_name(&session(n));
                Command::CloseSession { session, attachment: None, incarnation: None }
            }
        }
    }
}

/// Runs a history and compares every acquire with the naive judgement.
fn trial(steps: &[Step]) -> Result<usize, String> {
    let mut machine = Machine::new();
    let mut found = 0;
    for (now, step) in steps.iter().enumerate() {
        let (stamp, command) = (Stamp(now as u64), step.command());
        let expected = match &command {
            Command::Acquire(acquire) => closes_a_circle(&machine, stamp, acquire),
            _ => false,
        };
        let before = machine.clone();
        let entry = Entry { stamped_at: stamp, commands: vec![command.clone()] };
        let outcome = machine.apply(entry).outcomes.remove(0);
        let refused = matches!(outcome, Err(Rejection::Lock(LockRejection::Deadlock { .. })));
        if refused != expected {
            return Err(format!("{command:?}: {outcome:?}, a deadlock: {expected}"));
        }
        if let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = &outcome {
            found += 1;
            check_circle(&before, stamp, &command, cycle)?;
            let (places, kept) = (contents(&before), contents(&machine));
            if places != kept {
                return Err(format!("{command:?} left something behind"));
            }
        }
        machine.check_invariants()?;
    }
    Ok(found)
}

fn contents(machine: &Machine) -> BTreeMap<String, usize> {
    let page = machine.locks(&LockFilter::default(), None, 100);
    let view = |view: LockView| (format!("{view:?}"), 1);
    page.items.into_iter().map(view).collect()
}

fn config() -> Config {
    Config { failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_deadlock_is_refused_exactly_when_it_would_be_one(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        if let Err(what) = trial(&steps) {
            prop_assert!(false, "{what}");
        }
    }
}

/// The same histories in each run (`mutations.toml`).
#[test]
fn seeded_deadlocks_are_found_and_nothing_else() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config(), rng);
    let steps = prop::collection::vec(step(), 60);
    let found: usize =
        (0..300).map(|_| trial(&steps.new_tree(&mut runner).unwrap().current()).unwrap()).sum();
    assert!(found > 300, "only {found} deadlocks in all histories");
}

/// The search is bounded, and so is the answer: of a long circle it names the first, of one too long nothing is known.
#[test]
fn a_circle_is_named_up_to_its_bound_and_searched_for_up_to_another() {
    let ring = |length: usize| {
        let mut machine = Machine::new();
        let acquire = |machine: &mut Machine, lock: usize, session: usize| {
            let lock = lock_name(&format!("l{lock}"));
            let acquire =
                Acquire::new(lock, script_commands::open(&format!("s{session}")), Owner::unnamed());
            let commands = vec![Command::Acquire(acquire)];
            machine.apply(Entry { stamped_at: Stamp(0), commands }).outcomes.remove(0)
        };
        for n in 0..length {
            acquire(&mut machine, n, n).unwrap();
        }
        for n in 1..length {
            acquire(&mut machine, n, n - 1).unwrap();
        }
        acquire(&mut machine, 0, length - 1)
    };
    let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = ring(3) else {
        panic!("not found")
    };
    let locks: Vec<_> =
        cycle.iter().map(|(session, _, lock)| format!("{session} {lock}")).collect();
    assert_eq!(locks, ["s2 l0", "s0 l1", "s1 l2"]);
    let Err(Rejection::Lock(LockRejection::Deadlock { cycle })) = ring(500) else {
        panic!("not found")
    };
    assert_eq!(cycle.len(), LockRejection::CYCLE_MAX);
    assert!(matches!(ring(5_000), Ok(Reply::Queued(_))));
}
