//! The calls on tree.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{
    AclBody, ChildrenBody, DeleteParams, ErrorCode, HOLDFAST_DELETED, IDEMPOTENCY_KEY, NodeParams,
    PostParams, PutParams, Schemas, SubtreeBody, TxnBody, TxnParams, WatchBody, WatchParams,
    ZnodeBody, node_headers as of_node,
};

use crate::body::BodyKind;
use crate::operation::{Answer, Content, Header, Method, Operation, Scope};
use crate::{routes, tree, txn, watch};

const IF_MATCH: Header = Header::text(
    "if-match",
    "The version that the node must have, in quotes, as its ETag says; or *: it must exist",
);
const IF_NONE_MATCH: Header =
    Header::text("if-none-match", "Only *: the node must not exist; nothing is replaced");
const KEY: Header = Header::text(IDEMPOTENCY_KEY, "The request id, instead of the parameter");
const ETAG: Header = Header::text("etag", "The version of its data; of a list, that of the list");
const LOCATION: Header = Header::text("location", "Where the node is");

const CHANGED: [ErrorCode; 7] = [
    ErrorCode::Forbidden,
    ErrorCode::QuotaExceeded,
    ErrorCode::NotFound,
    ErrorCode::EphemeralParent,
    ErrorCode::NodeExists,
    ErrorCode::SessionExpired,
    ErrorCode::VersionMismatch,
];

pub(crate) static PUT: Operation = Operation {
    id: "putNode",
    method: Method::Put,
    route: &routes::TREE,
    summary: "Create a node, or replace its data",
    description: "The body is the data, byte by byte, whatever its type. ephemeral, container, ttl and acl concern the \
            creation: with any of them the call creates and never replaces. With acl alone, without a value, the \
            call replaces the node's access list, and the body is {\"acl\": [...]}.",
    params: PutParams::KEYS,
    headers: &[IF_MATCH, IF_NONE_MATCH, KEY],
    body: BodyKind::Data,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "The data is replaced", Schemas::of::<ZnodeBody>)
                .with(&[ETAG]),
            Answer::json(StatusCode::CREATED, "The node exists now", Schemas::of::<ZnodeBody>)
                .with(&[ETAG, LOCATION]),
        ]
    },
    errors: &CHANGED,
    handler: |call| tree::put(call).boxed(),
};

pub(crate) static POST: Operation = Operation {
    id: "postNode",
    method: Method::Post,
    route: &routes::TREE,
    summary: "Create a child whose name gets the directory's next number",
    description: "The body is the data. If-Match and If-None-Match have no meaning here and are refused.",
    params: PostParams::KEYS,
    headers: &[KEY],
    body: BodyKind::Data,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::json(StatusCode::CREATED, "The node exists now", Schemas::of::<ZnodeBody>)
                .with(&[ETAG, LOCATION]),
        ]
    },
    errors: &[
        ErrorCode::Forbidden,
        ErrorCode::QuotaExceeded,
        ErrorCode::NotFound,
        ErrorCode::SegmentsMismatch,
        ErrorCode::EphemeralParent,
        ErrorCode::NodeExists,
        ErrorCode::SessionExpired,
    ],
    handler: |call| tree::post(call).boxed(),
};

/// What a node says about itself beside its data.
const STAT: [Header; 12] = [
    ETAG,
    Header::text(of_node::KIND, "persistent, container, ephemeral or ttl"),
    Header::number(of_node::VERSION, "Changes of its data, from 0"),
    Header::number(of_node::CHILDREN_VERSION, "Children created plus children deleted, ever"),
    Header::number(of_node::ACL_VERSION, "Changes of its access list, from 0"),
    Header::number(of_node::CREATED_REVISION, "The revision that created it"),
    Header::number(of_node::MODIFIED_REVISION, "The revision that last changed its data"),
    Header::number(of_node::CHILDREN_REVISION, "The revision of the last child made or deleted"),
    Header::number(of_node::CREATED_AT_MS, "When it was created, milliseconds of the Unix epoch"),
    Header::number(of_node::MODIFIED_AT_MS, "When its data was last changed, likewise"),
    Header::number(of_node::CHILDREN, "Children it has now"),
    Header::number(of_node::SESSION_NUMBER, "Of an ephemeral: the number of its session"),
];
const TTL_MS: Header = Header::number(of_node::TTL_MS, "Of a node with a time-to-live");

fn node_answers() -> Vec<Answer> {
    let json: [fn(&mut Schemas) -> serde_json::Value; 4] = [
        Schemas::of::<ZnodeBody>,
        Schemas::of::<ChildrenBody>,
        Schemas::of::<SubtreeBody>,
        Schemas::of::<AclBody>,
    ];
    let about = "Its data, with its stat as headers; or the JSON that was asked for";
    let answer = Answer::empty(StatusCode::OK, about)
        .or("application/octet-stream", Content::Bytes)
        .with(&STAT)
        .with(&[TTL_MS]);
    let add = |answer: Answer, schema| answer.or("application/json", Content::Json(schema));
    vec![json.into_iter().fold(answer, add)]
}

pub(crate) static GET: Operation = Operation {
    id: "readNode",
    method: Method::Get,
    route: &routes::TREE,
    summary: "A node's data, stat, children, subtree or access list",
    description: "stat, children, recursive and acl are different questions: one at a time. limit and page_token belong \
            to the two lists, children and recursive.",
    params: NodeParams::KEYS,
    headers: &[],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: node_answers,
    errors: &[ErrorCode::Forbidden, ErrorCode::NotFound],
    handler: |call| tree::get(call).boxed(),
};

pub(crate) static DELETE: Operation = Operation {
    id: "deleteNode",
    method: Method::Delete,
    route: &routes::TREE,
    summary: "Delete a node",
    description: "",
    params: DeleteParams::KEYS,
    headers: &[IF_MATCH, KEY],
    body: BodyKind::Fields,
    scope: Scope::Write,
    answers: || {
        vec![
            Answer::empty(StatusCode::NO_CONTENT, "It is gone")
                .with(&[Header::number(HOLDFAST_DELETED, "Nodes that are gone")]),
        ]
    },
    errors: &[
        ErrorCode::Forbidden,
        ErrorCode::QuotaExceeded,
        ErrorCode::NotFound,
        ErrorCode::NotEmpty,
        ErrorCode::SessionExpired,
        ErrorCode::VersionMismatch,
    ],
    handler: |call| tree::delete(call).boxed(),
};

pub(crate) static TXN: Operation = Operation {
    id: "transact",
    method: Method::Post,
    route: &routes::TXN,
    summary: "Check conditions and change several nodes, all or nothing",
    description: "If all conditions of if hold, then is done, or else else. if, then and else stand in the body alone.",
    params: TxnParams::KEYS,
    headers: &[KEY],
    body: BodyKind::Txn,
    scope: Scope::Write,
    answers: || {
        vec![Answer::json(
            StatusCode::OK,
            "Which list was done, and what came of it",
            Schemas::of::<TxnBody>,
        )]
    },
    errors: &[
        ErrorCode::Forbidden,
        ErrorCode::QuotaExceeded,
        ErrorCode::NotFound,
        ErrorCode::SegmentsMismatch,
        ErrorCode::EphemeralParent,
        ErrorCode::NodeExists,
        ErrorCode::NotEmpty,
        ErrorCode::SessionExpired,
        ErrorCode::VersionMismatch,
    ],
    handler: |call| txn::run(call).boxed(),
};

const WATCH_LAST: Header = Header::text(
    "last-event-id",
    "Of a stream that is taken up again: the id of the last event seen; wins over since",
);
pub(crate) static WATCH: Operation = Operation {
    id: "watch",
    method: Method::Get,
    route: &routes::WATCH,
    summary: "What has changed below a place of the tree, and what changes next",
    description: "A long poll; with Accept: text/event-stream a stream of server-sent events that goes on until one side \
            ends it. revision, or an event's id, is where to go on with which nothing is missed.",
    params: WatchParams::KEYS,
    headers: &[WATCH_LAST],
    body: BodyKind::None,
    scope: Scope::Read,
    answers: || {
        vec![
            Answer::json(StatusCode::OK, "What has changed", Schemas::of::<WatchBody>)
                .or("text/event-stream", Content::Text),
        ]
    },
    errors: &[ErrorCode::RevisionCompacted],
    handler: |call| watch::watch(call).boxed(),
};
