//! The client side to one peer for one purpose, with or without an open connection, and whether the peer can be reached.
//!
//! A call opens the connection if necessary. One attempt runs at a time. After a failed attempt the channel pauses, up
//! to [`BACKOFF_MAX`]; calls during the pause fail immediately with [`CallError::NotSent`]. All channels to a peer share one
//! [`Reachability`]: it logs one line at the loss of the peer, one at its return, and at most one every [`REPEAT_AFTER`] when
//! the reason changes.

use std::sync::Arc;
use std::time::Duration;

use holdfast_tls::{MaybeTlsStream, PeerTls, TlsMode};
use holdfast_types::{Address, NodeId};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout, timeout_at};

use super::connection::Connection;
use super::handshake::PeerHandshake;
use crate::error::CallError;
use crate::wire::{PeerCall, Purpose};

const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// The maximum pause, short enough to use a healed link before a node starts an election.
const BACKOFF_MAX: Duration = Duration::from_millis(250);
/// The timeout of a connection attempt.
const CONNECT_BOUND: Duration = Duration::from_secs(1);

pub(crate) struct PeerChannel {
    handshake: Arc<PeerHandshake>,
    /// `None` for connections without TLS.
    tls: Option<PeerTls>,
    target: NodeId,
    purpose: Purpose,
    reachability: Arc<Reachability>,
    open: Mutex<Option<Arc<Connection>>>,
    attempt: Arc<tokio::sync::Mutex<Attempt>>,
}

#[derive(Default)]
struct Attempt {
    pause: Duration,
    retry_at: Option<Instant>,
    /// The reason for the failure of the last attempt.
    reason: String,
}

impl PeerChannel {
    pub(crate) fn new(
        handshake: Arc<PeerHandshake>,
        tls: Option<PeerTls>,
        target: NodeId,
        purpose: Purpose,
        reachability: Arc<Reachability>,
    ) -> Self {
        let attempt = Arc::default();
        let open = Mutex::new(None);
        Self { handshake, tls, target, purpose, reachability, open, attempt }
    }

    pub(crate) async fn call<C: PeerCall>(
        self: &Arc<Self>,
        call: C,
        deadline: Instant,
    ) -> Result<C::Reply, CallError> {
        let connection = match self.current() {
            Some(connection) => connection,
            None => timeout_at(deadline, self.connect())
                .await
                .unwrap_or_else(|_| Err("no connection in time".into()))
                .map_err(CallError::NotSent)?,
        };
        connection.call(call, deadline).await
    }

    /// Opens the connection, unless it is open.
    pub(crate) async fn open(self: &Arc<Self>) {
        // `attempt` records and logs a failure.
        drop(self.connect().await);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.current().is_some()
    }

    /// Closes the connection, if one is open.
    pub(crate) fn close(&self) {
        self.open.lock().take();
    }

    fn current(&self) -> Option<Arc<Connection>> {
        self.open.lock().as_ref().filter(|connection| connection.is_open()).cloned()
    }

    async fn connect(self: &Arc<Self>) -> Result<Arc<Connection>, String> {
        // A concurrent attempt holds this lock.
        let attempt = self.attempt.clone().lock_owned().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        self.handshake.may_call(self.target, self.purpose)?;
        if attempt.retry_at.is_some_and(|at| Instant::now() < at) {
            return Err(attempt.reason.clone());
        }
        // The attempt continues after a drop of its caller, so callers with short deadlines get a connection too.
        let channel = self.clone();
        let attempting = tokio::spawn(async move { channel.attempt(attempt).await });
        attempting.await.map_err(|error| error.to_string())?
    }

    async fn attempt(
        &self,
        mut attempt: OwnedMutexGuard<Attempt>,
    ) -> Result<Arc<Connection>, String> {
        match self.open_stream().await {
            Ok(stream) => {
                *attempt = Attempt::default();
                let connection = Connection::new(stream, self.purpose);
                *self.open.lock() = Some(connection.clone());
                tracing::debug!(peer = self.target.0, purpose = self.purpose.name(), "connected");
                self.reachability.record_success(self.handshake.peer_address(self.target));
                Ok(connection)
            }
            Err(reason) => {
                self.pause(&mut attempt, &reason);
                Err(reason)
            }
        }
    }

    fn pause(&self, attempt: &mut Attempt, reason: &str) {
        attempt.pause = (attempt.pause * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        attempt.retry_at = Some(Instant::now() + attempt.pause);
        reason.clone_into(&mut attempt.reason);
        // `bootstrap` logs the wait of a node without a log.
        if self.purpose != Purpose::Bootstrap {
            self.reachability.record_failure(self.handshake.peer_address(self.target), reason);
        }
    }

    /// Opens a connection. While a cluster migrates to TLS, tries without TLS if the
    /// handshake fails.
    async fn open_stream(&self) -> Result<MaybeTlsStream, String> {
        let tcp = self.open_tcp().await?;
        let mut stream = match &self.tls {
            None => MaybeTlsStream::Plain(tcp),
            Some(tls) => match (timeout(CONNECT_BOUND, tls.connect(tcp)).await, tls.mode()) {
                (Ok(Ok(stream)), _) => stream,
                (_, TlsMode::Allow) => MaybeTlsStream::Plain(self.open_tcp().await?),
                (Ok(Err(error)), TlsMode::Require) => return Err(format!("TLS: {error}")),
                (Err(_), TlsMode::Require) => return Err("no TLS handshake in time".to_owned()),
            },
        };
        self.handshake.initiate(&mut stream, self.target, self.purpose).await?;
        Ok(stream)
    }

    async fn open_tcp(&self) -> Result<TcpStream, String> {
        let address = self.handshake.peer_address(self.target);
        let address = address.ok_or("the node is not a member, or its address is unknown")?;
        let connecting = timeout(CONNECT_BOUND, TcpStream::connect(address.to_string()));
        let stream = connecting
            .await
            .map_err(|_| "no connection in time".to_owned())?
            .map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(stream)
    }
}

/// The minimum time between two lines for a changed reason. Channels to one peer may fail for different reasons at
/// once.
const REPEAT_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Lost {
    since: Instant,
    logged_at: Instant,
    reason: String,
}

/// The last connection attempt to a peer.
#[derive(Debug, Default)]
struct LastAttempt {
    /// The address of the last connection.
    connected_to: Option<Address>,
    /// The address and the reason, if the last attempt failed.
    failed: Option<(Option<Address>, String)>,
}

#[derive(Debug)]
pub(crate) struct Reachability {
    peer: NodeId,
    lost: Mutex<Option<Lost>>,
    last: Mutex<LastAttempt>,
}

impl Reachability {
    pub(crate) fn new(peer: NodeId) -> Self {
        Self { peer, lost: Mutex::new(None), last: Mutex::default() }
    }

    pub(crate) fn peer(&self) -> NodeId {
        self.peer
    }

    /// Records a failed connection attempt.
    fn record_failure(&self, address: Option<Address>, reason: &str) {
        self.last.lock().failed = Some((address.clone(), reason.to_owned()));
        if let Some(since) = self.note_lost(reason, Instant::now()) {
            let (peer, address) = (self.peer, address.map(tracing::field::display));
            let for_ms = holdfast_types::millis(since);
            tracing::warn!(peer = peer.0, address, reason, for_ms, "peer unreachable");
        }
    }

    /// Records a successful connection attempt.
    pub(crate) fn record_success(&self, address: Option<Address>) {
        *self.last.lock() = LastAttempt { connected_to: address.clone(), failed: None };
        if let Some(after) = self.note_found(Instant::now()) {
            let (peer, address) = (self.peer, address.map(tracing::field::display));
            let after_ms = holdfast_types::millis(after);
            tracing::info!(peer = peer.0, address, after_ms, "peer reachable again");
        }
    }

    /// The address and the reason of the last attempt, and the time since the first failure, if the peer is lost.
    pub(crate) fn failure(&self) -> Option<(String, Duration)> {
        let since = self.lost.lock().as_ref()?.since;
        let (address, reason) = self.last.lock().failed.clone()?;
        let at = address.map_or_else(String::new, |address| format!("{address}: "));
        Some((format!("{at}{reason}"), since.elapsed()))
    }

    /// The address of the last attempt, if it failed.
    pub(crate) fn failed_at(&self) -> Option<Address> {
        self.last.lock().failed.as_ref()?.0.clone()
    }

    /// The address of the last connection.
    pub(crate) fn connected_to(&self) -> Option<Address> {
        self.last.lock().connected_to.clone()
    }

    /// Returns the time since the loss of the peer, if it must be logged.
    fn note_lost(&self, reason: &str, now: Instant) -> Option<Duration> {
        let mut lost = self.lost.lock();
        match &mut *lost {
            None => {
                *lost = Some(Lost { since: now, logged_at: now, reason: reason.to_owned() });
                Some(Duration::ZERO)
            }
            Some(lost) if lost.reason != reason && now >= lost.logged_at + REPEAT_AFTER => {
                lost.logged_at = now;
                reason.clone_into(&mut lost.reason);
                Some(now - lost.since)
            }
            Some(_) => None,
        }
    }

    /// Returns the duration of the loss, if the peer was lost.
    fn note_found(&self, now: Instant) -> Option<Duration> {
        self.lost.lock().take().map(|lost| now - lost.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_change_is_logged_once() {
        let reachability = Reachability::new(NodeId(2));
        let t0 = Instant::now();
        assert_eq!(reachability.note_found(t0), None);
        assert_eq!(reachability.note_lost("refused", t0), Some(Duration::ZERO));
        for heartbeat in 1..1_000 {
            let now = t0 + Duration::from_millis(150 * heartbeat);
            assert_eq!(reachability.note_lost("refused", now), None);
        }
        let back = t0 + Duration::from_mins(5);
        assert_eq!(reachability.note_found(back), Some(Duration::from_mins(5)));
        assert_eq!(reachability.note_found(back), None);
        assert_eq!(reachability.note_lost("refused", back), Some(Duration::ZERO));
    }

    #[test]
    fn another_reason_is_logged_but_two_reasons_do_not_alternate() {
        let reachability = Reachability::new(NodeId(2));
        let t0 = Instant::now();
        reachability.note_lost("refused", t0);
        assert_eq!(reachability.note_lost("another cluster", t0 + REPEAT_AFTER / 2), None);
        assert_eq!(
            reachability.note_lost("another cluster", t0 + REPEAT_AFTER),
            Some(REPEAT_AFTER)
        );
        assert_eq!(reachability.note_lost("refused", t0 + REPEAT_AFTER * 3 / 2), None);
    }
}
