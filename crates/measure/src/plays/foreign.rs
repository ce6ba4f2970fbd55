//! A client that was slow releases the lock, although it is already the lock of another client.

use std::time::Duration;

use super::actors::{HttpCaller, LOCK, client, granted, holdfast, is_assumed, servers_with_ttl};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "foreign-del",
    question: "What if a late DEL hits the lock of another client?",
    answer: "A DEL without a comparison frees the lock of the next holder, and a third client joins it. A release of holdfast \
             names its session and its attempt: after a loss it is rejected and changes nothing.",
    acts: &[
        Act::on("Redis, SETNX, EXPIRE and DEL", &[ServerKind::Redis], |log| {
            Box::pin(on_redis(log))
        }),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
    ],
};

async fn on_redis(log: &PlayLog) -> Result<(), String> {
    let ttl = Duration::from_secs(2);
    let cluster = servers_with_ttl(log, "redis-setnx-expire", ttl).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let mut web3 = client(log, &cluster, "web3").await?;
    let first = web1.acquire(Duration::ZERO).await?.ok_or("the lock is not free")?;
    log.note("web1", "is slow: its TTL passes");
    let second = web2.acquire(Duration::from_secs(5)).await?;
    web1.release(first).await?;
    let third = web3.acquire(Duration::ZERO).await?;
    log.verdict(
        is_assumed(second.as_ref()) && is_assumed(third.as_ref()),
        "two holders: the late DEL of web1 freed the lock of web2",
    );
    Ok(())
}

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    let web3 = HttpCaller::new(log, &cluster, "web3", 2)?;
    web1.acquire(LOCK, "attempt=1&ttl=2s").await?;
    log.note("web1", "is slow: its TTL passes");
    let second = granted(web2.queue(LOCK, "attempt=1&wait=1m").await?).await?;
    let late = web1.release(LOCK, "attempt=1").await?;
    let third = web3.acquire(LOCK, "attempt=1").await?;
    let holders = web2.read(LOCK).await?.sessions("holders");
    log.verdict(
        second.is_ok() && !late.is_ok() && third.code() == "lock-busy" && holders == ["web2"],
        format!("one holder: the late release gets {} {}", late.status, late.code()),
    );
    Ok(())
}
