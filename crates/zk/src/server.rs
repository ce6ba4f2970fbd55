//! The accept loop: takes connections while there is room, and ends them in good order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_service::Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::connection::{Closing, Front, converse};
use crate::ledger::Ledger;
use crate::{ZkConfig, ZkMetrics};

/// Pause after a failed accept: the cause (no descriptors left) does not go away at once.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// How often the number of watches is looked at.
const GAUGES: Duration = Duration::from_secs(5);

/// Serves until `shutdown` resolves, then stops accepting, answers what was asked within
/// [`ZkConfig::drain_timeout`], closes all connections and returns. Sessions live on: their clients go to other nodes.
pub async fn serve(
    listener: TcpListener,
    config: ZkConfig,
    service: Service,
    metrics: ZkMetrics,
    shutdown: impl Future<Output = ()>,
) {
    let places = config.connections_max.min(Semaphore::MAX_PERMITS);
    let ledger = Ledger::new(config.connections_per_address_max);
    let address = listener.local_addr().ok();
    let members = config.dynamic().map(Arc::from);
    let front = Arc::new(Front { config, members, service, metrics, ledger, address });
    let door = Door {
        places: Arc::new(Semaphore::new(places)),
        closing: watch::Sender::new(Closing::No),
        front,
    };
    tokio::select! {
        () = door.accept_all(&listener) => {}
        () = door.gauge() => {}
        () = shutdown => {}
    }
    drop(listener);
    door.close().await;
}

struct Door {
    /// One permit a connection.
    places: Arc<Semaphore>,
    closing: watch::Sender<Closing>,
    front: Arc<Front>,
}

impl Door {
    async fn accept_all(&self, listener: &TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept ZooKeeper connections; raise the limit of open files if it is reached");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let metrics = &self.front.metrics;
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            metrics.refused().inc();
            tracing::debug!(%peer, "too many ZooKeeper connections: one was refused");
            return;
        };
        let Some(seat) = self.front.ledger.open(peer) else {
            metrics.refused().inc();
            tracing::debug!(%peer, "too many ZooKeeper connections from one address: one was refused");
            return;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch off Nagle's algorithm");
        }
        let open = metrics.connections().clone();
        open.inc();
        let closing = self.closing.subscribe();
        let conversation = converse(stream, peer, self.front.clone(), seat, closing);
        tokio::spawn(async move {
            conversation.await;
            open.dec();
            drop(place);
        });
    }

    /// Keeps the gauges that nobody else moves.
    async fn gauge(&self) {
        let mut ticks = interval(GAUGES);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let watches = self.front.service.watch_counts().watches;
            self.front.metrics.watches().set(i64::try_from(watches).unwrap_or(i64::MAX));
        }
    }

    async fn close(&self) {
        self.closing.send_replace(Closing::Gracefully);
        let grace = tokio::time::timeout(self.front.config.drain_timeout, self.all_closed()).await;
        if grace.is_err() {
            self.closing.send_replace(Closing::Now);
            self.all_closed().await;
        }
    }

    async fn all_closed(&self) {
        let all = self.front.config.connections_max.min(Semaphore::MAX_PERMITS);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        // The semaphore is never closed; either way nobody holds a place any more.
        drop(self.places.acquire_many(all).await);
    }
}

/// Errors that concern the connection being accepted, not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
