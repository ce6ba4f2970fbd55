//! Creating and deleting nodes: kinds, names, stats.

use bytes::Bytes;
use holdfast_lab::zk::{create, create_by, create_with, delete, get, set};
use holdfast_zkwire::{Acl, CreateOp, Request, Response, Stat};

use crate::node::Node;

#[tokio::test]
async fn a_node_is_created_read_changed_and_deleted() {
    let (_node, mut client) = Node::with_client().await;
    client.done(create_with("/a", 0, b"one", vec![Acl::open()])).await;
    assert_eq!(client.data("/a").await, b"one");
    let Response::Stat(stat) = client.done(set("/a", b"three", 0)).await else { panic!("no stat") };
    assert_eq!((stat.version, stat.data_length, stat.num_children), (1, 5, 0));
    assert!(stat.mzxid > stat.czxid && stat.mtime >= stat.ctime);
    let Response::Data { data, stat: read } = client.done(get("/a", false)).await else {
        panic!("no data")
    };
    assert_eq!((data.unwrap().as_ref(), read), (&b"three"[..], stat));
    client.done(delete("/a", 1)).await;
    assert_eq!(client.stat("/a").await, None);
}

#[tokio::test]
async fn every_kind_of_node_shows_its_kind() {
    let (_node, mut client) = Node::with_client().await;
    let me = client.session();
    for (flags, owner) in [(0, 0), (1, me), (4, 0)] {
        let path = client.create(&format!("/k{flags}"), flags).await;
        assert_eq!(client.stat(&path).await.unwrap().ephemeral_owner, owner);
    }
    let ttl = create_by(CreateOp::Ttl, "/t", 5, b"", vec![Acl::open()]);
    let Response::Created2 { path, stat } = client.done(ttl).await else { panic!("no stat") };
    assert_eq!(path, "/t");
    assert_eq!(stat.ephemeral_owner, 0);
}

#[tokio::test]
async fn sequential_names_count_every_child_ever_created() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/d", 0).await;
    assert_eq!(client.create("/d/a", 2).await, "/d/a0000000000");
    client.create("/d/plain", 0).await;
    assert_eq!(client.create("/d/b", 3).await, "/d/b0000000002");
    client.done(delete("/d/b0000000002", -1)).await;
    assert_eq!(client.create("/d/", 2).await, "/d/0000000003");
    let stat = client.stat("/d").await.unwrap();
    assert_eq!((stat.num_children, stat.cversion), (3, 5));
    let ttl = create_by(CreateOp::Ttl, "/d/t", 6, b"", vec![Acl::open()]);
    let Response::Created2 { path, .. } = client.done(ttl).await else { panic!("no stat") };
    assert_eq!(path, "/d/t0000000004");
}

#[tokio::test]
async fn create_operations_differ_in_their_reply_and_not_in_the_node() {
    let (_node, mut client) = Node::with_client().await;
    for (op, path) in [(CreateOp::Create2, "/a"), (CreateOp::Container, "/b")] {
        let made = client.done(create_by(op, path, 0, b"x", vec![Acl::open()])).await;
        let Response::Created2 { path: told, stat } = made else { panic!("{made:?}") };
        assert_eq!(told, path);
        assert_eq!(client.stat(path).await, Some(stat));
        let new = Stat { data_length: 1, ..fresh(stat) };
        assert_eq!(stat, new);
    }
}

/// The stat of a new node.
fn fresh(stat: Stat) -> Stat {
    let Stat { czxid, ctime, .. } = stat;
    Stat { czxid, mzxid: czxid, pzxid: czxid, ctime, mtime: ctime, ..Stat::default() }
}

#[tokio::test]
async fn null_data_differs_from_empty_data() {
    let (_node, mut client) = Node::with_client().await;
    let Request::Create(mut request) = create("/n", 0) else { panic!("no create") };
    request.data = None;
    client.done(Request::Create(request)).await;
    for set_to in [None, Some(Bytes::new()), None] {
        let Response::Data { data, stat } = client.done(get("/n", false)).await else {
            panic!("no data")
        };
        // The earlier data.
        assert_eq!((data.is_none(), stat.data_length), (stat.version != 2, 0));
        client.done(Request::SetData { path: "/n".to_owned(), data: set_to, version: -1 }).await;
    }
}

#[tokio::test]
async fn a_node_holds_a_megabyte() {
    let (_node, mut client) = Node::with_client().await;
    let data = vec![7; 1_000_000];
    client.done(create_with("/big", 0, &data, vec![Acl::open()])).await;
    assert_eq!(client.data("/big").await, data);
}
