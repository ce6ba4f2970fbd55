//! The path of every call: request id, caller, body, parameters, redirect, handler, headers, metrics, log line.

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
use holdfast_types::{LockName, SessionName, ZnodePath};

use crate::body::{self, Received};
use crate::call::CallContext;
use crate::connection::Closing;
use crate::metrics::RouteMetrics;
use crate::operation::{Operation, Scope};
use crate::reply::Reply;
use crate::request_id::RequestIds;
use crate::status::HttpError;
use crate::{HttpConfig, HttpMetrics, head, identity};

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

    pub(crate) fn service(&self) -> &Service {
        &self.service
    }

    /// How far the shutdown has come.
    pub(crate) fn closing(&self) -> signal::Receiver<Closing> {
        self.closing.clone()
    }

    /// Everything that is counted.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The metrics of the front-end.
    pub(crate) fn metrics(&self) -> &HttpMetrics {
        &self.metrics
    }
}

/// Answers one call. The future is dropped when the client disconnects.
pub(crate) async fn answer(
    front: Arc<Front>,
    operation: &'static Operation,
    metrics: Arc<RouteMetrics>,
    request: Request,
) -> Response<Body> {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let in_flight = metrics.begin(&parts.method);
    let request_id = front.request_ids.of(&parts.headers);
    let span = tracing::debug_span!("http", request_id, route = operation.route.pattern);
    let context = RequestContext { principal: Principal::Anonymous, request_id };
    let mut call = CallContext::new(&front, operation, &parts, context);
    let reply = handle(&mut call, body).instrument(span).await;
    let reply = reply.unwrap_or_else(|problem| Reply::problem(&problem));
    let took = began.elapsed();
    in_flight.answered(reply.status, took);
    log(&call, &reply, took);
    add_common_headers(&call, reply)
}

async fn handle(call: &mut CallContext<'_>, body: Body) -> Result<Reply, HttpError> {
    let operation = call.operation;
    head::check(call.parts)?;
    if operation.scope.needs_caller() {
        call.context.principal = identity::principal(call.parts)?;
    }
    let front = call.front;
    // Large bodies are counted until the call is answered.
    let received = body::read(body, operation.body, front.config(), &front.large_bodies).await?;
    let Received { bytes, place: _place } = received;
    call.body = bytes;
    if operation.scope != Scope::Static {
        call.read_fields()?;
    }
    if let Some(redirect) = call.redirect_to_leader() {
        return Ok(redirect);
    }
    (operation.handler)(call).await
}

/// Adds the headers of every answer.
fn add_common_headers(call: &CallContext<'_>, reply: Reply) -> Response<Body> {
    let service = call.front.service();
    let revision = reply.revision.unwrap_or_else(|| service.revision());
    let mut response = reply.into_response();
    let headers = response.headers_mut();
    headers.insert(&NODE, service.node().0.into());
    let leader = service.leader();
    headers.insert(&LEADER, leader.map_or(HeaderValue::from_static("none"), |node| node.0.into()));
    headers.insert(&REVISION, revision.0.into());
    if let Ok(id) = HeaderValue::from_str(&call.context.request_id) {
        headers.insert(&REQUEST_ID, id);
    }
    if call.parts.method.is_safe() {
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}

/// One line a call: at `debug` if all went well, at `info` if it was slow or this node could not do it.
fn log(call: &CallContext<'_>, reply: &Reply, took: Duration) {
    let log_fields = &call.log_fields;
    let slow = took.saturating_sub(log_fields.wait) > call.front.config().slow;
    let term = call.front.service().term();
    let request_id = call.context.request_id.as_str();
    let method = call.parts.method.as_str();
    let route = call.operation.route.pattern;
    let lock = log_fields.lock.as_ref().map(LockName::as_str);
    let path = log_fields.path.as_ref().map(ZnodePath::as_str);
    let session = log_fields.session.as_ref().map(SessionName::as_str);
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
        fn size<F: Future>(
            _: fn(Arc<Front>, &'static Operation, Arc<RouteMetrics>, Request) -> F,
        ) -> usize {
            size_of::<F>()
        }
        let size = size(answer);
        assert!(size <= 4_096, "{size}");
    }
}
