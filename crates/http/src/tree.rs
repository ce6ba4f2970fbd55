//! Znodes: what the calls on them share, `POST /v1/tree/{dir}?sequential` and `DELETE /v1/tree/{path}`.
//!
//! The raw body is the data of the znode, entity tags are versions.

pub(crate) mod get;
pub(crate) mod put;
pub(crate) mod quotas;
pub(crate) mod txn;
pub(crate) mod watch;

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use holdfast_api::parameters::tree::{
    ACL, CONTAINER, DELETE_RECURSIVE, EPHEMERAL, NAME, PARENTS, SEQUENTIAL, SESSION, TTL,
};
use holdfast_api::{
    CallParams as _, ErrorCode, HOLDFAST_DELETED, ParamError, Schemas, ZnodeBody, params, tree_path,
};
use holdfast_types::{
    AclEntry, Caller, Create, CreateKind, Data, Op, OpReply, Revision, SessionName, Stat, ZnodePath,
};

use crate::access::TREE_WRITE;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Header, Method, Operation, ResponseSpec, handler};
use crate::precondition::{Precondition, tag};
use crate::reply::Reply;
use crate::routes::TREE;
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

pub(crate) static CREATE: Operation = Operation {
    summary: "Create a child znode whose name ends with the next number of the directory",
    description: "The body is the data. The call rejects If-Match and If-None-Match.",
    params: PostParams::LIST,
    example: Example { query: "sequential&name=job-", body: "" },
    answers: || {
        let about = "The znode is created";
        let created = ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<ZnodeBody>);
        vec![created.with(&[ETAG, LOCATION])]
    },
    errors: &CREATE_ERRORS,
    body: BodyKind::Data,
    ..Operation::change("createZnode", Method::Post, &TREE, TREE_WRITE, handler!(post))
};

params! {
    struct PostParams {
        _sequential: bool = SEQUENTIAL,
        name: Option<String> = NAME,
        session: Option<SessionName> = SESSION,
        ephemeral: bool = EPHEMERAL,
        container: bool = CONTAINER,
        ttl: Option<Duration> = TTL,
        acl: Vec<AclEntry> = ACL,
        parents: bool = PARENTS,
    }
}

async fn post(call: &mut CallContext<'_>) -> HandlerResult {
    let directory = call.znode()?;
    let params: PostParams = call.params()?;
    let PostParams { name, session, ephemeral, container, ttl, acl, parents, .. } = params;
    let caller = caller(call, session);
    let kind = KindParams { ephemeral, container, ttl }.kind(caller.session.is_some());
    let kind = kind?;
    let name = name.unwrap_or_default();
    check_name(&directory, &name)?;
    let acl = Some(acl).filter(|acl| !acl.is_empty());
    let data = Data::from(&call.body[..]);
    let create = NewZnode { kind, acl, parents }.named(directory, name, data, true);
    match change(call, caller, Op::Create(create)).await? {
        (OpReply::Created { path, stat }, revision) => Ok(created(path, stat, revision)),
        _ => Err(unexpected_reply()),
    }
}

fn check_name(directory: &ZnodePath, name: &str) -> Result<(), ParamError> {
    if name.contains('/') {
        let detail = "'name' contains '/'";
        return Err(ParamError::of("name", ErrorCode::BadName, detail)
            .hint("put the directory into the path of the call: POST /v1/tree/DIRECTORY"));
    }
    let numbered = directory.child(&format!("{name}0"));
    numbered.map(drop).map_err(|error| ParamError::bad_name("name", &error))
}

/// How a call creates a znode: its kind, its access list, and missing directories.
#[derive(Clone, Debug)]
struct NewZnode {
    /// `None` creates a persistent znode.
    kind: Option<CreateKind>,
    /// `None` grants every permission to every client.
    acl: Option<Vec<AclEntry>>,
    parents: bool,
}

impl NewZnode {
    /// Builds the operation that creates the znode at a path.
    ///
    /// # Errors
    /// `bad-name` for a path at which no node can be created.
    fn at(self, path: &ZnodePath, data: Data) -> Result<Create, HttpError> {
        let (directory, name) = ZnodePath::for_create(path.as_str(), false)
            .map_err(|error| ParamError::new(ErrorCode::BadName, error.to_string()))?;
        Ok(self.named(directory, name, data, false))
    }

    /// Builds the operation that creates the znode in a directory. The name of a sequential znode gets the directory's
    /// next number.
    fn named(self, directory: ZnodePath, name: String, data: Data, sequential: bool) -> Create {
        let Self { kind, acl, parents } = self;
        let kind = kind.unwrap_or(CreateKind::Persistent);
        Create { directory, name, data, kind, sequential, acl, parents }
    }
}

/// The parameters that choose the kind of a new znode.
#[derive(Clone, Copy, Debug)]
struct KindParams {
    ephemeral: bool,
    container: bool,
    ttl: Option<Duration>,
}

impl KindParams {
    /// Returns the kind, or `None` if no parameter selects one.
    ///
    /// # Errors
    /// [`ParamError`] for two kinds, and for an ephemeral znode without a session.
    fn kind(self, has_session: bool) -> Result<Option<CreateKind>, ParamError> {
        let ephemeral = self.ephemeral.then_some(("ephemeral", CreateKind::Ephemeral));
        let container = self.container.then_some(("container", CreateKind::Container));
        let ttl = self.ttl.map(|ttl| ("ttl", CreateKind::Ttl { ms: holdfast_types::millis(ttl) }));
        let mut kinds = [ephemeral, container, ttl].into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (None, _) => Ok(None),
            (Some((_, CreateKind::Ephemeral)), None) if !has_session => {
                let detail = "an ephemeral znode requires a session";
                Err(ParamError::invalid("session", detail)
                    .hint("add ?session=ID of an open session (PUT /v1/sessions/ID opens one)"))
            }
            (Some((_, kind)), None) => Ok(Some(kind)),
            (Some((one, _)), Some((other, _))) => {
                let detail = format!("'{one}' and '{other}' are two kinds of znode");
                let hint = match (one, other) {
                    ("ephemeral", "ttl") => {
                        "an ephemeral znode lives as long as its session: PUT /v1/sessions/ID?ttl=30s"
                    }
                    _ => "choose one",
                };
                Err(ParamError::invalid(other, detail).hint(hint))
            }
        }
    }
}

pub(crate) static DELETE: Operation = Operation {
    summary: "Delete a znode",
    params: DeleteParams::LIST,
    headers: &[IF_MATCH],
    answers: || {
        let count = Header::number(HOLDFAST_DELETED, "The number of deleted znodes");
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The znode is deleted").with(&[count])]
    },
    errors: &[
        ErrorCode::QuotaExceeded,
        ErrorCode::NotFound,
        ErrorCode::NotEmpty,
        ErrorCode::SessionExpired,
        ErrorCode::VersionMismatch,
    ],
    ..Operation::change("deleteZnode", Method::Delete, &TREE, TREE_WRITE, handler!(delete))
};

params! {
    struct DeleteParams {
        session: Option<SessionName> = SESSION,
        recursive: bool = DELETE_RECURSIVE,
    }
}

async fn delete(call: &mut CallContext<'_>) -> HandlerResult {
    let path = call.znode()?;
    let DeleteParams { session, recursive } = call.params()?;
    let caller = caller(call, session);
    let version = Precondition::of(&call.parts.headers)?.version()?;
    match change(call, caller, Op::Delete { path, version, recursive }).await? {
        (OpReply::Deleted { count }, revision) => {
            let header = HeaderName::from_static(HOLDFAST_DELETED);
            Ok(Reply::empty(StatusCode::NO_CONTENT).at(revision).with_header(header, count.into()))
        }
        _ => Err(unexpected_reply()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_is_required_and_the_name_has_no_slash() {
        let error = PostParams::from_query("").unwrap_err();
        assert_eq!(error.parameter.as_deref(), Some("sequential"));
        assert_eq!(PostParams::from_query("sequential").unwrap().name, None);
        let named = PostParams::from_query("sequential&name=job-").unwrap();
        assert_eq!(named.name.as_deref(), Some("job-"));
        assert!(check_name(&ZnodePath::root(), "job-").is_ok());
        let error = check_name(&ZnodePath::root(), "a/b").unwrap_err();
        assert_eq!(error.code, ErrorCode::BadName);
    }
}
