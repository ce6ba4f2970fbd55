//! The layouts of requests: decoded for servers, encoded for clients.
//!
//! An undecodable header ends the connection. An undecodable body gets an error reply with the number of its header. An
//! encoded request decodes to the same value, except for the cases that [`crate::CreateMode`] and [`Request::op`] describe.

use bytes::Bytes;

use super::{Reconfig, Request, RequestHeader, SetWatches};
use crate::jute::{Reader, Record, Sink};
use crate::multi::write_items;
use crate::{
    Acl, AddWatchMode, Create, CreateOp, DecodeError, FrameError, MultiOp, ReadOp, WatcherType,
    frame, op,
};

/// Decodes a request. Its data shares the memory of the frame.
///
/// # Errors
/// The outer [`DecodeError`] is an undecodable header: close the connection. The inner one is an undecodable body: reply
/// with [`crate::ErrorCode::MarshallingError`]. An unknown operation is [`Request::Unknown`], not an error.
pub fn decode_request(
    frame: Bytes,
) -> Result<(RequestHeader, Result<Request, DecodeError>), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader { xid: reader.int("xid")?, op: reader.int("op")? };
    Ok((header, body(&mut reader, header.op)))
}

fn path(reader: &mut Reader) -> Result<String, DecodeError> {
    reader.string("path")
}

/// A path that may be null, which decodes as empty: ZooKeeper treats both alike.
fn path_or_empty(reader: &mut Reader) -> Result<String, DecodeError> {
    reader.string_or_empty("path")
}

fn version(reader: &mut Reader) -> Result<i32, DecodeError> {
    reader.int("version")
}

fn watch(reader: &mut Reader) -> Result<bool, DecodeError> {
    reader.boolean("watch")
}

fn body(r: &mut Reader, number: i32) -> Result<Request, DecodeError> {
    if let Some(op) = CreateOp::from_op(number) {
        return Create::read(r, op).map(Request::Create);
    }
    Ok(match number {
        op::DELETE => Request::Delete { path: path(r)?, version: version(r)? },
        op::EXISTS => Request::Exists { path: path(r)?, watch: watch(r)? },
        op::GET_DATA => Request::GetData { path: path(r)?, watch: watch(r)? },
        op::SET_DATA => Request::SetData {
            path: path_or_empty(r)?,
            data: r.buffer("data")?,
            version: version(r)?,
        },
        op::GET_ACL => Request::GetAcl { path: path(r)? },
        op::SET_ACL => Request::SetAcl {
            path: path_or_empty(r)?,
            acl: Acl::read_all(r)?,
            version: version(r)?,
        },
        op::GET_CHILDREN => Request::GetChildren { path: path(r)?, watch: watch(r)? },
        op::GET_CHILDREN2 => Request::GetChildren2 { path: path(r)?, watch: watch(r)? },
        op::SYNC => Request::Sync { path: path_or_empty(r)? },
        op::PING => Request::Ping,
        op::CHECK => Request::Check { path: path_or_empty(r)?, version: version(r)? },
        op::MULTI => Request::Multi(MultiOp::read_all(r)?),
        op::MULTI_READ => Request::MultiRead(ReadOp::read_all(r)?),
        op::RECONFIG => Request::Reconfig(reconfig(r)?),
        op::CHECK_WATCHES => Request::CheckWatches { path: path(r)?, kind: watcher(r)? },
        op::REMOVE_WATCHES => Request::RemoveWatches { path: path(r)?, kind: watcher(r)? },
        op::DELETE_CONTAINER => Request::DeleteContainer,
        op::AUTH => auth(r)?,
        op::SET_WATCHES => Request::SetWatches(one_shot_watches(r)?),
        op::SET_WATCHES2 => Request::SetWatches(all_watches(r)?),
        op::SASL => Request::Sasl { token: r.buffer("token")? },
        op::GET_EPHEMERALS => Request::GetEphemerals { prefix: r.string_or_empty("prefixPath")? },
        op::GET_ALL_CHILDREN_NUMBER => Request::GetAllChildrenNumber { path: path(r)? },
        op::ADD_WATCH => Request::AddWatch {
            path: path_or_empty(r)?,
            mode: AddWatchMode::from_code(r.int("mode")?),
        },
        op::WHO_AM_I => Request::WhoAmI,
        op::CLOSE_SESSION => Request::CloseSession,
        op => Request::Unknown(op),
    })
}

fn watcher(reader: &mut Reader) -> Result<WatcherType, DecodeError> {
    reader.int("type").map(WatcherType::from_code)
}

fn auth(reader: &mut Reader) -> Result<Request, DecodeError> {
    Ok(Request::Auth {
        kind: reader.int("type")?,
        scheme: reader.string_or_empty("scheme")?,
        auth: reader.buffer("auth")?,
    })
}

fn reconfig(reader: &mut Reader) -> Result<Reconfig, DecodeError> {
    Ok(Reconfig {
        joining: reader.nullable("joiningServers")?,
        leaving: reader.nullable("leavingServers")?,
        members: reader.nullable("newMembers")?,
        config_id: reader.long("curConfigId")?,
    })
}

fn one_shot_watches(reader: &mut Reader) -> Result<SetWatches, DecodeError> {
    Ok(SetWatches {
        relative_zxid: reader.long("relativeZxid")?,
        data: reader.strings("dataWatches")?,
        exist: reader.strings("existWatches")?,
        child: reader.strings("childWatches")?,
        ..SetWatches::default()
    })
}

fn all_watches(reader: &mut Reader) -> Result<SetWatches, DecodeError> {
    let mut watches = one_shot_watches(reader)?;
    watches.persistent = reader.strings("persistentWatches")?;
    watches.recursive = reader.strings("persistentRecursiveWatches")?;
    Ok(watches)
}

/// Encodes a request as a frame with its length prefix.
///
/// # Errors
/// [`FrameError::TooLong`] if the frame is longer than the length prefix can express. The caller checks the server's limit.
pub fn encode_request(xid: i32, request: &Request) -> Result<Bytes, FrameError> {
    frame::encode(&RequestFrame { xid, request })
}

struct RequestFrame<'a> {
    xid: i32,
    request: &'a Request,
}

impl Record for RequestFrame<'_> {
    fn write<S: Sink>(&self, out: &mut S) {
        RequestHeader { xid: self.xid, op: self.request.op() }.write(out);
        self.request.write(out);
    }
}

impl Record for RequestHeader {
    fn write<S: Sink>(&self, out: &mut S) {
        out.int(self.xid);
        out.int(self.op);
    }
}

impl Record for Request {
    fn write<S: Sink>(&self, out: &mut S) {
        match self {
            Self::Create(create) => create.write(out),
            Self::Delete { path, version } | Self::Check { path, version } => {
                out.string(path);
                out.int(*version);
            }
            Self::Exists { path, watch }
            | Self::GetData { path, watch }
            | Self::GetChildren { path, watch }
            | Self::GetChildren2 { path, watch } => {
                out.string(path);
                out.boolean(*watch);
            }
            Self::SetData { path, data, version } => {
                out.string(path);
                out.buffer(data.as_deref());
                out.int(*version);
            }
            Self::SetAcl { path, acl, version } => {
                out.string(path);
                out.vector(acl, |out, acl| acl.write(out));
                out.int(*version);
            }
            Self::GetAcl { path } | Self::Sync { path } | Self::GetAllChildrenNumber { path } => {
                out.string(path);
            }
            Self::GetEphemerals { prefix } => out.string(prefix),
            Self::Multi(ops) => write_items(out, ops),
            Self::MultiRead(ops) => write_items(out, ops),
            Self::Reconfig(reconfig) => reconfig.write(out),
            Self::CheckWatches { path, kind } | Self::RemoveWatches { path, kind } => {
                out.string(path);
                out.int(kind.code());
            }
            Self::Auth { kind, scheme, auth } => {
                out.int(*kind);
                out.string(scheme);
                out.buffer(auth.as_deref());
            }
            Self::SetWatches(watches) => watches.write(out),
            Self::Sasl { token } => out.buffer(token.as_deref()),
            Self::AddWatch { path, mode } => {
                out.string(path);
                out.int(mode.code());
            }
            Self::Ping
            | Self::DeleteContainer
            | Self::WhoAmI
            | Self::CloseSession
            | Self::Unknown(_) => {}
        }
    }
}

impl Record for Reconfig {
    fn write<S: Sink>(&self, out: &mut S) {
        out.nullable(self.joining.as_deref());
        out.nullable(self.leaving.as_deref());
        out.nullable(self.members.as_deref());
        out.long(self.config_id);
    }
}

impl Record for SetWatches {
    fn write<S: Sink>(&self, out: &mut S) {
        out.long(self.relative_zxid);
        out.strings(&self.data);
        out.strings(&self.exist);
        out.strings(&self.child);
        if self.op() == op::SET_WATCHES2 {
            out.strings(&self.persistent);
            out.strings(&self.recursive);
        }
    }
}
