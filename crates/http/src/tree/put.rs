//! `PUT /v1/tree/{path}`: create a znode, or replace its data or, with `acl` without a value, its access list.
//!
//! A PUT without a precondition is one log entry that carries both commands: replace the data if the znode exists,
//! create it otherwise. Large data would be in that entry twice, so the handler tries one command and then the other.

use std::time::Duration;

use axum::http::{StatusCode, header};
use holdfast_api::parameters::tree::{ACL, CONTAINER, EPHEMERAL, PARENTS, SESSION, TTL};
use holdfast_api::{
    CallParams as _, ErrorCode, Facts, Param, ParamError, ParamField, ParamList, ParamValue as _,
    Problem, RawParams, Schemas, ZnodeBody, params,
};
use holdfast_service::ReadMode;
use holdfast_types::{
    AclEntry, Caller, Condition, Data, Multi, Op, OpReply, Revision, SessionName, ZnodePath,
};

use super::{
    ETAG, IF_MATCH, KindParams, LOCATION, NewZnode, caller, change, created, stat_reply,
    unexpected_reply,
};
use crate::access::TREE_WRITE;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Header, Method, Operation, ResponseSpec, handler};
use crate::precondition::{Precondition, contradiction, tag};
use crate::reply::Reply;
use crate::routes::TREE;
use crate::status::HttpError;

/// Data of up to this many bytes is proposed for both cases in one log entry.
const BOTH_CASES_BYTES_MAX: usize = 16 * 1024;
/// The maximum number of attempts with large data, while other callers create and delete the znode.
const TRIES_MAX: usize = 8;
const IF_NONE_MATCH: Header = Header::text(
    "if-none-match",
    "The only valid value is *, which requires that the znode does not exist",
);

pub(crate) static OPERATION: Operation = Operation {
    summary: "Create a znode, or replace its data",
    description: "The body is the znode's data, of any media type. With ephemeral, container, ttl or acl=ENTRY, the \
        call creates a znode and never replaces one. With acl without a value, the call replaces the znode's access \
        list, and the body is {\"acl\": [...]}.",
    params: PutParams::LIST,
    headers: &[IF_MATCH, IF_NONE_MATCH],
    example: Example { query: "", body: "blue" },
    answers: || {
        let (replaced, created) =
            ("The data or the access list is replaced", "The znode is created");
        vec![
            ResponseSpec::json(StatusCode::OK, replaced, Schemas::of::<ZnodeBody>).with(&[ETAG]),
            ResponseSpec::json(StatusCode::CREATED, created, Schemas::of::<ZnodeBody>)
                .with(&[ETAG, LOCATION]),
        ]
    },
    errors: &[
        ErrorCode::QuotaExceeded,
        ErrorCode::NotFound,
        ErrorCode::InUse,
        ErrorCode::EphemeralParent,
        ErrorCode::ZnodeExists,
        ErrorCode::SessionExpired,
        ErrorCode::VersionMismatch,
    ],
    body: BodyKind::Data,
    ..Operation::change("putZnode", Method::Put, &TREE, TREE_WRITE, handler!(put))
};

params! {
    struct PutParams {
        session: Option<SessionName> = SESSION,
        ephemeral: bool = EPHEMERAL,
        container: bool = CONTAINER,
        ttl: Option<Duration> = TTL,
        acl: AclParam = ACL,
        parents: bool = PARENTS,
    }
}

async fn put(call: &mut CallContext<'_>) -> HandlerResult {
    let path = call.znode()?;
    let mut params: PutParams = call.params()?;
    let caller = caller(call, params.session.take());
    match put_kind(params, caller.session.is_some())? {
        PutKind::ReplaceAcl => replace_acl(call, path, caller).await,
        PutKind::Create(new) => create(call, path, caller, new).await,
        PutKind::CreateOrReplace(new) => create_or_replace(call, path, caller, new).await,
    }
}

#[derive(Debug)]
enum PutKind {
    ReplaceAcl,
    /// The call names a kind or an access list, so it never replaces an existing znode.
    Create(NewZnode),
    CreateOrReplace(NewZnode),
}

fn put_kind(params: PutParams, has_session: bool) -> Result<PutKind, ParamError> {
    let PutParams { ephemeral, container, ttl, acl, parents, .. } = params;
    let acl = match acl {
        AclParam::InBody => {
            check_alone(&[
                ("ephemeral", ephemeral),
                ("container", container),
                ("ttl", ttl.is_some()),
                ("parents", parents),
            ])?;
            return Ok(PutKind::ReplaceAcl);
        }
        AclParam::Absent => None,
        AclParam::Entries(entries) => Some(entries),
    };
    let kind = KindParams { ephemeral, container, ttl }.kind(has_session)?;
    let new = NewZnode { kind, acl, parents };
    Ok(match (&new.kind, &new.acl) {
        (None, None) => PutKind::CreateOrReplace(new),
        _ => PutKind::Create(new),
    })
}

async fn create(
    call: &CallContext<'_>,
    path: ZnodePath,
    caller: Caller,
    new: NewZnode,
) -> HandlerResult {
    let precondition = Precondition::of(&call.parts.headers)?;
    if path == ZnodePath::root() {
        return Err(root_exists());
    }
    if matches!(precondition, Precondition::Exists | Precondition::Version(_)) {
        return Err(contradiction());
    }
    let create = new.at(&path, Data::from(&call.body[..]))?;
    put_reply(path, change(call, caller, Op::Create(create)).await?)
}

async fn create_or_replace(
    call: &CallContext<'_>,
    path: ZnodePath,
    caller: Caller,
    new: NewZnode,
) -> HandlerResult {
    let data = Data::from(&call.body[..]);
    let replaced = match Precondition::of(&call.parts.headers)? {
        Precondition::Absent => return create(call, path, caller, new).await,
        Precondition::None if path != ZnodePath::root() => {
            put_either_way(call, caller, &path, data, new).await?
        }
        precondition @ (Precondition::None | Precondition::Exists | Precondition::Version(_)) => {
            let version = precondition.version()?;
            let replace = Op::SetData { path: path.clone(), data, version };
            change(call, caller, replace).await?
        }
    };
    put_reply(path, replaced)
}

fn put_reply(path: ZnodePath, done: (OpReply, Revision)) -> HandlerResult {
    match done {
        (OpReply::Created { path, stat }, revision) => Ok(created(path, stat, revision)),
        (OpReply::DataSet { stat }, revision) => {
            Ok(stat_reply(StatusCode::OK, path, stat, revision))
        }
        (OpReply::Deleted { .. } | OpReply::AclSet { .. } | OpReply::Checked, _) => {
            Err(unexpected_reply())
        }
    }
}

/// Replaces the data if the znode exists, and creates the znode otherwise. Data above [`BOTH_CASES_BYTES_MAX`] is sent
/// for one case first, and for the other if its condition fails, unless the call has a number: it is executed in one step.
async fn put_either_way(
    call: &CallContext<'_>,
    caller: Caller,
    path: &ZnodePath,
    data: Data,
    new: NewZnode,
) -> Result<(OpReply, Revision), HttpError> {
    let replace = |data| Op::SetData { path: path.clone(), data, version: None };
    let exists = |exists| Condition::Exists { path: path.clone(), exists };
    if call.is_numbered() || data.len() <= BOTH_CASES_BYTES_MAX {
        let create = Op::Create(new.at(path, data.clone())?);
        let multi = Multi {
            caller,
            conditions: vec![exists(true)],
            then: vec![replace(data)],
            otherwise: vec![create],
        };
        let (reply, revision) = run_one(call, multi).await?;
        return Ok((reply.ok_or_else(unexpected_reply)?, revision));
    }
    let found = call.service().znode(path, ReadMode::Stale);
    let mut replaces = call.run(found).await.is_ok();
    for _ in 0..TRIES_MAX {
        let op = if replaces {
            replace(data.clone())
        } else {
            Op::Create(new.clone().at(path, data.clone())?)
        };
        let conditions = vec![exists(replaces)];
        let multi = Multi { caller: caller.clone(), conditions, then: vec![op], otherwise: vec![] };
        if let (Some(reply), revision) = run_one(call, multi).await? {
            return Ok((reply, revision));
        }
        replaces = !replaces;
    }
    let detail = "other callers keep creating and deleting the znode: nothing was done";
    let facts = Facts { retry_after_ms: Some(1_000), ..Facts::default() };
    Err(Box::new(Problem::new(ErrorCode::RateLimited, detail).facts(facts)))
}

/// Runs a transaction of at most one operation. Returns its reply, or `None` if no operation ran.
async fn run_one(
    call: &CallContext<'_>,
    multi: Multi,
) -> Result<(Option<OpReply>, Revision), HttpError> {
    let done = call.run(call.service().multi(multi)).await;
    let done = done.map_err(|mut problem| {
        // The caller sent one operation, so a position in a transaction means nothing to it.
        problem.facts.at = None;
        problem
    })?;
    Ok((done.value.results.into_iter().next(), done.revision))
}

fn root_exists() -> HttpError {
    let facts = Facts { path: Some(ZnodePath::root()), ..Facts::default() };
    let problem = Problem::new(ErrorCode::ZnodeExists, "the root always exists");
    Box::new(problem.hint("name a znode in the path of the call: /v1/tree/NAME").facts(facts))
}

/// The parameter `acl` of a `PUT`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AclParam {
    Absent,
    /// `?acl` without a value: the call replaces the list of a znode.
    InBody,
    /// `?acl=ENTRY`: the list of a new znode.
    Entries(Vec<AclEntry>),
}

impl ParamField for AclParam {
    fn read(param: &Param, fields: &RawParams<'_>) -> Result<Self, ParamError> {
        if fields.bare(param.name) {
            return Ok(Self::InBody);
        }
        let entries = Vec::read(param, fields)?;
        Ok(if entries.is_empty() { Self::Absent } else { Self::Entries(entries) })
    }
}

/// Replaces the access list; the body is `{"acl": [...]}`. `auth:` entries are stored as the caller's identities, so a `GET` returns those.
async fn replace_acl(call: &CallContext<'_>, path: ZnodePath, caller: Caller) -> HandlerResult {
    let acl = acl_entries(&call.body)?;
    let version = Precondition::of(&call.parts.headers)?.version()?;
    match change(call, caller, Op::SetAcl { path: path.clone(), acl, version }).await? {
        (OpReply::AclSet { stat }, revision) => {
            let reply = Reply::json(StatusCode::OK, &ZnodeBody::new(path, stat, revision));
            Ok(reply.at(revision).with_header(header::ETAG, tag(stat.aversion)))
        }
        _ => Err(unexpected_reply()),
    }
}

fn acl_entries(body: &[u8]) -> Result<Vec<AclEntry>, ParamError> {
    const BODY: ParamList = ParamList::of_call(&[ACL]).of("an access list");
    let mut fields = RawParams::default();
    fields.merge_json(body, &BODY)?;
    fields.values(ACL.name).map(|text| AclEntry::parse(&ACL, text)).collect()
}

/// Checks that a call which replaces a list has no parameter for creating a znode.
///
/// # Errors
/// [`ParamError`] names the first of `given` that is set.
fn check_alone(given: &[(&str, bool)]) -> Result<(), ParamError> {
    let Some((param, _)) = given.iter().find(|(_, given)| *given) else { return Ok(()) };
    let detail = format!("'{param}' and 'acl' without a value exclude each other");
    Err(ParamError::invalid(param, detail).hint(format!(
        "leave {param} out to replace the access list, or create a znode with acl=scheme:id:perms"
    )))
}

#[cfg(test)]
mod tests {
    use holdfast_types::CreateKind;

    use super::*;

    fn put(query: &str) -> Result<PutKind, ParamError> {
        let params: PutParams = OPERATION.params_of(query)?;
        let has_session = params.session.is_some();
        put_kind(params, has_session)
    }

    #[test]
    fn a_put_creates_or_replaces_and_only_creates_with_a_kind_or_an_access_list() {
        assert!(matches!(put(""), Ok(PutKind::CreateOrReplace(_))));
        assert!(matches!(put("parents&session=me&request=1"), Ok(PutKind::CreateOrReplace(_))));
        for query in ["ephemeral&session=me", "container", "ttl=1h", "acl=world:anyone:r"] {
            assert!(matches!(put(query), Ok(PutKind::Create(_))), "{query}");
        }
        let Ok(PutKind::Create(new)) = put("ttl=1h&acl=world:anyone:r&acl=auth::cdrwa") else {
            panic!("no creation");
        };
        assert_eq!(new.kind, Some(CreateKind::Ttl { ms: 3_600_000 }));
        assert_eq!(new.acl.map(|acl| acl.len()), Some(2));
    }

    #[test]
    fn a_replacement_of_an_access_list_accepts_no_parameters_for_new_nodes() {
        assert!(matches!(put("acl&session=me&request=1"), Ok(PutKind::ReplaceAcl)));
        for (query, parameter) in [("acl&parents", "parents"), ("acl&ttl=1h", "ttl")] {
            assert_eq!(put(query).unwrap_err().parameter.as_deref(), Some(parameter), "{query}");
        }
        assert!(put("acl&acl=world:anyone:r").is_err());
    }

    #[test]
    fn a_node_has_at_most_one_kind_and_an_ephemeral_needs_a_session() {
        for query in
            ["ephemeral&session=me&ttl=30s", "container&ttl=1h", "ephemeral&container&session=a"]
        {
            let error = put(query).unwrap_err();
            assert!(error.detail.ends_with("are two kinds of znode"), "{}", error.detail);
        }
        let two = put("ephemeral&session=me&ttl=30s").unwrap_err();
        assert!(two.hint.unwrap().contains("/v1/sessions"));
        assert_eq!(put("ephemeral").unwrap_err().parameter.as_deref(), Some("session"));
        assert_eq!(put("ttl=3600").unwrap_err().code, ErrorCode::BadDuration);
        assert_eq!(put("ttl=0s").unwrap_err().code, ErrorCode::BadDuration);
        assert_eq!(put("version=3").unwrap_err().code, ErrorCode::InvalidArgument);
    }
}
