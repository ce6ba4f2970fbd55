//! The operations on the tree: its nodes, transactions and watches.

use axum::http::StatusCode;
use holdfast_api::{
    AclBody, ChildrenBody, DeleteParams, ErrorCode, HOLDFAST_DELETED, IDEMPOTENCY_KEY, NodeParams,
    PostParams, PutParams, Schemas, SubtreeBody, TxnBody, TxnParams, WatchBody, WatchParams,
    ZnodeBody, node_headers as of_node,
};

use super::{Answer, Content, Header, Operation, Reach};

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

pub(super) fn put() -> Operation {
    Operation {
        id: "putNode",
        summary: "Create a node, or replace its data",
        about: "The body is the data, byte by byte, whatever its type. ephemeral, container, ttl and acl concern the \
                creation: with any of them the call creates and never replaces. With acl alone, without a value, the \
                call replaces the node's access list, and the body is {\"acl\": [...]}.",
        keys: PutParams::KEYS,
        headers: &[IF_MATCH, IF_NONE_MATCH, KEY],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::OK, "The data is replaced", Schemas::of::<ZnodeBody>)
                .with(&[ETAG]),
            Answer::json(StatusCode::CREATED, "The node exists now", Schemas::of::<ZnodeBody>)
                .with(&[ETAG, LOCATION]),
        ],
        codes: &CHANGED,
    }
}

pub(super) fn post() -> Operation {
    Operation {
        id: "postNode",
        summary: "Create a child whose name gets the directory's next number",
        about: "The body is the data. If-Match and If-None-Match have no meaning here and are refused.",
        keys: PostParams::KEYS,
        headers: &[KEY],
        reach: Reach::Change,
        answers: vec![
            Answer::json(StatusCode::CREATED, "The node exists now", Schemas::of::<ZnodeBody>)
                .with(&[ETAG, LOCATION]),
        ],
        codes: &[
            ErrorCode::Forbidden,
            ErrorCode::QuotaExceeded,
            ErrorCode::NotFound,
            ErrorCode::SegmentsMismatch,
            ErrorCode::EphemeralParent,
            ErrorCode::NodeExists,
            ErrorCode::SessionExpired,
        ],
    }
}

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

pub(super) fn get() -> Operation {
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
    Operation {
        id: "readNode",
        summary: "A node's data, stat, children, subtree or access list",
        about: "stat, children, recursive and acl are different questions: one at a time. limit and page_token belong \
                to the two lists, children and recursive.",
        keys: NodeParams::KEYS,
        headers: &[],
        reach: Reach::Read,
        answers: vec![json.into_iter().fold(answer, add)],
        codes: &[ErrorCode::Forbidden, ErrorCode::NotFound],
    }
}

pub(super) fn delete() -> Operation {
    Operation {
        id: "deleteNode",
        summary: "Delete a node",
        about: "",
        keys: DeleteParams::KEYS,
        headers: &[IF_MATCH, KEY],
        reach: Reach::Change,
        answers: vec![
            Answer::empty(StatusCode::NO_CONTENT, "It is gone")
                .with(&[Header::number(HOLDFAST_DELETED, "Nodes that are gone")]),
        ],
        codes: &[
            ErrorCode::Forbidden,
            ErrorCode::QuotaExceeded,
            ErrorCode::NotFound,
            ErrorCode::NotEmpty,
            ErrorCode::SessionExpired,
            ErrorCode::VersionMismatch,
        ],
    }
}

pub(super) fn txn() -> Operation {
    Operation {
        id: "transact",
        summary: "Check conditions and change several nodes, all or nothing",
        about: "If all conditions of if hold, then is done, or else else. if, then and else stand in the body alone.",
        keys: TxnParams::KEYS,
        headers: &[KEY],
        reach: Reach::Change,
        answers: vec![Answer::json(
            StatusCode::OK,
            "Which list was done, and what came of it",
            Schemas::of::<TxnBody>,
        )],
        codes: &[
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
    }
}

pub(super) fn watch() -> Operation {
    const LAST: Header = Header::text(
        "last-event-id",
        "Of a stream that is taken up again: the id of the last event seen; wins over since",
    );
    Operation {
        id: "watch",
        summary: "What has changed below a place of the tree, and what changes next",
        about: "A long poll; with Accept: text/event-stream a stream of server-sent events that goes on until one side \
                ends it. revision, or an event's id, is where to go on with which nothing is missed.",
        keys: WatchParams::KEYS,
        headers: &[LAST],
        reach: Reach::Read,
        answers: vec![
            Answer::json(StatusCode::OK, "What has changed", Schemas::of::<WatchBody>)
                .or("text/event-stream", Content::Text),
        ],
        codes: &[ErrorCode::RevisionCompacted],
    }
}
