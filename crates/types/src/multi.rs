//! Changes of the tree: the operations of one caller, applied atomically in one revision.

use serde::{Deserialize, Serialize};

use crate::{AclEntry, Data, FencingToken, Identity, LockName, Revision, SessionName, ZnodePath};

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
