//! The bounds of one command, each at its maximum and one beyond.

use holdfast_types::TreeRejection;
use holdfast_types::*;

use super::script_commands::{
    create, lock_name, multi, numbered, of_session, open, path, session_name,
};
use crate::Machine;
use crate::context::DIRECTORIES_MAX;
use crate::session::memo::{Memo, weight};
use crate::stored_bytes::{COMMAND_BYTES_MAX, stored_by};

fn apply(machine: &mut Machine, command: Command) -> Outcome {
    machine.apply(Entry { stamped_at: Stamp(0), commands: vec![command] }).outcomes.remove(0)
}

fn plain(at: &str) -> Op {
    create(at, CreateKind::Persistent, false, Vec::new())
}

fn anonymous(then: Vec<Op>) -> Command {
    multi(Caller::default(), then)
}

fn limit(bound: Bound, limit: usize) -> Rejection {
    Rejection::LimitReached { bound, limit: limit as u64 }
}

fn first(why: Rejection) -> Outcome {
    Err(Rejection::Tree(TreeRejection::OfOperation { at: 0, why: Box::new(why) }))
}

#[test]
fn a_multi_has_at_most_sixty_thousand_operations_and_conditions() {
    let mut machine = Machine::new();
    let check = || Op::Check { path: ZnodePath::root(), version: None };
    let root = || Condition::Exists { path: ZnodePath::root(), exists: true };
    let of = |conditions: usize, then: usize, otherwise: usize| {
        let conditions = (0..conditions).map(|_| root()).collect();
        let ops = |count| (0..count).map(|_| check()).collect();
        let (then, otherwise) = (ops(then), ops(otherwise));
        Command::Multi(Multi { conditions, then, otherwise, ..Multi::default() })
    };
    assert!(apply(&mut machine, of(300, Multi::OPS_MAX - 400, 100)).is_ok());
    let rejected = Err(limit(Bound::OpsOfMulti, Multi::OPS_MAX));
    assert_eq!(apply(&mut machine, of(301, Multi::OPS_MAX - 400, 100)), rejected);
    assert_eq!(apply(&mut machine, of(0, 0, Multi::OPS_MAX + 1)), rejected);
}

/// A walk over millions of znodes must not hold the lock of the machine.
#[test]
fn descendants_are_counted_in_a_frozen_view() {
    let mut machine = Machine::new();
    let below = |machine: &Machine| machine.descendants(&ZnodePath::root(), &[]).unwrap();
    let (frozen, before) = (below(&machine), below(&machine).count());
    apply(&mut machine, anonymous(vec![plain("/a"), plain("/a/b")])).unwrap();
    assert_eq!((frozen.count(), below(&machine).count()), (before, before + 2));
}

/// A multi that adds too many bytes is undone, also in an empty cluster.
#[test]
fn a_multi_adds_at_most_sixteen_mebibytes() {
    let mut machine = Machine::new();
    let mebibyte = |n: usize| {
        create(&format!("/{n}"), CreateKind::Persistent, false, vec![0; (1 << 20) - 1_024])
    };
    let before = machine.counts().znodes;
    let rejected = apply(&mut machine, anonymous((0..17).map(mebibyte).collect()));
    let why =
        Box::new(Rejection::LimitReached { bound: Bound::BytesOfMulti, limit: Multi::BYTES_MAX });
    assert_eq!(rejected, Err(Rejection::Tree(TreeRejection::OfOperation { at: 16, why })));
    assert_eq!((machine.counts().znodes, machine.stat(&path("/0"))), (before, None));
    assert!(apply(&mut machine, anonymous((0..16).map(mebibyte).collect())).is_ok());
    machine.check_invariants().unwrap();
}

/// A path of 500 components has 499 missing directories.
#[test]
fn a_multi_creates_at_most_a_thousand_missing_directories() {
    let mut machine = Machine::new();
    let deep = |top: &str| {
        let path = format!("/{top}{}", "/x".repeat(499));
        let (directory, name) = ZnodePath::for_create(&path, false).unwrap();
        let (kind, data, acl) = (CreateKind::Persistent, Vec::new(), None);
        Op::Create(Create {
            directory,
            name,
            data: data.into(),
            kind,
            sequential: false,
            acl,
            parents: true,
        })
    };
    assert!(apply(&mut machine, anonymous(vec![deep("a"), deep("b")])).is_ok());
    let rejected = apply(&mut machine, anonymous(vec![deep("c"), deep("d"), deep("e")]));
    let why = Box::new(limit(Bound::MissingDirectories, DIRECTORIES_MAX));
    assert_eq!(rejected, Err(Rejection::Tree(TreeRejection::OfOperation { at: 2, why })));
    assert_eq!(machine.stat(&path("/c")), None);
    machine.check_invariants().unwrap();
}

/// The bound of 10,000 znodes applies to a command, in one subtree or several.
#[test]
fn a_recursive_delete_removes_at_most_ten_thousand_znodes() {
    let mut machine = Machine::new();
    let fill = |machine: &mut Machine, top: &str, count: usize| {
        let all: Vec<_> = (0..count).map(|n| plain(&format!("{top}/{n}"))).collect();
        for some in all.chunks(1000) {
            apply(machine, anonymous(some.to_vec())).unwrap();
        }
    };
    let delete = |top: &str| Op::Delete { path: path(top), version: None, recursive: true };
    for (top, count) in [("/a", 9_999), ("/b", 10_000), ("/c", 5_000), ("/d", 5_000)] {
        apply(&mut machine, anonymous(vec![plain(top)])).unwrap();
        fill(&mut machine, top, count);
    }
    let why = limit(Bound::DeletedAtOnce, 10_000);
    assert_eq!(apply(&mut machine, anonymous(vec![delete("/b")])), first(why.clone()));
    let both = apply(&mut machine, anonymous(vec![delete("/c"), delete("/d")]));
    assert_eq!(
        both,
        Err(Rejection::Tree(TreeRejection::OfOperation { at: 1, why: Box::new(why) }))
    );
    let results = vec![OpReply::Deleted { count: 10_000 }];
    let done = Ok(Reply::Multi(MultiReply { succeeded: true, results }));
    assert_eq!(apply(&mut machine, anonymous(vec![delete("/a")])), done);
    assert_eq!(machine.counts().znodes, 5 + 10_001 + 2 * 5_001);
    machine.check_invariants().unwrap();
}

#[test]
fn an_access_list_has_at_most_sixty_four_entries() {
    let mut machine = Machine::new();
    let entry = |n: usize| {
        let who = Identity { scheme: "digest".to_owned(), id: format!("u{n}:h") };
        AclEntry { perms: Perms::READ, who }
    };
    let acl = |count| (0..count).map(entry).collect();
    let set = |count| Op::SetAcl { path: path("/a"), acl: acl(count), version: None };
    apply(&mut machine, anonymous(vec![plain("/a")])).unwrap();
    let why = limit(Bound::AclEntries, AclEntry::MAX_COUNT);
    assert_eq!(apply(&mut machine, anonymous(vec![set(65)])), first(why.clone()));
    // The identities that `auth` stands for count.
    let caller =
        Caller { identities: (0..65).map(|n| entry(n).who).collect(), ..Caller::default() };
    let who = Identity { scheme: "auth".to_owned(), id: String::new() };
    let acl = vec![AclEntry { perms: Perms::ALL, who }];
    let set_auth = Op::SetAcl { path: path("/a"), acl, version: None };
    assert_eq!(apply(&mut machine, multi(caller, vec![set_auth])), first(why));
    apply(&mut machine, anonymous(vec![set(64)])).unwrap();
    machine.check_invariants().unwrap();
}

/// A znode shares the access list of its directory if both are equal.
#[test]
fn an_access_list_is_shared_with_the_directory() {
    let mut machine = Machine::new();
    let who = Identity { scheme: "digest".to_owned(), id: "u:h".to_owned() };
    let private = |at: &str| match plain(at) {
        Op::Create(create) => {
            let acl = Some(vec![AclEntry { perms: Perms::ALL, who: who.clone() }]);
            Op::Create(Create { acl, ..create })
        }
        other => other,
    };
    let caller = Caller { identities: vec![who.clone()], ..Caller::default() };
    let ops = vec![private("/a"), private("/a/b"), private("/a/b/c")];
    apply(&mut machine, multi(caller, ops)).unwrap();
    let list = |at: &str| machine.tree.get(&path(at)).unwrap().acl.clone().unwrap();
    assert!(std::sync::Arc::ptr_eq(&list("/a"), &list("/a/b/c")));
}

/// The count for a new quota is bounded. The production bound of a million znodes is too large for this test.
#[test]
fn a_new_quota_counts_a_bounded_subtree() {
    let mut machine = Machine::new();
    let ops = ["/a", "/a/b", "/a/c", "/a/c/d"].map(plain).to_vec();
    apply(&mut machine, anonymous(ops)).unwrap();
    assert_eq!(machine.tree.measure(&path("/a"), 3), None);
    assert_eq!(machine.tree.measure(&path("/a"), 4).map(|(used, _)| used.count), Some(4));
    assert_eq!(machine.tree.measure(&path("/nowhere"), 0).map(|(used, _)| used.count), Some(0));
    assert_eq!(machine.tree.measure(&path("/zookeeper"), 0).map(|(used, _)| used.count), Some(0));
    // Znodes below `/zookeeper` are visited, but do not count.
    let root = |max| machine.tree.measure(&ZnodePath::root(), max);
    assert_eq!(root(9).map(|(used, visited)| (used.count, visited)), Some((6, 9)));
    assert_eq!(root(8), None);
}

/// The memo of a session is bounded by bytes as well, except for its last reply.
#[test]
fn the_memo_of_a_session_is_bounded_by_bytes() {
    let mut machine = Machine::new();
    apply(&mut machine, Command::OpenSession { open: open("s1"), attempt: None }).unwrap();
    let long = "x".repeat(200);
    let change = |n: usize| {
        let ops = (0..500).map(|i| plain(&format!("/{n}-{i}-{long}"))).collect();
        multi(of_session("s1"), ops).once(Some(numbered("s1", n as u64 + 1)))
    };
    let firsts: Vec<Outcome> = (0..5).map(|n| apply(&mut machine, change(n))).collect();
    assert!(firsts.iter().all(Result::is_ok) && weight(&firsts[0]) * 2 > Memo::BYTES_MAX);
    machine.check_invariants().unwrap();
    // Only the last reply is still in the memo.
    let (last, _) = apply(&mut machine, change(4)).unwrap().into_first();
    assert_eq!(Ok(last), firsts[4]);
    // A forgotten call is not executed again.
    let newest = RequestNumber(5);
    let over = Err(Rejection::Session(SessionRejection::RequestOver { newest }));
    assert_eq!(apply(&mut machine, change(3)), over);
    let loaded = Machine::load(machine.dump()).unwrap();
    assert_eq!(loaded.state_digest(), machine.state_digest());
}

/// An operation that no front-end sends is rejected like any other: `apply` is total.
#[test]
fn invalid_names_are_rejected() {
    let mut machine = Machine::new();
    for (name, sequential) in
        [("", false), ("a/b", false), (".", false), ("..", false), ("a\0", false), ("/", true)]
    {
        let (directory, data, acl) = (ZnodePath::root(), Vec::new(), None);
        let (kind, parents, name) = (CreateKind::Persistent, false, name.to_owned());
        let create = Create { directory, name, data: data.into(), kind, sequential, acl, parents };
        let outcome = apply(&mut machine, anonymous(vec![Op::Create(create)]));
        assert!(
            matches!(outcome, Err(Rejection::Tree(TreeRejection::OfOperation { .. }))),
            "{outcome:?}"
        );
    }
}

/// The stored bytes of a command are estimated before it runs. An estimate too low would let it exceed the bound.
#[test]
fn no_command_stores_more_than_its_estimate() {
    let mut machine = Machine::new();
    let long = |n: usize| format!("{n:04}{}", "/x".repeat(LockName::MAX_LEN / 2 - 4));
    let locks: Vec<_> = (0..LockSet::MAX).map(|n| lock_name(&long(n))).collect();
    let label = |n: usize| (format!("{n:064}"), "v".repeat(Labels::MAX_VALUE_LEN));
    let labels = Labels::new((0..Labels::MAX_COUNT).map(label).collect()).unwrap();
    let name = "s".repeat(SessionName::MAX_LEN);
    let owner = Owner::new("o".repeat(Owner::MAX_LEN)).unwrap();
    let open = OpenSession { labels, ..open(&name) };
    let all = Acquire::new(LockSet::new(locks).unwrap(), open, owner);
    let before = machine.stored_bytes();
    assert!(apply(&mut machine, Command::Acquire(all)).is_ok());
    let stored = machine.stored_bytes() - before;
    assert!(stored > 1_000_000 && stored <= COMMAND_BYTES_MAX, "{stored}");

    let who = |n: usize| Identity {
        scheme: "digest".to_owned(),
        id: format!("u{n}:{}", "h".repeat(990)),
    };
    let proved: Vec<_> = (0..64).map(who).collect();
    let auth = Identity { scheme: "auth".to_owned(), id: String::new() };
    let acl = vec![AclEntry { perms: Perms::ALL, who: auth }];
    let deep = format!("/deep{}", "/x".repeat(200));
    let (directory, name) = ZnodePath::for_create(&deep, false).unwrap();
    let ops = vec![Op::Create(Create {
        directory,
        name,
        data: vec![0; 100_000].into(),
        kind: CreateKind::Persistent,
        sequential: false,
        acl: Some(acl),
        parents: true,
    })];
    let estimate = stored_by(&ops, &proved);
    let caller = Caller { identities: proved, ..Caller::default() };
    let before = machine.stored_bytes();
    let done = apply(&mut machine, multi(caller, ops));
    assert!(done.is_ok(), "{done:?}");
    let stored = machine.stored_bytes() - before;
    assert!(stored > 10_000_000 && stored <= estimate, "{stored} of {estimate}");
}

/// An acquire of all permits of a lock that is a semaphore.
fn acquire_all(lock: &str, session: &str) -> Acquire {
    let limit = Some(LockPolicy::LIMIT_MAX);
    let plain = Acquire::new(lock_name(lock), open(session), Owner::unnamed());
    Acquire { permits: limit, limit, wait: true, ..plain }
}

/// A hold has a slot for each of its permits, and a waiter gets them without another call.
#[test]
fn the_slots_of_holders_and_waiters_count_as_stored_bytes() {
    let mut machine = Machine::new();
    for session in ["holder", "waiter"] {
        let before = machine.stored_bytes();
        apply(&mut machine, Command::Acquire(acquire_all("pool", session))).unwrap();
        let slots = u64::from(LockPolicy::LIMIT_MAX) * 4;
        assert!(machine.stored_bytes() - before >= slots - 4, "{session}");
    }
    machine.limits.tree_bytes_max = machine.stored_bytes() + 20_000;
    let rejected = apply(&mut machine, Command::Acquire(acquire_all("other", "holder")));
    assert!(matches!(rejected, Err(Rejection::LimitReached { bound: Bound::TreeBytes, .. })));
}

/// A client of ZooKeeper requests all permits, also after an operator has raised the limit.
#[test]
fn the_permits_of_a_client_of_zookeeper_do_not_count_as_stored_bytes() {
    let mut machine = Machine::new();
    let set_limit = |limit| {
        let change = PolicyChange { limit: Some(Some(limit)), ..PolicyChange::default() };
        Command::SetPolicy { lock: lock_name("pool"), change }
    };
    apply(&mut machine, set_limit(1)).unwrap();
    apply(&mut machine, Command::OpenSession { open: open("zk"), attempt: None }).unwrap();
    for _ in 0..2 {
        let entry = create("/locks/pool/lock-", CreateKind::Ephemeral, true, Vec::new());
        apply(&mut machine, multi(of_session("zk"), vec![entry])).unwrap();
    }
    let before = machine.stored_bytes();
    apply(&mut machine, set_limit(LockPolicy::LIMIT_MAX)).unwrap();
    assert_eq!(machine.stored_bytes(), before);
    machine.check_invariants().unwrap();
}

/// The answer to a hand-over has the slots of the hold.
#[test]
fn the_answers_to_hand_overs_are_bounded_by_bytes() {
    let mut machine = Machine::new();
    apply(&mut machine, Command::Acquire(acquire_all("pool", "s1"))).unwrap();
    let (session, mut from) = (session_name("s1"), Owner::unnamed());
    for n in 0..40 {
        let to = Owner::new(format!("o{n}")).unwrap();
        let token = machine.lock(&lock_name("pool"), 1).holders[0].token;
        let from = std::mem::replace(&mut from, to.clone());
        let (from, to) = ((session.clone(), from), (session.clone(), to));
        let hand_over = HandOver { lock: lock_name("pool"), from, to, token: Some(token) };
        apply(&mut machine, Command::HandOver(hand_over)).unwrap();
    }
    machine.limits.tree_bytes_max = machine.stored_bytes();
    apply(&mut machine, Command::OpenSession { open: open("s2"), attempt: None }).unwrap_err();
    machine.limits.tree_bytes_max += 1_000;
    apply(&mut machine, Command::OpenSession { open: open("s2"), attempt: None }).unwrap();
    let token = Some(machine.lock(&lock_name("pool"), 1).holders[0].token);
    let to = (session_name("s2"), Owner::unnamed());
    let hand_over = HandOver { lock: lock_name("pool"), from: (session, from), to, token };
    let rejected = apply(&mut machine, Command::HandOver(hand_over));
    assert!(matches!(rejected, Err(Rejection::LimitReached { bound: Bound::TreeBytes, .. })));
    let memo = &machine.sessions.get(SessionId(1)).unwrap().memo;
    assert!(memo.answers.len() > 1 && memo.weight() <= Memo::BYTES_MAX, "{}", memo.weight());
    assert!(memo.bytes_named() > 100_000, "{}", memo.bytes_named());
}
