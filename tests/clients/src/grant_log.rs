//! The grants and losses of all locks in the order of the cluster's log, from its watch.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinHandle;

use crate::operator::{Operator, OperatorAnswer};
use crate::poll::poll;

const WAIT: Duration = Duration::from_secs(1);
/// The pause after a call that no node answered.
const PAUSE: Duration = Duration::from_millis(30);

/// A change of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockChange {
    /// The position in the log.
    pub revision: u64,
    /// The lock.
    pub lock: String,
    /// The session whose hold began or ended.
    pub session: String,
    /// The fencing token of a grant; `None` for the end of a hold.
    pub token: Option<u64>,
}

/// What the watch has reported.
#[derive(Clone, Debug, Default)]
pub struct GrantLog {
    /// The changes, in order.
    pub changes: Vec<LockChange>,
    /// Whether some changes are missing, because no node remembers them.
    pub has_gap: bool,
    /// The newest revision.
    pub revision: u64,
}

/// A task that reads the watch until it is stopped.
#[derive(Debug)]
pub struct GrantWatch {
    log: Arc<Mutex<GrantLog>>,
    task: JoinHandle<()>,
}

impl GrantWatch {
    /// Starts to watch, from the beginning of the log.
    pub fn start(operator: Arc<Operator>) -> Self {
        let log = Arc::<Mutex<GrantLog>>::default();
        let task = tokio::spawn(read(operator, log.clone()));
        Self { log, task }
    }

    /// Waits until the watch has reported everything up to a revision, and returns the log.
    pub async fn finish(self, revision: u64, time: Duration) -> GrantLog {
        let has_all = async || {
            let newest = self.current().revision;
            (newest >= revision).then_some(()).ok_or_else(|| format!("the watch is at {newest}"))
        };
        let is_complete = poll(time, has_all).await.is_ok();
        self.task.abort();
        let mut log = self.current();
        log.has_gap |= !is_complete;
        log
    }

    fn current(&self) -> GrantLog {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for GrantWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(operator: Arc<Operator>, log: Arc<Mutex<GrantLog>>) {
    loop {
        let since = log.lock().unwrap_or_else(PoisonError::into_inner).revision;
        let line = format!("GET /v1/watch?prefix=/locks/&since={since}&wait=1s");
        let asked = operator.call_for(&line, None, WAIT + WAIT).await;
        let Ok(answer) = asked.and_then(is_watched) else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        if answer.status == 410 {
            log.has_gap = true;
            log.revision = answer.body["restart_from"].as_u64().unwrap_or(log.revision);
        } else {
            log.add(&answer.body);
        }
    }
}

/// Changes, or the end of what the node remembers.
fn is_watched(answer: OperatorAnswer) -> Result<OperatorAnswer, String> {
    match answer.status {
        200 | 410 => Ok(answer),
        status => Err(format!("status {status}")),
    }
}

impl GrantLog {
    fn add(&mut self, body: &Value) {
        for event in body["events"].as_array().into_iter().flatten() {
            let (Some(lock), Some(session)) = (event["lock"].as_str(), event["session"].as_str())
            else {
                continue;
            };
            let change = LockChange {
                revision: event["revision"].as_u64().unwrap_or(0),
                lock: lock.to_owned(),
                session: session.to_owned(),
                token: event["token"].as_u64(),
            };
            // After a change of the node, the changes of one revision may come twice.
            if !self.changes.contains(&change) {
                self.changes.push(change);
            }
        }
        self.revision = body["revision"].as_u64().unwrap_or(self.revision);
    }
}
