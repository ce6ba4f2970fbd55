//! The router of the API and its accept loop: accepts connections up to the bound, with TLS if it is on, and drains them at shutdown.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::routing::on;
use holdfast_api::{ErrorCode, Problem};
use holdfast_service::Service;
use holdfast_tls::{
    AcceptError, CallerFailures, FailureReason, MaybeTlsStream, NodePort, PendingConnections,
    TlsAcceptor,
};
use prometheus_client::registry::Registry;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::connection::converse;
use crate::description::DOCUMENTATION;
use crate::front::answer;
use crate::identity::Peer;
use crate::operation::Operation;
use crate::operations::OPERATIONS;
use crate::state::{HttpState, ShutdownPhase};
use crate::unmatched::{NO_SUCH_PATH, WRONG_METHOD};
use crate::{HttpConfig, HttpMetrics};

/// Pause after a failed accept; the usual cause is that no file descriptor is left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// The response to a connection beyond the bound.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
/// The listener of the front-end.
pub struct HttpListener {
    pub listener: TcpListener,
    /// `None` for a port without TLS.
    pub tls: Option<TlsAcceptor>,
}

/// Serves until `shutdown` resolves, then stops accepting, finishes the calls in flight within
/// [`HttpConfig::drain_timeout`] and returns. Waiting calls end early only if the service is drained meanwhile.
///
/// `metrics` must be registered in `registry`, which `/metrics` encodes. `extend` adds paths to the router of the API.
pub async fn serve(
    listener: HttpListener,
    config: HttpConfig,
    service: Service,
    metrics: HttpMetrics,
    registry: Arc<Registry>,
    extend: impl FnOnce(Router) -> Router,
    shutdown: impl Future<Output = ()>,
) {
    let config = Arc::new(config);
    let phase = watch::Sender::new(ShutdownPhase::Serving);
    let state = HttpState::new(
        config.clone(),
        service,
        metrics.clone(),
        registry,
        phase.subscribe(),
        DOCUMENTATION,
    );
    listen(listener, config, extend(router(&Arc::new(state))), metrics, phase, shutdown).await;
}

fn router(state: &Arc<HttpState>) -> Router {
    let call = |operation: &'static Operation| {
        let metrics = Arc::new(state.metrics.of_route(operation.route.pattern));
        move |State(state): State<Arc<HttpState>>, request: Request| {
            answer(state, operation, metrics.clone(), request)
        }
    };
    let mut router = Router::new();
    for operation in OPERATIONS {
        for path in operation.route.matched() {
            router = router.route(&path, on(operation.method.filter(), call(operation)));
        }
    }
    router
        .method_not_allowed_fallback(call(&WRONG_METHOD))
        .fallback(call(&NO_SUCH_PATH))
        .with_state(state.clone())
}

/// Runs the accept loop with any router.
pub(crate) async fn listen(
    HttpListener { listener, tls }: HttpListener,
    config: Arc<HttpConfig>,
    router: Router,
    metrics: HttpMetrics,
    phase: watch::Sender<ShutdownPhase>,
    shutdown: impl Future<Output = ()>,
) {
    let server = HttpServer {
        pending: PendingConnections::of_port(config.connections_max),
        places: Arc::new(Semaphore::new(config.connections_max.min(Semaphore::MAX_PERMITS))),
        phase,
        config,
        router,
        metrics,
        tls,
    };
    tokio::select! {
        () = server.accept_all(&listener) => {}
        () = shutdown => {}
    }
    drop(listener);
    server.close().await;
}

struct HttpServer {
    /// The connections without an admitted call.
    pending: PendingConnections,
    /// One permit for each connection.
    places: Arc<Semaphore>,
    phase: watch::Sender<ShutdownPhase>,
    config: Arc<HttpConfig>,
    router: Router,
    metrics: HttpMetrics,
    tls: Option<TlsAcceptor>,
}

impl HttpServer {
    async fn accept_all(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.admit(stream, peer.ip()),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections; raise the limit of open files if it is reached");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
            // A flood of connections is a task like any other: all that is ready runs before the next connection is accepted.
            tokio::task::yield_now().await;
        }
    }

    fn admit(&self, stream: TcpStream, address: IpAddr) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.metrics.refused().inc();
            // Best effort: the connection is closed in any case.
            drop(stream.try_write(FULL));
            return;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch off Nagle's algorithm");
        }
        let open = self.metrics.connections().clone();
        open.inc();
        let mut phase = self.phase.subscribe();
        let (router, config, tls) = (self.router.clone(), self.config.clone(), self.tls.clone());
        let pending = self.pending.begin(address);
        tokio::spawn(async move {
            let stream = tokio::select! {
                stream = handshake(stream, tls, address, &config.failures) => stream,
                () = pending.evicted() => {
                    config.failures.record(NodePort::Http, address, FailureReason::Evicted, &"no handshake");
                    None
                }
                _ = phase.wait_for(|phase| *phase == ShutdownPhase::Closed) => None,
            };
            if let Some(stream) = stream {
                let peer = Peer::new(address, &stream);
                converse((stream, pending), peer, router, config, phase).await;
            }
            open.dec();
            drop(place);
        });
    }

    async fn close(&self) {
        self.phase.send_replace(ShutdownPhase::Draining);
        let grace = tokio::time::timeout(self.config.drain_timeout, self.all_closed()).await;
        if grace.is_err() {
            tracing::warn!("connections were still busy at the end of the drain time and are cut");
            self.phase.send_replace(ShutdownPhase::Closed);
            self.all_closed().await;
        }
    }

    async fn all_closed(&self) {
        let all = self.config.connections_max.min(Semaphore::MAX_PERMITS);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        // The semaphore is never closed; in both cases no connection holds a permit any more.
        drop(self.places.acquire_many(all).await);
    }
}

/// Returns `None` for a connection that is not accepted.
async fn handshake(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    source: IpAddr,
    failures: &CallerFailures,
) -> Option<MaybeTlsStream> {
    let Some(tls) = tls else { return Some(MaybeTlsStream::Plain(stream)) };
    failures.wait(NodePort::Http, source).await;
    let error = match tls.accept(stream).await {
        Ok(stream) => return Some(stream),
        Err(error) => error,
    };
    if let Some(reason) = error.reason() {
        failures.record(NodePort::Http, source, reason, &error);
    }
    if let AcceptError::Plaintext(mut stream) = error {
        // Reads the call first: otherwise its unread bytes reset the connection before the response arrives.
        drop(stream.try_read(&mut [0; 4096]));
        drop(stream.write_all(needs_tls().as_bytes()).await);
        drop(stream.shutdown().await);
    }
    None
}

/// The response to a call without TLS on a port that requires it.
fn needs_tls() -> String {
    let mut problem = Problem::new(ErrorCode::InvalidArgument, "this port needs TLS")
        .hint("call https://, with the cluster's CA: --cacert FILE");
    problem.status = StatusCode::BAD_REQUEST.as_u16();
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let len = body.len();
    format!(
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/problem+json\r\nContent-Length: {len}\r\n\r\n{body}"
    )
}

/// Errors that concern the connection being accepted, not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests;
