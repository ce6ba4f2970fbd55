//! The leader is killed while one client holds the lock and others wait.

use std::time::Duration;

use super::actors::{HttpCaller, LOCK, client, granted, holdfast, is_assumed, servers, until_ok};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "leader",
    question: "What if the leader dies while I wait?",
    answer: "The others elect a leader. The hold, its token and the order of the queue stay. A call that waits at another \
             node needs no repetition; one that waited at the dead node is repeated and keeps its place. Without its only \
             server, a Redis lock is out of order, and after a restart forgotten.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
        Act::on("Redis, one server", &[ServerKind::Redis], |log| Box::pin(on_redis(log))),
    ],
};

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let mut cluster = holdfast(log).await?;
    let leader = cluster.leader().await.ok_or("no node leads")?;
    let (left, right) = ((leader + 1) % 3, (leader + 2) % 3);
    let web1 = HttpCaller::new(log, &cluster, "web1", left)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", right)?;
    let web3 = HttpCaller::new(log, &cluster, "web3", leader)?;
    let first = web1.acquire(LOCK, "attempt=1&ttl=30s").await?;
    let second_call = web2.queue(LOCK, "attempt=1&wait=1m&ttl=30s").await?;
    let third_call = web3.queue(LOCK, "attempt=1&wait=1m&ttl=30s").await?;

    cluster.crash(leader);
    log.note("leader", "is killed (SIGKILL); web3 waited there");
    let is_lost = granted(third_call).await.is_err();
    let renewed = until_ok(&web1, LOCK, "attempt=1&ttl=30s").await?;
    log.verdict(
        renewed.token() == first.token() && first.is_ok(),
        "the holder renews at the next leader and keeps its token",
    );

    let web3 = web3.at(&cluster, left)?;
    let third_call = web3.queue(LOCK, "attempt=1&wait=1m&ttl=30s").await?;
    let queue = web1.read(LOCK).await?.sessions("queue");
    log.verdict(
        is_lost && queue == ["web2", "web3"],
        format!("after web3's repetition the queue is still {}", queue.join(", ")),
    );
    web1.release(LOCK, "attempt=1").await?;
    let second = granted(second_call).await?;
    web2.release(LOCK, "attempt=1").await?;
    let third = granted(third_call).await?;
    log.verdict(
        second.token() > first.token() && third.token() > second.token(),
        "both waiters get the lock in their order, with larger tokens; web2 sent one call",
    );
    Ok(())
}

async fn on_redis(log: &PlayLog) -> Result<(), String> {
    let mut cluster = servers(log, "redis-set-nx-px").await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let first = web1.acquire(Duration::ZERO).await?;
    let busy = web2.acquire(Duration::from_millis(200)).await?;
    cluster.crash(0);
    log.note("Redis", "is killed (SIGKILL)");
    let refused = web2.acquire(Duration::from_millis(200)).await.err();
    log.outcome("web2", refused.is_none(), "acquires orders: no reply");
    log.verdict(refused.is_some(), "without the server nobody gets the lock");
    cluster.restart(0)?;
    cluster.wait_ready().await?;
    log.note("Redis", "is started again");
    let mut web2 = client(log, &cluster, "web2").await?;
    let second = web2.acquire(Duration::from_secs(5)).await?;
    log.verdict(
        busy.is_none() && second.is_some() && is_assumed(first.as_ref()),
        "two holders: the server forgot the hold of web1, whose TTL has not passed",
    );
    Ok(())
}
