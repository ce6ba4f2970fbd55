//! Short calls about locks, with the checks that nearly every test wants: what one node shows of a lock and its queue.

use std::time::Duration;

use holdfast_client::http::{Method, SendError};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::http::{Http, Reply, Request};
use crate::until::{DEADLINE, until};

/// A call in the background may wait in a queue for as long as any test lasts.
const BACKGROUND_TIMEOUT: Duration = Duration::from_mins(4);

impl Http {
    /// A call in the background that must be answered. Aborting the task disconnects the client.
    pub fn begin(&self, method: Method, target: &str) -> JoinHandle<Reply> {
        let call = self.clone().call_in_background(method, target.to_owned());
        tokio::spawn(async move { call.await.expect("an answer") })
    }

    /// A call in the background whose node may end.
    pub fn begin_unreliable(
        &self,
        method: Method,
        target: &str,
    ) -> JoinHandle<Result<Reply, SendError>> {
        tokio::spawn(self.clone().call_in_background(method, target.to_owned()))
    }

    async fn call_in_background(self, method: Method, target: String) -> Result<Reply, SendError> {
        self.send(Request::new(method, &target).within(BACKGROUND_TIMEOUT)).await
    }

    /// Waits in the queue of a lock (`a?session=me`), in the background.
    pub fn queue_up(&self, lock: &str) -> JoinHandle<Reply> {
        self.begin(Method::PUT, &format!("/v1/locks/{lock}&ttl=4m&wait=3m"))
    }

    /// Takes a lock (`a?session=me`) and returns its token.
    pub async fn take(&self, lock: &str) -> u64 {
        self.put(&format!("/v1/locks/{lock}")).await.has(200).token()
    }

    /// Releases a lock (`a?session=me`).
    pub async fn release(&self, lock: &str) {
        self.delete(&format!("/v1/locks/{lock}")).await.has(204);
    }

    /// The lock as the API shows it.
    pub async fn lock(&self, lock: &str) -> Value {
        self.get(&format!("/v1/locks/{lock}")).await.has(200).json()
    }

    /// The sessions that hold it, in the order of their grants.
    pub async fn holders(&self, lock: &str) -> Vec<String> {
        sessions_of(&self.lock(lock).await["holders"])
    }

    /// The sessions that wait for it, in their order; the first hundred.
    pub async fn queue(&self, lock: &str) -> Vec<String> {
        sessions_of(&self.lock(lock).await["queue"])
    }

    /// Waits until `waiters` sessions wait for a lock.
    pub async fn until_waiters(&self, lock: &str, waiters: u64) {
        let what = format!("{waiters} to wait for {lock}");
        until(&what, DEADLINE, || async { self.lock(lock).await["waiters"] == waiters }).await;
    }

    /// Waits until exactly these sessions wait for a lock, in this order.
    pub async fn until_queue(&self, lock: &str, sessions: &[&str]) {
        let what = format!("the queue of {lock} to be {sessions:?}");
        until(&what, DEADLINE, || async { self.queue(lock).await == sessions }).await;
    }

    /// Waits until exactly these sessions hold a lock.
    pub async fn until_held_by(&self, lock: &str, sessions: &[&str]) {
        let what = format!("{lock} to be held by {sessions:?}");
        until(&what, DEADLINE, || async { self.holders(lock).await == sessions }).await;
    }

    /// Waits until `members` sessions have arrived at a barrier.
    pub async fn until_arrived(&self, barrier: &str, members: usize) {
        until("the arrivals", DEADLINE, || async {
            self.get(barrier).await.json()["arrived"].as_array().map(Vec::len) == Some(members)
        })
        .await;
    }
}

fn sessions_of(entries: &Value) -> Vec<String> {
    let entries = entries.as_array().expect("a list");
    entries.iter().map(|entry| entry["session"].as_str().unwrap_or_default().to_owned()).collect()
}
