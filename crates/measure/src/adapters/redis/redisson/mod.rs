//! Locks in the manner of Redisson: a hash `owner -> count`, waiters that subscribe to a channel, and a watchdog.
//!
//! Each script executes the steps of the corresponding Redisson script atomically. The keys of one lock share a hash
//! tag, which places them on one node of a Redis cluster.

pub mod fair;
mod latch;
mod multi_lock;
pub mod permits;
pub mod read_write;
pub mod reentrant;
pub mod semaphore;
mod watchdog;

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};

pub use fair::RedissonFair;
pub use latch::RedissonLatch;
pub use multi_lock::RedissonMultiLock;
pub use permits::RedissonPermits;
pub use read_write::RedissonReadWrite;
pub use reentrant::RedissonLock;
pub use semaphore::RedissonSemaphore;
pub use watchdog::Watchdog;

use super::RedisConnection;
use crate::lock::{HeldLock, LockError};
use crate::wait::Deadline;

/// The result of one attempt.
enum RedissonAttempt {
    Held(HeldLock),
    /// Another client holds the lock, for at most this time without a message.
    Taken(Duration),
}

/// The wait of a client that subscribes after its first failed attempt and attempts again at every message.
struct Subscriber {
    connection: RedisConnection,
    channel: String,
    deadline: Deadline,
    messages: Option<Pin<Box<dyn Stream<Item = redis::Msg> + Send>>>,
}

impl Subscriber {
    fn new(connection: &RedisConnection, channel: String, timeout: Duration) -> Self {
        let (connection, deadline) = (connection.clone(), Deadline::after(timeout));
        Self { connection, channel, deadline, messages: None }
    }

    /// Waits for one message or for `expiry`. Returns immediately after a new subscription, because an earlier message
    /// may be lost.
    ///
    /// # Errors
    /// [`LockError::Busy`] after the deadline.
    async fn wait(&mut self, expiry: Duration) -> Result<(), LockError> {
        if self.deadline.has_passed() {
            return Err(LockError::Busy);
        }
        let Some(messages) = &mut self.messages else {
            self.messages = Some(Box::pin(self.connection.subscribe(&self.channel).await?));
            return Ok(());
        };
        // The minimum is 1 ms: a key that expires in this millisecond is free in the next one.
        let time = expiry.min(self.deadline.remaining()).max(Duration::from_millis(1));
        match tokio::time::timeout(time, messages.next()).await {
            Ok(Some(_)) => self.connection.counter.wakeup(),
            Ok(None) => self.messages = None,
            Err(_) => self.connection.counter.poll(),
        }
        Ok(())
    }
}

/// The remaining time of a holder from a script's reply; one minute for a key without an expiry.
fn remaining(millis: i64) -> Duration {
    u64::try_from(millis).map_or(Duration::from_mins(1), Duration::from_millis)
}

fn channel(lock: &str) -> String {
    format!("holdfast-measure-channel:{{{lock}}}")
}

/// # Errors
/// [`LockError::Lost`] if the script found no re-entry of this owner.
fn left(reply: Option<i64>) -> Result<(), LockError> {
    let lost = || LockError::Lost("the hash has no entry of this owner".to_owned());
    reply.map(drop).ok_or_else(lost)
}
