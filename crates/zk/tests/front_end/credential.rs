//! Connections that prove a subject before they get a session, where calls need a permission.

use std::time::Duration;

use holdfast_lab::zk::{ZkClient, create, create_with, exists, get, new_session};
use holdfast_lab::{DEADLINE, until};
use holdfast_service::{AccessTokenSecret, ReadMode, Service};
use holdfast_types::{AuthChange, AuthMode, QuotaKind, Quotas, RoleName, SessionId, TokenLifetime};
use holdfast_zk::ZkConfig;
use holdfast_zkwire::{Acl, ConnectRequest, Request, Response, encode_request, xid};

use crate::authorization::{auth, authenticate, guarded, requests_of_every_kind, subject};
use crate::node::{Node, config};

/// The longest wait for a credential in these tests where the wait itself is tested.
const SHORT: Duration = Duration::from_millis(300);

async fn sessions(service: &Service) -> usize {
    let page = service.sessions(None, 1_000, ReadMode::Linearizable).await.unwrap().value;
    page.items.len()
}

fn credentials(name: &str, token: &AccessTokenSecret) -> String {
    format!("{name}:{}", token.reveal())
}

/// A token of another subject that may do everything.
async fn other_token(admin: &Service) -> AccessTokenSecret {
    let (roles, certificates) = (vec![RoleName::admin()], Vec::new());
    let other = AuthChange::SetSubject { subject: subject("other"), roles, certificates };
    admin.change_auth(other).await.unwrap();
    admin.issue_token(subject("other"), TokenLifetime::Never).await.unwrap().value.token
}

#[tokio::test]
async fn a_connection_without_a_credential_changes_nothing_in_the_cluster() {
    let node = Node::start().await;
    let (admin, _) = guarded(&node).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = node.client().await;
        assert!(client.session() > 0);
        client.done(Request::Ping).await;
        assert_eq!(
            authenticate(&mut client, "alice:secret").await,
            0,
            "an identity of access lists"
        );
        assert_eq!(client.error(create("/app", 1)).await, -102);
        clients.push(client);
    }
    assert_eq!(sessions(&admin).await, 0);
    assert_eq!(node.metric("holdfast_zk_handshakes_total"), "0");
    clients.pop().unwrap().close().await;
    assert_eq!(sessions(&admin).await, 0);
}

/// As `requests_are_refused_or_not_as_documented` for a connection with a session.
#[tokio::test]
async fn no_request_is_executed_before_the_credential() {
    let node = Node::start().await;
    let (_, token) = guarded(&node).await;
    for (request, _) in requests_of_every_kind() {
        let mut client = node.client().await;
        let expected = if request == Request::Ping { 0 } else { -102 };
        assert_eq!(client.error(request.clone()).await, expected, "{request:?}");
        // The connection can still prove its subject.
        assert_eq!(authenticate(&mut client, &credentials("ci", &token)).await, 0, "{request:?}");
        assert_eq!(client.stat("/app").await, None);
    }
}

#[tokio::test]
async fn the_session_has_the_id_that_the_client_got_before_its_credential() {
    let nodes = Node::cluster(3, config()).await;
    let (admin, token) = guarded(&nodes[0]).await;
    for node in &nodes {
        node.service.catch_up(nodes[0].service.revision()).await.unwrap();
    }
    let ci = credentials("ci", &token);
    let mut client = nodes[1].client().await;
    assert_eq!(authenticate(&mut client, &ci).await, 0);
    client.done(create("/app", 0)).await;
    client.create("/app/mine", 1).await;
    assert_eq!(client.owner("/app/mine").await, Some(client.session()));
    let mut moved = ZkClient::resume(nodes[2].address, &client.resumption()).await;
    assert_eq!(moved.opened, client.opened);
    assert_eq!(authenticate(&mut moved, &ci).await, 0);
    assert_eq!(moved.owner("/app/mine").await, Some(client.session()));
    moved.done(create("/app/more", 1)).await;
    let late = client.try_call(&create("/app/late", 1)).await;
    assert!(late.is_none(), "the session has moved: {late:?}");
    assert_eq!(sessions(&admin).await, 1);
    assert_eq!(admin.close_sessions_of(&subject("ci"), SessionId(u64::MAX)).await.unwrap(), 1);
}

/// Java's Netty client does not wait for the response to its first frame, kazoo does.
#[tokio::test]
async fn requests_behind_the_credential_are_executed_as_its_subject() {
    let node = Node::start().await;
    let (_, token) = guarded(&node).await;
    let mut client = node.client().await;
    client.send(&auth(&credentials("ci", &token))).await;
    client.send(&create_with("/app", 0, &vec![1; 100_000], vec![Acl::open()])).await;
    client.send(&exists("/app", false)).await;
    for _ in 0..3 {
        assert_eq!(client.reply().await.unwrap().0.err, 0);
    }
}

#[tokio::test]
async fn a_credential_in_one_packet_with_the_first_frame_opens_the_session() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let node = Node::start().await;
    let (admin, token) = guarded(&node).await;
    let mut bytes = new_session(5_000).encode().to_vec();
    bytes.extend(encode_request(xid::AUTH, &auth(&credentials("ci", &token))).unwrap());
    bytes.extend(encode_request(1, &create("/app", 0)).unwrap());
    let mut socket = tokio::net::TcpStream::connect(node.address).await.unwrap();
    socket.write_all(&bytes).await.unwrap();
    let mut header = [0; 4];
    for _ in 0..3 {
        let read = async {
            socket.read_exact(&mut header).await.unwrap();
            let mut frame = vec![0; u32::from_be_bytes(header) as usize];
            socket.read_exact(&mut frame).await.unwrap();
            frame
        };
        tokio::time::timeout(DEADLINE, read).await.unwrap();
    }
    assert_eq!(sessions(&admin).await, 1);
}

#[tokio::test]
async fn a_wrong_credential_ends_the_connection_without_a_session() {
    let node = Node::start().await;
    let (admin, token) = guarded(&node).await;
    let text = token.reveal();
    let unknown = AccessTokenSecret::generate().unwrap().reveal();
    admin.change_auth(AuthChange::DeleteToken { token: token.id }).await.unwrap();
    for wrong in [
        format!("ci:{}", &text[..text.len() - 1]),
        format!("ci:{unknown}"),
        format!("ci:{text}"),
        format!("root:{text}"),
    ] {
        let mut client = node.client().await;
        assert_eq!(authenticate(&mut client, &wrong).await, -115, "{wrong}");
        client.closed().await;
    }
    let mut client = node.client().await;
    let scheme = "sasl".to_owned();
    assert_eq!(client.error(Request::Auth { kind: 0, scheme, auth: None }).await, -115);
    client.closed().await;
    assert_eq!(sessions(&admin).await, 0);
    assert_eq!(node.metric("holdfast_zk_connections_dropped_total"), "5");
}

/// Another node may have room, and `AuthFailed` would end the clients of kazoo and Java for good.
#[tokio::test]
async fn a_subject_without_room_for_a_connection_or_a_session_gets_no_reply() {
    for settings in [config(), ZkConfig { requires_credential: false, ..config() }] {
        let node = Node::start_with(settings).await;
        let (admin, token) = guarded(&node).await;
        let ci = auth(&credentials("ci", &token));
        for quota in [QuotaKind::Connections, QuotaKind::Sessions] {
            let (subject, quotas) = (Some(subject("ci")), Quotas([(quota, 1)].into()));
            admin.change_auth(AuthChange::SetQuotas { subject, quotas }).await.unwrap();
            let (mut first, mut second) = (node.client().await, node.client().await);
            first.done(ci.clone()).await;
            assert!(second.try_call(&ci).await.is_none(), "{quota:?}");
            first.close().await;
        }
        assert_eq!(node.metric("holdfast_zk_connections_dropped_total"), "0");
    }
}

#[tokio::test]
async fn a_connection_that_proves_nothing_in_time_is_closed() {
    let node = Node::start_with(ZkConfig { handshake_timeout: SHORT, ..config() }).await;
    let (admin, _) = guarded(&node).await;
    let mut silent = node.client().await;
    silent.closed().await;
    // Pings do not prolong the wait.
    let mut busy = node.client().await;
    while busy.try_call(&Request::Ping).await.is_some() {}
    assert_eq!(sessions(&admin).await, 0);
    assert_eq!(node.metric("holdfast_zk_connections_dropped_total"), "2");
}

#[tokio::test]
async fn a_frame_that_is_too_large_for_a_credential_closes_the_connection() {
    let node = Node::start().await;
    let (_, token) = guarded(&node).await;
    let large = || create_with("/app", 0, &[1; 10_000], vec![Acl::open()]);
    let mut client = node.client().await;
    client.send(&large()).await;
    client.closed().await;
    let mut client = node.client().await;
    assert_eq!(authenticate(&mut client, &credentials("ci", &token)).await, 0);
    client.done(large()).await;
}

/// A stolen session id and password are not enough, and change nothing for the owner.
#[tokio::test]
async fn a_session_is_taken_over_only_by_its_subject() {
    let node = Node::start_with(ZkConfig { handshake_timeout: SHORT, ..config() }).await;
    let (admin, token) = guarded(&node).await;
    let (ci, other) = (credentials("ci", &token), credentials("other", &other_token(&admin).await));
    let mut owner = node.client().await;
    assert_eq!(authenticate(&mut owner, &ci).await, 0);
    owner.done(create("/app", 0)).await;
    let mut thief = ZkClient::resume(node.address, &owner.resumption()).await;
    assert_eq!(thief.opened, owner.opened);
    assert_eq!(thief.error(get("/app", false)).await, -102);
    thief.closed().await;
    let mut thief = ZkClient::resume(node.address, &owner.resumption()).await;
    assert_eq!(authenticate(&mut thief, &other).await, -115);
    thief.closed().await;
    owner.done(create("/app/still", 1)).await;
    let mut again = ZkClient::resume(node.address, &owner.resumption()).await;
    assert_eq!(authenticate(&mut again, &ci).await, 0);
    owner.closed().await;
    assert_eq!(again.owner("/app/still").await, Some(again.session()));
}

#[tokio::test]
async fn an_unknown_session_is_refused_before_the_credential() {
    let node = Node::start().await;
    let (_, token) = guarded(&node).await;
    let mut owner = node.client().await;
    let provisional = owner.resumption();
    let mut refused = ZkClient::connect(node.address, &provisional).await.unwrap();
    assert_eq!(refused.opened.session_id, 0, "no session has been opened yet");
    refused.closed().await;
    assert_eq!(authenticate(&mut owner, &credentials("ci", &token)).await, 0);
    for wrong in [
        ConnectRequest { password: Some([7; 16]), ..owner.resumption() },
        ConnectRequest { session_id: 12_345, ..owner.resumption() },
    ] {
        let mut refused = ZkClient::connect(node.address, &wrong).await.unwrap();
        assert_eq!(refused.opened.session_id, 0);
        refused.closed().await;
    }
    owner.done(Request::Ping).await;
}

/// Nothing renews the session yet, so an answer could be wrong.
#[tokio::test]
async fn a_ping_of_an_older_session_gets_no_answer_before_the_credential() {
    let node = Node::start().await;
    let (_, token) = guarded(&node).await;
    let ci = auth(&credentials("ci", &token));
    let mut owner = node.client().await;
    owner.done(ci.clone()).await;
    let mut again = ZkClient::resume(node.address, &owner.resumption()).await;
    // The client fails at a reply that it does not expect.
    again.send_raw(&encode_request(xid::PING, &Request::Ping).unwrap()).await;
    again.done(ci).await;
    again.done(Request::Ping).await;
}

/// The owner's connection is gone: connections without a credential do not keep its session alive.
#[tokio::test]
async fn a_connection_without_a_credential_does_not_prolong_a_session() {
    let node = Node::start().await;
    let (admin, token) = guarded(&node).await;
    let mut owner = ZkClient::open(node.address, 1_000).await;
    assert_eq!(authenticate(&mut owner, &credentials("ci", &token)).await, 0);
    let session = owner.resumption();
    drop(owner);
    until("the session expires", DEADLINE, async || {
        if let Some(mut client) = ZkClient::connect(node.address, &session).await {
            drop(client.try_call(&Request::Ping).await);
        }
        sessions(&admin).await == 0
    })
    .await;
}

#[tokio::test]
async fn a_session_of_the_mode_off_becomes_the_subjects_when_it_returns() {
    let node = Node::start().await;
    let mut early = node.client().await;
    early.create("/early", 1).await;
    let (admin, token) = guarded(&node).await;
    let mut again = ZkClient::resume(node.address, &early.resumption()).await;
    early.done(Request::Ping).await;
    assert_eq!(authenticate(&mut again, &credentials("ci", &token)).await, 0);
    early.closed().await;
    assert_eq!(admin.close_sessions_of(&subject("ci"), SessionId(u64::MAX)).await.unwrap(), 1);
    again.closed().await;
}

/// Without authorization, in the mode `shadow`, and where the configuration says so.
#[tokio::test]
async fn elsewhere_a_session_needs_no_credential() {
    let open = Node::start().await;
    assert!(open.client().await.create("/e", 1).await == "/e");
    let (admin, _) = guarded(&open).await;
    admin.change_auth(AuthChange::SetMode(AuthMode::Shadow)).await.unwrap();
    open.client().await.create("/shadow", 1).await;
    let optional = Node::start_with(ZkConfig { requires_credential: false, ..config() }).await;
    let (admin, _) = guarded(&optional).await;
    let mut client = optional.client().await;
    assert_eq!(sessions(&admin).await, 1);
    assert!(matches!(client.done(Request::WhoAmI).await, Response::WhoAmI(_)));
}

/// The administrator switched authorization on, and the client has no credential.
#[tokio::test]
async fn a_close_without_a_credential_tells_that_a_returning_session_stays() {
    let node = Node::start().await;
    let mut early = node.client().await;
    early.create("/early", 1).await;
    let (admin, token) = guarded(&node).await;
    let mut again = ZkClient::resume(node.address, &early.resumption()).await;
    assert_eq!(again.error(Request::CloseSession).await, -102);
    again.closed().await;
    assert_eq!(sessions(&admin).await, 1);
    let mut proved = ZkClient::resume(node.address, &early.resumption()).await;
    assert_eq!(authenticate(&mut proved, &credentials("ci", &token)).await, 0);
    proved.close().await;
    assert_eq!(sessions(&admin).await, 0);
}

/// The response to a returning client must promise no more than the lease of its session.
#[tokio::test]
async fn a_connection_without_a_credential_ends_before_its_session_can() {
    let node = Node::start().await;
    let (admin, token) = guarded(&node).await;
    let mut owner = ZkClient::open(node.address, 4_000).await;
    assert_eq!(authenticate(&mut owner, &credentials("ci", &token)).await, 0);
    let session = owner.resumption();
    drop(owner);
    while let Some(mut client) = ZkClient::connect(node.address, &session).await {
        assert_eq!(client.session(), session.session_id);
        client.closed().await;
    }
    assert_eq!(sessions(&admin).await, 1, "the session outlives the last connection");
}
