//! What subjects and namespaces use on this node only: connections, event streams, and calls per second.
//!
//! The algorithm of the rate is GCRA (ITU-T I.371), of the library `governor`: an owner may save up the calls of one second.
//! Bounds: one count for each subject with a connection or stream, of which `quotas.rs` limits the number; one
//! limiter for each registered namespace and each subject.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, MonotonicClock};
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use holdfast_types::{Actor, QuotaKind, QuotaOwner, SubjectName};
use parking_lot::Mutex;

/// What the subjects use on this node.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalUses(Arc<Mutex<BTreeMap<(SubjectName, QuotaKind), u64>>>);

/// A connection or stream of a subject, counted until it is dropped.
#[derive(Debug)]
pub struct LocalUse {
    uses: LocalUses,
    key: (SubjectName, QuotaKind),
}

/// The place of a connection among those of its caller.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPlace(pub(crate) Arc<Mutex<Option<CountedCaller>>>);

/// The caller of a connection, and its place if its subject has a limit.
pub(crate) type CountedCaller = (Actor, Option<LocalUse>);

impl Drop for LocalUse {
    fn drop(&mut self) {
        let mut uses = self.uses.0.lock();
        if let Some(count) = uses.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                uses.remove(&self.key);
            }
        }
    }
}

impl LocalUses {
    /// Counts one more, or returns the count that has reached the limit.
    pub(crate) fn take(&self, key: (SubjectName, QuotaKind), limit: u64) -> Result<LocalUse, u64> {
        let mut uses = self.0.lock();
        let count = uses.get(&key).copied().unwrap_or_default();
        if count >= limit {
            return Err(count);
        }
        uses.insert(key.clone(), count + 1);
        Ok(LocalUse { uses: self.clone(), key })
    }

    pub(crate) fn used(&self, subject: &SubjectName, quota: QuotaKind) -> u64 {
        self.0.lock().get(&(subject.clone(), quota)).copied().unwrap_or_default()
    }
}

type Limiter = RateLimiter<NotKeyed, InMemoryState, MonotonicClock>;

/// The rate of calls of each owner (its quota `calls_per_second`): the limiters, each with its rate.
#[derive(Debug, Default)]
pub(crate) struct CallRates(Mutex<BTreeMap<QuotaOwner, (NonZeroU32, Arc<Limiter>)>>);

impl CallRates {
    /// Counts a call of an owner with this rate.
    ///
    /// # Errors
    /// The time until the next call, above the rate. The call was not counted.
    pub(crate) fn count(&self, owner: &QuotaOwner, rate: NonZeroU32) -> Result<(), Duration> {
        let checked = self.limiter(owner, rate).check();
        checked.map_err(|not_until| not_until.wait_time_from(MonotonicClock.now()))
    }

    /// The limiter of an owner. A new rate has a new limiter.
    fn limiter(&self, owner: &QuotaOwner, rate: NonZeroU32) -> Arc<Limiter> {
        let mut limiters = self.0.lock();
        if let Some((current, limiter)) = limiters.get(owner)
            && *current == rate
        {
            return Arc::clone(limiter);
        }
        let quota = Quota::per_second(rate);
        let limiter = Arc::new(RateLimiter::direct_with_clock(quota, MonotonicClock));
        limiters.insert(owner.clone(), (rate, Arc::clone(&limiter)));
        limiter
    }

    /// Forgets the limiters of owners without a rate.
    pub(crate) fn retain(&self, has_rate: impl Fn(&QuotaOwner) -> bool) {
        self.0.lock().retain(|owner, _| has_rate(owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_may_make_the_calls_of_one_second_at_once() {
        let rates = CallRates::default();
        let [one, other] =
            ["a", "b"].map(|name| QuotaOwner::Subject(SubjectName::new(name).unwrap()));
        let rate = |rate| NonZeroU32::new(rate).unwrap();
        let counted = (0..5).filter(|_| rates.count(&one, rate(3)).is_ok()).count();
        assert_eq!(counted, 3);
        let next = rates.count(&one, rate(3)).unwrap_err();
        assert!(next <= Duration::from_millis(334), "{next:?}");
        assert_eq!(rates.count(&other, rate(1)), Ok(()), "another subject");
        assert_eq!(rates.count(&one, rate(4)), Ok(()), "a new rate has a new limiter");
        rates.retain(|owner| *owner == other);
        assert!(rates.count(&other, rate(1)).is_err());
        assert_eq!(rates.count(&one, rate(4)), Ok(()));
    }
}
