//! Commands on the whole cluster: the feature level, the permission `tree admin`, the subject of a connection's session, the
//! last backup, the verification of the state.

use holdfast_types::{
    AccessTokenId, AclEntry, Actor, AuditAction, AuthMode, AuthRejection, Caller, Command, Create,
    CreateKind, Entry, Event, FeatureLevel, Identity, Multi, Op, OpenSession, Outcome, Perms,
    QuotaKind, Rejection, Reply, Revision,
};

use super::auth::{
    ADMIN, CI, WEB, add_token, apply, change, forbidden, guarded, rejected, set_namespace,
    set_role, set_subject, subject,
};
use super::script_commands::{open, path, session_name};
use crate::{LastBackup, LoadError, Machine};
use holdfast_types::AuthChange;

fn set_level(machine: &mut Machine, level: u16) -> Outcome {
    apply(machine, ADMIN, Command::SetLevel(FeatureLevel(level)))
}

#[test]
fn the_feature_level_changes_by_one() {
    let mut machine = guarded();
    assert_eq!(machine.level(), FeatureLevel(1));
    let by_ci = apply(&mut machine, CI, Command::SetLevel(FeatureLevel(2)));
    assert_eq!(forbidden(&by_ci).unwrap(), "cluster manage");
    for other in [0, 3] {
        let not_one_step = Rejection::LevelStep { level: FeatureLevel(1) };
        assert_eq!(set_level(&mut machine, other), Err(not_one_step));
    }
    for _ in 0..2 {
        set_level(&mut machine, 2).unwrap();
        assert_eq!(machine.level(), FeatureLevel(2));
    }
    // This program does not know the level.
    let loaded = Machine::load(machine.dump());
    assert!(matches!(loaded, Err(LoadError::Level { found: FeatureLevel(2) })));
    set_level(&mut machine, 1).unwrap();
    assert_eq!(machine.level(), FeatureLevel(1));
    let records: Vec<_> = machine.audit_records_after(0).collect();
    let levels = records.iter().filter(|record| record.action == AuditAction::SetLevel);
    assert_eq!(levels.map(|record| record.target.as_target()).collect::<Vec<_>>(), ["2", "1"]);
}

/// A multi of a caller to whom no access list applies.
fn as_superuser(op: Op) -> Command {
    let caller = Caller { identities: vec![Identity::superuser()], ..Caller::default() };
    Command::Multi(Multi { caller, then: vec![op], ..Multi::default() })
}

#[test]
fn only_the_permission_tree_admin_passes_access_lists() {
    let mut machine = guarded();
    let only_read = AclEntry { perms: Perms::READ, who: Identity::anyone() };
    let create = Op::Create(Create {
        directory: path("/"),
        name: "cfg".to_owned(),
        data: Vec::new().into(),
        kind: CreateKind::Persistent,
        sequential: false,
        acl: Some(vec![only_read]),
        parents: false,
    });
    let create = Command::Multi(Multi { then: vec![create], ..Multi::default() });
    apply(&mut machine, ADMIN, create).unwrap();
    let write = || Op::SetData { path: path("/cfg"), data: b"x".to_vec().into(), version: None };
    let plain = Command::Multi(Multi { then: vec![write()], ..Multi::default() });
    let refused = apply(&mut machine, ADMIN, plain);
    assert!(format!("{refused:?}").contains("NotAllowed"), "{refused:?}");
    for mode in AuthMode::ALL {
        change(&mut machine, ADMIN, AuthChange::SetMode(mode)).unwrap();
        let outcome = apply(&mut machine, CI, as_superuser(write()));
        assert_eq!(forbidden(&outcome).unwrap(), "tree admin /cfg", "{mode:?}");
    }
    apply(&mut machine, ADMIN, as_superuser(write())).unwrap();
    change(&mut machine, ADMIN, set_role("fixer", &["tree admin /cfg"])).unwrap();
    change(&mut machine, ADMIN, set_subject("ci", &["fixer"], &[])).unwrap();
    apply(&mut machine, CI, as_superuser(write())).unwrap();
    let other = Op::Delete { path: path("/locks"), version: None, recursive: false };
    let outcome = apply(&mut machine, CI, as_superuser(other));
    assert_eq!(forbidden(&outcome).unwrap(), "tree admin /locks");
}

#[test]
fn a_session_without_a_subject_becomes_the_first_subjects() {
    let mut machine = guarded();
    let name = session_name("zk-1");
    let opened = OpenSession { password: Some(holdfast_types::Password([7; 16])), ..open("zk-1") };
    apply(&mut machine, Actor::Node, Command::OpenSession { open: opened, attempt: None }).unwrap();
    let (session, _) = machine.session_id(&name).unwrap();
    let claim = || Command::ClaimSession { session };
    let without = apply(&mut machine, Actor::Anonymous, claim());
    assert_eq!(rejected(&without), Some(&AuthRejection::NoCredential));
    assert_eq!(machine.subject_of_session(&name), None);
    for actor in [CI, WEB, CI] {
        apply(&mut machine, actor, claim()).unwrap();
        assert_eq!(machine.subject_of_session(&name), Some(&subject("ci")));
    }
    let unknown = Command::ClaimSession { session: holdfast_types::SessionId(99) };
    assert!(apply(&mut machine, CI, unknown).is_err());
}

#[test]
fn a_claimed_session_counts_for_the_namespace_of_its_subject() {
    let mut machine = guarded();
    for next in [
        set_namespace("team", &[(QuotaKind::Sessions, 1)]),
        set_subject("team/ci", &["admin"], &[]),
        add_token("team/ci", 5),
    ] {
        change(&mut machine, ADMIN, next).unwrap();
    }
    let mut claimed = Vec::new();
    for name in ["zk-1", "zk-2"] {
        let password = Some(holdfast_types::Password([7; 16]));
        let opened = OpenSession { password, ..open(name) };
        apply(&mut machine, Actor::Node, Command::OpenSession { open: opened, attempt: None })
            .unwrap();
        let (session, _) = machine.session_id(&session_name(name)).unwrap();
        let claim = Command::ClaimSession { session };
        claimed.push(apply(&mut machine, Actor::Token(AccessTokenId(5)), claim));
    }
    assert_eq!(claimed[0], Ok(Reply::SessionClaimed));
    assert!(matches!(claimed[1], Err(Rejection::QuotaFull(_))), "{claimed:?}");
    assert_eq!(machine.subject_of_session(&session_name("zk-2")), None);
}

#[test]
fn only_nodes_record_a_backup_and_the_newest_stays() {
    let mut machine = guarded();
    let record = |bytes| Command::RecordBackup { revision: Revision(4), bytes };
    let by_ci = apply(&mut machine, CI, record(7));
    assert_eq!(rejected(&by_ci), Some(&AuthRejection::NoCredential));
    let older = Command::RecordBackup { revision: Revision(3), bytes: 9 };
    for command in [record(7), record(8), older] {
        assert_eq!(apply(&mut machine, Actor::Node, command), Ok(Reply::BackupRecorded));
    }
    let last = LastBackup { at: machine.now(), revision: Revision(4), bytes: 8 };
    assert_eq!(machine.last_backup(), Some(last));
    let loaded = Machine::load(machine.dump()).unwrap();
    assert_eq!(loaded.last_backup(), Some(last));
    assert_eq!(loaded.state_digest(), machine.state_digest());
    let restored = machine.clone().restored(&super::restore::options()).unwrap();
    assert_eq!(restored.last_backup(), None);
}

#[test]
fn a_verification_of_the_state_changes_nothing() {
    let mut machine = guarded();
    let by_ci = apply(&mut machine, CI, Command::VerifyState);
    assert_eq!(rejected(&by_ci), Some(&AuthRejection::NoCredential));
    let before = machine.counts();
    let entry = Entry { stamped_at: machine.now(), commands: vec![Command::VerifyState] };
    let applied = machine.apply(entry);
    assert_eq!(applied.outcomes, [Ok(Reply::VerificationStarted)]);
    assert_eq!(applied.events, [(machine.revision(), Event::VerifyState)]);
    assert_eq!(machine.counts(), before);
}
