//! Semaphores: so many permits, held by guards.
//!
//! Owns the words; a semaphore is a lock with a limit, and a permit is a place in it.

use std::time::Duration;

use holdfast_api::{LockBody, PolicyParams};
use holdfast_types::LockName;

use crate::error::argument;
use crate::{Client, Error, Guard, Hold, Lock};

/// A semaphore; see [`Client::semaphore`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `acquire`"]
pub struct Semaphore {
    client: Client,
    name: String,
    lock: Lock,
}

impl Client {
    /// A semaphore of so many permits. The first acquire makes it one; later ones must say the same limit, which
    /// [`Semaphore::set_limit`] changes for everybody.
    ///
    /// ```no_run
    /// # async fn example(client: holdfast_client::Client) -> Result<(), holdfast_client::Error> {
    /// let permit = client.semaphore("shop/workers", 8).permits(2).acquire().await?;
    /// for mark in permit.marks() {
    ///     println!("write {mark} with token {}", permit.token());
    /// }
    /// permit.release().await
    /// # }
    /// ```
    pub fn semaphore(&self, name: impl Into<String>, limit: u32) -> Semaphore {
        let name = name.into();
        let lock = self.lock(&name).limit(limit);
        Semaphore { client: self.clone(), name, lock }
    }
}

impl Semaphore {
    /// Takes so many permits at once, or none; one if not said.
    pub fn permits(self, permits: u32) -> Self {
        self.with(|lock| lock.permits(permits))
    }

    /// Queues for so long, instead of as long as it takes.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|lock| lock.wait(wait))
    }

    /// Says more of what is asked for: `.with(|lock| lock.priority(5).max_hold(limit))`.
    pub fn with(mut self, more: impl FnOnce(Lock) -> Lock) -> Self {
        self.lock = more(self.lock);
        self
    }

    /// Takes the permits; see [`Lock::acquire`].
    ///
    /// # Errors
    /// As there; [`Error::Refused`] if the semaphore has another limit.
    pub async fn acquire(self) -> Result<Permit, Error> {
        self.lock.acquire().await.map(Permit)
    }

    /// Takes the permits if they are free; see [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    pub async fn try_acquire(self) -> Result<Permit, Error> {
        self.lock.try_acquire().await.map(Permit)
    }

    /// Changes the limit, at once and for everybody. Fewer than are held take nothing from anybody: nothing is granted
    /// until it fits.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is a lock that somebody uses; otherwise see [`Error`].
    pub async fn set_limit(&self, limit: u32) -> Result<(), Error> {
        let rules = PolicyParams { limit: Some(Some(limit)), ..PolicyParams::default() };
        self.client.set_rules(&self.checked()?, &rules).await.map(drop)
    }

    /// Who holds permits, and who waits.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn look(&self) -> Result<LockBody, Error> {
        self.client.look(&self.checked()?).await
    }

    fn checked(&self) -> Result<LockName, Error> {
        LockName::new(&self.name).map_err(argument)
    }
}

/// Permits that are held, renewed as long as this lives. Dropping it gives them back in the background.
#[derive(Debug)]
#[must_use = "dropping the permit gives it back"]
pub struct Permit(Guard);

impl std::ops::Deref for Permit {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}

impl Permit {
    /// How many.
    pub fn permits(&self) -> u32 {
        self.grant().permits
    }

    /// A slot to each, from 0 up to the limit, that nobody else has meanwhile.
    pub fn slots(&self) -> Vec<u32> {
        self.grant().slots.clone()
    }

    /// What a store keeps its largest token under: one mark to each slot, `workers#3`, so that a permit that was taken away
    /// is refused without hurting the others.
    pub fn marks(&self) -> Vec<String> {
        let lock = self.lock();
        self.grant().slots.iter().map(|slot| format!("{lock}#{slot}")).collect()
    }

    /// The guard behind it.
    pub fn into_guard(self) -> Guard {
        self.0
    }

    /// Gives the permits back and waits until that is certain; see [`Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub async fn release(self) -> Result<(), Error> {
        self.0.release().await
    }
}
