//! Changes of the tree: one or many operations by one caller, all or nothing, in one revision.

use serde::{Deserialize, Serialize};

use crate::{
    AclEntry, Data, FencingToken, Identity, LockName, RequestId, Revision, SessionName, ZnodePath,
};

/// For whom a change is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The caller's session: owner of ephemerals, keeper of the memo. It must be open. The change is no renewal of its
    /// lease: whoever brings it sees to that.
    pub session: Option<SessionName>,
    /// The connection that speaks for the session: the revision that opened or attached it. Refused if another does
    /// by now. None: not through a connection.
    pub attachment: Option<Revision>,
    /// With a session: a retry under the same id gets the first answer.
    pub request: Option<RequestId>,
    /// Whom the caller has proved to be. `world:anyone` need not be named.
    pub identities: Vec<Identity>,
}

/// Operations that are done together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Multi {
    pub caller: Caller,
    /// All must hold for `then` to be done; with none, they hold.
    pub conditions: Vec<Condition>,
    /// Done in order, each seeing what those before did.
    pub then: Vec<Op>,
    /// Done instead if a condition does not hold.
    pub otherwise: Vec<Op>,
}

/// What must be true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// There is such a node, or there is none.
    Exists { path: ZnodePath, exists: bool },
    /// There is such a node, with this version.
    Version { path: ZnodePath, version: i32 },
    /// There is such a node, with this data.
    Data { path: ZnodePath, data: Vec<u8> },
    /// The lock is held under this token.
    Holds { lock: LockName, token: FencingToken },
    /// The session is open.
    SessionOpen { session: SessionName },
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Creates a znode.
    Create(Create),
    /// Deletes a znode.
    Delete {
        path: ZnodePath,
        /// The version it must have; none means any.
        version: Option<i32>,
        /// With everything below it; otherwise it must have no children.
        recursive: bool,
    },
    /// Replaces a znode's data.
    SetData {
        path: ZnodePath,
        data: Data,
        /// The version it must have; none means any.
        version: Option<i32>,
    },
    /// Replaces a znode's access list.
    SetAcl {
        path: ZnodePath,
        acl: Vec<AclEntry>,
        /// The `aversion` it must have; none means any.
        version: Option<i32>,
    },
    /// Does nothing if the node is there with this version, and is refused otherwise.
    Check {
        path: ZnodePath,
        /// The version it must have; none means any.
        version: Option<i32>,
    },
}

/// What kind of znode to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CreateKind {
    /// Stays until deleted.
    Persistent,
    /// Stays until deleted, or swept when its last child has gone.
    Container,
    /// Goes with its session; has no children.
    Ephemeral,
    /// Stays until deleted, or swept when it has no children and was not changed for so long.
    Ttl {
        /// How long, milliseconds, 1 to [`Create::TTL_MAX_MS`].
        ms: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Create {
    pub directory: ZnodePath,
    /// Its name there; with `sequential` the beginning of it, which may be empty.
    pub name: String,
    pub data: Data,
    pub kind: CreateKind,
    /// Whether the directory's counter is appended to the name, as ten digits or more.
    pub sequential: bool,
    /// Its access list; none lets everybody do everything.
    pub acl: Option<Vec<AclEntry>>,
    /// Whether to create the directories on the way as well, if they are missing.
    pub parents: bool,
}

impl Multi {
    /// Operations and conditions of one multi at most.
    pub const OPS_MAX: usize = 1000;
}

impl Create {
    /// The longest time-to-live of a znode, milliseconds: 40 bits, as `ZooKeeper` keeps it.
    pub const TTL_MAX_MS: u64 = (1 << 40) - 1;
}
