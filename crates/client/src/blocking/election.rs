//! Elections without async; see [`crate::Election`].

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{ElectionBody, LeaderBody};

use super::{Client, Engine};
use crate::{Error, Hold, Lock, Loss, Observed};

impl Client {
    /// An election; see [`crate::Client::election`].
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election { engine: self.0.clone(), election: self.0.client.election(name) }
    }
}

/// An election; see [`crate::Election`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `campaign`"]
pub struct Election {
    engine: Arc<Engine>,
    election: crate::Election,
}

impl Election {
    /// Says more of what is asked for; see [`crate::Election::with`].
    pub fn with(mut self, more: impl FnOnce(Lock) -> Lock) -> Self {
        self.election = self.election.with(more);
        self
    }

    /// How long the leadership outlives a leader that died.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|lock| lock.ttl(ttl))
    }

    /// Stands for so long, instead of as long as it takes.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|lock| lock.wait(wait))
    }

    /// Stands, and returns when it leads; see [`crate::Election::campaign`].
    ///
    /// # Errors
    /// As there.
    pub fn campaign(self, value: impl Into<String>) -> Result<Leadership, Error> {
        let leadership = self.engine.run(self.election.campaign(value))?;
        Ok(Leadership { leadership, engine: self.engine })
    }

    /// Leads if nobody does; see [`crate::Election::try_campaign`].
    ///
    /// # Errors
    /// As there.
    pub fn try_campaign(self, value: impl Into<String>) -> Result<Leadership, Error> {
        let leadership = self.engine.run(self.election.try_campaign(value))?;
        Ok(Leadership { leadership, engine: self.engine })
    }

    /// Who leads; see [`crate::Election::leader`].
    ///
    /// # Errors
    /// As there.
    pub fn leader(&self) -> Result<Option<LeaderBody>, Error> {
        self.engine.run(self.election.leader())
    }

    /// Who leads, and who stands; see [`crate::Election::look`].
    ///
    /// # Errors
    /// As there.
    pub fn look(&self) -> Result<ElectionBody, Error> {
        self.engine.run(self.election.look())
    }

    /// Who leads now, and from then on every change; see [`crate::Election::observe`].
    ///
    /// # Errors
    /// As there.
    pub fn observe(&self) -> Result<Observer, Error> {
        Ok(Observer { observer: self.election.observe()?, engine: self.engine.clone() })
    }
}

/// The leadership of an election; see [`crate::Leadership`].
#[derive(Debug)]
#[must_use = "dropping the leadership resigns"]
pub struct Leadership {
    leadership: crate::Leadership,
    /// Last, so that the runtime outlives the leadership.
    engine: Arc<Engine>,
}

impl std::ops::Deref for Leadership {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.leadership
    }
}

impl Leadership {
    /// What everybody is shown of this leader.
    pub fn value(&self) -> &str {
        self.leadership.value()
    }

    /// Shows another value from now on; see [`crate::Leadership::proclaim`].
    ///
    /// # Errors
    /// As there.
    pub fn proclaim(&mut self, value: impl Into<String>) -> Result<(), Error> {
        self.engine.run(self.leadership.proclaim(value))
    }

    /// Waits up to `patience` for the leadership to be lost; none if it is still held then.
    pub fn lost_within(&self, patience: Duration) -> Option<Loss> {
        let lost = async { Ok(tokio::time::timeout(patience, self.leadership.lost()).await.ok()) };
        self.engine.run(lost).unwrap_or_else(|_| self.leadership.ensure().err())
    }

    /// Gives the leadership up; see [`crate::Leadership::resign`].
    ///
    /// # Errors
    /// As there.
    pub fn resign(self) -> Result<(), Error> {
        let Self { leadership, engine } = self;
        engine.run(leadership.resign())
    }
}

/// The changes of one election; see [`crate::Observer`].
#[derive(Debug)]
pub struct Observer {
    observer: crate::Observer,
    engine: Arc<Engine>,
}

impl Observer {
    /// Waits for the next change; see [`crate::Observer::next_change`].
    ///
    /// # Errors
    /// As there.
    pub fn next_change(&mut self) -> Result<Observed, Error> {
        self.engine.run(self.observer.next_change())
    }

    /// The same for so long; none if there was no change.
    ///
    /// # Errors
    /// As there.
    pub fn next_change_within(&mut self, patience: Duration) -> Result<Option<Observed>, Error> {
        let next = async {
            let next = tokio::time::timeout(patience, self.observer.next_change()).await;
            next.ok().transpose()
        };
        self.engine.run(next)
    }
}
