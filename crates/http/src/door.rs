//! The one way of every call: its id, its principal and its body, its handler, its headers, its count and its log line.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, HeaderValue, Response};
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, watch as signal};
use tracing::Instrument as _;

use holdfast_api::{HOLDFAST_LEADER, HOLDFAST_NODE, HOLDFAST_REQUEST_ID, HOLDFAST_REVISION};
use holdfast_service::{Principal, RequestContext, Service};
use holdfast_types::{Gate, LockName, SessionName, ZnodePath};

use crate::action::Action;
use crate::body::{self, Kind, Received};
use crate::connection::Closing;
use crate::exchange::{Exchange, Subject};
use crate::reply::Reply;
use crate::request_id::RequestIds;
use crate::status::Fault;
use crate::{
    HttpConfig, HttpMetrics, custody, elections, explain, fence, head, identity, locks, node,
    pages, recipes, sessions, several, tree, txn, watch,
};

static NODE: HeaderName = HeaderName::from_static(HOLDFAST_NODE);
static LEADER: HeaderName = HeaderName::from_static(HOLDFAST_LEADER);
static REVISION: HeaderName = HeaderName::from_static(HOLDFAST_REVISION);
static REQUEST_ID: HeaderName = HeaderName::from_static(HOLDFAST_REQUEST_ID);

/// What every call has at hand.
#[derive(Debug)]
pub(crate) struct Front {
    config: Arc<HttpConfig>,
    service: Service,
    metrics: HttpMetrics,
    registry: Arc<Registry>,
    request_ids: RequestIds,
    /// One permit a large body.
    large_bodies: Semaphore,
    closing: signal::Receiver<Closing>,
}

impl Front {
    /// The front of one node.
    pub(crate) fn new(
        config: Arc<HttpConfig>,
        service: Service,
        metrics: HttpMetrics,
        registry: Arc<Registry>,
        closing: signal::Receiver<Closing>,
    ) -> Self {
        let request_ids = RequestIds::new(service.node().0);
        let places = config.large_bodies_max.min(Semaphore::MAX_PERMITS);
        let large_bodies = Semaphore::new(places);
        Self { config, service, metrics, registry, request_ids, large_bodies, closing }
    }

    /// The tunables.
    pub(crate) fn config(&self) -> &HttpConfig {
        &self.config
    }

    /// The node behind the door.
    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// How far the end of the door has come.
    pub(crate) fn closing(&self) -> signal::Receiver<Closing> {
        self.closing.clone()
    }

    /// Everything that is counted.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }
}

/// Answers one call. Dropped when the client hangs up.
pub(crate) async fn answer(front: Arc<Front>, action: Action, request: Request) -> Response<Body> {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let in_flight = front.metrics.begin(action.route(), &parts.method);
    let request_id = front.request_ids.of(&parts.headers);
    let span = tracing::debug_span!("http", request_id, route = action.route().pattern());
    let context = RequestContext { principal: Principal::Anonymous, request_id };
    let mut exchange = Exchange {
        front: &front,
        parts: &parts,
        body: bytes::Bytes::new(),
        context,
        subject: Subject::default(),
    };
    let reply = handle(&mut exchange, action, body).instrument(span).await;
    let reply = reply.unwrap_or_else(|fault| Reply::problem(&fault));
    let took = began.elapsed();
    in_flight.answered(reply.status, took);
    log(&exchange, action, &reply, took);
    dress(&exchange, reply)
}

async fn handle(exchange: &mut Exchange<'_>, action: Action, body: Body) -> Result<Reply, Fault> {
    head::check(exchange.parts)?;
    if is_asked_by_somebody(action) {
        exchange.context.principal = identity::principal(exchange.parts)?;
    }
    // Held until the call is answered: its bytes are still somewhere.
    let _place = match body_kind(action) {
        None => None,
        Some(kind) => {
            let front = exchange.front;
            let received = body::read(body, kind, front.config(), &front.large_bodies).await?;
            let Received { bytes, place } = received;
            exchange.body = bytes;
            place
        }
    };
    match action {
        Action::Acquire => locks::acquire(exchange).await,
        Action::Release => locks::release(exchange).await,
        Action::SetPolicy => locks::set_policy(exchange).await,
        Action::AskRelease => custody::ask_release(exchange).await,
        Action::AcquireAll => several::acquire(exchange).await,
        Action::ReleaseAll => several::release(exchange).await,
        Action::ReadLock => locks::read(exchange).await,
        Action::ListLocks => locks::list(exchange).await,
        Action::CreateSession => sessions::create(exchange).await,
        Action::OpenSession => sessions::open(exchange).await,
        Action::KeepAlive => sessions::keep_alive(exchange).await,
        Action::KeepManyAlive => sessions::keep_many_alive(exchange).await,
        Action::CloseSession => sessions::close(exchange).await,
        Action::ReadSession => sessions::read(exchange).await,
        Action::ListSessions => sessions::list(exchange).await,
        Action::History => explain::history(exchange).await,
        Action::Fence => fence::check(exchange).await,
        Action::PutNode => tree::put(exchange).await,
        Action::PostNode => tree::post(exchange).await,
        Action::ReadNode => tree::get(exchange).await,
        Action::DeleteNode => tree::delete(exchange).await,
        Action::Txn => txn::run(exchange).await,
        Action::Watch => watch::watch(exchange).await,
        Action::MakeLatch => recipes::make_latch(exchange).await,
        Action::CountDown => recipes::count_down(exchange).await,
        Action::AwaitLatch => recipes::await_latch(exchange).await,
        Action::DeleteLatch => recipes::delete_latch(exchange).await,
        Action::ArriveAtBarrier => recipes::arrive(exchange, Gate::Barrier).await,
        Action::ReadBarrier => recipes::read_gate(exchange, Gate::Barrier).await,
        Action::LeaveBarrier => recipes::leave(exchange, Gate::Barrier).await,
        Action::EnterDoubleBarrier => recipes::arrive(exchange, Gate::Double).await,
        Action::ReadDoubleBarrier => recipes::read_gate(exchange, Gate::Double).await,
        Action::LeaveDoubleBarrier => recipes::leave(exchange, Gate::Double).await,
        Action::ReadCounter => recipes::read_counter(exchange).await,
        Action::AddToCounter => recipes::change_counter(exchange, Some("add")).await,
        Action::SetCounter => recipes::change_counter(exchange, Some("value")).await,
        Action::DeleteCounter => recipes::change_counter(exchange, None).await,
        Action::Campaign => elections::campaign(exchange).await,
        Action::ReadElection => elections::read(exchange).await,
        Action::Resign => elections::resign(exchange).await,
        Action::Cluster => node::cluster(exchange).await,
        Action::Live => node::live(exchange),
        Action::Ready => node::ready(exchange),
        Action::Metrics => node::metrics(exchange),
        Action::Version => node::version(exchange),
        Action::Explain => pages::explain(exchange),
        Action::OpenApi => pages::openapi(exchange),
        Action::Docs => pages::docs(exchange),
        Action::WrongMethod => node::wrong_method(exchange),
        Action::NoSuchPath => node::no_such_path(exchange),
    }
}

/// Whether it matters who asks. What every node says to everybody, it says whatever credentials come along.
pub(crate) const fn is_asked_by_somebody(action: Action) -> bool {
    match action {
        Action::Live
        | Action::Ready
        | Action::Metrics
        | Action::Version
        | Action::Explain
        | Action::OpenApi
        | Action::Docs
        | Action::WrongMethod
        | Action::NoSuchPath => false,
        Action::Acquire
        | Action::Release
        | Action::SetPolicy
        | Action::AskRelease
        | Action::AcquireAll
        | Action::ReleaseAll
        | Action::ReadLock
        | Action::ListLocks
        | Action::CreateSession
        | Action::OpenSession
        | Action::KeepAlive
        | Action::KeepManyAlive
        | Action::CloseSession
        | Action::ReadSession
        | Action::ListSessions
        | Action::History
        | Action::Fence
        | Action::PutNode
        | Action::PostNode
        | Action::ReadNode
        | Action::DeleteNode
        | Action::Txn
        | Action::Watch
        | Action::MakeLatch
        | Action::CountDown
        | Action::AwaitLatch
        | Action::DeleteLatch
        | Action::ArriveAtBarrier
        | Action::ReadBarrier
        | Action::LeaveBarrier
        | Action::EnterDoubleBarrier
        | Action::ReadDoubleBarrier
        | Action::LeaveDoubleBarrier
        | Action::ReadCounter
        | Action::AddToCounter
        | Action::SetCounter
        | Action::DeleteCounter
        | Action::Campaign
        | Action::ReadElection
        | Action::Resign
        | Action::Cluster => true,
    }
}

/// What the body of a call is; none if it is not read.
pub(crate) const fn body_kind(action: Action) -> Option<Kind> {
    match action {
        Action::PutNode | Action::PostNode => Some(Kind::Data),
        Action::Txn => Some(Kind::Txn),
        Action::Campaign => Some(Kind::Value),
        Action::KeepManyAlive => Some(Kind::Sessions),
        Action::Acquire
        | Action::Release
        | Action::SetPolicy
        | Action::AskRelease
        | Action::AcquireAll
        | Action::ReleaseAll
        | Action::CreateSession
        | Action::OpenSession
        | Action::KeepAlive
        | Action::CloseSession
        | Action::MakeLatch
        | Action::CountDown
        | Action::DeleteLatch
        | Action::ArriveAtBarrier
        | Action::LeaveBarrier
        | Action::EnterDoubleBarrier
        | Action::LeaveDoubleBarrier
        | Action::AddToCounter
        | Action::SetCounter
        | Action::DeleteCounter
        | Action::Resign
        | Action::DeleteNode => Some(Kind::Fields),
        Action::ReadLock
        | Action::ListLocks
        | Action::ReadSession
        | Action::ListSessions
        | Action::History
        | Action::Fence
        | Action::ReadNode
        | Action::Watch
        | Action::AwaitLatch
        | Action::ReadBarrier
        | Action::ReadDoubleBarrier
        | Action::ReadCounter
        | Action::ReadElection
        | Action::Cluster
        | Action::Live
        | Action::Ready
        | Action::Metrics
        | Action::Version
        | Action::Explain
        | Action::OpenApi
        | Action::Docs
        | Action::WrongMethod
        | Action::NoSuchPath => None,
    }
}

/// Adds what every answer says.
fn dress(exchange: &Exchange<'_>, reply: Reply) -> Response<Body> {
    let service = exchange.front.service();
    let revision = reply.revision.unwrap_or_else(|| service.revision());
    let mut response = reply.into_response();
    let headers = response.headers_mut();
    headers.insert(&NODE, service.node().0.into());
    let leader = service.leader();
    headers.insert(&LEADER, leader.map_or(HeaderValue::from_static("none"), |node| node.0.into()));
    headers.insert(&REVISION, revision.0.into());
    if let Ok(id) = HeaderValue::from_str(&exchange.context.request_id) {
        headers.insert(&REQUEST_ID, id);
    }
    if exchange.parts.method.is_safe() {
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}

/// One line a call: at `debug` if all went well, at `info` if it was slow or this node could not do it.
fn log(exchange: &Exchange<'_>, action: Action, reply: &Reply, took: Duration) {
    let subject = &exchange.subject;
    let slow = took.saturating_sub(subject.wait) > exchange.front.config().slow;
    let term = exchange.front.service().term();
    let request_id = exchange.context.request_id.as_str();
    let method = exchange.parts.method.as_str();
    let route = action.route().pattern();
    let lock = subject.lock.as_ref().map(LockName::as_str);
    let path = subject.path.as_ref().map(ZnodePath::as_str);
    let session = subject.session.as_ref().map(SessionName::as_str);
    let status = reply.status.as_u16();
    let code = reply.code.map(holdfast_api::ErrorCode::as_str);
    let micros = holdfast_types::micros(took);
    if slow || reply.status.is_server_error() {
        tracing::info!(
            term, request_id, method, route, lock, path, session, status, code, micros, "call"
        );
    } else {
        tracing::debug!(
            term, request_id, method, route, lock, path, session, status, code, micros, "call"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is moved as a whole several times before it is first polled, for each call.
    #[test]
    fn a_call_takes_little_room() {
        fn size<F: Future>(_: fn(Arc<Front>, Action, Request) -> F) -> usize {
            size_of::<F>()
        }
        let size = size(answer);
        assert!(size <= 4_096, "{size}");
    }
}
