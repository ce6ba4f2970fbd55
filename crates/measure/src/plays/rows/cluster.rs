//! Rows about recipes on a tree of znodes, and about etcd.

use std::time::Duration;

use super::{WAIT, text};
use crate::adapters::zookeeper::{Curator, EphemeralNode, ZooKeeperSession};
use crate::lock::LockClient;
use crate::plays::actors::{HttpCaller, LOCK, client, holdfast, servers_with_ttl};
use crate::plays::{Act, Play, PlayLog};
use crate::safety::FaultCluster;
use crate::servers::ServerKind;
use crate::wait::poll_until;

const STEP: Duration = Duration::from_millis(10);
const WAITERS: u64 = 8;
/// Not below `/locks`: there, holdfast admits only recipes with a queue.
const ZNODE: &str = "/orders";

pub(super) const EPHEMERAL: Play = Play {
    name: "67",
    question: "Simple ephemeral lock",
    answer: "All waiters watch one node, and its deletion wakes all of them for one grant. In a queue of sequential nodes it wakes \
             one.",
    acts: &[
        Act::on("holdfast's ZooKeeper port, one ephemeral node", &[ServerKind::Holdfast], |log| {
            Box::pin(herd(log, TreeRecipe::Ephemeral))
        }),
        Act::on("holdfast's ZooKeeper port, Curator's recipe", &[ServerKind::Holdfast], |log| {
            Box::pin(herd(log, TreeRecipe::Sequential))
        }),
    ],
};

pub(super) const ETCD: Play = Play {
    name: "80",
    question: "etcd",
    answer: "The lock of etcd has a queue in the server, a lease and a revision that only grows, as holdfast's has a session and a \
             token. Its process renews the lease also for work that hangs.",
    acts: &[
        Act::on("etcd", &[ServerKind::Etcd], |log| Box::pin(etcd(log))),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(session(log))),
    ],
};

#[derive(Clone, Copy)]
enum TreeRecipe {
    Ephemeral,
    Sequential,
}

impl TreeRecipe {
    fn client(self, session: ZooKeeperSession) -> Box<dyn LockClient> {
        match self {
            Self::Ephemeral => Box::new(EphemeralNode::new(session)),
            Self::Sequential => Box::new(Curator::new(session)),
        }
    }

    /// The requests of a waiter until it has set its watch.
    fn requests(self) -> u64 {
        match self {
            Self::Ephemeral => 2,
            Self::Sequential => 3,
        }
    }

    /// The waiters that one release wakes.
    fn woken(self) -> u64 {
        match self {
            Self::Ephemeral => WAITERS,
            Self::Sequential => 1,
        }
    }
}

async fn zookeeper(cluster: &FaultCluster) -> Result<ZooKeeperSession, String> {
    let node =
        cluster.addresses().zookeeper.first().copied().ok_or("there is no ZooKeeper port")?;
    ZooKeeperSession::open(node, WAIT).await.map_err(text)
}

async fn herd(log: &PlayLog, recipe: TreeRecipe) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let mut holder = recipe.client(zookeeper(&cluster).await?);
    let held = holder.acquire(ZNODE, Duration::ZERO).await.map_err(text)?;
    log.holds("web0", None, "holds the lock");
    let (mut counters, mut waiters) = (Vec::new(), tokio::task::JoinSet::new());
    for _ in 0..WAITERS {
        let session = zookeeper(&cluster).await?;
        let counter = session.usage_reader();
        let mut waiter = recipe.client(session);
        waiters.spawn(async move {
            // The one that gets the lock keeps it, so that the others wake in vain.
            let held = waiter.acquire(ZNODE, WAIT * 2).await;
            std::future::pending::<()>().await;
            drop((waiter, held));
        });
        let requests = recipe.requests();
        poll_until(WAIT, STEP, async || counter().round_trips >= requests).await;
        counters.push(counter);
    }
    log.waits("others", format!("{WAITERS} clients watch, and wait"));
    holder.release(held).await.map_err(text)?;
    log.ends("web0", "releases the lock");
    let woken = || counters.iter().map(|counter| counter().wakeups).sum::<u64>();
    let expected = recipe.woken();
    poll_until(WAIT, STEP, async || woken() >= expected).await;
    let woken = woken();
    log.note("others", format!("{woken} of {WAITERS} woke, for one grant"));
    log.verdict(woken == expected, format!("one release wakes {expected} of {WAITERS} waiters"));
    Ok(())
}

async fn etcd(log: &PlayLog) -> Result<(), String> {
    let cluster = servers_with_ttl(log, "etcd-lock", Duration::from_secs(2)).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let first = web1.acquire(WAIT).await?.ok_or("the lock is not free")?;
    let busy = web2.acquire(Duration::from_secs(5)).await?;
    log.note("web1", "hangs; its process renews the lease");
    let first_token = first.token;
    web1.release(first).await?;
    let second = web2.acquire(WAIT).await?;
    log.verdict(busy.is_none(), "web2 does not get the lock within 5 s, although the TTL is 2 s");
    log.verdict(
        second.is_some_and(|held| held.token > first_token),
        "the next grant has a larger revision",
    );
    Ok(())
}

async fn session(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    let first = web1.acquire(LOCK, "attempt=1&ttl=30s&max_hold=2s").await?;
    log.note("web1", "hangs");
    let second = web2.acquire(LOCK, "attempt=1&wait=1m").await?;
    log.verdict(
        second.token() > first.token(),
        "web2 gets the lock after max_hold, with a larger token",
    );
    Ok(())
}
