//! Namespaces with their quotas: `/v1/namespaces`, and one of them.

use holdfast_api::parameters::namespace::{
    BYTES, CALLS_PER_SECOND, LOCKS, QUEUE_ENTRIES, RECIPES, SESSIONS, WAITERS_PER_LOCK, ZNODES,
};
use holdfast_api::{CallParams as _, ErrorCode, NamespaceBody, NamespacesBody, Schemas, params};
use holdfast_service::NamespaceView;
use holdfast_types::{AuthChange, QuotaKind, Right};

use crate::access::{AUTH_MANAGE, AUTH_READ, CallAccess};
use crate::auth::quotas::{by_name, named};
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::routes::{NAMESPACE, NAMESPACES};

pub(crate) static LIST: Operation = Operation {
    summary: "List the namespaces with their quotas and what they use",
    answers: || ResponseSpec::ok("The namespaces, by name", Schemas::of::<NamespacesBody>),
    ..Operation::read("listNamespaces", &NAMESPACES, AUTH_READ, handler!(list))
};

pub(crate) static READ: Operation = Operation {
    summary: "Read a namespace with its quotas and what it uses",
    description: "A subject of the namespace needs no permission.",
    answers: || ResponseSpec::ok("The namespace", Schemas::of::<NamespaceBody>),
    errors: &[ErrorCode::NotFound],
    ..Operation::read(
        "readNamespace",
        &NAMESPACE,
        CallAccess::OwnOr(Right::AuthRead),
        handler!(read),
    )
};

pub(crate) static SET: Operation = Operation {
    summary: "Register a namespace, or replace its quotas",
    description: "From then on a subject of the namespace, such as team-a/deploy, uses only names of the namespace. A quota that the \
                  call does not name is unlimited. A quota below the present use rejects growth only.",
    params: SetNamespaceParams::LIST,
    example: Example { query: "locks=1000&sessions=100", body: "" },
    answers: || ResponseSpec::no_content("The namespace is set"),
    errors: &[ErrorCode::LastAdministrator, ErrorCode::QuotaExceeded],
    ..Operation::change("setNamespace", Method::Put, &NAMESPACE, AUTH_MANAGE, handler!(set))
};

pub(crate) static DELETE: Operation = Operation {
    summary: "Delete a namespace to which nothing belongs",
    description: "Its subjects would no longer be bound to it: delete them first, and its sessions, znodes and recipes.",
    answers: || ResponseSpec::no_content("The namespace does not exist any more"),
    errors: &[ErrorCode::NotFound, ErrorCode::NamespaceInUse],
    ..Operation::change(
        "deleteNamespace",
        Method::Delete,
        &NAMESPACE,
        AUTH_MANAGE,
        handler!(delete),
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
    }
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    call.ok(call.service().namespaces(), |found, _| NamespacesBody {
        namespaces: found.into_iter().map(body).collect(),
    })
    .await
}

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let namespace = call.namespace()?;
    call.ok(call.service().namespace(namespace), |found, _| body(found)).await
}

fn body(view: NamespaceView) -> NamespaceBody {
    let NamespaceView { namespace, quotas, used } = view;
    NamespaceBody { namespace, quotas: by_name(quotas.0), used: by_name(used) }
}

async fn set(call: &mut CallContext<'_>) -> HandlerResult {
    let namespace = call.namespace()?;
    let params: SetNamespaceParams = call.params()?;
    let quotas = named([
        (QuotaKind::Locks, params.locks),
        (QuotaKind::QueueEntries, params.queue_entries),
        (QuotaKind::WaitersPerLock, params.waiters_per_lock),
        (QuotaKind::Sessions, params.sessions),
        (QuotaKind::Znodes, params.znodes),
        (QuotaKind::Bytes, params.bytes),
        (QuotaKind::Recipes, params.recipes),
        (QuotaKind::CallsPerSecond, params.calls_per_second),
    ]);
    call.no_content(call.service().change_auth(AuthChange::SetNamespace { namespace, quotas }))
        .await
}

async fn delete(call: &mut CallContext<'_>) -> HandlerResult {
    let namespace = call.namespace()?;
    call.no_content(call.service().change_auth(AuthChange::DeleteNamespace { namespace })).await
}
