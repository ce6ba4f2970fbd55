//! The HTTP API calls that this client makes, and the time limit of each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::parameters::session::{
    CLOSED_INCARNATION, EVENTS_SINCE, EVENTS_WAIT, OPEN_ATTEMPT, RENEWED_INCARNATION,
};
use holdfast_api::parameters::{INCARNATION, TTL};
use holdfast_api::{
    JsonBody, Query, SessionBody, SessionEventsBody, WAIT_MAX, keepalive_path, session_path,
};
use holdfast_types::{Attempt, Labels, Revision, SessionId, SessionName, Ttl, millis};

use crate::Error;
use crate::calls::call::{Budget, Call, Copies, StreamedRead};
use crate::calls::nodes::Nodes;
use crate::calls::retry::{Answer, CallRoute, Delivery, accepted, retry_pause};
use crate::clock::{Moment, end_of};
use crate::error::settled;
use crate::http::{HttpResponse, Method, StreamedAnswer};

/// The minimum time that one node gets for a call.
const PER_NODE_MIN: Duration = Duration::from_millis(100);
/// The maximum time that one node gets for a call that does not wait.
const PER_NODE: Duration = Duration::from_secs(6);
/// The maximum time that one node holds a waiting call. A node that loses power does not close the connection.
const PER_NODE_WAITING: Duration = Duration::from_secs(45);
/// One node may take this fraction of the remaining lease for a renewal, so that time is left for other nodes.
const RENEWAL_PART: u32 = 4;
/// A node may answer a parked keepalive late by this fraction of the remaining lease.
const PARKED_PART: u32 = 6;
/// The time in which the client looks for a node that accepts a parked keepalive.
const PARK_WITHIN: Duration = Duration::from_millis(50);

/// An answer of [`Client::download`](crate::Client::download) without bytes for this long is dead.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// What the client asks of a session that it opens.
#[derive(Clone, Debug)]
pub(crate) struct SessionSettings {
    pub(crate) ttl: Option<Ttl>,
    pub(crate) labels: Labels,
    /// The session that the client has used under this name: it opens no other one.
    pub(crate) incarnation: Option<SessionId>,
}

/// The nodes, and the time in which a call must find one that answers.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) request_timeout: Duration,
}

impl Calls {
    pub(crate) fn with_timeout(&self, request_timeout: Duration) -> Self {
        Self { nodes: self.nodes.clone(), request_timeout }
    }

    /// Opens a session, or renews it. `attempt` is the number of the call.
    pub(crate) async fn open(
        &self,
        session: &SessionName,
        attempt: Attempt,
        settings: &SessionSettings,
    ) -> Result<Answer<SessionBody>, Error> {
        let query = Query::default()
            .with(&OPEN_ATTEMPT, &attempt)
            .with_some(&INCARNATION, settings.incarnation.as_ref())
            .with_some(&TTL, settings.ttl.as_ref())
            .with_labels(&settings.labels);
        let target = query.target(&session_path(session));
        let call = Call::new(Method::PUT, target).copies(Copies::Harmless);
        self.deliver(&call).await.json().result
    }

    /// Closes a session. Only with an `incarnation` may the call have copies, which close no later session of the name.
    pub(crate) async fn close(
        &self,
        session: &SessionName,
        incarnation: Option<SessionId>,
    ) -> Result<(), Error> {
        let query = Query::default().with_some(&CLOSED_INCARNATION, incarnation.as_ref());
        let copies = if incarnation.is_some() { Copies::Harmless } else { Copies::Never };
        let call = Call::new(Method::DELETE, query.target(&session_path(session))).copies(copies);
        self.send(&call).await
    }

    /// Renews a session, and no later one of its name, within `lease_left`.
    pub(crate) async fn keep_alive(
        &self,
        (session, incarnation): (&SessionName, SessionId),
        lease_left: Duration,
    ) -> Result<Answer<SessionBody>, Error> {
        let until = Instant::now() + lease_left;
        let start_until = until.checked_sub(PER_NODE_MIN).unwrap_or(until);
        let per_node = (lease_left / RENEWAL_PART).clamp(PER_NODE_MIN, PER_NODE);
        let query = Query::default().with(&RENEWED_INCARNATION, &incarnation);
        let target = query.target(&keepalive_path(session));
        let call = Call::new(Method::POST, target).copies(Copies::Harmless);
        let budget = Budget { per_node, start_until, until };
        self.nodes.send(&call, budget, CallRoute::Renewal).await.json().result
    }

    /// Renews a session with a call that one node holds for `wait`, or until an event of the session's locks. Fails
    /// soon if no node accepts the call. An acquire of this client waits at another node, so that a grant is known even
    /// if that node is frozen.
    pub(crate) async fn park_keep_alive(
        &self,
        (session, incarnation): (&SessionName, SessionId),
        since: Option<Revision>,
        wait: Duration,
        lease_left: Duration,
    ) -> Result<Answer<SessionEventsBody>, Error> {
        let query = Query::default().with(&EVENTS_WAIT, &whole_millis(wait));
        let query = query.with_some(&EVENTS_SINCE, since.as_ref());
        let query = query.with(&RENEWED_INCARNATION, &incarnation);
        let target = query.target(&keepalive_path(session));
        let per_node = wait + (lease_left / PARKED_PART).clamp(PER_NODE_MIN, PER_NODE);
        let start_until = Instant::now() + PARK_WITHIN;
        let budget = Budget { per_node, start_until, until: start_until + per_node };
        let call = Call::new(Method::POST, target).copies(Copies::Harmless);
        self.nodes.send(&call, budget, CallRoute::Parked).await.json().result
    }

    pub(crate) async fn get<T: JsonBody>(&self, target: impl Into<String>) -> Result<T, Error> {
        self.json(&Call::get(target)).await
    }

    pub(crate) async fn send(&self, call: &Call) -> Result<(), Error> {
        self.answer(call).await.result.map(drop)
    }

    pub(crate) async fn json<T: JsonBody>(&self, call: &Call) -> Result<T, Error> {
        self.answer(call).await.json().result.map(|answer| answer.body)
    }

    /// As [`deliver`](Self::deliver). The end of the session hides whether the cluster executed an earlier copy of a numbered
    /// call.
    pub(crate) async fn answer(&self, call: &Call) -> Delivery<HttpResponse> {
        let delivery = self.deliver(call).await;
        if delivery.in_doubt && matches!(delivery.result, Err(Error::Lost(_))) && call.is_numbered()
        {
            let reason = "the session ended, and the first answer was lost, so read the state";
            return Delivery { result: Err(Error::OutcomeUnknown(reason.to_owned())), ..delivery };
        }
        delivery
    }

    /// Sends a call within the request timeout, plus the wait of the call.
    pub(crate) async fn deliver(&self, call: &Call) -> Delivery<HttpResponse> {
        let may_copy = call.copies == Copies::Harmless && call.wait.is_zero();
        let route = if may_copy { CallRoute::Copied } else { CallRoute::Alone };
        self.deliver_at(call, route).await
    }

    /// Sends an acquire. If a renewal has listed its grant, another node than before gets it first.
    pub(crate) async fn deliver_acquire(
        &self,
        call: &Call,
        is_granted_elsewhere: bool,
    ) -> Delivery<HttpResponse> {
        if call.wait.is_zero() {
            return self.deliver(call).await;
        }
        let route = if is_granted_elsewhere { CallRoute::Elsewhere } else { CallRoute::Queued };
        self.deliver_at(call, route).await
    }

    /// Finds a node within the request timeout. That node holds a waiting call for its wait, but at most
    /// [`PER_NODE_WAITING`]; after that the result is [`Error::OutcomeUnknown`]. A repeated call keeps the queue entry.
    async fn deliver_at(&self, call: &Call, route: CallRoute) -> Delivery<HttpResponse> {
        let timeout = self.request_timeout;
        let budget = if call.wait.is_zero() {
            let start_until = end_of(timeout.saturating_sub(PER_NODE_MIN));
            Budget { per_node: PER_NODE, start_until, until: start_until + PER_NODE_MIN }
        } else {
            let per_node = call.wait.saturating_add(PER_NODE.min(timeout)).min(PER_NODE_WAITING);
            let start_until = end_of(timeout);
            Budget { per_node, start_until, until: start_until + per_node }
        };
        let delivery = self.nodes.send(call, budget, route).await;
        let result = delivery.result.map_err(|error| settled(error, delivery.in_doubt));
        Delivery { result, ..delivery }
    }

    /// Repeats a call until its outcome is certain or `is_needed` returns false.
    pub(crate) async fn send_until_certain(&self, call: &Call, is_needed: impl Fn() -> bool) {
        // The number of answers of other servers, which come at once.
        let mut foreign: u32 = 0;
        loop {
            let Delivery { result, retry_at, .. } = self.answer(call).await;
            let Some(error) = result.err().filter(|error| error.is_unclear() && is_needed()) else {
                return;
            };
            accepted(retry_at).await;
            if !error.is_uncertain() {
                foreign = foreign.saturating_add(1);
                tokio::time::sleep(retry_pause(foreign)).await;
            }
        }
    }

    /// Repeats a waiting call until a node answers it, `until` passes or `is_needed` returns false. `call` gets the
    /// wait of each copy.
    pub(crate) async fn repeat_until<T: JsonBody>(
        &self,
        until: Instant,
        is_needed: impl Fn() -> bool,
        call: impl Fn(Duration) -> Call,
    ) -> Result<T, Error> {
        let mut was_in_doubt = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let wait = whole_millis(left.min(WAIT_MAX));
            let delivery = self.deliver(&call(wait).wait(wait)).await.json();
            was_in_doubt |= delivery.in_doubt;
            let retry_at = delivery.retry_at.max(Instant::now());
            match delivery.result {
                Err(error) if error.is_uncertain() && retry_at < until && is_needed() => {
                    accepted(retry_at).await;
                }
                Ok(answer) => return Ok(answer.body),
                Err(error) => return Err(settled(error, was_in_doubt)),
            }
        }
    }
}

/// The answer of [`Client::download`](crate::Client::download), received in pieces. Bound: one piece in memory.
#[derive(Debug)]
pub struct Download {
    answer: StreamedAnswer,
    /// The address of the node.
    base: String,
}

impl Download {
    pub(crate) async fn begin(calls: &Calls, target: &str) -> Result<Self, Error> {
        let call = StreamedRead { target, headers: Vec::new(), head_timeout: SILENCE_MAX };
        let until = end_of(calls.request_timeout);
        let (answer, node) = calls.nodes.open_stream(&call, None, until).await?;
        Ok(Self { answer, base: calls.nodes.base(node).to_owned() })
    }

    /// The next bytes; `None` at the end of a complete answer.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the node ended the answer early, or sent nothing for a minute.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Self { answer, base } = self;
        let unavailable = |reason: &str| Error::Unavailable(format!("{base}: {reason}"));
        match tokio::time::timeout(SILENCE_MAX, answer.next()).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(_)) => Err(unavailable("the node ended its answer early")),
            Err(_) => Err(unavailable("the node sent nothing for a minute")),
        }
    }
}

/// Rounds to whole milliseconds, the unit of the API.
fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(millis(duration))
}

/// Resolves at `moment` by the runtime's timers, which stand still while the machine is suspended.
pub(crate) fn timer(moment: Moment) -> tokio::time::Sleep {
    tokio::time::sleep(moment.left(Moment::now()))
}
