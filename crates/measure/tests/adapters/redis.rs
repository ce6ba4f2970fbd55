//! Locks on one Redis without Redisson: they exclude, and they fail in their known ways.

use std::path::Path;
use std::time::Duration;

use holdfast_measure::LockError;
use holdfast_measure::adapters::redis::redisson::RedissonLock;
use holdfast_measure::adapters::redis::timeout_repair::{delete_watched, release_watched, watch};
use holdfast_measure::adapters::redis::{
    GetSet, RedisConnection, RedisList, Reentrant, SetNxPx, SetnxExpire, TimeoutRepair,
};
use holdfast_measure::catalogue::{ALL, System, named, writer_named};
use holdfast_measure::lock::{Connector, LockClient, LockSettings, ServerAddresses};
use holdfast_measure::servers::{RedisServer, Server, ServerGroup, ServerKind, url};
use holdfast_measure::wait::Pause;
use redis::cmd;
use tempfile::TempDir;

use crate::campaign::{SharedCounter, all_exclude, clients};
use crate::skip::is_here;
use holdfast_lab::{DEADLINE, until};

const NOW: Duration = Duration::ZERO;

/// A Redis in a separate directory.
pub(crate) struct Scratch {
    pub(crate) server: Server,
    pub(crate) url: String,
    pub(crate) directory: TempDir,
}

impl Scratch {
    /// Starts the server; `None` if this machine has no Redis.
    pub(crate) async fn start() -> Option<Self> {
        if !is_here(ServerKind::Redis) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let server = start_in(&directory.path().join("redis")).await;
        let url = url(ServerKind::Redis, server.address());
        Some(Self { server, url, directory })
    }

    pub(crate) async fn connection(&self) -> RedisConnection {
        RedisConnection::open(&self.url).await.unwrap()
    }

    fn addresses(&self) -> ServerAddresses {
        ServerAddresses::of(vec![self.server.address()])
    }

    pub(crate) fn connector(&self, name: &str, settings: LockSettings) -> Connector {
        named(name).unwrap().connector(self.addresses(), settings)
    }

    /// Returns the remaining milliseconds of a key; −1 without an expiry, −2 for a missing key.
    pub(crate) async fn left_ms(&self, key: &str) -> i64 {
        self.connection().await.query(cmd("PTTL").arg(key)).await.unwrap()
    }
}

pub(crate) async fn start_in(directory: &Path) -> Server {
    RedisServer::unsynced().unwrap().start(directory).await.unwrap()
}

pub(crate) fn ttl(millis: u64) -> LockSettings {
    LockSettings::new(Duration::from_millis(millis))
}

/// The clients of a measured run get the addresses of all five servers.
#[tokio::test(flavor = "multi_thread")]
async fn every_lock_on_one_redis_excludes_without_faults() {
    if !is_here(ServerKind::Redis) {
        return;
    }
    let five = ServerGroup::start(ServerKind::Redis, &std::env::temp_dir()).await.unwrap();
    let first = RedisConnection::open(&url(ServerKind::Redis, five.addresses.nodes[0])).await;
    let one_redis = |system: &&System| system.kind == ServerKind::Redis && !system.is_redlock();
    for system in ALL.iter().filter(one_redis) {
        first.as_ref().unwrap().query::<()>(&cmd("FLUSHALL")).await.unwrap();
        all_exclude([system], &five.addresses).await;
    }
}

#[tokio::test]
async fn a_crash_between_setnx_and_expire_leaves_the_lock_forever() {
    let Some(redis) = Scratch::start().await else { return };
    let crashed = SetnxExpire::new(redis.connection().await, LockSettings::default());
    assert!(crashed.set("shelf").await.unwrap());
    drop(crashed);
    let mut next = SetnxExpire::new(redis.connection().await, LockSettings::default());
    assert_eq!(next.acquire("shelf", NOW).await, Err(LockError::Busy));
    assert_eq!(redis.left_ms("shelf").await, -1, "it has no expiry");
}

#[tokio::test]
async fn a_release_without_an_owner_releases_the_lock_of_another_client() {
    let Some(redis) = Scratch::start().await else { return };
    let system = redis.connector("redis-setnx-expire", ttl(1_000));
    let [mut late, mut second, mut third] = clients(&system).await;
    let late_hold = late.acquire("shelf", NOW).await.unwrap();
    let second_hold = second.acquire("shelf", DEADLINE).await.unwrap();
    late.release(late_hold).await.unwrap();
    let third_hold = third.acquire("shelf", NOW).await.unwrap();
    assert!(second_hold.is_presumed_held() && third_hold.is_presumed_held(), "two holders at once");
}

#[tokio::test]
async fn a_release_with_an_owner_keeps_the_lock_of_another_client() {
    let Some(redis) = Scratch::start().await else { return };
    for name in ["redis-set-nx-px", "redis-timeout-repair", "redis-reentrant-lua"] {
        let system = redis.connector(name, ttl(100));
        let [mut late, mut third] = clients(&system).await;
        let late_hold = late.acquire(name, NOW).await.unwrap();
        until("the end of the first", DEADLINE, async || redis.left_ms(name).await == -2).await;
        let mut second = redis.connector(name, ttl(60_000)).client().await.unwrap();
        let second_hold = second.acquire(name, NOW).await.unwrap();
        let released = late.release(late_hold).await;
        assert!(matches!(released, Err(LockError::Lost(_))), "{name}: {released:?}");
        assert_eq!(third.acquire(name, NOW).await, Err(LockError::Busy), "{name}");
        second.release(second_hold).await.unwrap();
    }
}

#[tokio::test]
async fn a_holder_paused_past_its_ttl_overwrites_the_next_holder() {
    let Some(redis) = Scratch::start().await else { return };
    let system = redis.connector("redis-set-nx-px", ttl(100));
    let ([mut paused, mut next], shelf) = (clients(&system).await, SharedCounter::default());
    let hold = paused.acquire("shelf", NOW).await.unwrap();
    let read_before_the_pause = shelf.read();
    let next_hold = next.acquire("shelf", DEADLINE).await.unwrap();
    shelf.write(shelf.read() + 1);
    shelf.write(read_before_the_pause + 1);
    assert_eq!(shelf.read(), 1, "two pieces were sold, one sale is recorded");
    assert_eq!((hold.token, next_hold.token), (None, None), "no token to compare");
}

#[tokio::test]
async fn the_first_release_frees_every_entry_of_the_reentrant_script() {
    let Some(redis) = Scratch::start().await else { return };
    let mut outer = Reentrant::new(redis.connection().await, LockSettings::default());
    let mut other = Reentrant::new(redis.connection().await, LockSettings::default());
    let first = outer.acquire("shelf", NOW).await.unwrap();
    let second = outer.acquire("shelf", NOW).await.unwrap();
    assert_eq!(other.acquire("shelf", NOW).await, Err(LockError::Busy));
    outer.release(second).await.unwrap();
    let other = other.acquire("shelf", NOW).await.unwrap();
    assert!(first.is_presumed_held() && other.is_presumed_held(), "the outer hold still exists");
}

#[tokio::test]
async fn a_repair_of_a_missing_expiry_also_ends_a_permanent_lock() {
    let Some(redis) = Scratch::start().await else { return };
    let client = async || TimeoutRepair::new(redis.connection().await, ttl(150));
    assert!(client().await.set("crashed").await.unwrap());
    drop(client().await.acquire("crashed", DEADLINE).await.unwrap());

    // A client that sets a key without an expiry on purpose.
    redis.connection().await.query::<()>(cmd("SET").arg("kept").arg("night shift")).await.unwrap();
    let hold = client().await.acquire("kept", DEADLINE).await.unwrap();
    assert!(hold.is_presumed_held(), "the first holder is not notified");
}

#[tokio::test]
async fn a_key_that_changes_between_watch_and_exec_is_not_deleted() {
    let Some(redis) = Scratch::start().await else { return };
    let (holder, other) = (redis.connection().await, redis.connection().await);
    holder.query::<()>(cmd("SET").arg("shelf").arg("we")).await.unwrap();
    assert_eq!(watch(&holder, "shelf", "we").await, Ok(true));
    other.query::<()>(cmd("SET").arg("shelf").arg("they")).await.unwrap();
    assert_eq!(delete_watched(&holder, "shelf").await, Ok(false));
    assert!(!release_watched(&holder, "shelf", "we").await.unwrap());
    let owner: String = other.query(cmd("GET").arg("shelf")).await.unwrap();
    assert_eq!(owner, "they");
    assert!(release_watched(&other, "shelf", "they").await.unwrap());
}

#[tokio::test]
async fn clocks_that_differ_give_the_getset_lock_two_holders() {
    let Some(redis) = Scratch::start().await else { return };
    let ahead = LockSettings { clock_offset_ms: 31_000, ..LockSettings::default() };
    let mut right = GetSet::new(redis.connection().await, LockSettings::default());
    let mut ahead = GetSet::new(redis.connection().await, ahead);
    let hold = right.acquire("shelf", NOW).await.unwrap();
    let other = ahead.acquire("shelf", NOW).await.unwrap();
    assert!(hold.is_presumed_held() && other.is_presumed_held(), "two holders at once");
}

#[tokio::test]
async fn a_polling_waiter_attempts_in_vain_and_may_be_overtaken() {
    let Some(redis) = Scratch::start().await else { return };
    let slow = Pause { min: DEADLINE, max: DEADLINE };
    let slow = LockSettings { pause: slow, ..LockSettings::default() };
    let mut holder = SetNxPx::new(redis.connection().await, LockSettings::default());
    let waiting = redis.connection().await;
    let mut waiter = SetNxPx::new(waiting.clone(), slow);
    let hold = holder.acquire("shelf", NOW).await.unwrap();
    let waits = tokio::spawn(async move { waiter.acquire("shelf", DEADLINE * 2).await });
    until("the waiter's first attempt", DEADLINE, async || waiting.usage().polls == 1).await;
    holder.release(hold).await.unwrap();
    let mut late = SetNxPx::new(redis.connection().await, LockSettings::default());
    assert!(late.acquire("shelf", NOW).await.is_ok(), "the last caller is first");
    assert!(!waits.is_finished());
    waits.abort();
}

#[tokio::test]
async fn without_its_only_server_no_client_acquires_or_releases() {
    let Some(redis) = Scratch::start().await else { return };
    let mut holder = SetNxPx::new(redis.connection().await, LockSettings::default());
    let hold = holder.acquire("shelf", NOW).await.unwrap();
    let system = redis.connector("redis-set-nx-px", LockSettings::default());
    drop(redis.server);
    assert!(matches!(holder.release(hold).await, Err(LockError::Unreachable(_))));
    assert!(matches!(system.client().await.err(), Some(LockError::Unreachable(_))));
}

#[tokio::test]
async fn a_dead_client_in_the_list_blocks_all_behind_it() {
    let Some(redis) = Scratch::start().await else { return };
    let observer = redis.connection().await;
    let ids = async || -> Vec<String> {
        observer.query(cmd("LRANGE").arg("shelf").arg(0).arg(-1)).await.unwrap()
    };
    let open = async || RedisList::new(redis.connection().await, LockSettings::default());
    let (mut holder, mut dead, mut next) = (open().await, open().await, open().await);
    let hold = holder.acquire("shelf", NOW).await.unwrap();
    let waits = tokio::spawn(async move { dead.acquire("shelf", DEADLINE * 2).await });
    until("the waiter in the list", DEADLINE, async || ids().await.len() == 2).await;
    // The task ends with its connection, as a process that is killed.
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    holder.release(hold).await.unwrap();

    let short = Duration::from_millis(300);
    assert_eq!(next.acquire("shelf", short).await, Err(LockError::Busy), "nobody holds the lock");
    let left = ids().await;
    assert_eq!((left.len(), redis.left_ms("shelf").await), (1, -1), "the dead waiter, forever");
    observer.query::<()>(cmd("LREM").arg("shelf").arg(1).arg(&left[0])).await.unwrap();
    let dies = next.acquire("shelf", DEADLINE).await.unwrap();
    drop(next);
    assert!(dies.is_presumed_held(), "a dead holder has no end either");
    assert_eq!(holder.acquire("shelf", short).await, Err(LockError::Busy));
}

/// Returns how often a server has run `SET`.
async fn sets(connection: &RedisConnection) -> u64 {
    let info: String = connection.query(cmd("INFO").arg("commandstats")).await.unwrap();
    let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_set:calls="));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_spinning_waiter_keeps_the_server_busy_and_a_subscribed_one_does_not() {
    const ATTEMPTS: u64 = 2_000;
    let Some(redis) = Scratch::start().await else { return };
    let mut holder = redis.connector("redisson-lock", ttl(60_000)).client().await.unwrap();
    let _hold = holder.acquire("quiet", NOW).await.unwrap();
    let subscribed = redis.connection().await;
    let mut waiter = RedissonLock::new(subscribed.clone(), ttl(60_000));
    let quiet = tokio::spawn(async move { waiter.acquire("quiet", DEADLINE * 2).await });
    until("the subscription", DEADLINE, async || subscribed.usage().round_trips >= 3).await;

    let spin = redis.connector("redis-spin", ttl(60_000));
    let [mut spinning_holder, mut spinning] = clients(&spin).await;
    let hold = spinning_holder.acquire("spun", NOW).await.unwrap();
    let before = sets(&redis.connection().await).await;
    let spins = tokio::spawn(async move { spinning.acquire("spun", DEADLINE * 2).await });
    until("the attempts of one waiter", DEADLINE, async || {
        sets(&redis.connection().await).await - before >= ATTEMPTS
    })
    .await;
    let asked = subscribed.usage().round_trips;
    assert!(asked <= 5, "{asked} requests of the subscribed waiter");
    spinning_holder.release(hold).await.unwrap();
    assert!(spins.await.unwrap().is_ok(), "a spinning waiter gets the lock at last");
    quiet.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_a_watched_key_lose_nothing_and_repeat() {
    const CHANGES: u64 = 20;
    let Some(redis) = Scratch::start().await else { return };
    let system = writer_named("redis-watch").unwrap();
    let connector = system.connector(redis.addresses(), LockSettings::default());
    let [mut first, mut second] = clients(&connector).await;
    let (one, two) =
        (first.acquire("n", NOW).await.unwrap(), second.acquire("n", NOW).await.unwrap());
    assert_eq!(second.release(two).await, Ok(()), "the lock excludes nobody");
    assert!(matches!(first.release(one).await, Err(LockError::Lost(_))), "the later write fails");
    let writers: [Box<dyn LockClient>; 8] = clients(&connector).await;
    let writing = writers.map(|mut writer| {
        tokio::spawn(async move {
            let mut changed = 0;
            while changed < CHANGES {
                let held = writer.acquire("n", NOW).await.unwrap();
                changed += u64::from(writer.release(held).await.is_ok());
            }
        })
    });
    for writer in writing {
        writer.await.unwrap();
    }
    let value: u64 = redis.connection().await.query(cmd("GET").arg("n")).await.unwrap();
    assert_eq!(value, 1 + 8 * CHANGES);
}
