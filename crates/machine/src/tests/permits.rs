//! The permits of one owner: an attempt of its own for each, and permits that are given back one by one.

use holdfast_types::LockRejection;
use holdfast_types::*;

use super::script_commands::{create, lock_name, multi, of_session, open, run_line, session_name};
use crate::Machine;

struct Permits(Machine);

impl Permits {
    fn apply(&mut self, command: Command) -> Outcome {
        let entry = Entry { stamped_at: Stamp(0), commands: vec![command] };
        let mut applied = self.0.apply(entry);
        self.0.check_invariants().unwrap();
        let loaded = Machine::load(self.0.dump()).unwrap();
        assert_eq!(loaded.state_digest(), self.0.state_digest());
        applied.outcomes.remove(0)
    }

    fn acquire_with(&mut self, session: &str, change: impl FnOnce(Acquire) -> Acquire) -> Outcome {
        let plain = Acquire::new(lock_name("s"), open(session), Owner::unnamed());
        self.apply(Command::Acquire(change(Acquire { limit: Some(3), ..plain })))
    }

    /// The grant of an attempt, 0 for none; `None` for a waiter.
    fn acquire(&mut self, session: &str, attempt: u64, permits: u32) -> Option<Grant> {
        let (attempt, permits) = (Some(Attempt(attempt)).filter(|a| a.0 > 0), Some(permits));
        let asked = |plain| Acquire { attempt, permits, wait: true, ..plain };
        match self.acquire_with(session, asked) {
            Ok(Reply::Acquired(EntryState::Holding(mut grants))) => grants.pop(),
            Ok(Reply::Acquired(EntryState::Waiting(_))) => None,
            other => panic!("{other:?}"),
        }
    }

    fn release(&mut self, session: &str, target: ReleaseTarget) -> Outcome {
        let (locks, owner) = (lock_name("s").into(), Owner::unnamed());
        let session = session_name(session);
        self.apply(Command::Release(Release { locks, session, owner, target }))
    }

    /// The holders: session, token and slots.
    fn held(&self) -> Vec<(String, u64, Vec<u32>)> {
        let view = self.0.lock(&lock_name("s"), 10);
        let held = |one: HolderView| (one.session.to_string(), one.token.0, one.slots);
        view.holders.into_iter().map(held).collect()
    }
}

fn held(holders: &[(&str, u64, &[u32])]) -> Vec<(String, u64, Vec<u32>)> {
    let one = |(session, token, slots): &(&str, u64, &[u32])| {
        ((*session).to_owned(), *token, slots.to_vec())
    };
    holders.iter().map(one).collect()
}

const fn released(hold_count: u32, changed: bool) -> Reply {
    Reply::Released(Released { hold_count, changed })
}

const fn attempt(n: u64) -> ReleaseTarget {
    ReleaseTarget::Attempt(Attempt(n))
}

#[test]
fn another_attempt_is_another_permit_and_a_copy_of_an_earlier_one_is_none() {
    let mut permits = Permits(Machine::new());
    let first = permits.acquire("me", 1, 1).unwrap();
    let second = permits.acquire("me", 2, 2).unwrap();
    assert_eq!((first.token.0, second.token.0, second.hold_count), (1, 2, 1));
    for _ in 0..2 {
        let copy = permits.acquire("me", 1, 1).unwrap();
        assert_eq!((copy.token, copy.renewed, copy.slots), (first.token, true, vec![0]));
    }
    assert_eq!(permits.held(), held(&[("me", 1, &[0]), ("me", 2, &[1, 2])]));
    assert_eq!(permits.acquire("me", 3, 1), None, "the owner waits for its own permits");
    assert_eq!(permits.release("me", attempt(1)), Ok(released(0, true)));
    assert_eq!(permits.held(), held(&[("me", 2, &[1, 2]), ("me", 3, &[0])]));
    let copy = permits.acquire_with("me", |plain| Acquire { attempt: Some(Attempt(1)), ..plain });
    let over = LockRejection::AttemptOver { newest: Attempt(1) };
    assert_eq!(copy, Err(Rejection::Lock(over)), "a late copy takes no permit");
    assert_eq!(permits.release("me", attempt(1)), Ok(released(0, false)));
    assert_eq!(permits.held().len(), 2);
}

#[test]
fn calls_without_an_attempt_share_one_permit() {
    let mut permits = Permits(Machine::new());
    let named = permits.acquire("me", 1, 1).unwrap();
    let renewed = permits.acquire("me", 0, 1).unwrap();
    assert_eq!((renewed.token, renewed.renewed), (named.token, true));
    let mut other = Permits(Machine::new());
    let first = other.acquire("me", 0, 1).unwrap();
    let named = other.acquire("me", 1, 1).unwrap();
    assert_eq!(other.acquire("me", 0, 1).unwrap().token, first.token);
    assert_ne!(named.token, first.token);
    let one = ReleaseTarget::Permits(HoldName::Unnamed, 1);
    assert_eq!(other.release("me", one), Ok(released(0, true)));
    assert_eq!(other.held(), held(&[("me", 2, &[1])]), "the hold without an attempt ended");
}

#[test]
fn a_call_that_enters_shares_the_oldest_hold_and_ends_alone() {
    let mut permits = Permits(Machine::new());
    let enter = |n| move |plain| Acquire { attempt: Some(Attempt(n)), enters: true, ..plain };
    let outer = permits.acquire("me", 1, 2).unwrap();
    for _copies in 0..2 {
        let Ok(Reply::Acquired(EntryState::Holding(inner))) = permits.acquire_with("me", enter(2))
        else {
            panic!("it enters")
        };
        assert_eq!((inner[0].token, inner[0].hold_count), (outer.token, 2));
    }
    let other = permits.acquire("me", 3, 1).unwrap();
    assert_eq!(permits.held(), held(&[("me", 1, &[0, 1]), ("me", 2, &[2])]));
    assert_eq!(permits.release("me", attempt(2)), Ok(released(1, true)));
    assert_eq!(permits.release("me", attempt(1)), Ok(released(0, true)));
    assert_eq!(permits.held(), held(&[("me", other.token.0, &[2])]));
    let Ok(Reply::Acquired(EntryState::Holding(first))) = permits.acquire_with("you", enter(1))
    else {
        panic!("without a hold, it takes a permit")
    };
    assert_eq!((first[0].token.0, first[0].hold_count), (3, 1));
}

#[test]
fn a_release_names_one_permit_or_all_of_them() {
    let mut permits = Permits(Machine::new());
    (1..=3).for_each(|n| drop(permits.acquire("me", n, 1)));
    assert_eq!(permits.acquire("you", 1, 3), None);
    assert_eq!(permits.release("me", ReleaseTarget::Hold(FencingToken(2))), Ok(released(0, true)));
    assert_eq!(permits.release("me", ReleaseTarget::Hold(FencingToken(2))), Ok(released(0, false)));
    assert_eq!(permits.held(), held(&[("me", 1, &[0]), ("me", 3, &[2])]));
    assert_eq!(permits.release("me", ReleaseTarget::AnyEntry), Ok(released(0, true)));
    assert_eq!(permits.held(), held(&[("you", 4, &[0, 1, 2])]));
}

#[test]
fn a_part_of_the_permits_is_given_back_from_the_highest_slot_and_admits_the_next() {
    let mut permits = Permits(Machine::new());
    permits.acquire("me", 1, 3).unwrap();
    assert_eq!(permits.acquire("you", 1, 2), None);
    let one = ReleaseTarget::Permits(HoldName::Attempt(Attempt(1)), 1);
    assert_eq!(permits.release("me", one), Ok(released(1, true)));
    assert_eq!(permits.held(), held(&[("me", 1, &[0, 1])]));
    let two = ReleaseTarget::Permits(HoldName::Token(FencingToken(1)), 2);
    let three = ReleaseTarget::Permits(HoldName::Token(FencingToken(1)), 3);
    for too_many in [three, ReleaseTarget::Permits(HoldName::Unnamed, 0)] {
        let mismatch = LockRejection::PermitsMismatch { permits: 2 };
        assert_eq!(permits.release("me", too_many), Err(Rejection::Lock(mismatch)));
    }
    assert_eq!(permits.release("me", one), Ok(released(1, true)));
    assert_eq!(permits.held(), held(&[("me", 1, &[0]), ("you", 2, &[1, 2])]));
    assert_eq!(
        permits.release("you", ReleaseTarget::Permits(HoldName::Unnamed, 2)),
        Ok(released(0, true))
    );
    assert_eq!(
        permits.release("me", two),
        Err(LockRejection::PermitsMismatch { permits: 1 }.into())
    );
    assert_eq!(permits.release("me", one), Ok(released(0, true)), "the last permit ends the hold");
    assert_eq!(permits.release("me", one), Ok(released(0, false)));
    assert_eq!(permits.held(), held(&[]));
    let copy = permits.acquire_with("me", |plain| Acquire { attempt: Some(Attempt(1)), ..plain });
    assert!(matches!(copy, Err(Rejection::Lock(LockRejection::AttemptOver { .. }))), "{copy:?}");
}

#[test]
fn a_waiter_may_ask_for_fewer_permits_and_a_late_copy_of_a_numbered_release_gives_back_nothing() {
    let mut permits = Permits(Machine::new());
    permits.acquire("you", 1, 2).unwrap();
    assert_eq!(permits.acquire("me", 1, 3), None);
    let two = ReleaseTarget::Permits(HoldName::Attempt(Attempt(1)), 2);
    assert_eq!(permits.release("me", two), Ok(released(1, true)));
    assert_eq!(permits.held(), held(&[("you", 1, &[0, 1]), ("me", 2, &[2])]));
    let (locks, owner, session) = (lock_name("s").into(), Owner::unnamed(), session_name("you"));
    let target = ReleaseTarget::Permits(HoldName::Attempt(Attempt(1)), 1);
    let release = Command::Release(Release { locks, session: session.clone(), owner, target });
    let call = NumberedCall { session, request: RequestNumber(1), scope: CallScope(1) };
    assert_eq!(permits.apply(release.clone().once(Some(call.clone()))), Ok(released(1, true)));
    let copy = permits.apply(release.once(Some(call)));
    assert!(matches!(copy, Ok(Reply::Repeated { .. })), "{copy:?}");
    assert_eq!(permits.held(), held(&[("you", 1, &[0]), ("me", 2, &[2])]));
}

#[test]
fn an_owner_that_rejects_reentrance_has_one_permit() {
    let mut permits = Permits(Machine::new());
    permits.acquire("me", 1, 1).unwrap();
    let options = AcquireOptions { reentrant: false, ..AcquireOptions::PLAIN };
    let again = |plain| Acquire { attempt: Some(Attempt(2)), options, ..plain };
    let rejected = Err(Rejection::Lock(LockRejection::NotReentrant));
    assert_eq!(permits.acquire_with("me", again), rejected);
    assert_eq!(permits.held().len(), 1);
}

#[test]
fn a_transfer_names_a_permit_by_its_token() {
    let mut permits = Permits(Machine::new());
    (1..=2).for_each(|n| drop(permits.acquire("me", n, 1)));
    permits.apply(Command::OpenSession { open: open("you"), attempt: None }).unwrap();
    let (from, to) =
        ((session_name("me"), Owner::unnamed()), (session_name("you"), Owner::unnamed()));
    let token = Some(FencingToken(2));
    let hand_over = HandOver { lock: lock_name("s"), from, to, token };
    permits.apply(Command::HandOver(hand_over)).unwrap();
    assert_eq!(permits.held(), held(&[("me", 1, &[0]), ("you", 3, &[1])]));
}

#[test]
fn a_waiting_permit_is_cancelled_alone() {
    let mut permits = Permits(Machine::new());
    permits.acquire("me", 1, 3).unwrap();
    let asked = |plain| Acquire { attempt: Some(Attempt(2)), wait: true, ..plain };
    let Ok(Reply::Acquired(EntryState::Waiting(queued))) = permits.acquire_with("me", asked) else {
        panic!("it waits")
    };
    let Queued { lock, ticket, requested_in, .. } = queued[0].clone();
    let (session, owner) = (session_name("me"), Owner::unnamed());
    let state = |machine: &Machine| {
        machine.entry_state(&lock_name("s").into(), &session, &owner, Some(ticket))
    };
    assert!(matches!(state(&permits.0), Some(EntryState::Waiting(_))));
    let cancel =
        Cancel { lock, session: session.clone(), owner: owner.clone(), ticket, requested_in };
    assert_eq!(permits.apply(Command::Cancel(cancel)), Ok(Reply::Cancelled));
    assert_eq!(state(&permits.0), None);
    assert_eq!(permits.held(), held(&[("me", 1, &[0, 1, 2])]));
}

/// The client waits for the deletion of the znode before its znode. If its znode were deleted, it would report a lost session.
#[test]
fn a_lower_limit_keeps_the_znode_of_a_waiting_zookeeper_client() {
    let mut permits = Permits(Machine::new());
    permits.acquire("a", 0, 1).unwrap();
    let node = create("/locks/s/m-lock-", CreateKind::Ephemeral, true, Vec::new());
    permits.apply(Command::OpenSession { open: open("z"), attempt: None }).unwrap();
    permits.apply(multi(of_session("z"), vec![node])).unwrap();
    assert!(permits.acquire("b", 0, 2).is_none());
    for limit in [1, 4] {
        let change = PolicyChange { limit: Some(Some(limit)), ..PolicyChange::default() };
        permits.apply(Command::SetPolicy { lock: lock_name("s"), change }).unwrap();
        let view = permits.0.lock(&lock_name("s"), 10);
        let waiters: Vec<_> = view.waiters.iter().map(|w| w.session.to_string()).collect();
        assert_eq!(waiters, ["z"], "limit {limit}");
    }
    permits.release("a", ReleaseTarget::AnyEntry).unwrap();
    assert_eq!(permits.held(), held(&[("z", 2, &[0, 1, 2, 3])]));
}

/// It holds the semaphore alone, and the receiver holds the same permits.
#[test]
fn a_hand_over_of_a_zookeeper_reader_on_a_semaphore_gives_no_shared_hold() {
    let mut machine = Machine::new();
    for line in [
        "policy s limit=2",
        "open z",
        "create /locks/s/r__READ__ ephemeral sequential session=z",
        "open n",
        "hand_over s z n",
    ] {
        run_line(&mut machine, line).unwrap();
    }
    let holder = machine.lock(&lock_name("s"), 9).holders.remove(0);
    assert_eq!((holder.mode, holder.permits), (Mode::Exclusive, 2));
}
