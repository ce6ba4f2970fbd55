//! Redlock on five servers: it excludes, survives the loss of two, and loses a held lock with three.

use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_measure::LockError;
use holdfast_measure::adapters::redis::redlock::drift;
use holdfast_measure::adapters::redis::{RedisConnection, Redlock};
use holdfast_measure::catalogue::named;
use holdfast_measure::lock::{LockClient, LockSettings, ServerAddresses};
use holdfast_measure::servers::{Lifetime, RedisServer, Server, ServerKind, url};
use redis::cmd;

use crate::campaign::all_exclude;
use crate::redis::ttl;
use crate::skip::is_here;
use holdfast_lab::DEADLINE;

const NOW: Duration = Duration::ZERO;

async fn five(directory: &Path) -> (Vec<Server>, Vec<String>) {
    let servers = ServerKind::Redis.start(directory, Lifetime::WithParent).await.unwrap();
    let urls = servers.iter().map(|server| url(ServerKind::Redis, server.address())).collect();
    (servers, urls)
}

async fn keys(urls: &[String]) -> u64 {
    let mut keys = 0;
    for url in urls {
        let connection = RedisConnection::open(url).await;
        keys += connection.unwrap().query::<u64>(&cmd("DBSIZE")).await.unwrap();
    }
    keys
}

#[tokio::test(flavor = "multi_thread")]
async fn redlock_excludes_without_faults_and_leaves_no_key_behind() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (servers, urls) = five(directory.path()).await;
    let addresses = ServerAddresses::of(servers.iter().map(Server::address).collect());
    all_exclude(named("redlock"), &addresses).await;
    assert_eq!(keys(&urls).await, 0);
}

#[tokio::test]
async fn redlock_is_valid_for_less_than_its_ttl_and_releases_a_minority() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut servers, urls) = five(directory.path()).await;
    let mut client = Redlock::open(urls.clone(), ttl(10_000)).await.unwrap();
    let before = Instant::now();
    let hold = client.acquire("shelf", NOW).await.unwrap();
    let time = Duration::from_secs(10);
    let valid = time.checked_sub(drift(time)).unwrap();
    assert_eq!(drift(time), Duration::from_millis(102));
    assert!(hold.until.unwrap() >= before + valid);
    assert!(hold.until.unwrap() <= Instant::now() + valid);
    assert_eq!(hold.token, None);
    client.release(hold).await.unwrap();

    drop(servers.pop());
    drop(servers.pop());
    let hold = client.acquire("shelf", NOW).await.unwrap();
    let mut other = Redlock::open(urls.clone(), ttl(10_000)).await.unwrap();
    assert_eq!(other.acquire("shelf", NOW).await, Err(LockError::Busy));
    client.release(hold).await.unwrap();

    // Another client holds the key on one of the three remaining servers: two grants are no majority of five.
    let connection = RedisConnection::open(&urls[0]).await.unwrap();
    connection.query::<()>(cmd("SET").arg("shelf").arg("somebody")).await.unwrap();
    assert_eq!(client.acquire("shelf", NOW).await, Err(LockError::Busy));
    assert_eq!(keys(&urls[1..3]).await, 0, "the granted keys were released");
    drop(servers.pop());
    assert!(matches!(
        Redlock::open(urls.clone(), ttl(10_000)).await,
        Err(LockError::Unreachable(_))
    ));
}

#[tokio::test]
async fn three_servers_that_restart_empty_give_redlock_a_second_holder() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut servers, urls) = five(directory.path()).await;
    let mut client = Redlock::open(urls.clone(), LockSettings::default()).await.unwrap();
    let hold = client.acquire("shelf", NOW).await.unwrap();
    for _ in 0..3 {
        let server = servers.remove(0);
        let again = RedisServer { address: server.address(), ..RedisServer::unsynced().unwrap() };
        let home = server.directory().to_owned();
        drop(server);
        servers.push(again.start(&home).await.unwrap());
    }
    let mut other = Redlock::open(urls.clone(), LockSettings::default()).await.unwrap();
    let second = other.acquire("shelf", DEADLINE).await.unwrap();
    assert!(hold.is_presumed_held() && second.is_presumed_held(), "two holders at once");
}
