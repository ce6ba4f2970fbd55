//! The retry loop of every call: it tries the nodes until one answers or the call's time is over.
//!
//! A call that may have copies ([`Copies::Harmless`]) goes to the next node after a third of a second without an answer;
//! the first answer counts. Any other call is at one node at a time. The result is [`Error::OutcomeUnknown`] only if no
//! later answer settles the call. After the answer of another server, the call goes to the next address. It ends if each
//! address answers so. Bounds: one request in flight at each node for each call.
//! A node with the header `Retry-After` in its answer gets the call again after that time. A call without so much time ends
//! at once, except a renewal.
//! A node that rejects the access token has not executed the call. If the token is from a file and a node accepted it
//! before, the call goes on within its time, because another program replaces the file.

use holdfast_api::JsonBody;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::Error;
use crate::calls::call::{AttemptOutcome, Budget, Call, Copies, RetryAfter, StreamedRead};
use crate::calls::nodes::{COPY_AFTER, Nodes, PING};
use crate::clock::Moment;
use crate::http::{HttpResponse, Method, StreamedAnswer};

/// The first and the maximum pause between two rounds over all nodes.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The pause of a background task after a failure.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(200);
const RETRY_DOUBLINGS_MAX: u32 = 6;
/// The maximum time of the search for a node that answers, before a call that may have only one copy; also of one node
/// when each is asked.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(1);
const NO_NODE_TRIED: &str = "no node was tried";

/// Returns the pause after this many consecutive failures: it starts with [`RETRY_PAUSE`] and doubles with each failure.
pub(crate) fn retry_pause(failures: u32) -> Duration {
    RETRY_PAUSE * 2_u32.pow(failures.saturating_sub(1).min(RETRY_DOUBLINGS_MAX))
}

/// Resolves when a node accepts a call again. Without a wait it uses no timer, whose resolution is a millisecond.
pub(crate) async fn accepted(retry_at: Instant) {
    if Instant::now() < retry_at {
        tokio::time::sleep_until(retry_at.into()).await;
    }
}

/// The nodes that get the requests of a call, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRoute {
    /// The answer is due at once and copies are harmless, so the next node gets a copy if this one is late.
    Copied,
    /// As `Copied`, for a lease, which is renewed while it lasts, even before the `Retry-After` of a node.
    Renewal,
    /// One node has the call as long as it answers pings.
    Alone,
    /// One node has the acquire if it answers the first ping. From then on, the keepalive of the session delivers the
    /// grant if the node freezes.
    Queued,
    /// As `Queued`, first at a node where no call of this client waits.
    Elsewhere,
    /// One node holds the call, a keepalive, without pings and at a node where no call of this client waits.
    Parked,
}

/// An answer, with the moment at which its request was sent. Every deadline in the answer counts from that moment or
/// later.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) body: T,
    pub(crate) sent: Moment,
}

/// The outcome of a call.
#[derive(Debug)]
pub(crate) struct Delivery<T> {
    pub(crate) result: Result<Answer<T>, Error>,
    /// Whether a request without an answer may still take effect later.
    pub(crate) in_doubt: bool,
    /// No node accepts the call again before, by its `Retry-After`.
    pub(crate) retry_at: Instant,
}

impl<T> Delivery<T> {
    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Delivery<U> {
        let result = self.result.map(|answer| Answer { body: map(answer.body), sent: answer.sent });
        Delivery { result, in_doubt: self.in_doubt, retry_at: self.retry_at }
    }
}

impl Delivery<HttpResponse> {
    /// Parses the body as JSON.
    pub(crate) fn json<T: JsonBody>(self) -> Delivery<T> {
        let read = |answer: Answer<HttpResponse>| {
            let body =
                answer.body.json().map_err(|error| Error::UnexpectedResponse(error.to_string()))?;
            Ok(Answer { body, sent: answer.sent })
        };
        let Self { result, in_doubt, retry_at } = self;
        Delivery { result: result.and_then(read), in_doubt, retry_at }
    }
}

impl Nodes {
    /// Sends a call to the nodes until one answers.
    pub(crate) async fn send(
        &self,
        call: &Call,
        budget: Budget,
        route: CallRoute,
    ) -> Delivery<HttpResponse> {
        if call.copies != Copies::Harmless && self.len() > 1 && !self.is_first_alive() {
            self.find_alive(budget).await;
        }
        let mut rounds = Rounds::new(self, call, budget, route);
        let result = rounds.run().await;
        let retry_at = rounds.turns.accepted_at(0..self.len());
        Delivery { result, in_doubt: rounds.is_in_doubt(), retry_at }
    }

    /// Sends a read to each node except the one that answered last, and returns the first answer that `fits`.
    pub(crate) async fn find_at_others<T: JsonBody>(
        &self,
        call: &Call,
        fits: impl Fn(&T) -> bool,
    ) -> Option<T> {
        for node in self.order().into_iter().skip(1) {
            let until = Instant::now() + SEARCH_TIMEOUT;
            let budget = Budget { per_node: SEARCH_TIMEOUT, start_until: until, until };
            if let AttemptOutcome::Success(response) = self.attempt(call, budget, node).await
                && let Ok(body) = response.json()
                && fits(&body)
            {
                return Some(body);
            }
        }
        None
    }

    /// Makes calls start at a node that answers, so that the only copy of a call does not go to a frozen node.
    async fn find_alive(&self, budget: Budget) {
        let start_until = budget.start_until.min(Instant::now() + SEARCH_TIMEOUT);
        let budget = Budget { per_node: SEARCH_TIMEOUT, start_until, until: start_until };
        drop(Rounds::new(self, &Call::get(PING), budget, CallRoute::Copied).run().await);
    }

    /// Opens a stream at the first node that accepts it. The node `after`, which ended the previous stream, comes last.
    pub(crate) async fn open_stream(
        &self,
        stream: &StreamedRead<'_>,
        after: Option<usize>,
        until: Instant,
    ) -> Result<(StreamedAnswer, usize), Error> {
        let budget = Budget { per_node: stream.head_timeout, start_until: until, until };
        let order = || {
            let mut order = self.order();
            order.sort_by_key(|node| Some(*node) == after);
            order
        };
        let mut turns = Turns::new(order(), self.len(), budget, false);
        loop {
            let Some(node) = turns.take() else {
                return Err(Error::Unavailable(NO_NODE_TRIED.to_owned()));
            };
            let (error, retry_after) = match self.open_stream_at(node, stream).await {
                AttemptOutcome::Success(stream) => return Ok((stream, node)),
                AttemptOutcome::Rejected(error) => return Err(error),
                AttemptOutcome::OldToken(error) => (error, None),
                AttemptOutcome::Foreign(reason) => (Error::UnexpectedResponse(reason), None),
                AttemptOutcome::NotDone(reason, retry_after)
                | AttemptOutcome::MayBeDone(reason, retry_after) => {
                    (Error::Unavailable(reason), retry_after)
                }
            };
            turns.failed(node, retry_after, order);
            let is_foreign = matches!(error, Error::UnexpectedResponse(_));
            if is_foreign && turns.are_all_foreign(node) {
                return Err(error);
            }
            if turns.has_time() {
                tokio::time::sleep_until(turns.start_at.into()).await;
            }
            if !turns.has_time() {
                return Err(error);
            }
        }
    }
}

/// The nodes that get the next requests of a call, and when.
struct Turns {
    budget: Budget,
    is_renewal: bool,
    /// The nodes without a request in this round.
    untried: VecDeque<usize>,
    /// No request starts at the node before, by its `Retry-After`.
    not_before: Vec<Instant>,
    /// Whether the last answer at the address is from another server.
    foreign: Vec<bool>,
    /// No request starts before.
    start_at: Instant,
    pause: Duration,
}

impl Turns {
    fn new(order: Vec<usize>, nodes: usize, budget: Budget, is_renewal: bool) -> Self {
        let now = Instant::now();
        let (untried, not_before, foreign) = (order.into(), vec![now; nodes], vec![false; nodes]);
        Self { budget, is_renewal, untried, not_before, foreign, start_at: now, pause: PAUSE_MIN }
    }

    /// The first moment at which one of these nodes accepts the request; without a node, now.
    fn accepted_at(&self, nodes: impl IntoIterator<Item = usize>) -> Instant {
        let accepted = nodes.into_iter().map(|node| self.not_before[node]).min();
        accepted.unwrap_or_else(Instant::now)
    }

    /// Whether a request may start in the time of the call.
    fn has_time(&self) -> bool {
        let accepted = self.accepted_at(self.untried.iter().copied());
        let start_until = self.budget.start_until;
        Instant::now() < start_until && (self.is_renewal || accepted < start_until)
    }

    /// Takes the next node out of the round: the first that accepts the call now, or the earliest.
    fn take(&mut self) -> Option<usize> {
        let now = Instant::now();
        let turns = 0..self.untried.len();
        let first = turns.min_by_key(|turn| self.not_before[self.untried[*turn]].max(now))?;
        self.untried.remove(first)
    }

    /// Schedules the next request, unless all nodes have one. `order` has the nodes of another round.
    fn failed(
        &mut self,
        node: usize,
        retry_after: Option<RetryAfter>,
        order: impl FnOnce() -> Vec<usize>,
    ) {
        let now = Instant::now();
        self.foreign[node] = false;
        if let Some(RetryAfter { time, at_every_node }) = retry_after {
            let nodes = if at_every_node { 0..self.not_before.len() } else { node..node + 1 };
            self.not_before[nodes].fill(now + time);
        }
        let mut start_at = now;
        if !self.untried.iter().any(|node| self.not_before[*node] <= now) {
            self.untried = order().into();
            start_at += self.pause;
            self.pause = (self.pause * 3 / 2).min(PAUSE_MAX);
        }
        self.start_from(start_at);
    }

    /// Records that another server answered at an address. Returns whether all addresses answered so.
    fn are_all_foreign(&mut self, node: usize) -> bool {
        self.foreign[node] = true;
        !self.foreign.contains(&false)
    }

    /// Schedules the next request, at the first moment at which a node accepts it. If a renewal has less time, a node gets it
    /// after the maximum time of one request.
    fn start_from(&mut self, earliest: Instant) {
        let Budget { per_node, start_until, .. } = self.budget;
        let start_at = self.accepted_at(self.untried.iter().copied()).max(earliest);
        let last = start_until.min(earliest + per_node);
        self.start_at = if start_at <= start_until { start_at } else { last };
    }
}

/// A request without an answer so far.
struct CallCopy<'a> {
    node: usize,
    sent: Moment,
    attempt: Pin<Box<dyn Future<Output = AttemptOutcome<HttpResponse>> + Send + 'a>>,
}

/// The rounds of one call over the nodes.
struct Rounds<'a> {
    nodes: &'a Nodes,
    call: &'a Call,
    budget: Budget,
    route: CallRoute,
    turns: Turns,
    in_flight: Vec<CallCopy<'a>>,
    is_started: bool,
    /// The last failure of each node.
    failures: Vec<Option<String>>,
    /// Whether a request failed after the node may have received it.
    lost_answer: bool,
    /// The last rejection of an access token whose file may have another one.
    old_token: Option<Error>,
}

impl<'a> Rounds<'a> {
    fn new(nodes: &'a Nodes, call: &'a Call, budget: Budget, route: CallRoute) -> Self {
        let order = match route {
            CallRoute::Copied | CallRoute::Renewal | CallRoute::Alone | CallRoute::Queued => {
                nodes.order()
            }
            CallRoute::Elsewhere | CallRoute::Parked => nodes.order_of_idle(),
        };
        Self {
            nodes,
            call,
            budget,
            route,
            turns: Turns::new(order, nodes.len(), budget, route == CallRoute::Renewal),
            in_flight: Vec::new(),
            is_started: false,
            failures: vec![None; nodes.len()],
            lost_answer: false,
            old_token: None,
        }
    }

    /// Whether a request without an answer may still take effect later.
    fn is_in_doubt(&self) -> bool {
        self.lost_answer || !self.in_flight.is_empty()
    }

    async fn run(&mut self) -> Result<Answer<HttpResponse>, Error> {
        loop {
            if self.may_start() && Instant::now() >= self.turns.start_at {
                self.start();
            }
            let may_start = self.may_start();
            let (CallCopy { node, sent, .. }, outcome) = tokio::select! {
                biased;
                finished = next_finished(&mut self.in_flight), if !self.in_flight.is_empty() => finished,
                () = tokio::time::sleep_until(self.turns.start_at.into()), if may_start => continue,
                else => return Err(self.error()),
            };
            match outcome {
                AttemptOutcome::Success(body) => {
                    self.won(node);
                    return Ok(Answer { body, sent });
                }
                AttemptOutcome::Rejected(error) => {
                    self.won(node);
                    return Err(error);
                }
                AttemptOutcome::Foreign(reason) => {
                    self.lost_answer = true;
                    self.failed(node, reason, None);
                    if self.turns.are_all_foreign(node) || self.call.copies == Copies::Never {
                        return Err(Error::UnexpectedResponse(self.reasons()));
                    }
                }
                AttemptOutcome::NotDone(reason, retry_after) => {
                    self.failed(node, reason, retry_after);
                }
                AttemptOutcome::OldToken(error) => {
                    self.failed(node, error.to_string(), None);
                    self.old_token = Some(error);
                }
                AttemptOutcome::MayBeDone(reason, retry_after) => {
                    self.lost_answer = true;
                    if self.call.copies == Copies::Never {
                        return Err(Error::OutcomeUnknown(reason));
                    }
                    self.unanswered(node, reason, retry_after);
                }
            }
        }
    }

    /// Schedules the next request after one without an answer. At the end of the time, an earlier answer of the node
    /// explains more than a request that had no time left.
    fn unanswered(&mut self, node: usize, reason: String, retry_after: Option<RetryAfter>) {
        let is_last = Instant::now() >= self.budget.start_until;
        let earlier = self.failures[node].take().filter(|_| is_last);
        self.failed(node, earlier.unwrap_or(reason), retry_after);
    }

    fn may_start(&self) -> bool {
        let has_time = !self.is_started || self.turns.has_time();
        let may_copy = matches!(self.route, CallRoute::Copied | CallRoute::Renewal);
        let may_copy = may_copy || self.in_flight.is_empty();
        has_time && may_copy && !self.turns.untried.is_empty()
    }

    /// Sends the request to the next node.
    fn start(&mut self) {
        let Some(node) = self.turns.take() else { return };
        if !self.in_flight.is_empty() {
            self.nodes.copied();
        }
        let (nodes, call, budget) = (self.nodes, self.call, self.budget);
        let attempt: Pin<Box<dyn Future<Output = _> + Send + 'a>> = match self.route {
            CallRoute::Copied | CallRoute::Renewal | CallRoute::Parked => {
                Box::pin(nodes.attempt(call, budget, node))
            }
            CallRoute::Alone => Box::pin(nodes.attempt_while_alive(call, budget, node, usize::MAX)),
            CallRoute::Queued | CallRoute::Elsewhere => {
                Box::pin(nodes.attempt_while_alive(call, budget, node, 1))
            }
        };
        self.in_flight.push(CallCopy { node, sent: Moment::now(), attempt });
        self.is_started = true;
        self.turns.start_from(Instant::now() + nodes.copy_after());
    }

    /// Schedules the next request after one that failed.
    fn failed(&mut self, node: usize, reason: String, retry_after: Option<RetryAfter>) {
        self.failures[node] = Some(reason);
        let has_copy = |node: &usize| self.in_flight.iter().any(|other| other.node == *node);
        let order = || self.nodes.order().into_iter().filter(|node| !has_copy(node)).collect();
        self.turns.failed(node, retry_after, order);
    }

    /// Prefers the node that answered to those that have not.
    fn won(&self, node: usize) {
        let now = Moment::now();
        for late in self.in_flight.iter().filter(|other| now.left(other.sent) >= COPY_AFTER) {
            self.nodes.rest(late.node);
        }
        if self.in_flight.is_empty() {
            self.nodes.answered_alone();
        }
        if self.route != CallRoute::Parked {
            self.nodes.prefer(node);
        }
    }

    fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.failures.iter().flatten().map(String::as_str).collect();
        if reasons.is_empty() { NO_NODE_TRIED.to_owned() } else { reasons.join("; ") }
    }

    fn error(&mut self) -> Error {
        let reason = self.reasons();
        // A read changes nothing, so a lost answer leaves no doubt.
        if self.lost_answer && self.call.method != Method::GET {
            Error::OutcomeUnknown(reason)
        } else {
            self.old_token.take().unwrap_or(Error::Unavailable(reason))
        }
    }
}

/// Resolves with the next request that has an outcome.
async fn next_finished<'a>(
    in_flight: &mut Vec<CallCopy<'a>>,
) -> (CallCopy<'a>, AttemptOutcome<HttpResponse>) {
    std::future::poll_fn(|context| {
        for index in 0..in_flight.len() {
            if let Poll::Ready(outcome) = in_flight[index].attempt.as_mut().poll(context) {
                return Poll::Ready((in_flight.swap_remove(index), outcome));
            }
        }
        Poll::Pending
    })
    .await
}
