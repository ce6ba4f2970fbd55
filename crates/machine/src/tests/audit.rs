//! The audit trail: which commands leave a record, and what is in it.

use holdfast_types::{
    AccessTokenId, AclEntry, Acquire, Actor, AuditAction, AuditClass, AuditEvicted, AuditHash,
    AuditItem, AuditRecord, AuthChange, AuthMode, Caller, ClusterId, Command, Credential, Entry,
    FeatureLevel, FencingToken, ForceRelease, ForceReleaseTarget, Identity, Incarnation, LockName,
    LockPolicy, MembershipChange, NamespaceName, NewAccessToken, NodeId, NodeOperation, Op,
    Outcome, Owner, Permission, Perms, PolicyChange, QuotaKind, Reason, Reply, RequestRelease,
    Revision, Right, RoleName, SecretHash, SessionId, SessionName, Stamp, SubjectName, TokenPolicy,
    VotingRole, Zone,
};

use super::auth::{set_namespace, set_quotas};
use super::members::{addresses, first_members, invite};
use super::script_commands::{lock_name, multi, open, path, session_name};
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
    Command::ForceRelease(ForceRelease {
        lock: lock_name(lock),
        what: ForceReleaseTarget::Holders,
        reason,
    })
}

fn set_limit(limit: u32) -> Command {
    let change = PolicyChange { limit: Some(Some(limit)), ..PolicyChange::default() };
    Command::SetPolicy { lock: lock_name("pool"), change }
}

fn end_session(name: &str) -> Command {
    let reason = Reason::new("laptop lost").unwrap();
    Command::EndSession { session: session_name(name), incarnation: None, reason }
}

fn end_sessions(subject: &str, sessions: &[(&str, u64)], total: Option<u64>) -> Command {
    Command::EndSessions {
        subject: SubjectName::new(subject).unwrap(),
        sessions: sessions.iter().map(|(name, id)| (session_name(name), SessionId(*id))).collect(),
        reason: Reason::new("the access was revoked").unwrap(),
        total,
    }
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
        action: AuditAction::ForceRelease,
        target: AuditItem::Lock(LockName::new("orders").unwrap()),
        details: vec![AuditItem::HoldEnded {
            lock: LockName::new("orders").unwrap(),
            session: SessionName::new("web1").unwrap(),
            token: FencingToken(1),
        }],
        reason: Some(Reason::new("stuck since noon").unwrap()),
        hash: records(&machine)[1].hash,
    };
    assert_eq!(records(&machine)[1], expected);
    assert_eq!(machine.audit_head(), Some((2, expected.hash)));
    machine.check_invariants().unwrap();
}

fn line(record: &AuditRecord) -> String {
    format!("{} {}: {}", record.action.as_str(), record.target.as_target(), record.detail())
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

const LINES_OF_EVERY_ACTION: [&str; 33] = [
    "add-administrator root: access token 0000000000001, mode on",
    "set-lock-policy pool: limit 3",
    "revoke-lock orders: every holder in 500 ms",
    "force-release orders: web1 lost orders (token 1)",
    "close-session web1: ",
    "close-sessions root: 2 sessions, session web2, web2 lost orders (token 2)",
    "set-lock-acl orders: access list of /locks/orders",
    "hold-durable freeze: session durable!carol",
    "set-role web: lock read *",
    "set-subject web: role web",
    "set-quotas web: sessions 5",
    "add-access-token 0000000000002: subject web",
    "rotate-access-token 0000000000002: replaced by 0000000000003, expires at 1970-01-01T00:00:02Z or earlier",
    "delete-access-token 0000000000002: ",
    "delete-role web: ",
    "delete-subject web: ",
    "set-auth-mode shadow: ",
    "deny-certificate serial:4a: ",
    "allow-certificate serial:4a: ",
    "set-token-policy tokens: default none, maximum 86400000 ms",
    "set-namespace team: locks 5",
    "delete-namespace team: ",
    "update-member node 3: peer 10.0.0.9:7401, http 10.0.0.9:7400, zookeeper 10.0.0.9:7402, zone b",
    "set-member-role node 3: learner",
    "set-member-role node 3: voter, replaces node 2",
    "remove-member node 3: ",
    "add-member 10.0.0.4:7401: voter, http 10.0.0.4:7400, replaces node 1",
    "seal cluster: ",
    "backup node 2: ",
    "transfer-leadership node 1: ",
    "set-node-log node 2: info,holdfast_raft=debug for 500 ms",
    "unseal cluster: ",
    "set-level 2: ",
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
fn all_actions() -> [AuditAction; 33] {
    let mut all = AuditAction::ALL;
    all.sort_by_key(|action| action.as_str());
    all
}

fn changes_of_auth() -> impl Iterator<Item = Command> {
    let (role, subject) = (RoleName::new("web").unwrap(), SubjectName::new("web").unwrap());
    let token =
        |id| NewAccessToken { id: AccessTokenId(id), hash: SecretHash([2; 32]), expires_at: None };
    let changes = [
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
        Command::Auth(AuthChange::DenyCertificate {
            certificate: "4A".parse().unwrap(),
            reason: Reason::new("stolen").unwrap(),
        }),
        Command::Auth(AuthChange::AllowCertificate { certificate: "4A".parse().unwrap() }),
        Command::Auth(AuthChange::SetTokenPolicy(TokenPolicy {
            default_ttl_ms: None,
            max_ttl_ms: Some(86_400_000),
        })),
        Command::Auth(set_namespace("team", &[(QuotaKind::Locks, 5)])),
        Command::Auth(AuthChange::DeleteNamespace {
            namespace: NamespaceName::new("team").unwrap(),
        }),
    ];
    changes.into_iter()
}

#[test]
fn every_action_has_its_record() {
    let mut machine = Machine::new();
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
    let acl = vec![AclEntry { perms: Perms::ALL, who: Identity::anyone() }];
    let set_acl = Op::SetAcl { path: path("/locks/orders"), acl, version: None };
    let commands = [
        set_limit(3),
        Command::RequestRelease(request),
        break_holders("orders"),
        end_session("web1"),
        acquire("orders", "web2"),
        end_sessions("root", &[("web2", 2)], Some(2)),
        multi(Caller::default(), vec![set_acl]),
        Command::Acquire(super::durable::durable("freeze", "carol")),
    ];
    let seal = Command::Seal { reason: Reason::new("new machines").unwrap() };
    let node = NodeId(2);
    let filter = Some("info,holdfast_raft=debug".to_owned());
    let operations = [
        NodeOperation::Backup { node },
        NodeOperation::TransferLeadership { to: Some(NodeId(1)) },
        NodeOperation::SetLog { node, filter, lasts_ms: 500 },
    ];
    let operations = operations.map(Command::RecordOperation);
    let unseal = Command::Unseal { seal: Revision(1) };
    let of_operators = [seal].into_iter().chain(operations);
    let of_operators = of_operators.chain([unseal, Command::SetLevel(FeatureLevel(2))]);
    let others = commands.into_iter().chain(changes_of_auth()).chain(changes_of_members());
    for mut command in others.chain(of_operators) {
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
    let backup = Command::RecordOperation(NodeOperation::Backup { node: NodeId(1) });
    for command in [break_holders("orders"), set_limit(3), end_session("web1"), backup] {
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
    let record = &records(&machine)[1];
    let detail = record.detail();
    assert!(detail.starts_with("lock acquire é") && detail.ends_with("/*, …"), "{detail}");
    let bytes: usize = record.details.iter().map(AuditItem::stored_len).sum();
    assert!((1_500..=AuditRecord::DETAILS_MAX).contains(&bytes), "{bytes}");
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

/// The recommended answer to a leaked access token closes its sessions, and must not erase who created it.
#[test]
fn a_flood_of_one_class_evicts_no_record_of_another_and_is_counted() {
    let mut machine = Machine::new();
    apply(&mut machine, &Actor::Anonymous, bootstrap(AuthMode::On)).unwrap();
    apply(&mut machine, &ROOT, acquire("orders", "web1")).unwrap();
    apply(&mut machine, &ROOT, break_holders("orders")).unwrap();
    let flood = RECORDS_MAX as u64 + 5;
    for _ in 0..flood {
        apply(&mut machine, &ROOT, set_limit(3)).unwrap();
    }
    let evicted = AuditEvicted { count: 5, number: 7, at: Stamp(1_000), evicted_at: Stamp(1_000) };
    let loaded = Machine::load(machine.dump()).unwrap();
    for machine in [&machine, &loaded] {
        let kept = records(machine);
        let actions: Vec<_> = kept.iter().take(3).map(|record| record.action).collect();
        let expected =
            [AuditAction::AddAdministrator, AuditAction::ForceRelease, AuditAction::SetLockPolicy];
        assert_eq!((actions, kept.len()), (expected.to_vec(), RECORDS_MAX + 2));
        assert_eq!(kept.last().unwrap().number, flood + 2);
        let all: Vec<_> = machine.audit_evicted().collect();
        assert_eq!(all, [(AuditClass::Policy, evicted)]);
        machine.check_invariants().unwrap();
    }
    assert_eq!(loaded.state_digest(), machine.state_digest());
}

type Alteration = fn(&mut Vec<(AuditClass, AuditEvicted)>);

#[test]
fn a_snapshot_with_wrong_evictions_is_rejected() {
    let mut machine = Machine::new();
    for _ in 0..RECORDS_MAX + 5 {
        apply(&mut machine, &Actor::Anonymous, set_limit(3)).unwrap();
    }
    let alterations: [Alteration; 6] = [
        |evicted| evicted[0].1.count = 4,
        |evicted| evicted[0].1.count = u64::MAX,
        |evicted| evicted[0].1.number = 6,
        |evicted| evicted[0].0 = AuditClass::Administration,
        |evicted| evicted.push(evicted[0]),
        |evicted| evicted.clear(),
    ];
    for (number, alter) in alterations.iter().enumerate() {
        let mut parts: Vec<SnapshotPart> = machine.dump().collect();
        for SnapshotPart(part) in &mut parts {
            if let Part::AuditEvicted(evicted) = part {
                alter(evicted);
            }
        }
        assert!(Machine::load(parts).is_err(), "{number}");
    }
}

#[test]
fn the_end_of_many_sessions_is_one_record() {
    let mut machine = Machine::new();
    apply(&mut machine, &Actor::Anonymous, bootstrap(AuthMode::On)).unwrap();
    for session in ["a", "b", "c"] {
        apply(&mut machine, &ROOT, acquire(session, session)).unwrap();
    }
    apply(&mut machine, &Actor::Node, acquire("d", "d")).unwrap();
    let ended = |machine: &mut Machine, command| match apply(machine, &ROOT, command) {
        Ok(Reply::SessionsEnded { count }) => count,
        other => panic!("{other:?}"),
    };
    // One of an earlier incarnation, one that never was, and one without a subject.
    let others = end_sessions("root", &[("a", 9), ("x", 1), ("d", 4)], Some(3));
    assert_eq!(ended(&mut machine, others), 0);
    assert_eq!(records(&machine).len(), 1);
    let first = end_sessions("root", &[("a", 1), ("b", 2)], Some(3));
    assert_eq!(ended(&mut machine, first), 2);
    assert_eq!(ended(&mut machine, end_sessions("root", &[("c", 3)], None)), 1);
    let lines: Vec<_> = records(&machine).iter().skip(1).map(line).collect();
    let expected = "close-sessions root: 3 sessions, session a, session b, a lost a (token 1), b lost b (token 2)";
    assert_eq!(lines, [expected]);
    assert!(machine.session_id(&session_name("d")).is_some());
    let stranger = apply(&mut machine, &Actor::Anonymous, end_sessions("root", &[("d", 4)], None));
    stranger.unwrap_err();
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
        |records| records[1].target = AuditItem::EveryLock,
        |records| records[2].hash = AuditHash([7; 32]),
        |records| records[2].number = u64::MAX,
        |records| records[0].number = 0,
        |records| records[1].details = vec![AuditItem::More; AuditRecord::DETAILS_MAX],
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
