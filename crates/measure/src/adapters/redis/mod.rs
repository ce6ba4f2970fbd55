//! Locks on one Redis server, from the oldest recipe to the Redisson locks, and Redlock on several servers.

mod address;
mod connection;
pub mod getset;
pub mod list;
pub mod redisson;
pub mod redlock;
pub mod reentrant;
pub mod set_nx_px;
pub mod setnx_expire;
pub mod spin;
pub mod timeout_repair;
pub mod watch;

use redis::Script;

pub(crate) use address::masked;
pub use address::{RedisAddress, addresses};
pub use connection::RedisConnection;
pub use getset::GetSet;
pub use list::RedisList;
pub use redlock::Redlock;
pub use reentrant::Reentrant;
pub use set_nx_px::SetNxPx;
pub use setnx_expire::SetnxExpire;
pub use timeout_repair::TimeoutRepair;

use crate::LockError;
use crate::lock::{LockClient, LockFuture, LockSettings, Target};

/// Opens a client with its own connection.
fn connect<C: LockClient + 'static>(
    target: Target,
    client: impl FnOnce(RedisConnection, LockSettings) -> C + Send + 'static,
) -> LockFuture<'static, Box<dyn LockClient>> {
    Box::pin(async move {
        let urls = target.redis_urls()?;
        let first = urls.first().map(String::as_str).unwrap_or_default();
        let connection = RedisConnection::open(first).await?;
        Ok(Box::new(client(connection, target.settings)) as Box<dyn LockClient>)
    })
}

/// Deletes the key atomically if it has this value; returns `true` if it did.
async fn delete_if_owner(
    connection: &RedisConnection,
    key: &str,
    owner: &str,
) -> Result<bool, LockError> {
    static DELETE: std::sync::LazyLock<Script> = std::sync::LazyLock::new(|| {
        Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
        )
    });
    connection.script(DELETE.key(key).arg(owner)).await
}

/// # Errors
/// [`LockError::Lost`] if the client did not own the key.
fn released(was_owner: bool) -> Result<(), LockError> {
    let lost = || LockError::Lost("the key no longer exists or has another owner".to_owned());
    was_owner.then_some(()).ok_or_else(lost)
}
