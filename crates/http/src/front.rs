//! The pipeline of every call: request id, caller, permission, body, parameters, redirect, handler, headers, metrics, log line.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::Body as _;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use holdfast_api::{
    ErrorCode, FENCING_TOKEN, HOLDFAST_LEADER, HOLDFAST_NODE, HOLDFAST_REQUEST_ID,
    HOLDFAST_REVISION, IDEMPOTENCY_KEY,
};
use holdfast_service::ConnectionPlace;
use holdfast_tls::{FailureReason, NodePort};
use holdfast_trace::{Sampler, Traceparent, entry_span};
use holdfast_types::{LockName, SessionName, ZnodePath};

use crate::activity::Activity;
use crate::body::{self, BodyKind, Received};
use crate::call::{CallContext, HandlerResult};
use crate::identity::Peer;
use crate::metrics::RouteMetrics;
use crate::operation::{Operation, Scope};
use crate::precondition::{check_taken, number_call};
use crate::reply::Reply;
use crate::state::HttpState;
use crate::status::HttpError;
use crate::{head, identity};

static NODE: HeaderName = HeaderName::from_static(HOLDFAST_NODE);
static LEADER: HeaderName = HeaderName::from_static(HOLDFAST_LEADER);
static REVISION: HeaderName = HeaderName::from_static(HOLDFAST_REVISION);
static REQUEST_ID: HeaderName = HeaderName::from_static(HOLDFAST_REQUEST_ID);
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Handles one call. The future is dropped when the client disconnects.
pub(crate) async fn answer(
    state: Arc<HttpState>,
    operation: &'static Operation,
    metrics: Arc<RouteMetrics>,
    request: Request,
) -> Response<Body> {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let in_flight = metrics.begin(&parts.method);
    let request_id = state.request_ids.of(&parts.headers);
    let span = tracing::debug_span!("http", request_id, route = operation.route.pattern);
    let trace = span_of(state.trace_sampler.as_ref(), &parts, operation.route.pattern);
    let mut call = CallContext::new(&state, operation.route, &parts, request_id);
    let handling = handle(&mut call, operation, body).instrument(span);
    let reply = handling.instrument(trace.clone()).await;
    let reply = reply.unwrap_or_else(Reply::problem);
    let reply = match &call.session_names {
        Some(names) => reply.shortened(names),
        None => reply,
    };
    let took = began.elapsed();
    in_flight.answered(reply.status, took, !call.log_fields.wait.is_zero());
    log(&call, operation, &reply, took);
    if reply.status == StatusCode::UNAUTHORIZED {
        refuse_slowly(&call, reply.code).await;
    }
    let mut response = response(&call, reply);
    if !trace.is_disabled() {
        finish_trace(&trace, &call, &mut response);
    }
    response
}

/// Counts a caller without a valid credential. One that sends many such calls waits for the response.
async fn refuse_slowly(call: &CallContext<'_>, code: Option<ErrorCode>) {
    let Some(Peer { address, .. }) = call.parts.extensions.get() else { return };
    let code = code.map_or("unauthenticated", ErrorCode::as_str);
    let failures = &call.state.config.failures;
    let delay = failures.record(NodePort::Http, *address, FailureReason::Credential, &code);
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// Whether the address of a caller has sent too many calls without a valid credential.
fn is_above_rate(call: &CallContext<'_>) -> bool {
    let source = call.parts.extensions.get::<Peer>().map(|peer| peer.address);
    let failures = &call.state.config.failures;
    source.is_some_and(|source| failures.is_above_rate(NodePort::Http, source))
}

/// The span of a call; disabled if the call is not traced. The header `traceparent` of W3C Trace Context decides for its call; of
/// the other calls, a random share is traced. A node without a sampler exports no traces.
fn span_of(sampler: Option<&Sampler>, parts: &Parts, route: &'static str) -> Span {
    let Some(sampler) = sampler else { return Span::none() };
    let caller = parts.headers.get(&TRACEPARENT).and_then(|value| value.to_str().ok());
    let caller: Option<Traceparent> = caller.and_then(|text| text.parse().ok());
    if !caller.map_or_else(|| sampler.draw(), |caller| caller.sampled) {
        return Span::none();
    }
    let span = entry_span!(
        "http",
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = parts.method.as_str(),
        http.route = route,
        http.response.status_code = Empty,
        request_id = Empty,
        lock = Empty,
        session = Empty,
        token = Empty,
        revision = Empty,
    );
    if let Some(Traceparent { context, .. }) = caller {
        holdfast_trace::set_parent(&span, context);
    }
    span
}

/// Records the result of a traced call, and adds the header `traceparent` to its response.
fn finish_trace(trace: &Span, call: &CallContext<'_>, response: &mut Response<Body>) {
    let number = |name| response.headers().get(name)?.to_str().ok()?.parse::<u64>().ok();
    trace.record("lock", call.log_fields.lock.as_ref().map(LockName::as_str));
    trace.record("session", call.log_fields.session.as_ref().map(SessionName::as_str));
    trace.record("token", number(FENCING_TOKEN));
    trace.record("revision", number(HOLDFAST_REVISION));
    trace.record("request_id", call.request_id.as_str());
    trace.record("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        trace.record("otel.status_code", "ERROR");
    }
    let context = holdfast_trace::context_of(trace).map(|context| context.to_string());
    if let Some(Ok(value)) = context.map(HeaderValue::try_from) {
        response.headers_mut().insert(&TRACEPARENT, value);
    }
}

async fn handle(
    call: &mut CallContext<'_>,
    operation: &'static Operation,
    body: Body,
) -> HandlerResult {
    let state = call.state;
    let has_body = operation.body != BodyKind::None && !body.is_end_stream();
    if let Err(refusal) = admit(call, operation, has_body).await {
        // The body of a source with too many refusals is not read: its connection closes.
        if !is_above_rate(call) {
            body::discard(
                body,
                operation.body,
                &call.parts.headers,
                &state.config,
                &state.large_bodies,
            );
        }
        return Err(refusal);
    }
    // The permits of a large body are released when the handler returns.
    let received = body::read(body, operation.body, &state.config, &state.large_bodies).await?;
    let Received { bytes, permits: _permits } = received;
    call.body = bytes;
    if operation.scope != Scope::Static {
        let in_body = matches!(operation.body, BodyKind::Params { .. });
        call.read_params(operation.all_params(), in_body)?;
    }
    if let Some(redirect) = call.redirect_to_leader() {
        admit_caller(call, operation).await?;
        return Ok(redirect);
    }
    // A transaction has its parameters in the body.
    if operation.late_copies.is_executed_once() && operation.body != BodyKind::Txn {
        let body = call.body.clone();
        number_call(call, operation.id, &body)?;
    }
    (operation.handler)(call).await.map_err(|problem| with_next_step(problem, operation, call))
}

/// Adds what to do after an unknown outcome, which depends on how the call is named.
fn with_next_step(
    mut problem: HttpError,
    operation: &Operation,
    call: &CallContext<'_>,
) -> HttpError {
    if problem.code == ErrorCode::OutcomeUnknown {
        let has = |name: &str| {
            call.has_param(name)
                || name == "request" && call.parts.headers.contains_key(IDEMPOTENCY_KEY)
        };
        problem.hint = Some(operation.late_copies.after_unknown_outcome(has).into());
    }
    problem
}

/// Decides from the head alone whether the call goes on. Only then its body is read.
async fn admit(
    call: &mut CallContext<'_>,
    operation: &Operation,
    has_body: bool,
) -> Result<(), HttpError> {
    head::check(call.parts)?;
    head::check_site(call.parts, &call.state.config, &call.state.service)?;
    check_taken(&call.parts.headers, operation)?;
    if !operation.access.reads_credential() {
        return Ok(());
    }
    call.identify(identity::authenticate(call.parts, call.service()).await?);
    let counted = match call.parts.extensions.get::<ConnectionPlace>() {
        Some(place) => call.service().count_connection(place),
        None => Ok(()),
    };
    // A connection beyond the quota lasts for one call. A keepalive is executed, so that no session ends.
    call.closes_connection = counted.is_err();
    if operation.is_rate_limited {
        counted.map_err(|failure| call.error(failure))?;
    }
    if let Some(activity) = call.parts.extensions.get::<Arc<Activity>>()
        && activity.is_pending()
        && (call.service().is_known() || !call.service().requires_permissions())
    {
        activity.admitted();
        if let Some(Peer { address, .. }) = call.parts.extensions.get() {
            call.state.config.failures.proved(NodePort::Http, *address);
        }
    }
    if has_body {
        admit_caller(call, operation).await?;
    }
    if operation.is_rate_limited {
        call.service().count_call_slowly().await.map_err(|failure| call.error(failure))?;
    }
    Ok(())
}

/// Refuses a caller without any right that the call may need, for what comes before the check of the handler.
async fn admit_caller(call: &CallContext<'_>, operation: &Operation) -> Result<(), HttpError> {
    let Some(rights) = operation.access.rights() else { return Ok(()) };
    call.service().admit_caller(rights).await.map_err(|failure| call.error(failure))
}

/// The response, with the headers that every response has.
fn response(call: &CallContext<'_>, reply: Reply) -> Response<Body> {
    /// The number of these headers.
    const HEADERS: usize = 6;
    let Reply { status, revision, headers: own, body, stream, .. } = reply;
    let mut response = Response::new(stream.unwrap_or_else(|| Body::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.reserve(own.len() + HEADERS);
    for (name, value) in own {
        headers.append(name, value);
    }
    let service = &call.state.service;
    let revision = revision.unwrap_or_else(|| service.revision());
    headers.insert(&NODE, service.node().0.into());
    let leader = service.leader();
    headers.insert(&LEADER, leader.map_or(HeaderValue::from_static("none"), |node| node.0.into()));
    headers.insert(&REVISION, revision.0.into());
    if let Ok(id) = HeaderValue::from_str(&call.request_id) {
        headers.insert(&REQUEST_ID, id);
    }
    if call.closes_connection {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if headers.contains_key(CONTENT_TYPE) {
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    if call.parts.method.is_safe() {
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}

/// One log line a call: at `info` if the call was slow or failed on this node, otherwise at `debug`.
fn log(call: &CallContext<'_>, operation: &Operation, reply: &Reply, took: Duration) {
    let log_fields = &call.log_fields;
    let slow = took.saturating_sub(log_fields.wait) > call.state.config.slow;
    let term = call.state.service.term();
    let request_id = call.request_id.as_str();
    let method = call.parts.method.as_str();
    let route = operation.route.pattern;
    let lock = log_fields.lock.as_ref().map(LockName::as_str);
    let path = log_fields.path.as_ref().map(ZnodePath::as_str);
    let session = log_fields.session.as_ref().map(SessionName::as_str);
    let status = reply.status.as_u16();
    let code = reply.code.map(ErrorCode::as_str);
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

    /// The future of a call is moved several times before its first poll.
    #[test]
    fn the_future_of_a_call_is_small() {
        fn size<F: Future>(
            _: fn(Arc<HttpState>, &'static Operation, Arc<RouteMetrics>, Request) -> F,
        ) -> usize {
            size_of::<F>()
        }
        let size = size(answer);
        assert!(size <= 4_096, "{size}");
    }
}
