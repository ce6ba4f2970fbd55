//! What a znode says about itself.

use serde::{Deserialize, Serialize};

use crate::{Revision, Stamp};

/// `ephemeralOwner` of a container node, as `ZooKeeper` writes it.
pub const CONTAINER_OWNER: i64 = i64::MIN;

/// Added to the milliseconds in the `ephemeralOwner` of a node with a time-to-live: its high byte is 0xff.
pub const TTL_OWNER: i64 = -0x0100_0000_0000_0000;

/// The stat structure of a znode. Source: the `ZooKeeper` programmer's guide, "`ZooKeeper` Stat Structure";
/// a zxid there is a revision here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stat {
    /// Revision that created the node.
    pub czxid: Revision,
    /// Revision that last changed its data.
    pub mzxid: Revision,
    /// Revision that last created or deleted a child of it.
    pub pzxid: Revision,
    /// Stamp of the creation.
    pub ctime: Stamp,
    /// Stamp of the last change of its data.
    pub mtime: Stamp,
    /// Changes of its data, from 0.
    pub version: i32,
    /// Children created plus children deleted, ever.
    pub cversion: i32,
    /// Changes of its access list.
    pub aversion: i32,
    /// The owning session's id; 0 for a persistent node, [`CONTAINER_OWNER`] for a container, [`TTL_OWNER`] plus the
    /// milliseconds for a node with a time-to-live.
    pub ephemeral_owner: i64,
    /// Length of its data, bytes.
    pub data_length: i32,
    /// Children it has now.
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

    /// Revision that last created or deleted a child of it.
    pub fn children_changed_in(&self) -> Revision {
        self.pzxid
    }
}
