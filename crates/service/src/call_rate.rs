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
use holdfast_types::{NamespaceName, NamespaceQuota};
use parking_lot::Mutex;

use crate::failure::Failure;
use crate::service::Service;

/// How long the refusal of a call takes.
const REFUSAL_DELAY: Duration = Duration::from_millis(100);
/// The shortest time between two tries of a call that waits for the rate.
const RETRY_MIN: Duration = Duration::from_millis(10);

type Limiter = RateLimiter<NotKeyed, InMemoryState, MonotonicClock>;

/// The limiters, each with its rate.
#[derive(Debug, Default)]
pub(crate) struct CallRates(Mutex<BTreeMap<NamespaceName, (NonZeroU32, Arc<Limiter>)>>);

impl CallRates {
    /// The limiter of a namespace. It starts anew when the rate changes.
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

impl Service {
    /// As [`Service::count_call`], but the refusal takes [`REFUSAL_DELAY`]. So a caller that does not wait for
    /// `retry_after` costs the node little.
    ///
    /// # Errors
    /// As [`Service::count_call`].
    pub async fn count_call_slowly(&self) -> Result<(), Failure> {
        let counted = self.count_call();
        if counted.is_err() {
            tokio::time::sleep(REFUSAL_DELAY).await;
        }
        counted
    }

    /// Counts a call of the caller's namespace.
    ///
    /// # Errors
    /// [`Failure::RateLimited`] above the rate. The call was not counted.
    pub fn count_call(&self) -> Result<(), Failure> {
        let limited = self.raft().read(|machine| {
            machine.namespaces().next()?;
            let rights = machine.rights_of(self.actor(), self.log_time()).ok()?;
            let namespace = machine.namespace_of(rights.subject()?)?;
            let limit = machine.namespace_quotas(namespace)?.get(NamespaceQuota::CallsPerSecond)?;
            Some((namespace.clone(), NonZeroU32::new(u32::try_from(limit).ok()?)?))
        });
        let Some((namespace, limit)) = limited else { return Ok(()) };
        let checked = self.parts.call_rates.limiter(&namespace, limit).check();
        checked.map_err(|not_until| {
            let retry_after = not_until.wait_time_from(MonotonicClock.now());
            self.metrics().calls_limited(&namespace).inc();
            Failure::RateLimited { namespace, limit, retry_after }
        })
    }

    /// Waits until the rate of the caller's namespace allows a call, and counts it.
    pub async fn wait_for_call(&self) {
        while let Err(Failure::RateLimited { retry_after, .. }) = self.count_call() {
            tokio::time::sleep(retry_after.max(RETRY_MIN)).await;
        }
    }
}
