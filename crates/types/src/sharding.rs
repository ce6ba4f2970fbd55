//! Sharded locks: a lock with several shards, e.g. `stock/0` to `stock/7`. `apply` selects one shard for an acquire.
//!
//! A shard is a lock with a name of its own. Bound: [`LockPolicy::SHARDS_MAX`] shards.

use serde::{Deserialize, Serialize};

use crate::{FencingToken, LockName, LockPolicy, NameError, SessionName};

/// The request of an acquire for one shard of a sharded lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardRequest {
    /// The number of shards, from 1 to [`LockPolicy::SHARDS_MAX`]. The first acquire sets it; a later one with
    /// another number is rejected. `None` accepts the present number.
    pub count: Option<u32>,
    pub choice: ShardChoice,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ShardChoice {
    /// The shard in which the owner has its entry. Otherwise a shard that can be granted at once, or any shard if there
    /// is none; of several, the first with the fewest holders and waiters.
    #[default]
    Any,
    /// The shard of this number, from 0.
    At(u32),
}

impl ShardRequest {
    /// The name of a shard.
    ///
    /// # Errors
    /// [`NameError`] if the name becomes too long.
    pub fn shard_name(whole: &LockName, shard: u32) -> Result<LockName, NameError> {
        LockName::new(format!("{whole}/{shard}"))
    }

    /// The number of the shard that `lock` names; `None` if the name is not that of a shard of `whole`.
    pub fn shard_index(whole: &LockName, lock: &LockName) -> Option<u32> {
        index_of(lock.as_str().strip_prefix(whole.as_str())?.strip_prefix('/')?)
    }

    /// The name of the sharded lock, if the name may be that of a shard.
    pub fn sharded_name(lock: &LockName) -> Option<&str> {
        let (sharded, digits) = lock.as_str().rsplit_once('/')?;
        index_of(digits).map(|_| sharded)
    }
}

fn index_of(digits: &str) -> Option<u32> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    if !plain {
        return None;
    }
    digits.parse().ok().filter(|index| *index < LockPolicy::SHARDS_MAX)
}

/// The view of one shard in a read of the sharded lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardView {
    /// The first holder.
    pub holder: Option<(SessionName, FencingToken)>,
    /// The number of holders.
    pub holders: u32,
    /// The number of waiters.
    pub waiters: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    #[test]
    fn the_shard_number_is_read_from_the_name() {
        for index in [0, 7, 10, LockPolicy::SHARDS_MAX - 1] {
            let name = ShardRequest::shard_name(&lock("shop/stock"), index).unwrap();
            assert_eq!(
                ShardRequest::shard_index(&lock("shop/stock"), &name),
                Some(index),
                "{name}"
            );
        }
        for other in
            ["stock", "stock/", "stock/x", "stock/07", "stock/+7", "stock/1024", "stock2/7"]
        {
            let Ok(other) = LockName::new(other) else { continue };
            assert_eq!(ShardRequest::shard_index(&lock("stock"), &other), None, "{other}");
        }
        assert_eq!(ShardRequest::shard_index(&lock("stock"), &lock("stock/7/a")), None);
        assert_eq!(ShardRequest::sharded_name(&lock("shop/stock/7")), Some("shop/stock"));
        for other in ["7", "stock/07", "stock/1024", "stock/7/a"] {
            assert_eq!(ShardRequest::sharded_name(&lock(other)), None, "{other}");
        }
        assert!(ShardRequest::shard_name(&lock(&"a".repeat(LockName::MAX_LEN - 1)), 0).is_err());
    }
}
