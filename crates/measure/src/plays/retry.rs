//! Copies of calls arrive twice, one of them after the client has gone on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::cmd;
use reqwest::Method;

use super::actors::{HttpCaller, LOCK, client, holdfast, redis, servers};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "retry",
    question: "What if my retry arrives twice?",
    answer: "A copy with the same attempt or request number has no second effect, even if it arrives after the release. A late \
             copy of Redis's SET takes the lock again for a client that has gone on.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
        Act::on("Redis, SET NX PX", &[ServerKind::Redis], |log| Box::pin(on_redis(log))),
    ],
};

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let first = web1.acquire(LOCK, "attempt=1").await?;
    let copy = web1.at(&cluster, 1)?.acquire(LOCK, "attempt=1").await?;
    log.verdict(
        first.is_ok() && copy.token() == first.token() && copy.number("hold_count") == Some(1),
        "the copy of the acquire gets the same token, and the lock is held once",
    );

    let request = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let call = format!("counters/hits?add=1&session=web1&request={request}");
    let mut values = Vec::new();
    for node in [1, 2] {
        let reply = web1.at(&cluster, node)?.call(Method::POST, &call).await?;
        let value = reply.number("value").unwrap_or_default();
        log.outcome("web1", reply.is_ok(), format!("POST counters/hits add=1: value {value}"));
        values.push(value);
    }
    log.verdict(values == [1, 1], "the copy of the addition adds nothing");

    web1.release(LOCK, "attempt=1").await?;
    log.note("network", "delivers one more copy of web1's acquire, after the release");
    let late = web1.at(&cluster, 2)?.acquire(LOCK, "attempt=1").await?;
    let holders = web1.read(LOCK).await?.sessions("holders");
    log.verdict(
        late.code() == "attempt-over" && holders.is_empty(),
        "the late copy acquires nothing: the lock is free",
    );
    Ok(())
}

async fn on_redis(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "redis-set-nx-px").await?;
    let connection = redis(&cluster).await?;
    let mut set = cmd("SET");
    set.arg(LOCK).arg("web1").arg("NX").arg("PX").arg(30_000);
    let failed = |error: crate::LockError| error.to_string();
    let first: bool = connection.query(&set).await.map_err(failed)?;
    log.holds("web1", None, "SET orders web1 NX PX 30000");
    connection.query::<()>(cmd("DEL").arg(LOCK)).await.map_err(failed)?;
    log.ends("web1", "DEL orders");
    log.note("network", "delivers a copy of web1's SET, after the release");
    let late: bool = connection.query(&set).await.map_err(failed)?;
    log.outcome("web1", late, "SET orders web1 NX PX 30000");
    let mut web2 = client(log, &cluster, "web2").await?;
    let second = web2.acquire(Duration::from_millis(300)).await?;
    log.verdict(
        first && late && second.is_none(),
        "the late copy holds the lock for its TTL, and nobody works under it",
    );
    let mut values = Vec::new();
    for _ in 0..2 {
        let value: u64 = connection.query(cmd("INCR").arg("hits")).await.map_err(failed)?;
        log.outcome("web1", true, format!("INCR hits: value {value}"));
        values.push(value);
    }
    log.verdict(values == [1, 2], "the copy of the addition counts twice");
    Ok(())
}
