//! The operations of the protocol: [`translate`] turns a request into a call of the service, [`reply`] turns the result of the
//! call into the reply.
//!
//! `reads` has the reads and the watches, `writes` the writes, and this file the operations of the session.

mod reads;
mod writes;

use holdfast_service::{Failure, StreamAnswer, StreamRead, WatchKind, WatchMode, WatchSet};
use holdfast_types::{Multi, Rejection, Revision, TreeRejection, ZnodePath};
use holdfast_zkwire::{ErrorCode, MultiResult, Request, Response};

use crate::errors::{ErrorReply, error_code, error_reply};
use crate::identity::Identities;

/// Turns a request into a call of the service and the format of its reply.
pub(crate) fn translate(request: Request, identities: &Identities) -> ZkOperation {
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

        Request::Exists { path, watch } => reads::exists(&path, watch),
        Request::GetData { path, watch } => reads::node_data(&path, watch),
        Request::GetChildren { path, watch } => reads::children(&path, watch),
        Request::GetChildren2 { path, watch } => reads::children_with_stat(&path, watch),
        Request::GetAcl { path } => reads::node_acl(&path),
        Request::GetAllChildrenNumber { path } => reads::descendant_count(&path),
        Request::GetEphemerals { prefix } => reads::ephemerals(prefix),
        Request::MultiRead(reads) => reads::multi_read(reads),

        Request::AddWatch { path, mode } => reads::add_watch(&path, mode),
        Request::CheckWatches { path, kind } => reads::check_watches(&path, kind),
        Request::RemoveWatches { path, kind } => reads::remove_watches(&path, kind),
        Request::SetWatches(watches) => reads::set_watches(watches),

        Request::Sync { path } => ZkOperation::new(StreamCall::Sync, ReplyFormat::Sync(path)),
        Request::Ping => ZkOperation::fixed(Ok(Response::Empty)),
        Request::Auth { scheme, auth, .. } => {
            let credentials = auth.unwrap_or_default().into();
            let format = ReplyFormat::Fixed(Ok(Response::Empty));
            ZkOperation::new(StreamCall::Authenticate(scheme, credentials), format)
        }
        Request::WhoAmI => ZkOperation::fixed(Ok(Response::WhoAmI(identities.masked()))),
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

/// A request, translated: the call of the service, and the format of the reply.
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
    Read(ReadFormat),
    MultiRead(Vec<MultiReadItem>),
    Write(WriteFormat),
    Multi(Vec<WriteFormat>),
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
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MultiReadItem {
    Data,
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

/// The reply to a request, from the service's result and the format of the reply.
pub(crate) fn reply(
    format: ReplyFormat,
    result: Result<StreamAnswer, Failure>,
) -> Result<Response, ErrorReply> {
    match result {
        Ok(_) if let ReplyFormat::Disconnect(code) = format => {
            Err(ErrorReply::ReplyAndDisconnect(code))
        }
        Ok(answer) => response(format, answer).map_err(ErrorReply::Reply),
        Err(failure) => failed(&format, &failure),
    }
}

fn failed(format: &ReplyFormat, failure: &Failure) -> Result<Response, ErrorReply> {
    if let (
        ReplyFormat::Multi(items),
        Failure::Rejected(Rejection::Tree(TreeRejection::OfOperation { at, why })),
    ) = (format, failure)
    {
        let at = usize::try_from(*at).unwrap_or(usize::MAX);
        let code = operation_error(items.get(at).copied(), why);
        // An undecodable operation fails the whole request, if no operation before it has failed.
        if code == ErrorCode::MarshallingError {
            return Err(ErrorReply::Reply(code));
        }
        return Ok(Response::Multi(MultiResult::failed(items.len(), at, code)));
    }
    Err(match (format, failure, error_reply(failure)) {
        (ReplyFormat::Write(item), Failure::Rejected(why), ErrorReply::Reply(_)) => {
            ErrorReply::Reply(operation_error(Some(*item), why))
        }
        (_, _, error) => error,
    })
}

/// The error of one operation of a write. A placeholder fails with its own error, unless the node is missing.
fn operation_error(item: Option<WriteFormat>, why: &Rejection) -> ErrorCode {
    match (item, error_code(why)) {
        (Some(WriteFormat::Refused(_)), ErrorCode::NoNode) => ErrorCode::NoNode,
        (Some(WriteFormat::Refused(code)), _) | (_, code) => code,
    }
}

/// A result of another kind than the request's is a bug of this server.
fn response(format: ReplyFormat, answer: StreamAnswer) -> Result<Response, ErrorCode> {
    Ok(match (format, answer) {
        (ReplyFormat::Fixed(fixed), _) => return fixed,
        (ReplyFormat::Empty, _) | (ReplyFormat::WatchExists, StreamAnswer::Watched(true)) => {
            Response::Empty
        }
        (ReplyFormat::WatchExists, StreamAnswer::Watched(false)) => {
            return Err(ErrorCode::NoWatcher);
        }
        (ReplyFormat::AddWatch, _) => Response::AddWatch,
        (ReplyFormat::Sync(path), _) => Response::Sync { path },
        (ReplyFormat::Read(format), answer) => return reads::response(format, answer),
        (ReplyFormat::MultiRead(items), StreamAnswer::Many(answers)) => {
            Response::MultiRead(reads::multi_read_results(items, answers))
        }
        (ReplyFormat::Write(item), StreamAnswer::Multi { results, .. }) => {
            writes::response(item, results.into_iter().next())?
        }
        (ReplyFormat::Multi(items), StreamAnswer::Multi { results, .. }) => {
            Response::Multi(writes::multi_results(items, results)?)
        }
        _ => return Err(ErrorCode::SystemError),
    })
}

#[cfg(test)]
mod tests;
