//! Snapshots: intact ones load to the same state, and corrupt ones are rejected.

use std::sync::Arc;

use holdfast_types::*;
use proptest::prelude::*;

use super::script_commands::{
    self, lock_name, multi, numbered, of_session, open, path, session_name,
};
use super::{audit, auth, recipe};
use crate::auth::part::AuthPart;
use crate::lock::lock_entry::Hold;
use crate::session::attempts::EndedAttempt;
use crate::session::store::Session;
use crate::snapshot::part::{ClusterMemberPart, Head, NodePart, Part};
use crate::tree::znode::{LockDirectory, ZnodeKind};
use crate::{DIGEST_SCHEMA, LoadError, Machine, SnapshotPart};

/// A machine with state in every part of a snapshot.
pub(super) fn machine() -> Machine {
    let mut machine = Machine::new();
    let acquire = |lock, name| {
        let (lock, owner) = (lock_name(lock), Owner::unnamed());
        Command::Acquire(Acquire::new(lock, open(name), owner))
    };
    let commands = vec![
        acquire("a", "s1"),
        acquire("a", "s2"),
        acquire("b/c", "s2"),
        multi(
            of_session("s1"),
            vec![
                script_commands::create("/e", CreateKind::Ephemeral, false, vec![1, 2, 3]),
                Op::SetAcl { path: path("/e"), acl: vec![readable()], version: None },
            ],
        )
        .once(Some(numbered("s1", 1))),
        Command::OpenSession { open: open("s3"), attempt: None },
        Command::OpenSession { open: open("s4"), attempt: None },
        Command::OpenSession {
            open: OpenSession { password: Some(Password([5; 16])), ..open("s5") },
            attempt: None,
        },
        Command::CloseSession { session: session_name("s3"), attachment: None, incarnation: None },
        Command::ExpireSession { session: SessionId(4), generation: 1 },
        Command::Bootstrap {
            cluster_id: ClusterId(9),
            level: FeatureLevel::FIRST,
            members: super::members::first_members(2),
        },
        Command::RegisterNode { node: NodeId(1), incarnation: Incarnation(7) },
        Command::Membership(MembershipChange::Remove {
            node: NodeId(2),
            reason: Reason::new("moved").unwrap(),
        }),
        Command::Membership(MembershipChange::Finish { node: NodeId(2) }),
        Command::Membership(super::members::invite(3, VotingRole::Voter, Some(1))),
        acquire("d", "s1"),
        multi(
            Caller::default(),
            vec![
                Op::Delete { path: path("/locks/d"), version: None, recursive: true },
                script_commands::create("/t", CreateKind::Ttl { ms: 500 }, false, Vec::new()),
                script_commands::create(
                    "/zookeeper/quota/t",
                    CreateKind::Persistent,
                    false,
                    Vec::new(),
                ),
                script_commands::create(
                    "/zookeeper/quota/t/zookeeper_limits",
                    CreateKind::Persistent,
                    false,
                    b"count=2,bytes=-1=;countHardLimit=3".to_vec(),
                ),
            ],
        ),
    ];
    let commands = commands.into_iter().chain(recipe::of_every_kind());
    let commands = commands.chain(auth::of_every_kind()).chain(audit::of_every_kind()).collect();
    drop(machine.apply(Entry { stamped_at: Stamp(1000), commands }));
    machine.check_invariants().unwrap();
    machine
}

/// Read permission for everyone.
fn readable() -> AclEntry {
    AclEntry { perms: Perms::READ, who: Identity::anyone() }
}

fn record(base: u64, floor: u64, last_token: Option<u64>) -> LockDirectory {
    let last_token = last_token.map(FencingToken);
    LockDirectory { base, floor, last_token, stored_policy: None, cooldowns: None }
}

fn parts() -> Vec<SnapshotPart> {
    machine().dump().collect()
}

fn load_error(parts: Vec<SnapshotPart>) -> LoadError {
    Machine::load(parts).err().unwrap_or_else(|| panic!("a corrupt snapshot was loaded"))
}

/// The parts of a snapshot, each altered by `alter`.
fn altered(alter: impl Fn(&mut Part)) -> Vec<SnapshotPart> {
    let mut parts = parts();
    parts.iter_mut().for_each(|part| alter(&mut part.0));
    parts
}

/// Both digests of a fixed state. A change of how either is computed needs a new [`DIGEST_SCHEMA`].
#[test]
fn the_digests_of_a_schema_are_fixed() {
    let machine = machine();
    assert_eq!(
        (DIGEST_SCHEMA, machine.digest(), machine.state_digest()),
        (1, 14_524_874_613_863_986_426, 10_300_774_790_202_123_729)
    );
}

#[test]
fn a_snapshot_has_each_kind_of_part_once() {
    let names: Vec<_> = parts()
        .iter()
        .map(|SnapshotPart(part)| match part {
            Part::Head(_) => "head",
            Part::Sessions(_) => "sessions",
            Part::Tombstones(_) => "tombstones",
            Part::Members(_) => "members",
            Part::Nodes(_) => "nodes",
            Part::Recipes(_) => "recipes",
            Part::Auth(_) => "auth",
            Part::Audit(_) => "audit",
            Part::AuditEvicted(_) => "evicted audit records",
            Part::LastBackup(_) => "last backup",
            Part::Seal(..) => "seal",
            Part::Clocks(_) => "clocks",
            Part::Leases(_) => "leases",
            Part::End(_) => "end",
        })
        .collect();
    let tombstones = ["tombstones", "tombstones"];
    let (first, last) =
        (["head", "sessions"], ["members", "nodes", "recipes", "auth", "audit", "end"]);
    assert_eq!(names, [&first[..], &tombstones, &last].concat());
}

#[test]
fn a_snapshot_with_a_missing_part_is_rejected() {
    for missing in 0..parts().len() {
        let mut parts = parts();
        parts.remove(missing);
        let error = load_error(parts);
        match missing {
            0 => assert_eq!(error, LoadError::NoHead),
            _ => assert!(matches!(error, LoadError::CutShort | LoadError::Unsound { .. })),
        }
    }
}

#[test]
fn repeated_or_reordered_parts_are_rejected() {
    for (from, to) in
        (0..parts().len()).flat_map(|from| (0..parts().len()).map(move |to| (from, to)))
    {
        let mut twice = parts();
        let part = twice[from].clone();
        twice.insert(to, part);
        load_error(twice);
        let mut moved = parts();
        let part = moved.remove(from);
        moved.insert(to, part);
        // The two kinds of tombstones may come in either order.
        if from != to && (from, to) != (2, 3) && (from, to) != (3, 2) {
            load_error(moved);
        }
    }
}

#[test]
fn counters_out_of_bounds_are_rejected() {
    for alter in [
        (|head| head.revision = Revision(u64::MAX)) as fn(&mut Head),
        |head| head.revision = Revision(0),
        |head| head.grants = u64::MAX,
        |head| head.grants = FencingToken::END,
        |head| head.grants = 1,
        |head| head.sessions_minted = u64::MAX,
        |head| head.sessions_minted = 1,
        |head| head.tombstones_minted = u64::MAX,
        |head| head.tombstones_minted = 1,
    ] {
        load_error(altered(|part| {
            if let Part::Head(head) = part {
                alter(head);
            }
        }));
    }
}

#[test]
fn corrupt_sessions_are_rejected() {
    for alter in [
        (|s| s[0].id = SessionId(0)) as fn(&mut Vec<Session>),
        |s| s[0].id = SessionId(99),
        |s| s[0].id = s[1].id,
        |s| s[0].name = s[1].name.clone(),
        |s| s[0].name = session_name("s4"),
        |s| s[0].generation = u64::MAX,
        |s| {
            let again = s[0].memo.answers[0].clone();
            s[0].memo.answers.push_back(again);
        },
        |s| {
            let (lock, owner) = (lock_name("a"), Owner::unnamed());
            let left =
                EndedAttempt { lock, owner, released: true, has_shards: false, over: Attempt(1) };
            s[0].ended_attempts.records = vec![left; 257].into();
        },
        |s| drop(s.remove(0)),
        |s| s[2].password = None,
        |s| s[2].attachment = None,
        |s| s[2].attachment = Some(Revision(99)),
        |s| s[2].attachment = Some(Revision(0)),
    ] {
        load_error(altered(|part| {
            if let Part::Sessions(shared) = part {
                let mut sessions = shared.iter().map(|session| (**session).clone()).collect();
                alter(&mut sessions);
                *shared = sessions.into_iter().map(Arc::new).collect();
            }
        }));
    }
}

#[test]
fn corrupt_znodes_are_rejected() {
    let node = |nodes: &[NodePart], at: &str| {
        nodes.iter().position(|node| node.path.as_str() == at).unwrap()
    };
    let corruptions: [fn(&mut NodePart); 18] = [
        |n| n.path = path("/nowhere/x"),
        |n| n.path = path("/locks"),
        |n| n.kind = ZnodeKind::Persistent,
        |n| n.kind = ZnodeKind::Ephemeral(SessionId(9)),
        |n| n.czxid = Revision(99),
        |n| n.czxid = Revision(0),
        |n| n.mzxid = Revision(99),
        |n| n.pzxid = Revision(99),
        |n| n.created = u64::MAX,
        |n| n.lock_directory = Some(record(0, 0, Some(1))),
        |n| n.entry = None,
        |n| n.entry.as_mut().unwrap().sequence = 7,
        |n| n.entry.as_mut().unwrap().claims.clear(),
        |n| {
            let claims = &mut n.entry.as_mut().unwrap().claims;
            claims.extend(claims.clone());
        },
        |n| n.entry.as_mut().unwrap().claims[0].mode = Mode::Shared,
        |n| n.entry.as_mut().unwrap().hold = None,
        |n| n.entry.as_mut().unwrap().hold.as_mut().unwrap().token = FencingToken(9),
        |n| n.entry.as_mut().unwrap().hold.as_mut().unwrap().granted_in = Revision(99),
    ];
    for (number, corrupt) in corruptions.iter().enumerate() {
        let parts = altered(|part| {
            if let Part::Nodes(nodes) = part {
                let at = node(nodes, "/locks/a/0000000000__WRIT__0000000000__lock__0000000000");
                corrupt(&mut nodes[at]);
            }
        });
        assert!(Machine::load(parts).is_err(), "corruption {number} was loaded");
    }
    for (at, corrupt) in [
        ("/locks/a", (|n| n.lock_directory = None) as fn(&mut NodePart)),
        ("/locks/a", |n| n.lock_directory = Some(record(0, 0, Some(0)))),
        ("/locks/a", |n| n.lock_directory = Some(record(0, 0, None))),
        ("/locks/a", |n| n.lock_directory = Some(record(2, 2, Some(1)))),
        ("/locks/a", |n| n.lock_directory = Some(record(0, u64::MAX, Some(1)))),
        ("/locks", |n| n.lock_directory = Some(record(1, 0, None))),
        ("/locks", |n| n.lock_directory = Some(record(0, 3, Some(1)))),
        ("/zookeeper", |n| n.lock_directory = Some(record(0, 3, None))),
        ("/e", |n| n.lock_directory = Some(record(0, 3, None))),
        ("/e", |n| n.acl = vec![AclEntry::open()]),
        ("/e", |n| n.acl[0].who.scheme = "nobody".to_owned()),
        ("/e", |n| n.acl = vec![n.acl[0].clone(); 65]),
        ("/locks/a", |n| n.kind = ZnodeKind::Ephemeral(SessionId(1))),
        ("/e", |n| n.lock_directory = Some(record(0, 0, Some(1)))),
        ("/locks", |n| n.kind = ZnodeKind::Container(Stamp(0))),
    ] {
        let parts = altered(|part| {
            if let Part::Nodes(nodes) = part {
                let at = node(nodes, at);
                corrupt(&mut nodes[at]);
            }
        });
        assert!(Machine::load(parts).is_err(), "a corrupt {at} was loaded");
    }
}

/// Parts are bounded by items and by bytes, and a machine of many parts loads to the same state.
#[test]
fn parts_are_bounded() {
    let mut machine = machine();
    let create = |number: usize, data: Vec<u8>| {
        let at = format!("/n{number}");
        let op = script_commands::create(&at, CreateKind::Persistent, false, data);
        multi(Caller::default(), vec![op])
    };
    let small = (0..5_000).map(|n| create(n, vec![]));
    let large = (5_000..5_020).map(|n| create(n, vec![7; 200_000]));
    let commands = small.chain(large).collect();
    drop(machine.apply(Entry { stamped_at: Stamp(0), commands }));
    let parts: Vec<_> = machine.dump().collect();
    for SnapshotPart(part) in &parts {
        if let Part::Nodes(nodes) = part {
            let bytes: usize = nodes.iter().map(|node| node.data.len()).sum();
            assert!(nodes.len() <= 1024 && bytes <= 256 * 1024 + 200_000);
        }
    }
    assert!(parts.len() > 15);
    assert_eq!(Machine::load(parts).unwrap().state_digest(), machine.state_digest());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Corrupting any items of a snapshot gives a sound machine or an error.
    #[test]
    fn a_corrupt_snapshot_never_loads_an_unsound_machine(
        edits in prop::collection::vec((any::<usize>(), any::<usize>(), 0..14_usize, 0..12_u64), 1..4),
    ) {
        let mut parts = parts();
        for (part, item, what, number) in edits {
            let part = part % parts.len();
            corrupt(&mut parts[part].0, item, what, number);
        }
        if let Ok(mut machine) = Machine::load(parts) {
            prop_assert_eq!(machine.check_invariants(), Ok(()));
            for name in ["s1", "s2"] {
                let commands = vec![Command::CloseSession {
                    session: session_name(name),
                    attachment: None, incarnation: None
                }];
                drop(machine.apply(Entry { stamped_at: Stamp(0), commands }));
                prop_assert_eq!(machine.check_invariants(), Ok(()));
            }
        }
    }
}

fn corrupt_auth(item: &mut AuthPart, number: u64) {
    match item {
        AuthPart::Head { changed_in, .. } => *changed_in = Revision(number),
        AuthPart::Role(role, _) => *role = RoleName::new(format!("r{number}")).unwrap(),
        AuthPart::Subject(subject, _) => {
            *subject = SubjectName::new(format!("s{number}")).unwrap();
        }
        AuthPart::Token(_, token) => {
            Arc::make_mut(token).subject = SubjectName::new(format!("s{number}")).unwrap();
        }
        AuthPart::Denied(_, denial) => Arc::make_mut(denial).at = Stamp(number),
        AuthPart::Namespace(namespace, _) => {
            *namespace = NamespaceName::new(format!("n{number}")).unwrap();
        }
    }
}

fn hold(number: u64) -> Hold {
    Hold {
        token: FencingToken(number),
        first_token: FencingToken(number),
        granted_at: Stamp(0),
        granted_in: Revision(number),
        mode: Mode::Exclusive,
        since: Stamp(0),
        slots: Vec::new().into(),
        release_request: None,
    }
}

fn corrupt(part: &mut Part, item: usize, what: usize, number: u64) {
    match part {
        Part::Head(head) => match what % 4 {
            0 => head.revision = Revision(number),
            1 => head.grants = number,
            2 => head.sessions_minted = number,
            _ => head.limits.sessions_max = 0,
        },
        Part::Sessions(sessions) => {
            let session = Arc::make_mut(&mut sessions[item % 2]);
            match what % 3 {
                0 => session.id = SessionId(number),
                1 => session.name = session_name(["s1", "s3", "x"][number as usize % 3]),
                _ => session.anonymous = true,
            }
        }
        Part::Tombstones(tombstones) => tombstones[0].1 = number,
        Part::LastBackup(backup) => backup.bytes = number,
        Part::Seal(seal, _) => seal.since = Stamp(number),
        Part::Clocks(clocks) => clocks.at = Stamp(number),
        Part::Leases(leases) => leases[0].1.used_ms = number as u32,
        Part::Members(members) => {
            let (ClusterMemberPart::Current(node, _) | ClusterMemberPart::Retired(node, _)) =
                &mut members[0];
            *node = NodeId(number);
        }
        Part::Auth(items) => {
            let count = items.len();
            corrupt_auth(&mut items[item % count], number);
        }
        Part::Nodes(nodes) => {
            let count = nodes.len();
            let node = &mut nodes[item % count];
            let other = ["/locks/a", "/locks/a/x", "/locks/b", "/e/x", "/locks/x"];
            match (what, &mut node.entry) {
                (0, _) => node.kind = ZnodeKind::Ephemeral(SessionId(number)),
                (1, _) => node.kind = ZnodeKind::Container(Stamp(number)),
                (2, _) => node.path = path(other[number as usize % 5]),
                (3, _) => node.czxid = Revision(number),
                (4, _) => node.created = number,
                (5, _) => node.lock_directory = Some(record(number / 3, number / 2, Some(number))),
                (6, _) => node.lock_directory = None,
                (7, entry) => *entry = None,
                (8, Some(entry)) => entry.sequence = number,
                (9, Some(entry)) => entry.hold = None,
                (10, Some(entry)) => entry.hold = Some(Box::new(hold(number))),
                (11, Some(entry)) => entry.requested_in = Revision(number),
                (_, _) => drop(nodes.remove(item % count)),
            }
        }
        Part::Recipes(recipes) => recipe::corrupt(recipes, item, what, number),
        Part::Audit(records) => {
            let count = records.len();
            let record = &mut records[item % count];
            match what % 3 {
                0 => record.number = number,
                1 => record.revision = Revision(number),
                _ => record.details = vec![AuditItem::SessionCount(number)],
            }
        }
        Part::AuditEvicted(evicted) => evicted[0].1.count = number,
        Part::End(end) => end.znodes = number,
    }
}

/// A lock can have such a name. As a persistent znode, the directory would be foreign to the lock above it, on the nodes that
/// load a snapshot alone.
#[test]
fn a_directory_with_the_name_of_a_queue_entry_stays_a_container() {
    let mut machine = Machine::new();
    let acquire =
        |lock, name| Command::Acquire(Acquire::new(lock_name(lock), open(name), Owner::unnamed()));
    let at = "/locks/job/lock-0000000007/x__lock__";
    let entry = script_commands::create(at, CreateKind::Ephemeral, true, Vec::new());
    let commands = vec![
        acquire("job/lock-0000000007", "http"),
        Command::OpenSession { open: open("kazoo"), attempt: None },
        multi(of_session("kazoo"), vec![entry]),
    ];
    let applied = machine.apply(Entry { stamped_at: Stamp(1), commands });
    assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
    machine.check_invariants().unwrap();
}
