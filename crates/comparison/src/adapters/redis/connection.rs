//! One connection to one Redis.
//!
//! Owns connecting, the counting of round trips, and the mapping of the driver's errors. Refuses to retry: a command
//! that was not answered may have been done.

use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, ScriptInvocation};

use crate::lock::UsageCounter;
use crate::{LockError, LockUsage};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take, unless it is said otherwise.
const RESPONSE: Duration = Duration::from_secs(10);

/// A connection. Clones share it.
#[derive(Clone)]
pub struct Door {
    client: Client,
    connection: MultiplexedConnection,
    pub(crate) counter: Arc<UsageCounter>,
}

impl Door {
    /// Connects to `redis://host:port`.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if that fails.
    pub async fn open(url: &str) -> Result<Self, LockError> {
        Self::open_within(url, CONNECT, RESPONSE).await
    }

    /// The same with other limits for connecting and answering.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if that fails.
    pub async fn open_within(
        url: &str,
        connect: Duration,
        response: Duration,
    ) -> Result<Self, LockError> {
        let client = Client::open(url).map_err(|error| trouble(&error))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect))
            .set_response_timeout(Some(response));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        let connection = connection.map_err(|error| trouble(&error))?;
        Ok(Self { client, connection, counter: Arc::default() })
    }

    /// One command.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] without an answer, [`LockError::Refused`] with a bad one.
    pub async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LockError> {
        self.counter.round_trip();
        let mut connection = self.connection.clone();
        command.query_async(&mut connection).await.map_err(|error| trouble(&error))
    }

    /// What was done through this door and its clones.
    pub fn usage(&self) -> LockUsage {
        self.counter.usage()
    }

    /// One script; sent whole only when the server does not know it yet.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] without an answer, [`LockError::Refused`] with a bad one.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, LockError> {
        self.counter.round_trip();
        let mut connection = self.connection.clone();
        script.invoke_async(&mut connection).await.map_err(|error| trouble(&error))
    }

    /// A transaction of these commands; none if a watched key has changed.
    pub(crate) async fn transaction<T: FromRedisValue>(
        &self,
        pipeline: &redis::Pipeline,
    ) -> Result<Option<T>, LockError> {
        self.counter.round_trip();
        let mut connection = self.connection.clone();
        pipeline.query_async(&mut connection).await.map_err(|error| trouble(&error))
    }

    /// A second connection that hears what is published on a channel.
    pub(crate) async fn subscribe(
        &self,
        channel: &str,
    ) -> Result<impl Stream<Item = redis::Msg> + Send + use<>, LockError> {
        let mut sink = self.client.get_async_pubsub().await.map_err(|error| trouble(&error))?;
        self.counter.round_trip();
        sink.subscribe(channel).await.map_err(|error| trouble(&error))?;
        Ok(sink.into_on_message())
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Door").field("client", &self.client).finish_non_exhaustive()
    }
}

fn trouble(error: &RedisError) -> LockError {
    let lost = error.is_io_error() || error.is_timeout() || error.is_connection_dropped();
    if lost || error.is_connection_refusal() {
        LockError::Unreachable(error.to_string())
    } else {
        LockError::Refused(error.to_string())
    }
}
