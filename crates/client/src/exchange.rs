//! One call, sent to one node after another until it is answered or its time is up.
//!
//! Owns which answers end a call and which move it to the next node. A call that may have been done is sent again
//! all the same, because every call here names its session and has one effect; only if no later answer settles it
//! is the result [`Error::Unknown`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use holdfast_api::{ErrorCode, Problem};
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde::de::DeserializeOwned;

use crate::clock::Moment;
use crate::{Error, Loss};

/// The rest between two rounds over all nodes, first and longest.
const REST_MIN: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_millis(500);

/// How long a node may take to begin a stream.
const HEAD: Duration = Duration::from_secs(6);
const EVENTS: &str = "text/event-stream";

/// What to send.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    /// What is sent along; mostly nothing.
    pub(crate) body: String,
    /// How long one node may keep it, beyond which the next is asked.
    pub(crate) each: Duration,
    /// After this no node is asked any more.
    pub(crate) begin_until: Instant,
    /// After this no answer is waited for any more.
    pub(crate) until: Instant,
}

/// An answer, with when the request it answers was sent: the safe origin of every deadline in it.
#[derive(Debug)]
pub(crate) struct Answered<T> {
    pub(crate) body: T,
    pub(crate) sent: Moment,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ended<T> {
    pub(crate) result: Result<Answered<T>, Error>,
    /// An attempt whose answer never came may still be on its way, and be done after this end.
    pub(crate) doubtful: bool,
}

/// What one node made of the call.
enum Step<T> {
    Done(T),
    Refused(Error),
    /// Certainly not done.
    Next(String),
    /// Perhaps done.
    Perhaps(String),
}

/// The nodes, and which one to ask next.
#[derive(Debug)]
pub(crate) struct Exchange {
    http: reqwest::Client,
    bases: Vec<String>,
    /// Index of the node that answered last; any start is as good, so it is not kept exact.
    preferred: AtomicUsize,
}

impl Exchange {
    pub(crate) fn new(http: reqwest::Client, bases: Vec<String>) -> Self {
        Self { http, bases, preferred: AtomicUsize::new(0) }
    }

    /// Asks until answered, for JSON.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<Answered<T>, Error> {
        self.asked(call).await.result
    }

    /// The same, and says whether an attempt may still be on its way.
    pub(crate) async fn asked<T: DeserializeOwned>(&self, call: Call) -> Ended<T> {
        let read = |_: &HeaderMap, bytes: &[u8]| {
            serde_json::from_slice(bytes).map_err(|error| Error::Foreign(error.to_string()))
        };
        let mut perhaps = None;
        let result = self.rounds(&call, read, &mut perhaps).await;
        Ended { result, doubtful: perhaps.is_some() }
    }

    /// Asks until answered, for nothing but success.
    pub(crate) async fn tell(&self, call: Call) -> Result<(), Error> {
        self.read(call, |_, _| Ok(())).await
    }

    /// Asks until answered, for whatever can be read from an answer's head and body.
    pub(crate) async fn read<T>(
        &self,
        call: Call,
        read: impl Fn(&HeaderMap, &[u8]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.rounds(&call, read, &mut None).await.map(|answered| answered.body)
    }

    /// Opens a stream of server-sent events at some node, beginning with the one that has this turn; answers with the turn
    /// of the one that it is.
    pub(crate) async fn stream(
        &self,
        (first, target): (usize, &str),
        last_event: Option<u64>,
        until: Instant,
    ) -> Result<(reqwest::Response, usize), Error> {
        let mut rest = REST_MIN;
        for turn in 0.. {
            let turn = first.wrapping_add(turn);
            let base = &self.bases[turn % self.bases.len()];
            let why = match self.open(base, target, last_event).await {
                Step::Done(answer) => return Ok((answer, turn)),
                Step::Refused(error) => return Err(error),
                Step::Next(reason) | Step::Perhaps(reason) => reason,
            };
            if Instant::now() >= until {
                return Err(Error::Retry(why));
            }
            if turn.wrapping_sub(first) % self.bases.len() == self.bases.len() - 1 {
                tokio::time::sleep(rest).await;
                rest = (rest * 2).min(REST_MAX);
            }
        }
        Err(Error::Retry("no node was asked".to_owned()))
    }

    /// Opens it at one node. The head must come in time; what follows may take as long as it takes.
    async fn open(
        &self,
        base: &str,
        target: &str,
        last_event: Option<u64>,
    ) -> Step<reqwest::Response> {
        let mut request = self.http.get(format!("{base}{target}")).header("accept", EVENTS);
        if let Some(id) = last_event {
            request = request.header("last-event-id", id);
        }
        let answer = match tokio::time::timeout(HEAD, request.send()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Step::Next(format!("{base}: {}", cause(&error))),
            Err(_) => return Step::Next(format!("{base}: no answer in time")),
        };
        let status = answer.status();
        if status.is_success() {
            return Step::Done(answer);
        }
        match tokio::time::timeout(HEAD, answer.bytes()).await {
            Ok(Ok(bytes)) => refusal(base, status, &bytes),
            Ok(Err(error)) => Step::Next(format!("{base}: {}", cause(&error))),
            Err(_) => Step::Next(format!("{base}: no answer in time")),
        }
    }

    #[cfg(test)]
    pub(crate) fn prefer(&self, node: usize) {
        self.preferred.store(node, Ordering::Relaxed);
    }

    async fn rounds<T>(
        &self,
        call: &Call,
        read: impl Fn(&HeaderMap, &[u8]) -> Result<T, Error>,
        perhaps: &mut Option<String>,
    ) -> Result<Answered<T>, Error> {
        let mut rest = REST_MIN;
        loop {
            match self.round(call, &read, perhaps).await {
                Ok(end) => return end,
                Err(why) if Instant::now() >= call.begin_until => {
                    // Reading twice harms nobody, so there is nothing to be unsure about.
                    let perhaps = perhaps.clone().filter(|_| call.method != Method::GET);
                    return Err(perhaps.map_or(Error::Retry(why), Error::Unknown));
                }
                Err(_) => {}
            }
            let left = call.begin_until.saturating_duration_since(Instant::now());
            tokio::time::sleep(rest.min(left)).await;
            rest = (rest * 2).min(REST_MAX);
        }
    }

    /// Asks each node once, beginning with the one that answered last. An error says what the last one said.
    async fn round<T>(
        &self,
        call: &Call,
        read: &impl Fn(&HeaderMap, &[u8]) -> Result<T, Error>,
        perhaps: &mut Option<String>,
    ) -> Result<Result<Answered<T>, Error>, String> {
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = None;
        for turn in 0..self.bases.len() {
            let index = first.wrapping_add(turn) % self.bases.len();
            let sent = Moment::now();
            match self.once(call, &self.bases[index], read).await {
                Step::Done(body) => {
                    self.preferred.store(index, Ordering::Relaxed);
                    return Ok(Ok(Answered { body, sent }));
                }
                Step::Refused(error) => return Ok(Err(error)),
                Step::Next(reason) => last = Some(reason),
                Step::Perhaps(reason) => {
                    *perhaps = Some(reason.clone());
                    last = Some(reason);
                }
            }
            if Instant::now() >= call.begin_until {
                break;
            }
        }
        Err(last.unwrap_or_else(|| "no node was asked".to_owned()))
    }

    async fn once<T>(
        &self,
        call: &Call,
        base: &str,
        read: impl Fn(&HeaderMap, &[u8]) -> Result<T, Error>,
    ) -> Step<T> {
        let left = call.until.saturating_duration_since(Instant::now());
        let request = self
            .http
            .request(call.method.clone(), format!("{base}{}", call.target))
            .body(call.body.clone())
            .timeout(call.each.min(left));
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => {
                return Step::Next(format!("{base}: cannot connect: {}", cause(&error)));
            }
            Err(error) => return Step::Perhaps(format!("{base}: {}", cause(&error))),
        };
        let success = answer.status().is_success();
        let (status, head) = (answer.status(), answer.headers().clone());
        match answer.bytes().await {
            Ok(bytes) if success => read(&head, &bytes).map_or_else(Step::Refused, Step::Done),
            Ok(bytes) => refusal(base, status, &bytes),
            Err(error) => Step::Perhaps(format!("{base}: {}", cause(&error))),
        }
    }
}

/// Sorts an answer that is not a success.
fn refusal<T>(base: &str, status: reqwest::StatusCode, bytes: &[u8]) -> Step<T> {
    let Ok(problem) = serde_json::from_slice::<Problem>(bytes) else {
        let text = format!("{base} answered {status} without a problem document");
        return if status.is_server_error() {
            Step::Perhaps(text)
        } else {
            Step::Refused(Error::Foreign(text))
        };
    };
    let reason = format!("{base}: {}: {}", problem.code, problem.title);
    let is = |codes: &[ErrorCode]| codes.contains(&problem.code);
    let busy =
        [ErrorCode::LockBusy, ErrorCode::LockClosed, ErrorCode::WaitTimeout, ErrorCode::NotYet];
    if is(&busy) {
        Step::Refused(Error::Busy(Box::new(problem)))
    } else if is(&[ErrorCode::SessionExpired]) {
        Step::Refused(Error::Lost(Loss::SessionEnded))
    } else if is(&[ErrorCode::OutcomeUnknown, ErrorCode::Internal]) {
        Step::Perhaps(reason)
    } else if problem.retryable {
        Step::Next(reason)
    } else {
        Step::Refused(Error::Refused(Box::new(problem)))
    }
}

/// The innermost reason: the outer ones repeat the URL.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
