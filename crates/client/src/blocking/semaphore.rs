//! Semaphores without async; see [`crate::Semaphore`].

use std::sync::Arc;
use std::time::Duration;

use super::{Client, Engine, Guard};
use crate::{Error, Hold};

impl Client {
    /// A semaphore; see [`crate::Client::semaphore`].
    pub fn semaphore(&self, name: impl Into<String>, limit: u32) -> Semaphore {
        Semaphore { engine: self.0.clone(), semaphore: self.0.client.semaphore(name, limit) }
    }
}

/// A semaphore; see [`crate::Semaphore`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `acquire`"]
pub struct Semaphore {
    engine: Arc<Engine>,
    semaphore: crate::Semaphore,
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

    /// Says more of what is asked for; see [`crate::Semaphore::with`].
    pub fn with(self, more: impl FnOnce(crate::Lock) -> crate::Lock) -> Self {
        Self { semaphore: self.semaphore.with(more), engine: self.engine }
    }

    /// Takes the permits; see [`crate::Semaphore::acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire(self) -> Result<Permit, Error> {
        let permit = self.engine.run(self.semaphore.acquire())?;
        Ok(Permit { permit, engine: self.engine })
    }

    /// Takes the permits if they are free; see [`crate::Semaphore::try_acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire(self) -> Result<Permit, Error> {
        let permit = self.engine.run(self.semaphore.try_acquire())?;
        Ok(Permit { permit, engine: self.engine })
    }

    /// Changes the limit; see [`crate::Semaphore::set_limit`].
    ///
    /// # Errors
    /// As there.
    pub fn set_limit(&self, limit: u32) -> Result<(), Error> {
        self.engine.run(self.semaphore.set_limit(limit))
    }
}

/// Permits that are held; see [`crate::Permit`].
#[derive(Debug)]
#[must_use = "dropping the permit gives it back"]
pub struct Permit {
    permit: crate::Permit,
    /// Last, so that the runtime outlives the permit.
    engine: Arc<Engine>,
}

impl std::ops::Deref for Permit {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.permit
    }
}

impl Permit {
    /// How many.
    pub fn permits(&self) -> u32 {
        self.permit.permits()
    }

    /// A slot to each; see [`crate::Permit::slots`].
    pub fn slots(&self) -> Vec<u32> {
        self.permit.slots()
    }

    /// A mark to each slot; see [`crate::Permit::marks`].
    pub fn marks(&self) -> Vec<String> {
        self.permit.marks()
    }

    /// The guard behind it.
    pub fn into_guard(self) -> Guard {
        Guard { guard: self.permit.into_guard(), engine: self.engine }
    }

    /// Gives the permits back; see [`crate::Permit::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<(), Error> {
        let Self { permit, engine } = self;
        engine.run(permit.release())
    }
}
