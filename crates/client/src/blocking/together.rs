//! Several locks at once, and hand-over, without async; see [`crate::LockAll`] and [`crate::Guard::hand_over`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_types::{FencingToken, LockName, SessionName};

use super::{Client, Engine, Guard};
use crate::{Error, Hold, Loss, ReleaseRequest};

impl Client {
    /// Begins to take several locks at once, all or none; see [`crate::Client::lock_all`].
    pub fn lock_all<T: Into<String>>(&self, names: impl IntoIterator<Item = T>) -> LockAll {
        LockAll { engine: self.0.clone(), locks: self.0.client.lock_all(names) }
    }
}

/// Several locks about to be taken; see [`crate::LockAll`].
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `acquire`"]
pub struct LockAll {
    engine: Arc<Engine>,
    locks: crate::LockAll,
}

impl LockAll {
    /// Says more of what is asked for: `.with(|locks| locks.shared().owner("importer"))`.
    pub fn with(mut self, more: impl FnOnce(crate::LockAll) -> crate::LockAll) -> Self {
        self.locks = more(self.locks);
        self
    }

    /// How long the locks outlive a holder that died.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|locks| locks.ttl(ttl))
    }

    /// Queues for so long, instead of as long as it takes.
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|locks| locks.wait(wait))
    }

    /// Takes all of them; see [`crate::LockAll::acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire(self) -> Result<GuardAll, Error> {
        let guard = self.engine.run(self.locks.acquire())?;
        Ok(GuardAll { guard, engine: self.engine })
    }

    /// Takes all of them if all are free; see [`crate::LockAll::try_acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn try_acquire(self) -> Result<GuardAll, Error> {
        let guard = self.engine.run(self.locks.try_acquire())?;
        Ok(GuardAll { guard, engine: self.engine })
    }
}

/// Several locks that are held together; see [`crate::GuardAll`].
#[derive(Debug)]
#[must_use = "dropping the guard gives the locks back"]
pub struct GuardAll {
    guard: crate::GuardAll,
    /// Last, so that the runtime outlives the guard.
    engine: Arc<Engine>,
}

impl GuardAll {
    /// What is known of each lock; see [`crate::GuardAll::holds`].
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.guard.holds()
    }

    /// What is known of one lock; see [`crate::GuardAll::hold`].
    pub fn hold(&self, lock: &str) -> Option<&Hold> {
        self.guard.hold(lock)
    }

    /// The token of each lock.
    pub fn tokens(&self) -> BTreeMap<LockName, FencingToken> {
        self.guard.tokens()
    }

    /// Whether all are certainly still held, for use with `?` right before each write.
    ///
    /// # Errors
    /// Why one of them is lost.
    pub fn ensure(&self) -> Result<(), Loss> {
        self.guard.ensure()
    }

    /// Waits up to `patience` for one of them to be lost; none if all are still held then.
    pub fn lost_within(&self, patience: Duration) -> Option<(LockName, Loss)> {
        let lost = async { Ok(tokio::time::timeout(patience, self.guard.lost()).await.ok()) };
        self.engine.run(lost).ok().flatten()
    }

    /// Waits up to `patience` for somebody to ask for the release of one of them; none if nobody has.
    pub fn release_requested_within(
        &self,
        patience: Duration,
    ) -> Option<(LockName, ReleaseRequest)> {
        let requested = self.guard.release_requested();
        self.engine.run(async { Ok(tokio::time::timeout(patience, requested).await.ok()) }).ok()?
    }

    /// Gives one of them back; see [`crate::GuardAll::release_one`].
    ///
    /// # Errors
    /// As there.
    pub fn release_one(&mut self, lock: &str) -> Result<(), Error> {
        self.engine.run(self.guard.release_one(lock))
    }

    /// Gives all of them back; see [`crate::GuardAll::release`].
    ///
    /// # Errors
    /// As there.
    pub fn release(self) -> Result<(), Error> {
        let Self { guard, engine } = self;
        engine.run(guard.release())
    }
}

/// The hold was not handed on; see [`crate::NotHandedOver`].
#[derive(Debug, thiserror::Error)]
#[error("not handed on: {error}")]
pub struct NotHandedOver {
    /// Why.
    pub error: Error,
    /// The hold, which goes on with the same token; none if it is lost, or may be another's by now.
    pub guard: Option<Box<Guard>>,
}

impl Guard {
    /// Hands the lock to another session; see [`crate::Guard::hand_over`].
    ///
    /// # Errors
    /// As there.
    pub fn hand_over(
        self,
        to: &SessionName,
        owner: Option<&str>,
    ) -> Result<FencingToken, NotHandedOver> {
        let Self { guard, engine } = self;
        let mut kept = None;
        let handed = engine.run(async {
            guard.hand_over(to, owner).await.map_err(|not| {
                kept = not.guard;
                not.error
            })
        });
        handed.map_err(|error| {
            let guard = kept.map(|guard| Box::new(Guard { guard: *guard, engine }));
            NotHandedOver { error, guard }
        })
    }
}
