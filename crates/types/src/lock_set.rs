//! The locks that one call names: a lock, a multi-lock, or a sharded lock.
//!
//! A sharded lock is a lock with several shards, e.g. `stock/0` to `stock/7`. `apply` selects one shard for an acquire. A shard
//! is a lock with a name of its own. Bounds: [`LockSet::MAX`] locks, [`LockPolicy::SHARDS_MAX`] shards.

use serde::{Deserialize, Serialize};

use crate::{FencingToken, LockName, LockPolicy, NameError, SessionName};

/// The names of one lock or of a multi-lock: from 1 to [`LockSet::MAX`] names, sorted, each once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "Vec<LockName>")]
pub struct LockSet {
    first: LockName,
    /// Empty unless this is a multi-lock.
    others: Vec<LockName>,
}

impl Serialize for LockSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// No name, too many names, or a repeated name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a multi-lock has from 1 to {} locks, each named once", LockSet::MAX)]
pub struct LockSetError;

impl LockSet {
    /// The maximum number of locks in a multi-lock.
    pub const MAX: usize = 16;

    /// Sorts the names.
    ///
    /// # Errors
    /// [`LockSetError`] without a name, with more than [`LockSet::MAX`] names, or with a repeated name.
    pub fn new(mut names: Vec<LockName>) -> Result<Self, LockSetError> {
        names.sort();
        if names.is_empty() || names.len() > Self::MAX || !names.is_sorted_by(|a, b| a < b) {
            return Err(LockSetError);
        }
        let first = names.remove(0);
        Ok(Self { first, others: names })
    }

    /// The names, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &LockName> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    pub fn first(&self) -> &LockName {
        &self.first
    }

    /// The only lock; `None` for a multi-lock.
    pub fn single(&self) -> Option<&LockName> {
        self.others.is_empty().then_some(&self.first)
    }

    pub fn is_multi_lock(&self) -> bool {
        !self.others.is_empty()
    }
}

impl From<LockName> for LockSet {
    fn from(lock: LockName) -> Self {
        Self { first: lock, others: Vec::new() }
    }
}

impl TryFrom<Vec<LockName>> for LockSet {
    type Error = LockSetError;

    fn try_from(names: Vec<LockName>) -> Result<Self, LockSetError> {
        Self::new(names)
    }
}

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
    use serde::de::value::{Error, SeqDeserializer};

    use super::*;

    fn names(names: &[&str]) -> Vec<LockName> {
        names.iter().map(|name| LockName::new(*name).unwrap()).collect()
    }

    #[test]
    fn names_are_sorted_and_occur_once() {
        let locks = LockSet::new(names(&["b", "a"])).unwrap();
        assert!(locks.iter().eq(&names(&["a", "b"])));
        assert_eq!((locks.first().as_str(), locks.single(), locks.count()), ("a", None, 2));
        assert_eq!(LockSet::new(names(&["a", "b", "a"])), Err(LockSetError));
        assert_eq!(LockSet::new(Vec::new()), Err(LockSetError));
        let many = |count| (0..count).map(|n| LockName::new(format!("{n}")).unwrap()).collect();
        assert!(LockSet::new(many(LockSet::MAX)).is_ok());
        assert_eq!(LockSet::new(many(LockSet::MAX + 1)), Err(LockSetError));
    }

    #[test]
    fn invalid_sets_do_not_deserialize() {
        let decode = |names: &[&'static str]| {
            LockSet::deserialize(SeqDeserializer::<_, Error>::new(names.iter().copied()))
        };
        assert_eq!(decode(&["b", "a"]), Ok(LockSet::new(names(&["a", "b"])).unwrap()));
        assert!(decode(&["a", "a"]).is_err());
        assert!(decode(&[]).is_err());
    }

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
