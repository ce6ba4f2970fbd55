//! Locks in the manner of Redisson: their additions to Redis, and their remaining limitations.

use std::sync::Arc;
use std::time::Duration;

use holdfast_measure::LockError;
use holdfast_measure::adapters::redis::RedisConnection;
use holdfast_measure::adapters::redis::redisson::{
    RedissonFair, RedissonLatch, RedissonLock, RedissonMultiLock, RedissonPermits,
    RedissonReadWrite, RedissonSemaphore,
};
use holdfast_measure::lock::{LockClient, LockSettings};
use holdfast_measure::servers::relay::Relay;
use holdfast_measure::servers::{RedisServer, ServerKind, url};
use redis::cmd;
use tokio::net::TcpStream;

use crate::redis::{Scratch, start_in, ttl};
use holdfast_lab::{DEADLINE, until};

const NOW: Duration = Duration::ZERO;

async fn redisson(redis: &Scratch, settings: LockSettings) -> RedissonLock {
    RedissonLock::new(redis.connection().await, settings)
}

#[tokio::test]
async fn re_entries_are_counted_and_the_last_release_frees_the_lock() {
    let Some(redis) = Scratch::start().await else { return };
    let (mut owner, mut other) =
        (redisson(&redis, ttl(30_000)).await, redisson(&redis, ttl(30_000)).await);
    let (first, second) =
        (owner.acquire("shelf", NOW).await.unwrap(), owner.acquire("shelf", NOW).await.unwrap());
    owner.release(second).await.unwrap();
    assert_eq!(other.acquire("shelf", NOW).await, Err(LockError::Busy));
    owner.release(first.clone()).await.unwrap();
    let hold = other.acquire("shelf", NOW).await.unwrap();
    assert!(matches!(owner.release(first).await, Err(LockError::Lost(_))));
    other.release(hold).await.unwrap();
}

#[tokio::test]
async fn the_watchdog_renews_the_lock_of_hanging_work_forever() {
    let Some(redis) = Scratch::start().await else { return };
    let mut hangs = redisson(&redis, ttl(150)).await;
    drop(hangs.acquire("shelf", NOW).await.unwrap());
    // The renewal interval is a third of the TTL, so nine renewals are three TTLs.
    until("nine renewals", DEADLINE, async || {
        hangs.watchdog().is_some_and(|dog| dog.renewals() >= 9)
    })
    .await;
    assert_eq!(redisson(&redis, ttl(150)).await.acquire("shelf", NOW).await, Err(LockError::Busy));
}

#[tokio::test]
async fn a_paused_process_loses_the_lock_without_detecting_it() {
    let Some(redis) = Scratch::start().await else { return };
    let (mut frozen, mut next) =
        (redisson(&redis, ttl(150)).await, redisson(&redis, ttl(150)).await);
    let hold = frozen.acquire("shelf", NOW).await.unwrap();
    frozen.freeze();
    let other = next.acquire("shelf", DEADLINE).await.unwrap();
    assert!(hold.is_presumed_held() && other.is_presumed_held(), "two holders at once");
    assert_eq!((hold.token, other.token), (None, None));
}

#[tokio::test]
async fn every_release_wakes_all_waiters() {
    let Some(redis) = Scratch::start().await else { return };
    let mut holder = redisson(&redis, ttl(30_000)).await;
    let hold = holder.acquire("shelf", NOW).await.unwrap();
    let (mut connections, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let connection = redis.connection().await;
        let mut waiter = RedissonLock::new(connection.clone(), ttl(30_000));
        connections.push(connection);
        waits.push(tokio::spawn(async move {
            // The winner keeps the lock: the others woke in vain.
            drop(waiter.acquire("shelf", DEADLINE).await);
            std::future::pending::<()>().await;
            drop(waiter);
        }));
    }
    // Each waiter attempted, subscribed, and attempted again.
    until("four subscribers", DEADLINE, async || {
        let subscribers: (String, u64) = {
            let ask = redis.connection().await;
            ask.query(cmd("PUBSUB").arg("NUMSUB").arg("holdfast-measure-channel:{shelf}"))
                .await
                .unwrap()
        };
        subscribers.1 == 4
            && connections.iter().all(|connection| connection.usage().round_trips >= 3)
    })
    .await;
    holder.release(hold).await.unwrap();
    until("all four to wake", DEADLINE, async || {
        connections.iter().all(|connection| connection.usage().wakeups == 1)
    })
    .await;
    assert!(connections.iter().all(|connection| connection.usage().polls == 0), "no client polled");
    waits.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_dead_waiter_delays_the_fair_lock_until_its_deadline() {
    let Some(redis) = Scratch::start().await else { return };
    let client = async || {
        let fair = RedissonFair::new(redis.connection().await, ttl(3_000));
        fair.dead_after(Duration::from_secs(3))
    };
    let (mut holder, mut dead, mut next) = (client().await, client().await, client().await);
    let hold = holder.acquire("shelf", NOW).await.unwrap();
    // The waiter dies in the queue without leaving it.
    let waits = tokio::spawn(async move { dead.acquire("shelf", DEADLINE).await });
    let queue_len = async || {
        let ask = redis.connection().await;
        ask.query::<u64>(cmd("LLEN").arg("holdfast-measure-queue:{shelf}")).await.unwrap()
    };
    until("the waiter in the queue", DEADLINE, async || queue_len().await == 1).await;
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    holder.release(hold).await.unwrap();
    assert_eq!(redis.left_ms("shelf").await, -2, "the lock is free");
    assert_eq!(next.acquire("shelf", NOW).await, Err(LockError::Busy), "the lock is not granted");
    drop(next.acquire("shelf", DEADLINE).await.unwrap());
}

#[tokio::test]
async fn the_fair_lock_grants_in_the_order_of_the_queue() {
    let Some(redis) = Scratch::start().await else { return };
    let mut holder = RedissonFair::new(redis.connection().await, ttl(30_000));
    let hold = holder.acquire("shelf", NOW).await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waits = Vec::new();
    for number in 0..4_u64 {
        let mut waiter = RedissonFair::new(redis.connection().await, ttl(30_000));
        let order = Arc::clone(&order);
        waits.push(tokio::spawn(async move {
            let hold = waiter.acquire("shelf", DEADLINE).await.unwrap();
            order.lock().unwrap().push(number);
            waiter.release(hold).await.unwrap();
        }));
        until("the waiter in the queue", DEADLINE, async || {
            let ask = redis.connection().await;
            let len: u64 =
                ask.query(cmd("LLEN").arg("holdfast-measure-queue:{shelf}")).await.unwrap();
            len == number + 1
        })
        .await;
    }
    holder.release(hold).await.unwrap();
    for wait in waits {
        wait.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn readers_share_the_lock_and_a_stream_of_readers_starves_a_writer() {
    let Some(redis) = Scratch::start().await else { return };
    let client = async || RedissonReadWrite::new(redis.connection().await, ttl(30_000));
    let (mut first, mut second, mut writer) = (client().await, client().await, client().await);
    let mut reads = first.read("shelf").await.unwrap();
    for _ in 0..3 {
        assert_eq!(writer.acquire("shelf", NOW).await, Err(LockError::Busy));
        let next = second.read("shelf").await.unwrap();
        first.release(reads).await.unwrap();
        std::mem::swap(&mut first, &mut second);
        reads = next;
    }
    first.release(reads).await.unwrap();
    let write = writer.acquire("shelf", NOW).await.unwrap();
    assert_eq!(first.read("shelf").await, Err(LockError::Busy));
    writer.release(write).await.unwrap();
}

#[tokio::test]
async fn a_semaphore_accepts_excess_releases_and_never_recovers_the_permits_of_a_dead_holder() {
    let Some(redis) = Scratch::start().await else { return };
    let semaphore = RedissonSemaphore::new(redis.connection().await, 2);
    semaphore.acquire_permits("permits", 2).await.unwrap();
    assert_eq!(semaphore.acquire_permits("permits", 1).await, Err(LockError::Busy));
    assert_eq!(semaphore.release_permits("permits", 5).await, Ok(5), "two were acquired");
    RedissonSemaphore::new(redis.connection().await, 1).acquire_permits("crash", 1).await.unwrap();
    assert_eq!(redis.left_ms("crash").await, -1, "the death of the holder is not detected");
    assert_eq!(
        RedissonSemaphore::new(redis.connection().await, 1).acquire_permits("crash", 1).await,
        Err(LockError::Busy)
    );
}

#[tokio::test]
async fn a_fast_clock_acquires_a_permit_in_use() {
    let Some(redis) = Scratch::start().await else { return };
    let ahead = LockSettings { clock_offset_ms: 31_000, ..ttl(30_000) };
    let mut right = RedissonPermits::new(redis.connection().await, ttl(30_000), 1);
    let mut ahead = RedissonPermits::new(redis.connection().await, ahead, 1);
    let hold = right.acquire("permit", NOW).await.unwrap();
    let other = ahead.acquire("permit", NOW).await.unwrap();
    assert!(hold.is_presumed_held() && other.is_presumed_held(), "one permit, two holders");
    assert!(matches!(right.release(hold).await, Err(LockError::Lost(_))));
}

#[tokio::test]
async fn a_latch_opens_at_zero_and_counts_a_repeated_countdown_twice() {
    let Some(redis) = Scratch::start().await else { return };
    let latch = RedissonLatch::new(redis.connection().await, "start");
    assert!(latch.set(2).await.unwrap());
    assert!(!latch.set(5).await.unwrap());
    assert_eq!(latch.wait(NOW).await, Err(LockError::Busy));
    let waiting = RedissonLatch::new(redis.connection().await, "start");
    let waits = tokio::spawn(async move { waiting.wait(DEADLINE).await });
    // One worker, whose first reply was lost.
    assert_eq!(latch.count_down().await, Ok(1));
    assert_eq!(latch.count_down().await, Ok(0));
    assert_eq!(waits.await.unwrap(), Ok(()), "the other worker has not counted down");
}

#[tokio::test]
async fn a_multi_lock_is_visible_while_partially_acquired_and_releases_its_locks() {
    let Some(redis) = Scratch::start().await else { return };
    let mut holder = redisson(&redis, ttl(30_000)).await;
    let hold = holder.acquire("second", NOW).await.unwrap();
    let members = vec![
        (redisson(&redis, ttl(30_000)).await, "first".to_owned()),
        (redisson(&redis, ttl(30_000)).await, "second".to_owned()),
    ];
    let mut both = RedissonMultiLock::new(members);
    let waits = tokio::spawn(async move {
        let taken = both.acquire(Duration::from_secs(2)).await;
        (both, taken)
    });
    let mut other = redisson(&redis, ttl(30_000)).await;
    until("the first to be taken alone", DEADLINE, async || {
        redis.connection().await.query::<bool>(cmd("EXISTS").arg("first")).await.unwrap()
    })
    .await;
    let (mut both, taken) = waits.await.unwrap();
    assert_eq!(taken, Err(LockError::Busy));
    let first = other.acquire("first", NOW).await.unwrap();
    other.release(first).await.unwrap();
    holder.release(hold).await.unwrap();
    let holds = both.acquire(NOW).await.unwrap();
    assert_eq!(holds.len(), 2);
    both.release(holds).await.unwrap();
}

#[tokio::test]
async fn a_failover_to_a_stale_replica_loses_the_lock() {
    let Some(first) = Scratch::start().await else { return };
    let link = Relay::to(first.server.address()).await.unwrap();
    let replica = RedisServer { follows: Some(link.address()), ..RedisServer::unsynced().unwrap() };
    let replica = replica.start(&first.directory.path().join("replica")).await.unwrap();
    let connection =
        RedisConnection::open(&url(ServerKind::Redis, replica.address())).await.unwrap();
    first.connection().await.query::<()>(cmd("SET").arg("proof").arg(1)).await.unwrap();
    until("the replica to follow", DEADLINE, async || {
        connection.query::<bool>(cmd("EXISTS").arg("proof")).await.unwrap_or(false)
    })
    .await;

    link.cut();
    let mut holder = redisson(&first, ttl(30_000)).await;
    let hold = holder.acquire("shelf", NOW).await.unwrap();
    drop(first.server);
    connection.query::<()>(cmd("REPLICAOF").arg("NO").arg("ONE")).await.unwrap();
    let mut next = RedissonLock::new(connection, ttl(30_000));
    let other = next.acquire("shelf", NOW).await.unwrap();
    assert!(hold.is_presumed_held() && other.is_presumed_held(), "two holders at once");
}

#[tokio::test]
async fn the_servers_of_a_test_end_with_it() {
    let Some(redis) = Scratch::start().await else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = start_in(directory.path()).await;
    let address = server.address();
    assert!(TcpStream::connect(address).await.is_ok());
    drop(server);
    assert!(TcpStream::connect(address).await.is_err());
    assert!(TcpStream::connect(redis.server.address()).await.is_ok());
}
