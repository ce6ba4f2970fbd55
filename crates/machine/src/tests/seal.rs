//! The seal: nothing that clients have changes while the cluster is sealed, and a restore can keep it.

use std::sync::Arc;

use holdfast_types::*;
use proptest::prelude::*;

use super::auth::{ADMIN, CI, guarded, rejected};
use super::history::{Move, history};
use super::model_check::Trial;
use super::random::config;
use super::restore::{ADVANCE, NOW, options, point};
use super::script_commands::{lock_name, open, session_name};
use crate::snapshot::part::Part;
use crate::{Machine, RestoreError, RestoreOptions, RestorePoint, SnapshotPart};

fn reason(text: &str) -> Reason {
    Reason::new(text).unwrap()
}

fn seal() -> Command {
    Command::Seal { reason: reason("new machines") }
}

/// A history that ends with a seal.
fn until_sealed(before: Vec<Move>) -> Vec<Move> {
    before.into_iter().chain([Move::Command(seal())]).collect()
}

fn apply_at(machine: &mut Machine, ms: u64, command: Command) -> Outcome {
    machine.apply(Entry { stamped_at: Stamp(ms), commands: vec![command] }).outcomes.remove(0)
}

fn apply(machine: &mut Machine, command: Command) -> Outcome {
    apply_at(machine, 0, command)
}

/// A machine in which `web1` holds `a` for at most 10 ms, and `web2` waits for it.
fn contended() -> Machine {
    let mut machine = Machine::new();
    let options = AcquireOptions { max_hold_ms: Some(10), ..AcquireOptions::PLAIN };
    apply(&mut machine, acquire("web1", options)).unwrap();
    apply(&mut machine, acquire("web2", AcquireOptions::PLAIN)).unwrap();
    machine
}

fn acquire(session: &str, options: AcquireOptions) -> Command {
    let plain = Acquire::new(lock_name("a"), open(session), Owner::unnamed());
    Command::Acquire(Acquire { options, ..plain })
}

fn release(session: &str) -> Command {
    Command::Release(Release {
        locks: lock_name("a").into(),
        session: session_name(session),
        owner: Owner::unnamed(),
        target: ReleaseTarget::AnyEntry,
    })
}

fn unseal(machine: &Machine) -> Command {
    Command::Unseal { seal: machine.sealed().unwrap().revision }
}

fn holders(machine: &Machine) -> Vec<(SessionName, u64)> {
    let view = machine.lock(&lock_name("a"), 10);
    view.holders.into_iter().map(|holder| (holder.session, holder.token.0)).collect()
}

/// Everything that clients have. A renewal changes only the generation of a session.
fn of_clients(machine: &Machine) -> (u64, Vec<Part>) {
    let parts = machine.dump().filter_map(|SnapshotPart(part)| match part {
        Part::Sessions(mut sessions) => {
            sessions.iter_mut().for_each(|session| Arc::make_mut(session).generation = 0);
            Some(Part::Sessions(sessions))
        }
        Part::Tombstones(_) | Part::Nodes(_) | Part::Recipes(_) | Part::Auth(_) => Some(part),
        Part::Head(_)
        | Part::Members(_)
        | Part::Audit(_)
        | Part::AuditEvicted(_)
        | Part::LastBackup(_)
        | Part::Seal(..)
        | Part::Clocks(_)
        | Part::Leases(_)
        | Part::End(_) => None,
    });
    (machine.counts().grants, parts.collect())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_history_with_a_seal_follows_the_model(
        before in history(40), during in history(30), after in history(30),
    ) {
        let before = until_sealed(before);
        let Ok(sealed) = Trial::run(&before) else { return Ok(()) };
        let Seal { revision, .. } = sealed.machine.sealed().unwrap();
        // A late copy of the end of an earlier seal changes nothing.
        let unseals = [revision.0 - 1, revision.0]
            .map(|seal| Move::Command(Command::Unseal { seal: Revision(seal) }));
        let [late, unseal] = unseals;
        let history: Vec<_> =
            before.into_iter().chain([late]).chain(during).chain([unseal]).chain(after).collect();
        prop_assert_eq!(Trial::run(&history).err(), None);
    }

    #[test]
    fn no_command_changes_what_clients_of_a_sealed_cluster_have(
        before in history(60), during in history(60),
    ) {
        let Ok(mut trial) = Trial::run(&until_sealed(before)) else { return Ok(()) };
        let expected = of_clients(&trial.machine);
        for op in &during {
            prop_assert_eq!(trial.step(op), Ok(()));
        }
        prop_assert_eq!(of_clients(&trial.machine), expected);
        prop_assert!(trial.machine.sealed().is_some());
    }

    /// Guarantee 2 and the rules of `docs/contributing/adr/0020`.
    #[test]
    fn a_restore_keeps_what_clients_of_a_sealed_cluster_have(before in history(60)) {
        let Ok(trial) = Trial::run(&until_sealed(before)) else { return Ok(()) };
        let before = trial.machine;
        let point = RestorePoint { now: Stamp(NOW.0 + 9), ..point() };
        let options = RestoreOptions { keeps_sessions: true, point, ..options() };
        let after = before.clone().restored(&options).unwrap();
        prop_assert_eq!(after.check_invariants(), Ok(()));
        prop_assert_eq!(of_clients(&after).1, of_clients(&before).1);
        prop_assert_eq!((after.sealed(), after.now()), (None, before.now()));
        prop_assert_eq!(after.next_timer(), before.next_timer());
        prop_assert!(after.revision().0 > before.revision().0 + ADVANCE);
        prop_assert!(after.counts().grants > before.counts().grants + ADVANCE);
        prop_assert_eq!(after.cluster_id(), Some(ClusterId(77)));
        let loaded = Machine::load(after.dump()).unwrap();
        prop_assert_eq!(loaded.state_digest(), after.state_digest());
    }
}

#[test]
fn a_seal_is_state_and_needs_a_permission() {
    let mut machine = guarded();
    let by =
        |actor: Actor, machine: &mut Machine, command: Command| apply(machine, command.by(actor));
    for command in [seal(), Command::Unseal { seal: Revision(1) }] {
        let outcome = by(CI, &mut machine, command);
        assert!(matches!(rejected(&outcome), Some(AuthRejection::Forbidden(_))), "{outcome:?}");
    }
    let audited = |machine: &Machine| machine.audit_head().unwrap().0;
    let before = audited(&machine);
    // The second seal and the second unseal change nothing.
    let Ok(Reply::Sealed(first)) = by(ADMIN, &mut machine, seal()) else { panic!() };
    assert_eq!(first.by.as_ref().map(SubjectName::as_str), Some("root"));
    let again = Command::Seal { reason: reason("again") };
    assert_eq!(by(ADMIN, &mut machine, again), Ok(Reply::Sealed(first.clone())));
    let change = super::auth::set_role("web", &["lock read *"]);
    let sealed = Err(Rejection::Sealed(Box::new(first.clone())));
    assert_eq!(by(ADMIN, &mut machine, Command::Auth(change)), sealed);
    let raise = by(ADMIN, &mut machine, Command::SetLevel(FeatureLevel(2)));
    assert_eq!(raise, sealed);
    let loaded = Machine::load(machine.dump()).unwrap();
    assert_eq!(loaded.sealed(), Some(&first));
    assert_eq!(loaded.state_digest(), machine.state_digest());
    let unseal = |seal| Command::Unseal { seal: Revision(seal) };
    let other = by(ADMIN, &mut machine, unseal(first.revision.0 - 1));
    assert_eq!(other, Err(Rejection::OtherSeal { present: first.revision }));
    for _ in 0..2 {
        assert_eq!(by(ADMIN, &mut machine, unseal(first.revision.0)), Ok(Reply::Unsealed));
    }
    let records: Vec<_> = machine.audit_records_after(before).collect();
    let actions: Vec<_> = records.iter().map(|record| record.action).collect();
    assert_eq!(actions, [AuditAction::Seal, AuditAction::Unseal]);
    assert_eq!(records[0].reason, Some(reason("new machines")));
}

#[test]
fn nothing_expires_while_sealed_and_timers_run_late() {
    let mut machine = contended();
    let (session, _) = machine.session_id(&session_name("web1")).unwrap();
    let Ok(Reply::Sealed(first)) = apply(&mut machine, seal()) else { panic!() };
    let sealed = Err(Rejection::Sealed(Box::new(first)));
    let expire = Command::ExpireSession { session, generation: 1 };
    for command in [
        expire.clone(),
        Command::RunTimers { lock: lock_name("a") },
        release("web1"),
        acquire("web3", AcquireOptions::PLAIN),
    ] {
        assert_eq!(apply_at(&mut machine, 1_000, command), sealed);
    }
    let renew = Command::RenewSession { session: session_name("web1") };
    assert!(apply_at(&mut machine, 1_000, renew).is_ok());
    assert_eq!(holders(&machine), [(session_name("web1"), 1)]);

    let unseal = unseal(&machine);
    apply_at(&mut machine, 1_000, unseal).unwrap();
    assert_eq!(holders(&machine), [(session_name("web1"), 1)]);
    // The expiry names the lease before the renewal.
    let renewed = Err(Rejection::Session(SessionRejection::LeaseRenewed));
    assert_eq!(apply_at(&mut machine, 1_000, expire), renewed);
    apply_at(&mut machine, 1_000, Command::RunTimers { lock: lock_name("a") }).unwrap();
    assert_eq!(holders(&machine), [(session_name("web2"), 2)]);
}

#[test]
fn the_waiter_gets_a_larger_token_after_a_restore_that_keeps_sessions() {
    let mut machine = contended();
    apply(&mut machine, seal()).unwrap();
    let options = RestoreOptions { keeps_sessions: true, ..options() };
    let mut new = machine.restored(&options).unwrap();
    assert_eq!(holders(&new), [(session_name("web1"), 1)]);
    apply(&mut new, release("web1")).unwrap();
    let [(holder, token)] = &holders(&new)[..] else { panic!("{:?}", holders(&new)) };
    assert!(*holder == session_name("web2") && *token > ADVANCE, "{holder} {token}");
    let record = new.audit_records_after(0).find(|record| record.action == AuditAction::Restored);
    assert!(record.unwrap().detail().ends_with(", sessions kept"));
}

#[test]
fn sessions_are_kept_only_of_a_sealed_cluster_that_has_minted_no_token_since() {
    let mut machine = contended();
    let keep = |machine: &Machine, token_floor| {
        let options = RestoreOptions { keeps_sessions: true, token_floor, ..options() };
        machine.clone().restored(&options).map(|new| new.counts().sessions > 0)
    };
    assert_eq!(keep(&machine, 0), Err(RestoreError::NotSealed));
    apply(&mut machine, seal()).unwrap();
    assert_eq!(keep(&machine, 1), Ok(true));
    assert_eq!(keep(&machine, 2), Err(RestoreError::TokensSince { floor: 2, last: 1 }));
    // Any other restore ends the sessions and the seal.
    let new = machine.restored(&options()).unwrap();
    assert_eq!((new.counts().sessions, new.sealed()), (0, None));
}

fn close(session: &str, incarnation: Option<SessionId>) -> Command {
    Command::CloseSession { session: session_name(session), attachment: None, incarnation }
}

#[test]
fn a_session_that_is_closed_under_a_seal_ends_with_the_seal() {
    let first = SessionId(1);
    for incarnation in [None, Some(first)] {
        let mut machine = contended();
        apply(&mut machine, seal()).unwrap();
        let expected = of_clients(&machine);
        assert_eq!(apply(&mut machine, close("web1", incarnation)), Ok(Reply::SessionEnded));
        assert_eq!(of_clients(&machine), expected, "no token is minted under the seal");
        // The copy is accepted, and a late renewal does not open the session again.
        assert_eq!(apply(&mut machine, close("web1", incarnation)), Ok(Reply::SessionEnded));
        let renew = Command::RenewSession { session: session_name("web1") };
        let gone = SessionRejection::Unknown { session: session_name("web1") };
        assert_eq!(apply(&mut machine, renew), Err(gone.into()));
        assert!(machine.renews_in_log(first));
        let mut loaded = Machine::load(machine.dump()).unwrap();
        assert_eq!(loaded.state_digest(), machine.state_digest());
        let kept = RestoreOptions { keeps_sessions: true, ..options() };
        let restored = Machine::load(machine.dump()).unwrap().restored(&kept).unwrap();
        for machine in [&mut machine, &mut loaded] {
            let unseal = unseal(machine);
            assert_eq!(apply(machine, unseal), Ok(Reply::Unsealed));
        }
        for machine in [machine, loaded, restored] {
            machine.check_invariants().unwrap();
            assert_eq!(holders(&machine)[0].0, session_name("web2"));
            // A client that closed its session has not lost it.
            assert_eq!(machine.session(&session_name("web1")), SessionStatus::Closed);
        }
    }
}

type End = fn(&mut Machine, &[(SessionName, SessionId)]);

/// A grant in between would start the cooldown of the lock.
#[test]
fn sessions_that_end_in_one_command_are_granted_nothing() {
    let subject = SubjectName::new("crawler").unwrap();
    let ends: [End; 2] = [
        |machine, sessions| {
            apply(machine, seal()).unwrap();
            for (session, _) in sessions {
                let session = session.clone();
                let close = Command::CloseSession { session, attachment: None, incarnation: None };
                apply(machine, close).unwrap();
            }
            apply(machine, unseal(machine)).unwrap();
        },
        |machine, sessions| {
            let subject = SubjectName::new("crawler").unwrap();
            let (sessions, reason) = (sessions.to_vec(), reason("leaked"));
            let end = Command::EndSessions { subject, sessions, reason, total: None };
            assert_eq!(apply(machine, end), Ok(Reply::SessionsEnded { count: 2 }));
        },
    ];
    for end in ends {
        let mut machine = Machine::new();
        for session in ["web1", "web2"] {
            let acquire = acquire(session, AcquireOptions::PLAIN);
            apply(&mut machine, acquire.by(Actor::Subject(subject.clone()))).unwrap();
        }
        let id = |session| machine.session_id(&session_name(session)).unwrap().0;
        let sessions = ["web1", "web2"].map(|session| (session_name(session), id(session)));
        end(&mut machine, &sessions);
        assert_eq!(machine.lock(&lock_name("a"), 10).last_token, Some(FencingToken(1)));
        machine.check_invariants().unwrap();
    }
}

#[test]
fn a_seal_rejects_a_close_that_it_cannot_remember() {
    let mut machine = contended();
    apply(&mut machine, Command::OpenSession { open: open("old"), attempt: None }).unwrap();
    apply(&mut machine, Command::ExpireSession { session: SessionId(3), generation: 1 }).unwrap();
    for n in 4..=crate::seal::CLOSED_MAX + 4 {
        apply(&mut machine, Command::OpenSession { open: open(&format!("s{n}")), attempt: None })
            .unwrap();
    }
    apply(&mut machine, seal()).unwrap();
    let closed = |machine: &Machine| machine.seal.as_ref().unwrap().closed.len();
    // Another session of that name.
    assert_eq!(apply(&mut machine, close("web1", Some(SessionId(9)))), Ok(Reply::SessionEnded));
    assert_eq!(closed(&machine), 0);
    for session in ["unknown", "old"] {
        let outcome = apply(&mut machine, close(session, None));
        assert!(matches!(outcome, Err(Rejection::Sealed(_))), "{session}: {outcome:?}");
    }
    let names: Vec<_> = (4..=crate::seal::CLOSED_MAX + 4).map(|n| format!("s{n}")).collect();
    let (last, others) = names.split_last().unwrap();
    for session in others {
        apply(&mut machine, close(session, None)).unwrap();
    }
    assert!(matches!(apply(&mut machine, close(last, None)), Err(Rejection::Sealed(_))));
    apply(&mut machine, close("s4", None)).unwrap();
    assert_eq!(closed(&machine), crate::seal::CLOSED_MAX);
}

/// The old cluster may acknowledge renewals after the backup.
#[test]
fn a_restore_gives_every_kept_session_its_full_ttl() {
    let mut machine = contended();
    let lease = LeaseRecord { session: SessionId(1), generation: 1, used_ms: 9_000 };
    apply(&mut machine, Command::RecordLeases { leases: vec![lease] }.by(Actor::Node)).unwrap();
    apply(&mut machine, seal()).unwrap();
    assert_eq!(machine.leases_used().count(), 1);
    let kept = RestoreOptions { keeps_sessions: true, ..options() };
    assert_eq!(machine.restored(&kept).unwrap().leases_used().count(), 0);
}

/// The time of the kept cluster is a year behind, but it has minted nothing in that year.
#[test]
fn a_later_restore_has_larger_tokens_also_after_a_restore_with_sessions() {
    let mut sealed = contended();
    apply(&mut sealed, seal()).unwrap();
    let restored = |state: &Machine, seconds: u64, random: u64, keeps_sessions: bool| {
        let now = Stamp(NOW.0 + 1_000 * seconds);
        let point = RestorePoint { now, random, ..point() };
        state.clone().restored(&RestoreOptions { point, keeps_sessions, ..options() }).unwrap()
    };
    let kept = restored(&sealed, 0, 0, true);
    let loaded = Machine::load(kept.dump()).unwrap();
    let again = restored(&loaded, 1, u64::MAX, false);
    let later = restored(&sealed, 2, 0, false);
    assert!(again.counts().grants > kept.counts().grants);
    assert!(later.counts().grants > again.counts().grants);
    assert!(later.revision() > again.revision());
}
