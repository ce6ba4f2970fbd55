//! Rows about locks in databases, and a lock file.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{WAIT, grant, text, waiting};
use crate::adapters::sql::{Database, ForUpdate, RowWait, SqlConnection};
use crate::lock::LockSettings;
use crate::plays::actors::{
    HttpCaller, LOCK, PlayClient, client, holdfast, servers, servers_with_ttl,
};
use crate::plays::{Act, Play, PlayLog};
use crate::safety::FaultCluster;
use crate::servers::{ServerKind, tied_to_parent, url};
use crate::wait::poll_until;

const STEP: Duration = Duration::from_millis(10);
const SHORT: Duration = Duration::from_millis(300);

pub(super) const FOR_UPDATE: Play = Play {
    name: "10",
    question: "SELECT … FOR UPDATE",
    answer: "The second transaction waits in the database, and gets the row at the end of the first.",
    acts: &[Act::on("PostgreSQL, a locked row", &[ServerKind::Postgres], |log| {
        Box::pin(for_update(log))
    })],
};

pub(super) const WAIT_OR_FAIL: Play = Play {
    name: "11",
    question: "Wait, or fail",
    answer: "NOWAIT fails, SKIP LOCKED finds no row, and a limited wait ends in time. An acquire of holdfast has the same outcomes.",
    acts: &[
        Act::on("PostgreSQL, a locked row", &[ServerKind::Postgres], |log| {
            Box::pin(wait_or_fail(log))
        }),
        Act::on("holdfast", &[ServerKind::Holdfast], |log| Box::pin(try_or_wait(log))),
    ],
};

pub(super) const LOCK_TABLE: Play = Play {
    name: "15",
    question: "A table of locks, a lock file",
    answer: "A row with an expiry goes to the next client, while its holder continues. A lock file stays after the death of its \
             process, until a person removes it.",
    acts: &[
        Act::on("PostgreSQL, a table of locks", &[ServerKind::Postgres], |log| {
            Box::pin(lock_table(log))
        }),
        Act::on("a lock file", &[], |log| Box::pin(lock_file(log))),
    ],
};

async fn connection(cluster: &FaultCluster) -> Result<SqlConnection, String> {
    let node = cluster.addresses().nodes.first().copied().ok_or("there is no PostgreSQL")?;
    SqlConnection::open(Database::Postgres, &url(ServerKind::Postgres, node)).await.map_err(text)
}

async fn for_update(log: &PlayLog) -> Result<(), String> {
    const BLOCKED: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let cluster = servers(log, "postgres-for-update").await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let first = web1.acquire(Duration::ZERO).await?.ok_or("the row is not free")?;
    let call = waiting(client(log, &cluster, "web2").await?);
    log.waits("web2", "SELECT … FOR UPDATE: waits");
    let mut observer = connection(&cluster).await?;
    let is_blocked = poll_until(WAIT, STEP, async || {
        let count = observer.query(BLOCKED, Vec::new()).await;
        count.is_ok_and(|reply| reply.first() == Some(1))
    });
    let is_blocked = is_blocked.await && !call.is_finished();
    log.note("Postgres", "pg_stat_activity: one transaction waits for a lock");
    web1.release(first).await?;
    let (second, _web2) = grant(call).await?;
    log.verdict(
        is_blocked && second.is_some(),
        "the second transaction waits until the first one ends",
    );
    Ok(())
}

async fn wait_or_fail(log: &PlayLog) -> Result<(), String> {
    let cluster = servers(log, "postgres-for-update").await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let first = web1.acquire(Duration::ZERO).await?;
    let mut outcomes = Vec::new();
    for (name, wait, time) in [
        ("nowait", RowWait::NoWait, Duration::ZERO),
        ("skip", RowWait::Skip, Duration::ZERO),
        ("limited", RowWait::Queue, SHORT),
    ] {
        let row = ForUpdate::new(connection(&cluster).await?, wait, LockSettings::default());
        let mut waiter = PlayClient::of(log, name, Box::new(row));
        let began = Instant::now();
        let is_rejected = waiter.acquire(time).await?.is_none();
        outcomes.push(is_rejected && began.elapsed() >= time);
    }
    log.verdict(
        first.is_some() && outcomes == [true; 3],
        "NOWAIT and SKIP LOCKED are rejected at once, the limited wait at its end",
    );
    Ok(())
}

async fn try_or_wait(log: &PlayLog) -> Result<(), String> {
    let cluster = holdfast(log).await?;
    let web1 = HttpCaller::new(log, &cluster, "web1", 0)?;
    let web2 = HttpCaller::new(log, &cluster, "web2", 1)?;
    web1.acquire(LOCK, "attempt=1").await?;
    let tried = web2.acquire(LOCK, "attempt=1").await?;
    let began = Instant::now();
    let waited = web2.acquire(LOCK, "attempt=2&wait=300ms").await?;
    log.verdict(
        [tried.code(), waited.code()] == ["lock-busy", "wait-timeout"] && began.elapsed() >= SHORT,
        "a try is rejected at once, a limited wait at its end",
    );
    Ok(())
}

async fn lock_table(log: &PlayLog) -> Result<(), String> {
    let cluster = servers_with_ttl(log, "postgres-lock-table", Duration::from_secs(1)).await?;
    let mut web1 = client(log, &cluster, "web1").await?;
    let mut web2 = client(log, &cluster, "web2").await?;
    let first = web1.acquire(Duration::ZERO).await?.ok_or("the lock is not free")?;
    log.note("web1", "continues after its TTL of 1 s, without a call");
    let second = web2.acquire(WAIT).await?;
    let has_token = second.as_ref().is_some_and(|held| held.token.is_some());
    let is_released = web1.release(first).await?;
    log.verdict(
        second.is_some() && !is_released && !has_token,
        "the expired row has a new owner; the first one learns it at its release, and no token would stop its writes",
    );
    Ok(())
}

async fn lock_file(log: &PlayLog) -> Result<(), String> {
    let place = tempfile::tempdir().map_err(text)?;
    let file = place.path().join("orders.lock");
    // `set -C` opens with O_EXCL: the shell creates the file, or fails.
    let mut command = tied_to_parent(Path::new("sh"), nix::sys::signal::Signal::SIGKILL);
    command.args(["-c", "set -C; echo $$ > \"$1\" && exec sleep 600", "sh"]).arg(&file);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut command = tokio::process::Command::from(command);
    let mut web1 = command.kill_on_drop(true).spawn().map_err(text)?;
    let is_written = poll_until(WAIT, STEP, async || {
        std::fs::read_to_string(&file).is_ok_and(|pid| pid.ends_with('\n'))
    });
    if !is_written.await {
        return Err("web1 does not create its file".to_owned());
    }
    log.begin();
    let pid = std::fs::read_to_string(&file).map_err(text)?;
    log.holds(
        "web1",
        None,
        format!("creates orders.lock with O_EXCL; its process is {}", pid.trim()),
    );
    web1.kill().await.map_err(text)?;
    log.ends("web1", "is killed (SIGKILL)");
    let is_dead = !Path::new("/proc").join(pid.trim()).exists();
    let created = std::fs::File::create_new(&file);
    log.outcome("web2", created.is_ok(), "creates orders.lock with O_EXCL");
    log.verdict(
        is_dead && created.is_err(),
        "the file of the dead process stays, and nobody gets the lock",
    );
    Ok(())
}
