//! Lock calls with built-in assertions: acquire, release, and the state of a lock and its queue at one node.

use std::time::{Duration, Instant};

use holdfast_client::http::{Method, SendError};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::http::{Http, Reply, Request};
use crate::until::{DEADLINE, until, until_some};

/// Timeout of a background call, longer than any test.
const BACKGROUND_TIMEOUT: Duration = Duration::from_mins(4);

impl Http {
    /// Starts a background call that must get a reply. Aborting the task disconnects the client.
    pub fn begin(&self, method: Method, target: &str) -> JoinHandle<Reply> {
        let call = self.clone().call_in_background(method, target.to_owned());
        tokio::spawn(async move { call.await.expect("an answer") })
    }

    /// Starts a background call that may fail because its node stops.
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

    /// Queues for a lock (`a?session=me`) in the background.
    pub fn queue_up(&self, lock: &str) -> JoinHandle<Reply> {
        self.begin(Method::PUT, &format!("/v1/locks/{lock}&ttl=4m&wait=3m"))
    }

    /// Acquires a lock (`a?session=me`) and returns its token.
    pub async fn take(&self, lock: &str) -> u64 {
        self.put(&format!("/v1/locks/{lock}")).await.assert_status(200).token()
    }

    /// Releases a lock (`a?session=me`).
    pub async fn release(&self, lock: &str) {
        self.delete(&format!("/v1/locks/{lock}")).await.assert_status(204);
    }

    /// The JSON of `GET /v1/locks/{lock}`.
    pub async fn lock(&self, lock: &str) -> Value {
        self.get(&format!("/v1/locks/{lock}")).await.assert_status(200).json()
    }

    /// The sessions of the holders, in grant order.
    pub async fn holders(&self, lock: &str) -> Vec<String> {
        sessions_of(&self.lock(lock).await["holders"])
    }

    /// The sessions of the first hundred waiters, in queue order.
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

    /// The earliest time at which the session of the lock's holder can expire without a further renewal. Waits for a
    /// moment at which more than half of the TTL is left.
    pub async fn earliest_expiry(&self, lock: &str, ttl: Duration) -> Instant {
        let session = self.holders(lock).await.remove(0);
        until_some("a recent renewal", DEADLINE, async || {
            let asked = Instant::now();
            let view = self.get(&format!("/v1/sessions/{session}")).await.json();
            let left = Duration::from_millis(view["expires_in_ms"].as_u64()?);
            (left > ttl / 2).then_some(asked + left)
        })
        .await
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
