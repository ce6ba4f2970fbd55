//! A client that repeats each call until it knows the result.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_lab::{Http, LONG_DEADLINE, LateCopies, Method, Reply, Request};
use serde_json::Value;

const CALL_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE_BETWEEN_COPIES: Duration = Duration::from_millis(50);

/// A client with sessions of its own.
pub(super) struct Client {
    pub(super) name: String,
    nodes: Vec<Http>,
    at: usize,
    number: u64,
    unread: LateCopies,
    calls: Arc<AtomicU64>,
}

impl Client {
    pub(super) fn new(
        name: &str,
        nodes: Vec<Http>,
        first: usize,
        unread: &LateCopies,
        calls: &Arc<AtomicU64>,
    ) -> Self {
        let (at, unread, calls) = (first % nodes.len(), unread.clone(), Arc::clone(calls));
        Self { name: name.to_owned(), nodes, at, number: 0, unread, calls }
    }

    /// A number larger than each earlier one: an attempt, or the number of a request.
    pub(super) fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Sends a change with this status as its result, at one node after the other.
    pub(super) async fn change(&mut self, method: &Method, target: &str, status: u16) -> Value {
        let reply = self.call(method, target).await;
        assert_eq!(reply.status, status, "{}: {method} {target}: {reply}", self.name);
        reply.json()
    }

    pub(super) async fn put(&mut self, target: &str) -> Value {
        let reply = self.call(&Method::PUT, target).await;
        assert!(matches!(reply.status, 200 | 201), "{}: PUT {target}: {reply}", self.name);
        reply.json()
    }

    pub(super) async fn post(&mut self, target: &str) -> Value {
        let reply = self.call(&Method::POST, target).await;
        assert!(matches!(reply.status, 200 | 201), "{}: POST {target}: {reply}", self.name);
        reply.json()
    }

    pub(super) async fn delete(&mut self, target: &str) {
        self.change(&Method::DELETE, target, 204).await;
    }

    /// Reads what was acknowledged before.
    pub(super) async fn get(&mut self, target: &str) -> Reply {
        self.call(&Method::GET, target).await
    }

    async fn call(&mut self, method: &Method, target: &str) -> Reply {
        let began = Instant::now();
        loop {
            if let Some(reply) = self.send_to_next(method, target).await {
                return reply;
            }
            let elapsed = began.elapsed();
            assert!(elapsed < LONG_DEADLINE, "{}: {method} {target} had no result", self.name);
            tokio::time::sleep(PAUSE_BETWEEN_COPIES).await;
        }
    }

    /// Sends a call to the next node. Returns `None` if its result is unknown.
    async fn send_to_next(&mut self, method: &Method, target: &str) -> Option<Reply> {
        if *method != Method::GET {
            self.unread.leave(method, target).await;
        }
        let node = &self.nodes[self.at];
        self.at = (self.at + 1) % self.nodes.len();
        let sent = node.send(Request::new(method.clone(), target).within(CALL_TIMEOUT)).await;
        let reply = sent.ok().filter(|reply| !matches!(reply.status, 429 | 503))?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        Some(reply)
    }
}
