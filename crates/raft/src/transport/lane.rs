//! The way to one peer for one purpose, whether or not a connection is open.
//!
//! Owns opening it, at most one attempt at a time, and the pause after a failed one, which grows to
//! [`BACKOFF_MAX`]. During a pause callers are told at once that nothing was sent.

use std::sync::Arc;
use std::time::Duration;

use holdfast_types::NodeId;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout, timeout_at};

use super::connection::Connection;
use super::handshake::Doorman;
use super::reach::Reach;
use crate::error::CallError;
use crate::wire::{Purpose, ReplyBody, RequestBody};

const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// Short enough that a healed link is used again before anybody calls an election.
const BACKOFF_MAX: Duration = Duration::from_millis(250);
/// A connection attempt takes at most this long.
const CONNECT_BOUND: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Lane {
    doorman: Arc<Doorman>,
    target: NodeId,
    address: String,
    purpose: Purpose,
    reach: Arc<Reach>,
    open: Mutex<Option<Arc<Connection>>>,
    attempt: Arc<tokio::sync::Mutex<Attempt>>,
}

#[derive(Default)]
struct Attempt {
    pause: Duration,
    retry_at: Option<Instant>,
    /// The last failure.
    reason: String,
}

impl Lane {
    pub(crate) fn new(
        doorman: Arc<Doorman>,
        target: NodeId,
        address: String,
        purpose: Purpose,
        reach: Arc<Reach>,
    ) -> Self {
        let attempt = Arc::default();
        Self { doorman, target, address, purpose, reach, open: Mutex::new(None), attempt }
    }

    /// Asks the peer, connecting first if need be.
    pub(crate) async fn call(
        self: &Arc<Self>,
        body: &RequestBody,
        deadline: Instant,
    ) -> Result<ReplyBody, CallError> {
        let connection = match self.current() {
            Some(connection) => connection,
            None => timeout_at(deadline, self.connect())
                .await
                .unwrap_or_else(|_| Err("no connection in time".into()))
                .map_err(CallError::NotSent)?,
        };
        connection.call(body, deadline).await
    }

    /// Whether a connection is open now.
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
        // Waits for whoever is at it.
        let attempt = self.attempt.clone().lock_owned().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        self.doorman.expects(self.target, self.purpose)?;
        if attempt.retry_at.is_some_and(|at| Instant::now() < at) {
            return Err(attempt.reason.clone());
        }
        // Goes on when the caller gives up, so that even callers of little patience get a connection at last.
        let lane = self.clone();
        let attempting = tokio::spawn(async move { lane.attempt(attempt).await });
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
                self.reach.found();
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
        // Whoever has no log yet says for itself what it waits for.
        if self.purpose != Purpose::Founding {
            self.reach.lost(reason);
        }
    }

    async fn open_stream(&self) -> Result<TcpStream, String> {
        let connecting = timeout(CONNECT_BOUND, TcpStream::connect(&self.address));
        let mut stream = connecting
            .await
            .map_err(|_| "no connection in time".to_owned())?
            .map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        self.doorman.introduce(&mut stream, self.target, self.purpose).await?;
        Ok(stream)
    }
}
