//! The reply to a request, from the service's result and the format of the reply.

use holdfast_service::{Failure, StreamAnswer};
use holdfast_types::{Rejection, TreeRejection};
use holdfast_zkwire::{ErrorCode, MultiResult, Response};

use super::operation::{ReplyFormat, WriteFormat};
use super::{reads, writes};
use crate::errors::{ErrorReply, error_code, error_reply};

/// A reply, or the end of the connection without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Done(Response),
    Failed(ErrorCode),
    /// The error, then the connection closes.
    FailedAndDisconnect(ErrorCode),
    /// The connection closes without a reply.
    Disconnect,
}

pub(crate) fn reply(format: ReplyFormat, result: Result<StreamAnswer, Failure>) -> Reply {
    match result {
        Ok(_) if let ReplyFormat::Disconnect(code) = format => Reply::FailedAndDisconnect(code),
        Ok(answer) => match response(format, answer) {
            Ok(response) => Reply::Done(response),
            Err(code) => Reply::Failed(code),
        },
        Err(failure) => failed(&format, &failure),
    }
}

fn failed(format: &ReplyFormat, failure: &Failure) -> Reply {
    if let (
        ReplyFormat::Multi(items),
        Failure::Rejected(Rejection::Tree(TreeRejection::OfOperation { at, why })),
    ) = (format, failure)
    {
        let at = usize::try_from(*at).unwrap_or(usize::MAX);
        let code = operation_error(items.get(at).copied(), why);
        // An undecodable operation fails the whole request, if no operation before it has failed.
        if code == ErrorCode::MarshallingError {
            return Reply::Failed(code);
        }
        return Reply::Done(Response::Multi(MultiResult::failed(items.len(), at, code)));
    }
    match (format, failure, error_reply(failure)) {
        (ReplyFormat::Write(item), Failure::Rejected(why), ErrorReply::Reply(_)) => {
            Reply::Failed(operation_error(Some(*item), why))
        }
        (_, _, ErrorReply::Reply(code)) => Reply::Failed(code),
        (_, _, ErrorReply::ReplyAndDisconnect(code)) => Reply::FailedAndDisconnect(code),
        (_, _, ErrorReply::Disconnect) => Reply::Disconnect,
    }
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
