//! `GET /v1/tree/{path}`: a znode's data, stat, children, subtree or access list.

use axum::http::header::ETAG;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use holdfast_api::parameters::tree::{CHILDREN, RECURSIVE, STAT};
use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, STALE};
use holdfast_api::{
    AclBody, CallParams as _, ChildrenBody, ErrorCode, LIST_LIMIT_DEFAULT, Param, ParamError,
    Rfc3339Time, Schemas, StatBody, SubtreeBody, ZnodeBody, node_headers, params,
};
use holdfast_service::{Response, ZnodeAcl, ZnodeContents};
use holdfast_types::{Revision, Stat, ZnodePath};

use super::stat_reply;
use crate::access::TREE_READ;
use crate::call::{CallContext, HandlerResult, read_mode};
use crate::operation::{Content, Header, Operation, ResponseSpec, handler};
use crate::precondition::tag;
use crate::reply::Reply;
use crate::routes::TREE;

const ACL: Param = Param::flag("acl", "The znode's access list, instead of its data");

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the data, stat, children, subtree or access list of a znode",
    description: "A call has at most one of stat, children, recursive and acl. limit and page_token require children \
        or recursive.",
    params: GetParams::LIST,
    answers,
    errors: &[ErrorCode::NotFound],
    ..Operation::read("readZnode", &TREE, TREE_READ, handler!(get))
};

params! {
    struct GetParams {
        stat: bool = STAT,
        children: bool = CHILDREN,
        recursive: bool = RECURSIVE,
        acl: bool = ACL,
        limit: Option<usize> = LIMIT,
        page_token: Option<String> = PAGE_TOKEN,
        stale: bool = STALE,
    }
}

fn answers() -> Vec<ResponseSpec> {
    const STAT: [Header; 13] = [
        super::ETAG,
        Header::text(node_headers::KIND, "persistent, container, ephemeral or ttl"),
        Header::number(node_headers::VERSION, "The number of changes of its data"),
        Header::number(
            node_headers::CHILDREN_VERSION,
            "The number of created children plus the number of deleted children",
        ),
        Header::number(node_headers::ACL_VERSION, "The number of changes of its access list"),
        Header::number(node_headers::CREATED_REVISION, "The revision that created the znode"),
        Header::number(node_headers::MODIFIED_REVISION, "The revision that last changed its data"),
        Header::number(
            node_headers::CHILDREN_REVISION,
            "The revision that last created or deleted a child",
        ),
        Header::text(node_headers::CREATED_AT, "When it was created, as of RFC 3339"),
        Header::text(node_headers::MODIFIED_AT, "When its data was last changed, as of RFC 3339"),
        Header::number(node_headers::CHILDREN, "The number of its children"),
        Header::number(node_headers::SESSION_NUMBER, "The session number of an ephemeral znode"),
        Header::number(node_headers::TTL_MS, "The time-to-live of a ttl znode, milliseconds"),
    ];
    let about = "The znode's data, with its stat in headers; or the requested JSON document";
    let answer = ResponseSpec::empty(StatusCode::OK, about)
        .or("application/octet-stream", Content::Bytes)
        .or("application/json", Content::Json(Schemas::of::<ZnodeBody>))
        .or("application/json", Content::Json(Schemas::of::<ChildrenBody>))
        .or("application/json", Content::Json(Schemas::of::<SubtreeBody>))
        .or("application/json", Content::Json(Schemas::of::<AclBody>));
    vec![answer.with(&STAT)]
}

async fn get(call: &mut CallContext<'_>) -> HandlerResult {
    let path = call.znode()?;
    let params: GetParams = call.params()?;
    let aspect = aspect(&params)?;
    let read = read_mode(params.stale);
    let service = call.service();
    let limit = params.limit.unwrap_or(LIST_LIMIT_DEFAULT);
    match aspect {
        Aspect::Data | Aspect::Stat => {
            let found = call.run(service.znode(&path, read)).await?;
            Ok(read_reply(found, |ZnodeContents { stat, data }, revision| {
                if aspect == Aspect::Stat {
                    return stat_reply(StatusCode::OK, path, stat, revision);
                }
                Reply::bytes(StatusCode::OK, data.to_vec()).with_headers(stat_headers(&stat))
            }))
        }
        Aspect::Children => {
            let after = params.page_token.as_deref();
            let found = call.run(service.children(&path, after, limit, read)).await?;
            Ok(read_reply(found, |page, _| {
                Reply::json(StatusCode::OK, &ChildrenBody::new(path, page))
            }))
        }
        Aspect::Subtree => {
            let after = page_path(&params)?;
            let found = service.subtree(&path, after, limit, read);
            let found = call.run(found).await?;
            Ok(read_reply(found, |page, _| {
                Reply::json(StatusCode::OK, &SubtreeBody::new(path, page))
            }))
        }
        Aspect::Acl => {
            let found = call.run(service.acl(&path, read)).await?;
            Ok(read_reply(found, |ZnodeAcl { entries, stat }, revision| {
                let body = AclBody::new(path, &entries, &stat, revision);
                Reply::json(StatusCode::OK, &body).with_header(ETAG, tag(stat.aversion))
            }))
        }
    }
}

/// The part of a znode that a call reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aspect {
    Data,
    Stat,
    Children,
    Subtree,
    Acl,
}

fn aspect(params: &GetParams) -> Result<Aspect, ParamError> {
    let flags = [
        ("stat", params.stat, Aspect::Stat),
        ("children", params.children, Aspect::Children),
        ("recursive", params.recursive, Aspect::Subtree),
        ("acl", params.acl, Aspect::Acl),
    ];
    let mut set = flags.into_iter().filter(|(_, set, _)| *set);
    let aspect = match (set.next(), set.next()) {
        (None, _) => Aspect::Data,
        (Some((_, _, aspect)), None) => aspect,
        (Some((one, ..)), Some((other, ..))) => {
            return Err(ParamError::excluded(other, one).hint("read them in two calls"));
        }
    };
    let page = [("limit", params.limit.is_some()), ("page_token", params.page_token.is_some())];
    let paged = matches!(aspect, Aspect::Children | Aspect::Subtree);
    match page.into_iter().find(|(_, given)| *given) {
        Some((param, _)) if !paged => {
            let detail = format!("'{param}' requires children or recursive");
            Err(ParamError::invalid(param, detail)
                .hint(format!("add ?children or ?recursive, or leave {param} out")))
        }
        Some(_) | None => Ok(aspect),
    }
}

/// Returns the path after which the page of a subtree starts.
fn page_path(params: &GetParams) -> Result<Option<ZnodePath>, ParamError> {
    let path = params.page_token.as_deref().map(ZnodePath::new);
    path.transpose().map_err(|error| ParamError::bad_name("page_token", &error))
}

/// Adds the revision to a reply and, for a stale read, its age.
fn read_reply<T>(found: Response<T>, reply: impl FnOnce(T, Revision) -> Reply) -> Reply {
    let Response { value, revision, leader_contact } = found;
    reply(value, revision).at(revision).stale(leader_contact)
}

/// The stat of a znode as headers, for a reply whose body is the data.
fn stat_headers(stat: &Stat) -> Vec<(HeaderName, HeaderValue)> {
    use node_headers::{
        ACL_VERSION, CHILDREN, CHILDREN_REVISION, CHILDREN_VERSION, CREATED_AT, CREATED_REVISION,
        KIND, MODIFIED_AT, MODIFIED_REVISION, SESSION_NUMBER, TTL_MS, VERSION,
    };
    let body = StatBody::from(*stat);
    let time = |moment: Rfc3339Time| {
        HeaderValue::try_from(moment.to_string()).unwrap_or_else(|_| HeaderValue::from_static(""))
    };
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
        header(CREATED_AT, time(body.created_at)),
        header(MODIFIED_AT, time(body.modified_at)),
        header(CHILDREN, body.children.into()),
    ];
    headers.extend(body.session_number.map(|number| header(SESSION_NUMBER, number.into())));
    headers.extend(body.ttl_ms.map(|ms| header(TTL_MS, ms.into())));
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(query: &str) -> Result<GetParams, ParamError> {
        let params = GetParams::from_query(query)?;
        aspect(&params).map(|_| params)
    }

    #[test]
    fn a_get_reads_one_aspect_and_only_lists_accept_page_parameters() {
        assert_eq!(aspect(&get("").unwrap()).unwrap(), Aspect::Data);
        assert_eq!(get("children&limit=2").unwrap().limit, Some(2));
        let page = get("recursive&page_token=/a").unwrap();
        assert_eq!(page_path(&page).unwrap().unwrap().as_str(), "/a");
        assert!(page_path(&get("recursive&page_token=a").unwrap()).is_err());
        for query in ["stat&children", "limit=5", "stat&page_token=x", "children&limit=0"] {
            assert_eq!(get(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
        let error = get("cildren").unwrap_err();
        assert!(error.hint.unwrap().starts_with("did you mean 'children'?"));
    }
}
