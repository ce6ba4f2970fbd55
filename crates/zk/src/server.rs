//! The accept loop, the connection limits, and the shutdown of the front-end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use holdfast_service::Service;
use holdfast_tls::{
    CallerFailures, FailureReason, MaybeTlsStream, NodePort, PendingConnection, PendingConnections,
    TlsAcceptor,
};
use holdfast_trace::Sampler;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::connection::serve_connection;
use crate::connection_table::ConnectionTable;
use crate::context::{ServerContext, Shutdown, ZkConfig};
use crate::metrics::ZkMetrics;

/// Pause after a failed accept: the cause (no file descriptor left) may last.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// How often the gauge of watches is updated.
const GAUGE_PERIOD: Duration = Duration::from_secs(5);

/// The listener of the front-end.
pub struct ZkListener {
    pub listener: TcpListener,
    /// `None` for a port without TLS.
    pub tls: Option<TlsAcceptor>,
}

/// Serves until `shutdown` resolves. Then it stops accepting, answers the requests that were read within
/// [`ZkConfig::drain_timeout`], closes all connections and returns. Sessions stay open for other nodes.
pub async fn serve(
    ZkListener { listener, tls }: ZkListener,
    config: ZkConfig,
    service: Service,
    metrics: ZkMetrics,
    shutdown: impl Future<Output = ()>,
) {
    let permits = config.connections_max.min(Semaphore::MAX_PERMITS);
    let connections = ConnectionTable::new(config.connections_per_address_max);
    let address = listener.local_addr().ok();
    let trace_sampler = config.trace_sample.map(Sampler::new);
    let context = ServerContext { config, service, metrics, connections, trace_sampler, address };
    let server = ZkServer {
        pending: PendingConnections::of_port(permits),
        permits: Arc::new(Semaphore::new(permits)),
        shutdown: watch::Sender::new(Shutdown::NotStarted),
        context: Arc::new(context),
        tls,
    };
    tokio::select! {
        () = server.accept_all(&listener) => {}
        () = server.update_gauge() => {}
        () = shutdown => {}
    }
    drop(listener);
    server.shut_down().await;
}

struct ZkServer {
    /// The connections without a session.
    pending: PendingConnections,
    /// One permit for each connection.
    permits: Arc<Semaphore>,
    shutdown: watch::Sender<Shutdown>,
    context: Arc<ServerContext>,
    tls: Option<TlsAcceptor>,
}

impl ZkServer {
    async fn accept_all(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) if is_connection_error(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a ZooKeeper connection; raise the limit of open files if it is reached");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
            // A flood of connections is a task like any other: all that is ready runs before the next connection is accepted.
            tokio::task::yield_now().await;
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let metrics = &self.context.metrics;
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            metrics.0.refused.inc();
            tracing::debug!(%peer, "refused a ZooKeeper connection: too many are open");
            return;
        };
        let Some(guard) = self.context.connections.open(peer) else {
            metrics.0.refused.inc();
            tracing::debug!(%peer, "refused a ZooKeeper connection: too many are open from its address");
            return;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "failed to set TCP_NODELAY");
        }
        let open = metrics.0.connections.clone();
        open.inc();
        let mut shutdown = self.shutdown.subscribe();
        let (context, tls, pending) =
            (self.context.clone(), self.tls.clone(), self.pending.begin(peer.ip()));
        tokio::spawn(async move {
            let stream = tokio::select! {
                stream = handshake(stream, tls, peer.ip(), (&pending, &context.config.failures)) => stream,
                _ = shutdown.wait_for(|shutdown| *shutdown != Shutdown::NotStarted) => None,
            };
            match stream {
                Some(stream) => {
                    serve_connection((stream, pending), peer, context, guard, shutdown).await;
                }
                None => drop(context.metrics.0.dropped.inc()),
            }
            open.dec();
            drop(permit);
        });
    }

    async fn update_gauge(&self) {
        let mut ticks = interval(GAUGE_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let watches = self.context.service.watch_counts().watches;
            self.context.metrics.0.watches.set(i64::try_from(watches).unwrap_or(i64::MAX));
        }
    }

    async fn shut_down(&self) {
        self.shutdown.send_replace(Shutdown::Draining);
        let timeout = self.context.config.drain_timeout;
        if tokio::time::timeout(timeout, self.all_closed()).await.is_err() {
            self.shutdown.send_replace(Shutdown::Now);
            self.all_closed().await;
        }
    }

    async fn all_closed(&self) {
        let all = self.context.config.connections_max.min(Semaphore::MAX_PERMITS);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        drop(self.permits.acquire_many(all).await);
    }
}

/// Returns `None` for a connection that is not accepted.
async fn handshake(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    source: IpAddr,
    (pending, failures): (&PendingConnection, &CallerFailures),
) -> Option<MaybeTlsStream> {
    let Some(tls) = tls else { return Some(MaybeTlsStream::Plain(stream)) };
    let accepting = async {
        failures.wait(NodePort::ZooKeeper, source).await;
        tls.accept(stream).await
    };
    let (reason, detail) = tokio::select! {
        accepted = accepting => match accepted {
            Ok(stream) => return Some(stream),
            Err(error) => (error.reason()?, error.to_string()),
        },
        () = pending.evicted() => (FailureReason::Evicted, "no handshake".to_owned()),
    };
    failures.record(NodePort::ZooKeeper, source, reason, &detail);
    None
}

/// Errors that concern the connection being accepted, not the listener.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
