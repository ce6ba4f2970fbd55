//! Locks in the manner of Redisson: a hash `owner -> count`, waiters that are told by a channel, and a watchdog.
//!
//! Owns what they share: the names of keys, the waiting, the watchdog. The scripts do in one step what Redisson's do,
//! in words of our own. Keys of one lock share a hash tag, so that they lie on one node of a Redis cluster.

mod fair;
mod latch;
mod multi_lock;
mod permits;
mod read_write;
mod reentrant;
mod semaphore;
mod watchdog;

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};

pub use fair::Fair;
pub use latch::Latch;
pub use multi_lock::MultiLock;
pub use permits::Permits;
pub use read_write::ReadWrite;
pub use reentrant::Redisson;
pub use semaphore::Semaphore;
pub use watchdog::Watchdog;

use super::Door;
use crate::{Deadline, Hold, LockError, LockFuture};

/// What an attempt found.
pub(crate) enum Found {
    /// The lock is ours.
    Ours(Hold),
    /// Somebody has it, for so long at most if nobody says otherwise.
    Taken(Duration),
}

/// A lock whose waiters are told by a channel.
pub(crate) trait Told: Send {
    /// One attempt.
    fn attempt<'a>(&'a mut self, lock: &'a str) -> LockFuture<'a, Found>;
    /// Where its end is told.
    fn channel(&self, lock: &str) -> String;
    /// The connection.
    fn door(&self) -> &Door;
}

/// Tries, subscribes, tries again whenever it is told, or when the holder's time must have passed.
pub(crate) async fn wait_for<T: Told>(
    client: &mut T,
    lock: &str,
    patience: Duration,
) -> Result<Hold, LockError> {
    let patience = Deadline::after(patience);
    if let Found::Ours(hold) = client.attempt(lock).await? {
        return Ok(hold);
    }
    if patience.is_past() {
        return Err(LockError::Busy);
    }
    let mut bell = Bell::subscribe(client.door(), client.channel(lock)).await?;
    loop {
        match client.attempt(lock).await? {
            Found::Ours(hold) => return Ok(hold),
            Found::Taken(_) if patience.is_past() => return Err(LockError::Busy),
            Found::Taken(rest) => bell.hear(rest.min(patience.left())).await?,
        }
    }
}

/// A subscription to one channel, on a connection of its own.
pub(crate) struct Bell {
    door: Door,
    channel: String,
    words: Pin<Box<dyn Stream<Item = redis::Msg> + Send>>,
}

impl Bell {
    pub(crate) async fn subscribe(door: &Door, channel: String) -> Result<Self, LockError> {
        let words = Box::pin(door.subscribe(&channel).await?);
        Ok(Self { door: door.clone(), channel, words })
    }

    /// Waits for one word, or for this time. A connection that has ended is made anew: what was said meanwhile is found
    /// out by the attempt that follows.
    pub(crate) async fn hear(&mut self, time: Duration) -> Result<(), LockError> {
        // One millisecond at least: a key that ends in this very one is looked at in the next.
        let time = time.max(Duration::from_millis(1));
        match tokio::time::timeout(time, self.words.next()).await {
            Ok(Some(_)) => self.door.counter.wakeup(),
            Ok(None) => self.words = Box::pin(self.door.subscribe(&self.channel).await?),
            Err(_) => self.door.counter.poll(),
        }
        Ok(())
    }
}

/// The rest of a holder's time as a script answers it; for a key without an end, a minute.
fn rest(millis: i64) -> Duration {
    u64::try_from(millis).map_or(Duration::from_mins(1), Duration::from_millis)
}

/// The channel of a lock.
fn channel(lock: &str) -> String {
    format!("holdfast-client-channel:{{{lock}}}")
}
