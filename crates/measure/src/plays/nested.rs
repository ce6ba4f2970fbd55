//! A program that holds the lock calls code that takes the same lock again.

use std::time::Duration;

use super::actors::{HttpCaller, LOCK, client, holdfast, is_assumed, servers};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "nested",
    question: "What if code that holds the lock takes it again?",
    answer: "Each attempt counts. The lock is exclusive until the last write is released, and then shared for a read that is left. \
             A re-entrant Redis script without a count frees the lock at the first release.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
        Act::on("Redis, re-entrant script without a count", &[ServerKind::Redis], |log| {
            Box::pin(on_redis(log))
        }),
    ],
};

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    let write = web1.acquire(LOCK, "attempt=1").await?;
    let inner_write = web1.acquire(LOCK, "attempt=2").await?;
    log.verdict(
        inner_write.number("hold_count") == Some(2) && inner_write.token() == write.token(),
        "a write inside a write: two attempts, one hold, one token",
    );
    web1.release_attempt(LOCK, "attempt=2").await?;
    let reader = web2.acquire(LOCK, "attempt=1&mode=shared").await?;
    log.verdict(!reader.is_ok(), "after the inner release the lock is still exclusive");

    let read = web1.acquire(LOCK, "attempt=3&mode=shared").await?;
    let reader = web2.acquire(LOCK, "attempt=2&mode=shared").await?;
    log.verdict(
        read.token() == write.token() && !reader.is_ok(),
        "a read inside a write: the lock stays exclusive",
    );
    web1.release_attempt(LOCK, "attempt=1").await?;
    let reader = web2.acquire(LOCK, "attempt=3&mode=shared").await?;
    let seen = web1.read(LOCK).await?;
    log.verdict(
        reader.is_ok() && seen.sessions("holders") == ["web1", "web2"],
        "after the release of the write, the read is left, and other readers join",
    );
    Ok(())
}

async fn on_redis(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "redis-reentrant-lua").await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let outer = web1.acquire(Duration::ZERO).await?;
    let inner = web1.acquire(Duration::ZERO).await?.ok_or("the script is not re-entrant")?;
    let busy = web2.acquire(Duration::ZERO).await?;
    web1.release(inner).await?;
    log.holds("web1", None, "returns to its outer code, which still works under the lock");
    let second = web2.acquire(Duration::ZERO).await?;
    log.verdict(
        busy.is_none() && second.is_some() && is_assumed(outer.as_ref()),
        "two holders: the inner release freed the lock of the outer code",
    );
    Ok(())
}
