//! `PUT /v1/namespaces/{namespace}`: register a namespace or replace its quotas.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::namespace::{
    BYTES, CALLS_PER_SECOND, LOCKS, QUEUE_ENTRIES, RECIPES, SESSIONS, WAITERS_PER_LOCK, ZNODES,
};
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{AuthChange, QuotaKind, Quotas, RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::NAMESPACE;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Register a namespace, or replace its quotas",
    description: "From then on a subject of the namespace, such as team-a/deploy, uses only names of the namespace. A quota that the \
                  call does not name is unlimited. A quota below the present use rejects growth only.",
    params: SetNamespaceParams::LIST,
    example: Example { query: "locks=1000&sessions=100", body: "" },
    answers: || vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The namespace is set")],
    errors: &[ErrorCode::Forbidden, ErrorCode::LastAdministrator, ErrorCode::QuotaExceeded],
    ..Operation::write(
        "setNamespace",
        Method::Put,
        &NAMESPACE,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::AuthManage]),
        BodyKind::SMALL,
        |call| set(call).boxed(),
    )
};

params! {
    struct SetNamespaceParams {
        locks: Option<u64> = LOCKS,
        queue_entries: Option<u64> = QUEUE_ENTRIES,
        waiters_per_lock: Option<u64> = WAITERS_PER_LOCK,
        sessions: Option<u64> = SESSIONS,
        znodes: Option<u64> = ZNODES,
        bytes: Option<u64> = BYTES,
        recipes: Option<u64> = RECIPES,
        calls_per_second: Option<u64> = CALLS_PER_SECOND,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn set(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let namespace = call.namespace()?;
    let params: SetNamespaceParams = call.params()?;
    let quotas = [
        (QuotaKind::Locks, params.locks),
        (QuotaKind::QueueEntries, params.queue_entries),
        (QuotaKind::WaitersPerLock, params.waiters_per_lock),
        (QuotaKind::Sessions, params.sessions),
        (QuotaKind::Znodes, params.znodes),
        (QuotaKind::Bytes, params.bytes),
        (QuotaKind::Recipes, params.recipes),
        (QuotaKind::CallsPerSecond, params.calls_per_second),
    ];
    let set = quotas.into_iter().filter_map(|(quota, limit)| Some((quota, limit?)));
    let quotas = Quotas(set.collect());
    let change = AuthChange::SetNamespace { namespace, quotas };
    let changed = call.run(call.service().change_auth(change)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}
