//! Machines of thousands of items, where the persistent maps have several levels and share nodes with frozen views, and
//! counters near their maximum.

use holdfast_types::TreeRejection;
use holdfast_types::*;

use super::script_commands::{self, lock_name, lock_set, multi, path, session_name};
use crate::snapshot::part::{Head, Part};
use crate::{Machine, SnapshotPart};

/// A generator with a fixed seed: the same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A separate owner for each lock. No owner then waits while it holds, so no acquire searches for deadlocks up to the
/// bound.
fn owner_for(lock: u64) -> Owner {
    Owner::new(format!("o{lock}")).unwrap()
}

fn acquire(lock: u64, session: u64, wait: bool) -> Command {
    let open = script_commands::open(&format!("s{session}"));
    let (lock, owner) = (lock_name(&format!("l{lock}")), owner_for(lock));
    Command::Acquire(Acquire { wait, ..Acquire::new(lock, open, owner) })
}

fn apply(machine: &mut Machine, now: u64, command: Command) -> Outcome {
    machine.apply(Entry { stamped_at: Stamp(now), commands: vec![command] }).outcomes.remove(0)
}

#[test]
fn thousands_of_locks_with_frozen_views_keep_every_invariant() {
    let (mut machine, mut numbers) = (Machine::new(), Numbers(1));
    let mut frozen = Vec::new();
    for step in 0..40_000 {
        let (lock, session) = (numbers.below(1_500), numbers.below(2_000));
        let command = match numbers.below(10) {
            0..=4 => acquire(lock, session, true),
            5..=7 => Command::Release(Release {
                locks: lock_name(&format!("l{lock}")).into(),
                session: session_name(&format!("s{session}")),
                owner: owner_for(lock),
                target: ReleaseTarget::AnyEntry,
            }),
            8 => Command::CloseSession {
                session: session_name(&format!("s{session}")),
                attachment: None,
                incarnation: None,
            },
            _ => Command::Sweep { empty_before: Stamp(step), count_max: 3 },
        };
        drop(apply(&mut machine, step, command));
        if step % 4_000 == 0 {
            machine.check_invariants().unwrap();
            frozen.push((machine.clone(), machine.state_digest()));
        }
    }
    machine.check_invariants().unwrap();
    let counts = machine.counts();
    assert!(counts.locks_held > 500 && counts.waiters > 500, "{counts:?}");
    for (view, digest) in &frozen {
        view.check_invariants().unwrap();
        assert_eq!(view.state_digest(), *digest);
    }
    let loaded = Machine::load(machine.dump()).unwrap();
    assert_eq!(loaded.state_digest(), machine.state_digest());
}

#[test]
fn a_long_queue_is_granted_in_order() {
    let mut machine = Machine::new();
    for session in 0..3_000 {
        let outcome = apply(&mut machine, 0, acquire(0, session, true));
        match outcome.unwrap() {
            Reply::Acquired(EntryState::Waiting(queued)) => {
                assert_eq!(u64::from(queued[0].ahead), session - 1);
            }
            other => assert!(session == 0, "{other:?}"),
        }
    }
    match apply(&mut machine, 0, acquire(0, 1_500, true)).unwrap() {
        Reply::Acquired(EntryState::Waiting(queued)) => assert_eq!(queued[0].ahead, 1_499),
        other => panic!("{other:?}"),
    }
    for session in 0..3_000_u64 {
        let view = machine.lock(&lock_name("l0"), 1);
        let holder = view.holder().unwrap().clone();
        assert_eq!(holder.session.as_str(), format!("s{session}"));
        assert_eq!(holder.token.0, session + 1);
        let session = holder.session;
        apply(
            &mut machine,
            0,
            Command::CloseSession { session, attachment: None, incarnation: None },
        )
        .unwrap();
    }
    machine.check_invariants().unwrap();
}

/// After the last token nothing is granted: waiters stay queued, new acquires are rejected, and releases grant nothing.
#[test]
fn tokens_stay_below_their_maximum() {
    let mut machine = Machine::new();
    apply(&mut machine, 0, acquire(0, 0, true)).unwrap();
    apply(&mut machine, 0, acquire(1, 0, true)).unwrap();
    apply(&mut machine, 0, acquire(0, 1, true)).unwrap();
    apply(&mut machine, 0, acquire(1, 1, true)).unwrap();
    let parts = machine.dump().map(|part| match part {
        SnapshotPart(Part::Head(head)) => {
            SnapshotPart(Part::Head(Head { grants: FencingToken::END - 2, ..head }))
        }
        other => other,
    });
    let mut machine = Machine::load(parts).unwrap();
    let limit = Rejection::LimitReached { bound: Bound::Counter, limit: FencingToken::END };
    let all = |locks: [&str; 2]| {
        let open = script_commands::open("s3");
        Command::Acquire(Acquire::new(lock_set(&locks), open, Owner::unnamed()))
    };
    // One token is left, so a multi-lock of two can never be granted.
    assert_eq!(apply(&mut machine, 0, all(["l0", "l2"])), Err(limit.clone()));
    // Two locks become free, and one waiter is granted.
    let session = session_name("s0");
    let close = Command::CloseSession { session, attachment: None, incarnation: None };
    apply(&mut machine, 0, close).unwrap();
    let last = FencingToken(FencingToken::END - 1);
    assert_eq!(machine.fence(&lock_name("l0")).current, Some(last));
    assert_eq!(machine.fence(&lock_name("l1")).current, None);
    assert_eq!(machine.lock(&lock_name("l1"), 1).waiters_total, 1);
    machine.check_invariants().unwrap();
    assert_eq!(apply(&mut machine, 0, acquire(1, 2, true)), Err(limit.clone()));
    assert_eq!(apply(&mut machine, 0, acquire(2, 2, false)), Err(limit.clone()));
    let at = "/locks/l0/lock-";
    let create = script_commands::create(at, CreateKind::Ephemeral, true, Vec::new());
    apply(
        &mut machine,
        0,
        Command::OpenSession { open: script_commands::open("s4"), attempt: None },
    )
    .unwrap();
    let rejected = Rejection::Tree(TreeRejection::OfOperation { at: 0, why: Box::new(limit) });
    let created = apply(&mut machine, 0, multi(script_commands::of_session("s4"), vec![create]));
    assert_eq!(created, Err(rejected));
    let session = session_name("s1");
    let close = Command::CloseSession { session, attachment: None, incarnation: None };
    apply(&mut machine, 0, close).unwrap();
    assert_eq!(machine.counts().grants, last.0);
    machine.check_invariants().unwrap();
}

#[test]
fn sequence_numbers_stay_below_their_maximum() {
    let mut machine = Machine::new();
    let create = |at: &str, sequential| {
        let op = script_commands::create(at, CreateKind::Persistent, sequential, Vec::new());
        multi(Caller::default(), vec![op])
    };
    apply(&mut machine, 0, create("/locks/l0", false)).unwrap();
    machine.tree.get_mut(&path("/locks/l0")).unwrap().created =
        crate::tree::create::COUNTER_END - 1;
    let outcome = apply(&mut machine, 0, create("/locks/l0/n-", true));
    let last = path("/locks/l0/n-4611686018427387903");
    assert!(matches!(outcome, Ok(Reply::Multi(MultiReply { results, .. }))
        if matches!(&results[..], [OpReply::Created { path, .. }] if *path == last)));
    let limit = crate::tree::create::COUNTER_END;
    let why = Rejection::LimitReached { bound: Bound::Counter, limit };
    let (rejected, why) = (Err(why.clone()), Box::new(why));
    let refused_op = Err(Rejection::Tree(TreeRejection::OfOperation { at: 0, why }));
    assert_eq!(apply(&mut machine, 0, create("/locks/l0/n-", true)), refused_op);
    assert_eq!(apply(&mut machine, 0, acquire(0, 0, true)), rejected);
    machine.tree.get_mut(&path("/locks")).unwrap().created = limit;
    assert_eq!(apply(&mut machine, 0, acquire(1, 0, true)), rejected);
    machine.check_invariants().unwrap();
}

#[test]
fn a_machine_can_be_sent_to_another_thread() {
    fn shareable<T: Send + Sync + 'static>(_: &T) {}
    shareable(&Machine::new());
    shareable(&Machine::new().dump().next());
}

#[test]
fn an_entry_without_commands_only_advances_the_time() {
    let mut machine = Machine::new();
    let applied = machine.apply(Entry { stamped_at: Stamp(5), commands: Vec::new() });
    assert_eq!((applied.revision, machine.now()), (Revision(0), Stamp(5)));
    assert!(applied.outcomes.is_empty() && applied.events.is_empty());
}
