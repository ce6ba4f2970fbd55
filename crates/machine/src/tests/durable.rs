//! Durable holds: what names their sessions, what ends them, and what keeps them.

use holdfast_types::*;

use super::auth::{self, ADMIN, change, forbidden, set_role, set_subject};
use super::restore;
use super::script_commands::{create, lock_name, lock_set, multi, of_session, open, session_name};
use crate::Machine;

fn apply(machine: &mut Machine, command: Command) -> Applied {
    let entry = Entry { stamped_at: Stamp(1_000), commands: vec![command] };
    let applied = machine.apply(entry);
    machine.check_invariants().unwrap();
    let loaded = Machine::load(machine.dump()).unwrap();
    assert_eq!(loaded.state_digest(), machine.state_digest());
    applied
}

fn outcome(machine: &mut Machine, command: Command) -> Outcome {
    apply(machine, command).outcomes.remove(0)
}

fn durable_open(name: &str) -> OpenSession {
    let session = SessionName::durable(&session_name(name)).unwrap();
    OpenSession { session, ..open(name) }
}

pub(super) fn durable(lock: &str, name: &str) -> Acquire {
    let owner = Owner::new(name).unwrap();
    let durable = Some(Reason::new("maintenance").unwrap());
    Acquire {
        attempt: Some(Attempt(1)),
        enters: true,
        options: AcquireOptions { durable, ..AcquireOptions::PLAIN },
        wait_ms: Some(5_000),
        ..Acquire::new(lock_name(lock), durable_open(name), owner)
    }
}

fn plain(lock: &str, name: &str) -> Acquire {
    Acquire::new(lock_name(lock), open(name), Owner::unnamed())
}

fn release(lock: &str, name: &str, target: ReleaseTarget) -> Command {
    let (locks, session) = (lock_name(lock).into(), durable_open(name).session);
    Command::Release(Release { locks, session, owner: Owner::new(name).unwrap(), target })
}

fn grant(outcome: Outcome) -> Grant {
    outcome.unwrap().into_entry_state().unwrap().into_single_grant().unwrap()
}

fn held_by(machine: &Machine, lock: &str) -> Vec<(String, u64)> {
    let holders = machine.lock(&lock_name(lock), 10).holders;
    holders.into_iter().map(|one| (one.session.to_string(), one.token.0)).collect()
}

/// A machine in which `carol` has the durable hold of `a` with token 1, and `next` waits for it.
fn machine() -> Machine {
    let mut machine = Machine::new();
    grant(outcome(&mut machine, Command::Acquire(durable("a", "carol"))));
    outcome(&mut machine, Command::Acquire(plain("a", "next"))).unwrap();
    machine
}

const REFUSED: Outcome = Err(Rejection::OutOfBounds { what: OutOfBounds::Durable });

#[test]
fn the_hold_has_no_lease_and_a_retry_gets_the_same_token() {
    let mut machine = Machine::new();
    let acquire = Command::Acquire(durable("a", "carol"));
    let first = apply(&mut machine, acquire.clone());
    let is_lease = |(_, event): &(Revision, Event)| {
        matches!(event, Event::Session(SessionEvent::LeaseStarted { .. }))
    };
    assert!(!first.events.iter().any(is_lease), "{first:?}");
    let again = apply(&mut machine, acquire);
    assert!(!again.events.iter().any(is_lease), "{again:?}");
    let (first, again) = (grant(first.outcomes[0].clone()), grant(again.outcomes[0].clone()));
    assert_eq!((first.token, again.token, again.renewed), (FencingToken(1), FencingToken(1), true));
    assert_eq!(machine.leases().count(), 0);
    for generation in 1..3 {
        let expire = Command::ExpireSession { session: SessionId(1), generation };
        assert!(outcome(&mut machine, expire).is_err());
    }
    assert_eq!(held_by(&machine, "a"), [("durable!carol".to_owned(), 1)]);
    let records: Vec<_> = machine.audit_records_after(0).collect();
    let [record] = records[..] else { panic!("{records:?}") };
    assert_eq!(
        (record.action, record.target.to_string().as_str()),
        (AuditAction::HoldDurable, "lock a")
    );
    assert_eq!(record.reason, Some(Reason::new("maintenance").unwrap()));
}

#[test]
fn a_late_copy_of_an_acquire_takes_nothing_after_the_release() {
    let attempt = |n, lock| Acquire { attempt: Some(Attempt(n)), ..durable(lock, "carol") };
    let semaphore = |n| Acquire { limit: Some(3), ..attempt(n, "s") };
    for (lock, calls) in [
        ("a", [attempt(1, "a"), attempt(3, "a"), attempt(2, "a")]),
        ("s", [semaphore(1), semaphore(3), semaphore(2)]),
    ] {
        let mut machine = Machine::new();
        for call in calls.clone() {
            // Another attempt of the owner returns its hold.
            assert_eq!(grant(outcome(&mut machine, Command::Acquire(call))).token, FencingToken(1));
        }
        let held = || release(lock, "carol", ReleaseTarget::Hold(FencingToken(1)));
        outcome(&mut machine, held()).unwrap();
        for call in calls {
            let copy = outcome(&mut machine, Command::Acquire(call));
            let newest = Attempt(3);
            assert_eq!(copy, Err(Rejection::Lock(LockRejection::AttemptOver { newest })));
        }
        assert_eq!(held_by(&machine, lock), [], "{lock}");
        let again = grant(outcome(&mut machine, Command::Acquire(attempt(4, lock))));
        assert_eq!(again.token, FencingToken(2));
        // A copy of the release ends nothing.
        outcome(&mut machine, held()).unwrap();
        assert_eq!(held_by(&machine, lock), [("durable!carol".to_owned(), 2)]);
    }
}

#[test]
fn no_other_call_names_the_session_and_none_ends_the_hold_without_its_token() {
    let mut machine = machine();
    let (session, carol) = (durable_open("carol").session, Owner::new("carol").unwrap());
    let named = |open| Command::OpenSession { open, attempt: None };
    let (to, next) = (session.clone(), (session_name("next"), Owner::unnamed()));
    let from = (session.clone(), carol);
    let hand_over =
        |from, to| Command::HandOver(HandOver { lock: lock_name("a"), from, to, token: None });
    let end = |reason: &str| Reason::new(reason).unwrap();
    let wrong = [
        named(durable_open("carol")),
        named(durable_open("dave")),
        Command::RenewSession { session: to.clone() },
        Command::CloseSession { session: to.clone(), attachment: None, incarnation: None },
        Command::EndSession { session: to.clone(), incarnation: None, reason: end("x") },
        Command::Acquire(Acquire { options: AcquireOptions::PLAIN, ..durable("a", "carol") }),
        Command::Acquire(Acquire { open: open("carol"), ..durable("a", "carol") }),
        release("a", "carol", ReleaseTarget::AnyEntry),
        release("a", "carol", ReleaseTarget::Attempt(Attempt(1))),
        release("a", "carol", ReleaseTarget::Permits(HoldName::Token(FencingToken(1)), 1)),
        hand_over(from.clone(), next.clone()),
        hand_over(next, from),
        multi(
            of_session("durable!carol"),
            vec![create("/e", CreateKind::Ephemeral, false, Vec::new())],
        ),
        Command::RenewSession { session: session_name("next") }.once(Some(NumberedCall {
            session: to,
            request: RequestNumber(1),
            scope: CallScope(7),
        })),
    ];
    for command in wrong {
        let text = format!("{command:?}");
        assert_eq!(outcome(&mut machine, command), REFUSED, "{text}");
    }
    assert_eq!(held_by(&machine, "a"), [("durable!carol".to_owned(), 1)]);
    // A release with another token is late, and has no effect.
    outcome(&mut machine, release("a", "carol", ReleaseTarget::Hold(FencingToken(9)))).unwrap();
    assert_eq!(held_by(&machine, "a"), [("durable!carol".to_owned(), 1)]);
    outcome(&mut machine, release("a", "carol", ReleaseTarget::Hold(FencingToken(1)))).unwrap();
    assert_eq!(held_by(&machine, "a"), [("next".to_owned(), 2)]);
    assert_eq!(machine.session(&session), SessionStatus::Closed);
}

#[test]
fn options_without_a_meaning_for_a_durable_hold_are_refused() {
    let mut machine = Machine::new();
    let of = |change: fn(Acquire) -> Acquire| Command::Acquire(change(durable("a", "carol")));
    let options = |acquire: &Acquire| acquire.options.clone();
    let wrong = [
        of(|plain| Acquire { attempt: None, ..plain }),
        of(|plain| Acquire { locks: lock_set(&["a", "b"]), ..plain }),
        of(|plain| Acquire { change: Some(Attempt(0)), ..plain }),
        of(|plain| Acquire { mode: Some(Mode::Upgradable), ..plain }),
        of(|plain| Acquire {
            shards: Some(ShardRequest { count: Some(2), choice: ShardChoice::Any }),
            ..plain
        }),
        of(|plain| Acquire {
            open: OpenSession { ttl: Some(Ttl::DEFAULT), ..plain.open },
            ..plain
        }),
        of(|plain| Acquire { wait_ms: None, ..plain }),
        Command::Acquire(Acquire {
            options: AcquireOptions { max_hold_ms: Some(9), ..options(&durable("a", "carol")) },
            ..durable("a", "carol")
        }),
    ];
    for command in wrong {
        let text = format!("{command:?}");
        assert_eq!(outcome(&mut machine, command), REFUSED, "{text}");
    }
    // A share and permits of a semaphore have one.
    let shared =
        of(|plain| Acquire { mode: Some(Mode::Shared), wait: false, wait_ms: None, ..plain });
    assert_eq!(grant(outcome(&mut machine, shared)).mode, Mode::Shared);
    let permits = Acquire { limit: Some(3), permits: Some(2), ..durable("s", "carol") };
    assert_eq!(grant(outcome(&mut machine, Command::Acquire(permits))).slots, [0, 1]);
}

#[test]
fn an_operator_ends_the_hold_by_force_and_through_the_tree_with_a_record() {
    let release = Command::ForceRelease(ForceRelease {
        lock: lock_name("a"),
        what: ForceReleaseTarget::Holders,
        reason: Reason::new("carol has left").unwrap(),
    });
    let paths = machine();
    let directory = ZnodePath::of_lock(&lock_name("a"));
    let entry = paths.tree.below_after(&directory, None).next().unwrap().0.clone();
    let delete = Op::Delete { path: entry, version: None, recursive: false };
    for command in [release, multi(Caller::default(), vec![delete])] {
        let mut machine = machine();
        outcome(&mut machine, command).unwrap();
        assert_eq!(held_by(&machine, "a"), [("next".to_owned(), 2)]);
        let last = machine.audit_records_after(0).last().unwrap();
        assert_eq!(last.action, AuditAction::ForceRelease);
        assert!(last.detail().contains("durable!carol lost a (token 1)"), "{last:?}");
        assert_eq!(machine.session(&durable_open("carol").session), SessionStatus::Closed);
    }
}

#[test]
fn a_subject_needs_the_right_and_its_own_hold_is_not_its_own_in_the_tree() {
    let mut machine = Machine::new();
    change(&mut machine, Actor::Anonymous, auth::bootstrap(AuthMode::On)).unwrap();
    let write = "tree write *";
    change(&mut machine, ADMIN, set_role("user", &["lock acquire *", write])).unwrap();
    change(&mut machine, ADMIN, set_role("keeper", &["lock durable a", write])).unwrap();
    for (subject, role) in [("ulf", "user"), ("carol", "keeper")] {
        change(&mut machine, ADMIN, set_subject(subject, &[role], &[])).unwrap();
    }
    let by = |name: &str| Actor::Subject(auth::subject(name));
    let hold = |lock| Command::Acquire(durable(lock, "carol"));
    for (name, lock) in [("ulf", "a"), ("carol", "b")] {
        let refused = auth::apply(&mut machine, by(name), hold(lock));
        assert_eq!(forbidden(&refused).unwrap(), format!("lock durable {lock}"));
    }
    auth::apply(&mut machine, by("carol"), hold("a")).unwrap();
    // The permission includes the plain acquire.
    let waits = Command::Acquire(plain("a", "carol2"));
    auth::apply(&mut machine, by("carol"), waits).unwrap();
    let directory = ZnodePath::of_lock(&lock_name("a"));
    let entry = machine.tree.below_after(&directory, None).next().unwrap().0.clone();
    let delete = || {
        multi(
            Caller::default(),
            vec![Op::Delete { path: entry.clone(), version: None, recursive: false }],
        )
    };
    let refused = auth::apply(&mut machine, by("carol"), delete());
    assert_eq!(forbidden(&refused).unwrap(), "lock force-release a");
    assert_eq!(held_by(&machine, "a"), [("durable!carol".to_owned(), 1)]);
}

#[test]
fn a_restore_keeps_durable_holds_and_nothing_else() {
    let mut machine = machine();
    outcome(&mut machine, Command::Acquire(plain("b", "other"))).unwrap();
    outcome(&mut machine, Command::Acquire(durable("b", "carol"))).unwrap();
    outcome(&mut machine, Command::Acquire(durable("b", "dave"))).unwrap();
    let mut restored = machine.restored(&restore::options()).unwrap();
    restored.check_invariants().unwrap();
    assert_eq!(held_by(&restored, "a"), [("durable!carol".to_owned(), 1)]);
    assert_eq!((restored.counts().sessions, restored.counts().waiters), (1, 0));
    // No call can acknowledge the end of a durable session, so its owner can use it again at once.
    assert_eq!(restored.session(&durable_open("dave").session), SessionStatus::Closed);
    let again = Acquire { attempt: Some(Attempt(9)), ..durable("x", "dave") };
    outcome(&mut restored, Command::Acquire(again)).unwrap();
    // The next holder has a larger token than every one of the old cluster.
    let last = restored.counts().grants;
    outcome(&mut restored, Command::Acquire(plain("a", "new"))).unwrap();
    outcome(&mut restored, release("a", "carol", ReleaseTarget::Hold(FencingToken(1)))).unwrap();
    assert_eq!(held_by(&restored, "a"), [("new".to_owned(), last + 1)]);
}

#[test]
fn old_durable_holds_are_listed_and_their_sessions_are_not() {
    let mut machine = machine();
    outcome(&mut machine, Command::Acquire(durable("b", "dave"))).unwrap();
    outcome(&mut machine, Command::Acquire(durable("a", "erin"))).unwrap();
    let old = |before, max| {
        let found = machine.durable_holds_before(Stamp(before), max);
        found.into_iter().map(|(lock, one)| (lock.to_string(), one.owner.to_string())).collect()
    };
    let expected: Vec<_> =
        [("a", "carol"), ("b", "dave")].map(|(l, o)| (l.to_owned(), o.to_owned())).into();
    let (all, first, none): (Vec<_>, Vec<_>, Vec<_>) =
        (old(1_001, 9), old(1_001, 1), old(1_000, 9));
    assert_eq!((all, first.len(), none.len()), (expected, 1, 0));
    let page = machine.sessions(None, 10, |_| true);
    let names: Vec<_> = page.items.iter().map(|view| view.session.as_str()).collect();
    assert_eq!(names, ["next"]);
}
