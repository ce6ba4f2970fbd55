//! Calls on znodes: one file for each call. The raw body is the data of the znode, entity tags are
//! versions.

pub(crate) mod acl;
pub(crate) mod delete;
pub(crate) mod get;
mod new_znode;
pub(crate) mod post;
pub(crate) mod put;
pub(crate) mod quotas;
pub(crate) mod txn;
pub(crate) mod watch;

use axum::http::{HeaderValue, StatusCode, header};
use holdfast_api::{ErrorCode, ZnodeBody, tree_path};
use holdfast_types::{Caller, Op, OpReply, Revision, SessionName, Stat, ZnodePath};

use crate::call::CallContext;
use crate::operation::Header;
use crate::precondition::tag;
use crate::reply::Reply;
use crate::status::{HttpError, internal};

const IF_MATCH: Header = Header::text(
    "if-match",
    "The required version of the znode, quoted as in its ETag; or *, which requires that the znode exists",
);
const ETAG: Header = Header::text(
    "etag",
    "The version of the znode's data; the version of the access list in a call with acl",
);
const LOCATION: Header = Header::text("location", "The URL path of the new znode");

const CREATE_ERRORS: [ErrorCode; 7] = [
    ErrorCode::QuotaExceeded,
    ErrorCode::NotFound,
    ErrorCode::ShardsMismatch,
    ErrorCode::InUse,
    ErrorCode::EphemeralParent,
    ErrorCode::ZnodeExists,
    ErrorCode::SessionExpired,
];

/// The caller of a change, whose session owns new ephemeral znodes.
fn caller(call: &mut CallContext<'_>, session: Option<SessionName>) -> Caller {
    call.log_fields.session.clone_from(&session);
    Caller { session, ..Caller::default() }
}

/// Proposes a transaction of one operation.
async fn change(
    call: &CallContext<'_>,
    caller: Caller,
    op: Op,
) -> Result<(OpReply, Revision), HttpError> {
    let done = call.run(call.service().change(caller, op)).await?;
    Ok((done.value, done.revision))
}

/// The error for a reply of another operation, which only a bug can cause.
fn unexpected_reply() -> HttpError {
    internal("the reply does not belong to the operation")
}

/// 201 with the path of the new znode.
fn created(path: ZnodePath, stat: Stat, revision: Revision) -> Reply {
    let location = HeaderValue::try_from(tree_path(&path));
    let reply = stat_reply(StatusCode::CREATED, path, stat, revision);
    match location {
        Ok(location) => reply.with_header(header::LOCATION, location),
        Err(_) => reply,
    }
}

fn stat_reply(status: StatusCode, path: ZnodePath, stat: Stat, revision: Revision) -> Reply {
    let body = ZnodeBody::new(path, stat, revision);
    Reply::json(status, &body).at(revision).with_header(header::ETAG, tag(stat.version))
}
