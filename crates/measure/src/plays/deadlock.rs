//! Two programs take the same two locks in opposite order.

use std::time::{Duration, Instant};

use reqwest::Method;

use super::actors::{HttpCaller, PlayClient, client, granted, holdfast, servers};
use super::{Act, Play, PlayLog};
use crate::lock::HeldLock;
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "deadlock",
    question: "What if two programs take two locks in opposite order?",
    answer: "holdfast rejects the call that would close a deadlock cycle at once, and names the cycle; the other program \
             continues. One call for both locks cannot deadlock. PostgreSQL finds the cycle after a second. On Redis, both \
             programs wait until their timeouts.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
        Act::on("PostgreSQL, advisory locks", &[ServerKind::Postgres], |log| {
            Box::pin(on_others(log, "postgres-advisory", 1))
        }),
        Act::on("Redis, SET NX PX", &[ServerKind::Redis], |log| {
            Box::pin(on_others(log, "redis-set-nx-px", 0))
        }),
    ],
};

/// How long a client waits for its second lock.
const WAIT: Duration = Duration::from_secs(3);

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    web1.acquire("goods", "attempt=1").await?;
    web2.acquire("money", "attempt=1").await?;
    let waiting = web1.queue("money", "attempt=2&wait=1m").await?;
    let asked = Instant::now();
    let rejected = web2.acquire("goods", "attempt=2&wait=1m").await?;
    let elapsed = asked.elapsed();
    let detail = rejected.text("detail");
    log.verdict(
        rejected.code() == "deadlock"
            && elapsed < Duration::from_secs(1)
            && detail.contains("web1"),
        format!("the second wait is rejected at once: {detail}"),
    );
    web2.release("money", "attempt=1").await?;
    let both = granted(waiting).await?;
    log.verdict(both.is_ok(), "web1 has both locks as soon as web2 releases its lock");
    web1.release("money", "attempt=2").await?;
    web1.release("goods", "attempt=1").await?;

    let pairs = ["name=goods&name=money", "name=money&name=goods"];
    let calls = [&web1, &web2].into_iter().zip(pairs).map(async |(caller, names)| {
        let call = format!("locks?{names}&session={}&attempt=3&wait=30s", caller.name);
        let reply = caller.call(Method::POST, &call).await?;
        log.outcome(&caller.name, reply.is_ok(), format!("POST locks {}", names.replace('&', " ")));
        let call = format!("locks?{names}&session={}&attempt=3", caller.name);
        caller.call(Method::DELETE, &call).await?;
        Ok::<bool, String>(reply.is_ok())
    });
    let both = futures_util::future::try_join_all(calls).await?;
    log.verdict(
        both == [true, true],
        "one call for both locks: each program gets them in its turn",
    );
    Ok(())
}

/// Each client holds one lock and waits for the other; `winners` of the two waits succeed.
async fn on_others(log: &PlayLog, lock: &str, winners: usize) -> Result<(), String> {
    let cluster = servers(log, lock).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let goods = web1.acquire_named("goods", Duration::ZERO).await?.ok_or("goods is held")?;
    let money = web2.acquire_named("money", Duration::ZERO).await?.ok_or("money is held")?;
    let asked = Instant::now();
    let gives_up = winners > 0;
    let first = cross(&mut web1, goods, "money", gives_up);
    let waits = tokio::try_join!(first, cross(&mut web2, money, "goods", gives_up))?;
    let (granted, elapsed) = (usize::from(waits.0) + usize::from(waits.1), asked.elapsed());
    let claim = if winners > 0 {
        "the server rejects one of the two waits, and the other program goes on"
    } else {
        "both wait until their timeouts: the server detects no deadlock cycle"
    };
    let is_timely = (elapsed < WAIT) == (winners > 0);
    let claim = format!("{claim}, after {} ms", elapsed.as_millis());
    log.verdict(granted == winners && is_timely, claim);
    Ok(())
}

/// Waits for a second lock; a client that `gives_up` then releases its first.
async fn cross(
    client: &mut PlayClient,
    first: HeldLock,
    second: &str,
    gives_up: bool,
) -> Result<bool, String> {
    let is_granted = client.acquire_named(second, WAIT).await?.is_some();
    if gives_up && !is_granted {
        client.release(first).await?;
    }
    Ok(is_granted)
}
