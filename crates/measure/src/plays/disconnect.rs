//! A holder and a waiter lose their connections and come back through other nodes.

use std::time::Duration;

use super::actors::{HttpCaller, LOCK, client, granted, holdfast, servers};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "disconnect",
    question: "What if a client disconnects for a moment and returns?",
    answer: "Its session outlives its connection. The holder keeps its lock and its token, and the waiter keeps its place, \
             through any node. A lock of PostgreSQL ends with its connection.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
        Act::on("PostgreSQL, advisory lock", &[ServerKind::Postgres], |log| {
            Box::pin(on_postgres(log))
        }),
    ],
};

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let (web1, web2) =
        (HttpCaller::new(log, &cluster, "web1", 0)?, HttpCaller::new(log, &cluster, "web2", 1)?);
    let web3 = HttpCaller::new(log, &cluster, "web3", 2)?;
    let first = web1.acquire(LOCK, "attempt=1&ttl=20s").await?;
    let second_call = web2.queue(LOCK, "attempt=1&wait=1m&ttl=20s").await?;
    let third_call = web3.queue(LOCK, "attempt=1&wait=1m&ttl=20s").await?;

    second_call.abort();
    log.note("web2", "loses its connection while it waits");
    let queue = web3.read(LOCK).await?.sessions("queue");
    log.verdict(queue == ["web2", "web3"], format!("the queue is still {}", queue.join(", ")));

    log.note("web1", "loses its connection too, and repeats its call at another node");
    let renewed = web1.at(&cluster, 2)?.acquire(LOCK, "attempt=1&ttl=20s").await?;
    log.verdict(
        first.is_ok() && renewed.is_ok() && renewed.token() == first.token(),
        "the holder has the same hold with the same token",
    );

    let second_call = web2.at(&cluster, 0)?.queue(LOCK, "attempt=1&wait=1m&ttl=20s").await?;
    web1.release(LOCK, "attempt=1").await?;
    let second = granted(second_call).await?;
    let holders = web1.read(LOCK).await?.sessions("holders");
    log.verdict(
        second.token() > first.token() && holders == ["web2"] && !third_call.is_finished(),
        "web2 is next, before web3 that never lost its connection",
    );
    Ok(())
}

async fn on_postgres(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "postgres-advisory").await?;
    let (mut web1, mut web2) =
        (client(log, &cluster, "web1").await?, client(log, &cluster, "web2").await?);
    let first = web1.acquire(Duration::ZERO).await?;
    let busy = web2.acquire(Duration::from_millis(200)).await?;
    drop(web1);
    log.note("web1", "loses its connection, and opens a new one");
    let second = web2.acquire(Duration::from_secs(10)).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    log.verdict(
        first.is_some() && busy.is_none() && second.is_some(),
        "the next client has the lock, although web1 never released it",
    );
    if let Some(held) = first {
        let is_kept = web1.release(held).await?;
        log.verdict(!is_kept, "web1 learns of the loss only at its release");
    }
    Ok(())
}
