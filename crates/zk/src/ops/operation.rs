//! A request, translated: the call of the service's stream, and the format of the reply.

use std::sync::Arc;

use holdfast_service::{StreamRead, WatchKind, WatchMode, WatchSet};
use holdfast_types::{Multi, Revision, ZnodePath};
use holdfast_zkwire::{ErrorCode, Response};

use crate::identity::Identities;
use crate::paths;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZkOperation {
    pub(crate) call: StreamCall,
    pub(crate) format: ReplyFormat,
}

/// A call of `holdfast_service::SessionStream`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamCall {
    /// No call: the reply is known. It still keeps its position among the replies.
    Nothing,
    /// One read, and whether it sets a watch.
    Read(StreamRead, bool),
    /// Several reads at one revision.
    ReadMany(Vec<StreamRead>),
    Write(Multi),
    /// Waits until this node has caught up.
    Sync,
    /// Sets a persistent watch.
    AddWatch(ZnodePath, WatchMode),
    CheckWatches(ZnodePath, WatchKind),
    RemoveWatches(ZnodePath, WatchKind),
    /// Sets the watches of an earlier connection again.
    SetWatches(Revision, WatchSet),
    /// Ends the session.
    Close,
    /// Adds an identity: scheme and credentials.
    Authenticate(String, Vec<u8>),
}

/// How a result of the service becomes a reply. It is kept until the result arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplyFormat {
    /// Known without a call.
    Fixed(Result<Response, ErrorCode>),
    /// An error, after which the connection closes.
    Disconnect(ErrorCode),
    Empty,
    /// The path as requested.
    Sync(String),
    /// `ops/reads.rs`.
    Read(ReadFormat),
    MultiRead(Vec<MultiReadItem>),
    /// `ops/writes.rs`.
    Write(WriteFormat),
    Multi(Vec<WriteFormat>),
    /// `ops/watches.rs`.
    AddWatch,
    /// Empty if such a watch exists, else an error.
    WatchExists,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadFormat {
    Exists,
    Data,
    /// Names of the children.
    Children,
    /// Names of the children, and the stat of the parent.
    Children2,
    Acl,
    Ephemerals,
    DescendantCount,
    /// Another format, of a node that is shown with this data instead of its own.
    WithData(Arc<str>, Box<ReadFormat>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MultiReadItem {
    Data,
    /// This data instead of the node's own.
    WithData(Arc<str>),
    Children,
    /// No node can have this path: no read was made.
    NoNode,
}

/// The result of one operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteFormat {
    /// The path of the new node.
    Created,
    /// The path and the stat of the new node.
    Created2,
    Deleted,
    /// The stat of the changed node.
    Stat,
    Checked,
    /// The operation always fails with this error, unless the node that decides about it is missing.
    Refused(ErrorCode),
}

impl ZkOperation {
    pub(crate) fn new(call: StreamCall, format: ReplyFormat) -> Self {
        Self { call, format }
    }

    pub(crate) fn fixed(reply: Result<Response, ErrorCode>) -> Self {
        Self::new(StreamCall::Nothing, ReplyFormat::Fixed(reply))
    }

    pub(crate) fn error(code: ErrorCode) -> Self {
        Self::fixed(Err(code))
    }
}

/// The context of a connection for translating requests.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) identities: Identities,
    /// The data shown at [`paths::CONFIG`]; `None` shows what the tree has there, which is nothing.
    pub(crate) members: Option<Arc<str>>,
}

impl ConnectionContext {
    pub(crate) fn members_at(&self, path: &str) -> Option<Arc<str>> {
        self.members.clone().filter(|_| path == paths::CONFIG)
    }
}
