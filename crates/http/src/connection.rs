//! One connection from its first byte to its last, with time limits.
//!
//! hyper parses HTTP. This file closes a connection whose head does not arrive, that is idle, whose stream is not read,
//! or that outlasts the shutdown. The timer never ends a call in flight: the call's own limits do. The exception is a
//! caller whose certificate has expired or is denied. It also closes the oldest of too many connections without an admitted call. Each connection has one timer, re-armed at most once in `head_timeout`, so that idle connections cost little.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response};
use holdfast_service::ConnectionPlace;
use holdfast_tls::{FailureReason, MaybeTlsStream, NodePort, PendingConnection};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::Service as _;

use crate::HttpConfig;
use crate::activity::{Activity, Followed, ObservedIo};
use crate::identity::Peer;
use crate::state::ShutdownPhase;

/// How much earlier than the server a client should give up an idle connection.
const CLOSE_MARGIN: Duration = Duration::from_secs(5);

/// Serves one connection until the client, the timer or the shutdown ends it.
pub(crate) async fn converse(
    (stream, pending): (MaybeTlsStream, PendingConnection),
    peer: Peer,
    router: Router,
    config: Arc<HttpConfig>,
    mut shutdown: watch::Receiver<ShutdownPhase>,
) {
    let mut evicted = pin!(pending.evicted());
    let activity = Arc::new(Activity::new(Some(pending)));
    let place = ConnectionPlace::default();
    let mut denied = pin!(stream.expiry().denied());
    let io = TokioIo::new(ObservedIo::new(stream, activity.clone()));
    let keep_alive = keep_alive(config.idle_timeout);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        activity.busy(request.body().size_hint().exact());
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(activity.clone());
        request.extensions_mut().insert(place.clone());
        let answer = router.clone().call(request.map(Body::new));
        let (activity, keep_alive) = (&activity, &keep_alive);
        async move {
            let answer: Result<_, Infallible> = answer.await;
            answer.map(|mut answer| {
                answer.headers_mut().extend(keep_alive.clone());
                followed(answer, activity)
            })
        }
    });
    let mut connection = pin!(protocol(&config).serve_connection(io, service));
    let mut alarm = pin!(sleep_until(Instant::now() + config.head_timeout));
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = alarm.as_mut() => {
                let now = Instant::now();
                let deadline = activity.deadline(&config);
                if peer.is_expired(SystemTime::now()) {
                    tracing::debug!("a connection was closed because the certificate of its caller expired");
                    return;
                }
                if deadline.is_some_and(|deadline| deadline <= now) {
                    tracing::debug!("a connection was closed after its time limit");
                    return;
                }
                let look_again = now + config.head_timeout;
                alarm.as_mut().reset(deadline.map_or(look_again, |d| d.min(look_again)));
            }
            () = evicted.as_mut(), if activity.is_pending() => {
                let failures = &config.failures;
                failures.record(NodePort::Http, peer.address, FailureReason::Evicted, &"no admitted call");
                return;
            }
            () = denied.as_mut() => {
                tracing::debug!("a connection was closed because the certificate of its caller is denied");
                return;
            }
            changed = shutdown.changed() => {
                if changed.is_err() || *shutdown.borrow_and_update() == ShutdownPhase::Closed {
                    return;
                }
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The headers that tell a client when an idle connection closes. A client that stops using it [`CLOSE_MARGIN`] earlier
/// never sends a request into a closing connection.
fn keep_alive(idle_timeout: Duration) -> Option<(HeaderName, HeaderValue)> {
    let seconds = idle_timeout.checked_sub(CLOSE_MARGIN)?.as_secs();
    let value = HeaderValue::from_str(&format!("timeout={seconds}")).ok()?;
    (seconds > 0).then_some((HeaderName::from_static("keep-alive"), value))
}

/// Marks the connection idle when the response is complete, or when its stream has ended: a body of unknown length.
fn followed(answer: Response<Body>, activity: &Arc<Activity>) -> Response<Body> {
    if answer.body().size_hint().exact().is_some() {
        activity.idle();
        return answer;
    }
    activity.streams();
    answer.map(|body| Body::new(Followed::new(body, activity.clone())))
}

/// HTTP/1.1 with the configured bounds. hyper's own timer is off: the timer above replaces it.
fn protocol(config: &HttpConfig) -> http1::Builder {
    /// The smallest buffer that hyper accepts.
    const BUFFER_MIN: usize = 8 * 1024;
    let mut builder = http1::Builder::new();
    builder
        .keep_alive(true)
        .half_close(false)
        .header_read_timeout(None)
        .max_header_size(config.head_bytes_max)
        .max_buf_size((config.head_bytes_max * 2).max(BUFFER_MIN));
    builder
}
