//! The locks of one acquire or release.

use serde::{Deserialize, Serialize};

use crate::LockName;

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
}
