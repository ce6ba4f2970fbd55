//! The replies of a server.
//!
//! A reply does not contain its kind: the client derives the [`ReplyKind`] from its request. An error has no body.

mod decode;
mod encode;

use bytes::Bytes;

pub use decode::{decode_reply, decode_reply_header};
pub use encode::{append_reply, encode_reply};

use crate::{Acl, AuthId, ErrorCode, MultiResult, ReadResult, Stat};

/// The header of every reply.
///
/// # Format
/// `int xid, long zxid, int err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyHeader {
    /// The number of the request.
    pub xid: i32,
    /// The zxid of a write, or the last one that the server had applied at a read. ZooKeeper sends 0 in the replies to `auth`
    /// and `sasl`, and −1 for an unknown operation.
    pub zxid: i64,
    /// 0, or the number of an [`ErrorCode`].
    pub err: i32,
}

impl ReplyHeader {
    /// `None` without an error and for an unknown one.
    pub fn error(&self) -> Option<ErrorCode> {
        ErrorCode::from_code(self.err)
    }
}

/// The body of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    /// `string path`.
    Created {
        /// With the number of a sequential node.
        path: String,
    },
    /// `string path, stat`.
    Created2 {
        /// With the number of a sequential node.
        path: String,
        stat: Stat,
    },
    /// A node's stat.
    Stat(Stat),
    /// `buffer data, stat`.
    Data { data: Option<Bytes>, stat: Stat },
    /// `vector<acl>, stat`.
    Acl { acl: Vec<Acl>, stat: Stat },
    /// Names of the children, without their parent's path. `vector<string>`.
    Children(Vec<String>),
    /// `vector<string>, stat`.
    Children2 { children: Vec<String>, stat: Stat },
    /// `string path`.
    Sync {
        /// The path as requested.
        path: String,
    },
    /// One result for each item, also of a failed multi: the error of the reply is 0 then, too.
    Multi(Vec<MultiResult>),
    /// One result for each item.
    MultiRead(Vec<ReadResult>),
    /// Paths of ephemeral nodes. `vector<string>`.
    Ephemerals(Vec<String>),
    /// `int totalNumber`.
    ChildrenCount(i32),
    /// `int 0`.
    AddWatch,
    /// `vector<(string scheme, string id)>`.
    WhoAmI(Vec<AuthId>),
    /// `buffer token`.
    Sasl { token: Option<Bytes> },
    /// No body.
    Empty,
}

/// The variant of [`Response`] as which a body is decoded; from [`crate::Request::reply_kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyKind {
    Created,
    Created2,
    Stat,
    Data,
    Acl,
    Children,
    Children2,
    Sync,
    Multi,
    MultiRead,
    Ephemerals,
    ChildrenCount,
    AddWatch,
    WhoAmI,
    Sasl,
    Empty,
}

impl ReplyKind {
    pub const ALL: &[Self] = &[
        Self::Created,
        Self::Created2,
        Self::Stat,
        Self::Data,
        Self::Acl,
        Self::Children,
        Self::Children2,
        Self::Sync,
        Self::Multi,
        Self::MultiRead,
        Self::Ephemerals,
        Self::ChildrenCount,
        Self::AddWatch,
        Self::WhoAmI,
        Self::Sasl,
        Self::Empty,
    ];
}
