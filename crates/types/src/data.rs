//! The data of a znode: bytes, or null.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Revision, Stamp};

/// The data of a znode. ZooKeeper's protocol distinguishes null from empty data; all other readers see both as empty.
/// Cheap to clone; empty data allocates nothing. The default is empty.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Data(Option<Arc<[u8]>>);

impl Data {
    /// Null, not empty.
    pub const NULL: Self = Self(None);

    /// False for empty data.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

impl Deref for Data {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for Data {
    fn default() -> Self {
        Self(Some(Arc::default()))
    }
}

impl From<&[u8]> for Data {
    fn from(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::default() } else { Self(Some(bytes.into())) }
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

/// Bytes that serde copies at once, not one by one: a znode can have a megabyte. The format is that of a list of bytes.
struct Raw<T>(T);

impl Serialize for Raw<&[u8]> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de> Deserialize<'de> for Raw<Arc<[u8]>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(RawVisitor).map(Self)
    }
}

struct RawVisitor;

impl Visitor<'_> for RawVisitor {
    type Value = Arc<[u8]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(bytes.into())
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_deref().map(Raw).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Option::<Raw<Arc<[u8]>>>::deserialize(deserializer)?;
        Ok(Self(bytes.map(|Raw(bytes)| bytes)))
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(bytes) => fmt::Debug::fmt(bytes, f),
            None => f.write_str("null"),
        }
    }
}

/// `ephemeralOwner` of a container, as in ZooKeeper.
pub const CONTAINER_OWNER: i64 = i64::MIN;

/// Added to the TTL in milliseconds for the `ephemeralOwner` of a node with a TTL: the high byte is 0xff.
pub const TTL_OWNER: i64 = -0x0100_0000_0000_0000;

/// The stat structure of a znode. Source: the ZooKeeper programmer's guide, "ZooKeeper Stat Structure".
/// Each zxid is a [`Revision`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stat {
    /// Revision that created the node.
    pub czxid: Revision,
    /// Revision that last changed its data.
    pub mzxid: Revision,
    /// Revision that last created or deleted a child.
    pub pzxid: Revision,
    /// Stamp of the creation.
    pub ctime: Stamp,
    /// Stamp of the last change of its data.
    pub mtime: Stamp,
    /// Number of changes of its data.
    pub version: i32,
    /// Number of children created plus number of children deleted, ever.
    pub cversion: i32,
    /// Number of changes of its access list.
    pub aversion: i32,
    /// The id of the owning session; 0 for a persistent node, [`CONTAINER_OWNER`] for a container, [`TTL_OWNER`] plus
    /// milliseconds for a node with a TTL.
    pub ephemeral_owner: i64,
    /// Length of its data, bytes.
    pub data_length: i32,
    /// The present number of children.
    pub num_children: i32,
}

impl Stat {
    /// Revision that created the node.
    pub fn created_in(&self) -> Revision {
        self.czxid
    }

    /// Revision that last changed its data.
    pub fn changed_in(&self) -> Revision {
        self.mzxid
    }

    /// Revision that last created or deleted a child.
    pub fn children_changed_in(&self) -> Revision {
        self.pzxid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_differs_from_empty_data_but_both_read_as_empty() {
        let empty = Data::from(Vec::new());
        assert_ne!(empty, Data::NULL);
        assert!(Data::NULL.is_null() && !empty.is_null());
        assert_eq!((&*empty, &*Data::NULL), (&[][..], &[][..]));
        assert_eq!(&*Data::from(&b"x"[..]), b"x");
    }
}
