//! Elections: candidates with a value, one of whom leads, and everybody may look or observe.
//!
//! Owns the words. An election is the lock `elections/<name>`: leading is holding it, with its fencing token, its deadline
//! and its loss, and the queue is who stands. How it is observed is in `observe.rs`.

use std::time::Duration;

use holdfast_api::{ElectionBody, LeaderBody, election_lock, election_path};
use holdfast_types::LockName;

use crate::clock::Moment;
use crate::error::argument;
use crate::lease::Acknowledged;
use crate::observe::Observer;
use crate::wanted::Wanted;
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
    /// An election: many stand, one leads.
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
    /// How long the leadership outlives a leader that died; see [`Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|lock| lock.ttl(ttl))
    }

    /// Stands for so long, instead of as long as it takes.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|lock| lock.wait(wait))
    }

    /// Says more of what is asked for: `.with(|lock| lock.beacon(every))`.
    pub fn with(mut self, more: impl FnOnce(Lock) -> Lock) -> Self {
        self.lock = more(self.lock);
        self
    }

    /// Stands with a value that everybody is shown, and resolves when it leads. Dropping the future withdraws.
    ///
    /// # Errors
    /// [`Error::Busy`] if it was not elected in time; otherwise as [`Lock::acquire`].
    pub async fn campaign(self, value: impl Into<String>) -> Result<Leadership, Error> {
        self.checked()?;
        self.lock.value(value).acquire().await.map(Leadership)
    }

    /// Leads if nobody does, and does not stand otherwise.
    ///
    /// # Errors
    /// [`Error::Busy`] if somebody leads; otherwise as [`Lock::try_acquire`].
    pub async fn try_campaign(self, value: impl Into<String>) -> Result<Leadership, Error> {
        self.checked()?;
        self.lock.value(value).try_acquire().await.map(Leadership)
    }

    /// Who leads; none if nobody does.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn leader(&self) -> Result<Option<LeaderBody>, Error> {
        self.look().await.map(|body| body.leader)
    }

    /// Who leads, and who stands in which order.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn look(&self) -> Result<ElectionBody, Error> {
        self.client.calls().get(election_path(&self.checked()?)).await
    }

    /// Who leads now, and from then on every change; see [`Observer::next_change`]. Nothing is sent before that.
    ///
    /// # Errors
    /// [`Error::Argument`] for a bad name.
    pub fn observe(&self) -> Result<Observer, Error> {
        Ok(Observer::new(self.client.calls().clone(), election_path(&self.checked()?)))
    }

    fn checked(&self) -> Result<LockName, Error> {
        let election = LockName::new(&self.name).map_err(argument)?;
        election_lock(&election).map_err(argument)?;
        Ok(election)
    }
}

/// The leadership of an election, renewed as long as this lives. Dropping it resigns in the background;
/// [`Leadership::resign`] does so for certain. What it knows, it knows as a
/// [`Hold`](crate::Hold): token, deadline, loss.
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
    /// What everybody is shown of this leader.
    pub fn value(&self) -> &str {
        self.0.wanted.terms.value.as_deref().unwrap_or_default()
    }

    /// Shows another value from now on, with the same token. Observers are told.
    ///
    /// # Errors
    /// [`Error::Lost`] if the leadership is lost; otherwise see [`Error`]: after [`Error::Unknown`] either value may be
    /// shown, and saying it again settles that.
    pub async fn proclaim(&mut self, value: impl Into<String>) -> Result<(), Error> {
        self.0.show(value.into()).await
    }

    /// Gives the leadership up, and waits until that is certain: the next candidate leads in the same step.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub async fn resign(self) -> Result<(), Error> {
        self.0.release().await
    }

    /// The same hold as the guard of a lock: to [hand it over](Guard::hand_over), for example.
    pub fn into_guard(self) -> Guard {
        self.0
    }
}

impl Guard {
    /// Shows another value beside the hold. The call never takes the lock anew: if it was lost, that is the answer.
    pub(crate) async fn show(&mut self, value: String) -> Result<(), Error> {
        self.ensure()?;
        let (session, claim) = (self.used.session().clone(), self.hold.claim.clone());
        let mut wanted: Wanted = self.wanted.clone();
        wanted.terms.value = Some(value);
        let params = wanted.params(session.name.clone(), &claim, None, Duration::ZERO);
        let ended = tokio::select! {
            ended = session.calls.acquire(claim.lock(), &params) => ended,
            loss = self.hold.lost() => return Err(Error::Lost(loss)),
        };
        let gone = |loss: Loss| {
            claim.limits.send_modify(|limits| limits.lose(loss.clone(), Moment::now()));
            Error::Lost(loss)
        };
        match ended.result {
            Ok(answered) if answered.body.token == self.token() => {
                let counted_from = answered.sent;
                let held = Duration::from_millis(answered.body.expires_in_ms);
                session.acknowledge(Acknowledged { counted_from, held })?;
                self.wanted = wanted;
                Ok(())
            }
            // It was lost before, and free: what the call took is given back with this guard.
            Ok(_) | Err(Error::Busy(_)) => Err(gone(Loss::TakenAway)),
            Err(Error::Lost(loss)) => Err(gone(loss)),
            Err(error) => Err(error),
        }
    }
}
