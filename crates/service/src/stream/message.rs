//! Requests of a stream, and what it sends to its client: replies, notices, and its end.

use holdfast_types::{AclEntry, Data, OpReply, Rejection, Revision, Stat, ZnodePath};

use crate::failure::Failure;

/// What a stream reads, from this node as it is now. The rules for watches are those of the read: data and children
/// arm one only if there is such a node, existence arms one either way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamRead {
    /// Whether there is a node. Not guarded by its access list.
    Exists(ZnodePath),
    /// A node's data.
    Data(ZnodePath),
    /// The names of a node's children.
    Children(ZnodePath),
    /// A node's access list. Arms no watch.
    Acl(ZnodePath),
    /// The stream's own ephemerals whose paths begin so. Arms no watch.
    Ephemerals(String),
    /// How many nodes lie below a node. Arms no watch.
    Descendants(ZnodePath),
}

/// What a stream is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamAnswer {
    /// To [`StreamRead::Exists`].
    Exists(Stat),
    /// To [`StreamRead::Data`].
    Data {
        /// The data.
        data: Data,
        /// The node's stat.
        stat: Stat,
    },
    /// To [`StreamRead::Children`].
    Children {
        /// Their names, sorted.
        names: Vec<String>,
        /// The node's stat.
        stat: Stat,
    },
    /// To [`StreamRead::Acl`].
    Acl {
        /// The list, with hashes masked for those who may not change it.
        acl: Vec<AclEntry>,
        /// The node's stat.
        stat: Stat,
    },
    /// To [`StreamRead::Ephemerals`].
    Ephemerals(Vec<ZnodePath>),
    /// To [`StreamRead::Descendants`].
    Descendants(u64),
    /// To several reads at once, at one revision: one to each.
    Many(Vec<Result<StreamAnswer, Rejection>>),
    /// To a write.
    Multi {
        /// Whether the conditions held.
        succeeded: bool,
        /// One to each operation done.
        results: Vec<OpReply>,
    },
    /// Whether there was such a watch.
    Watched(bool),
    /// It is done, and there is nothing to tell: a sync, client activity, new watches, the close.
    Done,
}

/// What a watch that stays listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// Changes of one node and of the list of its children, each time.
    Persistent,
    /// Creations, deletions and changes of data of one node and everything below it, each time.
    PersistentRecursive,
}

/// Which watches are asked about or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// Those on a node's children.
    Child,
    /// Those on a node's data or existence.
    Data,
    /// All of them.
    Any,
}

/// The watches of a client that comes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchSet {
    /// Set by reading data, or by asking for the existence of nodes that were there.
    pub data: Vec<ZnodePath>,
    /// Set by asking for the existence of nodes that were not there.
    pub exist: Vec<ZnodePath>,
    /// Set by reading children.
    pub child: Vec<ZnodePath>,
    /// Persistent ones.
    pub persistent: Vec<ZnodePath>,
    /// Persistent ones for whole subtrees.
    pub persistent_recursive: Vec<ZnodePath>,
}

impl WatchSet {
    /// How many there are.
    pub fn len(&self) -> usize {
        let Self { data, exist, child, persistent, persistent_recursive } = self;
        data.len()
            + exist.len()
            + child.len()
            + 2 * persistent.len()
            + 2 * persistent_recursive.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its data was replaced.
    Changed,
    /// A child of it was created or deleted.
    ChildrenChanged,
}

/// What a watch delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The change. For what a client missed while it was away: the revision at which that was found out.
    pub revision: Revision,
    /// What happened.
    pub kind: NoticeKind,
    /// To which node.
    pub path: ZnodePath,
}

/// A reply with its place in the log.
#[derive(Clone, Debug)]
pub struct StreamReply {
    /// As given with what is answered.
    pub tag: i64,
    /// The write's own revision; that of the node's state for reads. 0 if nothing was looked at.
    pub revision: Revision,
    /// The answer.
    pub result: Result<StreamAnswer, Failure>,
}

/// Why a stream is over. The front-end closes the connection after it has written everything before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamEnd {
    /// The session was closed.
    Closed,
    /// The session's lease ran out.
    Expired,
    /// Another connection to this node has taken the session over.
    Moved,
    /// The client did not read what was sent to it; what was still queued is dropped. Its watches come back when it
    /// connects again.
    Overflow,
    /// This node has skipped entries, and does not know what its watches missed. Nothing is lost for a client that
    /// connects again and sets its watches relative to what it has seen.
    Diverged,
    /// The session could not be renewed for two thirds of its time: another node may be able to.
    CutOff,
    /// A write may or may not have been done. Nothing after it was done.
    Unknown,
    /// The node is about to stop.
    ShuttingDown,
}

/// What goes out to the client, in this order.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// An answer.
    Reply(StreamReply),
    /// A watch fired.
    Notice(Notice),
    /// Nothing comes after it.
    End(StreamEnd),
}
