//! One connection to one Redis server. A command without a reply may have been executed, so the connection retries no
//! command.

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, ScriptInvocation};

use super::RedisAddress;
use crate::LockError;
use crate::lock::{LoadUsage, UsageCounter};

/// The timeout of a connection attempt and of a reply.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection. Clones share it and its usage counter.
#[derive(Clone)]
pub struct RedisConnection {
    client: Client,
    connection: MultiplexedConnection,
    pub(crate) counter: Arc<UsageCounter>,
}

impl RedisConnection {
    pub async fn open(url: &str) -> Result<Self, LockError> {
        Self::open_within(url, TIMEOUT).await
    }

    pub(crate) async fn open_within(url: &str, timeout: Duration) -> Result<Self, LockError> {
        let address: RedisAddress = url.parse().map_err(LockError::Rejected)?;
        let client = Client::open(address.url(timeout).await?)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { client, connection, counter: Arc::default() })
    }

    /// # Errors
    /// [`LockError::Unreachable`] without a reply, [`LockError::Rejected`] with an error.
    pub async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LockError> {
        self.counter.round_trip();
        Ok(command.query_async(&mut self.connection.clone()).await?)
    }

    /// Runs a script, and sends its text only if the server does not have it.
    pub(crate) async fn script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, LockError> {
        self.counter.round_trip();
        Ok(script.invoke_async(&mut self.connection.clone()).await?)
    }

    /// Runs a transaction; `None` if a watched key has changed.
    pub(crate) async fn transaction<T: FromRedisValue>(
        &self,
        pipeline: &redis::Pipeline,
    ) -> Result<Option<T>, LockError> {
        self.counter.round_trip();
        Ok(pipeline.query_async(&mut self.connection.clone()).await?)
    }

    /// Subscribes to a channel on a second connection.
    pub(crate) async fn subscribe(
        &self,
        channel: &str,
    ) -> Result<impl Stream<Item = redis::Msg> + Send + use<>, LockError> {
        let mut subscription = self.client.get_async_pubsub().await?;
        self.counter.round_trip();
        subscription.subscribe(channel).await?;
        Ok(subscription.into_on_message())
    }

    pub fn usage(&self) -> LoadUsage {
        self.counter.usage()
    }
}

impl std::fmt::Debug for RedisConnection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RedisConnection").finish_non_exhaustive()
    }
}

impl From<RedisError> for LockError {
    fn from(error: RedisError) -> Self {
        let lost = error.is_io_error() || error.is_timeout() || error.is_connection_dropped();
        if lost || error.is_connection_refusal() {
            Self::Unreachable(error.to_string())
        } else {
            Self::Rejected(error.to_string())
        }
    }
}
