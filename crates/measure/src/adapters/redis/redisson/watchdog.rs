//! Renews a held lock after each third of its TTL while the process lives.
//!
//! The watchdog does not check the work: it renews a lock with hanging work forever.

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use redis::Script;
use tokio::task::AbortHandle;

use crate::adapters::redis::RedisConnection;

static RENEW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
         redis.call('PEXPIRE', KEYS[1], ARGV[2])
         return 1",
    )
});

/// One task. It ends when the watchdog is dropped or when the owner no longer holds the lock.
#[derive(Debug)]
pub struct Watchdog {
    task: AbortHandle,
    renewals: Arc<AtomicU64>,
}

impl Watchdog {
    pub(super) fn start(
        connection: RedisConnection,
        key: String,
        owner: String,
        ttl: Duration,
    ) -> Self {
        let renewals = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&renewals);
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(ttl / 3).await;
                let mut renew = RENEW.key(&key);
                // The watchdog repeats a renewal without a reply.
                if !connection.script(renew.arg(&owner).arg(ttl_ms)).await.unwrap_or(true) {
                    return;
                }
                counted.fetch_add(1, Relaxed);
            }
        });
        Self { task: task.abort_handle(), renewals }
    }

    pub fn renewals(&self) -> u64 {
        self.renewals.load(Relaxed)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.task.abort();
    }
}
