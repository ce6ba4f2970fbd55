//! ZooKeeper's rules for watches, tested by a client of a real node.

use holdfast_service::{
    NoticeKind, Principal, StreamAnswer, StreamRead, WatchKind, WatchMode, WatchSet,
};
use holdfast_types::{CreateKind, Revision};

use crate::client::*;
use crate::nodes::*;

use NoticeKind::{Changed, ChildrenChanged, Created, Deleted};

fn notice(kind: NoticeKind, at: &str) -> (NoticeKind, String) {
    (kind, at.to_owned())
}

/// Opens a client that watches, and a client that makes changes.
async fn two(nodes: &Nodes) -> (Client, Client) {
    (Client::open(&nodes.services[0]).await, Client::open(&nodes.services[0]).await)
}

/// A notice precedes any reply that shows its change, also for the connection's own write.
#[tokio::test(flavor = "multi_thread")]
async fn a_clients_own_write_fires_its_watch_before_the_reply() {
    let nodes = Nodes::start(1).await;
    let mut client = Client::open(&nodes.services[0]).await;
    assert!(!client.exists("/a", true).await);
    client.ask_write(vec![node("/a")]).await;
    assert_eq!(client.notice().await, notice(Created, "/a"));
    assert!(client.reply().await.result.is_ok());
    assert_eq!(client.data("/a", true).await, Some(Vec::new()));
    client.ask_write(vec![set("/a", b"1")]).await;
    assert_eq!(client.notice().await, notice(Changed, "/a"));
    client.reply().await;
    client.ask_write(vec![set("/a", b"2")]).await;
    client.reply().await;
    client.nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_read_arms_no_watch_and_an_existence_check_does() {
    let nodes = Nodes::start(1).await;
    let (mut watching, mut writing) = two(&nodes).await;
    assert_eq!(watching.data("/a", true).await, None);
    let rejected = watching.read(StreamRead::Children(path("/a")), true).await;
    assert!(rejected.is_err());
    assert_eq!(nodes.services[0].watch_counts().watches, 0);
    assert!(!watching.exists("/a", true).await);
    assert_eq!(nodes.services[0].watch_counts().watches, 1);
    writing.does(node("/a")).await;
    assert_eq!(watching.notice().await, notice(Created, "/a"));
    assert_eq!(nodes.services[0].watch_counts().watches, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_and_child_watches_of_a_deleted_node_give_one_notice() {
    let nodes = Nodes::start(1).await;
    let (mut watching, mut writing) = two(&nodes).await;
    writing.does(node("/a")).await;
    watching.data("/a", true).await;
    watching.children("/a", true).await;
    watching.children("/", true).await;
    writing.does(delete("/a")).await;
    assert_eq!(watching.notice().await, notice(Deleted, "/a"));
    assert_eq!(watching.notice().await, notice(ChildrenChanged, "/"));
    assert!(!watching.exists("/a", false).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn persistent_watches_stay_and_recursive_ones_ignore_lists_of_children() {
    let nodes = Nodes::start(1).await;
    let (mut watching, mut writing) = two(&nodes).await;
    let tag = watching.tag();
    watching.stream.add_watch(tag, path("/p"), WatchMode::Persistent).await;
    watching.reply().await;
    let tag = watching.tag();
    watching.stream.add_watch(tag, path("/r"), WatchMode::PersistentRecursive).await;
    watching.reply().await;
    for at in ["/p", "/p/c", "/r", "/r/c", "/r/c/d"] {
        writing.does(node(at)).await;
    }
    for (kind, at) in [
        (Created, "/p"),
        (ChildrenChanged, "/p"),
        (Created, "/r"),
        (Created, "/r/c"),
        (Created, "/r/c/d"),
    ] {
        assert_eq!(watching.notice().await, notice(kind, at));
    }
    for _ in 0..2 {
        writing.does(set("/r/c/d", b"x")).await;
        assert_eq!(watching.notice().await, notice(Changed, "/r/c/d"));
    }
}

/// The end of a session fires the watches of all its ephemerals, and a multi fires the watches of each change.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_session_and_a_multi_fire_the_watches_of_each_change() {
    let nodes = Nodes::start(1).await;
    let (mut watching, mut dying) = two(&nodes).await;
    watching.children("/", true).await;
    watching.exists("/a", true).await;
    watching.exists("/b", true).await;
    assert!(dying.write(vec![ephemeral("/a"), ephemeral("/b")]).await.is_ok());
    for (kind, at) in [(Created, "/a"), (ChildrenChanged, "/"), (Created, "/b")] {
        assert_eq!(watching.notice().await, notice(kind, at));
    }
    watching.exists("/a", true).await;
    watching.data("/b", true).await;
    let tag = dying.tag();
    dying.stream.close(tag).await;
    assert_eq!(watching.notice().await, notice(Deleted, "/a"));
    assert_eq!(watching.notice().await, notice(Deleted, "/b"));
    assert!(dying.reply().await.result.is_ok());
}

/// The counts include no watch of an ended session.
#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_has_no_counted_watch() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let (mut one, mut other) = two(&nodes).await;
    one.exists("/a", true).await;
    one.children("/", true).await;
    other.exists("/a", true).await;
    let counts = service.watch_counts();
    assert_eq!((counts.streams, counts.paths, counts.watches), (2, 2, 3));
    let mine = vec![path("/"), path("/a")];
    assert_eq!(service.watches_by_session()[&one.attached.id], mine);
    assert_eq!(service.watches_by_path()[&path("/a")].len(), 2);
    let tag = one.tag();
    one.stream.close(tag).await;
    drop(other);
    let counts = service.watch_counts();
    assert_eq!((counts.streams, counts.paths, counts.watches), (0, 0, 0));
    assert_eq!(service.streams_list(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returning_client_receives_missed_notices_and_its_other_watches_are_armed() {
    let nodes = Nodes::start(1).await;
    let (mut away, mut writing) = two(&nodes).await;
    for at in ["/changed", "/deleted", "/same", "/list"] {
        writing.does(node(at)).await;
    }
    away.ask_read(StreamRead::Exists(path("/")), false).await;
    let relative = away.reply().await.revision;
    writing.does(set("/changed", b"x")).await;
    writing.does(delete("/deleted")).await;
    writing.does(node("/born")).await;
    writing.does(node("/list/child")).await;
    let set_of = WatchSet {
        data: vec![path("/changed"), path("/deleted"), path("/same")],
        exist: vec![path("/born"), path("/unborn")],
        child: vec![path("/list"), path("/same"), path("/deleted")],
        persistent: vec![path("/changed")],
        persistent_recursive: vec![path("/list")],
    };
    let tag = away.tag();
    away.stream.set_watches(tag, relative, set_of).await;
    for (kind, at) in [
        (Changed, "/changed"),
        (Deleted, "/deleted"),
        (Created, "/born"),
        (ChildrenChanged, "/list"),
        (Deleted, "/deleted"),
    ] {
        assert_eq!(away.notice().await, notice(kind, at));
    }
    away.reply().await;
    writing.does(set("/same", b"x")).await;
    writing.does(node("/unborn")).await;
    writing.does(set("/changed", b"y")).await;
    writing.does(delete("/list/child")).await;
    for (kind, at) in
        [(Changed, "/same"), (Created, "/unborn"), (Changed, "/changed"), (Deleted, "/list/child")]
    {
        assert_eq!(away.notice().await, notice(kind, at));
    }
    away.nothing();
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_are_checked_and_removed_by_kind() {
    let nodes = Nodes::start(1).await;
    let (mut watching, mut writing) = two(&nodes).await;
    writing.does(node("/a")).await;
    watching.data("/a", true).await;
    watching.children("/a", true).await;
    let mut expect = Vec::new();
    for (kind, removes, there) in [
        (WatchKind::Child, false, true),
        (WatchKind::Child, true, true),
        (WatchKind::Child, true, false),
        (WatchKind::Data, false, true),
        (WatchKind::Any, true, true),
        (WatchKind::Any, false, false),
    ] {
        let tag = watching.tag();
        if removes {
            watching.stream.remove_watches(tag, path("/a"), kind).await;
        } else {
            watching.stream.check_watches(tag, path("/a"), kind).await;
        }
        expect.push((answered(watching.reply().await), Ok(StreamAnswer::Watched(there))));
    }
    for (found, expected) in expect {
        assert_eq!(found, expected);
    }
    writing.does(delete("/a")).await;
    watching.exists("/a", false).await;
}

/// Queue entries are znodes: a ZooKeeper client that watches its predecessor gets a notice of its release.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_entry_of_another_front_end_can_be_watched() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let mut client = Client::open(service).await;
    let held = take(service, acquire("a", Some("me"), 30_000, std::time::Duration::ZERO)).await;
    held.unwrap();
    let names = client.children("/locks/a", true).await;
    assert_eq!(names.len(), 1);
    let entry = format!("/locks/a/{}", names[0]);
    client.data(&entry, true).await;
    release(service, "a", "me").await.unwrap();
    assert_eq!(client.notice().await, notice(Deleted, &entry));
    assert_eq!(client.notice().await, notice(ChildrenChanged, "/locks/a"));
}

/// As in ZooKeeper from 3.9.2 on, also if the client may list the directory.
#[tokio::test(flavor = "multi_thread")]
async fn a_recursive_watch_omits_nodes_that_its_client_may_not_read() {
    use holdfast_types::{AclEntry, Identity, Op, Perms};
    let nodes = Nodes::start(1).await;
    let (mut watching, mut writing) = two(&nodes).await;
    let me = Identity { scheme: "digest".into(), id: "me:hash".into() };
    writing.stream.identify(Principal { identities: vec![me.clone()], ..Principal::anonymous() });
    let tag = watching.tag();
    watching.stream.add_watch(tag, path("/"), WatchMode::PersistentRecursive).await;
    watching.reply().await;
    let mut closed = create("/closed", b"", CreateKind::Persistent);
    let mut inside = create("/closed/inside", b"", CreateKind::Persistent);
    for op in [&mut closed, &mut inside] {
        let Op::Create(create) = op else { panic!() };
        create.acl = Some(vec![AclEntry { perms: Perms::ALL, who: me.clone() }]);
    }
    writing.does(closed).await;
    writing.does(inside).await;
    writing.does(set("/closed/inside", b"x")).await;
    writing.does(node("/open")).await;
    assert_eq!(watching.notice().await, notice(Created, "/open"));
    watching.stream.identify(Principal { identities: vec![me], ..Principal::anonymous() });
    writing.does(set("/closed/inside", b"y")).await;
    assert_eq!(watching.notice().await, notice(Changed, "/closed/inside"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_has_the_revision_of_its_change() {
    let nodes = Nodes::start(1).await;
    let mut client = Client::open(&nodes.services[0]).await;
    client.exists("/a", true).await;
    client.ask_write(vec![node("/a")]).await;
    let holdfast_service::Outgoing::Notice(notice) = client.next().await else { panic!() };
    let reply = client.reply().await;
    assert_eq!(notice.revision, reply.revision);
    assert!(reply.revision > Revision(0));
}
