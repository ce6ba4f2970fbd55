//! Changes of znodes that bypass the queue of a lock: the right that each needs, and its record in the audit trail.

use holdfast_types::{
    AclEntry, Acquire, Actor, AuthChange, AuthMode, Caller, Command, CreateKind, Op, Owner,
    PolicyChange, Reason, Rejection, ShardChoice, ShardRequest, TreeRejection, ZnodePath,
};

use super::auth::{
    acquire, add_token, apply, bootstrap, change, forbidden, set_role, set_subject, subject,
};
use super::script_commands::{create, lock_name, lock_set, multi, of_session, open, path};
use crate::Machine;

const ROOT: Actor = super::auth::ADMIN;

fn by(name: &str) -> Actor {
    Actor::Subject(subject(name))
}

/// `holder` holds `a` and `deep/b`, and `waiter` waits for `a`, and for `a` and `m` together; `zk` is a session of a
/// ZooKeeper client in the queue of `z`; `policy` has a policy, `cooling` is in cooldown, and `idle` has neither.
fn machine(mode: AuthMode) -> Machine {
    let mut machine = Machine::new();
    change(&mut machine, Actor::Anonymous, bootstrap(AuthMode::On)).unwrap();
    let all = ["tree write *", "lock acquire *"];
    change(&mut machine, ROOT, set_role("writer", &all)).unwrap();
    let breaker = [&all[..], &["lock force-release *"]].concat();
    change(&mut machine, ROOT, set_role("breaker", &breaker)).unwrap();
    let policies = [&all[..], &["lock policy *"]].concat();
    change(&mut machine, ROOT, set_role("policies", &policies)).unwrap();
    let requester = [&all[..], &["lock request-release *"]].concat();
    change(&mut machine, ROOT, set_role("requester", &requester)).unwrap();
    for name in ["writer", "breaker", "policies", "requester"] {
        change(&mut machine, ROOT, set_subject(name, &[name], &[])).unwrap();
    }
    for name in ["holder", "waiter", "zk", "other"] {
        change(&mut machine, ROOT, set_subject(name, &["writer"], &[])).unwrap();
    }
    change(&mut machine, ROOT, add_token("other", 9)).unwrap();
    for lock in ["a", "deep/b", "idle"] {
        apply(&mut machine, by("holder"), acquire(lock, "holder")).unwrap();
    }
    apply(&mut machine, by("holder"), super::auth::release("idle", "holder")).unwrap();
    apply(&mut machine, by("waiter"), acquire("a", "waiter")).unwrap();
    let both = Acquire::new(lock_set(&["a", "m"]), open("both"), Owner::unnamed());
    apply(&mut machine, by("waiter"), Command::Acquire(both)).unwrap();
    apply(&mut machine, by("zk"), Command::OpenSession { open: open("zk"), attempt: None })
        .unwrap();
    let entry = create("/locks/z/lock-", CreateKind::Ephemeral, true, Vec::new());
    let directory = create("/locks/z", CreateKind::Persistent, false, Vec::new());
    apply(&mut machine, by("zk"), multi(of_session("zk"), vec![directory, entry])).unwrap();
    let policy = |lock, change| Command::SetPolicy { lock: lock_name(lock), change };
    let limit = PolicyChange { limit: Some(Some(2)), ..PolicyChange::default() };
    apply(&mut machine, ROOT, policy("policy", limit)).unwrap();
    let delay = PolicyChange { lock_delay_ms: Some(60_000), ..PolicyChange::default() };
    apply(&mut machine, ROOT, policy("cooling", delay)).unwrap();
    apply(&mut machine, by("other"), acquire("cooling", "cooler")).unwrap();
    let session = open("cooler").session;
    let reason = Reason::new("stuck").unwrap();
    let end = Command::EndSession { session, incarnation: None, reason };
    apply(&mut machine, ROOT, end).unwrap();
    change(&mut machine, ROOT, AuthChange::SetMode(mode)).unwrap();
    machine
}

/// The znodes of the queue entries of a lock, in the order of their names.
fn entries(machine: &Machine, lock: &str) -> Vec<ZnodePath> {
    let directory = ZnodePath::of_lock(&lock_name(lock));
    let below = machine.tree.below_after(&directory, None);
    below.filter(|(_, node)| node.entry().is_some()).map(|(path, _)| path.clone()).collect()
}

fn entry_of(machine: &Machine, lock: &str, session: &str) -> ZnodePath {
    let is_theirs = |path: &&ZnodePath| {
        let entry = machine.tree.get(path).and_then(|node| node.entry());
        entry.is_some_and(|entry| entry.session_name.as_str() == session)
    };
    entries(machine, lock).iter().find(is_theirs).unwrap().clone()
}

fn delete(path: ZnodePath, recursive: bool) -> Op {
    Op::Delete { path, version: None, recursive }
}

/// A change, the permission that it needs, the subject that has it, and the line of the record; none for a change that
/// is no bypass.
#[derive(Clone)]
struct Case {
    name: &'static str,
    ops: Vec<Op>,
    needs: Option<Words>,
    record: Option<&'static str>,
}

type Words = (&'static str, &'static str);

fn of(
    name: &'static str,
    ops: Vec<Op>,
    needs: Option<Words>,
    record: Option<&'static str>,
) -> Case {
    Case { name, ops, needs, record }
}

/// The ends of holds and waits.
fn deletes_of_entries(machine: &Machine) -> Vec<Case> {
    let a = |session| entry_of(machine, "a", session);
    let (b, z) = (entry_of(machine, "deep/b", "holder"), entries(machine, "z").remove(0));
    let cfg = || create("/locks/new", CreateKind::Persistent, false, Vec::new());
    vec![
        of(
            "a hold",
            vec![delete(a("holder"), false)],
            Some(("breaker", "lock force-release a")),
            Some("force-release a: holder lost a (token 1)"),
        ),
        of(
            "a hold with its directory",
            vec![delete(path("/locks/deep"), true)],
            Some(("breaker", "lock force-release deep/b")),
            Some("force-release deep/b: holder lost deep/b (token 2)"),
        ),
        of(
            "a wait of a multi-lock",
            vec![delete(a("both"), false)],
            Some(("breaker", "lock force-release a")),
            Some("force-release a: both left the queue of a, both left the queue of m"),
        ),
        of(
            "an entry of a ZooKeeper client",
            vec![delete(z, false)],
            Some(("breaker", "lock force-release z")),
            Some("force-release z: zk lost z (token 4)"),
        ),
        of(
            "among other operations",
            vec![cfg(), delete(b, false)],
            Some(("breaker", "lock force-release deep/b")),
            Some("force-release deep/b: holder lost deep/b (token 2)"),
        ),
    ]
}

/// The changes of locks, and what is no bypass.
fn changes_of_locks(machine: &Machine) -> Vec<Case> {
    let acl =
        |at: &str| vec![Op::SetAcl { path: path(at), acl: vec![AclEntry::open()], version: None }];
    let data = |path: ZnodePath| Op::SetData { path, data: vec![1].into(), version: None };
    let (b, z) = (entry_of(machine, "deep/b", "holder"), entries(machine, "z").remove(0));
    let cfg = || create("/locks/new", CreateKind::Persistent, false, Vec::new());
    vec![
        of(
            "a cooldown",
            vec![delete(path("/locks/cooling"), true)],
            Some(("root", "lock force-release cooling")),
            Some(
                "force-release cooling: the cooldown of cooling deleted, the policy of cooling deleted",
            ),
        ),
        of(
            "a policy",
            vec![delete(path("/locks/policy"), false)],
            Some(("policies", "lock policy policy")),
            Some("set-lock-policy policy: the policy of policy deleted"),
        ),
        of(
            "the access list of a lock",
            acl("/locks/idle"),
            Some(("policies", "lock policy idle")),
            Some("set-lock-acl idle: access list of /locks/idle"),
        ),
        of(
            "the access list of every lock",
            acl("/locks"),
            Some(("policies", "lock policy *")),
            Some("set-lock-acl *: access list of /locks"),
        ),
        of(
            "the access list of an entry",
            acl(z.as_str()),
            Some(("policies", "lock policy z")),
            None,
        ),
        of(
            "a request with data",
            vec![data(b)],
            Some(("requester", "lock request-release deep/b")),
            None,
        ),
        of("an idle lock", vec![delete(path("/locks/idle"), false)], None, None),
        of("a new znode", vec![cfg()], None, None),
    ]
}

fn cases(machine: &Machine) -> Vec<Case> {
    [deletes_of_entries(machine), changes_of_locks(machine)].concat()
}

fn last_line(machine: &Machine) -> String {
    let record = machine.audit_records_after(0).last().unwrap();
    format!("{} {}: {}", record.action.as_str(), record.target.as_target(), record.detail())
}

#[test]
fn a_bypass_of_a_queue_needs_the_right_of_the_lock_and_leaves_a_record() {
    let on = machine(AuthMode::On);
    for Case { name, ops, needs, record } in cases(&on) {
        let command = || multi(Caller::default(), ops.clone());
        let mut machine = on.clone();
        let Some((able, permission)) = needs else {
            apply(&mut machine, by("other"), command()).unwrap();
            assert_eq!(machine.audit_head(), on.audit_head(), "{name}");
            continue;
        };
        let outcome = apply(&mut machine, by("other"), command());
        assert_eq!(forbidden(&outcome).as_deref(), Some(permission), "{name}");
        for unable in ["breaker", "policies", "requester"] {
            if unable != able {
                let outcome = apply(&mut machine, by(unable), command());
                assert!(forbidden(&outcome).is_some(), "{name}: {unable}");
            }
        }
        assert_eq!(machine.audit_head(), on.audit_head(), "{name}");
        apply(&mut machine, by(able), command()).unwrap();
        if let Some(record) = record {
            assert_eq!(last_line(&machine), record, "{name}");
        }
    }
}

#[test]
fn without_authorization_a_bypass_leaves_a_record_and_names_the_caller() {
    for mode in [AuthMode::Off, AuthMode::Shadow] {
        let machine = machine(mode);
        for Case { name, ops, record, .. } in cases(&machine) {
            let mut machine = machine.clone();
            let before = machine.audit_head();
            apply(&mut machine, by("other"), multi(Caller::default(), ops)).unwrap();
            if let Some(record) = record {
                assert_eq!(last_line(&machine), record, "{name}");
                let last = machine.audit_records_after(0).last().unwrap();
                assert_eq!(last.subject, Some(subject("other")), "{name}");
                assert_eq!(last.number, before.unwrap().0 + 1, "{name}");
            }
        }
    }
}

/// That is how ZooKeeper clients release.
#[test]
fn a_session_deletes_its_own_entry_and_a_subject_those_of_its_sessions() {
    for mode in [AuthMode::Off, AuthMode::Shadow, AuthMode::On] {
        let machine = machine(mode);
        let z = entries(&machine, "z").remove(0);
        for caller in [of_session("zk"), Caller::default()] {
            let mut machine = machine.clone();
            let before = machine.audit_head();
            let release = multi(caller, vec![delete(z.clone(), false)]);
            apply(&mut machine, by("zk"), release).unwrap();
            assert_eq!(machine.audit_head(), before);
            assert!(entries(&machine, "z").is_empty());
        }
    }
    let mut open_cluster = Machine::new();
    let session = Command::OpenSession { open: open("zk"), attempt: None };
    apply(&mut open_cluster, Actor::Anonymous, session).unwrap();
    let lock = vec![
        create("/locks/z", CreateKind::Persistent, false, Vec::new()),
        create("/locks/z/lock-", CreateKind::Ephemeral, true, Vec::new()),
    ];
    apply(&mut open_cluster, Actor::Anonymous, multi(of_session("zk"), lock)).unwrap();
    let z = entries(&open_cluster, "z").remove(0);
    let release = multi(of_session("zk"), vec![delete(z, false)]);
    apply(&mut open_cluster, Actor::Anonymous, release).unwrap();
    assert_eq!(open_cluster.audit_head(), None);
}

/// Each of the nested deletes names all znodes below it again.
#[test]
fn a_multi_that_names_more_znodes_than_are_looked_at_needs_the_right_for_every_lock() {
    let mut machine = machine(AuthMode::On);
    let nested: Vec<String> =
        (1..=150).map(|depth| format!("/locks/n{}", "/a".repeat(depth))).collect();
    let directories = std::iter::once("/locks/n").chain(nested.iter().map(String::as_str));
    let creates =
        directories.clone().map(|at| create(at, CreateKind::Persistent, false, Vec::new()));
    apply(&mut machine, by("writer"), multi(Caller::default(), creates.collect())).unwrap();
    let mut deletes: Vec<Op> = directories.rev().map(|at| delete(path(at), true)).collect();
    deletes.push(delete(path("/locks/deep"), true));
    let change = || multi(Caller::default(), deletes.clone());
    let refused = apply(&mut machine, by("writer"), change());
    let refused = forbidden(&refused).unwrap();
    assert!(refused.contains("lock force-release"), "{refused}");
    assert_eq!(entries(&machine, "deep/b").len(), 1);
    apply(&mut machine, by("breaker"), change()).unwrap();
    let line = last_line(&machine);
    assert!(line.starts_with("force-release"), "{line}");
}

/// A holder has no right to end the `min_hold` of its own hold, in any order of operations.
#[test]
fn a_holder_cannot_end_its_min_hold_with_the_directory_of_the_lock() {
    let mut on = machine(AuthMode::On);
    let Command::Acquire(mut long) = acquire("long", "holder") else { unreachable!() };
    long.options.min_hold_ms = Some(60_000);
    apply(&mut on, by("holder"), Command::Acquire(long)).unwrap();
    let (directory, entry) = (path("/locks/long"), entry_of(&on, "long", "holder"));
    let recursive = vec![delete(directory.clone(), true)];
    let nested = vec![delete(entry.clone(), false), delete(directory.clone(), true)];
    let single = vec![delete(entry.clone(), false), delete(directory, false)];
    for ops in [recursive, nested, single] {
        let mut machine = on.clone();
        let outcome = apply(&mut machine, by("holder"), multi(Caller::default(), ops.clone()));
        assert_eq!(forbidden(&outcome).as_deref(), Some("lock force-release long"), "{ops:?}");
        apply(&mut machine, by("breaker"), multi(Caller::default(), ops)).unwrap();
        let record = last_line(&machine);
        assert!(record.contains("the cooldown of long deleted"), "{record}");
    }
    apply(&mut on, by("holder"), multi(Caller::default(), vec![delete(entry, false)])).unwrap();
}

/// A waiter for any shard gets a new entry with its grant. No right is checked for an entry that does not exist yet.
#[test]
fn a_multi_cannot_end_a_hold_that_its_own_deletes_would_grant() {
    let mut on = machine(AuthMode::On);
    let shards = ShardRequest { count: Some(2), choice: ShardChoice::Any };
    for session in ["holder", "other", "waiter"] {
        let Command::Acquire(any) = acquire("pool", session) else { unreachable!() };
        let any = Acquire { shards: Some(shards), ..any };
        apply(&mut on, by(session), Command::Acquire(any)).unwrap();
    }
    let own = delete(entry_of(&on, "pool/1", "other"), false);
    let mut granted = on.clone();
    apply(&mut granted, by("other"), multi(Caller::default(), vec![own.clone()])).unwrap();
    let moved = entry_of(&granted, "pool/1", "waiter");
    let outcome =
        apply(&mut on, by("other"), multi(Caller::default(), vec![own, delete(moved, false)]));
    assert!(matches!(outcome, Err(Rejection::Tree(TreeRejection::OfOperation { at: 1, .. }))));
}
