//! The retry loop of every call: it tries the nodes in turn until one answers or the call's time is over.
//!
//! The client repeats a call without an answer if it is idempotent. Most calls are: they name a session and an attempt
//! or a request id. The result is [`Error::OutcomeUnknown`] only if no later answer settles the call.
//! Bounds: one request in flight for each call.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_api::ErrorCode;
use serde::de::DeserializeOwned;

use crate::clock::Moment;
use crate::http::{HttpClient, HttpRequest, HttpResponse, Method, SendError};
use crate::{Error, Loss};

/// The first and the maximum pause between two rounds over all nodes.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// The pause of a background task after a failure.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(200);
const RETRY_DOUBLINGS_MAX: u32 = 6;
/// The maximum time until a node sends the headers of an event stream.
const HEAD_TIMEOUT: Duration = Duration::from_secs(6);
const NO_NODE_TRIED: &str = "no node was tried";

/// Returns the pause after this many consecutive failures: it starts with [`RETRY_PAUSE`] and doubles with each failure.
pub(crate) fn retry_pause(failures: u32) -> Duration {
    RETRY_PAUSE * 2_u32.pow(failures.saturating_sub(1).min(RETRY_DOUBLINGS_MAX))
}

/// A call of the HTTP API, for [`Client::call`](crate::Client::call).
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// Names and values of additional headers.
    pub headers: Vec<(String, String)>,
    /// Empty for most calls.
    pub body: Vec<u8>,
    /// The time that the node should wait (`wait=`).
    pub wait: Duration,
    /// Whether a second copy of the call changes nothing. Any other call is not repeated after a lost answer.
    pub idempotent: bool,
}

impl Call {
    /// Creates an idempotent call without a body that does not wait.
    pub fn new(method: Method, target: impl Into<String>) -> Self {
        let (target, headers, body) = (target.into(), Vec::new(), Vec::new());
        Self { method, target, headers, body, wait: Duration::ZERO, idempotent: true }
    }

    /// Creates a read.
    pub fn get(target: impl Into<String>) -> Self {
        Self::new(Method::GET, target)
    }

    /// Returns the call with a wait at the node.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }
}

/// A read whose answer is a stream.
pub(crate) struct StreamedRead<'a> {
    /// Path and query.
    pub(crate) target: &'a str,
    pub(crate) headers: Vec<(String, String)>,
    /// The maximum time until a node sends the headers of the answer.
    pub(crate) head_timeout: Duration,
}

impl<'a> StreamedRead<'a> {
    /// Server-sent events after one with this id.
    pub(crate) fn events(target: &'a str, last_event: Option<u64>) -> Self {
        let accept = ("accept".to_owned(), "text/event-stream".to_owned());
        let last_event = last_event.map(|id| ("last-event-id".to_owned(), id.to_string()));
        let headers = [accept].into_iter().chain(last_event).collect();
        Self { target, headers, head_timeout: HEAD_TIMEOUT }
    }
}

/// The time limits of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The maximum time of one node; after it, the next node gets the call.
    pub(crate) per_node: Duration,
    /// No request starts after this instant.
    pub(crate) start_until: Instant,
    /// No request lasts beyond this instant.
    pub(crate) until: Instant,
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
    pub(crate) fn json<T: DeserializeOwned>(self) -> Delivery<T> {
        let read = |answer: Answer<HttpResponse>| {
            let body =
                answer.body.json().map_err(|error| Error::UnexpectedResponse(error.to_string()))?;
            Ok(Answer { body, sent: answer.sent })
        };
        Delivery { result: self.result.and_then(read), in_doubt: self.in_doubt }
    }
}

/// The outcome of a request at one node.
enum AttemptOutcome<T> {
    Success(T),
    /// Another node would return the same.
    Rejected(Error),
    /// The node certainly did not execute the request.
    NotDone(String),
    MayBeDone(String),
}

impl<T> AttemptOutcome<T> {
    fn of(base: &str, error: &SendError) -> Self {
        let reason = format!("{base}: {error}");
        if error.may_be_done { Self::MayBeDone(reason) } else { Self::NotDone(reason) }
    }
}

/// The nodes of one cluster.
pub(crate) struct Nodes {
    http: HttpClient,
    bases: Vec<String>,
    /// The index of the node that answered last. Concurrent calls may overwrite it, because every start is correct.
    preferred: AtomicUsize,
}

/// The addresses.
impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bases.fmt(f)
    }
}

impl Nodes {
    pub(crate) fn new(http: HttpClient, bases: Vec<String>) -> Self {
        Self { http, bases, preferred: AtomicUsize::new(0) }
    }

    /// Sends a call to the nodes in turn until one answers.
    pub(crate) async fn send(&self, call: &Call, budget: Budget) -> Delivery<HttpResponse> {
        let mut lost_answer = None;
        let result = self.rounds(call, budget, &mut lost_answer).await;
        Delivery { result, in_doubt: lost_answer.is_some() }
    }

    async fn rounds(
        &self,
        call: &Call,
        budget: Budget,
        lost_answer: &mut Option<String>,
    ) -> Result<Answer<HttpResponse>, Error> {
        let mut pause = PAUSE_MIN;
        let mut last_reason = NO_NODE_TRIED.to_owned();
        loop {
            let first = self.preferred.load(Ordering::Relaxed);
            for turn in 0..self.bases.len() {
                let index = first.wrapping_add(turn) % self.bases.len();
                let sent = Moment::now();
                match self.attempt(call, budget, &self.bases[index]).await {
                    AttemptOutcome::Success(body) => {
                        self.preferred.store(index, Ordering::Relaxed);
                        return Ok(Answer { body, sent });
                    }
                    AttemptOutcome::Rejected(error) => return Err(error),
                    AttemptOutcome::NotDone(reason) => last_reason = reason,
                    AttemptOutcome::MayBeDone(reason) => {
                        *lost_answer = Some(reason.clone());
                        if !call.idempotent {
                            return Err(Error::OutcomeUnknown(reason));
                        }
                        last_reason = reason;
                    }
                }
                if Instant::now() >= budget.start_until {
                    break;
                }
            }
            let left = budget.start_until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // A read changes nothing, so a lost answer leaves no doubt.
                let lost_answer = lost_answer.clone().filter(|_| call.method != Method::GET);
                return Err(
                    lost_answer.map_or(Error::Unavailable(last_reason), Error::OutcomeUnknown)
                );
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn attempt(
        &self,
        call: &Call,
        budget: Budget,
        base: &str,
    ) -> AttemptOutcome<HttpResponse> {
        let left = budget.until.saturating_duration_since(Instant::now());
        let request = HttpRequest {
            method: call.method.clone(),
            url: format!("{base}{}", call.target),
            headers: call.headers.clone(),
            body: call.body.clone(),
            timeout: budget.per_node.min(left),
        };
        match self.http.send(request).await {
            Ok(response) if response.status.is_success() => AttemptOutcome::Success(response),
            Ok(response) => classify(base, &response),
            Err(error) => AttemptOutcome::of(base, &error),
        }
    }

    /// Opens a stream, starting at the node with index `first`. Returns the stream and the index of its node.
    pub(crate) async fn open_stream(
        &self,
        stream: &StreamedRead<'_>,
        first: usize,
        until: Instant,
    ) -> Result<(reqwest::Response, usize), Error> {
        let mut pause = PAUSE_MIN;
        let mut number = first;
        loop {
            let base = &self.bases[number % self.bases.len()];
            let reason = match self.open_stream_at(base, stream).await {
                AttemptOutcome::Success(stream) => return Ok((stream, number)),
                AttemptOutcome::Rejected(error) => return Err(error),
                AttemptOutcome::NotDone(reason) | AttemptOutcome::MayBeDone(reason) => reason,
            };
            if Instant::now() >= until {
                return Err(Error::Unavailable(reason));
            }
            number = number.wrapping_add(1);
            if number.wrapping_sub(first).is_multiple_of(self.bases.len()) {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    async fn open_stream_at(
        &self,
        base: &str,
        stream: &StreamedRead<'_>,
    ) -> AttemptOutcome<reqwest::Response> {
        let url = format!("{base}{}", stream.target);
        let mut request = HttpRequest::new(Method::GET, url, stream.head_timeout);
        request.headers.clone_from(&stream.headers);
        let stream = match self.http.open_stream(request).await {
            Ok(stream) if stream.status().is_success() => return AttemptOutcome::Success(stream),
            Ok(stream) => stream,
            Err(error) => return AttemptOutcome::of(base, &error),
        };
        let (status, headers) = (stream.status(), stream.headers().clone());
        match tokio::time::timeout(HEAD_TIMEOUT, stream.bytes()).await {
            Ok(Ok(body)) => classify(base, &HttpResponse { status, headers, body: body.to_vec() }),
            Ok(Err(_)) | Err(_) => AttemptOutcome::NotDone(format!("{base}: no answer in time")),
        }
    }

    #[cfg(test)]
    pub(crate) fn prefer(&self, node: usize) {
        self.preferred.store(node, Ordering::Relaxed);
    }
}

/// Classifies an unsuccessful answer by its meaning for the call.
fn classify<T>(base: &str, response: &HttpResponse) -> AttemptOutcome<T> {
    use ErrorCode::{
        Internal, LockBusy, LockInCooldown, NotYet, OutcomeUnknown, SessionExpired, WaitTimeout,
    };
    let Some(problem) = response.problem() else {
        let reason = format!("{base} answered {} without a problem document", response.status);
        return if response.status.is_server_error() {
            AttemptOutcome::MayBeDone(reason)
        } else {
            AttemptOutcome::Rejected(Error::UnexpectedResponse(reason))
        };
    };
    let reason = format!("{base}: {}: {}", problem.code, problem.title);
    if matches!(problem.code, LockBusy | LockInCooldown | WaitTimeout | NotYet) {
        AttemptOutcome::Rejected(Error::Busy(Box::new(problem)))
    } else if problem.code == SessionExpired {
        AttemptOutcome::Rejected(Error::Lost(Loss::SessionEnded))
    } else if matches!(problem.code, OutcomeUnknown | Internal) {
        AttemptOutcome::MayBeDone(reason)
    } else if problem.retryable {
        AttemptOutcome::NotDone(reason)
    } else {
        AttemptOutcome::Rejected(Error::Rejected(Box::new(problem)))
    }
}
