//! The first state of a restored cluster, for every history.

use holdfast_types::*;
use proptest::prelude::*;

use super::history::history;
use super::model_check::Trial;
use super::random::config;
use super::script_commands::{lock_name, open, path, session_name};
use super::{auth, snapshots};
use crate::{Machine, RESTORE_ADVANCE, RestoreError, RestoreOptions, RestoreSource};

pub(super) fn options() -> RestoreOptions {
    RestoreOptions {
        cluster_id: ClusterId(77),
        node: NodeId(5),
        incarnation: Incarnation(55),
        now: Stamp(0),
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
        token_floor in prop::option::of(RESTORE_ADVANCE..4 * RESTORE_ADVANCE),
    ) {
        let Ok(trial) = Trial::run(&history) else { return Ok(()) };
        let before = trial.machine;
        let options = RestoreOptions { token_floor: token_floor.unwrap_or(0), ..options() };
        let after = before.clone().restored(&options).unwrap();
        prop_assert_eq!(after.check_invariants(), Ok(()));
        let loaded = Machine::load(after.dump()).unwrap();
        prop_assert_eq!(loaded.state_digest(), after.state_digest());

        let (old, new) = (before.counts(), after.counts());
        prop_assert_eq!((new.sessions, new.locks_held, new.waiters, new.ephemerals), (0, 0, 0, 0));
        prop_assert!(new.grants >= old.grants + RESTORE_ADVANCE && new.grants >= options.token_floor);
        prop_assert_eq!(after.revision().0, before.revision().0 + RESTORE_ADVANCE);
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
    let renewed =
        apply(&mut new, Command::RenewSession { session: session_name("web1"), ttl: None });
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
    assert_eq!(token, FencingToken(3 + RESTORE_ADVANCE + 1));
    assert!(token > last);
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
    assert_eq!(number(&new), SessionId(RESTORE_ADVANCE + 1));
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
    assert_eq!(record.target, ClusterId(77).to_string());
    let grants = before.counts().grants;
    assert_eq!(
        record.detail,
        format!(
            "backup ab, cluster {} at revision {}, tokens continue above {}",
            ClusterId(9),
            before.revision(),
            grants + RESTORE_ADVANCE
        )
    );
}

#[test]
fn the_time_continues_with_the_wall_clock_if_that_is_later() {
    let before = snapshots::machine();
    let now = before.now();
    let at = |now| before.clone().restored(&RestoreOptions { now, ..options() }).unwrap().now();
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
fn a_restore_beyond_the_end_of_the_tokens_or_revisions_is_rejected() {
    let machine = snapshots::machine();
    let floor =
        |token_floor| machine.clone().restored(&RestoreOptions { token_floor, ..options() }).err();
    assert_eq!(floor(FencingToken::END - 2), None);
    let last = FencingToken::END - 1;
    assert_eq!(floor(last), Some(RestoreError::NoTokens { last }));
    let mut again = machine;
    let mut restores = 0;
    let error = loop {
        match again.clone().restored(&options()) {
            Ok(next) => again = next,
            Err(error) => break error,
        }
        restores += 1;
    };
    assert_eq!(restores, 8_191);
    assert!(error.to_string().contains("2^53"), "{error}");
}
