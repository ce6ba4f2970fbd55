//! What a server answers.
//!
//! Owns the list of answers. A reply does not say what it is: the client knows what it asked, and names it as a
//! [`ReplyKind`]. An error has no body. Refuses to know which zxid a reply carries.

mod decode;
mod encode;

use bytes::Bytes;

pub use decode::{decode_reply, decode_reply_header};
pub use encode::{append_reply, encode_reply};

use crate::{Acl, AuthId, ErrorCode, MultiResult, ReadResult, Stat};

/// What every reply begins with.
///
/// # Format
/// `int xid, long zxid, int err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyHeader {
    /// The request's number.
    pub xid: i32,
    /// A write's own, or the last that the server had applied when it read. `ZooKeeper` says 0 in the replies to `auth` and
    /// `sasl`, and −1 to an operation that it does not know.
    pub zxid: i64,
    /// 0, or the number of an [`ErrorCode`].
    pub err: i32,
}

impl ReplyHeader {
    /// The error, if there is one and it is known.
    pub fn error(&self) -> Option<ErrorCode> {
        ErrorCode::from_code(self.err)
    }
}

/// The body of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    /// A node was made. `string path`.
    Created {
        /// With its number, if it is sequential.
        path: String,
    },
    /// A node was made. `string path, stat`.
    Created2 {
        /// With its number, if it is sequential.
        path: String,
        /// Its stat.
        stat: Stat,
    },
    /// A node's stat.
    Stat(Stat),
    /// `buffer data, stat`.
    Data {
        /// What the node holds.
        data: Option<Bytes>,
        /// Its stat.
        stat: Stat,
    },
    /// `vector<acl>, stat`.
    Acl {
        /// The access list.
        acl: Vec<Acl>,
        /// The node's stat.
        stat: Stat,
    },
    /// Names of the children, without their parent's path. `vector<string>`.
    Children(Vec<String>),
    /// `vector<string>, stat`.
    Children2 {
        /// Names of the children.
        children: Vec<String>,
        /// The node's stat.
        stat: Stat,
    },
    /// `string path`.
    Sync {
        /// As it was asked.
        path: String,
    },
    /// A result for each item, also if the multi failed: the reply's error is 0 then, too.
    Multi(Vec<MultiResult>),
    /// A result for each item.
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
    Sasl {
        /// The server's.
        token: Option<Bytes>,
    },
    /// No body.
    Empty,
}

/// Which variant of [`Response`] a body is to be read as; from [`crate::Request::reply_kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyKind {
    /// [`Response::Created`].
    Created,
    /// [`Response::Created2`].
    Created2,
    /// [`Response::Stat`].
    Stat,
    /// [`Response::Data`].
    Data,
    /// [`Response::Acl`].
    Acl,
    /// [`Response::Children`].
    Children,
    /// [`Response::Children2`].
    Children2,
    /// [`Response::Sync`].
    Sync,
    /// [`Response::Multi`].
    Multi,
    /// [`Response::MultiRead`].
    MultiRead,
    /// [`Response::Ephemerals`].
    Ephemerals,
    /// [`Response::ChildrenCount`].
    ChildrenCount,
    /// [`Response::AddWatch`].
    AddWatch,
    /// [`Response::WhoAmI`].
    WhoAmI,
    /// [`Response::Sasl`].
    Sasl,
    /// [`Response::Empty`].
    Empty,
}

impl ReplyKind {
    /// All of them.
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
