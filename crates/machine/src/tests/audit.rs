//! The audit trail: which commands leave a record, and what is in it.

use holdfast_types::{
    AccessTokenId, Acquire, Actor, AuditAction, AuditHash, AuditRecord, AuthChange, AuthMode,
    Break, BreakTarget, ClusterId, Command, Credential, Entry, FeatureLevel, Incarnation,
    LockPolicy, MembershipChange, NamespaceName, NewAccessToken, NodeId, Outcome, Owner,
    Permission, PolicyChange, QuotaKind, Reason, RequestRelease, Right, RoleName, SecretHash,
    Stamp, SubjectName, VotingRole, Zone,
};

use super::auth::{set_namespace, set_quotas};
use super::members::{addresses, first_members, invite};
use super::script_commands::{lock_name, open, session_name};
use crate::audit::RECORDS_MAX;
use crate::snapshot::part::{Part, SnapshotPart};
use crate::{LoadError, Machine};

const ROOT: Actor = Actor::Token(AccessTokenId(1));

fn apply(machine: &mut Machine, actor: &Actor, command: Command) -> Outcome {
    let entry = Entry { stamped_at: Stamp(1_000), commands: vec![command.by(actor.clone())] };
    machine.apply(entry).outcomes.remove(0)
}

fn bootstrap(mode: AuthMode) -> Command {
    let token = NewAccessToken {
        id: AccessTokenId(1),
        hash: SecretHash([1; 32]),
        expires_at: Some(Stamp(9_000)),
    };
    let subject = SubjectName::new("root").unwrap();
    Command::Auth(AuthChange::AddAdministrator { subject, token, mode: Some(mode) })
}

fn acquire(lock: &str, session: &str) -> Command {
    Command::Acquire(Acquire::new(lock_name(lock), open(session), Owner::unnamed()))
}

fn break_holders(lock: &str) -> Command {
    let reason = Reason::new("stuck since noon").unwrap();
    Command::Break(Break { lock: lock_name(lock), what: BreakTarget::Holders, reason })
}

fn set_limit(limit: u32) -> Command {
    let change = PolicyChange { limit: Some(Some(limit)), ..PolicyChange::default() };
    Command::SetPolicy { lock: lock_name("pool"), change }
}

fn end_session(name: &str) -> Command {
    let reason = Reason::new("laptop lost").unwrap();
    Command::EndSession { session: session_name(name), incarnation: None, reason }
}

fn records(machine: &Machine) -> Vec<AuditRecord> {
    machine.audit_records_after(0).cloned().collect()
}

/// One record of each kind of credential.
pub(super) fn of_every_kind() -> Vec<Command> {
    let certificate = Actor::Subject(SubjectName::new("ops").unwrap());
    vec![set_limit(2).by(certificate), set_limit(3), set_limit(4).by(Actor::Node)]
}

#[test]
fn a_record_names_who_broke_which_lock_and_why() {
    let mut machine = Machine::new();
    apply(&mut machine, &Actor::Anonymous, bootstrap(AuthMode::Off)).unwrap();
    apply(&mut machine, &Actor::Anonymous, acquire("orders", "web1")).unwrap();
    apply(&mut machine, &Actor::Anonymous, acquire("orders", "web2")).unwrap();
    let breaking = apply(&mut machine, &ROOT, break_holders("orders"));
    breaking.unwrap();
    let expected = AuditRecord {
        number: 2,
        revision: machine.revision(),
        at: Stamp(1_000),
        subject: Some(SubjectName::new("root").unwrap()),
        credential: Credential::AccessToken(AccessTokenId(1)),
        action: AuditAction::BreakLock,
        target: "orders".to_owned(),
        detail: "web1 lost orders (token 1)".to_owned(),
        reason: Some(Reason::new("stuck since noon").unwrap()),
        hash: records(&machine)[1].hash,
    };
    assert_eq!(records(&machine)[1], expected);
    assert_eq!(machine.audit_head(), Some((2, expected.hash)));
    machine.check_invariants().unwrap();
}

fn line(record: &AuditRecord) -> String {
    format!("{} {}: {}", record.action.as_str(), record.target, record.detail)
}

/// Each kind, after the commands that make it possible.
fn changes_of_members() -> [Command; 10] {
    let (cluster_id, level) = (ClusterId(1), FeatureLevel::NEWEST);
    let node = NodeId(3);
    let (addresses, zone) = (Some(addresses(9)), Some(Zone::new("b").unwrap()));
    let role = VotingRole::Learner;
    let reason = Reason::new("moved").unwrap();
    let finish = Command::Membership(MembershipChange::Finish { node }).by(Actor::Node);
    [
        Command::Bootstrap { cluster_id, level, members: first_members(3) }.by(Actor::Node),
        Command::RegisterNode { node, incarnation: Incarnation(7) }.by(Actor::Node),
        Command::Membership(MembershipChange::Update { node, addresses, zone }),
        Command::Membership(MembershipChange::SetRole { node, role }),
        finish.clone(),
        Command::Membership(MembershipChange::Replace { node, replaces: NodeId(2) }),
        finish.clone(),
        Command::Membership(MembershipChange::Remove { node, reason }),
        finish,
        Command::Membership(invite(4, VotingRole::Voter, Some(1))),
    ]
}

const LINES_OF_EVERY_ACTION: [&str; 24] = [
    "add-administrator root: access token 0000000000001, mode on",
    "set-lock-policy pool: limit 3",
    "revoke-lock orders: every holder in 500 ms",
    "force-release orders: web1 lost orders (token 1)",
    "close-session web1: ",
    "set-role web: lock read *",
    "set-subject web: role web",
    "set-quotas web: sessions 5",
    "add-access-token 0000000000002: of web",
    "rotate-access-token 0000000000002: replaced by 0000000000003, expires at 2000 or earlier",
    "delete-access-token 0000000000002: ",
    "delete-role web: ",
    "delete-subject web: ",
    "set-auth-mode shadow: ",
    "set-namespace team: locks 5",
    "delete-namespace team: ",
    "update-member node 3: peer 10.0.0.9:7401, http 10.0.0.9:7400, zookeeper 10.0.0.9:7402, zone b",
    "set-member-role node 3: learner",
    "set-member-role node 3: voter, replaces node 2",
    "remove-member node 3: ",
    "add-member 10.0.0.4:7401: voter, http 10.0.0.4:7400, replaces node 1",
    "seal cluster: ",
    "unseal cluster: ",
    "set-level 1: ",
];

/// The machine after a restore, and its last line.
fn restored(machine: Machine) -> (Machine, String) {
    let revision = machine.revision();
    let restored = machine.restored(&super::restore::options()).unwrap();
    let (new, old, last) = (ClusterId(77), ClusterId(1), restored.counts().grants);
    let line = format!(
        "restored {new}: backup ab, cluster {old} at revision {revision}, tokens continue above {last}"
    );
    (restored, line)
}

/// Sorted by name.
fn all_actions() -> [AuditAction; 24] {
    let mut all = AuditAction::ALL;
    all.sort_by_key(|action| action.as_str());
    all
}

#[test]
fn every_action_has_its_record() {
    let mut machine = Machine::new();
    let (role, subject) = (RoleName::new("web").unwrap(), SubjectName::new("web").unwrap());
    let token =
        |id| NewAccessToken { id: AccessTokenId(id), hash: SecretHash([2; 32]), expires_at: None };
    let request = RequestRelease {
        lock: lock_name("orders"),
        holder: None,
        token: None,
        reason: None,
        deadline_ms: 500,
        revoke: true,
    };
    apply(&mut machine, &Actor::Anonymous, bootstrap(AuthMode::On)).unwrap();
    apply(&mut machine, &ROOT, acquire("orders", "web1")).unwrap();
    let commands = [
        set_limit(3),
        Command::RequestRelease(request),
        break_holders("orders"),
        end_session("web1"),
        Command::Auth(AuthChange::SetRole {
            role: role.clone(),
            permissions: vec![Permission::on_all_names(Right::LockRead)],
        }),
        Command::Auth(AuthChange::SetSubject {
            subject: subject.clone(),
            roles: vec![role.clone()],
            certificates: Vec::new(),
        }),
        Command::Auth(set_quotas(Some("web"), &[(QuotaKind::Sessions, 5)])),
        Command::Auth(AuthChange::AddToken { subject: subject.clone(), token: token(2) }),
        Command::Auth(AuthChange::RotateToken {
            old: AccessTokenId(2),
            token: token(3),
            old_expires_at: Stamp(2_000),
        }),
        Command::Auth(AuthChange::DeleteToken { token: AccessTokenId(2) }),
        Command::Auth(AuthChange::DeleteRole { role }),
        Command::Auth(AuthChange::DeleteSubject { subject }),
        Command::Auth(AuthChange::SetMode(AuthMode::Shadow)),
        Command::Auth(set_namespace("team", &[(QuotaKind::Locks, 5)])),
        Command::Auth(AuthChange::DeleteNamespace {
            namespace: NamespaceName::new("team").unwrap(),
        }),
    ];
    let seal = Command::Seal { reason: Reason::new("new machines").unwrap() };
    let of_level_2 = [
        seal,
        Command::Unseal { seal: holdfast_types::Revision(1) },
        Command::SetLevel(FeatureLevel(1)),
    ];
    for mut command in commands.into_iter().chain(changes_of_members()).chain(of_level_2) {
        if let (Command::Unseal { seal }, Some(present)) = (&mut command, machine.sealed()) {
            *seal = present.revision;
        }
        apply(&mut machine, &ROOT, command).unwrap();
    }
    let (machine, restored) = restored(machine);
    let lines: Vec<_> = records(&machine).iter().map(line).collect();
    assert_eq!(lines, [&LINES_OF_EVERY_ACTION[..], &[&restored]].concat());
    let mut actions: Vec<_> = records(&machine).iter().map(|record| record.action).collect();
    actions.sort_by_key(|action| action.as_str());
    actions.dedup();
    assert_eq!(actions, all_actions());
}

#[test]
fn rejected_ordinary_and_ineffective_commands_leave_no_record() {
    let mut machine = Machine::new();
    apply(&mut machine, &Actor::Anonymous, bootstrap(AuthMode::On)).unwrap();
    let before = machine.audit_head();
    for command in [break_holders("orders"), set_limit(3), end_session("web1")] {
        apply(&mut machine, &Actor::Anonymous, command).unwrap_err();
    }
    apply(&mut machine, &ROOT, end_session("unknown")).unwrap_err();
    apply(&mut machine, &ROOT, set_limit(LockPolicy::LIMIT_MAX + 1)).unwrap_err();
    let polite = RequestRelease {
        lock: lock_name("orders"),
        holder: None,
        token: None,
        reason: None,
        deadline_ms: 500,
        revoke: false,
    };
    let ordinary = [
        break_holders("orders"),
        acquire("orders", "web1"),
        Command::RequestRelease(polite),
        Command::CloseSession {
            session: session_name("web1"),
            attachment: None,
            incarnation: None,
        },
    ];
    for command in ordinary {
        apply(&mut machine, &ROOT, command).unwrap();
    }
    assert_eq!(machine.audit_head(), before);
}

#[test]
fn the_subject_of_a_deleted_access_token_is_known() {
    let mut machine = Machine::new();
    let root = SubjectName::new("root").unwrap();
    let token =
        NewAccessToken { id: AccessTokenId(2), hash: SecretHash([2; 32]), expires_at: None };
    apply(&mut machine, &Actor::Anonymous, bootstrap(AuthMode::On)).unwrap();
    let add = AuthChange::AddToken { subject: root.clone(), token };
    apply(&mut machine, &ROOT, Command::Auth(add)).unwrap();
    let delete = AuthChange::DeleteToken { token: AccessTokenId(1) };
    apply(&mut machine, &ROOT, Command::Auth(delete)).unwrap();
    assert_eq!(records(&machine)[2].subject, Some(root));
}

#[test]
fn a_long_detail_is_cut() {
    let mut machine = Machine::new();
    apply(&mut machine, &Actor::Anonymous, bootstrap(AuthMode::Off)).unwrap();
    let permissions = (0..Permission::PER_ROLE_MAX)
        .map(|number| format!("lock acquire {}/{number}/*", "é".repeat(100)).parse().unwrap())
        .collect();
    let role = RoleName::new("web").unwrap();
    apply(&mut machine, &ROOT, Command::Auth(AuthChange::SetRole { role, permissions })).unwrap();
    let detail = &records(&machine)[1].detail;
    assert!(detail.starts_with("lock acquire é") && detail.ends_with("/*…"), "{detail}");
    assert!((800..=AuditRecord::DETAIL_MAX).contains(&detail.len()), "{}", detail.len());
}

#[test]
fn the_trail_keeps_the_newest_records_through_a_snapshot() {
    let mut machine = Machine::new();
    for _ in 0..=RECORDS_MAX {
        apply(&mut machine, &Actor::Anonymous, set_limit(2)).unwrap();
    }
    let numbers: Vec<_> = records(&machine).iter().map(|record| record.number).collect();
    assert_eq!(numbers, (2..=RECORDS_MAX as u64 + 1).collect::<Vec<_>>());
    let mut loaded = Machine::load(machine.dump()).unwrap();
    assert_eq!(records(&loaded), records(&machine));
    for machine in [&mut machine, &mut loaded] {
        apply(machine, &Actor::Anonymous, set_limit(2)).unwrap();
        machine.check_invariants().unwrap();
    }
    assert_eq!(loaded.audit_head(), machine.audit_head());
}

#[test]
fn a_snapshot_with_an_altered_trail_is_rejected() {
    let mut machine = Machine::new();
    for command in of_every_kind() {
        apply(&mut machine, &Actor::Anonymous, command).unwrap();
    }
    let alterations: [fn(&mut Vec<AuditRecord>); 9] = [
        |records| drop(records.remove(0)),
        |records| drop(records.remove(1)),
        |records| drop(records.pop()),
        |records| records.swap(0, 1),
        |records| records[1].target = "other".to_owned(),
        |records| records[2].hash = AuditHash([7; 32]),
        |records| records[2].number = u64::MAX,
        |records| records[0].number = 0,
        |records| records[1].detail = "x".repeat(AuditRecord::DETAIL_MAX + 1),
    ];
    for (number, alter) in alterations.iter().enumerate() {
        let mut parts: Vec<SnapshotPart> = machine.dump().collect();
        for SnapshotPart(part) in &mut parts {
            if let Part::Audit(records) = part {
                alter(records);
            }
        }
        let loaded = Machine::load(parts);
        // The order in the snapshot has no meaning.
        assert_eq!(loaded.is_ok(), number == 3, "{number}: {:?}", loaded.err());
    }
    let mut twice: Vec<SnapshotPart> = machine.dump().collect();
    for SnapshotPart(part) in &mut twice {
        if let Part::Audit(records) = part {
            let again = records[0].clone();
            records.push(again);
        }
    }
    assert!(matches!(Machine::load(twice).err(), Some(LoadError::Twice { .. })));
}
