//! A thousand clients wait for one lock; the first two hundred take their turns.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, TryStreamExt};

use super::actors::{CallReply, HttpCaller, LOCK, client, holdfast, servers};
use super::{Act, Play, PlayLog};
use crate::lock::{LockClient, LockSettings};
use crate::servers::ServerKind;
use crate::wait::Pause;

pub(super) const PLAY: Play = Play {
    name: "thousand",
    question: "What if a thousand clients wait for one lock?",
    answer: "They stand in one queue on the server. A release wakes one client, in the order of arrival, and an idle waiter sends \
             nothing. Clients of a Redis lock without a queue ask again and again, and chance decides.",
    acts: &[
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
        Act::on("Redis, SET NX PX, an attempt each 50 to 100 ms", &[ServerKind::Redis], |log| {
            Box::pin(on_redis(log))
        }),
    ],
};

const CLIENTS: u64 = 1_000;
/// The clients whose turn the play waits for.
const TURNS: usize = 200;

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let nodes = [0, 1, 2].map(|node| HttpCaller::new(&PlayLog::silent(), &cluster, "", node));
    let nodes: Vec<HttpCaller> = nodes.into_iter().collect::<Result<_, _>>()?;
    let holder = HttpCaller::new(log, &cluster, "holder", 0)?;
    holder.acquire(LOCK, "attempt=1&ttl=1m").await?;
    let waiters = nodes.iter().cycle().zip(0..CLIENTS);
    let mut calls: FuturesUnordered<_> =
        waiters.map(|(node, number)| take_turn(node.named(&format!("w{number}")))).collect();
    let all_wait = tokio::select! {
        all_wait = holder.until_waiters(LOCK, CLIENTS) => all_wait?,
        early = calls.next() => return Err(format!("a call did not wait: {early:?}")),
    };
    log.note("clients", format!("{CLIENTS} wait in the queue"));
    let queue = holder.read(LOCK).await?.sessions("queue");
    let released = Instant::now();
    holder.release(LOCK, "attempt=1").await?;
    let mut grants: Vec<CallReply> = calls.take(TURNS).try_collect().await?;
    let elapsed = released.elapsed().as_millis();
    log.note("clients", format!("{TURNS} of them have had the lock, after {elapsed} ms"));
    log.verdict(all_wait && grants.iter().all(CallReply::is_ok), "each gets it with its one call");
    grants.sort_by_key(CallReply::token);
    let order: Vec<&str> = grants.iter().map(|grant| grant.text("session")).collect();
    let shown = queue.len().min(TURNS);
    let is_in_order =
        shown > 50 && order.iter().zip(&queue).all(|(granted, queued)| granted == queued);
    log.verdict(
        is_in_order,
        format!("the order of the tokens is the order of the queue ({shown} compared)"),
    );
    Ok(())
}

async fn take_turn(waiter: HttpCaller) -> Result<CallReply, String> {
    let grant = waiter.acquire(LOCK, "attempt=1&wait=2m&ttl=2m").await?;
    waiter.release(LOCK, "attempt=1").await?;
    Ok(grant)
}

async fn on_redis(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "redis-set-nx-px").await?;
    let mut holder = client(log, &cluster, "holder").await?;
    let held = holder.acquire(Duration::ZERO).await?.ok_or("the lock is not free")?;
    let pause = Pause { min: Duration::from_millis(50), max: Duration::from_millis(100) };
    let connector = cluster.connector(LockSettings { pause, ..LockSettings::default() });
    let opening = (0..CLIENTS).map(|_| connector.client());
    let clients = try_join_all(opening).await.map_err(|error| error.to_string())?;
    let waiting: Vec<_> = (0..CLIENTS).zip(clients).map(poll).map(tokio::spawn).collect();
    log.note("clients", format!("{CLIENTS} wait"));
    let mut other = client(log, &cluster, "other").await?;
    other.acquire(Duration::from_secs(1)).await?;
    holder.release(held).await?;
    let mut polls = try_join_all(waiting).await.map_err(|error| error.to_string())?;
    let commands: u64 = polls.iter().map(|poll| poll.commands).sum();
    polls.retain(|poll| poll.granted.is_some());
    polls.sort_by_key(|poll| poll.granted);
    let first: Vec<u64> = polls.iter().take(8).map(|poll| poll.number).collect();
    log.note("clients", format!("{} had the lock, first the numbers {first:?}", polls.len()));
    log.note("clients", format!("all together sent {commands} commands within 2 s"));
    log.verdict(commands > 5 * CLIENTS, "each client sends many commands while it waits");
    log.verdict(first.len() > 1 && !first.is_sorted(), "the order of arrival does not count");
    Ok(())
}

/// What a polling client saw.
struct PolledLock {
    number: u64,
    granted: Option<Instant>,
    commands: u64,
}

async fn poll((number, mut client): (u64, Box<dyn LockClient>)) -> PolledLock {
    let held = client.acquire(LOCK, Duration::from_secs(2)).await.ok();
    let granted = held.is_some().then(Instant::now);
    if let Some(held) = held {
        // A lost reply leaves the lock until its TTL, which the play outlives.
        drop(client.release(held).await);
    }
    PolledLock { number, granted, commands: client.usage().round_trips }
}
