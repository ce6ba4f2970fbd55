//! The operations of the protocol, by group: `reads`, `writes`, `watches`, and those of the session in this file.
//!
//! [`translate`] turns a request into a call of the service and the format of its reply. `reply.rs` turns the result of
//! the call into the reply.

pub(crate) mod operation;
mod reads;
pub(crate) mod reply;
mod watches;
mod writes;

use holdfast_zkwire::{ErrorCode, Request, Response};

use self::operation::{ConnectionContext, ReplyFormat, StreamCall, ZkOperation};

pub(crate) fn translate(request: Request, context: &ConnectionContext) -> ZkOperation {
    match request {
        Request::Create(create) => writes::single(writes::create(create)),
        Request::Delete { path, version } => writes::single(writes::delete(&path, version)),
        Request::SetData { path, data, version } => {
            writes::single(writes::set_data(&path, data, version))
        }
        Request::SetAcl { path, acl, version } => {
            writes::single(writes::set_acl(&path, acl, version))
        }
        Request::Check { path, version } => writes::single(writes::check(&path, version)),
        Request::Multi(ops) => writes::multi(ops),

        Request::Exists { path, watch } => reads::exists(&path, watch, context),
        Request::GetData { path, watch } => reads::node_data(&path, watch, context),
        Request::GetChildren { path, watch } => reads::children(&path, watch),
        Request::GetChildren2 { path, watch } => reads::children_with_stat(&path, watch, context),
        Request::GetAcl { path } => reads::node_acl(&path, context),
        Request::GetAllChildrenNumber { path } => reads::descendant_count(&path),
        Request::GetEphemerals { prefix } => reads::ephemerals(prefix),
        Request::MultiRead(reads) => reads::multi_read(reads, context),

        Request::AddWatch { path, mode } => watches::add_watch(&path, mode),
        Request::CheckWatches { path, kind } => watches::check_watches(&path, kind),
        Request::RemoveWatches { path, kind } => watches::remove_watches(&path, kind),
        Request::SetWatches(watches) => watches::set_watches(watches),

        Request::Sync { path } => ZkOperation::new(StreamCall::Sync, ReplyFormat::Sync(path)),
        Request::Ping => ZkOperation::fixed(Ok(Response::Empty)),
        Request::Auth { scheme, auth, .. } => {
            let credentials = auth.unwrap_or_default().into();
            let format = ReplyFormat::Fixed(Ok(Response::Empty));
            ZkOperation::new(StreamCall::Authenticate(scheme, credentials), format)
        }
        Request::WhoAmI => ZkOperation::fixed(Ok(Response::WhoAmI(context.identities.masked()))),
        Request::CloseSession => ZkOperation::new(StreamCall::Close, ReplyFormat::Empty),
        Request::Reconfig(_) => ZkOperation::error(ErrorCode::ReconfigDisabled),
        Request::DeleteContainer | Request::Sasl { .. } => {
            ZkOperation::error(ErrorCode::Unimplemented)
        }
        Request::Unknown(_) => {
            let format = ReplyFormat::Disconnect(ErrorCode::Unimplemented);
            ZkOperation::new(StreamCall::Nothing, format)
        }
    }
}

#[cfg(test)]
mod tests;
