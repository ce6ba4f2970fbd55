//! A client dies right after it has taken the lock.

use std::time::{Duration, Instant};

use redis::cmd;

use super::actors::{HttpCaller, LOCK, client, granted, holdfast, redis, servers};
use super::{Act, Play, PlayLog};
use crate::adapters::redis::SetnxExpire;
use crate::lock::LockSettings;
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "setnx",
    question: "What if a client dies between SETNX and EXPIRE?",
    answer: "The key has no expiry, and the lock is left forever. With holdfast there is no moment without an end: the call \
             that takes the lock opens the session, and the lock is free when its TTL has passed.",
    acts: &[
        Act::on("Redis, SETNX and EXPIRE", &[ServerKind::Redis], |log| Box::pin(on_redis(log))),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
    ],
};

async fn on_redis(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "redis-setnx-expire").await?;
    let connection = redis(&cluster).await?;
    let failed = |error: crate::LockError| error.to_string();
    let crashed = SetnxExpire::new(connection.clone(), LockSettings::default());
    let is_set = crashed.set(LOCK).await.map_err(failed)?;
    log.holds("web1", None, "SETNX orders 1");
    drop(crashed);
    log.ends("web1", "dies before its EXPIRE");
    let mut web2 = client(log, &cluster, "web2").await?;
    let second = web2.acquire(Duration::from_secs(3)).await?;
    let left: i64 = connection.query(cmd("PTTL").arg(LOCK)).await.map_err(failed)?;
    log.note("Redis", format!("PTTL orders: {left}"));
    log.verdict(
        is_set && second.is_none() && left == -1,
        "nobody holds the lock, nobody gets it, and its key has no expiry",
    );
    Ok(())
}

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    let began = Instant::now();
    let first = web1.acquire(LOCK, "attempt=1&ttl=2s").await?;
    log.ends("web1", "dies, and never calls again");
    let second = granted(web2.queue(LOCK, "attempt=1&wait=1m").await?).await?;
    let waited = began.elapsed();
    log.verdict(
        second.token() > first.token() && waited >= Duration::from_secs(2),
        format!("the lock is free after its TTL of 2 s, not earlier: {} ms", waited.as_millis()),
    );
    Ok(())
}
