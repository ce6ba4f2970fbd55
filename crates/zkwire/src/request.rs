//! The requests of a client after the connect exchange, with the kind of reply to each.
//!
//! Paths, flags and modes are not validated. `layout` has the layouts of the bodies.

mod layout;

use bytes::Bytes;

pub use layout::{decode_request, encode_request};

use crate::{Acl, AddWatchMode, Create, CreateOp, MultiOp, ReadOp, ReplyKind, WatcherType, op};

/// The header of every request.
///
/// # Format
/// `int xid, int op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestHeader {
    /// The client's number, which the reply repeats; see [`crate::xid`].
    pub xid: i32,
    /// One of [`crate::op`].
    pub op: i32,
}

/// A change of the ensemble's members.
///
/// # Format
/// `string joiningServers, string leavingServers, string newMembers, long curConfigId`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reconfig {
    pub joining: Option<String>,
    pub leaving: Option<String>,
    /// The complete new list, instead of a change.
    pub members: Option<String>,
    /// The expected version of the configuration; −1 matches any.
    pub config_id: i64,
}

/// Watches to set again after a reconnect.
///
/// # Format
/// `long relativeZxid`, then a vector of paths for each of the lists; the last two only under
/// [`op::SET_WATCHES2`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetWatches {
    /// The last zxid that the client has seen: later changes fire at once.
    pub relative_zxid: i64,
    pub data: Vec<String>,
    /// Watches on missing nodes.
    pub exist: Vec<String>,
    pub child: Vec<String>,
    pub persistent: Vec<String>,
    /// Persistent watches on subtrees.
    pub recursive: Vec<String>,
}

/// A request; one variant for each layout of the body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Create a node, with any of the four operations. Reply: [`ReplyKind::Created`] or [`ReplyKind::Created2`].
    Create(Create),
    /// Delete a node. `string path, int version`; reply: nothing.
    Delete {
        path: String,
        /// The expected version; −1 matches any.
        version: i32,
    },
    /// Read the stat of a node. `string path, bool watch`; reply: the stat.
    Exists {
        path: String,
        /// Whether to set a watch, even if the node is missing.
        watch: bool,
    },
    /// Read the data of a node. `string path, bool watch`; reply: data and stat.
    GetData { path: String, watch: bool },
    /// Replace a node's data. `string path, buffer data, int version`; reply: the stat.
    SetData {
        path: String,
        data: Option<Bytes>,
        /// The expected version; −1 matches any.
        version: i32,
    },
    /// Read the access list of a node. `string path`; reply: the list and the stat.
    GetAcl { path: String },
    /// Replace a node's access list. `string path, vector<acl>, int version`; reply: the stat.
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        /// The expected version of the access list; −1 matches any.
        version: i32,
    },
    /// Read the names of the children. `string path, bool watch`; reply: the names.
    GetChildren { path: String, watch: bool },
    /// Read the names of the children, and the stat of the node. `string path, bool watch`; reply: both.
    GetChildren2 { path: String, watch: bool },
    /// Bring this server up to date. `string path`; reply: the path.
    Sync { path: String },
    /// Keep the session alive; reply: nothing.
    Ping,
    /// Compare a node's version. `string path, int version`; intended for multis. Reply: nothing. From
    /// ZooKeeper 3.8 not even a header if the version matches.
    Check {
        path: String,
        /// The expected version; −1 matches any.
        version: i32,
    },
    /// Several writes, all or none; reply: one result for each.
    Multi(Vec<MultiOp>),
    /// Several reads; reply: one result for each.
    MultiRead(Vec<ReadOp>),
    /// Change the ensemble; reply: data and stat of the configuration's node.
    Reconfig(Reconfig),
    /// Check that a watch exists. `string path, int type`; reply: nothing.
    CheckWatches { path: String, kind: WatcherType },
    /// Remove watches. `string path, int type`; reply: nothing.
    RemoveWatches { path: String, kind: WatcherType },
    /// Delete a container, between servers. The body is not decoded.
    DeleteContainer,
    /// Add an identity. `int type, string scheme, buffer auth`; reply: nothing.
    Auth { kind: i32, scheme: String, auth: Option<Bytes> },
    /// Set watches again; reply: nothing.
    SetWatches(SetWatches),
    /// A step of a SASL exchange. `buffer token`; reply: the server's token.
    Sasl { token: Option<Bytes> },
    /// List the ephemeral nodes of the session. `string prefixPath`; reply: their paths.
    GetEphemerals { prefix: String },
    /// Count the nodes below a path, at any depth. `string path`; reply: the number.
    GetAllChildrenNumber { path: String },
    /// Add a persistent watch. `string path, int mode`; reply: the number 0.
    AddWatch { path: String, mode: AddWatchMode },
    /// Read the identities of the connection; reply: identities.
    WhoAmI,
    /// Close the session; reply: nothing, then the connection closes.
    CloseSession,
    /// An unknown operation; the body is not decoded. Reply: [`crate::ErrorCode::Unimplemented`], and ZooKeeper then closes
    /// the connection.
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

    /// The kind of a reply without an error, which a client needs to decode it.
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
    fn op(&self) -> i32 {
        let persistent = !self.persistent.is_empty() || !self.recursive.is_empty();
        if persistent { op::SET_WATCHES2 } else { op::SET_WATCHES }
    }
}
