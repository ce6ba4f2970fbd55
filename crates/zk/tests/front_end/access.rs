//! Access: the identities of a connection, and access lists.

use bytes::Bytes;
use holdfast_lab::zk::{ZkClient, children, create, create_with, delete, exists, get, set};
use holdfast_zkwire::{
    Acl, AddWatchMode, AuthId, Request, Response, SetWatches, WatchEventType, perms,
};

use crate::node::Node;

fn entry(perms: i32, scheme: &str, id: &str) -> Acl {
    Acl { perms, scheme: scheme.to_owned(), id: id.to_owned() }
}

async fn authenticate(client: &mut ZkClient, scheme: &str, credentials: &'static [u8]) -> i32 {
    let auth = Some(Bytes::from_static(credentials));
    client.error(Request::Auth { kind: 0, scheme: scheme.to_owned(), auth }).await
}

async fn acl(client: &mut ZkClient, path: &str) -> Vec<Acl> {
    let said = client.done(Request::GetAcl { path: path.to_owned() }).await;
    let Response::Acl { acl, .. } = said else { panic!("{said:?}") };
    acl
}

#[tokio::test]
async fn a_client_can_read_its_identities() {
    let (_node, mut client) = Node::with_client().await;
    assert_eq!(authenticate(&mut client, "digest", b"user:secret").await, 0);
    let Response::WhoAmI(known) = client.done(Request::WhoAmI).await else { panic!("nobody") };
    let identity = |scheme: &str, id: &str| AuthId { scheme: scheme.to_owned(), id: id.to_owned() };
    assert_eq!(known, [identity("ip", "127.0.0.1"), identity("digest", "user")]);
}

#[tokio::test]
async fn an_unknown_scheme_is_refused_and_ends_the_connection() {
    let node = Node::start().await;
    for scheme in ["sasl", "world", "nonsense"] {
        let mut client = node.client().await;
        assert_eq!(authenticate(&mut client, scheme, b"anyone").await, -115);
        client.closed().await;
    }
}

#[tokio::test]
async fn an_access_list_with_a_password_keeps_other_clients_out() {
    let node = Node::start().await;
    let (mut owner, mut other) = (node.client().await, node.client().await);
    authenticate(&mut owner, "digest", b"user:secret").await;
    let mine = vec![entry(perms::ALL, "auth", "")];
    owner.done(create_with("/mine", 0, b"x", mine.clone())).await;
    owner.done(create_with("/mine/c", 0, b"", mine.clone())).await;
    let hash = acl(&mut owner, "/mine").await;
    assert_eq!(hash[0].scheme, "digest");
    assert!(hash[0].id.starts_with("user:") && hash[0].id.len() > 30);
    for request in [
        exists("/mine", false),
        get("/mine", false),
        set("/mine", b"", -1),
        children("/mine", false),
        create("/mine/d", 0),
        delete("/mine/c", -1),
        Request::GetAcl { path: "/mine".to_owned() },
        Request::SetAcl { path: "/mine".to_owned(), acl: vec![Acl::open()], version: -1 },
    ] {
        assert_eq!(other.error(request.clone()).await, -102, "{request:?}");
    }
    authenticate(&mut other, "digest", b"user:wrong").await;
    assert_eq!(other.error(get("/mine", false)).await, -102);
    authenticate(&mut other, "digest", b"user:secret").await;
    assert_eq!(other.data("/mine").await, b"x");
}

/// As in ZooKeeper from 3.9.3 on.
#[tokio::test]
async fn a_watch_shows_nothing_of_a_znode_that_its_client_may_not_read() {
    let node = Node::start().await;
    let (mut owner, mut other) = (node.client().await, node.client().await);
    authenticate(&mut owner, "digest", b"user:secret").await;
    let mine = || vec![entry(perms::ALL, "auth", "")];
    owner.done(create_with("/mine", 0, b"", mine())).await;
    owner.done(create_with("/mine/there", 0, b"", mine())).await;
    assert_eq!(other.error(exists("/mine/there", true)).await, -102);
    assert_eq!(other.error(exists("/mine/later", true)).await, -101);
    let mode = AddWatchMode::Persistent;
    other.done(Request::AddWatch { path: "/mine/there".to_owned(), mode }).await;
    owner.done(set("/mine/there", b"1", -1)).await;
    owner.done(create_with("/mine/later", 0, b"", mine())).await;
    owner.done(delete("/mine/there", -1)).await;
    assert_eq!(other.events().await, []);
}

/// A client that has set watches of every kind on `/mine` and its children while it could read them, and the owner.
async fn watcher_and_owner(node: &Node) -> (ZkClient, ZkClient) {
    let (mut owner, mut watcher) = (node.client().await, node.client().await);
    authenticate(&mut owner, "digest", b"user:secret").await;
    for path in ["/mine", "/mine/data", "/mine/stat", "/mine/list", "/mine/both"] {
        owner.done(create_with(path, 0, b"", vec![Acl::open()])).await;
    }
    watcher.done(get("/mine/data", true)).await;
    watcher.done(exists("/mine/stat", true)).await;
    watcher.done(children("/mine/list", true)).await;
    for (path, mode) in
        [("/mine/both", AddWatchMode::Persistent), ("/mine", AddWatchMode::PersistentRecursive)]
    {
        watcher.done(Request::AddWatch { path: path.to_owned(), mode }).await;
    }
    (watcher, owner)
}

const WATCHED: [&str; 4] = ["/mine/data", "/mine/stat", "/mine/list", "/mine/both"];

async fn hide(owner: &mut ZkClient, paths: &[&str]) {
    for path in paths {
        let acl = vec![entry(perms::ALL, "auth", "")];
        owner.done(Request::SetAcl { path: (*path).to_owned(), acl, version: -1 }).await;
    }
}

/// As in ZooKeeper from 3.9.2 on: the list of the time of the change counts.
#[tokio::test]
async fn no_watch_shows_a_znode_that_its_client_may_no_longer_read() {
    let node = Node::start().await;
    let (mut watcher, mut owner) = watcher_and_owner(&node).await;
    hide(&mut owner, &WATCHED).await;
    for path in WATCHED {
        owner.done(set(path, b"1", -1)).await;
        let child = format!("{path}/c");
        owner.done(create_with(&child, 0, b"", vec![entry(perms::ALL, "auth", "")])).await;
        owner.done(delete(&child, -1)).await;
        owner.done(delete(path, -1)).await;
    }
    assert_eq!(watcher.events().await, []);
}

/// A recipe waits for this notice: the list of the deleted znode counts, and not that of its directory.
#[tokio::test]
async fn every_watch_shows_the_deletion_of_a_readable_znode_in_a_hidden_directory() {
    let node = Node::start().await;
    let (mut watcher, mut owner) = watcher_and_owner(&node).await;
    hide(&mut owner, &["/mine"]).await;
    for path in WATCHED {
        owner.done(delete(path, -1)).await;
        assert_eq!(watcher.event().await, (WatchEventType::Deleted, path.to_owned()));
    }
    assert_eq!(watcher.events().await, []);
}

/// What `setWatches` reports about each watch of a client that returns, when `/mine/…` changed while it was away.
async fn reported(is_hidden: bool) -> Vec<(WatchEventType, String)> {
    let node = Node::start().await;
    let (mut watcher, mut owner) = watcher_and_owner(&node).await;
    let (seen, _) = watcher.call(get("/mine", false)).await;
    let session = watcher.resumption();
    drop(watcher);
    let list = if is_hidden { vec![entry(perms::ALL, "auth", "")] } else { vec![Acl::open()] };
    owner.done(create_with("/mine/born", 0, b"", list)).await;
    for path in WATCHED {
        owner.done(set(path, b"1", -1)).await;
        owner.create(&format!("{path}/c"), 0).await;
    }
    if is_hidden {
        hide(&mut owner, &WATCHED).await;
    }
    let mut watcher = ZkClient::resume(node.address, &session).await;
    let paths = |paths: &[&str]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    let kept = SetWatches {
        relative_zxid: seen.zxid,
        data: paths(&["/mine/data", "/mine/stat", "/mine/gone"]),
        exist: paths(&["/mine/born"]),
        child: paths(&["/mine/list"]),
        persistent: paths(&["/mine/both"]),
        recursive: paths(&["/mine/both"]),
    };
    watcher.done(Request::SetWatches(kept)).await;
    let mut events = watcher.events().await;
    for path in WATCHED {
        owner.done(set(path, b"2", -1)).await;
    }
    events.extend(watcher.events().await);
    if is_hidden {
        // The watches are armed: they show what their client may read again.
        for path in WATCHED {
            let open =
                Request::SetAcl { path: path.to_owned(), acl: vec![Acl::open()], version: -1 };
            owner.done(open).await;
        }
        owner.create("/mine/list/d", 0).await;
        assert_eq!(
            watcher.event().await,
            (WatchEventType::ChildrenChanged, "/mine/list".to_owned())
        );
    }
    events
}

#[tokio::test]
async fn the_watches_of_a_returning_client_show_no_znode_that_it_may_no_longer_read() {
    use WatchEventType::{ChildrenChanged, Created, DataChanged, Deleted};
    let events = reported(false).await;
    let events: Vec<_> = events.iter().map(|(kind, path)| (*kind, path.as_str())).collect();
    let shown = [
        (DataChanged, "/mine/data"),
        (DataChanged, "/mine/stat"),
        (Deleted, "/mine/gone"),
        (Created, "/mine/born"),
        (ChildrenChanged, "/mine/list"),
        (DataChanged, "/mine/both"),
    ];
    assert_eq!(events, shown);
    assert_eq!(reported(true).await, [(Deleted, "/mine/gone".to_owned())]);
}

#[tokio::test]
async fn a_client_with_read_permission_only_sees_no_hash() {
    let node = Node::start().await;
    let (mut owner, mut other) = (node.client().await, node.client().await);
    authenticate(&mut owner, "digest", b"user:secret").await;
    let list = vec![entry(perms::ALL, "auth", ""), entry(perms::READ, "world", "anyone")];
    owner.done(create_with("/shown", 0, b"", list)).await;
    assert_eq!(acl(&mut other, "/shown").await[0].id, "user:x");
}

#[tokio::test]
async fn an_address_is_an_identity() {
    let (_node, mut client) = Node::with_client().await;
    let here = vec![entry(perms::ALL, "ip", "127.0.0.0/8")];
    client.done(create_with("/here", 0, b"", here)).await;
    client.done(get("/here", false)).await;
    let there = vec![entry(perms::ALL, "ip", "10.0.0.0/8")];
    client.done(create_with("/there", 0, b"", there)).await;
    assert_eq!(client.error(get("/there", false)).await, -102);
}

#[tokio::test]
async fn a_new_list_counts_its_changes() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/l", 0).await;
    let list = vec![entry(perms::READ | perms::ADMIN, "world", "anyone")];
    let change = |version| Request::SetAcl { path: "/l".to_owned(), acl: list.clone(), version };
    let Response::Stat(stat) = client.done(change(0)).await else { panic!("no stat") };
    assert_eq!((stat.aversion, stat.version), (1, 0));
    assert_eq!(client.error(change(0)).await, -103);
    assert_eq!(acl(&mut client, "/l").await, list);
    assert_eq!(client.error(set("/l", b"", -1)).await, -102);
}
