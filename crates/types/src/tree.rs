//! The tree: the data and the stat of a znode, and the operations of one caller that `apply` makes atomically in one revision.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{AclEntry, FencingToken, Identity, LockName, Revision, SessionName, Stamp, ZnodePath};

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

/// The caller of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The session that owns new ephemeral znodes. It must be open. The change does not renew its lease.
    pub session: Option<SessionName>,
    /// The caller's connection: the revision that opened or attached it. Rejected if the session is bound to another
    /// connection. `None` skips the check.
    pub attachment: Option<Revision>,
    /// The caller's authenticated identities, without the implicit `world:anyone`. With [`Identity::superuser`], no
    /// access list applies, and every path needs the permission `tree admin`.
    pub identities: Vec<Identity>,
}

impl Caller {
    pub fn is_superuser(&self) -> bool {
        self.identities.iter().any(Identity::is_superuser)
    }
}

/// Operations that are applied atomically.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Multi {
    pub caller: Caller,
    /// `then` is applied if all conditions hold; an empty list holds.
    pub conditions: Vec<Condition>,
    /// Applied in order; each operation sees the changes of the earlier ones.
    pub then: Vec<Op>,
    /// Applied instead if a condition does not hold.
    pub otherwise: Vec<Op>,
}

/// A condition of a multi.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// The znode exists, or does not exist.
    Exists { path: ZnodePath, exists: bool },
    /// The znode exists with this version.
    Version { path: ZnodePath, version: i32 },
    /// The znode exists with this data.
    Data { path: ZnodePath, data: Vec<u8> },
    /// The lock is held under this token.
    Holds { lock: LockName, token: FencingToken },
    /// The session is open.
    SessionOpen { session: SessionName },
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    Create(Create),
    /// Deletes a znode.
    Delete {
        path: ZnodePath,
        /// The required version; `None` means any.
        version: Option<i32>,
        /// Whether to delete its descendants, too. If false, it must have no children.
        recursive: bool,
    },
    SetData {
        path: ZnodePath,
        data: Data,
        /// The required version; `None` means any.
        version: Option<i32>,
    },
    SetAcl {
        path: ZnodePath,
        acl: Vec<AclEntry>,
        /// The required `aversion`; `None` means any.
        version: Option<i32>,
    },
    /// Changes nothing; rejected unless the znode exists with this version.
    Check {
        path: ZnodePath,
        /// The required version; `None` means any.
        version: Option<i32>,
    },
}

/// The kind of a new znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CreateKind {
    /// Exists until it is deleted.
    Persistent,
    /// Swept some time after its last child is deleted.
    Container,
    /// Deleted when its session ends; cannot have children.
    Ephemeral,
    /// Swept if it has no children, and its data was not changed for the TTL.
    Ttl {
        /// Milliseconds, 1 to [`Create::TTL_MAX_MS`].
        ms: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    pub directory: ZnodePath,
    /// The name in the directory; with `sequential` its prefix, which may be empty.
    pub name: String,
    pub data: Data,
    pub kind: CreateKind,
    /// Whether the directory's counter is appended to the name, with at least ten digits.
    pub sequential: bool,
    /// The access list; `None` grants every permission to every caller.
    pub acl: Option<Vec<AclEntry>>,
    /// Whether to create missing parent directories.
    pub parents: bool,
}

impl Multi {
    /// The maximum number of operations and conditions: more than a request of 1 MiB of a ZooKeeper client has, whose
    /// shortest operation has 18 bytes.
    pub const OPS_MAX: usize = 60_000;
    /// The maximum number of bytes that one multi adds to the cluster, or reads.
    pub const BYTES_MAX: u64 = 16 << 20;
}

impl Create {
    /// The longest TTL of a znode, milliseconds: 40 bits, as in ZooKeeper.
    pub const TTL_MAX_MS: u64 = (1 << 40) - 1;
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
