//! Requests of a stream, and the items that it sends to its client: replies, notices, and the end.

use std::collections::BTreeMap;

use holdfast_machine::Descendants;
use holdfast_types::{
    AclEntry, Data, MemberAddresses, NodeId, OpReply, Rejection, Revision, Stat, ZnodePath,
};

use crate::request::Failure;

/// A read of this node's state. `Data` and `Children` arm a watch only if the node exists; `Exists` always arms it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamRead {
    /// Whether a node exists. The access list does not apply.
    Exists(ZnodePath),
    Data(ZnodePath),
    Children(ZnodePath),
    /// A node's access list. Arms no watch.
    Acl(ZnodePath),
    /// The session's ephemeral nodes whose paths begin with this text. Arms no watch.
    Ephemerals(String),
    /// The nodes below a node. Arms no watch.
    Descendants(ZnodePath),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamAnswer {
    Exists(Stat),
    Data {
        data: Data,
        stat: Stat,
    },
    Children {
        /// Sorted.
        names: Vec<String>,
        stat: Stat,
    },
    Acl {
        /// Hashes are masked for callers that may not change the list.
        acl: Vec<AclEntry>,
        stat: Stat,
    },
    Ephemerals(Vec<ZnodePath>),
    /// The answer to a read of [`ZnodePath::CONFIG`], and the members of which its znode tells.
    OfMembers {
        answer: Box<StreamAnswer>,
        members: BTreeMap<NodeId, MemberAddresses>,
    },
    /// The front-end counts them: there can be millions, and this answer is made while the machine is locked.
    Descendants(Box<Descendants>),
    /// The results of several reads at one revision, in order.
    Many(Vec<Result<StreamAnswer, Rejection>>),
    /// The results of a write.
    Multi {
        /// Whether the conditions held.
        succeeded: bool,
        /// One result for each executed operation.
        results: Vec<OpReply>,
    },
    /// Whether a matching watch existed.
    Watched(bool),
    /// Success without data: a sync, a ping, new watches, the close.
    Done,
}

impl StreamAnswer {
    /// The bytes of the data and the names in an answer to one read.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Data { data, .. } => data.len(),
            Self::Children { names, .. } => names.iter().map(String::len).sum(),
            Self::Exists(_)
            | Self::Acl { .. }
            | Self::Ephemerals(_)
            | Self::OfMembers { .. }
            | Self::Descendants(_)
            | Self::Many(_)
            | Self::Multi { .. }
            | Self::Watched(_)
            | Self::Done => 0,
        };
        bytes as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// Fires for each change of one node and of its list of children.
    Persistent,
    /// Fires for each creation, deletion and data change of one node and its descendants.
    PersistentRecursive,
}

/// The watches that a check or a removal selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    Child,
    /// Watches on data or existence.
    Data,
    Any,
}

/// The watches of a returning client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchSet {
    /// Set by reading data, or by checking the existence of existing nodes.
    pub data: Vec<ZnodePath>,
    /// Set by checking the existence of missing nodes.
    pub exist: Vec<ZnodePath>,
    /// Set by reading children.
    pub child: Vec<ZnodePath>,
    pub persistent: Vec<ZnodePath>,
    pub persistent_recursive: Vec<ZnodePath>,
}

impl WatchSet {
    /// A persistent watch counts twice.
    pub fn len(&self) -> usize {
        let Self { data, exist, child, persistent, persistent_recursive } = self;
        data.len()
            + exist.len()
            + child.len()
            + 2 * persistent.len()
            + 2 * persistent_recursive.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    Created,
    Deleted,
    /// The data of the node was replaced.
    Changed,
    /// A child of the node was created or deleted.
    ChildrenChanged,
}

/// The event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The revision of the change; for a change that a disconnected client missed, the revision at which it is
    /// reported.
    pub revision: Revision,
    pub kind: NoticeKind,
    pub path: ZnodePath,
}

#[derive(Clone, Debug)]
pub struct StreamReply {
    /// The tag of the request.
    pub tag: i64,
    /// The revision of the write, or of the state that a read saw; 0 if nothing was read.
    pub revision: Revision,
    pub result: Result<StreamAnswer, Failure>,
}

/// Why a stream ended. The front-end closes the connection after it has written everything before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamEnd {
    Closed,
    Expired,
    /// Another connection to this node has attached to the session.
    Moved,
    /// The client did not read its notices; queued items are dropped. The client sets its watches again when it
    /// reconnects.
    Overflow,
    /// This node has skipped entries, so its watches may have missed changes. A client that reconnects and sets its
    /// watches relative to the last seen revision misses nothing.
    EntriesSkipped,
    /// The session could not be renewed for two thirds of its TTL: another node may succeed.
    CutOff,
    /// The outcome of a write is unknown. No later write was done.
    Unknown,
    /// The node is shutting down.
    ShuttingDown,
}

/// An item for the client.
#[derive(Clone, Debug)]
pub enum Outgoing {
    Reply(StreamReply),
    Notice(Notice),
    /// The last item.
    End(StreamEnd),
}
