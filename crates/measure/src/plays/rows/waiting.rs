//! Rows about waiting: timeouts, polling, and a list as a queue.

use std::time::{Duration, Instant};

use redis::cmd;

use super::{WAIT, grant, text, waiting};
use crate::adapters::redis::SetNxPx;
use crate::lock::LockSettings;
use crate::plays::actors::{
    HttpCaller, LOCK, PlayClient, client, granted, holdfast, redis, servers,
};
use crate::plays::{Act, Play, PlayLog};
use crate::servers::ServerKind;
use crate::wait::{Pause, poll_until};

const REDIS: &[ServerKind] = &[ServerKind::Redis];
const STEP: Duration = Duration::from_millis(10);
const SHORT: Duration = Duration::from_millis(500);

pub(super) const TIMEOUT: Play = Play {
    name: "21",
    question: "Acquire with a timeout",
    answer: "An acquire ends at the grant, or at its deadline.",
    acts: &[Act::on("Redis, SET NX PX", REDIS, |log| Box::pin(timeout(log)))],
};

pub(super) const POLLING: Play = Play {
    name: "25",
    question: "Polling",
    answer: "A client that polls asks in vain, and a later client can overtake it in its pause. A waiter of holdfast asks once, \
             and keeps its place.",
    acts: &[
        Act::on("Redis, SET NX PX", REDIS, |log| Box::pin(polling(log))),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(queued(log))),
    ],
};

pub(super) const LIST: Play = Play {
    name: "26",
    question: "A list as a queue",
    answer: "A dead client in the list blocks all behind it forever. A waiter of holdfast leaves the queue with its connection or \
             its session.",
    acts: &[
        Act::on("Redis, a list", REDIS, |log| Box::pin(list(log))),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(dead_waiter(log))),
    ],
};

async fn timeout(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "redis-set-nx-px").await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let first = web1.acquire(Duration::ZERO).await?.ok_or("the lock is not free")?;
    let began = Instant::now();
    let busy = web2.acquire(SHORT).await?;
    let waited = began.elapsed();
    let call = waiting(web2);
    log.waits("web2", "waits for at most 30 s");
    web1.release(first).await?;
    let (second, _web2) = grant(call).await?;
    log.verdict(
        busy.is_none() && waited >= SHORT,
        format!("an acquire with 500 ms ends in vain after {} ms", waited.as_millis()),
    );
    log.verdict(second.is_some(), "an acquire with 30 s ends at the grant");
    Ok(())
}

async fn polling(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "redis-set-nx-px").await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web3 = client(log, &cluster, "web3").await?;
    let first = web1.acquire(Duration::ZERO).await?.ok_or("the lock is not free")?;
    // The first pause is short, and then the client is in a long one.
    let connection = redis(&cluster).await?;
    let pause = Pause { min: WAIT, max: WAIT };
    let settings = LockSettings { pause, ..LockSettings::default() };
    let web2 = PlayClient::of(log, "web2", Box::new(SetNxPx::new(connection.clone(), settings)));
    let call = waiting(web2);
    let has_asked = poll_until(WAIT, STEP, async || connection.usage().polls == 1).await;
    log.outcome("web2", false, "SET orders NX: pauses, and will ask again");
    web1.release(first).await?;
    let third = web3.acquire(Duration::ZERO).await?;
    let is_waiting = !call.is_finished();
    call.abort();
    log.verdict(
        has_asked && is_waiting && third.is_some(),
        "web3, the last caller, gets the lock: web2 asked in vain and is in its pause",
    );
    Ok(())
}

async fn queued(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    let web3 = HttpCaller::new(log, &cluster, "web3", 2)?;
    web1.acquire(LOCK, "attempt=1").await?;
    let second_call = web2.queue(LOCK, "attempt=1&wait=1m").await?;
    let third_call = web3.queue(LOCK, "attempt=1&wait=1m").await?;
    web1.release(LOCK, "attempt=1").await?;
    let second = granted(second_call).await?;
    let is_behind = !third_call.is_finished();
    web2.release(LOCK, "attempt=1").await?;
    let third = granted(third_call).await?;
    log.verdict(
        second.is_ok() && is_behind && third.token() > second.token(),
        "one call each: web2 gets the lock, and then web3",
    );
    Ok(())
}

async fn list(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "redis-list").await?;
    let connection = redis(&cluster).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let first = web1.acquire(Duration::ZERO).await?.ok_or("the lock is not free")?;
    let call = waiting(client(log, &cluster, "web2").await?);
    let is_queued = poll_until(WAIT, STEP, async || {
        connection.query::<u64>(cmd("LLEN").arg(LOCK)).await == Ok(2)
    });
    if !is_queued.await {
        return Err("web2 does not get into the list".to_owned());
    }
    log.waits("web2", "RPUSH orders: waits");
    call.abort();
    // The client has ended, and with it its connection.
    drop(call.await);
    log.ends("web2", "dies: its connection ends, its place stays");
    web1.release(first).await?;
    let mut web3 = client(log, &cluster, "web3").await?;
    let third = web3.acquire(Duration::from_secs(3)).await?;
    let len: u64 = connection.query(cmd("LLEN").arg(LOCK)).await.map_err(text)?;
    let left: i64 = connection.query(cmd("PTTL").arg(LOCK)).await.map_err(text)?;
    log.note("Redis", format!("LLEN orders: {len}; PTTL orders: {left}"));
    log.verdict(
        third.is_none() && (len, left) == (1, -1),
        "nobody holds the lock, nobody gets it, and the place of web2 has no expiry",
    );
    Ok(())
}

async fn dead_waiter(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web3 = HttpCaller::new(log, &cluster, "web3", 2)?;
    web1.acquire(LOCK, "attempt=1").await?;
    let mut web2 = web3.queued_process(LOCK, "web2", "label.name=web2&wait=1m").await?;
    let call = web3.queue(LOCK, "attempt=1&wait=1m").await?;
    web2.kill().await.map_err(text)?;
    log.ends("web2", "is killed (SIGKILL)");
    web1.release(LOCK, "attempt=1").await?;
    let third = granted(call).await?;
    log.verdict(third.is_ok(), "web3 gets the lock: the dead waiter has left the queue");
    Ok(())
}
