//! Reads of data, children, stats and ephemerals, and the exact replies to them.

use holdfast_lab::zk::{ZkClient, create, delete, exists};
use holdfast_zkwire::{Request, Response};

use crate::node::Node;

async fn ephemerals(client: &mut ZkClient, prefix: &str) -> Vec<String> {
    let said = client.done(Request::GetEphemerals { prefix: prefix.to_owned() }).await;
    let Response::Ephemerals(paths) = said else { panic!("{said:?}") };
    paths
}

async fn below(client: &mut ZkClient, path: &str) -> i32 {
    let said = client.done(Request::GetAllChildrenNumber { path: path.to_owned() }).await;
    let Response::ChildrenCount(count) = said else { panic!("{said:?}") };
    count
}

#[tokio::test]
async fn get_children_returns_names_and_get_children2_also_the_stat() {
    let (_node, mut client) = Node::with_client().await;
    for path in ["/c", "/c/b", "/c/a", "/c/a/x"] {
        client.create(path, 0).await;
    }
    assert_eq!(client.children("/c").await, ["a", "b"]);
    let request = Request::GetChildren2 { path: "/c".to_owned(), watch: false };
    let Response::Children2 { children, stat } = client.done(request).await else {
        panic!("no stat")
    };
    assert_eq!((children.len(), stat.num_children), (2, 2));
    assert_eq!(client.stat("/c").await, Some(stat));
    assert_eq!(client.children("").await, client.children("/").await);
}

#[tokio::test]
async fn ephemerals_belong_to_their_session_and_end_with_it() {
    let node = Node::start().await;
    let (mut one, mut two) = (node.client().await, node.client().await);
    one.create("/e", 0).await;
    one.create("/e/1", 1).await;
    one.create("/f", 1).await;
    two.create("/e/2", 1).await;
    assert_eq!(ephemerals(&mut one, "/e").await, ["/e/1"]);
    assert_eq!(ephemerals(&mut one, "").await, ["/e/1", "/f"]);
    assert_eq!(ephemerals(&mut two, "/").await, ["/e/2"]);
    one.done(Request::CloseSession).await;
    one.closed().await;
    assert_eq!(two.children("/e").await, ["2"]);
}

#[tokio::test]
async fn all_descendants_are_counted() {
    let (_node, mut client) = Node::with_client().await;
    for path in ["/n", "/n/a", "/n/a/b", "/n/a/c", "/nn"] {
        client.create(path, 0).await;
    }
    assert_eq!(below(&mut client, "/n").await, 3);
    assert_eq!(below(&mut client, "/n/a/b").await, 0);
}

/// The count runs in a thread, and later replies wait for it.
#[tokio::test]
async fn replies_keep_their_order_around_a_count() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/n", 0).await;
    client.create("/n/a", 0).await;
    for _ in 0..20 {
        client.send(&Request::GetAllChildrenNumber { path: "/n".to_owned() }).await;
        client.send(&exists("/n", false)).await;
    }
    for _ in 0..20 {
        let (_, counted) = client.reply().await.unwrap();
        assert_eq!(counted, Some(Response::ChildrenCount(1)));
        let (_, stat) = client.reply().await.unwrap();
        assert!(matches!(stat, Some(Response::Stat(_))), "{stat:?}");
    }
}

#[tokio::test]
async fn a_sync_returns_its_path_without_a_lookup() {
    let (_node, mut client) = Node::with_client().await;
    let told = client.done(Request::Sync { path: "/not/there".to_owned() }).await;
    assert_eq!(told, Response::Sync { path: "/not/there".to_owned() });
}

#[tokio::test]
async fn the_stat_of_a_parent_follows_its_children_only() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/p", 0).await;
    let (made, _) = client.call(create("/p/c", 0)).await;
    let stat = client.stat("/p").await.unwrap();
    assert_eq!((stat.pzxid, stat.cversion, stat.version), (made.zxid, 1, 0));
    client.done(holdfast_lab::zk::set("/p/c", b"x", -1)).await;
    assert_eq!(client.stat("/p").await, Some(stat));
    let (gone, _) = client.call(delete("/p/c", -1)).await;
    let stat = client.stat("/p").await.unwrap();
    assert_eq!((stat.pzxid, stat.cversion, stat.num_children), (gone.zxid, 2, 0));
}

#[tokio::test]
async fn a_check_outside_a_multi_gets_a_reply() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/v", 0).await;
    client.done(Request::Check { path: "/v".to_owned(), version: 0 }).await;
    assert_eq!(client.error(exists("/w", false)).await, -101);
}
