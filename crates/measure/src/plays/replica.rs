//! The server that granted a lock dies before it has copied the grant.

use std::time::Duration;

use super::actors::{
    HttpCaller, LOCK, client, holdfast, is_assumed, reconnected, servers, until_ok,
};
use super::{Act, Play, PlayLog};
use crate::servers::ServerKind;

pub(super) const PLAY: Play = Play {
    name: "replica",
    question: "What if Redis' master dies before it replicates?",
    answer: "Redis replies before its replica has the lock, so after the failover two clients hold it. holdfast and ZooKeeper reply \
             when a majority has the grant on its disks, and only a node that has it can lead.",
    acts: &[
        Act::on("Redis with a replica", &[ServerKind::Redis], |log| Box::pin(on_redis(log))),
        Act::on("ZooKeeper", &[ServerKind::ZooKeeper], |log| Box::pin(on_zookeeper(log))),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(on_holdfast(log))),
    ],
};

async fn on_redis(log: &PlayLog) -> Result<(), String> {
    let mut cluster = servers(log, "redis-set-nx-px").await?;
    cluster.add_replica().await?;
    log.begin();
    let mut web1 = client(log, &cluster, "web1").await?;
    cluster.cut_replication();
    log.note("network", "is slow between the master and its replica");
    let first = web1.acquire(Duration::ZERO).await?;
    cluster.crash_all();
    log.note("master", "is killed (SIGKILL)");
    cluster.promote_replica().await?;
    log.note("replica", "is promoted");
    let mut web2 = client(log, &cluster, "web2").await?;
    let second = web2.acquire(Duration::from_secs(5)).await?;
    log.verdict(
        is_assumed(first.as_ref()) && second.is_some(),
        "two holders: the promoted replica never had the lock of web1",
    );
    Ok(())
}

async fn on_zookeeper(log: &PlayLog) -> Result<(), String> {
    let mut cluster = servers(log, "zookeeper-curator").await?;
    let leader = cluster.leader().await.ok_or("no node leads")?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let first = web1.acquire(Duration::ZERO).await?;
    cluster.crash(leader);
    log.note("leader", "is killed (SIGKILL) right after its reply");
    let mut web2 = reconnected(log, &cluster, "web2", (leader + 1) % 3).await?;
    let second = web2.acquire(Duration::from_millis(500)).await?;
    log.verdict(
        first.is_some() && second.is_none(),
        "one holder: the next leader has the node of web1, until its session ends",
    );
    Ok(())
}

async fn on_holdfast(log: &PlayLog) -> Result<(), String> {
    let mut cluster = holdfast(log).await?;
    let leader = cluster.leader().await.ok_or("no node leads")?;
    let web1 = HttpCaller::new(log, &cluster, "web1", leader)?;
    let first = web1.acquire(LOCK, "attempt=1").await?;
    cluster.crash(leader);
    log.note("leader", "is killed (SIGKILL) right after its reply");
    let web1 = web1.at(&cluster, (leader + 1) % 3)?;
    let renewed = until_ok(&web1, LOCK, "attempt=1").await?;
    let second = HttpCaller::new(log, &cluster, "web2", (leader + 2) % 3)?;
    let second = second.acquire(LOCK, "attempt=1").await?;
    log.verdict(
        first.is_ok() && renewed.token() == first.token() && second.code() == "lock-busy",
        "one holder: the next leader has the grant, with its token",
    );
    Ok(())
}
