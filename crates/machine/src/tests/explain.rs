//! Explanations of a busy lock: queues, blocking chains, and the most wanted locks.

use holdfast_types::LockEvent;
use holdfast_types::*;

use super::script_commands::{self, lock_name, lock_set};
use crate::{CHAIN_MAX, LockFilter, LockUrgency, Machine, OverdueLock};

fn acquire(machine: &mut Machine, now: u64, lock: &str, session: &str) -> Outcome {
    let (lock, open) = (lock_name(lock), script_commands::open(session));
    let owner = Owner::unnamed();
    let acquire = Acquire { wait: true, ..Acquire::new(lock, open, owner) };
    let entry = Entry { stamped_at: Stamp(now), commands: vec![Command::Acquire(acquire)] };
    machine.apply(entry).outcomes.remove(0)
}

/// Session `one` holds `a` and waits for `b`, which session `two` holds.
fn two_links() -> Machine {
    let mut machine = Machine::new();
    for (now, (lock, session)) in [("a", "one"), ("b", "two"), ("b", "one")].into_iter().enumerate()
    {
        acquire(&mut machine, now as u64, lock, session).unwrap();
    }
    machine
}

#[test]
fn a_chain_names_waiters_locks_and_holders() {
    let mut machine = two_links();
    let chain = machine.blocking_chain(&lock_name("a"));
    assert_eq!(chain.len(), 1);
    assert_eq!((chain[0].session.as_str(), chain[0].waits_for.as_str()), ("one", "b"));
    assert_eq!(chain[0].held_by.as_ref().map(SessionName::as_str), Some("two"));
    assert!(!chain[0].cycle && machine.blocking_chain(&lock_name("b")).is_empty());
    let change = PolicyChange { detect_deadlocks: Some(false), ..PolicyChange::default() };
    let commands = vec![Command::SetPolicy { lock: lock_name("a"), change }];
    machine.apply(Entry { stamped_at: Stamp(8), commands });
    acquire(&mut machine, 9, "a", "two").unwrap();
    let chain = machine.blocking_chain(&lock_name("a"));
    let links: Vec<_> = chain.iter().map(|link| (link.waits_for.as_str(), link.cycle)).collect();
    assert_eq!(links, [("b", false), ("a", true)]);
}

/// A lock reserved for a multi-lock is not free, and the chain names the multi-lock's session.
#[test]
fn a_chain_continues_through_the_waiter_of_a_reserved_lock() {
    let mut machine = Machine::new();
    acquire(&mut machine, 0, "b", "one").unwrap();
    let all = Acquire::new(lock_set(&["a", "b"]), script_commands::open("two"), Owner::unnamed());
    machine.apply(Entry { stamped_at: Stamp(0), commands: vec![Command::Acquire(all)] });
    acquire(&mut machine, 0, "a", "three").unwrap();
    let chain = machine.blocking_chain(&lock_name("a"));
    assert_eq!(chain.len(), 1);
    assert_eq!((chain[0].session.as_str(), chain[0].waits_for.as_str()), ("two", "b"));
    assert_eq!(chain[0].held_by.as_ref().map(SessionName::as_str), Some("one"));
}

#[test]
fn a_chain_is_bounded() {
    let mut machine = Machine::new();
    for number in 0..20 {
        acquire(&mut machine, 0, &format!("l{number}"), &format!("s{number}")).unwrap();
    }
    for number in 0..19 {
        acquire(&mut machine, 0, &format!("l{}", number + 1), &format!("s{number}")).unwrap();
    }
    assert_eq!(machine.blocking_chain(&lock_name("l0")).len(), CHAIN_MAX);
}

#[test]
fn queues_are_in_order_and_grants_have_their_wait_time() {
    let mut machine = two_links();
    let Ok(Reply::Acquired(EntryState::Waiting(queued))) = acquire(&mut machine, 10, "b", "three")
    else {
        panic!()
    };
    let queue = machine.queue(&lock_name("b"), 10);
    assert_eq!((queue.len(), queue[1]), (2, queued[0].ticket));
    assert_eq!(machine.queue(&lock_name("b"), 1).len(), 1);
    let release = |session: &str| {
        let (lock, session) = (lock_name("b"), script_commands::session_name(session));
        Command::Release(Release {
            locks: lock.into(),
            session,
            owner: Owner::unnamed(),
            target: ReleaseTarget::AnyEntry,
        })
    };
    let entry = Entry { stamped_at: Stamp(500), commands: vec![release("two")] };
    let applied = machine.apply(entry);
    let grant = applied.events.iter().find_map(|(_, event)| match event {
        Event::Lock(LockEvent::Granted(grant)) => Some(grant.clone()),
        _ => None,
    });
    let lost = applied.events.iter().find_map(|(_, event)| match event {
        Event::Lock(LockEvent::HoldEnded { token, granted_at, granted_in, .. }) => {
            Some((*token, *granted_at, *granted_in))
        }
        _ => None,
    });
    assert_eq!(machine.waited_ms(&grant.unwrap()), Some(498));
    assert_eq!(lost, Some((FencingToken(2), Stamp(1), Revision(2))));
}

#[test]
fn most_wanted_returns_the_longest_queues_up_to_its_limit() {
    let mut machine = Machine::new();
    for (lock, waiters) in [("a", 1), ("b", 3), ("c", 2), ("d", 0), ("x/b", 4)] {
        for waiter in 0..=waiters {
            acquire(&mut machine, 0, lock, &format!("s{waiter}")).unwrap();
        }
    }
    let wanted = |prefix: &str, limit| -> Vec<(String, u32)> {
        let filter = LockFilter { prefix: prefix.to_owned(), ..LockFilter::default() };
        let views = machine.most_urgent(&filter, LockUrgency::Waiters, limit, |_| true);
        views.into_iter().map(|view| (view.lock.to_string(), view.waiters_total)).collect()
    };
    assert_eq!(wanted("", 2), [("x/b".to_owned(), 4), ("b".to_owned(), 3)]);
    assert_eq!(wanted("a", 10), [("a".to_owned(), 1)]);
    let views = machine.most_urgent(&LockFilter::default(), LockUrgency::Waiters, 1, |_| true);
    assert_eq!(
        (views[0].holders.len(), views[0].waiters.len()),
        (1, 0),
        "the view has the holder, and no waiters"
    );
}

/// `old` has the oldest hold, and `slow` the longest wait, which a priority has put behind a later one.
fn old_and_slow() -> Machine {
    let mut machine = Machine::new();
    acquire(&mut machine, 10, "old", "one").unwrap();
    acquire(&mut machine, 20, "slow", "two").unwrap();
    acquire(&mut machine, 30, "slow", "three").unwrap();
    let options = AcquireOptions { priority: 9, ..AcquireOptions::PLAIN };
    let (lock, open) = (lock_name("slow"), script_commands::open("four"));
    let urgent = Acquire { wait: true, options, ..Acquire::new(lock, open, Owner::unnamed()) };
    machine.apply(Entry { stamped_at: Stamp(40), commands: vec![Command::Acquire(urgent)] });
    acquire(&mut machine, 50, "old", "five").unwrap();
    machine
}

#[test]
fn lists_are_ordered_by_the_longest_wait_and_the_oldest_hold() {
    let machine = old_and_slow();
    let first = |urgency| {
        let views = machine.most_urgent(&LockFilter::default(), urgency, 10, |_| true);
        let facts = |view: &LockView| (view.lock.to_string(), view.held_since, view.waiting_since);
        views.iter().map(facts).collect::<Vec<_>>()
    };
    let old = ("old".to_owned(), Some(Stamp(10)), Some(Stamp(50)));
    let slow = ("slow".to_owned(), Some(Stamp(20)), Some(Stamp(30)));
    assert_eq!(first(LockUrgency::LongestWait), [slow.clone(), old.clone()]);
    assert_eq!(first(LockUrgency::OldestHold), [old, slow]);
}

#[test]
fn a_lock_beyond_a_threshold_of_its_policy_is_found_with_its_holder() {
    let mut machine = old_and_slow();
    let mut set = |lock: &str, wait_alarm_ms, hold_alarm_ms| {
        let change = PolicyChange { wait_alarm_ms, hold_alarm_ms, ..PolicyChange::default() };
        let commands = vec![Command::SetPolicy { lock: lock_name(lock), change }];
        machine.apply(Entry { stamped_at: Stamp(60), commands }).outcomes.remove(0).unwrap();
    };
    set("slow", Some(100), None);
    set("old", Some(500), Some(200));
    let facts = |found: Vec<OverdueLock>| -> Vec<_> {
        let facts = found.into_iter().map(|of| {
            let holder = of.holder.map(|holder| holder.session.to_string());
            (of.lock.to_string(), of.ms, of.threshold_ms, holder.unwrap_or_default())
        });
        facts.collect()
    };
    let waits = |now| facts(machine.locks_with_long_waits(Stamp(now), 10));
    let holds = |now| facts(machine.locks_with_old_holds(Stamp(now), 10));
    assert_eq!((waits(130), holds(210)), (vec![], vec![]), "at the threshold");
    assert_eq!(waits(131), [("slow".to_owned(), 101, 100, "two".to_owned())]);
    assert_eq!(holds(211), [("old".to_owned(), 201, 200, "one".to_owned())]);
    assert_eq!(machine.locks_with_long_waits(Stamp(9_000), 1).len(), 1);
    machine.check_invariants().unwrap();
}

/// The service delays acquires that only add a waiter: those behind a holder and a first waiter.
#[test]
fn an_acquire_only_queues_behind_a_holder_and_a_first_waiter() {
    let mut machine = Machine::new();
    let plain =
        |session| Acquire::new(lock_name("a"), script_commands::open(session), Owner::unnamed());
    let only_adds_waiter =
        |machine: &Machine, acquire: Acquire| machine.only_adds_waiter(&Command::Acquire(acquire));
    assert!(!only_adds_waiter(&machine, plain("one")), "it would be granted");
    acquire(&mut machine, 0, "a", "one").unwrap();
    assert!(!only_adds_waiter(&machine, plain("two")), "it would be the first waiter");
    acquire(&mut machine, 1, "a", "two").unwrap();
    assert!(only_adds_waiter(&machine, plain("three")));
    for (who, why) in [("one", "it holds and would re-enter"), ("two", "it already waits")] {
        assert!(!only_adds_waiter(&machine, plain(who)), "{why}");
    }
    let no_wait = Acquire { wait: false, ..plain("three") };
    let urgent = Acquire {
        options: AcquireOptions { priority: 1, ..AcquireOptions::PLAIN },
        ..plain("three")
    };
    let shared = Acquire { mode: Some(Mode::Shared), ..plain("three") };
    for acquire in [no_wait, urgent, shared] {
        assert!(!only_adds_waiter(&machine, acquire.clone()), "{acquire:?}");
    }
    assert!(!machine.only_adds_waiter(&Command::RunTimers { lock: lock_name("a") }));
    let permits =
        |session| Acquire { limit: Some(1), locks: lock_name("s").into(), ..plain(session) };
    for session in ["one", "two"] {
        machine.apply(Entry {
            stamped_at: Stamp(2),
            commands: vec![Command::Acquire(permits(session))],
        });
    }
    assert!(!only_adds_waiter(&machine, permits("three")), "the limit may be raised");
}
