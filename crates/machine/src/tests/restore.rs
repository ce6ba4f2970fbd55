//! The first state of a restored cluster, for every history.

use std::collections::BTreeSet;

use holdfast_types::*;
use proptest::prelude::*;

use super::history::history;
use super::model_check::Trial;
use super::random::config;
use super::script_commands::{lock_name, open, path, session_name};
use super::{auth, snapshots};
use crate::{Machine, RestoreError, RestoreOptions, RestorePoint};

/// A moment in 2027, which is after all stamps of the histories.
pub(super) const NOW: Stamp = Stamp(1_800_000_000_000);
/// Less than the advance by the clock at [`NOW`].
pub(super) const ADVANCE: u64 = 1 << 46;

pub(super) fn point() -> RestorePoint {
    RestorePoint { now: NOW, clock_run: 7, random: 9 }
}

pub(super) fn options() -> RestoreOptions {
    RestoreOptions {
        cluster_id: ClusterId(77),
        node: NodeId(5),
        incarnation: Incarnation(55),
        point: point(),
        token_floor: 0,
        keeps_sessions: false,
        revokes_tokens: false,
        source: RestoreSource::Backup { sha256: "ab".to_owned() },
    }
}

fn apply(machine: &mut Machine, command: Command) -> Outcome {
    machine.apply(Entry { stamped_at: Stamp(0), commands: vec![command] }).outcomes.remove(0)
}

fn acquire(machine: &mut Machine, lock: &str, session: &str) -> Result<FencingToken, Rejection> {
    let acquire = Acquire::new(lock_name(lock), open(session), Owner::unnamed());
    let state = apply(machine, Command::Acquire(acquire))?.into_entry_state().unwrap();
    Ok(state.into_single_grant().unwrap().token)
}

/// The persistent znodes that everyone may read, with their stored data and versions. A read of a held lock returns its
/// holder instead, and a restore ends all holds.
fn persistent(machine: &Machine) -> Vec<(String, Vec<u8>, i32)> {
    let mut found = Vec::new();
    let mut rest = vec![ZnodePath::root()];
    while let Some(path) = rest.pop() {
        let Ok((stat, _)) = machine.get(&path, &[]) else { continue };
        if stat.ephemeral_owner == 0 {
            let data = machine.tree.get(&path).map_or_else(Vec::new, |node| node.data.to_vec());
            found.push((path.to_string(), data, stat.version));
        }
        let (_, children) = machine.list(&path, &[]).unwrap();
        rest.extend(children.iter().map(|name| path.child(name).unwrap()));
    }
    found.sort();
    found
}

fn sessions(machine: &Machine) -> Vec<SessionName> {
    let page = machine.sessions(None, usize::MAX, |_| true);
    page.items.into_iter().map(|session| session.session).collect()
}

proptest! {
    #![proptest_config(config())]

    /// Guarantee 2, and the rules of `docs/contributing/adr/0017`.
    #[test]
    fn every_history_is_restored_without_sessions_and_with_larger_counters(
        history in history(60),
        token_floor in prop::option::of(ADVANCE..4 * ADVANCE),
    ) {
        let Ok(trial) = Trial::run(&history) else { return Ok(()) };
        let before = trial.machine;
        let options = RestoreOptions { token_floor: token_floor.unwrap_or(0), ..options() };
        let after = before.clone().restored(&options).unwrap();
        prop_assert_eq!(after.check_invariants(), Ok(()));
        let loaded = Machine::load(after.dump()).unwrap();
        prop_assert_eq!(loaded.state_digest(), after.state_digest());

        let (old, new) = (before.counts(), after.counts());
        // Durable holds stay, and nothing else.
        let durable = before.durable_holds_before(Stamp(u64::MAX), usize::MAX);
        let distinct = |names: BTreeSet<&str>| names.len() as u64;
        let locks = distinct(durable.iter().map(|(lock, _)| lock.as_str()).collect());
        let holders = distinct(durable.iter().map(|(_, one)| one.session.as_str()).collect());
        prop_assert_eq!((new.sessions, new.locks_held, new.waiters), (holders, locks, 0));
        prop_assert_eq!(new.ephemerals, durable.len() as u64);
        prop_assert_eq!(after.durable_holds_before(Stamp(u64::MAX), usize::MAX), durable);
        prop_assert!(new.grants > old.grants + ADVANCE && new.grants > options.token_floor);
        prop_assert!(after.revision().0 > before.revision().0 + ADVANCE);
        for session in sessions(&before) {
            prop_assert_eq!(after.session(&session), SessionStatus::Expired);
        }
        prop_assert_eq!(after.arrival_waits(), 0);
        prop_assert_eq!(after.limits(), before.limits());
        prop_assert_eq!(persistent(&after), persistent(&before));
        for (number, record) in (1..).zip(after.audit_records_after(0)) {
            let expected = before.audit_records_after(0).find(|record| record.number == number);
            prop_assert!(expected.is_none_or(|expected| expected == record));
        }
        prop_assert_eq!(after.cluster_id(), Some(ClusterId(77)));
        prop_assert_eq!(after.incarnation(NodeId(5)), Some(Incarnation(55)));
    }
}

#[test]
fn the_first_token_is_larger_than_every_old_one_and_old_clients_learn_their_expiry() {
    let mut old = Machine::new();
    for lock in ["a", "b", "c"] {
        acquire(&mut old, lock, "web1").unwrap();
    }
    let mut new = old.clone().restored(&options()).unwrap();
    // The old cluster continues.
    let mut last = FencingToken(0);
    for number in 0..1_000 {
        last = acquire(&mut old, &format!("l{number}"), "web2").unwrap();
    }
    let renewed = apply(&mut new, Command::RenewSession { session: session_name("web1") });
    let expired = SessionRejection::Expired { session: session_name("web1") };
    assert_eq!(renewed, Err(Rejection::Session(expired.clone())));
    assert_eq!(acquire(&mut new, "a", "web1"), Err(Rejection::Session(expired)));
    let close = |session| Command::CloseSession {
        session: session_name(session),
        attachment: None,
        incarnation: None,
    };
    apply(&mut new, close("web1")).unwrap();
    let token = acquire(&mut new, "a", "web1").unwrap();
    assert!(token > last && token.0 > ADVANCE, "{token:?}");
}

#[test]
fn a_session_number_of_the_old_cluster_names_no_session_of_the_new_one() {
    let mut old = Machine::new();
    let mut new = old.clone().restored(&options()).unwrap();
    acquire(&mut old, "a", "web1").unwrap();
    acquire(&mut new, "a", "web1").unwrap();
    let number = |machine: &Machine| machine.session_id(&session_name("web1")).unwrap().0;
    let incarnation = Some(number(&old));
    let close =
        Command::CloseSession { session: session_name("web1"), attachment: None, incarnation };
    apply(&mut new, close).unwrap();
    assert!(number(&new).0 > ADVANCE);
}

#[test]
fn every_kind_of_state_is_kept_or_ended() {
    let before = snapshots::machine();
    let after = before.clone().restored(&options()).unwrap();
    after.check_invariants().unwrap();
    assert!(after.get(&path("/t"), &[]).is_ok());
    assert!(after.get(&path("/e"), &[]).is_err(), "an ephemeral znode");
    assert_eq!(after.auth_mode(), before.auth_mode());
    assert_eq!(after.incarnation(NodeId(1)), None);
    let records: Vec<_> = after.audit_records_after(0).collect();
    let record = records.last().unwrap();
    assert_eq!(record.action, AuditAction::Restored);
    assert_eq!(record.target, AuditItem::ClusterId(ClusterId(77)));
    let grants = after.counts().grants;
    assert_eq!(
        record.detail(),
        format!(
            "backup ab, cluster {} at revision {}, tokens continue above {}",
            ClusterId(9),
            before.revision(),
            grants
        )
    );
}

#[test]
fn the_time_continues_with_the_wall_clock_if_that_is_later() {
    let before = snapshots::machine();
    let now = before.now();
    let at = |now| {
        let point = RestorePoint { now, ..point() };
        before.clone().restored(&RestoreOptions { point, ..options() }).unwrap().now()
    };
    assert_eq!(at(Stamp(0)), now);
    assert_eq!(at(Stamp(now.0 + 9)), Stamp(now.0 + 9));
}

#[test]
fn access_tokens_are_kept_or_deleted() {
    let mut machine = Machine::new();
    for command in auth::of_every_kind() {
        drop(apply(&mut machine, command));
    }
    let tokens = |machine: &Machine| machine.access_tokens().count();
    assert!(tokens(&machine) > 0);
    let kept = machine.clone().restored(&options()).unwrap();
    assert_eq!(tokens(&kept), tokens(&machine));
    let deleted = machine.restored(&RestoreOptions { revokes_tokens: true, ..options() }).unwrap();
    assert_eq!(tokens(&deleted), 0);
    deleted.check_invariants().unwrap();
}

#[test]
fn a_restore_beyond_the_end_of_the_tokens_is_rejected() {
    let machine = snapshots::machine();
    let floor = |token_floor| {
        let options = RestoreOptions { token_floor, ..options() };
        machine.clone().restored(&options).map(|new| new.counts().grants)
    };
    let floor_max = FencingToken::END / 2;
    assert!(floor(floor_max).unwrap() > floor_max);
    let error = floor(FencingToken::END - 2).unwrap_err();
    assert!(matches!(error, RestoreError::NoTokens { .. }), "{error}");
    assert!(error.to_string().contains("2^53"), "{error}");
}

#[test]
fn a_clock_that_would_use_up_the_tokens_is_rejected() {
    let machine = Machine::new();
    let year = 365 * 86_400_000;
    let restored = |years: u64| {
        let point = RestorePoint { now: Stamp(NOW.0 + years * year), ..point() };
        machine.clone().restored(&RestoreOptions { point, ..options() }).map(drop)
    };
    assert_eq!(restored(8), Ok(()));
    assert_eq!(restored(60), Err(RestoreError::ClockAhead { years: 61 }));
}
