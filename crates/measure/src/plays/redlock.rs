//! A majority of the servers restarts without what it knew.

use std::time::Duration;

use super::actors::{HttpCaller, LOCK, client, holdfast, is_assumed, servers};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "redlock",
    question: "What if RedLock's servers restart empty?",
    answer: "Three of five servers that forget a lock grant it to a second client. RedLock's authors advise to keep such a \
             server out for a whole TTL, or to sync each write. A restarted node of holdfast knows all that it acknowledged.",
    acts: &[
        Act::on("RedLock on five servers", &[ServerKind::Redis], |log| Box::pin(on_redlock(log))),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
    ],
};

async fn on_redlock(log: &PlayLog) -> Result<(), String> {
    let mut cluster = servers(log, "redlock").await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let first = web1.acquire(Duration::ZERO).await?;
    let busy = web2.acquire(Duration::from_millis(200)).await?;
    for server in 0..3 {
        cluster.restart(server)?;
    }
    cluster.wait_ready().await?;
    log.note("Redis", "three of five servers are killed and started again");
    let mut web2 = client(log, &cluster, "web2").await?;
    let second = web2.acquire(Duration::from_secs(5)).await?;
    log.verdict(
        is_assumed(first.as_ref()) && busy.is_none() && second.is_some(),
        "two holders: three servers forgot the lock of web1, and they are a majority",
    );
    Ok(())
}

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let mut cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    let first = web1.acquire(LOCK, "attempt=1").await?;
    for node in 0..2 {
        cluster.restart(node)?;
    }
    cluster.wait_ready().await?;
    log.note("nodes", "two of three are killed and started again");
    let second = web2.acquire(LOCK, "attempt=1").await?;
    let holders = web2.read(LOCK).await?.sessions("holders");
    log.verdict(
        first.is_ok() && second.code() == "lock-busy" && holders == ["web1"],
        "one holder: the restarted majority knows the hold of web1",
    );
    Ok(())
}
