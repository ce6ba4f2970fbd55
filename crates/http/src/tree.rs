//! Nodes of the tree: their data as raw bodies, their versions as entity tags.
//!
//! A PUT is one entry of the log whatever it finds: the machine is asked to replace the data if the node exists, and
//! to create it otherwise. Large data is not sent to the log twice: it is tried one way, then the other.

use axum::http::header::{ETAG, LOCATION};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha1::{Digest as _, Sha1};

use holdfast_api::{
    AclBody, Aspect, ChangeParams, ChildrenBody, DeleteParams, ErrorCode, Facts, Fields,
    HOLDFAST_DELETED, IDEMPOTENCY_KEY, MakeParams, NodeParams, ParamList, PostParams, Problem,
    PutParams, Refusal, StatBody, SubtreeBody, ZnodeBody, node_headers, parameters,
    parse_acl_entry, tree_path,
};
use holdfast_service::{Acl, ReadMode, Response, ZnodeContents};
use holdfast_types::{
    AclEntry, Caller, Condition, Create, CreateKind, Data, Multi, Op, OpReply, RequestId, Revision,
    Stat, ZnodePath,
};

use crate::call::{CallContext, read_mode};
use crate::head::only;
use crate::precondition::{Precondition, tag};
use crate::reply::Reply;
use crate::status::{HttpError, internal, of_refusal, with_status};

/// Data up to this many bytes is sent to the log for both cases at once.
const EITHER_WAY_MAX: usize = 16 * 1024;
/// How often large data is tried, when others create and delete the node meanwhile.
const TURNS_MAX: usize = 8;

/// `PUT /v1/tree/{path}`
pub(crate) async fn put(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let path = call.znode()?;
    let fields = call.query(&PutParams::KEYS)?;
    if fields.bare("acl") {
        return set_acl(call, path).await;
    }
    let params = PutParams::parse(&fields, request_id(call)?).map_err(of_refusal)?;
    drop(fields);
    let precondition = Precondition::of(&call.parts.headers)?;
    let only_creates = params.only_creates();
    let PutParams { change, make } = params;
    let data = Data::from(&call.body[..]);
    if path == ZnodePath::root() && (only_creates || precondition == Precondition::Absent) {
        return Err(of_root());
    }
    let op = match (precondition, only_creates) {
        (Precondition::None, false) if path == ZnodePath::root() => {
            Op::SetData { path: path.clone(), data, version: None }
        }
        (Precondition::None, false) => {
            let answer = put_either_way(call, change, &path, data, make).await?;
            return put_answer(path, answer);
        }
        (Precondition::None | Precondition::Absent, _) => Op::Create(create(&path, data, make)?),
        (Precondition::Exists | Precondition::Version(_), true) => return Err(contradiction()),
        (Precondition::Exists | Precondition::Version(_), false) => {
            Op::SetData { path: path.clone(), data, version: precondition.version()? }
        }
    };
    put_answer(path, ask(call, change, op).await?)
}

fn put_answer(path: ZnodePath, answer: (OpReply, Revision)) -> Result<Reply, HttpError> {
    match answer {
        (OpReply::Created { path, stat }, revision) => Ok(created(path, stat, revision)),
        (OpReply::DataSet { stat }, revision) => Ok(node(StatusCode::OK, path, stat, revision)),
        (OpReply::Deleted { .. } | OpReply::AclSet { .. } | OpReply::Checked, _) => {
            Err(unexpected_reply())
        }
    }
}

/// `POST /v1/tree/{dir}?sequential`
pub(crate) async fn post(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let directory = call.znode()?;
    let fields = call.query(&PostParams::KEYS)?;
    let params = PostParams::parse(&fields, request_id(call)?).map_err(of_refusal)?;
    drop(fields);
    // The precondition of a node that has no name yet.
    if Precondition::of(&call.parts.headers)? != Precondition::None {
        return Err(contradiction());
    }
    let PostParams { change, make, name } = params;
    let named = directory.child(&format!("{name}0"));
    named.map_err(|error| of_refusal(Refusal::bad_name("name", &error)))?;
    let data = Data::from(&call.body[..]);
    let MakeParams { kind, acl, parents } = make;
    let kind = kind.unwrap_or(CreateKind::Persistent);
    let create = Create { directory, name, data, kind, sequential: true, acl, parents };
    match ask(call, change, Op::Create(create)).await? {
        (OpReply::Created { path, stat }, revision) => Ok(created(path, stat, revision)),
        _ => Err(unexpected_reply()),
    }
}

/// `DELETE /v1/tree/{path}`
pub(crate) async fn delete(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let path = call.znode()?;
    let fields = call.fields(&DeleteParams::KEYS)?;
    let params = DeleteParams::parse(&fields, request_id(call)?).map_err(of_refusal)?;
    drop(fields);
    let version = Precondition::of(&call.parts.headers)?.version()?;
    let delete = Op::Delete { path, version, recursive: params.recursive };
    match ask(call, params.change, delete).await? {
        (OpReply::Deleted { count }, revision) => {
            let header = HeaderName::from_static(HOLDFAST_DELETED);
            Ok(Reply::empty(StatusCode::NO_CONTENT).at(revision).with_header(header, count.into()))
        }
        _ => Err(unexpected_reply()),
    }
}

/// `GET /v1/tree/{path}`
pub(crate) async fn get(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let path = call.znode()?;
    let fields = call.query(&NodeParams::KEYS)?;
    let params = NodeParams::parse(&fields).map_err(of_refusal)?;
    drop(fields);
    let read = read_mode(params.read.stale);
    let (service, context, limit) = (call.service(), &call.context, params.limit);
    match params.aspect {
        Aspect::Data | Aspect::Stat => {
            let found = call.run(service.znode(context, &path, read)).await?;
            Ok(labelled(found, |ZnodeContents { stat, data }, revision| {
                if params.aspect == Aspect::Stat {
                    return node(StatusCode::OK, path, stat, revision);
                }
                Reply::bytes(StatusCode::OK, data.to_vec()).with_headers(stat_headers(&stat))
            }))
        }
        Aspect::Children => {
            let after = params.page_token.as_deref();
            let found = call.run(service.children(context, &path, after, limit, read)).await?;
            Ok(labelled(found, |page, _| {
                Reply::json(StatusCode::OK, &ChildrenBody::new(path, page))
            }))
        }
        Aspect::Recursive => {
            let after = params.after_path().map_err(of_refusal)?;
            let found = service.subtree(context, &path, after.as_ref(), limit, read);
            let found = call.run(found).await?;
            Ok(labelled(found, |page, _| {
                Reply::json(StatusCode::OK, &SubtreeBody::new(path, page))
            }))
        }
        Aspect::Acl => {
            let found = call.run(service.acl(context, &path, read)).await?;
            Ok(labelled(found, |Acl { entries, stat }, revision| {
                list(path, &entries, &stat, revision)
            }))
        }
    }
}

/// The answer to a read, with its revision and, if it is stale, its age.
fn labelled<T>(found: Response<T>, reply: impl FnOnce(T, Revision) -> Reply) -> Reply {
    let Response { value, revision, leader_contact } = found;
    reply(value, revision).at(revision).stale(leader_contact)
}

/// The operation was answered as another one: a bug of this program.
fn unexpected_reply() -> HttpError {
    internal("the reply does not belong to the operation")
}

/// `PUT /v1/tree/{path}?acl`: the list is the body. What was made of it is for a GET to tell: `auth:` stands for others.
async fn set_acl(call: &mut CallContext<'_>, path: ZnodePath) -> Result<Reply, HttpError> {
    const BODY: ParamList = ParamList { what: "an access list", params: &[parameters::ACL] };
    let fields = call.query(&ChangeParams::KEYS)?;
    let change = ChangeParams::parse(&fields, request_id(call)?).map_err(of_refusal)?;
    drop(fields);
    let mut body = Fields::default();
    body.merge_json(&call.body, &BODY).map_err(of_refusal)?;
    let acl: Result<Vec<AclEntry>, Refusal> = body.values("acl").map(parse_acl_entry).collect();
    let acl = acl.map_err(of_refusal)?;
    let version = Precondition::of(&call.parts.headers)?.version()?;
    match ask(call, change, Op::SetAcl { path: path.clone(), acl, version }).await? {
        (OpReply::AclSet { stat }, revision) => {
            let body = ZnodeBody::new(path, stat, revision);
            let reply = Reply::json(StatusCode::OK, &body).at(revision);
            Ok(reply.with_header(ETAG, tag(stat.aversion)))
        }
        _ => Err(unexpected_reply()),
    }
}

/// Asks for a change of one operation, and answers what it did.
async fn ask(
    call: &mut CallContext<'_>,
    change: ChangeParams,
    op: Op,
) -> Result<(OpReply, Revision), HttpError> {
    call.log_fields.session.clone_from(&change.session);
    let ChangeParams { session, request, redirect: _ } = change;
    let caller = Caller { session, request, ..Caller::default() };
    let done = call.run(call.service().change(&call.context, caller, op)).await?;
    Ok((done.value, done.revision))
}

/// Does one thing if the node exists and another if not: whether it did, what was done, and when.
async fn ask_if(
    call: &mut CallContext<'_>,
    change: ChangeParams,
    (path, exists): (&ZnodePath, bool),
    then: Op,
    otherwise: Option<Op>,
) -> Result<(Option<OpReply>, Revision), HttpError> {
    call.log_fields.session.clone_from(&change.session);
    let ChangeParams { session, request, redirect: _ } = change;
    let multi = Multi {
        caller: Caller { session, request, ..Caller::default() },
        conditions: vec![Condition::Exists { path: path.clone(), exists }],
        then: vec![then],
        otherwise: otherwise.into_iter().collect(),
    };
    let done = call.run(call.service().multi(&call.context, multi)).await;
    let done = done.map_err(|mut problem| {
        // To its caller this is one operation.
        problem.facts.at = None;
        problem
    })?;
    Ok((done.value.results.into_iter().next(), done.revision))
}

/// The id under which a retry gets the first answer, if it came as a header; quotes around it are of the header.
pub(crate) fn request_id<'e>(call: &CallContext<'e>) -> Result<Option<&'e str>, HttpError> {
    let name = HeaderName::from_static(IDEMPOTENCY_KEY);
    let Some(text) = only(&call.parts.headers, &name)? else { return Ok(None) };
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    Ok(Some(quoted.unwrap_or(text)))
}

/// Replaces the data if the node exists, and creates it otherwise. Data that an entry of the log holds once, but not
/// twice, is tried one way, and the other way if the node was found otherwise. Under a request id the order is fixed
/// and each try has an id of its own, so that the same call sent again takes the same steps and finds their answers.
async fn put_either_way(
    call: &mut CallContext<'_>,
    mut change: ChangeParams,
    path: &ZnodePath,
    data: Data,
    make: MakeParams,
) -> Result<(OpReply, Revision), HttpError> {
    let set = |data| Op::SetData { path: path.clone(), data, version: None };
    if data.len() <= EITHER_WAY_MAX {
        let create = create(path, data.clone(), make)?;
        let both = ask_if(call, change, (path, true), set(data), Some(Op::Create(create)));
        let (reply, revision) = both.await?;
        return Ok((reply.ok_or_else(unexpected_reply)?, revision));
    }
    let mut replace = change.request.is_none() && {
        let found = call.service().znode(&call.context, path, ReadMode::Stale);
        call.run(found).await.is_ok()
    };
    for _ in 0..TURNS_MAX {
        let op = if replace {
            set(data.clone())
        } else {
            Op::Create(create(path, data.clone(), make.clone())?)
        };
        let tried = ask_if(call, change.clone(), (path, replace), op, None).await?;
        if let (Some(reply), revision) = tried {
            return Ok((reply, revision));
        }
        change.request = change.request.as_ref().map(next_id).transpose()?;
        replace = !replace;
    }
    let detail = "the node comes and goes: nothing was done";
    let facts = Facts { retry_after_ms: Some(1_000), ..Facts::default() };
    Err(with_status(Problem::new(ErrorCode::RateLimited, 0, detail).facts(facts)))
}

/// The id of the next try of one call.
fn next_id(id: &RequestId) -> Result<RequestId, HttpError> {
    let hash = URL_SAFE_NO_PAD.encode(Sha1::digest(id.as_str().as_bytes()));
    RequestId::new(format!("again-{hash}"))
        .map_err(|error| of_refusal(Refusal::bad_name("request", &error)))
}

fn create(path: &ZnodePath, data: Data, make: MakeParams) -> Result<Create, HttpError> {
    let (directory, name) = ZnodePath::for_create(path.as_str(), false)
        .map_err(|error| of_refusal(Refusal::new(ErrorCode::BadName, error.to_string())))?;
    let MakeParams { kind, acl, parents } = make;
    let kind = kind.unwrap_or(CreateKind::Persistent);
    Ok(Create { directory, name, data, kind, sequential: false, acl, parents })
}

fn contradiction() -> HttpError {
    let detail = "If-Match is about a node that exists, and this call creates one";
    let hint = "leave If-Match out, or the kind, list or sequence of a new node";
    with_status(Problem::new(ErrorCode::InvalidArgument, 0, detail).hint(hint))
}

/// The root was always there.
fn of_root() -> HttpError {
    let facts = Facts { path: Some(ZnodePath::root()), ..Facts::default() };
    let problem = Problem::new(ErrorCode::NodeExists, 0, "the root exists from the beginning");
    with_status(problem.hint("name the node in the path of the call: /v1/tree/NAME").facts(facts))
}

/// A node that was made.
fn created(path: ZnodePath, stat: Stat, revision: Revision) -> Reply {
    let location = HeaderValue::try_from(tree_path(&path));
    let reply = node(StatusCode::CREATED, path, stat, revision);
    match location {
        Ok(location) => reply.with_header(LOCATION, location),
        Err(_) => reply,
    }
}

fn node(status: StatusCode, path: ZnodePath, stat: Stat, revision: Revision) -> Reply {
    let body = ZnodeBody::new(path, stat, revision);
    Reply::json(status, &body).at(revision).with_header(ETAG, tag(stat.version))
}

fn list(path: ZnodePath, acl: &[AclEntry], stat: &Stat, revision: Revision) -> Reply {
    let body = AclBody::new(path, acl, stat, revision);
    Reply::json(StatusCode::OK, &body).with_header(ETAG, tag(stat.aversion))
}

/// What a node says about itself beside its data.
fn stat_headers(stat: &Stat) -> Vec<(HeaderName, HeaderValue)> {
    use node_headers::{
        ACL_VERSION, CHILDREN, CHILDREN_REVISION, CHILDREN_VERSION, CREATED_AT_MS,
        CREATED_REVISION, KIND, MODIFIED_AT_MS, MODIFIED_REVISION, SESSION_NUMBER, TTL_MS, VERSION,
    };
    let body = StatBody::from(*stat);
    let header = |name, value: HeaderValue| (HeaderName::from_static(name), value);
    let mut headers = vec![
        (ETAG, tag(body.version)),
        header(KIND, HeaderValue::from_static(body.kind.as_str())),
        header(VERSION, body.version.into()),
        header(CHILDREN_VERSION, body.children_version.into()),
        header(ACL_VERSION, body.acl_version.into()),
        header(CREATED_REVISION, body.created_revision.0.into()),
        header(MODIFIED_REVISION, body.modified_revision.0.into()),
        header(CHILDREN_REVISION, body.children_revision.0.into()),
        header(CREATED_AT_MS, body.created_at_ms.0.into()),
        header(MODIFIED_AT_MS, body.modified_at_ms.0.into()),
        header(CHILDREN, body.children.into()),
    ];
    headers.extend(body.session_number.map(|number| header(SESSION_NUMBER, number.into())));
    headers.extend(body.ttl_ms.map(|ms| header(TTL_MS, ms.into())));
    headers
}
