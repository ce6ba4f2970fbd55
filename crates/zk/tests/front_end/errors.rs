//! Errors. The expected replies are those of ZooKeeper 3.8.0 on the wire.

use holdfast_lab::zk::{
    ZkClient, children, create, create_by, create_with, delete, exists, get, set,
};
use holdfast_zkwire::{
    Acl, AddWatchMode, CreateOp, Reconfig, ReplyKind, Request, WatcherType, xid,
};

use crate::node::Node;

fn acl(scheme: &str, id: &str) -> Vec<Acl> {
    vec![Acl { perms: 31, scheme: scheme.to_owned(), id: id.to_owned() }]
}

#[tokio::test]
async fn operations_that_do_not_fit_the_tree_fail_with_their_errors() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/a", 0).await;
    client.create("/a/b", 0).await;
    client.create("/e", 1).await;
    for (request, code) in [
        (create("/a", 0), -110),
        (create("/no/x", 0), -101),
        (create("/e/x", 0), -108),
        (delete("/a", -1), -111),
        (delete("/a/b", 7), -103),
        (delete("/no", -1), -101),
        (delete("/", -1), -8),
        (delete("/zookeeper", -1), -8),
        (set("/a", b"", 3), -103),
        (set("/a", b"", -2), -103),
        (set("/no", b"", -1), -101),
        (get("/no", true), -101),
        (children("/no", true), -101),
        (exists("/no", true), -101),
        (Request::GetAcl { path: "/no".to_owned() }, -101),
        (Request::GetAllChildrenNumber { path: "/no".to_owned() }, -101),
        (Request::Check { path: "/no".to_owned(), version: -1 }, -101),
        (Request::Check { path: "/a".to_owned(), version: 5 }, -103),
        (Request::SetAcl { path: "/a".to_owned(), acl: acl("world", "anyone"), version: 5 }, -103),
    ] {
        assert_eq!(client.error(request.clone()).await, code, "{request:?}");
    }
}

#[tokio::test]
async fn an_invalid_path_fails_with_the_error_of_each_request() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/pa", 0).await;
    for (path, made, deleted, changed, read) in [
        ("", -8, -8, -8, 0),
        ("a", -8, -8, -8, -101),
        ("a/b", -101, -101, -8, -101),
        ("//", -8, -101, -8, -101),
        ("/pa/", -8, -101, -8, -101),
        ("/pa//b", -101, -101, -8, -101),
        ("/pa/..", -8, -101, -8, -101),
        ("/pa/../x", -101, -101, -8, -101),
        ("/no/", -101, -101, -8, -101),
        ("/a\0", -8, -8, -8, -101),
        ("/pa/\u{1}x", -8, -101, -8, -101),
        ("/pa/\u{fff0}", -8, -101, -8, -101),
    ] {
        assert_eq!(client.error(create(path, 0)).await, made, "create {path:?}");
        assert_eq!(client.error(delete(path, 5)).await, deleted, "delete {path:?}");
        assert_eq!(client.error(set(path, b"", 9)).await, changed, "set {path:?}");
        assert_eq!(client.error(get(path, false)).await, read, "get {path:?}");
        assert_eq!(client.error(children(path, false)).await, read, "children {path:?}");
    }
    assert_eq!(client.error(create("/", 0)).await, -110);
}

#[tokio::test]
async fn invalid_flags_and_times_to_live_are_bad_arguments() {
    let (_node, mut client) = Node::with_client().await;
    for flags in [-1, 5, 6, 7, 8] {
        assert_eq!(client.error(create("/f", flags)).await, -8, "{flags}");
    }
    for flags in [0, 1, 2, 3, 4, 7] {
        let request = create_by(CreateOp::Ttl, "/f", flags, b"", vec![Acl::open()]);
        assert_eq!(client.error(request).await, -8, "{flags}");
    }
}

#[tokio::test]
async fn invalid_access_lists_are_rejected_before_the_parent_is_looked_up() {
    let (_node, mut client) = Node::with_client().await;
    for list in [
        vec![],
        acl("x", "y"),
        acl("auth", ""),
        acl("ip", "bad"),
        acl("ip", "1.2.3.4/33"),
        acl("digest", "nobody"),
        acl("digest", "a:b:c"),
        acl("world", "somebody"),
    ] {
        for path in ["/x", "/no/x"] {
            let request = create_with(path, 0, b"", list.clone());
            assert_eq!(client.error(request).await, -114, "{list:?}");
        }
    }
    for list in [acl("ip", "1.2.3.0/24"), acl("digest", "a:b")] {
        assert_eq!(client.error(create_with("/no/x", 0, b"", list)).await, -101);
    }
}

#[tokio::test]
async fn unsupported_operations_fail_and_the_connection_stays_open() {
    let (_node, mut client) = Node::with_client().await;
    for (request, code) in [
        (Request::DeleteContainer, -6),
        (Request::Sasl { token: None }, -6),
        (Request::Reconfig(Reconfig::default()), -123),
        (Request::AddWatch { path: "/".to_owned(), mode: AddWatchMode::Unknown(2) }, -5),
        (Request::RemoveWatches { path: "/".to_owned(), kind: WatcherType::Any }, -121),
        (Request::CheckWatches { path: "/".to_owned(), kind: WatcherType::Data }, -121),
        (Request::CheckWatches { path: "/".to_owned(), kind: WatcherType::Unknown(9) }, -5),
    ] {
        assert_eq!(client.error(request.clone()).await, code, "{request:?}");
    }
    client.done(Request::Ping).await;
}

/// As in ZooKeeper: −6 without a zxid, then the connection closes. The session stays open.
#[tokio::test]
async fn an_unknown_operation_gets_a_reply_and_closes_the_connection() {
    let (node, mut client) = Node::with_client().await;
    client.create("/e", 1).await;
    client.send(&Request::Unknown(99)).await;
    client.send(&create("/late", 0)).await;
    let (header, _) = client.reply().await.unwrap();
    assert_eq!((header.err, header.zxid), (-6, -1));
    client.closed().await;
    let mut again = ZkClient::resume(node.address, &client.resumption()).await;
    assert!(again.stat("/e").await.is_some());
    assert_eq!(again.stat("/late").await, None);
}

#[tokio::test]
async fn an_undecodable_body_gets_an_error_and_affects_no_other_request() {
    let (_node, mut client) = Node::with_client().await;
    client.send_raw(&[0, 0, 0, 12, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0x7f]).await;
    client.expect_reply(9, ReplyKind::Empty);
    assert_eq!(client.reply().await.unwrap().0.err, -5);
    client.done(Request::Ping).await;
}

#[tokio::test]
async fn a_ping_gets_the_reply_of_a_ping_whatever_its_number() {
    let (_node, mut client) = Node::with_client().await;
    client.send_raw(&[0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 11]).await;
    client.expect_reply(xid::PING, ReplyKind::Empty);
    assert_eq!(client.reply().await.unwrap().0.err, 0);
}
