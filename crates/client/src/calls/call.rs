//! A call of the HTTP API, its time limits, and the outcome of one request.
//!
//! [`Copies`] decides whether the client may send a call to two nodes.

use std::time::{Duration, Instant};

use holdfast_api::parameters::{CALL_SESSION, REQUEST};
use holdfast_api::{ErrorCode, HOLDFAST_NODE, Problem, Query};
use holdfast_types::{QuotaKind, RequestNumber, SessionName};
use serde_json::{Map, Value};

use crate::http::{HttpResponse, Method, SendError, has_no_body};
use crate::{Error, Loss};

/// The path of transactions.
pub(crate) const TRANSACTIONS: &str = "/v1/txn";
/// The maximum time of `Retry-After`: a proxy must not delay a release for hours. Nodes send at most 5 s.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);
/// The maximum time until a node sends the headers of an event stream.
const HEAD_TIMEOUT: Duration = Duration::from_secs(6);

/// The effect of a second copy of a call at another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// No copy has an effect, however late it arrives: a read, or a call that names an attempt, a token, an incarnation
    /// or a request id. Two nodes may have the call at the same time.
    Harmless,
    /// A repeated call changes nothing, but a late copy may undo the change of another caller. Another node gets the
    /// call only after a lost answer.
    Repeatable,
    /// A second copy has another effect, so the call is not repeated after a lost answer.
    Never,
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
    pub copies: Copies,
}

impl Call {
    /// Creates a call without a body that does not wait. A read has harmless copies, and any other call is repeatable.
    pub fn new(method: Method, target: impl Into<String>) -> Self {
        let copies = if method == Method::GET { Copies::Harmless } else { Copies::Repeatable };
        let (target, headers, body) = (target.into(), Vec::new(), Vec::new());
        Self { method, target, headers, body, wait: Duration::ZERO, copies }
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

    /// Returns the call with another effect of its copies.
    #[must_use]
    pub fn copies(self, copies: Copies) -> Self {
        Self { copies, ..self }
    }

    /// Returns the call with a request number of a session.
    pub(crate) fn numbered(self, session: &SessionName, request: RequestNumber) -> Self {
        let query = Query::default().with(&CALL_SESSION, session).with(&REQUEST, &request);
        let named = query.target("");
        let named = if self.target.contains('?') { named.replacen('?', "&", 1) } else { named };
        let copies = if self.copies == Copies::Never { Copies::Never } else { Copies::Harmless };
        Self { target: format!("{}{named}", self.target), copies, ..self }
    }

    /// Whether a successful answer is from a node. A node answers with its id, with fields or with 204; another server, e.g.
    /// a proxy, may answer with a page or with `{}`.
    pub(crate) fn is_confirmed_by(&self, response: &HttpResponse) -> bool {
        let fields = || serde_json::from_slice::<Map<String, Value>>(&response.body);
        response.headers.get(HOLDFAST_NODE).is_some()
            || has_no_body(&self.method, response.status.as_u16())
            || fields().is_ok_and(|fields| match self.method {
                // The end of something, with the field of a double barrier.
                Method::DELETE => fields.get("left").is_some_and(Value::is_boolean),
                _ => !fields.is_empty(),
            })
    }

    /// Whether the cluster executes the call once for a request number. A transaction has the number in its body.
    pub(crate) fn is_numbered(&self) -> bool {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let is_number =
            |param: &str| param.split_once('=').is_some_and(|(key, _)| key == REQUEST.name);
        self.target == TRANSACTIONS || query.split('&').any(is_number)
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
    /// The maximum time of one request.
    pub(crate) per_node: Duration,
    /// No request starts after this instant.
    pub(crate) start_until: Instant,
    /// No request lasts beyond this instant.
    pub(crate) until: Instant,
}

/// The outcome of a request at one node.
pub(crate) enum AttemptOutcome<T> {
    Success(T),
    /// Another node would return the same.
    Rejected(Error),
    /// The node certainly did not execute the request.
    NotDone(String, Option<RetryAfter>),
    /// The node did not accept the access token, whose file may have another one later.
    OldToken(Error),
    /// Another server answered in the place of a node. It may have passed the request on to one.
    Foreign(String),
    MayBeDone(String, Option<RetryAfter>),
}

/// When a node accepts the same request again, by the header `Retry-After` of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryAfter {
    pub(crate) time: Duration,
    /// Whether the limit is one of the caller. Another node would count the request for the same quota.
    pub(crate) at_every_node: bool,
}

impl RetryAfter {
    fn of(response: &HttpResponse, problem: Option<&Problem>) -> Option<Self> {
        let seconds: u32 = response.headers.get("retry-after")?.parse().ok()?;
        let bound = problem.and_then(|problem| problem.facts.bound.as_deref()).unwrap_or_default();
        Some(Self {
            time: Duration::from_secs(seconds.into()).min(RETRY_AFTER_MAX),
            at_every_node: bound.starts_with(QuotaKind::CallsPerSecond.as_str()),
        })
    }
}

impl<T> AttemptOutcome<T> {
    pub(crate) fn of(base: &str, error: &SendError) -> Self {
        let reason = format!("{base}: {error}");
        if error.may_be_done { Self::MayBeDone(reason, None) } else { Self::NotDone(reason, None) }
    }
}

/// Classifies an unsuccessful answer, or one of another server, by its meaning for the call.
pub(crate) fn classify<T>(base: &str, response: &HttpResponse) -> AttemptOutcome<T> {
    use ErrorCode::{
        Internal, LockBusy, LockInCooldown, NotYet, OutcomeUnknown, SessionExpired, WaitTimeout,
    };
    let problem = response.problem();
    let retry_after = RetryAfter::of(response, problem.as_ref());
    let Some(problem) = problem else {
        let missing = if response.status.is_success() {
            "the fields of a node"
        } else {
            "a problem document"
        };
        let reason = format!("{base} answered {} without {missing}", response.status);
        return if response.status.is_server_error() {
            AttemptOutcome::MayBeDone(reason, retry_after)
        } else if response.headers.get(HOLDFAST_NODE).is_some() {
            let reason = format!(
                "{base} answered {} with an error that this client does not know: use a newer client",
                response.status
            );
            AttemptOutcome::Rejected(Error::UnexpectedResponse(reason))
        } else {
            AttemptOutcome::Foreign(reason)
        };
    };
    let reason = format!("{base}: {}: {}", problem.code, problem.title);
    if matches!(problem.code, LockBusy | LockInCooldown | WaitTimeout | NotYet) {
        AttemptOutcome::Rejected(Error::Busy(Box::new(problem)))
    } else if problem.code == SessionExpired {
        AttemptOutcome::Rejected(Error::Lost(Loss::SessionEnded))
    } else if matches!(problem.code, OutcomeUnknown | Internal) {
        AttemptOutcome::MayBeDone(reason, retry_after)
    } else if problem.retryable {
        AttemptOutcome::NotDone(reason, retry_after)
    } else {
        AttemptOutcome::Rejected(Error::Rejected(Box::new(problem)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Headers, StatusCode};

    #[test]
    fn an_unknown_error_code_of_a_node_rejects_the_call() {
        let outcome = |headers: &[(&str, &str)]| {
            let body = br#"{"code":"of-a-later-version","title":"?"}"#.to_vec();
            let status = StatusCode::from_u16(409).unwrap();
            classify::<()>("a", &HttpResponse { status, headers: Headers::new(headers), body })
        };
        let of_node = outcome(&[(HOLDFAST_NODE, "1")]);
        assert!(matches!(of_node, AttemptOutcome::Rejected(Error::UnexpectedResponse(_))));
        assert!(matches!(outcome(&[]), AttemptOutcome::Foreign(_)));
    }
}
