//! Watches: what sets them, which events they send, and when they end.

use WatchEventType::{ChildrenChanged, Created, DataChanged, Deleted};
use holdfast_lab::zk::{ZkClient, children, create, delete, exists, get, set};
use holdfast_zkwire::{AddWatchMode, Request, SetWatches, WatchEventType, WatcherType};

use crate::node::Node;

fn received(events: &[(WatchEventType, String)]) -> Vec<(WatchEventType, &str)> {
    events.iter().map(|(kind, path)| (*kind, path.as_str())).collect()
}

async fn add(client: &mut ZkClient, path: &str, mode: AddWatchMode) {
    client.done(Request::AddWatch { path: path.to_owned(), mode }).await;
}

#[tokio::test]
async fn a_watch_set_by_a_read_fires_once() {
    let node = Node::start().await;
    let (mut client, mut other) = (node.client().await, node.client().await);
    client.error(exists("/a", true)).await;
    other.create("/a", 0).await;
    assert_eq!(client.event().await, (Created, "/a".to_owned()));
    client.done(get("/a", true)).await;
    other.done(set("/a", b"1", -1)).await;
    assert_eq!(client.event().await, (DataChanged, "/a".to_owned()));
    client.done(children("/a", true)).await;
    other.create("/a/b", 0).await;
    assert_eq!(client.event().await, (ChildrenChanged, "/a".to_owned()));
    other.done(set("/a", b"2", -1)).await;
    assert_eq!(client.events().await, []);
}

#[tokio::test]
async fn the_watches_on_one_node_fire_once_for_its_deletion() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/d", 0).await;
    client.done(get("/d", true)).await;
    client.done(exists("/d", true)).await;
    client.done(children("/d", true)).await;
    client.done(delete("/d", -1)).await;
    assert_eq!(received(&client.events().await), [(Deleted, "/d")]);
}

#[tokio::test]
async fn a_failed_read_sets_no_watch_but_exists_does() {
    let (_node, mut client) = Node::with_client().await;
    client.error(get("/n", true)).await;
    client.error(children("/n", true)).await;
    client.create("/n", 0).await;
    assert_eq!(client.events().await, []);
}

#[tokio::test]
async fn a_persistent_watch_fires_for_every_change_of_its_node_and_children() {
    let (_node, mut client) = Node::with_client().await;
    add(&mut client, "/p", AddWatchMode::Persistent).await;
    client.create("/p", 0).await;
    client.done(set("/p", b"1", -1)).await;
    client.create("/p/c", 0).await;
    client.done(set("/p/c", b"1", -1)).await;
    client.done(delete("/p/c", -1)).await;
    client.done(delete("/p", -1)).await;
    let events = client.events().await;
    let expected = [
        (Created, "/p"),
        (DataChanged, "/p"),
        (ChildrenChanged, "/p"),
        (ChildrenChanged, "/p"),
        (Deleted, "/p"),
    ];
    assert_eq!(received(&events), expected);
}

#[tokio::test]
async fn a_recursive_watch_fires_for_nodes_and_never_for_child_lists() {
    let (_node, mut client) = Node::with_client().await;
    add(&mut client, "/r", AddWatchMode::PersistentRecursive).await;
    client.create("/r", 0).await;
    client.create("/r/a", 0).await;
    client.create("/r/a/b", 0).await;
    client.done(set("/r/a/b", b"1", -1)).await;
    client.done(delete("/r/a/b", -1)).await;
    client.create("/rr", 0).await;
    let events = client.events().await;
    let expected = [
        (Created, "/r"),
        (Created, "/r/a"),
        (Created, "/r/a/b"),
        (DataChanged, "/r/a/b"),
        (Deleted, "/r/a/b"),
    ];
    assert_eq!(received(&events), expected);
}

#[tokio::test]
async fn watches_are_checked_and_removed_by_their_kind() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/k", 0).await;
    client.done(get("/k", true)).await;
    let ask = |kind| Request::CheckWatches { path: "/k".to_owned(), kind };
    let remove = |kind| Request::RemoveWatches { path: "/k".to_owned(), kind };
    assert_eq!(client.error(ask(WatcherType::Data)).await, 0);
    assert_eq!(client.error(ask(WatcherType::Children)).await, -121);
    assert_eq!(client.error(remove(WatcherType::Children)).await, -121);
    assert_eq!(client.error(remove(WatcherType::Any)).await, 0);
    assert_eq!(client.error(ask(WatcherType::Any)).await, -121);
    client.done(set("/k", b"1", -1)).await;
    assert_eq!(client.events().await, []);
}

#[tokio::test]
async fn a_reconnected_client_gets_missed_events_before_the_reply_and_keeps_its_other_watches() {
    let (node, mut client) = Node::with_client().await;
    let mut other = node.client().await;
    for path in ["/changed", "/gone", "/parent", "/same"] {
        client.create(path, 0).await;
    }
    let (seen, _) = client.call(get("/same", false)).await;
    other.done(set("/changed", b"1", -1)).await;
    other.done(delete("/gone", -1)).await;
    other.create("/parent/c", 0).await;
    other.create("/born", 0).await;
    let mut client = ZkClient::resume(node.address, &client.resumption()).await;
    let paths = |paths: &[&str]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    let watches = SetWatches {
        relative_zxid: seen.zxid,
        data: paths(&["/changed", "/gone", "/same"]),
        exist: paths(&["/born"]),
        child: paths(&["/parent"]),
        ..SetWatches::default()
    };
    client.done(Request::SetWatches(watches)).await;
    let mut events = client.events().await;
    events.sort_by(|(_, a), (_, b)| a.cmp(b));
    let expected = [
        (Created, "/born"),
        (DataChanged, "/changed"),
        (Deleted, "/gone"),
        (ChildrenChanged, "/parent"),
    ];
    assert_eq!(received(&events), expected);
    other.done(set("/same", b"1", -1)).await;
    assert_eq!(client.event().await, (DataChanged, "/same".to_owned()));
}

#[tokio::test]
async fn the_end_of_a_session_fires_the_watches_on_its_ephemerals() {
    let node = Node::start().await;
    let (mut owner, mut other) = (node.client().await, node.client().await);
    owner.create("/e", 1).await;
    other.done(exists("/e", true)).await;
    other.done(children("/", true)).await;
    owner.done(Request::CloseSession).await;
    let mut events = other.events().await;
    events.sort_by(|(_, a), (_, b)| a.cmp(b));
    assert_eq!(received(&events), [(ChildrenChanged, "/"), (Deleted, "/e")]);
    assert_eq!(node.service.watch_counts().watches, 0);
}

#[tokio::test]
async fn watches_end_with_their_connection() {
    let (node, mut client) = Node::with_client().await;
    client.done(children("/", true)).await;
    add(&mut client, "/x", AddWatchMode::Persistent).await;
    assert_eq!(node.service.watch_counts().paths, 2);
    drop(client);
    node.until("no watch is left", || node.service.watch_counts().watches == 0).await;
    let mut next = node.client().await;
    next.done(create("/x", 0)).await;
    assert_eq!(next.events().await, []);
}
