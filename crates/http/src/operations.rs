//! Every call of the API, in the order of the description, and the router that is built from the list.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::on;

use crate::front::answer;
use crate::operation::Operation;
use crate::state::HttpState;
use crate::{auth, cluster, elections, locks, members, node, pages, recipes, sessions, tree};

pub(crate) use crate::unmatched::{NO_SUCH_PATH, WRONG_METHOD};

pub(crate) static OPERATIONS: &[&Operation] = &[
    &locks::acquire::OPERATION,
    &locks::release::RELEASE,
    &locks::read::READ,
    &locks::read::LIST,
    &locks::multi_lock::ACQUIRE,
    &locks::multi_lock::RELEASE,
    &locks::transfer::OPERATION,
    &locks::release::REQUESTED,
    &locks::release::FORCED,
    &locks::policy::READ,
    &locks::policy::SET,
    &locks::history::OPERATION,
    &locks::read::CHECK_TOKEN,
    &sessions::CREATE,
    &sessions::OPEN,
    &sessions::keep_alive::KEEP_ALIVE,
    &sessions::keep_alive::KEEP_MANY_ALIVE,
    &sessions::CLOSE,
    &sessions::READ,
    &sessions::LIST,
    &tree::put::OPERATION,
    &tree::CREATE,
    &tree::get::OPERATION,
    &tree::DELETE,
    &tree::txn::OPERATION,
    &tree::watch::OPERATION,
    &tree::quotas::LIST,
    &tree::quotas::READ,
    &tree::quotas::SET,
    &tree::quotas::DELETE,
    &recipes::LIST,
    &recipes::latch::CREATE,
    &recipes::latch::COUNT_DOWN,
    &recipes::latch::AWAIT,
    &recipes::latch::DELETE,
    &recipes::barrier::ARRIVE,
    &recipes::barrier::READ,
    &recipes::barrier::LEAVE,
    &recipes::barrier::ENTER_DOUBLE,
    &recipes::barrier::READ_DOUBLE,
    &recipes::barrier::LEAVE_DOUBLE,
    &recipes::counter::READ,
    &recipes::counter::ADD_TO,
    &recipes::counter::SET,
    &recipes::counter::DELETE,
    &elections::CAMPAIGN,
    &elections::READ,
    &elections::RESIGN,
    &auth::administrator::BOOTSTRAP,
    &auth::administrator::RECOVER,
    &auth::READ,
    &auth::SET_MODE,
    &auth::ME,
    &auth::CAN,
    &auth::tokens::LIST,
    &auth::tokens::CREATE,
    &auth::tokens::ROTATE,
    &auth::tokens::DELETE,
    &auth::tokens::SET_POLICY,
    &auth::subjects::LIST,
    &auth::subjects::SET,
    &auth::subjects::DELETE,
    &auth::quotas::READ_DEFAULT,
    &auth::quotas::SET_DEFAULT,
    &auth::quotas::READ,
    &auth::quotas::SET,
    &auth::subjects::LIST_ROLES,
    &auth::subjects::SET_ROLE,
    &auth::subjects::DELETE_ROLE,
    &auth::subjects::LIST_DENIED,
    &auth::subjects::DENY,
    &auth::subjects::ALLOW,
    &auth::AUDIT_TRAIL,
    &auth::quotas::LIST_NAMESPACES,
    &auth::quotas::READ_NAMESPACE,
    &auth::quotas::SET_NAMESPACE,
    &auth::quotas::DELETE_NAMESPACE,
    &cluster::READ,
    &node::ALARMS,
    &node::RECENT,
    &node::SET_LOG,
    &cluster::SET_LEVEL,
    &members::ADD,
    &members::SET,
    &members::REMOVE,
    &cluster::TRANSFER,
    &cluster::VERIFY,
    &cluster::SEAL_CLUSTER,
    &cluster::UNSEAL_CLUSTER,
    &cluster::BACK_UP,
    &node::LIVE,
    &node::READY,
    &node::METRICS,
    &node::VERSION,
    &pages::ERROR,
    &pages::OPENAPI,
    &pages::DOCS,
    &pages::TRY_IT,
];

pub(crate) fn router(state: &Arc<HttpState>) -> Router {
    let call = |operation: &'static Operation| {
        let metrics = Arc::new(state.metrics.of_route(operation.route.pattern));
        move |State(state): State<Arc<HttpState>>, request: Request| {
            answer(state, operation, metrics.clone(), request)
        }
    };
    let mut router = Router::new();
    for operation in OPERATIONS {
        for path in operation.route.matched() {
            router = router.route(&path, on(operation.method.filter(), call(operation)));
        }
    }
    router
        .method_not_allowed_fallback(call(&WRONG_METHOD))
        .fallback(call(&NO_SUCH_PATH))
        .with_state(state.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::CallAccess;

    /// The function in which the names of a request select the right.
    #[test]
    fn access_by_names_is_decided_in_a_function_that_exists() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        for operation in OPERATIONS {
            let CallAccess::AnyOf { decided_in, .. } = operation.access else { continue };
            let (file, function) = decided_in.split_once(": ").unwrap();
            let source = std::fs::read_to_string(format!("{root}{file}")).unwrap();
            assert!(source.contains(&format!("fn {function}")), "{operation:?}: {decided_in}");
        }
    }
}
