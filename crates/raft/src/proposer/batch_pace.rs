//! Keeps the queue of large runs from slowing down small ones.
//!
//! A small run waits behind the bytes of a large batch in every log, and for the processors that copy them. So after a large
//! batch, if small ones were sent meanwhile, no other large batch is sent for three times as long as it took. The callers
//! of a batch get their replies before.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The time without a large batch, as a multiple of the time of the last one.
const REST: u32 = 3;
/// A batch that waited for a leader took long for another reason.
const REST_MAX: Duration = Duration::from_millis(500);

/// When the next batch of a queue may be sent. Both have the number of small batches so far.
#[derive(Clone)]
pub(crate) enum BatchPace {
    Small(Arc<AtomicU64>),
    Large(Arc<AtomicU64>),
}

impl BatchPace {
    /// Sends a batch, and returns when the next one may follow.
    pub(crate) async fn send<T>(self, sending: impl Future<Output = T>) -> T {
        match self {
            Self::Small(batches) => {
                batches.fetch_add(1, Ordering::Relaxed);
                sending.await
            }
            Self::Large(small_batches) => {
                let (since, before) = (Instant::now(), small_batches.load(Ordering::Relaxed));
                let sent = sending.await;
                if small_batches.load(Ordering::Relaxed) != before {
                    sleep((since.elapsed() * REST).min(REST_MAX)).await;
                }
                sent
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_large_batch_is_followed_by_a_rest_only_if_small_ones_were_sent() {
        let small_batches = Arc::new(AtomicU64::new(0));
        let (small, large) =
            (BatchPace::Small(small_batches.clone()), BatchPace::Large(small_batches));
        let took = |since: Instant| since.elapsed().as_millis();
        for (with_small, batch_ms, expected) in
            [(false, 20, 20), (true, 20, 80), (true, 1_000, 1_500)]
        {
            let since = Instant::now();
            let batch = async {
                sleep(Duration::from_millis(batch_ms)).await;
                if with_small {
                    small.clone().send(async {}).await;
                }
            };
            large.clone().send(batch).await;
            assert_eq!(took(since), expected);
        }
        let since = Instant::now();
        small.send(sleep(Duration::from_millis(5))).await;
        assert_eq!(took(since), 5);
    }
}
