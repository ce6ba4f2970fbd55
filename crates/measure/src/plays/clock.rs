//! The wall clocks of the servers jump ahead by an hour, as after a wrong step of NTP.

use std::time::{Duration, Instant};

use super::actors::{HttpCaller, LOCK, client, granted, holdfast, is_assumed, servers};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "clock",
    question: "What if the clock jumps?",
    answer: "holdfast measures every TTL on monotonic clocks. A majority of wall clocks that is an hour ahead ends no session early. \
             Redis compares an expiry with its wall clock, and grants the lock again at once.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log)))
            .with_clocks(),
        Act::on("Redis, SET NX PX", &[ServerKind::Redis], |log| Box::pin(on_redis(log)))
            .with_clocks(),
    ],
};

const AHEAD: Duration = Duration::from_hours(1);
const TTL: Duration = Duration::from_secs(3);

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let mut cluster = holdfast(log).await?;
    cluster.add_clocks().await?;
    log.begin();
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    let first = web1.acquire(LOCK, "attempt=1&ttl=3s").await?;
    cluster.set_clocks_ahead(AHEAD).await?;
    log.note("clocks", "of two of three nodes, the leader's too, jump ahead by an hour");
    let busy = web2.acquire(LOCK, "attempt=1").await?;
    let began = Instant::now();
    let renewed = web1.acquire(LOCK, "attempt=1&ttl=3s").await?;
    log.verdict(
        first.is_ok() && renewed.token() == first.token() && busy.code() == "lock-busy",
        "the session lives: the holder renews and keeps its token",
    );
    log.note("web1", "renews no more");
    let second = granted(web2.queue(LOCK, "attempt=2&wait=1m").await?).await?;
    let waited = began.elapsed();
    log.ends("web1", "has lost its session");
    log.verdict(
        second.token() > first.token() && waited >= TTL,
        format!("it ends after its TTL of 3 s, not earlier: {} ms", waited.as_millis()),
    );
    Ok(())
}

async fn on_redis(log: &PlayLog) -> Result<(), String> {
    let mut cluster = servers(log, "redis-set-nx-px").await?;
    cluster.add_clocks().await?;
    log.begin();
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let first = web1.acquire(Duration::ZERO).await?;
    let busy = web2.acquire(Duration::from_millis(200)).await?;
    cluster.set_clocks_ahead(AHEAD).await?;
    log.note("clock", "of the server jumps ahead by an hour");
    let second = web2.acquire(Duration::from_secs(2)).await?;
    log.verdict(
        busy.is_none() && second.is_some() && is_assumed(first.as_ref()),
        "two holders: the key of web1 has expired by the server's clock",
    );
    Ok(())
}
