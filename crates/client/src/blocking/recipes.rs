//! Latches, barriers, double barriers and counters without async; see [`crate::recipes`].

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{CounterBody, LatchBody, PassedBody};

use super::{Client, Engine};
use crate::{Error, SessionHandle, recipes};

impl Client {
    /// A latch; see [`crate::Client::latch`].
    pub fn latch(&self, name: impl Into<String>) -> Latch {
        Latch { engine: self.0.clone(), latch: self.0.client.latch(name) }
    }

    /// A barrier; see [`crate::Client::barrier`].
    pub fn barrier(&self, name: impl Into<String>, parties: u32) -> Barrier {
        Barrier { engine: self.0.clone(), barrier: self.0.client.barrier(name, parties) }
    }

    /// A double barrier; see [`crate::Client::double_barrier`].
    pub fn double_barrier(&self, name: impl Into<String>, parties: u32) -> DoubleBarrier {
        DoubleBarrier {
            engine: self.0.clone(),
            barrier: self.0.client.double_barrier(name, parties),
        }
    }

    /// A counter; see [`crate::Client::counter`].
    pub fn counter(&self, name: impl Into<String>) -> Counter {
        Counter { engine: self.0.clone(), counter: self.0.client.counter(name) }
    }
}

/// A latch; see [`recipes::Latch`].
#[derive(Clone, Debug)]
pub struct Latch {
    engine: Arc<Engine>,
    latch: recipes::Latch,
}

impl Latch {
    /// See [`recipes::Latch::create`].
    ///
    /// # Errors
    /// As there.
    pub fn create(&self, count: u32) -> Result<LatchBody, Error> {
        self.engine.run(self.latch.create(count))
    }

    /// See [`recipes::Latch::count_down`].
    ///
    /// # Errors
    /// As there.
    pub fn count_down(&self, key: impl AsRef<str>) -> Result<u32, Error> {
        self.engine.run(self.latch.count_down(key))
    }

    /// See [`recipes::Latch::count_down_at_the_end`].
    ///
    /// # Errors
    /// As there.
    pub fn count_down_at_the_end(&self, key: impl AsRef<str>) -> Result<SessionHandle, Error> {
        self.engine.run(self.latch.count_down_at_the_end(key))
    }

    /// See [`recipes::Latch::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn wait(&self, wait: Duration) -> Result<LatchBody, Error> {
        self.engine.run(self.latch.wait(wait))
    }

    /// See [`recipes::Latch::delete`].
    ///
    /// # Errors
    /// As there.
    pub fn delete(&self) -> Result<(), Error> {
        self.engine.run(self.latch.delete())
    }
}

/// A barrier; see [`recipes::Barrier`].
#[derive(Clone, Debug)]
pub struct Barrier {
    engine: Arc<Engine>,
    barrier: recipes::Barrier,
}

impl Barrier {
    /// See [`recipes::Barrier::arrive`].
    ///
    /// # Errors
    /// As there.
    pub fn arrive(&self, wait: Duration) -> Result<PassedBody, Error> {
        self.engine.run(self.barrier.arrive(wait))
    }
}

/// A double barrier; see [`recipes::DoubleBarrier`].
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    engine: Arc<Engine>,
    barrier: recipes::DoubleBarrier,
}

impl DoubleBarrier {
    /// See [`recipes::DoubleBarrier::enter`].
    ///
    /// # Errors
    /// As there.
    pub fn enter(&self, wait: Duration) -> Result<Inside, Error> {
        let inside = self.engine.run(self.barrier.enter(wait))?;
        Ok(Inside { inside, engine: self.engine.clone() })
    }
}

/// A place inside of a double barrier; see [`recipes::Inside`].
#[derive(Debug)]
#[must_use = "dropping it leaves"]
pub struct Inside {
    inside: recipes::Inside,
    /// Last, so that the runtime outlives the place.
    engine: Arc<Engine>,
}

impl Inside {
    /// See [`recipes::Inside::leave`].
    ///
    /// # Errors
    /// As there.
    pub fn leave(self, wait: Duration) -> Result<(), Error> {
        let Self { inside, engine } = self;
        engine.run(inside.leave(wait))
    }
}

/// A counter; see [`recipes::Counter`].
#[derive(Clone, Debug)]
pub struct Counter {
    engine: Arc<Engine>,
    counter: recipes::Counter,
}

impl Counter {
    /// See [`recipes::Counter::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get(&self) -> Result<CounterBody, Error> {
        self.engine.run(self.counter.get())
    }

    /// See [`recipes::Counter::add`].
    ///
    /// # Errors
    /// As there.
    pub fn add(&self, amount: i64) -> Result<CounterBody, Error> {
        self.engine.run(self.counter.add(amount))
    }

    /// See [`recipes::Counter::set`].
    ///
    /// # Errors
    /// As there.
    pub fn set(&self, value: i64) -> Result<CounterBody, Error> {
        self.engine.run(self.counter.set(value))
    }

    /// See [`recipes::Counter::set_if`].
    ///
    /// # Errors
    /// As there.
    pub fn set_if(&self, value: i64, version: u64) -> Result<CounterBody, Error> {
        self.engine.run(self.counter.set_if(value, version))
    }
}
