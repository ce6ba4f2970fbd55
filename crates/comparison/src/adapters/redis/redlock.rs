//! `RedLock`: the same key on a majority of independent servers, within a time that is computed.
//!
//! Owns the algorithm: ask every server in turn with little patience for each; the lock is ours if a majority agreed
//! and time is left: the time-to-live less what has passed less the drift of clocks; otherwise release on all of them,
//! those that refused or did not answer included. It has no token, and trusts clocks and memories of servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::cmd;

use super::set_nx_px::delete_if_owner;
use super::{Door, Settings};
use crate::lock::UsageCounter;
use crate::poll::Polled;
use crate::{Hold, Limitation, LockClient, LockError, LockFuture, Pause, System, nonce};

/// How long one server may take. Far below any time-to-live; generous for a loaded machine.
const EACH: Duration = Duration::from_millis(250);
/// Milliseconds that clocks may differ beside their drift, and the resolution of an expiry.
const DRIFT_FIXED: Duration = Duration::from_millis(2);

/// How far clocks may drift within a time-to-live: one hundredth and 2 ms.
pub fn drift(ttl: Duration) -> Duration {
    ttl / 100 + DRIFT_FIXED
}

/// A client of this lock.
#[derive(Debug)]
pub struct RedLock {
    urls: Vec<String>,
    doors: Vec<Option<Door>>,
    settings: Settings,
    counter: Arc<UsageCounter>,
}

impl RedLock {
    /// What it is documented not to do.
    pub const LIMITATIONS: &[Limitation] = &[
        Limitation::ForgottenByRestart,
        Limitation::ExpiresUnderHolder,
        Limitation::NoFence,
        Limitation::Polls,
        Limitation::Unfair,
    ];

    /// A client of these servers. One that does not answer now is asked again at every attempt.
    ///
    /// # Errors
    /// [`LockError::Unreachable`] if no majority answers.
    pub async fn open(urls: &[String], settings: Settings) -> Result<Self, LockError> {
        let doors = urls.iter().map(|_| None).collect();
        let mut client = Self { urls: urls.to_owned(), doors, settings, counter: Arc::default() };
        let mut open = 0;
        for at in 0..client.urls.len() {
            open += usize::from(client.door(at).await.is_some());
        }
        if open < client.majority() {
            return Err(LockError::Unreachable(format!("{open} of {} servers answer", urls.len())));
        }
        Ok(client)
    }

    /// How many servers have to agree.
    pub fn majority(&self) -> usize {
        self.urls.len() / 2 + 1
    }

    async fn door(&mut self, at: usize) -> Option<Door> {
        let url = self.urls.get(at)?;
        let slot = self.doors.get_mut(at)?;
        if slot.is_none() {
            *slot = Door::open_within(url, EACH, EACH).await.ok();
        }
        slot.clone()
    }

    /// Asks one server; what does not answer in time does not agree, and is connected to anew next time.
    async fn set(&mut self, at: usize, lock: &str, owner: &str) -> bool {
        let Some(door) = self.door(at).await else { return false };
        self.counter.round_trip();
        let mut set = cmd("SET");
        set.arg(lock).arg(owner).arg("NX").arg("PX").arg(self.settings.ttl_ms());
        let answered: Result<bool, LockError> = door.ask(&set).await;
        if answered.is_err() {
            self.forget(at);
        }
        answered.unwrap_or(false)
    }

    /// Releases on every server; on how many the key was still ours.
    async fn delete_everywhere(&mut self, lock: &str, owner: &str) -> usize {
        let mut deleted = 0;
        for at in 0..self.urls.len() {
            let Some(door) = self.door(at).await else { continue };
            self.counter.round_trip();
            match delete_if_owner(&door, lock, owner).await {
                Ok(ours) => deleted += usize::from(ours),
                Err(_) => self.forget(at),
            }
        }
        deleted
    }

    fn forget(&mut self, at: usize) {
        if let Some(slot) = self.doors.get_mut(at) {
            *slot = None;
        }
    }
}

impl Polled for RedLock {
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Option<Hold>> {
        Box::pin(async move {
            let (owner, since, mut agreed) = (nonce()?, Instant::now(), 0);
            for at in 0..self.urls.len() {
                agreed += usize::from(self.set(at, lock, &owner).await);
            }
            let valid = self.settings.ttl.saturating_sub(drift(self.settings.ttl));
            if agreed >= self.majority() && since.elapsed() < valid {
                return Ok(Some(Hold::new(lock, owner).for_ttl(since, valid)));
            }
            self.delete_everywhere(lock, &owner).await;
            Ok(None)
        })
    }

    fn give_back(&mut self, hold: Hold) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let deleted = self.delete_everywhere(&hold.lock, &hold.proof).await;
            if deleted >= self.majority() {
                return Ok(());
            }
            Err(LockError::Lost(format!("only {deleted} servers still had it")))
        })
    }

    fn pause(&self) -> Pause {
        self.settings.pause
    }

    fn counter(&self) -> &UsageCounter {
        &self.counter
    }
}

/// `RedLock` on these servers.
#[derive(Clone, Debug)]
pub struct RedLockSystem {
    /// Where they are.
    pub urls: Vec<String>,
    /// What the lock is told.
    pub settings: Settings,
}

impl System for RedLockSystem {
    fn name(&self) -> &'static str {
        "redlock"
    }

    fn limitations(&self) -> &'static [Limitation] {
        RedLock::LIMITATIONS
    }

    fn client(&self) -> LockFuture<'_, Box<dyn LockClient>> {
        Box::pin(async move {
            let client = RedLock::open(&self.urls, self.settings).await?;
            Ok(Box::new(client) as Box<dyn LockClient>)
        })
    }
}
