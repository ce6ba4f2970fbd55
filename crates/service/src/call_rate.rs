//! The rate of calls of each namespace on this node (its quota `calls_per_second`).
//!
//! The algorithm is GCRA (ITU-T I.371), of the library `governor`: a namespace may save up the calls of one second.
//! Bound: one limiter for each registered namespace.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, MonotonicClock};
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use holdfast_types::NamespaceName;
use parking_lot::Mutex;

type Limiter = RateLimiter<NotKeyed, InMemoryState, MonotonicClock>;

/// The limiters, each with its rate.
#[derive(Debug, Default)]
pub(crate) struct CallRates(Mutex<BTreeMap<NamespaceName, (NonZeroU32, Arc<Limiter>)>>);

impl CallRates {
    /// Counts a call of a namespace with this rate.
    ///
    /// # Errors
    /// The time until the next call, above the rate. The call was not counted.
    pub(crate) fn count(
        &self,
        namespace: &NamespaceName,
        rate: NonZeroU32,
    ) -> Result<(), Duration> {
        let checked = self.limiter(namespace, rate).check();
        checked.map_err(|not_until| not_until.wait_time_from(MonotonicClock.now()))
    }

    /// The limiter of a namespace. A new rate has a new limiter.
    fn limiter(&self, namespace: &NamespaceName, rate: NonZeroU32) -> Arc<Limiter> {
        let mut limiters = self.0.lock();
        if let Some((current, limiter)) = limiters.get(namespace)
            && *current == rate
        {
            return Arc::clone(limiter);
        }
        let quota = Quota::per_second(rate);
        let limiter = Arc::new(RateLimiter::direct_with_clock(quota, MonotonicClock));
        limiters.insert(namespace.clone(), (rate, Arc::clone(&limiter)));
        limiter
    }

    /// Forgets the limiters of namespaces that are not registered.
    pub(crate) fn retain(&self, is_registered: impl Fn(&NamespaceName) -> bool) {
        self.0.lock().retain(|namespace, _| is_registered(namespace));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_may_make_the_calls_of_one_second_at_once() {
        let rates = CallRates::default();
        let [one, other] = ["a", "b"].map(|name| NamespaceName::new(name).unwrap());
        let rate = |rate| NonZeroU32::new(rate).unwrap();
        let counted = (0..5).filter(|_| rates.count(&one, rate(3)).is_ok()).count();
        assert_eq!(counted, 3);
        let next = rates.count(&one, rate(3)).unwrap_err();
        assert!(next <= Duration::from_millis(334), "{next:?}");
        assert_eq!(rates.count(&other, rate(1)), Ok(()), "another namespace");
        assert_eq!(rates.count(&one, rate(4)), Ok(()), "a new rate has a new limiter");
        rates.retain(|name| *name == other);
        assert!(rates.count(&other, rate(1)).is_err());
        assert_eq!(rates.count(&one, rate(4)), Ok(()));
    }
}
