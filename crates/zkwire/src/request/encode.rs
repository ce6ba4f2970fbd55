//! Encodes requests, for clients.
//!
//! An encoded request decodes to the same value, except for the cases that [`crate::CreateMode`] and
//! [`super::Request::op`] describe.

use bytes::Bytes;

use super::{Reconfig, Request, RequestHeader, SetWatches};
use crate::jute::{Record, Sink};
use crate::multi::write_items;
use crate::{FrameError, frame, op};

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
