//! Namespaces: who may use which names, and the quotas.

use holdfast_types::{
    AccessTokenId, Actor, AuthChange, AuthMode, AuthRejection, ChangeCounter, Command,
    CounterChange, Create, CreateKind, Entry, Multi, NamespaceItems, NamespaceName, Op, Outcome,
    Permission, QuotaFull, QuotaKind, QuotaOwner, Recipe, RecipeName, Rejection, Right,
    SessionName, Stamp,
};
use proptest::prelude::*;

use super::auth::{
    ADMIN, acquire, add_token, apply, bootstrap, change, release, set_namespace, set_quotas,
    set_role, set_subject, subject,
};
use super::history::history;
use super::model_check::Trial;
use super::random::config;
use super::script_commands::{open, path, session_name};
use crate::Machine;

/// The subject `team/ci`.
const TEAM: Actor = Actor::Token(AccessTokenId(2));
/// The subject `other`, which belongs to no namespace. It has the same role.
const OTHER: Actor = Actor::Token(AccessTokenId(3));

/// First components of the names in histories.
const NAMESPACES: [&str; 6] = ["a", "b", "c", "x", "e", "s1"];

/// Quotas that histories reach.
const QUOTAS: [(QuotaKind, u64); 2] = [(QuotaKind::Sessions, 3), (QuotaKind::QueueEntries, 4)];

fn namespace(name: &str) -> NamespaceName {
    NamespaceName::new(name).unwrap()
}

/// A cluster in the mode `on` with the namespace `team`.
fn cluster(quotas: &[(QuotaKind, u64)]) -> Machine {
    let mut machine = Machine::new();
    change(&mut machine, Actor::Anonymous, bootstrap(AuthMode::On)).unwrap();
    for next in [
        set_role("user", &["lock acquire *", "recipe use *", "tree write *"]),
        set_subject("team/ci", &["user", "operator"], &[]),
        set_subject("other", &["user"], &[]),
        add_token("team/ci", 2),
        add_token("other", 3),
        set_namespace("team", quotas),
    ] {
        change(&mut machine, ADMIN, next).unwrap();
    }
    machine
}

fn create(at: &str, bytes: usize) -> Command {
    let at = path(at);
    let create = Create {
        directory: at.parent().unwrap(),
        name: at.file_name().to_owned(),
        kind: CreateKind::Persistent,
        sequential: false,
        data: vec![b'x'; bytes].into(),
        acl: None,
        parents: true,
    };
    Command::Multi(Multi { then: vec![Op::Create(create)], ..Multi::default() })
}

fn counter(name: &str) -> Command {
    Command::Recipe(Recipe::ChangeCounter(ChangeCounter {
        counter: RecipeName::new(name).unwrap(),
        change: CounterChange::Add { amount: 1 },
    }))
}

fn full(outcome: Outcome) -> Option<(QuotaKind, u64, u64)> {
    match outcome {
        Err(Rejection::QuotaFull(full)) => {
            let QuotaFull { owner, quota, limit, used } = *full;
            assert_eq!(owner, QuotaOwner::Namespace(namespace("team")));
            Some((quota, limit, used))
        }
        Ok(_) => None,
        Err(other) => panic!("{other:?}"),
    }
}

fn is_outside(outcome: Outcome) -> bool {
    match outcome {
        Ok(_) => false,
        Err(Rejection::Auth(AuthRejection::OtherNamespace(outside))) => {
            assert_eq!(outside.namespace.as_str(), "team");
            true
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_subject_of_a_namespace_uses_only_its_names() {
    let mut machine = cluster(&[]);
    for (command, outside) in [
        (acquire("team/a", "s1"), false),
        (acquire("team", "s1"), false),
        (acquire("elections/team/a", "s1"), false),
        (acquire("teams/a", "s1"), true),
        (acquire("elections/teams", "s1"), true),
        (acquire("a/team/b", "s1"), true),
        (create("/team/a", 0), false),
        (create("/groups/team/a", 0), false),
        (create("/cfg", 0), true),
        (create("/groups/other/a", 0), true),
        (create("/locks/other/a", 0), true),
        (counter("team/hits"), false),
        (counter("hits"), true),
    ] {
        let text = format!("{command:?}");
        assert_eq!(is_outside(apply(&mut machine, TEAM, command)), outside, "{text}");
    }
    // Its roles do not reach the cluster, and not the locks of others.
    for (right, name, allowed) in [
        ("lock force-release team/a", "team/a", true),
        ("lock force-release other", "other", false),
        ("cluster read", "", false),
        ("audit read", "", false),
        ("cluster backup", "", false),
    ] {
        let permission: Permission = right.parse().unwrap();
        let rights = machine.rights_of(&TEAM, Stamp(1_000)).unwrap();
        let checked = rights.check(permission.right, name);
        assert_eq!(checked.is_ok(), allowed, "{right}: {checked:?}");
        assert_eq!(rights.deciding_permission(permission.right, name).is_some(), allowed);
    }
    assert!(!is_outside(apply(&mut machine, OTHER, acquire("teams/a", "s2"))));
}

#[test]
fn prefixes_end_inside_the_namespace() {
    let machine = cluster(&[]);
    let rights = machine.rights_of(&TEAM, Stamp(1_000)).unwrap();
    let allowed = |right, prefix| rights.check_below(right, prefix).is_ok();
    assert!(allowed(Right::LockRead, "team/") && allowed(Right::TreeRead, "/team/"));
    for (right, prefix) in [
        (Right::LockRead, "team"),
        (Right::LockRead, ""),
        (Right::TreeRead, "/"),
        (Right::TreeRead, "/team"),
        (Right::TreeRead, "/locks/"),
    ] {
        assert!(!allowed(right, prefix), "{right} {prefix}");
    }
}

#[test]
fn sessions_of_the_same_namespace_are_seen_and_closed() {
    let mut machine = cluster(&[]);
    for next in [set_subject("team/ops", &["operator"], &[]), add_token("team/ops", 4)] {
        change(&mut machine, ADMIN, next).unwrap();
    }
    apply(&mut machine, TEAM, Command::OpenSession { open: open("ours"), attempt: None }).unwrap();
    apply(&mut machine, OTHER, Command::OpenSession { open: open("theirs"), attempt: None })
        .unwrap();
    let ops = Actor::Token(AccessTokenId(4));
    let rights = machine.rights_of(&ops, Stamp(1_000)).unwrap();
    assert!(rights.check(Right::SessionClose, "ours").is_ok());
    assert!(rights.check(Right::SessionClose, "theirs").is_err());
    assert!(rights.check(Right::SessionRead, "unknown").is_err());
}

#[test]
fn the_session_names_of_a_namespace_are_its_own() {
    let mut machine = cluster(&[]);
    let open_session = |name| Command::OpenSession { open: open(name), attempt: None };
    apply(&mut machine, TEAM, open_session("old")).unwrap();
    apply(&mut machine, TEAM, open_session("team:a")).unwrap();
    // Another namespace's name is refused whether or not a session has it. A colon alone means nothing.
    for name in ["team:a", "team:none"] {
        let session = session_name(name);
        let refused = Err(AuthRejection::OtherSubject { session: session.clone() }.into());
        assert_eq!(apply(&mut machine, OTHER, open_session(name)), refused);
        let hidden = Err(AuthRejection::HiddenSession { session: session.clone() }.into());
        assert_eq!(apply(&mut machine, OTHER, Command::RenewSession { session }), hidden);
    }
    apply(&mut machine, OTHER, open_session("host:80")).unwrap();
    for (named, whole) in
        [("a", "team:a"), ("team:a", "team:a"), ("host:80", "team:host:80"), ("old", "old")]
    {
        let found = machine.whole_session_name(&TEAM, session_name(named));
        assert_eq!(found, Ok(session_name(whole)), "{named}");
    }
    let long = session_name(&"x".repeat(SessionName::MAX_LEN));
    assert!(machine.whole_session_name(&TEAM, long).is_err());
}

#[test]
fn each_quota_rejects_growth_and_nothing_else() {
    let open_session = |name: &str| Command::OpenSession { open: open(name), attempt: None };
    let cases: [(QuotaKind, u64, Vec<Command>, Command); 6] = [
        (QuotaKind::Locks, 1, vec![acquire("team/a", "s1")], acquire("team/b", "s1")),
        (QuotaKind::QueueEntries, 1, vec![acquire("team/a", "s1")], acquire("team/a", "s2")),
        (QuotaKind::WaitersPerLock, 0, vec![acquire("team/a", "s1")], acquire("team/a", "s2")),
        (QuotaKind::Sessions, 1, vec![open_session("s1")], open_session("s2")),
        (QuotaKind::Znodes, 2, vec![create("/team/a", 0)], create("/team/b", 0)),
        (QuotaKind::Recipes, 1, vec![counter("team/a")], counter("team/b")),
    ];
    for (quota, limit, before, more) in cases {
        let mut machine = cluster(&[(quota, limit)]);
        for command in before {
            assert_eq!(full(apply(&mut machine, TEAM, command)), None, "{quota}");
        }
        let used = if quota == QuotaKind::WaitersPerLock { 0 } else { limit };
        let before = machine.state_digest();
        let undone = machine.clone();
        assert_eq!(full(apply(&mut machine, TEAM, more.clone())), Some((quota, limit, used)));
        // The rejected command has used a revision, as every command does.
        assert_ne!(machine.state_digest(), before);
        machine.revision = undone.revision;
        machine.digest = undone.digest;
        assert_eq!(machine.state_digest(), before, "{quota}");
        // With a larger quota the same command is executed.
        change(&mut machine, ADMIN, set_namespace("team", &[(quota, limit + 1)])).unwrap();
        assert_eq!(full(apply(&mut machine, TEAM, more)), None, "{quota}");
    }
}

#[test]
fn bytes_have_a_quota_and_what_is_there_may_shrink() {
    let mut machine = cluster(&[]);
    apply(&mut machine, TEAM, create("/team/a", 1_000)).unwrap();
    let used = machine.namespace_used(&namespace("team"), QuotaKind::Bytes).unwrap();
    assert!(used > 1_000, "{used}");
    // Below the present use: only growth is rejected.
    change(&mut machine, ADMIN, set_namespace("team", &[(QuotaKind::Bytes, 500)])).unwrap();
    let set = |bytes: usize| {
        let op =
            Op::SetData { path: path("/team/a"), data: vec![b'y'; bytes].into(), version: None };
        Command::Multi(Multi { then: vec![op], ..Multi::default() })
    };
    assert_eq!(full(apply(&mut machine, TEAM, set(900))), None);
    let rejected = full(apply(&mut machine, TEAM, set(901)));
    assert_eq!(rejected.map(|(quota, limit, _)| (quota, limit)), Some((QuotaKind::Bytes, 500)));
    // Names of other namespaces are not concerned.
    assert_eq!(full(apply(&mut machine, OTHER, create("/free", 5_000))), None);
}

#[test]
fn names_count_for_their_namespace_and_sessions_for_that_of_their_subject() {
    let mut machine = cluster(&[(QuotaKind::Locks, 1), (QuotaKind::Sessions, 1)]);
    apply(&mut machine, OTHER, acquire("team/a", "s1")).unwrap();
    let used = |machine: &Machine, quota| machine.namespace_used(&namespace("team"), quota);
    assert_eq!(used(&machine, QuotaKind::Locks), Some(1));
    assert_eq!(used(&machine, QuotaKind::Sessions), Some(0));
    let rejected = full(apply(&mut machine, TEAM, acquire("team/b", "s2")));
    assert_eq!(rejected, Some((QuotaKind::Locks, 1, 1)));
    assert_eq!(used(&machine, QuotaKind::Sessions), Some(0), "the session was not opened");
    apply(&mut machine, OTHER, release("team/a", "s1")).unwrap();
    assert_eq!(full(apply(&mut machine, TEAM, acquire("team/b", "s2"))), None);
}

#[test]
fn a_namespace_counts_what_is_there_and_is_deleted_when_it_is_empty() {
    let mut machine = cluster(&[]);
    apply(&mut machine, TEAM, acquire("team/a", "s1")).unwrap();
    apply(&mut machine, TEAM, counter("team/hits")).unwrap();
    let deletion = || AuthChange::DeleteNamespace { namespace: namespace("team") };
    let rejected = change(&mut machine, ADMIN, deletion());
    let Err(Rejection::Auth(AuthRejection::NamespaceInUse { used, .. })) = rejected else {
        panic!("{rejected:?}");
    };
    let NamespaceItems { subjects, sessions, znodes, recipes } = *used;
    assert_eq!((subjects, sessions, znodes, recipes), (1, 1, 3, 1));
    let mut machine = Machine::new();
    change(&mut machine, Actor::Anonymous, bootstrap(AuthMode::Off)).unwrap();
    apply(&mut machine, Actor::Anonymous, create("/late/a", 7)).unwrap();
    apply(&mut machine, Actor::Subject(subject("late/ci")), acquire("late/l", "s1")).unwrap();
    change(&mut machine, ADMIN, set_namespace("late", &[])).unwrap();
    let used = |quota| machine.namespace_used(&namespace("late"), quota).unwrap();
    assert_eq!(used(QuotaKind::Znodes), 5);
    assert_eq!((used(QuotaKind::Locks), used(QuotaKind::QueueEntries)), (1, 1));
    assert_eq!(used(QuotaKind::Sessions), 1);
    change(&mut machine, ADMIN, set_namespace("empty", &[])).unwrap();
    let deletion = AuthChange::DeleteNamespace { namespace: namespace("empty") };
    change(&mut machine, ADMIN, deletion.clone()).unwrap();
    let again = change(&mut machine, ADMIN, deletion);
    assert!(matches!(again, Err(Rejection::Auth(AuthRejection::NoNamespace { .. }))), "{again:?}");
}

#[test]
fn the_last_administrator_stays_outside_of_namespaces() {
    let mut machine = cluster(&[]);
    let confined = change(&mut machine, ADMIN, set_namespace("root", &[]));
    assert_eq!(confined, Err(AuthRejection::LastAdministrator.into()));
    let AuthChange::AddAdministrator { token, mode, .. } = bootstrap(AuthMode::On) else {
        panic!("not an administrator");
    };
    let inside = AuthChange::AddAdministrator { subject: subject("team/root"), token, mode };
    assert!(is_outside(apply(&mut machine, Actor::Node, Command::Auth(inside))));
    // An administrator of a namespace administers only its names.
    change(&mut machine, ADMIN, set_subject("team/ci", &["admin"], &[])).unwrap();
    assert!(is_outside(change(&mut machine, TEAM, set_namespace("team", &[]))));
    assert!(!is_outside(apply(&mut machine, TEAM, acquire("team/a", "s1"))));
}

proptest! {
    #![proptest_config(config())]

    /// After every command of every history, the counts equal those of the items; also of a namespace that is
    /// registered in the middle. No command exceeds the quotas of its subject.
    #[test]
    fn the_counts_follow_every_history(history in history(60), registered_at in 0..60_usize) {
        let Ok(trial) = Trial::run(&history) else { return Ok(()) };
        let mut machine = Machine::new();
        change(&mut machine, Actor::Anonymous, bootstrap(AuthMode::Off)).unwrap();
        for (number, (stamp, command)) in trial.commands.iter().enumerate() {
            if number == registered_at {
                for name in NAMESPACES {
                    change(&mut machine, ADMIN, set_namespace(name, &[])).unwrap();
                }
                change(&mut machine, ADMIN, set_quotas(None, &QUOTAS)).unwrap();
            }
            let used = |machine: &Machine| {
                QUOTAS.map(|(quota, _)| machine.subject_used(&subject("a/x"), quota).unwrap())
            };
            let before = used(&machine);
            let command = command.clone().by(Actor::Subject(subject("a/x")));
            machine.apply(Entry { stamped_at: Stamp(*stamp), commands: vec![command] });
            prop_assert_eq!(machine.check_invariants(), Ok(()));
            for ((now, before), (quota, limit)) in used(&machine).into_iter().zip(before).zip(QUOTAS) {
                let is_within = number < registered_at || now <= limit.max(before);
                prop_assert!(is_within, "{quota}: {now} after {before}");
            }
        }
    }
}
