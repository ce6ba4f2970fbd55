//! Nested attempts of one owner: the entry has the strongest mode of its claims, in every order of releases, beside
//! every kind of waiter, with late copies, changes and expiry. Each test is a row of the table in `docs/semantics.md`.

use holdfast_types::*;
use holdfast_types::{LockEvent, LockRejection};

use super::script_commands::{lock_name, open, session_name};
use crate::Machine;

use Mode::{Exclusive, Shared, Upgradable};

struct Nested {
    machine: Machine,
    events: Vec<Event>,
}

impl Nested {
    fn new() -> Self {
        Self { machine: Machine::new(), events: Vec::new() }
    }

    fn apply(&mut self, command: Command) -> Outcome {
        let entry = Entry { stamped_at: Stamp(0), commands: vec![command] };
        let mut applied = self.machine.apply(entry);
        self.machine.check_invariants().unwrap();
        let loaded = Machine::load(self.machine.dump()).unwrap();
        assert_eq!(loaded.state_digest(), self.machine.state_digest());
        self.events = applied.events.into_iter().map(|(_, event)| event).collect();
        applied.outcomes.remove(0)
    }

    fn acquire_with(&mut self, session: &str, acquire: impl FnOnce(Acquire) -> Acquire) -> Outcome {
        let plain = Acquire::new(lock_name("a"), open(session), Owner::unnamed());
        self.apply(Command::Acquire(acquire(plain)))
    }

    /// The reply to an attempt in a mode: the grant, or `None` for a waiter.
    fn acquire(&mut self, session: &str, attempt: u64, mode: Mode) -> Option<Grant> {
        let (attempt, mode) = (Some(Attempt(attempt)), Some(mode));
        grant(self.acquire_with(session, |plain| Acquire { attempt, mode, ..plain }))
    }

    /// The mode and the number of claims of the owner `me` after an attempt that is granted at once.
    fn nest(&mut self, attempt: u64, mode: Mode) -> (Mode, u32) {
        let grant = self.acquire("me", attempt, mode).unwrap();
        (grant.mode, grant.hold_count)
    }

    fn change_call(claim: u64, by: u64, mode: Mode) -> impl FnOnce(Acquire) -> Acquire {
        let (change, attempt, mode) = (Some(Attempt(claim)), Some(Attempt(by)), Some(mode));
        move |plain| Acquire { change, attempt, mode, ..plain }
    }

    fn change(&mut self, claim: u64, by: u64, mode: Mode) -> Option<Grant> {
        grant(self.acquire_with("me", Self::change_call(claim, by, mode)))
    }

    fn release(&mut self, session: &str, attempt: u64) -> Released {
        let (locks, owner) = (lock_name("a").into(), Owner::unnamed());
        let (session, target) = (session_name(session), ReleaseTarget::Attempt(Attempt(attempt)));
        let released = self.apply(Command::Release(Release { locks, session, owner, target }));
        let Ok(Reply::Released(released)) = released else { panic!("{released:?}") };
        released
    }

    /// An attempt of the owner `me` that waits for a write, as a change of a claim or not. Returns when it was asked.
    fn wait(&mut self, attempt: u64, change: Option<u64>) -> Revision {
        let (attempt, change) = (Some(Attempt(attempt)), change.map(Attempt));
        let mode = Some(Exclusive);
        let outcome = self.acquire_with("me", |plain| Acquire { attempt, change, mode, ..plain });
        let Ok(Reply::Acquired(EntryState::Waiting(queued))) = outcome else {
            panic!("{outcome:?}")
        };
        queued[0].requested_in
    }

    /// Ends the wait of a call.
    fn cancel(&mut self, session: &str, requested_in: Revision) -> Outcome {
        let (session, owner) = (session_name(session), Owner::unnamed());
        let state = self.machine.entry_state(&lock_name("a").into(), &session, &owner, None);
        let Some(EntryState::Waiting(queued)) = state else { return Ok(Reply::Cancelled) };
        let (lock, ticket) = (lock_name("a"), queued[0].ticket);
        self.apply(Command::Cancel(Cancel { lock, session, owner, ticket, requested_in }))
    }

    /// Ends the wait of the session's entry at its deadline.
    fn end_wait(&mut self, session: &str) {
        let state = self.machine.entry_state(
            &lock_name("a").into(),
            &session_name(session),
            &Owner::unnamed(),
            None,
        );
        let Some(EntryState::Waiting(queued)) = state else { panic!("{state:?}") };
        let Queued { lock, ticket, requested_in, .. } = queued[0].clone();
        let (session, owner) = (session_name(session), Owner::unnamed());
        let cancel = Cancel { lock, session, owner, ticket, requested_in };
        assert_eq!(self.apply(Command::Cancel(cancel)), Ok(Reply::Cancelled));
    }

    /// The holders: session and mode.
    fn held(&self) -> Vec<(String, Mode)> {
        let view = self.machine.lock(&lock_name("a"), 10);
        view.holders.iter().map(|holder| (holder.session.to_string(), holder.mode)).collect()
    }

    fn mine(&self) -> HolderView {
        self.machine.lock(&lock_name("a"), 10).holders.into_iter().find(is_me).unwrap()
    }

    fn is_converted(&self) -> bool {
        let converted = |event: &Event| matches!(event, Event::Lock(LockEvent::ModeChanged(_)));
        self.events.iter().any(converted)
    }
}

fn is_me(holder: &HolderView) -> bool {
    holder.session.as_str() == "me"
}

fn grant(outcome: Outcome) -> Option<Grant> {
    match outcome {
        Ok(Reply::Acquired(EntryState::Holding(mut grants))) => grants.pop(),
        Ok(Reply::Acquired(EntryState::Waiting(_))) => None,
        other => panic!("{other:?}"),
    }
}

fn held(entries: &[(&str, Mode)]) -> Vec<(String, Mode)> {
    entries.iter().map(|(session, mode)| ((*session).to_owned(), *mode)).collect()
}

fn conflict(mode: Mode, why: ModeConflictReason) -> Outcome {
    Err(LockRejection::ModeConflict { mode, why }.into())
}

#[test]
fn a_read_in_a_write_stays_exclusive_until_the_write_is_released() {
    let mut nested = Nested::new();
    assert_eq!(nested.nest(1, Exclusive), (Exclusive, 1));
    let token = nested.mine().token;
    assert_eq!(nested.nest(2, Shared), (Exclusive, 2));
    assert_eq!(nested.acquire("reader", 1, Shared), None, "the write still excludes a reader");
    // The read first.
    assert_eq!(nested.release("me", 2), Released { hold_count: 1, changed: true });
    assert_eq!(nested.held(), held(&[("me", Exclusive)]));
    assert!(!nested.is_converted());
    // The write first: the reader enters beside the read, which keeps its token.
    assert_eq!(nested.nest(3, Shared), (Exclusive, 2));
    assert_eq!(nested.release("me", 1), Released { hold_count: 1, changed: true });
    assert!(nested.is_converted());
    assert_eq!(nested.held(), held(&[("me", Shared), ("reader", Shared)]));
    assert_eq!(nested.mine().token, token);
    assert_eq!(nested.release("me", 3), Released { hold_count: 0, changed: true });
    assert_eq!(nested.held(), held(&[("reader", Shared)]));
}

#[test]
fn a_write_in_a_read_is_granted_alone_and_rejected_at_once_beside_a_reader() {
    let mut nested = Nested::new();
    nested.nest(1, Shared);
    let read = nested.mine().token;
    // A new attempt without a mode is a write.
    let attempt = Some(Attempt(2));
    let write = grant(nested.acquire_with("me", |plain| Acquire { attempt, ..plain })).unwrap();
    assert_eq!((write.mode, write.hold_count), (Exclusive, 2));
    assert!(write.token > read, "an upgrade has a new token");
    assert_eq!(nested.acquire("reader", 1, Shared), None);
    nested.release("me", 2);
    assert_eq!(nested.held(), held(&[("me", Shared), ("reader", Shared)]));
    assert_eq!(nested.mine().token, write.token, "what is left keeps the token");
    for mode in [Exclusive, Upgradable] {
        nested.release("other", 1);
        if mode == Upgradable {
            nested.acquire("other", 2, Upgradable).unwrap();
        }
        for wait in [true, false] {
            let (attempt, mode) = (Some(Attempt(3)), Some(mode));
            let never = nested.acquire_with("me", |plain| Acquire { attempt, mode, wait, ..plain });
            assert_eq!(never, conflict(Shared, ModeConflictReason::SharedBesideOthers));
        }
    }
    assert_eq!(nested.mine().hold_count, 1);
}

/// Curator's readers enter beside every entry with `__READ__` in its name.
#[test]
fn a_write_in_a_read_has_the_name_of_a_write_at_the_same_position() {
    let mut nested = Nested::new();
    let read = nested.acquire("me", 1, Shared).unwrap();
    let names = |nested: &Nested| {
        let directory = super::script_commands::path("/locks/a");
        nested.machine.list(&directory, &[]).unwrap().1
    };
    assert_eq!(names(&nested), ["0000000000__READ__0000000000__lock__0000000000"]);
    let write = nested.acquire("me", 2, Exclusive).unwrap();
    assert_eq!(write.ticket, read.ticket);
    assert_eq!(names(&nested), ["0000000000__WRIT__0000000000__lock__0000000000"]);
    nested.release("me", 2);
    assert_eq!(names(&nested), ["0000000000__WRIT__0000000000__lock__0000000000"]);
}

#[test]
fn a_write_in_an_upgradable_hold_waits_for_readers_and_ends_without_a_trace() {
    let mut nested = Nested::new();
    nested.nest(1, Upgradable);
    let token = nested.mine().token;
    nested.acquire("reader", 1, Shared).unwrap();
    assert_eq!(nested.acquire("me", 2, Exclusive), None);
    assert!(nested.mine().upgrading);
    // The outer claim is renewed meanwhile.
    assert_eq!(nested.nest(1, Upgradable), (Upgradable, 2));
    assert_eq!(nested.acquire("late", 1, Shared), None, "no new reader delays the upgrade");
    nested.end_wait("me");
    assert_eq!(nested.held(), held(&[("me", Upgradable), ("reader", Shared), ("late", Shared)]));
    assert_eq!((nested.mine().token, nested.mine().hold_count), (token, 1));
    let attempt = Some(Attempt(2));
    let copy = nested.acquire_with("me", |plain| Acquire { attempt, ..plain });
    assert_eq!(copy, Err(LockRejection::AttemptOver { newest: Attempt(2) }.into()));
    // Its release ends a wait, too.
    assert_eq!(nested.acquire("me", 3, Exclusive), None);
    assert_eq!(nested.release("me", 3), Released { hold_count: 1, changed: true });
    assert!(!nested.mine().upgrading);
    assert_eq!(nested.acquire("me", 4, Exclusive), None);
    nested.release("reader", 1);
    nested.release("late", 1);
    assert_eq!(nested.held(), held(&[("me", Exclusive)]));
    assert!(nested.mine().token > token);
}

/// Two calls of one owner wait, in the queue or for an upgrade. The end of one wait ends its attempt alone.
#[test]
fn the_end_of_a_wait_ends_one_attempt() {
    for first_ends in [true, false] {
        for upgrades in [true, false] {
            let mut nested = Nested::new();
            let other = if upgrades { Shared } else { Exclusive };
            if upgrades {
                nested.nest(1, Upgradable);
            }
            nested.acquire("other", 1, other).unwrap();
            let asked = [2, 3].map(|attempt| nested.wait(attempt, None));
            let (ended, left) = if first_ends { (asked[0], 3) } else { (asked[1], 2) };
            assert_eq!(nested.cancel("me", ended), Ok(Reply::Cancelled));
            nested.release("other", 1);
            let grant = nested.acquire("me", left, Exclusive).unwrap();
            assert_eq!((grant.mode, grant.hold_count), (Exclusive, 1 + u32::from(upgrades)));
            nested.release("me", left);
            let rest: &[_] = if upgrades { &[("me", Upgradable)] } else { &[] };
            assert_eq!(nested.held(), held(rest));
        }
    }
}

/// A call that was repeated waits on: only the latest copy ends the attempt.
#[test]
fn the_end_of_an_older_copy_ends_nothing() {
    let mut nested = Nested::new();
    nested.acquire("other", 1, Exclusive).unwrap();
    let older = nested.wait(2, None);
    let newer = nested.wait(2, None);
    let waits = |outcome: Outcome| matches!(outcome, Ok(Reply::Acquired(EntryState::Waiting(_))));
    assert!(waits(nested.cancel("me", older)));
    assert_eq!(nested.cancel("me", newer), Ok(Reply::Cancelled));
    nested.release("other", 1);
    assert_eq!(nested.held(), held(&[]));
}

/// An upgrade by a nested attempt, and a change of it: after the end of both waits the hold is what it was.
#[test]
fn no_upgrade_goes_on_after_the_end_of_its_waits() {
    for change_ends_first in [true, false] {
        let mut nested = Nested::new();
        nested.nest(1, Upgradable);
        nested.acquire("reader", 1, Shared).unwrap();
        let nest = nested.wait(2, None);
        let change = nested.wait(3, Some(2));
        let ends = if change_ends_first { [change, nest] } else { [nest, change] };
        for end in ends {
            nested.cancel("me", end).unwrap();
        }
        assert!(!nested.mine().upgrading);
        nested.release("reader", 1);
        assert_eq!(nested.held(), held(&[("me", Upgradable)]));
    }
}

#[test]
fn the_outer_claim_may_end_while_the_nested_upgrade_waits() {
    for ends in [true, false] {
        let mut nested = Nested::new();
        nested.nest(1, Upgradable);
        nested.acquire("reader", 1, Shared).unwrap();
        assert_eq!(nested.acquire("me", 2, Exclusive), None);
        assert_eq!(nested.release("me", 1), Released { hold_count: 1, changed: true });
        if ends {
            nested.end_wait("me");
            assert_eq!(nested.held(), held(&[("reader", Shared)]), "no claim is left");
        } else {
            nested.release("reader", 1);
            assert_eq!(nested.held(), held(&[("me", Exclusive)]));
        }
    }
}

#[test]
fn three_claims_leave_the_strongest_rest_in_every_order() {
    let modes = [Exclusive, Upgradable, Shared];
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for acquired in orders {
        for released in orders {
            let mut nested = Nested::new();
            for claim in acquired {
                nested.acquire("me", claim as u64 + 1, modes[claim]).unwrap();
            }
            assert_eq!((nested.mine().mode, nested.mine().hold_count), (Exclusive, 3));
            let token = nested.mine().token;
            for (at, claim) in released.iter().enumerate() {
                nested.release("me", *claim as u64 + 1);
                let rest = released[at + 1..].iter().map(|claim| modes[*claim]);
                let expected = rest.reduce(Mode::stronger);
                let left = nested.held().first().map(|(_, mode)| *mode);
                assert_eq!(left, expected, "{acquired:?} {released:?}");
                assert!(expected.is_none() || nested.mine().token == token);
            }
        }
    }
}

#[test]
fn a_weaker_rest_admits_exactly_the_waiters_that_it_allows() {
    for (rest, waiter, is_admitted) in [
        (Shared, Shared, true),
        (Shared, Upgradable, true),
        (Shared, Exclusive, false),
        (Upgradable, Shared, true),
        (Upgradable, Upgradable, false),
        (Upgradable, Exclusive, false),
    ] {
        let mut nested = Nested::new();
        nested.nest(1, Exclusive);
        nested.nest(2, rest);
        assert_eq!(nested.acquire("waiter", 1, waiter), None);
        nested.release("me", 1);
        assert_eq!(nested.held().len() == 2, is_admitted, "{rest:?} {waiter:?}");
        nested.release("me", 2);
        assert_eq!(nested.held(), held(&[("waiter", waiter)]));
    }
}

#[test]
fn the_expiry_of_the_session_ends_all_claims() {
    let mut nested = Nested::new();
    nested.nest(1, Exclusive);
    nested.nest(2, Shared);
    assert_eq!(nested.acquire("next", 1, Exclusive), None);
    let (session, _) = nested.machine.session_id(&session_name("me")).unwrap();
    let (_, generation) = nested.machine.lease(session).unwrap();
    nested.apply(Command::ExpireSession { session, generation }).unwrap();
    assert_eq!(nested.held(), held(&[("next", Exclusive)]));
}

#[test]
fn a_plain_acquire_converts_nothing() {
    let mut nested = Nested::new();
    nested.nest(1, Upgradable);
    let same = conflict(Upgradable, ModeConflictReason::SameAttempt);
    for mode in [Exclusive, Shared] {
        let (attempt, mode) = (Some(Attempt(1)), Some(mode));
        assert_eq!(nested.acquire_with("me", |plain| Acquire { attempt, mode, ..plain }), same);
        assert_eq!(nested.acquire_with("me", |plain| Acquire { mode, ..plain }), same);
    }
    assert_eq!(nested.held(), held(&[("me", Upgradable)]));
    let attempt = Some(Attempt(1));
    let valued = |text: &str| {
        let options =
            AcquireOptions { value: Some(text.as_bytes().into()), ..AcquireOptions::PLAIN };
        move |plain| Acquire { attempt, options, ..plain }
    };
    let other = nested.acquire_with("me", valued("x"));
    assert_eq!(other, Err(LockRejection::ValueConflict.into()));
}

#[test]
fn a_change_by_name_converts_and_a_late_copy_of_any_call_reverts_nothing() {
    let mut nested = Nested::new();
    nested.nest(1, Upgradable);
    let upgraded = nested.change(1, 2, Exclusive).unwrap();
    assert_eq!(upgraded.mode, Exclusive);
    // The first acquire again, as a resumed follower sends it.
    let late = nested.acquire("me", 1, Upgradable).unwrap();
    assert_eq!((late.mode, late.token), (Exclusive, upgraded.token));
    assert_eq!(nested.acquire("reader", 1, Shared), None);
    // The other direction.
    nested.change(1, 3, Shared).unwrap();
    let late = nested.change(1, 2, Exclusive).unwrap();
    assert_eq!((late.mode, late.token), (Shared, upgraded.token));
    assert_eq!(nested.held(), held(&[("me", Shared), ("reader", Shared)]));
    // The release of the claim ends it, whatever its changes were; a late change acquires nothing.
    nested.release("me", 1);
    let late = nested.acquire_with("me", Nested::change_call(1, 4, Exclusive));
    assert_eq!(late, Err(LockRejection::AttemptOver { newest: Attempt(3) }.into()));
    assert_eq!(nested.held(), held(&[("reader", Shared)]));
    nested.nest(5, Shared);
    let late = nested.acquire_with("me", Nested::change_call(1, 6, Exclusive));
    assert_eq!(late, Err(LockRejection::AttemptOver { newest: Attempt(3) }.into()));
    nested.release("me", 5);
    let never = nested.acquire_with("me", Nested::change_call(9, 10, Exclusive));
    assert!(matches!(never, Err(Rejection::Lock(LockRejection::NotHolder { .. }))), "{never:?}");
}

#[test]
fn a_change_whose_wait_ended_is_over_and_its_claim_is_what_it_was() {
    let mut nested = Nested::new();
    nested.nest(1, Upgradable);
    nested.acquire("reader", 1, Shared).unwrap();
    assert_eq!(nested.change(1, 2, Exclusive), None);
    assert_eq!(nested.change(1, 2, Exclusive), None, "the same call waits for the same upgrade");
    nested.end_wait("me");
    let copy = nested.acquire_with("me", Nested::change_call(1, 2, Exclusive));
    assert_eq!(copy, Err(LockRejection::AttemptOver { newest: Attempt(2) }.into()));
    assert_eq!((nested.mine().mode, nested.mine().upgrading), (Upgradable, false));
    // A later change is a new one.
    assert_eq!(nested.change(1, 3, Exclusive), None);
    assert_eq!(nested.release("me", 3), Released { hold_count: 1, changed: true });
    assert!(!nested.mine().upgrading, "the release of the change withdraws it");
    nested.release("reader", 1);
    assert_eq!(nested.mine().mode, Upgradable);
}

#[test]
fn the_value_is_that_of_the_newest_attempt() {
    let mut nested = Nested::new();
    let call = |change: Option<u64>, attempt, value: &str| {
        let value = Some(value.as_bytes().into());
        let options = AcquireOptions { value, ..AcquireOptions::PLAIN };
        let (change, attempt) = (change.map(Attempt), Some(Attempt(attempt)));
        move |plain| Acquire { change, attempt, options, ..plain }
    };
    let value = |nested: &Nested| String::from_utf8(nested.mine().value.unwrap().to_vec()).unwrap();
    nested.acquire_with("me", call(None, 1, "old")).unwrap();
    nested.acquire_with("me", call(Some(1), 2, "new")).unwrap();
    nested.acquire_with("me", call(None, 1, "old")).unwrap();
    assert_eq!(value(&nested), "new");
    nested.acquire_with("me", call(None, 4, "nested")).unwrap();
    assert_eq!(value(&nested), "nested");
    for late in [call(Some(1), 3, "late"), call(Some(1), 2, "new"), call(None, 1, "old")] {
        nested.acquire_with("me", late).unwrap();
        assert_eq!(value(&nested), "nested");
    }
}

#[test]
fn a_session_keeps_the_ttl_and_the_labels_of_its_newest_attempt() {
    let mut nested = Nested::new();
    let opened = |seconds: u64, label: &str| {
        let labels = [("by".to_owned(), label.to_owned())].into_iter().collect();
        let ttl = Some(Ttl::from_millis(seconds * 1_000).unwrap());
        OpenSession { ttl, labels: Labels::new(labels).unwrap(), ..open("me") }
    };
    let open_as = |attempt: Option<u64>, seconds, label: &str| Command::OpenSession {
        open: opened(seconds, label),
        attempt: attempt.map(Attempt),
    };
    let settings = |nested: &Nested| {
        let SessionStatus::Open(view) = nested.machine.session(&session_name("me")) else {
            panic!()
        };
        let by = view.labels.iter().next().unwrap().1.to_owned();
        (view.ttl.as_millis() / 1_000, by)
    };
    nested.apply(open_as(Some(1), 2, "first")).unwrap();
    nested.apply(open_as(Some(2), 60, "second")).unwrap();
    for late in [Some(1), Some(2), None] {
        nested.apply(open_as(late, 5, "late")).unwrap();
        assert_eq!(settings(&nested), (60, "second".to_owned()), "{late:?}");
    }
    let attempt = Some(Attempt(3));
    let acquire = |open| Acquire {
        open,
        attempt,
        ..Acquire::new(lock_name("a"), self::open("me"), Owner::unnamed())
    };
    nested.apply(Command::Acquire(acquire(opened(40, "acquire")))).unwrap();
    nested.apply(open_as(Some(4), 50, "fourth")).unwrap();
    nested.apply(Command::Acquire(acquire(opened(40, "acquire")))).unwrap();
    assert_eq!(settings(&nested), (50, "fourth".to_owned()));
    // A late open does not open the closed session again, also if it had no settings.
    let plain = Command::OpenSession { open: open("me"), attempt: Some(Attempt(5)) };
    nested.apply(plain.clone()).unwrap();
    let session = session_name("me");
    nested.apply(Command::CloseSession { session, attachment: None, incarnation: None }).unwrap();
    let over = Err(LockRejection::AttemptOver { newest: Attempt(5) }.into());
    assert_eq!(nested.apply(open_as(Some(4), 50, "fourth")), over);
    assert_eq!(nested.apply(plain), over);
    assert_eq!(nested.machine.session(&session_name("me")), SessionStatus::Closed);
    nested.apply(open_as(Some(6), 10, "fifth")).unwrap();
    nested.apply(open_as(Some(6), 20, "late")).unwrap();
    assert_eq!(settings(&nested), (10, "fifth".to_owned()));
    // An acquire sets them, too. Calls for other locks arrive in any order.
    for (lock, attempt, label) in [("b", 8, "eighth"), ("c", 7, "late")] {
        let (attempt, open) = (Some(Attempt(attempt)), opened(30, label));
        let plain = Acquire::new(lock_name(lock), open, Owner::unnamed());
        nested.apply(Command::Acquire(Acquire { attempt, ..plain })).unwrap();
        assert_eq!(settings(&nested), (30, "eighth".to_owned()));
    }
}

#[test]
fn a_transfer_ends_the_claims_of_the_giver() {
    let mut nested = Nested::new();
    nested.nest(1, Exclusive);
    nested.nest(2, Shared);
    nested.apply(Command::OpenSession { open: open("you"), attempt: None }).unwrap();
    let side = |session| (session_name(session), Owner::unnamed());
    let hand_over =
        HandOver { lock: lock_name("a"), from: side("me"), to: side("you"), token: None };
    nested.apply(Command::HandOver(hand_over)).unwrap();
    let holder = nested.machine.lock(&lock_name("a"), 1).holders.remove(0);
    assert_eq!((holder.mode, holder.hold_count), (Exclusive, 1));
    assert_eq!(nested.release("me", 2), Released { hold_count: 0, changed: false });
    assert_eq!(nested.held(), held(&[("you", Exclusive)]));
}

#[test]
fn each_nested_wait_has_its_own_deadline() {
    let mut nested = Nested::new();
    nested.acquire("other", 1, Exclusive).unwrap();
    for (attempt, ms) in [(1, 5_000), (2, 60_000)] {
        let (attempt, wait_ms) = (Some(Attempt(attempt)), Some(ms));
        nested.acquire_with("me", |plain| Acquire { attempt, wait_ms, ..plain }).unwrap();
    }
    let waits = nested.machine.waits_after(Revision(0), 9);
    assert_eq!(waits.iter().map(|wait| wait.wait_ms).collect::<Vec<_>>(), [5_000, 60_000]);
}
