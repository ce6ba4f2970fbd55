//! What a client asks, after the connect exchange.
//!
//! Owns the list of requests and which reply each has. Refuses to validate: paths, flags and modes are as they
//! came. The bodies' layouts are in `decode` and `encode`, one arm each.

mod decode;
mod encode;

use bytes::Bytes;

pub use decode::decode_request;
pub use encode::encode_request;

use crate::{Acl, AddWatchMode, Create, CreateOp, MultiOp, ReadOp, ReplyKind, WatcherType, op};

/// What every request begins with.
///
/// # Format
/// `int xid, int op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestHeader {
    /// The client's number, echoed in the reply; see [`crate::xid`].
    pub xid: i32,
    /// The operation; see [`crate::op`].
    pub op: i32,
}

/// A change of the ensemble.
///
/// # Format
/// `string joiningServers, string leavingServers, string newMembers, long curConfigId`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reconfig {
    /// Servers to be added.
    pub joining: Option<String>,
    /// Servers to be removed.
    pub leaving: Option<String>,
    /// The whole new list instead.
    pub members: Option<String>,
    /// The configuration that is to be changed; −1 for any.
    pub config_id: i64,
}

/// Watches to be armed again after a reconnect.
///
/// # Format
/// `long relativeZxid`, then a vector of paths for each of the lists; the last two only under
/// [`op::SET_WATCHES2`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetWatches {
    /// What the client has seen: changes after it are told at once.
    pub relative_zxid: i64,
    /// Watches on data.
    pub data: Vec<String>,
    /// Watches on nodes that did not exist.
    pub exist: Vec<String>,
    /// Watches on children.
    pub child: Vec<String>,
    /// Persistent watches.
    pub persistent: Vec<String>,
    /// Persistent watches on whole subtrees.
    pub recursive: Vec<String>,
}

/// A request, one variant for each kind of body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Make a node, by any of the four operations. Reply: [`ReplyKind::Created`] or [`ReplyKind::Created2`].
    Create(Create),
    /// Delete a node. `string path, int version`; reply: nothing.
    Delete {
        /// Which.
        path: String,
        /// The version it must have; −1 for any.
        version: i32,
    },
    /// A node's stat. `string path, bool watch`; reply: the stat.
    Exists {
        /// Which node.
        path: String,
        /// Whether to leave a watch, even if the node is missing.
        watch: bool,
    },
    /// A node's data. `string path, bool watch`; reply: data and stat.
    GetData {
        /// Which node.
        path: String,
        /// Whether to leave a watch.
        watch: bool,
    },
    /// Replace a node's data. `string path, buffer data, int version`; reply: the stat.
    SetData {
        /// Which node.
        path: String,
        /// With what.
        data: Option<Bytes>,
        /// The version it must have; −1 for any.
        version: i32,
    },
    /// A node's access list. `string path`; reply: the list and the stat.
    GetAcl {
        /// Which node.
        path: String,
    },
    /// Replace a node's access list. `string path, vector<acl>, int version`; reply: the stat.
    SetAcl {
        /// Which node.
        path: String,
        /// With what.
        acl: Vec<Acl>,
        /// The version the list must have; −1 for any.
        version: i32,
    },
    /// Names of a node's children. `string path, bool watch`; reply: the names.
    GetChildren {
        /// Which node.
        path: String,
        /// Whether to leave a watch.
        watch: bool,
    },
    /// Names of a node's children, and its stat. `string path, bool watch`; reply: both.
    GetChildren2 {
        /// Which node.
        path: String,
        /// Whether to leave a watch.
        watch: bool,
    },
    /// Bring this server up to date. `string path`; reply: the path.
    Sync {
        /// Any path; nothing is looked up.
        path: String,
    },
    /// A sign of life; reply: nothing.
    Ping,
    /// Compare a node's version. `string path, int version`; meant for multis. Reply: nothing, not even a header if
    /// the version is right, from `ZooKeeper` 3.8.
    Check {
        /// Which node.
        path: String,
        /// The version it must have; −1 for any.
        version: i32,
    },
    /// Several writes, all or none; reply: a result each.
    Multi(Vec<MultiOp>),
    /// Several reads; reply: a result each.
    MultiRead(Vec<ReadOp>),
    /// Change the ensemble; reply: data and stat of the configuration's node.
    Reconfig(Reconfig),
    /// Whether such a watch is there. `string path, int type`; reply: nothing.
    CheckWatches {
        /// Of which node.
        path: String,
        /// Which watches.
        kind: WatcherType,
    },
    /// Take watches away. `string path, int type`; reply: nothing.
    RemoveWatches {
        /// Of which node.
        path: String,
        /// Which watches.
        kind: WatcherType,
    },
    /// Sweep a container: servers among themselves. The body is not read.
    DeleteContainer,
    /// Say who one is. `int type, string scheme, buffer auth`; reply: nothing.
    Auth {
        /// 0.
        kind: i32,
        /// How it is proven.
        scheme: String,
        /// The proof.
        auth: Option<Bytes>,
    },
    /// Arm watches again; reply: nothing.
    SetWatches(SetWatches),
    /// A step of a SASL exchange. `buffer token`; reply: the server's token.
    Sasl {
        /// The client's.
        token: Option<Bytes>,
    },
    /// The session's ephemeral nodes. `string prefixPath`; reply: their paths.
    GetEphemerals {
        /// The beginning of their paths.
        prefix: String,
    },
    /// How many nodes are below a path, at any depth. `string path`; reply: the number.
    GetAllChildrenNumber {
        /// Which.
        path: String,
    },
    /// Add a persistent watch. `string path, int mode`; reply: the number 0.
    AddWatch {
        /// On which path.
        path: String,
        /// How it behaves.
        mode: AddWatchMode,
    },
    /// Whom the server takes this client for; reply: identities.
    WhoAmI,
    /// End the session; reply: nothing, then the connection ends.
    CloseSession,
    /// An operation that this crate does not know, by its number; the body is not read. Reply:
    /// [`crate::ErrorCode::Unimplemented`], and `ZooKeeper` then ends the connection.
    Unknown(i32),
}

impl Request {
    /// The operation's number. [`SetWatches`] is 105 only if it has watches that 101 cannot carry.
    pub fn op(&self) -> i32 {
        match self {
            Self::Create(create) => create.op.op(),
            Self::Delete { .. } => op::DELETE,
            Self::Exists { .. } => op::EXISTS,
            Self::GetData { .. } => op::GET_DATA,
            Self::SetData { .. } => op::SET_DATA,
            Self::GetAcl { .. } => op::GET_ACL,
            Self::SetAcl { .. } => op::SET_ACL,
            Self::GetChildren { .. } => op::GET_CHILDREN,
            Self::GetChildren2 { .. } => op::GET_CHILDREN2,
            Self::Sync { .. } => op::SYNC,
            Self::Ping => op::PING,
            Self::Check { .. } => op::CHECK,
            Self::Multi(_) => op::MULTI,
            Self::MultiRead(_) => op::MULTI_READ,
            Self::Reconfig(_) => op::RECONFIG,
            Self::CheckWatches { .. } => op::CHECK_WATCHES,
            Self::RemoveWatches { .. } => op::REMOVE_WATCHES,
            Self::DeleteContainer => op::DELETE_CONTAINER,
            Self::Auth { .. } => op::AUTH,
            Self::SetWatches(watches) => watches.op(),
            Self::Sasl { .. } => op::SASL,
            Self::GetEphemerals { .. } => op::GET_EPHEMERALS,
            Self::GetAllChildrenNumber { .. } => op::GET_ALL_CHILDREN_NUMBER,
            Self::AddWatch { .. } => op::ADD_WATCH,
            Self::WhoAmI => op::WHO_AM_I,
            Self::CloseSession => op::CLOSE_SESSION,
            Self::Unknown(op) => *op,
        }
    }

    /// What its reply looks like, if that is no error: what a client must know to read it.
    pub fn reply_kind(&self) -> ReplyKind {
        match self {
            Self::Create(create) if create.op == CreateOp::Create => ReplyKind::Created,
            Self::Create(_) => ReplyKind::Created2,
            Self::Exists { .. } | Self::SetData { .. } | Self::SetAcl { .. } => ReplyKind::Stat,
            Self::GetData { .. } | Self::Reconfig(_) => ReplyKind::Data,
            Self::GetAcl { .. } => ReplyKind::Acl,
            Self::GetChildren { .. } => ReplyKind::Children,
            Self::GetChildren2 { .. } => ReplyKind::Children2,
            Self::Sync { .. } => ReplyKind::Sync,
            Self::Multi(_) => ReplyKind::Multi,
            Self::MultiRead(_) => ReplyKind::MultiRead,
            Self::Sasl { .. } => ReplyKind::Sasl,
            Self::GetEphemerals { .. } => ReplyKind::Ephemerals,
            Self::GetAllChildrenNumber { .. } => ReplyKind::ChildrenCount,
            Self::AddWatch { .. } => ReplyKind::AddWatch,
            Self::WhoAmI => ReplyKind::WhoAmI,
            Self::Delete { .. }
            | Self::Ping
            | Self::Check { .. }
            | Self::CheckWatches { .. }
            | Self::RemoveWatches { .. }
            | Self::DeleteContainer
            | Self::Auth { .. }
            | Self::SetWatches(_)
            | Self::CloseSession
            | Self::Unknown(_) => ReplyKind::Empty,
        }
    }
}

impl SetWatches {
    /// 105 if there are watches that 101 cannot carry, else 101.
    pub(crate) fn op(&self) -> i32 {
        let persistent = !self.persistent.is_empty() || !self.recursive.is_empty();
        if persistent { op::SET_WATCHES2 } else { op::SET_WATCHES }
    }
}
