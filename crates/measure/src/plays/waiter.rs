//! A process that waits in the middle of a queue is killed.

use std::time::{Duration, Instant};

use super::actors::{HttpCaller, LOCK, client, granted, holdfast, servers_with_ttl, until_queued};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "waiter",
    question: "What if a waiter in the middle dies?",
    answer: "A waiter without a session leaves the queue with its connection. A named session may come back, so it keeps its place, \
             and delays the next waiter by at most the rest of its TTL. Behind a dead waiter, Redisson's fair lock stays idle \
             for the lock's TTL and 5 s more.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
        Act::on("Redisson, fair lock", &[ServerKind::Redis], |log| Box::pin(on_redisson(log))),
    ],
};

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web3 = HttpCaller::new(log, &cluster, "web3", 2)?;
    let first = web1.acquire(LOCK, "attempt=1&ttl=30s").await?;
    let mut web2 =
        web3.queued_process(LOCK, "web2", "session=web2&attempt=1&ttl=2s&wait=1m").await?;
    let mut guest = web3.queued_process(LOCK, "guest", "label.name=guest&wait=1m").await?;
    let third_call = web3.queue(LOCK, "attempt=1&wait=1m").await?;
    let full = web1.read(LOCK).await?.number("waiters");

    guest.kill().await.map_err(|error| error.to_string())?;
    log.ends("guest", "is killed (SIGKILL); it had no session");
    let is_gone = web1.until_waiters(LOCK, 2).await?;
    log.verdict(full == Some(3) && is_gone, "its place is gone, and two of three waiters are left");

    let killed = Instant::now();
    web2.kill().await.map_err(|error| error.to_string())?;
    log.note("web2", "is killed (SIGKILL); its session has a TTL of 2 s");
    web1.release(LOCK, "attempt=1").await?;
    let third = granted(third_call).await?;
    let waited = killed.elapsed();
    log.ends("web2", "has lost its session, and its place");
    log.verdict(
        third.token() > first.token() && waited < Duration::from_secs(5),
        format!("the waiter behind it gets the lock after {} ms", waited.as_millis()),
    );
    Ok(())
}

async fn on_redisson(log: &PlayLog) -> Result<(), String> {
    const WAIT: Duration = Duration::from_secs(15);
    let ttl = Duration::from_secs(2);
    let cluster = servers_with_ttl(log, "redisson-fair", ttl).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let first = web1.acquire(Duration::ZERO).await?.ok_or("the lock is not free")?;
    let mut calls = Vec::new();
    for name in ["web2", "web3"] {
        let mut waiter = client(log, &cluster, name).await?;
        log.waits(name, "waits in the queue");
        let queued = calls.len() + 1;
        calls.push(tokio::spawn(async move {
            let held = waiter.acquire(WAIT).await;
            (held, waiter)
        }));
        until_queued(&cluster, queued).await?;
    }
    let (Some(web3), Some(web2)) = (calls.pop(), calls.pop()) else { return Ok(()) };
    web2.abort();
    log.ends("web2", "dies: its connection ends");
    web1.release(first).await?;
    let released = Instant::now();
    let (third, _waiter) = web3.await.map_err(|error| error.to_string())?;
    let idle = released.elapsed();
    log.verdict(
        third?.is_some() && idle >= Duration::from_secs(3),
        format!("the lock is free, and web3 gets it only after {} ms", idle.as_millis()),
    );
    Ok(())
}
