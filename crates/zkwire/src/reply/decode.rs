//! Decodes replies, for clients.

use bytes::Bytes;

use super::{ReplyHeader, ReplyKind, Response};
use crate::jute::Reader;
use crate::{Acl, AuthId, DecodeError, MultiResult, ReadResult, Stat};

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
