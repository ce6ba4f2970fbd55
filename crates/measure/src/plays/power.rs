//! All nodes are killed at once and started again.

use std::time::Duration;

use serde_json::Value;

use super::actors::{HttpCaller, LOCK, client, granted, holdfast, is_assumed, servers};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "power",
    question: "What if all nodes lose power?",
    answer: "Every acknowledged hold, session, token and place in a queue is on the disks of a majority. After the start they \
             are the same, and the next token is larger. Redis keeps a lock only if it syncs every write.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
        Act::on("Redis in memory", &[ServerKind::Redis], |log| {
            Box::pin(on_redis(log, "redis-set-nx-px", false))
        }),
        Act::on("Redis, appendfsync always", &[ServerKind::RedisSynced], |log| {
            Box::pin(on_redis(log, "redis-set-nx-px-always", true))
        }),
    ],
};

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let mut cluster = holdfast(log).await?;
    let callers = ["web1", "web2", "r1", "r2"].map(|name| HttpCaller::new(log, &cluster, name, 0));
    let [web1, web2, r1, r2] = callers;
    let (web1, web2, r1, r2) = (web1?, web2?, r1?, r2?);
    let first = web1.acquire(LOCK, "attempt=1&ttl=30s").await?;
    let call = web2.queue(LOCK, "attempt=1&wait=1m&ttl=30s").await?;
    r1.acquire("page", "mode=shared&attempt=1&ttl=30s").await?;
    let last = r2.acquire("page", "mode=shared&attempt=1&ttl=30s").await?;
    let before = [remembered(&web1, LOCK).await?, remembered(&web1, "page").await?];

    cluster.crash_all();
    log.note("nodes", "all three are killed (SIGKILL)");
    let is_lost = granted(call).await.is_err();
    cluster.restart_all()?;
    cluster.wait_ready().await?;
    log.note("nodes", "all three are started again, and grant locks");
    let after = [remembered(&web1, LOCK).await?, remembered(&web1, "page").await?];
    log.verdict(
        before == after && !before.iter().any(Vec::is_empty),
        "holders, modes, tokens, sessions and the queue are what they were",
    );

    let renewed = web1.acquire(LOCK, "attempt=1&ttl=30s").await?;
    let is_renewal = renewed.body.get("renewed") == Some(&Value::Bool(true));
    let is_same = is_renewal && renewed.token() == first.token();
    log.verdict(is_same, "the holder renews the same hold");
    let call = web2.queue(LOCK, "attempt=1&wait=1m&ttl=30s").await?;
    web1.release(LOCK, "attempt=1").await?;
    let second = granted(call).await?;
    log.verdict(
        is_lost && second.token() > last.token(),
        "the waiter repeats its call and gets the lock with a token larger than every earlier one",
    );
    Ok(())
}

/// What has to survive: of each holder and waiter the session, the mode, the token and the ticket.
async fn remembered(caller: &HttpCaller, lock: &str) -> Result<Vec<[Value; 4]>, String> {
    let seen = caller.read(lock).await?.body;
    let entries = ["holders", "queue"].map(|list| seen.get(list).and_then(Value::as_array));
    let fields = |entry: &Value| {
        ["session", "mode", "token", "ticket"]
            .map(|field| entry.get(field).cloned().unwrap_or_default())
    };
    Ok(entries.into_iter().flatten().flatten().map(fields).collect())
}

async fn on_redis(log: &PlayLog, lock: &str, is_kept: bool) -> Result<(), String> {
    let mut cluster = servers(log, lock).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let first = web1.acquire(Duration::ZERO).await?;
    cluster.crash(0);
    log.note("Redis", "is killed (SIGKILL)");
    cluster.restart(0)?;
    cluster.wait_ready().await?;
    log.note("Redis", "is started again");
    let mut web2 = client(log, &cluster, "web2").await?;
    let second = web2.acquire(Duration::from_millis(500)).await?;
    let claim = if is_kept {
        "the lock is still web1's: each write was on the disk before the reply"
    } else {
        "two holders: the server forgot the hold of web1, whose TTL has not passed"
    };
    log.verdict(is_assumed(first.as_ref()) && second.is_none() == is_kept, claim);
    Ok(())
}
