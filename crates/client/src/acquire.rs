//! Taking a lock: what is asked for, and the waiting.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_api::{AcquireParams, GrantBody, WAIT_MAX};
use holdfast_types::{Labels, LockName, SessionName, Ttl};

use crate::exchange::Answered;
use crate::{Client, Error, Guard};

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    For(Duration),
    Forever,
}

/// A lock about to be taken. Without further words: now or not at all, with a session of its own.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `acquire`"]
pub struct Acquire {
    client: Client,
    lock: String,
    session: Option<String>,
    /// The session ends with the guard.
    own_session: bool,
    ttl: Duration,
    wait: Patience,
    labels: BTreeMap<String, String>,
}

impl Acquire {
    pub(crate) fn new(client: Client, lock: String) -> Self {
        let ttl = Ttl::DEFAULT.as_duration();
        let wait = Patience::For(Duration::ZERO);
        Self { client, lock, session: None, own_session: true, ttl, wait, labels: BTreeMap::new() }
    }

    /// Holds with this session, which then outlives the guard. Without it the guard has one of its own.
    pub fn session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self.own_session = false;
        self
    }

    /// Holds with a session of this name that ends with the guard. Nobody else may use it.
    pub fn own_session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self.own_session = true;
        self
    }

    /// How long the lock outlives a holder that died; 1 s to 24 h, 30 s if not said.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Queues for so long.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Patience::For(wait);
        self
    }

    /// Queues as long as it takes.
    pub fn wait_forever(mut self) -> Self {
        self.wait = Patience::Forever;
        self
    }

    /// Shown to those who wait for the lock.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Takes the lock, and keeps it until the guard is released, dropped or lost.
    ///
    /// # Errors
    /// [`Error::Busy`] if it was not free in time; [`Error::Argument`] for a bad name, ttl or label;
    /// [`Error::Lost`] if the session had expired; otherwise see [`Error`].
    pub async fn acquire(self) -> Result<Guard, Error> {
        let bad = |error: &dyn std::fmt::Display| Error::Argument(error.to_string());
        let lock = LockName::new(&self.lock).map_err(|error| bad(&error))?;
        let session = match &self.session {
            Some(session) => SessionName::new(session).map_err(|error| bad(&error))?,
            None => fresh_session()?,
        };
        let ttl = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let params = AcquireParams {
            session: Some(session.clone()),
            ttl: Some(Ttl::from_millis(ttl).map_err(|error| bad(&error))?),
            labels: Labels::new(self.labels.clone()).map_err(|error| bad(&error))?,
            ..AcquireParams::default()
        };
        let answered = self.wait_for(&lock, params).await?;
        Ok(Guard::new(self.client, answered, self.own_session))
    }

    /// Call upon call until the wait is over; each is sent before the one before it gives up its place.
    async fn wait_for(
        &self,
        lock: &LockName,
        mut params: AcquireParams,
    ) -> Result<Answered<GrantBody>, Error> {
        let until = match self.wait {
            Patience::For(wait) => Some(Instant::now() + wait),
            Patience::Forever => None,
        };
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            params.wait = whole_millis(left.unwrap_or(WAIT_MAX).min(WAIT_MAX));
            match self.client.acquire(lock, &params).await {
                // The node kept the call for as long as one may, or died over it.
                Err(Error::Unknown(_)) if !params.wait.is_zero() => {}
                // The wait of one call is bounded, ours is longer.
                Err(Error::Busy(_)) if params.wait == WAIT_MAX => {}
                answer => return answer,
            }
        }
    }
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// A name that nobody else has.
fn fresh_session() -> Result<SessionName, Error> {
    let random = getrandom::u64().map_err(|error| {
        Error::Argument(format!("no randomness for a session's name ({error}): name the session"))
    })?;
    SessionName::new(format!("sdk-{random:016x}"))
        .map_err(|error| Error::Argument(error.to_string()))
}
