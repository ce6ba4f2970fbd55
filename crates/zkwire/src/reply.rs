//! The replies of a server.
//!
//! A reply does not contain its kind: the client derives the [`ReplyKind`] from its request. An error has no body.

use bytes::{Bytes, BytesMut};

use crate::jute::{Reader, Record, Sink};
use crate::multi::write_items;
use crate::{Acl, AuthId, DecodeError, ErrorCode, MultiResult, ReadResult, Stat, frame};

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

/// Appends the frame of a reply. An error has only a header.
///
/// A body of two gigabytes or more becomes [`ErrorCode::MarshallingError`]. The front-end sets a smaller limit with
/// [`Response::body_len`].
pub fn append_reply(out: &mut BytesMut, xid: i32, zxid: i64, result: Result<&Response, ErrorCode>) {
    if frame::append(out, &ReplyFrame { xid, zxid, result }).is_err() {
        append_reply(out, xid, zxid, Err(ErrorCode::MarshallingError));
    }
}

/// Encodes a reply; see [`append_reply`].
pub fn encode_reply(xid: i32, zxid: i64, result: Result<&Response, ErrorCode>) -> Bytes {
    let mut out = BytesMut::new();
    append_reply(&mut out, xid, zxid, result);
    out.freeze()
}

struct ReplyFrame<'a> {
    xid: i32,
    zxid: i64,
    result: Result<&'a Response, ErrorCode>,
}

impl Record for ReplyFrame<'_> {
    fn write<S: Sink>(&self, out: &mut S) {
        let err = self.result.map_or_else(ErrorCode::code, |_| 0);
        ReplyHeader { xid: self.xid, zxid: self.zxid, err }.write(out);
        if let Ok(response) = self.result {
            response.write(out);
        }
    }
}

impl Record for ReplyHeader {
    fn write<S: Sink>(&self, out: &mut S) {
        out.int(self.xid);
        out.long(self.zxid);
        out.int(self.err);
    }
}

impl Response {
    /// The bytes of the body in a frame, without header and length prefix. Does not allocate.
    pub fn body_len(&self) -> usize {
        frame::len_of(self)
    }
}

impl Record for Response {
    fn write<S: Sink>(&self, out: &mut S) {
        match self {
            Self::Created { path } | Self::Sync { path } => out.string(path),
            Self::Created2 { path, stat } => {
                out.string(path);
                stat.write(out);
            }
            Self::Stat(stat) => stat.write(out),
            Self::Data { data, stat } => {
                out.buffer(data.as_deref());
                stat.write(out);
            }
            Self::Acl { acl, stat } => {
                out.vector(acl, |out, acl| acl.write(out));
                stat.write(out);
            }
            Self::Children(names) | Self::Ephemerals(names) => out.strings(names),
            Self::Children2 { children, stat } => {
                out.strings(children);
                stat.write(out);
            }
            Self::Multi(results) => write_items(out, results),
            Self::MultiRead(results) => write_items(out, results),
            Self::ChildrenCount(count) => out.int(*count),
            Self::AddWatch => out.int(0),
            Self::WhoAmI(ids) => out.vector(ids, |out, id| id.write(out)),
            Self::Sasl { token } => out.buffer(token.as_deref()),
            Self::Empty => {}
        }
    }
}

/// Decodes the header of a reply or an event, which has the number of the request.
///
/// # Errors
/// [`DecodeError`] if the frame is shorter than a header.
pub fn decode_reply_header(frame: &Bytes) -> Result<ReplyHeader, DecodeError> {
    ReplyHeader::read(&mut Reader::new(frame.clone()))
}

/// Decodes a reply. The body is `None` if the header has an error. Data shares the memory of the frame.
///
/// # Errors
/// [`DecodeError`] if the frame is not a reply of this kind.
pub fn decode_reply(
    kind: ReplyKind,
    frame: Bytes,
) -> Result<(ReplyHeader, Option<Response>), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = ReplyHeader::read(&mut reader)?;
    if header.err != 0 {
        return Ok((header, None));
    }
    Ok((header, Some(Response::read(&mut reader, kind)?)))
}

impl ReplyHeader {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { xid: reader.int("xid")?, zxid: reader.long("zxid")?, err: reader.int("err")? })
    }
}

impl Response {
    fn read(r: &mut Reader, kind: ReplyKind) -> Result<Self, DecodeError> {
        Ok(match kind {
            ReplyKind::Created => Self::Created { path: r.string("path")? },
            ReplyKind::Created2 => Self::Created2 { path: r.string("path")?, stat: Stat::read(r)? },
            ReplyKind::Stat => Self::Stat(Stat::read(r)?),
            ReplyKind::Data => Self::Data { data: r.buffer("data")?, stat: Stat::read(r)? },
            ReplyKind::Acl => Self::Acl { acl: Acl::read_all(r)?, stat: Stat::read(r)? },
            ReplyKind::Children => Self::Children(r.strings("children")?),
            ReplyKind::Children2 => {
                Self::Children2 { children: r.strings("children")?, stat: Stat::read(r)? }
            }
            ReplyKind::Sync => Self::Sync { path: r.string_or_empty("path")? },
            ReplyKind::Multi => Self::Multi(MultiResult::read_all(r)?),
            ReplyKind::MultiRead => Self::MultiRead(ReadResult::read_all(r)?),
            ReplyKind::Ephemerals => Self::Ephemerals(r.strings("ephemerals")?),
            ReplyKind::ChildrenCount => Self::ChildrenCount(r.int("totalNumber")?),
            ReplyKind::AddWatch => r.int("err").map(|_| Self::AddWatch)?,
            ReplyKind::WhoAmI => Self::WhoAmI(AuthId::read_all(r)?),
            ReplyKind::Sasl => Self::Sasl { token: r.buffer("token")? },
            ReplyKind::Empty => Self::Empty,
        })
    }
}
