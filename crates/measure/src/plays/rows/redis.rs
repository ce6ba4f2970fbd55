//! Rows about the commands and scripts of locks on one Redis.

use std::time::Duration;

use redis::cmd;

use super::{WAIT, text};
use crate::adapters::redis::timeout_repair::{delete_watched, watch};
use crate::plays::actors::{
    HttpCaller, LOCK, client, holdfast, is_assumed, redis, servers, servers_with_ttl,
};
use crate::plays::{Act, Play, PlayLog};
use crate::servers::ServerKind;

const REDIS: &[ServerKind] = &[ServerKind::Redis];

pub(super) const SET_NX_PX: Play = Play {
    name: "17",
    question: "SET … NX PX",
    answer: "One command sets the owner and the expiry. The key is rejected while it exists, and free after its TTL.",
    acts: &[Act::on("Redis, SET NX PX", REDIS, |log| Box::pin(set_nx_px(log)))],
};

pub(super) const COMPARE_AND_DELETE: Play = Play {
    name: "19",
    question: "Compare and delete in Lua",
    answer: "The script deletes the key only if it has the caller's random value, in one step: a late release changes nothing.",
    acts: &[Act::on("Redis, SET NX PX and the script", REDIS, |log| {
        Box::pin(compare_and_delete(log))
    })],
};

pub(super) const UNCOUNTED_REENTRY: Play = Play {
    name: "20",
    question: "A reentrant script without a count",
    answer: "The first release frees every acquire: another client gets the lock while the outer part still works. holdfast counts \
             in the server.",
    acts: &[
        Act::on("Redis, a reentrant script", REDIS, |log| Box::pin(uncounted_reentry(log))),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(counted_reentry(log))),
    ],
};

pub(super) const REPAIRED_EXPIRY: Play = Play {
    name: "22",
    question: "Repair of a missing expiry",
    answer: "A waiter cannot know why a key has no expiry: its repair also ends a lock that was meant to be permanent.",
    acts: &[Act::on("Redis, SETNX with repair", REDIS, |log| Box::pin(repaired_expiry(log)))],
};

pub(super) const WATCHED_KEY: Play = Play {
    name: "23",
    question: "WATCH, MULTI, EXEC",
    answer: "EXEC does nothing if another client has set the key since WATCH: the key of the new owner stays.",
    acts: &[Act::on("Redis, WATCH", REDIS, |log| Box::pin(watched_key(log)))],
};

async fn set_nx_px(log: &PlayLog) -> Result<(), String> {
    let cluster = servers_with_ttl(log, "redis-set-nx-px", Duration::from_secs(2)).await?;
    let connection = redis(&cluster).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let first = web1.acquire(Duration::ZERO).await?;
    let left: i64 = connection.query(cmd("PTTL").arg(LOCK)).await.map_err(text)?;
    log.note("Redis", format!("PTTL orders: {left}"));
    let busy = web2.acquire(Duration::ZERO).await?;
    log.note("web1", "dies, and never calls again");
    let second = web2.acquire(WAIT).await?;
    log.verdict(
        first.is_some() && left > 0 && busy.is_none() && second.is_some(),
        "the key has its expiry from the first moment, is rejected while it exists, and free after its TTL",
    );
    Ok(())
}

async fn compare_and_delete(log: &PlayLog) -> Result<(), String> {
    let cluster = servers_with_ttl(log, "redis-set-nx-px", Duration::from_secs(2)).await?;
    let connection = redis(&cluster).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let mut web3 = client(log, &cluster, "web3").await?;
    let first = web1.acquire(Duration::ZERO).await?.ok_or("the lock is not free")?;
    log.note("web1", "is slow: its TTL passes");
    let second = web2.acquire(WAIT).await?.ok_or("web2 does not get the lock")?;
    let is_released = web1.release(first).await?;
    let owner: Option<String> = connection.query(cmd("GET").arg(LOCK)).await.map_err(text)?;
    let third = web3.acquire(Duration::ZERO).await?;
    log.verdict(
        !is_released && owner.as_ref() == Some(&second.owner) && third.is_none(),
        "the late script of web1 deletes nothing: the key still has the value of web2",
    );
    Ok(())
}

async fn uncounted_reentry(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "redis-reentrant-lua").await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let outer = web1.acquire(Duration::ZERO).await?;
    let inner = web1.acquire(Duration::ZERO).await?.ok_or("the script is not reentrant")?;
    let busy = web2.acquire(Duration::ZERO).await?;
    web1.release(inner).await?;
    let second = web2.acquire(Duration::ZERO).await?;
    log.verdict(
        is_assumed(outer.as_ref()) && busy.is_none() && second.is_some(),
        "two holders: one release freed both acquires of web1",
    );
    Ok(())
}

async fn counted_reentry(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    web1.acquire(LOCK, "attempt=1").await?;
    let inner = web1.acquire(LOCK, "attempt=2").await?;
    web1.release_attempt(LOCK, "attempt=2").await?;
    let busy = web2.acquire(LOCK, "attempt=1").await?;
    web1.release(LOCK, "attempt=1").await?;
    let second = web2.acquire(LOCK, "attempt=2").await?;
    log.verdict(
        inner.number("hold_count") == Some(2) && busy.code() == "lock-busy" && second.is_ok(),
        "two acquires need two releases",
    );
    Ok(())
}

async fn repaired_expiry(log: &PlayLog) -> Result<(), String> {
    let cluster = servers_with_ttl(log, "redis-timeout-repair", Duration::from_secs(1)).await?;
    let connection = redis(&cluster).await?;
    connection.query::<()>(cmd("SET").arg(LOCK).arg("maintenance")).await.map_err(text)?;
    log.holds("ops", None, "SET orders maintenance, without an expiry on purpose");
    let left: i64 = connection.query(cmd("PTTL").arg(LOCK)).await.map_err(text)?;
    let mut web1 = client(log, &cluster, "web1").await?;
    log.waits("web1", "finds a key without an expiry, and sets one");
    let taken = web1.acquire(WAIT).await?;
    log.verdict(
        left == -1 && taken.is_some(),
        "the repair of web1 ended the permanent lock of ops, and nobody told ops",
    );
    Ok(())
}

async fn watched_key(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "redis-timeout-repair").await?;
    let (web1, web2) = (redis(&cluster).await?, redis(&cluster).await?);
    web1.query::<()>(cmd("SET").arg(LOCK).arg("web1")).await.map_err(text)?;
    let is_owner = watch(&web1, LOCK, "web1").await.map_err(text)?;
    log.note("web1", "WATCH orders; GET orders: web1");
    web2.query::<()>(cmd("SET").arg(LOCK).arg("web2")).await.map_err(text)?;
    log.note("web2", "SET orders web2");
    let is_deleted = delete_watched(&web1, LOCK).await.map_err(text)?;
    log.outcome("web1", is_deleted, "MULTI; DEL orders; EXEC");
    let owner: Option<String> = web2.query(cmd("GET").arg(LOCK)).await.map_err(text)?;
    log.verdict(
        is_owner && !is_deleted && owner.as_deref() == Some("web2"),
        "the key that changed in between is not deleted",
    );
    Ok(())
}
