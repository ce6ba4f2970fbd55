//! The stat structure of a znode.

use serde::{Deserialize, Serialize};

use crate::{Revision, Stamp};

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
