//! Encodes replies.
//!
//! The bytes of a frame are counted before it is written, so that one allocation is enough. [`Response::body_len`] lets a
//! front-end refuse a reply that is too large.

use bytes::{Bytes, BytesMut};

use super::{ReplyHeader, Response};
use crate::jute::{Record, Sink};
use crate::{ErrorCode, MultiResult, ReadResult, frame};

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
            Self::Multi(results) => MultiResult::write_all(out, results),
            Self::MultiRead(results) => ReadResult::write_all(out, results),
            Self::ChildrenCount(count) => out.int(*count),
            Self::AddWatch => out.int(0),
            Self::WhoAmI(ids) => out.vector(ids, |out, id| id.write(out)),
            Self::Sasl { token } => out.buffer(token.as_deref()),
            Self::Empty => {}
        }
    }
}
