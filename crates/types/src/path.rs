//! Paths of the tree, with ZooKeeper's rules, for both front-ends.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::{LockName, NameError, TextVisitor, check_components, check_len};

/// An absolute path: `/`, or `/a/b` without a trailing slash. Compared byte by byte, never normalised.
/// Source: the ZooKeeper programmer's guide, "The ZooKeeper data model".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZnodePath(Arc<str>);

impl<'de> Deserialize<'de> for ZnodePath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor { what: WHAT, parse: |path| Self::new(path) })
    }
}

impl Serialize for ZnodePath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

const WHAT: &str = "the path";

impl ZnodePath {
    /// The longest path, bytes.
    pub const MAX_LEN: usize = 1024;
    /// The parent of all lock directories.
    pub const LOCKS: &str = "/locks";
    /// The path at which ZooKeeper shows the members of the ensemble.
    pub const CONFIG: &str = "/zookeeper/config";

    /// # Errors
    /// [`NameError`] for a path that is empty, relative, too long, ends with `/`, or has a bad component.
    pub fn new(path: impl AsRef<str>) -> Result<Self, NameError> {
        let path = path.as_ref();
        check_len(WHAT, path, Self::MAX_LEN)?;
        let Some(relative) = path.strip_prefix('/') else {
            let found = path.chars().next().unwrap_or('?');
            let rule = "a path begins with '/'";
            return Err(NameError::BadCharacter { what: WHAT, found, rule });
        };
        if !relative.is_empty() {
            check_components(WHAT, relative)?;
        }
        Ok(Self(path.into()))
    }

    /// Splits the path of a znode to create into directory and name. The name of a sequential znode may be empty,
    /// because digits are appended: `/a/` creates `/a/0000000000`.
    ///
    /// # Errors
    /// [`NameError`] as for [`ZnodePath::new`], checked with a digit appended if sequential; and for the root.
    pub fn for_create(path: &str, sequential: bool) -> Result<(Self, String), NameError> {
        let digit = if sequential { "0" } else { "" };
        let whole = Self::new(format!("{path}{digit}"))?;
        let Some(directory) = whole.parent() else {
            return Err(NameError::BadComponent { what: WHAT, component: String::new() });
        };
        let name = whole.file_name();
        let name = name.get(..name.len() - digit.len()).unwrap_or_default().to_owned();
        Ok((directory, name))
    }

    /// `/`.
    pub fn root() -> Self {
        Self("/".into())
    }

    /// The directory of a lock, `/locks/<name>`.
    pub fn of_lock(lock: &LockName) -> Self {
        Self([Self::LOCKS, "/", lock.as_str()].concat().into())
    }

    /// The lock of this directory; `None` for paths outside `/locks/`.
    pub fn as_lock(&self) -> Option<LockName> {
        let name = self.0.strip_prefix(Self::LOCKS)?.strip_prefix('/')?;
        LockName::new(name).ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parent directory; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let (parent, name) = self.0.rsplit_once('/')?;
        match (parent, name) {
            ("", "") => None,
            ("", _) => Some(Self::root()),
            (parent, _) => Some(Self(parent.into())),
        }
    }

    /// The last component; empty for the root.
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, name)| name)
    }

    /// The child with this name.
    ///
    /// # Errors
    /// [`NameError`] if the name is not a valid component, or the path becomes too long.
    pub fn child(&self, name: &str) -> Result<Self, NameError> {
        check_components(WHAT, name)?;
        let separator = if self.0.len() == 1 { "" } else { "/" };
        let path = [&*self.0, separator, name].concat();
        check_len(WHAT, &path, Self::MAX_LEN)?;
        Ok(Self(path.into()))
    }
}

impl Borrow<str> for ZnodePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ZnodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ZnodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_zookeepers_rules() {
        for good in ["/", "/a", "/a/b", "/a b", "/.a", "/a..b", "/ünïcode"] {
            assert!(ZnodePath::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a",
            "/a/",
            "//a",
            "/a//b",
            "/.",
            "/..",
            "/a/../b",
            "/a\0",
            "/a\u{1}",
            "/\u{85}",
            "/\u{e000}",
        ] {
            assert!(ZnodePath::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_path_longer_than_the_bound_is_rejected() {
        assert!(ZnodePath::new(format!("/{}", "a".repeat(1023))).is_ok());
        assert!(ZnodePath::new(format!("/{}", "a".repeat(1024))).is_err());
    }

    #[test]
    fn a_path_to_create_splits_into_directory_and_name() {
        let split = |path, sequential| {
            ZnodePath::for_create(path, sequential).ok().map(|(at, name)| (at.to_string(), name))
        };
        let found = |at: &str, name: &str| Some((at.to_owned(), name.to_owned()));
        assert_eq!(split("/a/b", false), found("/a", "b"));
        assert_eq!(split("/b", true), found("/", "b"));
        assert_eq!(split("/a/", true), found("/a", ""));
        assert_eq!(split("/", true), found("/", ""));
        for (path, sequential) in [("/", false), ("/a/", false), ("a", true), ("/a/../", true)] {
            assert_eq!(split(path, sequential), None, "{path}");
        }
    }

    #[test]
    fn parents_and_names() {
        let path = ZnodePath::new("/a/b").unwrap();
        assert_eq!(path.parent().unwrap().as_str(), "/a");
        assert_eq!(path.parent().unwrap().parent().unwrap(), ZnodePath::root());
        assert_eq!(ZnodePath::root().parent(), None);
        assert_eq!(path.file_name(), "b");
        assert_eq!(ZnodePath::root().child("x").unwrap().as_str(), "/x");
        assert_eq!(path.child("x").unwrap().as_str(), "/a/b/x");
    }

    #[test]
    fn a_lock_is_a_directory_below_locks() {
        let lock = LockName::new("shop/orders").unwrap();
        let path = ZnodePath::of_lock(&lock);
        assert_eq!(path.as_str(), "/locks/shop/orders");
        assert_eq!(path.as_lock(), Some(lock));
        assert_eq!(ZnodePath::new("/locks").unwrap().as_lock(), None);
        assert_eq!(ZnodePath::new("/locksmith/a").unwrap().as_lock(), None);
    }
}
