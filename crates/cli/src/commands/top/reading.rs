//! What `holdfast top` reads from the cluster: its nodes, and the locks that are held or have waiters, or one lock.
//!
//! Bound of one reading: [`LOCKS_MAX`] locks.

use std::time::Duration;

use holdfast_api::{ClusterBody, ExplainedBody, HolderBody, LockBody, lock_path};
use holdfast_client::{Call, Client, Error, LockQuery};
use holdfast_types::{LockName, NodeId};
use tokio::sync::{mpsc, watch};

use crate::arguments::PROBE;
use crate::commands::lock_text::{holders_total, labels_text};

/// The time between the end of a reading and the start of the next one.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of locks that a reading requests; it stops after the page that reaches it.
const LOCKS_MAX: usize = 10_000;

/// The state of the cluster at one moment, or the reasons why it is unknown.
#[derive(Debug)]
pub(crate) struct TopReading {
    pub(super) nodes: Result<TopNodes, String>,
    pub(super) content: TopContent,
}

/// What the screen shows.
#[derive(Debug)]
pub(crate) enum TopContent {
    Locks(Result<TopLocks, String>),
    /// The opened lock.
    Lock(LockName, Result<Box<ExplainedBody>, String>),
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
    pub(super) longest_wait_ms: Option<u64>,
}

/// Returns whether a lock is held or has waiters, and is not the probe lock of `holdfast doctor`.
pub(super) fn is_shown(lock: &LockBody) -> bool {
    (lock.held || lock.waiters > 0) && lock.lock.as_str() != PROBE
}

/// Sends readings until the receiver is dropped: of the opened lock, otherwise of all locks. A change of the opened lock
/// starts the next reading at once.
pub(super) async fn read_repeatedly(
    client: Client,
    prefix: Option<String>,
    mut opened: watch::Receiver<Option<LockName>>,
    readings: mpsc::Sender<TopReading>,
) {
    loop {
        let lock = opened.borrow_and_update().clone();
        let (nodes, content) =
            tokio::join!(client.cluster(), content(&client, prefix.clone(), lock));
        let nodes = nodes.as_ref().map(TopNodes::of).map_err(ToString::to_string);
        if readings.send(TopReading { nodes, content }).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            changed = opened.changed() => if changed.is_err() { return },
        }
    }
}

async fn content(client: &Client, prefix: Option<String>, lock: Option<LockName>) -> TopContent {
    let Some(lock) = lock else {
        let locks = locks(client, prefix).await;
        return TopContent::Locks(locks.map_err(|error| error.to_string()));
    };
    let body = client.call(&Call::get(lock_path(&lock))).await;
    TopContent::Lock(lock, body.map(Box::new).map_err(|error: Error| error.to_string()))
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
    let locks = bodies.iter().map(TopLock::of).collect();
    Ok(TopLocks { locks, incomplete: query.page_token.is_some() })
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
            held_for_ms: lock.oldest_hold_ms,
            waiters: lock.waiters,
            longest_wait_ms: lock.longest_wait_ms,
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
