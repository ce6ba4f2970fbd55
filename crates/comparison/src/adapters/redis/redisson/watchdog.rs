//! Renews a hold at a third of its time-to-live, as long as it lives.
//!
//! Owns one task. It knows that the process lives, and nothing of the work: a hold whose work hangs is renewed for ever.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use redis::Script;
use tokio::task::AbortHandle;

use crate::adapters::redis::Door;

static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
         redis.call('PEXPIRE', KEYS[1], ARGV[2])
         return 1",
    )
});

/// A running watchdog; it ends when it is dropped, or when the hold is not its owner's any more.
#[derive(Debug)]
pub struct Watchdog {
    task: AbortHandle,
    renewals: Arc<AtomicU64>,
}

impl Watchdog {
    pub(crate) fn start(door: Door, key: String, owner: String, ttl: Duration) -> Self {
        let renewals = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&renewals);
        let task = tokio::spawn(async move {
            while renew(&door, &key, &owner, ttl).await {
                counted.fetch_add(1, Relaxed);
            }
        });
        Self { task: task.abort_handle(), renewals }
    }

    /// How often it has renewed.
    pub fn renewals(&self) -> u64 {
        self.renewals.load(Relaxed)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sleeps for a third, and renews; whether there is something to go on with. An answer that does not come is tried again.
async fn renew(door: &Door, key: &str, owner: &str, ttl: Duration) -> bool {
    tokio::time::sleep(ttl / 3).await;
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    door.run::<bool>(RENEW.key(key).arg(owner).arg(ttl_ms)).await.unwrap_or(true)
}
