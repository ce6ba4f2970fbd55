//! Runs on Redis servers that the tool did not start: single ones, and a group behind Sentinel.

use std::path::Path;
use std::process::{Command, Output};

use holdfast_measure::Records;
use holdfast_measure::adapters::redis::RedisConnection;
use holdfast_measure::record::Row;
use holdfast_measure::servers::{RedisServer, Server, ServerKind, sentinel, url};
use redis::cmd;

use crate::skip::is_here;
use crate::tool::path_with;
use holdfast_lab::{DEADLINE, until};

/// Runs the tool where no server is installed, so that it can start none.
fn compare(place: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_measure"));
    command.args(arguments).arg("--tiny").arg("--out").arg(place.join("rows"));
    command.env("PATH", path_with(place, &["setpriv"])).output().unwrap()
}

async fn server(directory: &Path, follows: Option<&Server>) -> Server {
    let redis = RedisServer::unsynced().unwrap();
    let redis = RedisServer { follows: follows.map(Server::address), ..redis };
    redis.start(directory).await.unwrap()
}

fn given(server: &Server) -> String {
    url(ServerKind::Redis, server.address())
}

async fn info(url: &str) -> String {
    let connection = RedisConnection::open(url).await.unwrap();
    connection.query(cmd("INFO").arg("all")).await.unwrap()
}

/// Returns the failures of a run, and the number of its measurements.
fn measured(place: &Path) -> (Vec<String>, usize) {
    let (mut failures, mut count) = (Vec::new(), 0);
    for row in Records::read(&place.join("rows")).unwrap() {
        let failure = match row {
            Row::Speed(row) => row.failure,
            Row::Fairness(row) => row.failure,
            Row::System(row) => {
                assert!(row.version.ends_with(", not started by this tool"), "{row:?}");
                assert_eq!(row.durability, "appendonly no, appendfsync always");
                continue;
            }
            Row::Run(_)
            | Row::WarmUp(_)
            | Row::ClientLibrary(_)
            | Row::Safety(_)
            | Row::Failover(_)
            | Row::Writers(_)
            | Row::Nodes(_) => {
                continue;
            }
        };
        failures.extend(failure);
        count += 1;
    }
    (failures, count)
}

#[tokio::test]
async fn a_run_uses_servers_that_exist() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut servers = Vec::new();
    for number in 0..3 {
        servers.push(server(&place.path().join(number.to_string()), None).await);
    }
    let urls: Vec<String> = servers.iter().map(given).collect();
    let systems = "redis-set-nx-px,redis-list,redlock";
    for part in ["speed", "fairness"] {
        let ended =
            compare(place.path(), &[part, "--systems", systems, "--redis", &urls.join(",")]);
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let (failures, count) = measured(place.path());
    assert!(failures.is_empty() && count >= 6, "{count} {failures:?}");
    for url in &urls {
        assert!(info(url).await.contains("cmdstat_set:"), "{url} was not used");
    }
}

#[tokio::test]
async fn a_group_behind_sentinel_is_its_current_master() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut master = server(&place.path().join("master"), None).await;
    let replica = server(&place.path().join("replica"), Some(&master)).await;
    until("the replica", DEADLINE, async || {
        info(&given(&master)).await.contains("connected_slaves:1")
    })
    .await;
    let watcher =
        sentinel(&place.path().join("sentinel"), "orders", master.address()).await.unwrap();
    // A sentinel that does not exist is skipped.
    let group = format!("sentinel://127.0.0.1:1,{}/orders", watcher.address());
    let port = |server: &Server| format!("tcp_port:{}", server.address().port());
    assert!(info(&group).await.contains(&port(&master)));

    let arguments = ["speed", "--systems", "redis-set-nx-px", "--redis", &group];
    let ended = compare(place.path(), &arguments);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let (failures, count) = measured(place.path());
    assert!(failures.is_empty() && count > 0, "{count} {failures:?}");

    let sentinel_url = given(&watcher);
    let replicas = async || {
        let sentinel = RedisConnection::open(&sentinel_url).await.unwrap();
        let info: String = sentinel.query(cmd("INFO").arg("sentinel")).await.unwrap();
        info.contains("slaves=1")
    };
    until("the sentinel to know the replica", DEADLINE, replicas).await;
    master.crash();
    until("the promotion", DEADLINE, async || match RedisConnection::open(&group).await {
        Ok(connection) => connection
            .query::<String>(&cmd("INFO"))
            .await
            .is_ok_and(|info| info.contains(&port(&replica)) && info.contains("role:master")),
        Err(_) => false,
    })
    .await;
    let ended = compare(place.path(), &arguments);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_an_error_that_says_what_to_do() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let master = server(&place.path().join("master"), None).await;
    let replica = server(&place.path().join("replica"), Some(&master)).await;
    let watcher =
        sentinel(&place.path().join("sentinel"), "orders", master.address()).await.unwrap();
    let other = format!("sentinel://{}/others", watcher.address());
    for (part, urls, words) in [
        ("speed", "localhost:6379", "write redis://HOST:PORT"),
        ("speed", "redis://:pw@127.0.0.1:1", "--redis: redis://***@127.0.0.1:1: no reply: "),
        ("speed", "redis://127.0.0.1:1", "; start the server, or correct its address"),
        ("speed", &given(&replica), "it is no master; name its master"),
        ("speed", &other, "watches no group `others`"),
        ("safety", &given(&master), "with --redis run `speed`"),
        ("failover", &given(&master), "with --redis run `speed`"),
        ("all", &given(&master), "with --redis run `speed`"),
    ] {
        let ended = compare(place.path(), &[part, "--redis", urls]);
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success() && error.contains(words), "{part} {urls}: {error}");
        assert!(!error.contains("pw"), "{error}");
    }
    assert!(!place.path().join("rows/speed.jsonl").exists(), "nothing was measured");
}
