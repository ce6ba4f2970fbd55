//! The retry loop of every call: it tries the nodes until one answers or the call's time is over.
//!
//! A call that may have copies ([`Copies::Harmless`]) goes to the next node after a third of a second without an answer;
//! the first answer counts. Any other call is at one node at a time. The result is [`Error::OutcomeUnknown`] only if no
//! later answer settles the call. Bounds: one request in flight at each node for each call.
//! A node that rejects the access token has not executed the call. If the token is from a file and a node accepted it
//! before, the call goes on within its time, because another program replaces the file.

use holdfast_api::JsonBody;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::Error;
use crate::calls::call::{AttemptOutcome, Budget, Call, Copies, PAUSE_MAX, PAUSE_MIN};
use crate::calls::nodes::{COPY_AFTER, Nodes, PING};
use crate::clock::Moment;
use crate::http::{HttpResponse, Method};

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

/// The nodes that get the requests of a call, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRoute {
    /// The answer is due at once and copies are harmless, so the next node gets a copy if this one is late.
    Copied,
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
}

impl<T> Delivery<T> {
    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Delivery<U> {
        let result = self.result.map(|answer| Answer { body: map(answer.body), sent: answer.sent });
        Delivery { result, in_doubt: self.in_doubt }
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
        Delivery { result: self.result.and_then(read), in_doubt: self.in_doubt }
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
        Delivery { result, in_doubt: rounds.is_in_doubt() }
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
    /// The nodes without a request in this round.
    untried: VecDeque<usize>,
    in_flight: Vec<CallCopy<'a>>,
    is_started: bool,
    /// No request starts before.
    start_at: Instant,
    pause: Duration,
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
            CallRoute::Copied | CallRoute::Alone | CallRoute::Queued => nodes.order(),
            CallRoute::Elsewhere | CallRoute::Parked => nodes.order_of_idle(),
        };
        Self {
            nodes,
            call,
            budget,
            route,
            untried: order.into(),
            in_flight: Vec::new(),
            is_started: false,
            start_at: Instant::now(),
            pause: PAUSE_MIN,
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
            if self.may_start() && Instant::now() >= self.start_at {
                self.start();
            }
            let may_start = self.may_start();
            let (CallCopy { node, sent, .. }, outcome) = tokio::select! {
                biased;
                finished = next_finished(&mut self.in_flight), if !self.in_flight.is_empty() => finished,
                () = tokio::time::sleep_until(self.start_at.into()), if may_start => continue,
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
                AttemptOutcome::NotDone(reason) => self.failed(node, reason),
                AttemptOutcome::OldToken(error) => {
                    self.failed(node, error.to_string());
                    self.old_token = Some(error);
                }
                AttemptOutcome::MayBeDone(reason) => {
                    self.lost_answer = true;
                    if self.call.copies == Copies::Never {
                        return Err(Error::OutcomeUnknown(reason));
                    }
                    self.unanswered(node, reason);
                }
            }
        }
    }

    /// Schedules the next request after one without an answer. At the end of the time, an earlier answer of the node
    /// explains more than a request that had no time left.
    fn unanswered(&mut self, node: usize, reason: String) {
        let is_last = Instant::now() >= self.budget.start_until;
        let earlier = self.failures[node].take().filter(|_| is_last);
        self.failed(node, earlier.unwrap_or(reason));
    }

    fn may_start(&self) -> bool {
        let has_time = !self.is_started || Instant::now() < self.budget.start_until;
        let may_copy = self.in_flight.is_empty() || self.route == CallRoute::Copied;
        has_time && may_copy && !self.untried.is_empty()
    }

    /// Sends the request to the next node.
    fn start(&mut self) {
        let Some(node) = self.untried.pop_front() else { return };
        if !self.in_flight.is_empty() {
            self.nodes.copied();
        }
        let (nodes, call, budget) = (self.nodes, self.call, self.budget);
        let attempt: Pin<Box<dyn Future<Output = _> + Send + 'a>> = match self.route {
            CallRoute::Copied | CallRoute::Parked => Box::pin(nodes.attempt(call, budget, node)),
            CallRoute::Alone => Box::pin(nodes.attempt_while_alive(call, budget, node, usize::MAX)),
            CallRoute::Queued | CallRoute::Elsewhere => {
                Box::pin(nodes.attempt_while_alive(call, budget, node, 1))
            }
        };
        self.in_flight.push(CallCopy { node, sent: Moment::now(), attempt });
        self.is_started = true;
        self.start_at = Instant::now() + nodes.copy_after();
    }

    /// Schedules the next request after one that failed.
    fn failed(&mut self, node: usize, reason: String) {
        self.failures[node] = Some(reason);
        self.start_at = Instant::now();
        if self.untried.is_empty() {
            let waits = |node: &usize| self.in_flight.iter().any(|other| other.node == *node);
            self.untried = self.nodes.order().into_iter().filter(|node| !waits(node)).collect();
            self.start_at = (self.start_at + self.pause).min(self.budget.start_until);
            self.pause = (self.pause * 3 / 2).min(PAUSE_MAX);
        }
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

    fn error(&mut self) -> Error {
        let reasons: Vec<&str> = self.failures.iter().flatten().map(String::as_str).collect();
        let reason = if reasons.is_empty() { NO_NODE_TRIED.to_owned() } else { reasons.join("; ") };
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
