//! What `holdfast top` reads from the cluster: its nodes, and the locks that are held or have waiters.
//!
//! Bounds of one reading: [`LOCKS_MAX`] locks, and the queues of [`QUEUES_MAX`] locks.

use std::cmp::Reverse;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use holdfast_api::{ClusterBody, HolderBody, LockBody};
use holdfast_client::{Client, Error, LockQuery};
use holdfast_types::{LockName, NodeId};
use tokio::sync::mpsc;

use crate::arguments::PROBE;
use crate::commands::lock_text::{holders_total, labels_text, longest_held};

/// The time between the end of a reading and the start of the next one.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of locks that a reading requests; it stops after the page that reaches it.
const LOCKS_MAX: usize = 10_000;
/// The number of locks whose queue is read for the longest wait: those with the most waiters.
const QUEUES_MAX: usize = 30;
/// The number of queues that are read at the same time.
const QUEUES_AT_ONCE: usize = 4;

/// The state of the cluster at one moment, or the reasons why it is unknown.
#[derive(Debug)]
pub(crate) struct TopReading {
    pub(super) nodes: Result<TopNodes, String>,
    pub(super) locks: Result<TopLocks, String>,
}

/// The nodes of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopNodes {
    pub(super) leader: Option<NodeId>,
    pub(super) reachable: usize,
    pub(super) total: usize,
}

/// The locks that are held or have waiters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopLocks {
    pub(super) locks: Vec<TopLock>,
    /// Whether the cluster has more locks than a reading requests.
    pub(super) incomplete: bool,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopLock {
    pub(super) name: LockName,
    /// Empty if only waiters have the lock in use.
    pub(super) holder: String,
    pub(super) held_for_ms: Option<u64>,
    pub(super) waiters: u32,
    /// The longest wait of the first waiters; `None` if the queue was not read or is empty.
    pub(super) longest_wait_ms: Option<u64>,
}

/// Returns whether a lock is held or has waiters, and is not the probe lock of `holdfast doctor`.
pub(super) fn is_shown(lock: &LockBody) -> bool {
    (lock.held || lock.waiters > 0) && lock.lock.as_str() != PROBE
}

/// Sends readings until the receiver is dropped.
pub(super) async fn read_repeatedly(
    client: Client,
    prefix: Option<String>,
    readings: mpsc::Sender<TopReading>,
) {
    loop {
        let (nodes, locks) = tokio::join!(client.cluster(), locks(&client, prefix.clone()));
        let nodes = nodes.as_ref().map(TopNodes::of).map_err(ToString::to_string);
        let reading = TopReading { nodes, locks: locks.map_err(|error| error.to_string()) };
        if readings.send(reading).await.is_err() {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn locks(client: &Client, prefix: Option<String>) -> Result<TopLocks, Error> {
    let mut query = LockQuery { prefix, ..LockQuery::default() };
    let (mut bodies, mut read) = (Vec::new(), 0);
    loop {
        let page = client.locks(&query).await?;
        read += page.locks.len();
        bodies.extend(page.locks.into_iter().filter(is_shown));
        query.page_token = page.next_page_token;
        if query.page_token.is_none() || read >= LOCKS_MAX {
            break;
        }
    }
    bodies.sort_by_key(|lock| Reverse(lock.waiters));
    let mut locks: Vec<TopLock> = bodies.iter().map(TopLock::of).collect();
    read_queues(client, &mut locks).await;
    Ok(TopLocks { locks, incomplete: query.page_token.is_some() })
}

/// Sets the longest waits of the first locks, because lists have no queues.
async fn read_queues(client: &Client, locks: &mut [TopLock]) {
    let queued = locks.iter_mut().filter(|lock| lock.waiters > 0).take(QUEUES_MAX);
    let read = |lock: &mut TopLock| {
        let name = lock.name.clone();
        async move { client.lock_state(&name).await.ok() }
    };
    let mut queued: Vec<&mut TopLock> = queued.collect();
    let reads: Vec<_> = queued.iter_mut().map(|lock| read(lock)).collect();
    let bodies: Vec<_> = stream::iter(reads).buffered(QUEUES_AT_ONCE).collect().await;
    for (lock, body) in queued.into_iter().zip(bodies) {
        let waits = body.iter().flat_map(|body| &body.queue).map(|waiter| waiter.waiting_for_ms);
        lock.longest_wait_ms = waits.max();
    }
}

impl TopNodes {
    fn of(cluster: &ClusterBody) -> Self {
        let reachable = cluster.nodes.iter().filter(|node| node.role != "unreachable").count();
        Self { leader: cluster.leader, reachable, total: cluster.nodes.len() }
    }
}

impl TopLock {
    fn of(lock: &LockBody) -> Self {
        Self {
            name: lock.lock.clone(),
            holder: holder_text(lock),
            held_for_ms: longest_held(lock),
            waiters: lock.waiters,
            longest_wait_ms: None,
        }
    }
}

/// `web-3-812 (user=alice)`, `web-3-812 and 2 others`.
fn holder_text(lock: &LockBody) -> String {
    let Some(first) = lock.holders.first() else { return String::new() };
    let name = short_session(first);
    match (holders_total(lock) - 1, labels_text(&first.session, &first.labels)) {
        (0, labels) if labels.is_empty() => name.to_owned(),
        (0, labels) => format!("{name} ({labels})"),
        (1, _) => format!("{name} and 1 other"),
        (others, _) => format!("{name} and {others} others"),
    }
}

/// The name of the session; of a generated name only the host and the process.
fn short_session(holder: &HolderBody) -> &str {
    let name = holder.session.as_str();
    let label = |wanted: &str| holder.labels.iter().find(|(key, _)| *key == wanted);
    let generated = label("host").zip(label("pid")).map(|((_, host), (_, pid))| {
        let start = format!("{host}-{pid}");
        name.starts_with(&format!("{start}-")).then_some(start.len())
    });
    generated.flatten().map_or(name, |len| &name[..len])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str, sessions: &[&str], waiters: u32) -> LockBody {
        let holder = |session: &&str| {
            format!(
                r#"{{"session":"{session}","token":1,"held_for_ms":5000,"hold_count":1,"labels":{{"host":"vm","pid":"812","user":"alice"}},"mode":"shared"}}"#
            )
        };
        let holders: Vec<String> = sessions.iter().map(holder).collect();
        let json = format!(
            r#"{{"lock":"{name}","mode":"shared","held":{},"holders":[{}],"holders_total":{},"waiters":{waiters},"queue":[],"last_token":9}}"#,
            !sessions.is_empty(),
            holders.join(","),
            sessions.len()
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn free_locks_and_probe_locks_are_not_shown() {
        assert!(is_shown(&lock("a", &["me"], 0)) && is_shown(&lock("a", &[], 2)));
        assert!(!is_shown(&lock("a", &[], 0)) && !is_shown(&lock(PROBE, &["doctor-1"], 1)));
    }

    #[test]
    fn the_holder_names_host_and_process_once() {
        let text = |sessions: &[&str]| holder_text(&lock("a", sessions, 0));
        assert_eq!(text(&["vm-812-fbe32011e05eb6e7"]), "vm-812 (user=alice)");
        assert_eq!(text(&["me"]), "me (host=vm pid=812 user=alice)");
        assert_eq!(text(&["vm-812-fbe32011e05eb6e7", "b"]), "vm-812 and 1 other");
        assert_eq!(text(&["a", "b", "c"]), "a and 2 others");
        assert_eq!(text(&[]), "");
    }
}
