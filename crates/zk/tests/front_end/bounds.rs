//! Bounds: what a client can make the node keep, and what happens beyond them.

use holdfast_lab::DEADLINE;
use holdfast_lab::zk::{ZkClient, create_with, exists, get, new_session, set};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use holdfast_service::StreamLimits;
use holdfast_tls::{
    ClientCertificates, TlsAcceptor, TlsConfig, TlsConnector, TlsFiles, TlsMode, TlsVersion,
};
use holdfast_zk::ZkConfig;
use holdfast_zkwire::{Acl, Request, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::node::{Node, config};

/// Waits for the server to close a raw connection, and returns what it sent before.
async fn closed(socket: &mut TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    let read = tokio::time::timeout(DEADLINE, socket.read_to_end(&mut said)).await;
    // A reset closes the connection, too.
    drop(read.expect("the connection is still open"));
    said
}

#[tokio::test]
async fn invalid_frames_close_only_their_own_connection() {
    let node = Node::start().await;
    let mut bystander = node.client().await;
    for bytes in [&[0x00, 0x10, 0x00, 0x00][..], &[0xff; 4], b"GET / HTTP/1.1\r\n\r\n", b"RUOK"] {
        let mut socket = TcpStream::connect(node.address).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        assert_eq!(closed(&mut socket).await, b"", "{bytes:?}");
        let mut client = node.client().await;
        client.send_raw(bytes).await;
        client.closed().await;
    }
    let mut client = node.client().await;
    client.send_raw(&[0, 0, 0, 3, 1, 2, 3]).await;
    client.closed().await;
    bystander.done(Request::Ping).await;
    assert_eq!(node.metric("holdfast_zk_connections_dropped_total"), "9");
}

#[tokio::test]
async fn a_connection_with_an_invalid_first_frame_is_closed() {
    let node = Node::start().await;
    let mut socket = TcpStream::connect(node.address).await.unwrap();
    socket.write_all(&[0, 0, 0, 2, 0, 0]).await.unwrap();
    assert_eq!(closed(&mut socket).await, b"");
}

#[tokio::test]
async fn a_configured_frame_limit_is_enforced() {
    let node = Node::start_with(ZkConfig { frame_bytes_max: 1024, ..config() }).await;
    let mut client = node.client().await;
    client.done(create_with("/small", 0, &[1; 900], vec![Acl::open()])).await;
    client.send(&create_with("/large", 0, &[1; 1024], vec![Acl::open()])).await;
    client.closed().await;
}

#[tokio::test]
async fn a_connection_without_a_handshake_is_closed() {
    let hasty = ZkConfig { handshake_timeout: Duration::from_secs(1), ..config() };
    let node = Node::start_with(hasty).await;
    let mut silent = TcpStream::connect(node.address).await.unwrap();
    assert_eq!(closed(&mut silent).await, b"");
    let mut half = TcpStream::connect(node.address).await.unwrap();
    half.write_all(&new_session(1_000).encode()[..20]).await.unwrap();
    assert_eq!(closed(&mut half).await, b"");
}

#[tokio::test]
async fn the_connections_of_an_address_are_limited() {
    let node = Node::start_with(ZkConfig { connections_per_address_max: 2, ..config() }).await;
    let (first, mut second) = (node.client().await, node.client().await);
    assert!(ZkClient::connect(node.address, &new_session(1_000)).await.is_none());
    assert_eq!(node.metric("holdfast_zk_connections_refused_total"), "1");
    drop(first);
    let count = || node.metric("holdfast_zk_connections").ends_with('1');
    node.until("the place is free", count).await;
    second.done(Request::Ping).await;
    let mut third = node.client().await;
    third.done(Request::Ping).await;
}

#[tokio::test]
async fn the_connections_in_total_are_limited() {
    let node = Node::start_with(ZkConfig { connections_max: 1, ..config() }).await;
    let _only = node.client().await;
    assert!(ZkClient::connect(node.address, &new_session(1_000)).await.is_none());
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_disconnected_and_its_session_stays_open() {
    let stubborn = ZkConfig {
        write_timeout: Duration::from_millis(200),
        tick: Duration::from_secs(2),
        ..config()
    };
    let node = Node::start_with(stubborn).await;
    let mut client = node.client().await;
    client.done(create_with("/big", 0, &vec![7; 900_000], vec![Acl::open()])).await;
    for _ in 0..64 {
        client.send(&get("/big", false)).await;
    }
    let cut = || node.metric("holdfast_zk_connections_dropped_total") == "1";
    node.until("the connection is cut", cut).await;
    let mut again = ZkClient::resume(node.address, &client.resumption()).await;
    assert_eq!(again.data("/big").await.len(), 900_000);
}

/// The last record of TLS cannot be sent to such a client.
#[tokio::test]
async fn a_client_that_reads_nothing_is_disconnected_from_a_port_with_tls() {
    let dir = tempfile::tempdir().unwrap();
    let [certificate, key] = ["node.pem", "node.key"].map(|name| dir.path().join(name));
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, own.cert.pem()).unwrap();
    std::fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let tls = TlsAcceptor::open(TlsConfig {
        files: TlsFiles { certificate: certificate.clone(), key, ca: None },
        mode: TlsMode::Require,
        client_certificates: ClientCertificates::Ignore,
        min_version: TlsVersion::V13,
    });
    let impatient = ZkConfig { write_timeout: Duration::from_millis(200), ..config() };
    let node = Node::start_with_tls(impatient, tls.unwrap()).await;
    let socket = TcpStream::connect(node.address).await.unwrap();
    let connector = TlsConnector::open(&certificate).unwrap();
    let mut client = connector.connect("localhost", socket).await.unwrap();
    client.write_all(&new_session(10_000).encode()).await.unwrap();
    let create = create_with("/big", 0, &vec![7; 900_000], vec![Acl::open()]);
    for request in std::iter::once(create).chain((0..64).map(|_| get("/big", false))) {
        client.write_all(&encode_request(1, &request).unwrap()).await.unwrap();
    }
    client.flush().await.unwrap();
    let is_closed = || {
        let counts = ["holdfast_zk_connections_dropped_total", "holdfast_zk_connections"];
        counts.map(|name| node.metric(&format!("{name} "))) == ["1", "0"]
    };
    node.until("the connection is closed", is_closed).await;
}

/// The client sets its watches again when it reconnects.
#[tokio::test]
async fn a_client_that_does_not_read_its_events_is_disconnected() {
    let stream = StreamLimits { outbox_max: 8, ..StreamLimits::default() };
    let patient = ZkConfig { write_timeout: Duration::from_mins(1), stream, ..config() };
    let node = Node::start_with(ZkConfig { tick: Duration::from_secs(2), ..patient }).await;
    let (mut lazy, mut busy) = (node.client().await, node.client().await);
    lazy.done(create_with("/big", 0, &vec![7; 900_000], vec![Acl::open()])).await;
    let mode = holdfast_zkwire::AddWatchMode::Persistent;
    lazy.done(Request::AddWatch { path: "/told".to_owned(), mode }).await;
    for _ in 0..32 {
        lazy.send(&get("/big", false)).await;
    }
    busy.create("/told", 0).await;
    // Its socket is full of data, and events are queued behind it.
    let mut told = 0;
    while node.metric("holdfast_zk_connections_dropped_total") == "0" {
        busy.done(set("/told", b"x", -1)).await;
        told += 1;
        assert!(told < 2_000, "events are queued without a bound");
    }
    busy.done(Request::Ping).await;
}

#[tokio::test]
async fn watches_beyond_the_bound_are_refused() {
    let stream = StreamLimits { watches_max: 2, ..StreamLimits::default() };
    let node = Node::start_with(ZkConfig { stream, ..config() }).await;
    let mut client = node.client().await;
    for path in ["/1", "/2"] {
        assert_eq!(client.error(exists(path, true)).await, -101);
    }
    assert_eq!(client.error(exists("/3", true)).await, -125);
    assert_eq!(client.error(exists("/3", false)).await, -101);
}
