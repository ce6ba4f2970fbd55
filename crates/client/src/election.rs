//! Elections: candidates with a value, of which one leads.
//!
//! An election is the lock `elections/<name>`. The leader is its holder, with a fencing token and a deadline; the queue
//! contains the candidates. `observer.rs` streams the changes.

use std::time::Duration;

use holdfast_api::{ElectionBody, LeaderBody, election_lock, election_path};
use holdfast_types::LockName;

use crate::error::{argument, is_hold_gone};
use crate::locks::lock_request::RequestedChange;
use crate::observer::Observer;
use crate::sessions::lease::Acknowledged;
use crate::{Client, Error, Guard, Lock, Loss};

/// An election; see [`Client::election`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `campaign`"]
pub struct Election {
    client: Client,
    name: String,
    lock: Lock,
}

impl Client {
    /// Prepares an election, which has many candidates and one leader.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let leadership = client.election("primary").campaign("10.0.0.7:5432").await?;
    /// println!("leading with token {}", leadership.token());
    /// leadership.ensure()?;
    /// leadership.resign().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn election(&self, name: impl Into<String>) -> Election {
        let name = name.into();
        let lock = self.lock(format!("elections/{name}"));
        Election { client: self.clone(), name, lock }
    }
}

impl Election {
    /// How long a dead leader stays leader; see [`Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|lock| lock.ttl(ttl))
    }

    /// Bounds [`Election::campaign`]; without a timeout it waits without bound.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|lock| lock.timeout(timeout))
    }

    /// Sets other options of the lock: `.with(|lock| lock.progress_timeout(every))`.
    pub fn with(mut self, options: impl FnOnce(Lock) -> Lock) -> Self {
        self.lock = options(self.lock);
        self
    }

    /// Campaigns with a value that every client can read, and resolves when this candidate leads. Dropping the future
    /// withdraws the candidate.
    ///
    /// # Errors
    /// [`Error::Busy`] if this candidate was not elected in time; otherwise as [`Lock::acquire`].
    pub async fn campaign(self, value: impl Into<String>) -> Result<Leadership, Error> {
        self.checked_name()?;
        self.lock.value(value).acquire().await.map(Leadership)
    }

    /// Becomes leader if there is none, and does not queue otherwise.
    ///
    /// # Errors
    /// [`Error::Busy`] if another candidate leads; otherwise as [`Lock::try_acquire`].
    pub async fn try_campaign(self, value: impl Into<String>) -> Result<Leadership, Error> {
        self.checked_name()?;
        self.lock.value(value).try_acquire().await.map(Leadership)
    }

    /// Returns the leader, if there is one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn leader(&self) -> Result<Option<LeaderBody>, Error> {
        self.state().await.map(|body| body.leader)
    }

    /// Returns the leader, and the candidates in queue order.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn state(&self) -> Result<ElectionBody, Error> {
        self.client.calls().get(election_path(&self.checked_name()?)).await
    }

    /// Observes the leader and every change; see [`Observer::next_change`]. Sends nothing before that.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an invalid name.
    pub fn observe(&self) -> Result<Observer, Error> {
        Ok(Observer::new(self.client.calls().clone(), election_path(&self.checked_name()?)))
    }

    fn checked_name(&self) -> Result<LockName, Error> {
        let election = LockName::new(&self.name).map_err(argument)?;
        election_lock(&election).map_err(argument)?;
        Ok(election)
    }
}

/// The leadership of an election, renewed while this value lives. Dropping it resigns in the background;
/// [`Leadership::resign`] waits for the confirmation. It derefs to the [`Guard`] of the lock: token, deadline, loss.
#[derive(Debug)]
#[must_use = "dropping the leadership resigns"]
pub struct Leadership(Guard);

impl std::ops::Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

impl Leadership {
    /// The value that every client can read.
    pub fn value(&self) -> &str {
        self.0.locks.request.options.value.as_deref().unwrap_or_default()
    }

    /// Replaces the value, with the same token. Observers receive the change.
    ///
    /// # Errors
    /// [`Error::Lost`] if the leadership is lost; otherwise see [`Error`]. After [`Error::OutcomeUnknown`] either value may be
    /// set; a repeated call sets the value.
    pub async fn proclaim(&mut self, value: impl Into<String>) -> Result<(), Error> {
        self.0.set_value(value.into()).await
    }

    /// Resigns and waits for the confirmation. The next candidate leads from the same log entry.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub async fn resign(self) -> Result<(), Error> {
        self.0.release().await
    }

    /// Returns the guard of the lock, e.g. to [transfer it](Guard::transfer).
    pub fn into_guard(self) -> Guard {
        self.0
    }
}

impl Guard {
    /// Replaces the value of the hold. If the hold was lost, the call never acquires the lock again.
    async fn set_value(&mut self, value: String) -> Result<(), Error> {
        self.ensure()?;
        let session = self.session.clone();
        let mut request = *self.locks.request.clone();
        request.options.value = Some(value);
        let change =
            RequestedChange { value: request.options.value.clone(), ..RequestedChange::default() };
        let result = tokio::select! {
            result = self.hold.change(&request, &change) => result,
            loss = self.hold.lost() => return Err(Error::Lost(loss)),
        };
        let loss = match result {
            Ok(answer) if answer.body.ticket == self.grant().ticket => {
                let held = Duration::from_millis(answer.body.expires_in_ms.unwrap_or(0));
                session.acknowledge(Acknowledged { counted_from: answer.sent, held })?;
                *self.locks.request = request;
                return Ok(());
            }
            Ok(_) | Err(Error::Busy(_)) => Loss::ReleasedElsewhere,
            Err(error) if is_hold_gone(&error) => Loss::ReleasedElsewhere,
            Err(Error::Lost(loss)) => loss,
            Err(error) => return Err(error),
        };
        self.entry.lose(loss.clone());
        Err(Error::Lost(loss))
    }
}
