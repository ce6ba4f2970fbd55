//! The nodes of one cluster: which one a call tries first, which ones rest after a failure, and whether one still
//! answers.
//!
//! Every answer names its node and the leader, and calls try the leader first: another node would forward them. A node that
//! gave no answer rests for seconds, and so does an address behind which another server answers. One with `Retry-After` in its
//! answer rests until then. Calls try the other nodes first. The first node of a process is random, so one frozen node does not
//! delay all processes alike. Bounds: one ping in flight for each call that waits at a node.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use holdfast_api::{HOLDFAST_LEADER, HOLDFAST_NODE};

use crate::Error;
use crate::calls::call::{AttemptOutcome, Budget, Call, StreamedRead, classify};
use crate::http::{Headers, HttpClient, HttpRequest, HttpResponse, Method, StreamedAnswer};

/// Another node gets a copy of a call after this time without an answer.
pub(crate) const COPY_AFTER: Duration = Duration::from_millis(300);
/// The same while most calls take that long: the cluster is slow, and copies would make it slower.
const COPY_AFTER_OF_SLOW_CLUSTER: Duration = Duration::from_secs(1);
/// An answer without a copy earns 1 credit, a copy costs this many. Slow clusters thus get one copy for ten calls.
const COPY_COST: u32 = 10;
const CREDIT_MAX: u32 = 100;
/// A node rests this long after its first failure; each further failure in sequence doubles the time.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(10);
/// A node that holds a call is pinged after this time, then after twice the time, up to `PING_MAX`.
const PING_FIRST: Duration = Duration::from_millis(400);
const PING_MAX: Duration = Duration::from_secs(15);
/// The maximum time of the answer to a ping.
const PING_TIMEOUT: Duration = Duration::from_millis(600);
/// A node that answered within this time needs no ping before a call that may have only one copy.
const ALIVE_FOR: Duration = Duration::from_secs(1);
/// The cheapest call: a node answers it without the cluster and without a credential.
pub(crate) const PING: &str = "/livez";

/// The nodes of one cluster.
pub(crate) struct Nodes {
    http: HttpClient,
    all: Vec<Node>,
    /// The index of the node that answered last. Concurrent calls may overwrite it, because every start is correct.
    preferred: AtomicUsize,
    /// The id of the leader in the last answer; 0 if the answer had none.
    leader: AtomicU64,
    copy_credit: AtomicU32,
    /// Whether a node has accepted a call, and with it the access token.
    accepted: AtomicBool,
}

struct Node {
    base: String,
    /// The id of the node behind this address, from its last answer; 0 before.
    id: AtomicU64,
    health: Mutex<NodeHealth>,
    /// The calls that wait at this node.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct NodeHealth {
    answered_at: Option<Instant>,
    rests_until: Option<Instant>,
    /// Consecutive calls without an answer.
    failures: u32,
}

impl Node {
    /// Ignores poisoning: each field is consistent alone.
    fn health(&self) -> MutexGuard<'_, NodeHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rests(&self, now: Instant) -> bool {
        self.health().rests_until.is_some_and(|until| now < until)
    }

    fn answered_within(&self, time: Duration) -> bool {
        self.health().answered_at.is_some_and(|at| at.elapsed() < time)
    }
}

/// The addresses.
impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|node| &node.base)).finish()
    }
}

impl Nodes {
    /// Creates the nodes with these base URLs. Calls start at a node that `random` selects.
    pub(crate) fn new(http: HttpClient, bases: Vec<String>, random: u8) -> Self {
        let first = usize::from(random) % bases.len().max(1);
        let node = |base| Node {
            base,
            id: AtomicU64::new(0),
            health: Mutex::default(),
            waiting: AtomicUsize::new(0),
        };
        Self {
            http,
            all: bases.into_iter().map(node).collect(),
            preferred: AtomicUsize::new(first),
            leader: AtomicU64::new(0),
            copy_credit: AtomicU32::new(CREDIT_MAX),
            accepted: AtomicBool::new(false),
        }
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn base(&self, node: usize) -> &str {
        &self.all[node].base
    }

    /// Returns the nodes in the order in which a call tries them: the leader first, those that rest last. While the address
    /// of the leader is unknown, addresses without an answer come first, because the leader is one of them.
    pub(crate) fn order(&self) -> Vec<usize> {
        let (now, first, count) =
            (Instant::now(), self.preferred.load(Ordering::Relaxed), self.all.len());
        let mut order: Vec<usize> =
            (0..count).map(|turn| first.wrapping_add(turn) % count).collect();
        if count > 1 {
            let leader = self.leader.load(Ordering::Relaxed);
            let id = |node: usize| self.all[node].id.load(Ordering::Relaxed);
            let is_known = leader == 0 || order.iter().any(|node| id(*node) == leader);
            let wanted = if is_known { leader } else { 0 };
            order.sort_by_key(|node| {
                (self.all[*node].rests(now), leader != 0 && id(*node) != wanted)
            });
        }
        order
    }

    /// Returns the nodes with the fewest waiting calls first. A keepalive that is parked there delivers a grant although
    /// the node of the acquire is frozen.
    pub(crate) fn order_of_idle(&self) -> Vec<usize> {
        let (now, mut order) = (Instant::now(), self.order());
        let first = self.preferred.load(Ordering::Relaxed) % self.all.len().max(1);
        order.sort_by_key(|index| {
            let node = &self.all[*index];
            (node.rests(now), node.waiting.load(Ordering::Relaxed), *index == first)
        });
        order
    }

    /// Makes calls start at this node.
    pub(crate) fn prefer(&self, node: usize) {
        self.preferred.store(node, Ordering::Relaxed);
    }

    /// Returns how long a call waits for an answer before another node gets a copy.
    pub(crate) fn copy_after(&self) -> Duration {
        let has_credit = self.copy_credit.load(Ordering::Relaxed) >= COPY_COST;
        if has_credit { COPY_AFTER } else { COPY_AFTER_OF_SLOW_CLUSTER }
    }

    /// Records that another node got a copy of a call.
    pub(crate) fn copied(&self) {
        self.change_credit(|credit| credit.saturating_sub(COPY_COST));
    }

    /// Records that a call was answered without a copy.
    pub(crate) fn answered_alone(&self) {
        if self.copy_credit.load(Ordering::Relaxed) < CREDIT_MAX {
            self.change_credit(|credit| (credit + 1).min(CREDIT_MAX));
        }
    }

    fn change_credit(&self, change: impl Fn(u32) -> u32) {
        let order = Ordering::Relaxed;
        let _previous = self.copy_credit.fetch_update(order, order, |credit| Some(change(credit)));
    }

    /// Records an answer.
    fn answered(&self, node: usize) {
        let answered_at = Some(Instant::now());
        *self.all[node].health() = NodeHealth { answered_at, rests_until: None, failures: 0 };
    }

    /// Learns from an answer which node sent it, and which node leads.
    fn learn(&self, node: usize, headers: &Headers) {
        let number = |name| headers.get(name)?.parse::<u64>().ok();
        if let Some(id) = number(HOLDFAST_NODE) {
            self.all[node].id.store(id, Ordering::Relaxed);
            self.leader.store(number(HOLDFAST_LEADER).unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// Records that the node gave no answer, or a later one than another node.
    pub(crate) fn rest(&self, node: usize) {
        let mut health = self.all[node].health();
        let rest = REST_MIN * 2_u32.pow(health.failures.min(4));
        health.failures = health.failures.saturating_add(1);
        health.rests_until = Some(Instant::now() + rest.min(REST_MAX));
    }

    /// Whether the first node of the order has just answered another call.
    pub(crate) fn is_first_alive(&self) -> bool {
        self.order().first().is_none_or(|first| self.all[*first].answered_within(ALIVE_FOR))
    }

    /// Whether a node has accepted a call.
    pub(crate) fn has_accepted(&self) -> bool {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Whether a node rejected a token that was accepted before, and whose file may have another one now.
    pub(crate) fn may_get_token(&self, error: &Error) -> bool {
        error.is_unauthenticated() && self.has_accepted() && self.http.read_token_again()
    }

    /// Returns the outcome of an answer that does not confirm the call. A node with `Retry-After` in its answer comes last until
    /// then, and an address behind which another server answers comes last for seconds.
    fn unconfirmed<T>(&self, node: usize, response: &HttpResponse) -> AttemptOutcome<T> {
        let outcome = classify(self.base(node), response);
        if matches!(outcome, AttemptOutcome::Foreign(_)) {
            self.rest(node);
            return outcome;
        }
        self.answered(node);
        self.learn(node, &response.headers);
        match outcome {
            AttemptOutcome::Rejected(error) if self.may_get_token(&error) => {
                AttemptOutcome::OldToken(error)
            }
            AttemptOutcome::NotDone(_, Some(after)) | AttemptOutcome::MayBeDone(_, Some(after)) => {
                if !after.at_every_node {
                    self.all[node].health().rests_until = Some(Instant::now() + after.time);
                }
                outcome
            }
            AttemptOutcome::Success(_)
            | AttemptOutcome::Rejected(_)
            | AttemptOutcome::NotDone(_, None)
            | AttemptOutcome::OldToken(_)
            | AttemptOutcome::Foreign(_)
            | AttemptOutcome::MayBeDone(_, None) => outcome,
        }
    }

    /// Sends a call to one node.
    pub(crate) async fn attempt(
        &self,
        call: &Call,
        budget: Budget,
        node: usize,
    ) -> AttemptOutcome<HttpResponse> {
        let base = self.base(node);
        let left = budget.until.saturating_duration_since(Instant::now());
        let request = HttpRequest {
            method: call.method.clone(),
            url: format!("{base}{}", call.target),
            headers: call.headers.clone(),
            body: call.body.clone(),
            timeout: budget.per_node.min(left),
        };
        match self.http.send(request).await {
            Ok(response) if response.status.is_success() && call.is_confirmed_by(&response) => {
                self.answered(node);
                self.learn(node, &response.headers);
                // A ping needs no credential.
                self.accepted.fetch_or(call.target != PING, Ordering::Relaxed);
                AttemptOutcome::Success(response)
            }
            Ok(response) => self.unconfirmed(node, &response),
            Err(error) => {
                self.rest(node);
                AttemptOutcome::of(base, &error)
            }
        }
    }

    /// Sends a call that the node may hold for long. Gives up when the node does not answer one of the first `pings`.
    pub(crate) async fn attempt_while_alive(
        &self,
        call: &Call,
        budget: Budget,
        node: usize,
        pings: usize,
    ) -> AttemptOutcome<HttpResponse> {
        let _waiting = WaitingAt::new(&self.all[node]);
        tokio::select! {
            outcome = self.attempt(call, budget, node) => outcome,
            () = self.silence(Some(node), pings) => {
                AttemptOutcome::MayBeDone(self.silent(node), None)
            }
        }
    }

    fn silent(&self, node: usize) -> String {
        format!("{}: the node stopped answering", self.base(node))
    }

    /// Resolves when a node does not answer one of the first `pings`; never, if there is no other node.
    pub(crate) async fn silence(&self, node: Option<usize>, pings: usize) {
        let Some(node) = node.filter(|_| self.all.len() > 1) else {
            return std::future::pending().await;
        };
        let mut interval = PING_FIRST;
        for _ in 0..pings {
            tokio::time::sleep(interval).await;
            if !self.all[node].answered_within(interval) && !self.is_alive(node).await {
                return self.rest(node);
            }
            interval = (interval * 2).min(PING_MAX);
        }
        std::future::pending::<()>().await;
    }

    /// Whether a node answers a ping. Any answer counts.
    async fn is_alive(&self, node: usize) -> bool {
        let url = format!("{}{PING}", self.base(node));
        let alive = self.http.send(HttpRequest::new(Method::GET, url, PING_TIMEOUT)).await.is_ok();
        if alive {
            self.answered(node);
        }
        alive
    }

    pub(crate) async fn open_stream_at(
        &self,
        node: usize,
        stream: &StreamedRead<'_>,
    ) -> AttemptOutcome<StreamedAnswer> {
        let base = self.base(node);
        let url = format!("{base}{}", stream.target);
        let mut request = HttpRequest::new(Method::GET, url, stream.head_timeout);
        request.headers.clone_from(&stream.headers);
        let answer = tokio::select! {
            answer = self.http.open_stream(request) => answer,
            () = self.silence(Some(node), usize::MAX) => {
                return AttemptOutcome::NotDone(self.silent(node), None);
            }
        };
        let mut stream = match answer {
            Ok(stream) if stream.status.is_success() && !is_page(&stream.headers) => {
                self.answered(node);
                self.learn(node, &stream.headers);
                self.prefer(node);
                self.accepted.store(true, Ordering::Relaxed);
                return AttemptOutcome::Success(stream);
            }
            Ok(stream) => stream,
            Err(error) => {
                self.rest(node);
                return AttemptOutcome::of(base, &error);
            }
        };
        match tokio::time::timeout(PING_MAX, stream.rest()).await {
            Ok(Ok(body)) => {
                let StreamedAnswer { status, headers, .. } = stream;
                let answer = HttpResponse { status, headers, body };
                self.unconfirmed(node, &answer)
            }
            Ok(Err(_)) | Err(_) => {
                AttemptOutcome::NotDone(format!("{base}: no answer in time"), None)
            }
        }
    }
}

/// Whether a stream is the page of another server: it has a type, but not the one of events, and names no node.
fn is_page(headers: &Headers) -> bool {
    let is_other = |kind: &str| !kind.starts_with("text/event-stream");
    headers.get(HOLDFAST_NODE).is_none() && headers.get("content-type").is_some_and(is_other)
}

/// Counts a call that waits at a node.
struct WaitingAt<'a>(&'a AtomicUsize);

impl<'a> WaitingAt<'a> {
    fn new(node: &'a Node) -> Self {
        node.waiting.fetch_add(1, Ordering::Relaxed);
        Self(&node.waiting)
    }
}

impl Drop for WaitingAt<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Nodes {
        let bases = (0..count).map(|node| format!("http://{node}")).collect();
        Nodes::new(HttpClient::new(REST_MIN), bases, 1)
    }

    #[test]
    fn a_node_that_rests_comes_last_until_it_answers() {
        let nodes = nodes(3);
        assert_eq!(nodes.order(), [1, 2, 0]);
        nodes.rest(1);
        assert_eq!(nodes.order(), [2, 0, 1]);
        nodes.answered(1);
        assert_eq!(nodes.order(), [1, 2, 0]);
    }

    /// The headers of an answer.
    fn headers(id: &str, leader: &str) -> Headers {
        Headers::new(&[(HOLDFAST_NODE, id), (HOLDFAST_LEADER, leader)])
    }

    #[test]
    fn calls_start_at_the_leader_as_soon_as_its_address_is_known() {
        let nodes = nodes(3);
        let answer = |node, id, leader| nodes.learn(node, &headers(id, leader));
        answer(1, "12", "13");
        assert_eq!(nodes.order(), [2, 0, 1], "the leader is behind another address");
        answer(2, "11", "13");
        assert_eq!(nodes.order(), [0, 1, 2]);
        answer(0, "13", "13");
        assert_eq!(nodes.order(), [0, 1, 2]);
        nodes.prefer(2);
        assert_eq!(nodes.order(), [0, 2, 1]);
        nodes.rest(0);
        assert_eq!(nodes.order(), [2, 1, 0], "a leader that rests comes last");
        answer(1, "12", "11");
        assert_eq!(nodes.order(), [2, 1, 0]);
        answer(1, "12", "none");
        assert_eq!(
            nodes.order(),
            [2, 1, 0],
            "without a leader, calls start where one was answered"
        );
        nodes.prefer(1);
        assert_eq!(nodes.order(), [1, 2, 0]);
    }

    #[test]
    fn calls_of_a_client_that_does_not_have_the_address_of_the_leader_stay_where_they_are() {
        let nodes = nodes(2);
        for (node, id) in [(0, "1"), (1, "2")] {
            nodes.learn(node, &headers(id, "3"));
        }
        assert_eq!(nodes.order(), [1, 0]);
        nodes.prefer(0);
        assert_eq!(nodes.order(), [0, 1]);
    }

    #[test]
    fn a_keepalive_is_parked_where_no_call_waits() {
        let nodes = nodes(3);
        assert_eq!(nodes.order_of_idle(), [2, 0, 1], "calls start at node 1");
        let _waiting = WaitingAt::new(&nodes.all[2]);
        assert_eq!(nodes.order_of_idle(), [0, 1, 2]);
        nodes.rest(0);
        assert_eq!(nodes.order_of_idle(), [1, 2, 0]);
    }

    #[test]
    fn copies_are_later_while_most_calls_need_one() {
        let nodes = nodes(3);
        for _ in 0..CREDIT_MAX / COPY_COST {
            assert_eq!(nodes.copy_after(), COPY_AFTER);
            nodes.copied();
        }
        assert_eq!(nodes.copy_after(), COPY_AFTER_OF_SLOW_CLUSTER);
        for _ in 0..COPY_COST {
            nodes.answered_alone();
        }
        assert_eq!(nodes.copy_after(), COPY_AFTER);
    }
}
