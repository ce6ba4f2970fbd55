//! Rows about Redlock: groups behind its addresses, and the advice of its authors.

use std::path::Path;
use std::time::Duration;

use super::{WAIT, text};
use crate::adapters::redis::Redlock;
use crate::lock::{LockSettings, ServerAddresses};
use crate::plays::actors::{
    HttpCaller, LOCK, PlayClient, client, holdfast, is_assumed, servers_with_ttl,
};
use crate::plays::{Act, Play, PlayLog, directory};
use crate::servers::group::server_directory;
use crate::servers::relay::Relay;
use crate::servers::{RedisServer, Server, ServerKind, request_text, url};
use crate::wait::poll_until;

const GROUPS_COUNT: usize = 3;
const STEP: Duration = Duration::from_millis(25);

pub(super) const GROUPS: Play = Play {
    name: "29",
    question: "RedLock over groups",
    answer: "A group behind each address does not help: its replica gets what its master acknowledged only later. Two failovers \
             of three make a majority that does not know the lock.",
    acts: &[Act::on("RedLock on three groups of two", &[ServerKind::Redis], |log| {
        Box::pin(groups(log))
    })],
};

pub(super) const ADVICE: Play = Play {
    name: "39",
    question: "RedLock as an object",
    answer: "Redisson has marked its RedLock as deprecated since 3.12.5. Redis' own page advises to sync each write or to start a \
             crashed server only after a whole TTL, and to use fencing tokens, which RedLock does not have.",
    acts: &[
        Act::on("RedLock on five servers", &[ServerKind::Redis], |log| {
            Box::pin(without_token(log))
        }),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(with_token(log))),
    ],
};

/// A master with a replica, and their common address.
struct RedisGroup {
    master: Server,
    replica: Server,
    /// The link to the replica.
    link: Relay,
    address: Relay,
}

impl RedisGroup {
    async fn start(home: &Path) -> Result<Self, String> {
        let master = RedisServer::unsynced().map_err(text)?;
        let master = master.start(&home.join("master")).await.map_err(text)?;
        let link = Relay::to(master.address()).await.map_err(text)?;
        let replica = RedisServer::unsynced().map_err(text)?;
        let replica = RedisServer { follows: Some(link.address()), ..replica };
        let replica = replica.start(&home.join("replica")).await.map_err(text)?;
        let is_synced = poll_until(WAIT, STEP, async || {
            let reply = request_text(replica.address(), "INFO replication\r\n").await;
            reply.is_some_and(|reply| reply.contains("master_link_status:up"))
        });
        if !is_synced.await {
            return Err("a replica does not get in sync".to_owned());
        }
        let address = Relay::to(master.address()).await.map_err(text)?;
        Ok(Self { master, replica, link, address })
    }

    /// Kills the master, and gives its address to the replica.
    async fn fail_over(&mut self) -> Result<(), String> {
        self.master.crash();
        let reply = request_text(self.replica.address(), "REPLICAOF NO ONE\r\n").await;
        if !reply.is_some_and(|reply| reply.starts_with("+OK")) {
            return Err("a replica is not promoted".to_owned());
        }
        self.address.redirect(self.replica.address());
        Ok(())
    }
}

async fn groups(log: &PlayLog) -> Result<(), String> {
    let place = server_directory(&directory()).map_err(text)?;
    let mut groups = Vec::new();
    for number in 0..GROUPS_COUNT {
        groups.push(RedisGroup::start(&place.path().join(number.to_string())).await?);
    }
    log.begin();
    let nodes = groups.iter().map(|group| group.address.address()).collect();
    let addresses = ServerAddresses::of(nodes);
    let open = async |name| {
        let urls = addresses.nodes.iter().map(|node| url(ServerKind::Redis, *node)).collect();
        let lock = Redlock::open(urls, LockSettings::default()).await.map_err(text)?;
        Ok::<_, String>(PlayClient::of(log, name, Box::new(lock)))
    };
    for group in &groups {
        group.link.cut();
    }
    log.note("Redis", "the links to the three replicas are cut");
    let first = open("web1").await?.acquire(Duration::ZERO).await?;
    let busy = open("web2").await?.acquire(Duration::from_millis(200)).await?;
    for group in groups.iter_mut().take(2) {
        group.fail_over().await?;
    }
    log.note("Redis", "two of three masters are killed, and their replicas promoted");
    let second = open("web2").await?.acquire(WAIT).await?;
    log.verdict(
        is_assumed(first.as_ref()) && busy.is_none() && second.is_some(),
        "two holders: two replicas did not know the lock of web1, and they are a majority",
    );
    Ok(())
}

async fn without_token(log: &PlayLog) -> Result<(), String> {
    let cluster = servers_with_ttl(log, "redlock", Duration::from_secs(1)).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let first = web1.acquire(Duration::ZERO).await?;
    log.note("web1", "is paused: its TTL passes");
    let second = web2.acquire(WAIT).await?;
    let has_token = [&first, &second].into_iter().flatten().any(|held| held.token.is_some());
    log.verdict(
        first.is_some() && second.is_some() && !has_token,
        "web2 holds the lock, and no grant has a token: no store can tell a late write of web1 from one of web2",
    );
    Ok(())
}

async fn with_token(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    let first = web1.acquire(LOCK, "attempt=1&ttl=1s").await?;
    log.note("web1", "is paused: its TTL passes");
    let second = web2.acquire(LOCK, "attempt=1&wait=1m").await?;
    log.verdict(
        first.is_ok() && second.token() > first.token(),
        "web2 has a larger token than web1: a store that compares tokens rejects the late write",
    );
    Ok(())
}
