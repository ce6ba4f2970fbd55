//! Permits to wait on this node: they bound all parked calls, and shutdown waits until all are returned.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::Failure;

#[derive(Debug)]
pub(crate) struct WaiterPermits {
    permits: Arc<Semaphore>,
    limit: usize,
}

/// A permit to wait. A call takes it before proposing a command and keeps it until its wait is cleaned up.
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

    pub(crate) fn in_use(&self) -> usize {
        self.limit - self.permits.available_permits()
    }

    /// Resolves when no permit is in use; afterwards none can be taken. May be awaited more than once.
    pub(crate) async fn drained(&self) {
        let all = u32::try_from(self.limit).unwrap_or(u32::MAX);
        // An error means that an earlier call closed the semaphore.
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
