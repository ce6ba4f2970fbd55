//! Backups: any node makes them, one at a time, with what was acknowledged before; a slow reader blocks nothing else.

use std::time::Duration;

use holdfast_raft::Backup;
use holdfast_service::ServiceConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::authorization::{as_token, guard, new_token};
use crate::client::{Reply, TIMEOUT, call_with, request};
use crate::node::Node;

const BACKUP: &str = "/v1/cluster/backup";

/// Begins a backup, and returns the connection after the head of the response.
async fn begin(node: &Node) -> TcpStream {
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    stream.write_all(request("GET", BACKUP, &[], "").as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("content-type: application/vnd.holdfast.backup"), "{head}");
    assert!(head.contains("holdfast-revision: "), "{head}");
    stream
}

/// Reads the rest of the response, in chunks.
async fn finish(mut stream: TcpStream) -> Vec<u8> {
    let mut chunked = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut chunked)).await;
    read.expect("the end of the backup").unwrap();
    let (mut rest, mut bytes) = (&chunked[..], Vec::new());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let len = std::str::from_utf8(&rest[..end]).unwrap();
        let len = usize::from_str_radix(len, 16).unwrap();
        rest = &rest[end + 2..];
        if len == 0 {
            return bytes;
        }
        bytes.extend_from_slice(&rest[..len]);
        rest = &rest[len + 2..];
    }
}

#[tokio::test]
async fn every_node_makes_a_backup_with_what_was_acknowledged_before() {
    let nodes = Node::cluster().await;
    for (number, node) in (1..).zip(&nodes) {
        let target = format!("/v1/locks/lock{number}?session=me");
        assert_eq!(nodes[0].call("PUT", &target).await.status, 200);
        let backup = Backup::read(&finish(begin(node).await).await[..]).unwrap();
        assert_eq!(backup.head.cluster, "test");
        assert_eq!(backup.head.node, node.service.node());
        assert_eq!((backup.head.locks_held, backup.head.last_token), (number, number));
    }
}

/// More than the buffers of the sockets.
async fn add_data(node: &Node) {
    let data = "x".repeat(1_000_000);
    for number in 0..24 {
        let target = format!("/v1/tree/big{number}");
        assert_eq!(call_with(node.address, "PUT", &target, &[], &data).await.status, 201);
    }
}

#[tokio::test]
async fn a_backup_that_the_node_ends_early_has_no_end() {
    let node = Node::start().await;
    add_data(&node).await;
    let mut stream = begin(&node).await;
    node.service.drain().await;
    let mut chunked = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut chunked)).await;
    drop(read.expect("the end of the connection"));
    assert!(!chunked.ends_with(b"0\r\n\r\n"), "{} bytes", chunked.len());
}

#[tokio::test]
async fn a_node_makes_one_backup_at_a_time_and_a_reader_that_disconnects_ends_it() {
    let node = Node::start().await;
    add_data(&node).await;
    let first = begin(&node).await;
    let refused = node.call("GET", BACKUP).await.problem(429, "rate-limited");
    assert!(refused["detail"].as_str().unwrap().contains("another backup"), "{refused}");
    // Other calls continue.
    assert_eq!(node.call("PUT", "/v1/locks/a?session=me").await.status, 200);
    drop(first);
    node.until("the next backup", BACKUP, |reply| reply.status == 200).await;
    let second = begin(&node).await;
    let backup = Backup::read(&finish(second).await[..]).unwrap();
    assert_eq!(backup.head.locks_held, 1);
}

#[tokio::test]
async fn only_a_complete_backup_ends_the_alarm_that_one_is_missing() {
    let expected = Some(Duration::from_hours(1));
    let service = ServiceConfig { backup_expected_every: expected, ..ServiceConfig::default() };
    let nodes = Node::cluster_with(&service).await;
    let (leader, follower) = (&nodes[0], &nodes[1]);
    add_data(leader).await;
    let detail = |reply: &Reply| -> Option<String> {
        let alarms = reply.json()["alarms"].as_array().unwrap().clone();
        let of_backup = alarms.iter().find(|alarm| alarm["name"] == "backup-old")?;
        Some(of_backup["detail"].as_str().unwrap().to_owned())
    };
    let missing = Some("no backup, expected every 60 minutes".to_owned());
    assert_eq!(detail(&leader.call("GET", "/v1/alarms").await), missing);
    drop(begin(follower).await);
    // The node begins another backup after the end of the first one. It ends without a reader, too.
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let next = async {
        while follower.service.backup().await.is_err() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(TIMEOUT, next).await.expect("the end of the first backup");
    assert_eq!(detail(&leader.call("GET", "/v1/alarms").await), missing);
    drop(finish(begin(follower).await).await);
    for node in &nodes {
        node.until("no alarm", "/v1/alarms", |reply| detail(reply).is_none()).await;
        let metrics = node.call("GET", "/metrics").await.body;
        let is_set = |line: &str| line.starts_with("holdfast_last_backup_timestamp_seconds 1");
        assert!(metrics.lines().any(is_set), "{metrics}");
    }
}

#[tokio::test]
async fn a_backup_needs_its_own_permission() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    // In every mode, because a backup has what access lists protect.
    for mode in ["off", "shadow", "on"] {
        let target = format!("/v1/auth?mode={mode}");
        assert_eq!(as_token(&node, &tokens.admin, "PATCH", &target, "").await.status, 204);
        assert!([401, 403].contains(&node.call("GET", BACKUP).await.status), "{mode}");
        assert_eq!(as_token(&node, &tokens.admin, "GET", BACKUP, "").await.status, 200, "{mode}");
    }
    for role in ["operator", "viewer"] {
        let target = format!("/v1/auth/subjects/{role}?role={role}");
        assert_eq!(as_token(&node, &tokens.admin, "PUT", &target, "").await.status, 204);
        let (token, _) = new_token(&node, &tokens.admin, role, "").await;
        let refused = as_token(&node, &token, "GET", BACKUP, "").await.problem(403, "forbidden");
        assert_eq!(refused["needed"], "cluster backup");
    }
    let role = r#"{"permission":["cluster backup"]}"#;
    for (target, body) in
        [("/v1/auth/roles/backup", role), ("/v1/auth/subjects/nightly?role=backup", "")]
    {
        assert_eq!(as_token(&node, &tokens.admin, "PUT", target, body).await.status, 204);
    }
    let (token, _) = new_token(&node, &tokens.admin, "nightly", "").await;
    assert_eq!(as_token(&node, &token, "GET", BACKUP, "").await.status, 200);
    as_token(&node, &token, "GET", "/v1/cluster", "").await.problem(403, "forbidden");
}
