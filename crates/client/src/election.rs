//! Elections: candidates with a value, one of which leads.
//!
//! An election is the lock `elections/<name>`: the leader holds it, with its fencing token, deadline and loss, and the
//! candidates are its queue. `observer.rs` streams the changes.

use std::time::Duration;

use holdfast_api::{ElectionBody, GrantBody, LeaderBody, election_lock, election_path};
use holdfast_types::LockName;

use crate::error::argument;
use crate::lease::Acknowledged;
use crate::observer::Observer;
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
    /// An election: many campaign, one leads.
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
    /// How long the leadership survives a leader that died; see [`Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|lock| lock.ttl(ttl))
    }

    /// Campaigns for at most `wait`; by default without end.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|lock| lock.wait(wait))
    }

    /// Sets other options of the lock: `.with(|lock| lock.beacon(every))`.
    pub fn with(mut self, options: impl FnOnce(Lock) -> Lock) -> Self {
        self.lock = options(self.lock);
        self
    }

    /// Campaigns with a value that everybody can read, and resolves when this candidate leads. Dropping the future
    /// withdraws.
    ///
    /// # Errors
    /// [`Error::Busy`] if it was not elected in time; otherwise as [`Lock::acquire`].
    pub async fn campaign(self, value: impl Into<String>) -> Result<Leadership, Error> {
        self.checked_name()?;
        self.lock.value(value).acquire().await.map(Leadership)
    }

    /// Leads if nobody does, and does not campaign otherwise.
    ///
    /// # Errors
    /// [`Error::Busy`] if somebody leads; otherwise as [`Lock::try_acquire`].
    pub async fn try_campaign(self, value: impl Into<String>) -> Result<Leadership, Error> {
        self.checked_name()?;
        self.lock.value(value).try_acquire().await.map(Leadership)
    }

    /// The leader, if there is one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn leader(&self) -> Result<Option<LeaderBody>, Error> {
        self.look().await.map(|body| body.leader)
    }

    /// The leader, and the candidates in order.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn look(&self) -> Result<ElectionBody, Error> {
        self.client.calls().get(election_path(&self.checked_name()?)).await
    }

    /// Observes the leader and every change; see [`Observer::next_change`]. Nothing is sent before that.
    ///
    /// # Errors
    /// [`Error::Argument`] for a bad name.
    pub fn observe(&self) -> Result<Observer, Error> {
        Ok(Observer::new(self.client.calls().clone(), election_path(&self.checked_name()?)))
    }

    fn checked_name(&self) -> Result<LockName, Error> {
        let election = LockName::new(&self.name).map_err(argument)?;
        election_lock(&election).map_err(argument)?;
        Ok(election)
    }
}

/// The leadership of an election, renewed as long as this lives. Dropping it resigns in the background;
/// [`Leadership::resign`] waits until that is certain. It derefs to the [`Guard`] of the lock: token, deadline, loss.
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
    /// The value that everybody can read.
    pub fn value(&self) -> &str {
        self.0.request.options.value.as_deref().unwrap_or_default()
    }

    /// Replaces the value, with the same token. Observers get the change.
    ///
    /// # Errors
    /// [`Error::Lost`] if the leadership is lost; otherwise see [`Error`]. After [`Error::Unknown`] either value may be
    /// set, and another call settles it.
    pub async fn proclaim(&mut self, value: impl Into<String>) -> Result<(), Error> {
        self.0.set_value(value.into()).await
    }

    /// Gives the leadership up and waits until that is certain: the next candidate leads in the same step.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub async fn resign(self) -> Result<(), Error> {
        self.0.release().await
    }

    /// The guard of the lock: to [hand it over](Guard::hand_over), for example.
    pub fn into_guard(self) -> Guard {
        self.0
    }
}

impl Guard {
    /// Replaces the value of the hold. If the hold was lost, the call never acquires the lock anew.
    async fn set_value(&mut self, value: String) -> Result<(), Error> {
        self.ensure()?;
        let session = self.session.session().clone();
        let mut request = self.request.clone();
        request.options.value = Some(value);
        let call = request.call(&session.name, self.entry.attempt(), None, Duration::ZERO);
        let delivery = tokio::select! {
            delivery = session.calls.deliver_waiting(&call) => delivery.json::<GrantBody>(),
            loss = self.hold.lost() => return Err(Error::Lost(loss)),
        };
        let loss = match delivery.result {
            Ok(answer) if answer.body.token == self.token() => {
                let held = Duration::from_millis(answer.body.expires_in_ms);
                session.acknowledge(Acknowledged { counted_from: answer.sent, held })?;
                self.request = request;
                return Ok(());
            }
            // The lock was lost and free: the end of this guard releases what the call acquired.
            Ok(_) | Err(Error::Busy(_)) => Loss::TakenAway,
            Err(Error::Lost(loss)) => loss,
            Err(error) => return Err(error),
        };
        self.entry.lose(loss.clone());
        Err(Error::Lost(loss))
    }
}
