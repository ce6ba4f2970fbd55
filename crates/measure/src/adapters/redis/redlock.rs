//! Redlock: the same key on a majority of independent servers.
//!
//! The client calls every server in turn with a short timeout for each. It holds the lock if a majority granted it and
//! time remains: the TTL minus the elapsed time minus the drift of clocks. Otherwise it releases on all servers,
//! including those without a reply. Redlock has no token, and depends on the clocks and the memory of its servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::cmd;

use super::{RedisConnection, delete_if_owner};
use crate::limitation::Limitation::{
    ExpiresUnderHolder, ForgottenByRestart, NoToken, Polls, Unfair,
};
use crate::lock::{
    Adapter, HeldLock, LoadUsage, LockClient, LockError, LockKind, LockSettings, UsageCounter,
    nonce,
};
use crate::polling::Polling;

pub const LOCK: LockKind = LockKind {
    name: "redlock",
    limitations: &[ForgottenByRestart, ExpiresUnderHolder, NoToken, Polls, Unfair],
    connect: |target| {
        Box::pin(async move {
            let client = Redlock::open(target.redis_urls()?, target.settings).await?;
            Ok(Box::new(client) as Box<dyn LockClient>)
        })
    },
};

/// The timeout of one server: far below any TTL, and sufficient on a loaded machine.
const TIMEOUT: Duration = Duration::from_millis(250);
/// The resolution of an expiry, added to the drift of clocks.
const DRIFT_FIXED: Duration = Duration::from_millis(2);

/// The assumed drift of clocks within a TTL: one hundredth and 2 ms.
pub fn drift(ttl: Duration) -> Duration {
    ttl / 100 + DRIFT_FIXED
}

#[derive(Debug)]
pub struct Redlock {
    servers: Vec<RedlockServer>,
    settings: LockSettings,
    counter: Arc<UsageCounter>,
}

#[derive(Debug)]
struct RedlockServer {
    url: String,
    /// `None` before the first attempt and after a failed attempt.
    connection: Option<RedisConnection>,
}

impl RedlockServer {
    async fn connect(&mut self) -> Option<RedisConnection> {
        if self.connection.is_none() {
            self.connection = RedisConnection::open_within(&self.url, TIMEOUT).await.ok();
        }
        self.connection.clone()
    }
}

impl Redlock {
    /// Opens a client. Every attempt tries servers without a reply again.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if no majority replies.
    pub async fn open(urls: Vec<String>, settings: LockSettings) -> Result<Self, LockError> {
        let servers = urls.into_iter().map(|url| RedlockServer { url, connection: None });
        let counter = Arc::default();
        let mut client = Self { servers: servers.collect(), settings, counter };
        let mut connected = 0;
        for server in &mut client.servers {
            connected += usize::from(server.connect().await.is_some());
        }
        if connected < client.majority() {
            let count = client.servers.len();
            return Err(LockError::Unreachable(format!("{connected} of {count} servers reply")));
        }
        Ok(client)
    }

    fn majority(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    /// Sets the key; returns the number of servers that accepted it.
    async fn set(&mut self, lock: &str, owner: &str) -> usize {
        let mut set = cmd("SET");
        set.arg(lock).arg(owner).arg("NX").arg("PX").arg(self.settings.ttl_ms());
        let mut granted = 0;
        for server in &mut self.servers {
            let Some(connection) = server.connect().await else { continue };
            self.counter.round_trip();
            match connection.query::<bool>(&set).await {
                Ok(set) => granted += usize::from(set),
                Err(_) => server.connection = None,
            }
        }
        granted
    }

    /// Deletes the key; returns the number of servers on which this owner had it.
    async fn delete(&mut self, lock: &str, owner: &str) -> usize {
        let mut deleted = 0;
        for server in &mut self.servers {
            let Some(connection) = server.connect().await else { continue };
            self.counter.round_trip();
            match delete_if_owner(&connection, lock, owner).await {
                Ok(was_owner) => deleted += usize::from(was_owner),
                Err(_) => server.connection = None,
            }
        }
        deleted
    }
}

impl Adapter for Redlock {
    async fn acquire(&mut self, lock: &str, timeout: Duration) -> Result<HeldLock, LockError> {
        let polling = Polling::new(timeout, self.settings.pause);
        loop {
            let (owner, since) = (nonce(), Instant::now());
            let granted = self.set(lock, &owner).await;
            let valid = self.settings.ttl.saturating_sub(drift(self.settings.ttl));
            if granted >= self.majority() && since.elapsed() < valid {
                return Ok(HeldLock::new(lock, owner).for_ttl(since, valid));
            }
            self.delete(lock, &owner).await;
            polling.pause(&self.counter).await?;
        }
    }

    async fn release(&mut self, held: HeldLock) -> Result<(), LockError> {
        let deleted = self.delete(&held.lock, &held.owner).await;
        if deleted >= self.majority() {
            return Ok(());
        }
        Err(LockError::Lost(format!("only {deleted} servers still had it")))
    }

    fn usage(&self) -> LoadUsage {
        self.counter.usage()
    }
}
