//! The handshake: a new session, and a session that another connection takes over.

use holdfast_lab::zk::{ZkClient, create, exists, get, new_session};
use holdfast_zkwire::{ConnectRequest, Request, Response};

use crate::node::Node;

#[tokio::test]
async fn a_new_session_gets_a_number_a_password_and_a_timeout_within_bounds() {
    let node = Node::start().await;
    let client = node.client().await;
    assert!(client.opened.session_id > 0);
    assert_ne!(client.opened.password, [0; 16]);
    assert_eq!((client.opened.timeout_ms, client.opened.read_only), (10_000, Some(false)));
    for (asked, given) in [(0, 1_000), (-1, 1_000), (1_500, 1_500), (i32::MAX, 10_000)] {
        let client = ZkClient::connect(node.address, &new_session(asked)).await.unwrap();
        assert_eq!(client.opened.timeout_ms, given);
    }
}

#[tokio::test]
async fn an_old_client_that_sends_no_read_only_byte_gets_none() {
    let node = Node::start().await;
    let old = ConnectRequest { read_only: None, ..new_session(5_000) };
    let mut client = ZkClient::connect(node.address, &old).await.unwrap();
    assert_eq!(client.opened.read_only, None);
    client.done(Request::Ping).await;
}

#[tokio::test]
async fn a_session_continues_on_another_connection_and_the_old_one_is_closed() {
    let node = Node::start().await;
    let mut old = node.client().await;
    old.create("/e", 1).await;
    let mut new = ZkClient::resume(node.address, &old.resumption()).await;
    assert_eq!(new.opened.session_id, old.opened.session_id);
    assert_eq!(new.opened.password, old.opened.password);
    old.closed().await;
    let stat = new.stat("/e").await.unwrap();
    assert_eq!(stat.ephemeral_owner, new.session());
}

#[tokio::test]
async fn a_wrong_password_gets_no_session_and_changes_nothing() {
    let node = Node::start().await;
    let mut owner = node.client().await;
    for password in [Some([7; 16]), None] {
        let id = owner.opened.session_id;
        let wrong = ConnectRequest { session_id: id, password, ..new_session(5_000) };
        let mut refused = ZkClient::connect(node.address, &wrong).await.unwrap();
        assert_eq!((refused.opened.session_id, refused.opened.timeout_ms), (0, 0));
        assert_eq!(refused.opened.password, [0; 16]);
        refused.closed().await;
    }
    owner.done(Request::Ping).await;
}

#[tokio::test]
async fn an_unknown_or_ended_session_is_rejected() {
    let node = Node::start().await;
    let mut closed = node.client().await;
    closed.done(Request::CloseSession).await;
    closed.closed().await;
    for id in [closed.opened.session_id, 12_345, -1, i64::MIN] {
        let gone = ConnectRequest {
            session_id: id,
            password: Some(closed.opened.password),
            ..new_session(5_000)
        };
        let mut refused = ZkClient::connect(node.address, &gone).await.unwrap();
        assert_eq!(refused.opened.session_id, 0);
        refused.closed().await;
    }
}

/// The client has been connected to a node that has applied more: it must not see an older state.
#[tokio::test]
async fn a_client_that_has_seen_more_than_this_node_is_disconnected_without_a_reply() {
    let node = Node::start().await;
    let ahead = ConnectRequest { last_zxid_seen: 1 << 40, ..new_session(5_000) };
    assert!(ZkClient::connect(node.address, &ahead).await.is_none());
}

#[tokio::test]
async fn replies_carry_the_zxid_of_the_change_or_of_the_state_that_was_read() {
    let (_node, mut client) = Node::with_client().await;
    let (header, _) = client.call(create("/z", 0)).await;
    let stat = client.stat("/z").await.unwrap();
    assert_eq!(stat.czxid, header.zxid);
    let (read, _) = client.call(exists("/z", false)).await;
    assert!(read.zxid >= header.zxid);
    let (refused, _) = client.call(create("/z", 0)).await;
    assert_eq!(refused.err, -110);
    assert!(refused.zxid > header.zxid);
    let auth = Request::Auth {
        kind: 0,
        scheme: "digest".to_owned(),
        auth: Some(bytes::Bytes::from_static(b"u:p")),
    };
    assert_eq!(client.call(auth).await.0.zxid, 0);
}

#[tokio::test]
async fn requests_that_follow_the_first_frame_at_once_are_answered() {
    let (_node, mut client) = Node::with_client().await;
    for _ in 0..100 {
        client.send(&Request::Ping).await;
    }
    for _ in 0..100 {
        assert_eq!(client.reply().await.unwrap().0.err, 0);
    }
}

#[tokio::test]
async fn the_http_api_shows_the_session_with_its_origin() {
    let (node, mut client) = Node::with_client().await;
    let Response::Data { data, .. } = client.done(get("/", false)).await else { panic!("no data") };
    assert_eq!(data.unwrap_or_default(), "");
    let read = holdfast_service::ReadMode::Linearizable;
    let page = node.service.sessions(None, 10, read).await.unwrap().value;
    let labels = format!("{:?}", page.items[0].labels);
    assert!(labels.contains("zookeeper") && labels.contains("127.0.0.1:"), "{labels}");
}
