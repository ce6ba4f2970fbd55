//! A client that continues after any error: it drops its connection and opens another one at the next node.
//!
//! The client retries no call; the caller decides.

use std::time::Duration;

use tokio::time::timeout;

use crate::lock::{Connector, HeldLock, LockClient, LockError};

/// The timeout of an acquire. It divides no resume time of a paused holder, because a timeout at the moment of the
/// grant is a separate case.
pub const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(4_300);
/// The timeout of a call, in addition to its wait for the lock; after it the client drops the connection.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(2);

pub struct ReconnectingClient {
    connector: Connector,
    client: Option<Box<dyn LockClient>>,
}

impl ReconnectingClient {
    /// Creates an unconnected client.
    pub fn new(connector: Connector) -> Self {
        Self { connector, client: None }
    }

    /// Opens a connection if the client has none.
    pub async fn connect(&mut self) -> Result<&mut Box<dyn LockClient>, LockError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => in_time(CALL_TIMEOUT, "connect", self.connector.client()).await?,
        };
        Ok(self.client.insert(client))
    }

    /// # Errors
    /// [`LockError::Busy`] if the lock was not free within [`ACQUIRE_TIMEOUT`]; any other error drops the connection.
    pub async fn acquire(&mut self, lock: &str) -> Result<HeldLock, LockError> {
        let client = self.connect().await?;
        let call = client.acquire(lock, ACQUIRE_TIMEOUT);
        let held = in_time(ACQUIRE_TIMEOUT + CALL_TIMEOUT, "acquire", call).await;
        if !matches!(held, Ok(_) | Err(LockError::Busy)) {
            self.client = None;
        }
        held
    }

    /// # Errors
    /// Any error drops the connection.
    pub async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let client = self.connect().await?;
        let released = in_time(CALL_TIMEOUT, "release", client.release(held)).await;
        if released.is_err() {
            self.client = None;
        }
        released
    }
}

async fn in_time<T>(
    time: Duration,
    call: &str,
    future: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    let late = |_| LockError::Unreachable(format!("{call}: no reply in time"));
    timeout(time, future).await.map_err(late)?
}
