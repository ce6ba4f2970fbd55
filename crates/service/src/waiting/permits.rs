//! Permits to wait on this node: the bound of all parked calls, and how a shutdown learns that none is left.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::Failure;

#[derive(Debug)]
pub(crate) struct WaiterPermits {
    permits: Arc<Semaphore>,
    limit: usize,
}

/// A permission to wait, taken before anything is proposed and kept until nothing of the wait is left.
#[derive(Debug)]
pub(crate) struct WaiterPermit(
    #[expect(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit,
);

impl WaiterPermits {
    pub(crate) fn new(limit: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(limit)), limit }
    }

    pub(crate) fn take(&self) -> Result<WaiterPermit, Failure> {
        match self.permits.clone().try_acquire_owned() {
            Ok(permit) => Ok(WaiterPermit(permit)),
            Err(_) => Err(Failure::TooManyWaiters { limit: self.limit }),
        }
    }

    /// Resolves when no permit is taken; from then on none can be taken. May be awaited more than once.
    pub(crate) async fn drained(&self) {
        let all = u32::try_from(self.limit).unwrap_or(u32::MAX);
        // An error means that the semaphore was closed before.
        if let Ok(_all) = self.permits.acquire_many(all).await {
            self.permits.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn draining_waits_for_the_last_permit_and_may_be_awaited_again() {
        let permits = WaiterPermits::new(2);
        let permit = permits.take().unwrap();
        let mut drained = std::pin::pin!(permits.drained());
        assert!(futures_util::poll!(&mut drained).is_pending());
        drop(permit);
        drained.await;
        permits.drained().await;
        assert!(matches!(permits.take(), Err(Failure::TooManyWaiters { limit: 2 })));
    }
}
