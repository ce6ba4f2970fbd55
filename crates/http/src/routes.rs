//! The paths of the API, and the router that is made from the list of operations.
//!
//! Paths are matched as sent: nothing is decoded or normalised here.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::on;
use holdfast_api::Param;
use holdfast_types::{LockName, RecipeName, SessionName, ZnodePath};

use crate::front::{Front, answer};
use crate::operation::{Operation, Route};
use crate::operations::{NO_SUCH_PATH, OPERATIONS, WRONG_METHOD};

const LOCK_NAME: Param = Param::path(
    "name",
    LockName::MAX_LEN,
    "The lock; may contain '/', but no component may be empty, '.' or '..'",
)
.needed("orders");
const SESSION_ID: Param =
    Param::name("id", SessionName::MAX_LEN, "The session; contains neither '/' nor white space")
        .needed("me");
const RECIPE_NAME: Param =
    Param::path("name", RecipeName::MAX_LEN, "The name, with the rules of lock names")
        .needed("start");
const ELECTION_NAME: Param = Param::path(
    "name",
    LockName::MAX_LEN - "elections/".len(),
    "The election, with the rules of lock names: it is the lock elections/NAME",
)
.needed("primary");
const ZNODE_PATH: Param = Param::path(
    "path",
    ZnodePath::MAX_LEN - 1,
    "The znode's path without its first '/'; may contain '/'. /v1/tree is the root",
)
.needed("cfg");

pub(crate) static LOCK: Route = Route::new("/v1/locks/{name}", "locks", Some(LOCK_NAME));
pub(crate) static LOCKS: Route = Route::new("/v1/locks", "locks", None);
pub(crate) static SESSION: Route = Route::new("/v1/sessions/{id}", "sessions", Some(SESSION_ID));
pub(crate) static SESSIONS: Route = Route::new("/v1/sessions", "sessions", None);
pub(crate) static KEEP_ALIVE: Route =
    Route::new("/v1/sessions/{id}/keepalive", "sessions", Some(SESSION_ID));
pub(crate) static KEEP_MANY_ALIVE: Route = Route::new("/v1/keepalive", "sessions", None);
pub(crate) static HISTORY: Route = Route::new("/v1/history/{name}", "locks", Some(LOCK_NAME));
pub(crate) static FENCE: Route = Route::new("/v1/fence/{name}", "locks", Some(LOCK_NAME));
pub(crate) static TREE: Route = Route::new("/v1/tree/{path}", "tree", Some(ZNODE_PATH));
pub(crate) static TXN: Route = Route::new("/v1/txn", "tree", None);
pub(crate) static WATCH: Route = Route::new("/v1/watch", "tree", None);
pub(crate) static CLUSTER: Route = Route::new("/v1/cluster", "cluster and node", None);
pub(crate) static LIVE: Route = Route::new("/livez", "cluster and node", None);
pub(crate) static READY: Route = Route::new("/readyz", "cluster and node", None);
pub(crate) static METRICS: Route = Route::new("/metrics", "cluster and node", None);
pub(crate) static VERSION: Route = Route::new("/version", "cluster and node", None);
pub(crate) static EXPLAIN: Route = Route::new(
    "/errors/{code}",
    "this description",
    Some(Param::text("code", "The error code").needed("lock-busy")),
);
pub(crate) static OPEN_API: Route = Route::new("/openapi.json", "this description", None);
pub(crate) static DOCS: Route = Route::new("/docs", "this description", None);
pub(crate) static LATCH: Route = Route::new("/v1/latches/{name}", "recipes", Some(RECIPE_NAME));
pub(crate) static BARRIER: Route = Route::new("/v1/barriers/{name}", "recipes", Some(RECIPE_NAME));
pub(crate) static DOUBLE_BARRIER: Route =
    Route::new("/v1/double-barriers/{name}", "recipes", Some(RECIPE_NAME));
pub(crate) static COUNTER: Route = Route::new("/v1/counters/{name}", "recipes", Some(RECIPE_NAME));
pub(crate) static ELECTION: Route =
    Route::new("/v1/elections/{name}", "recipes", Some(ELECTION_NAME));
/// Of a path that does not exist.
pub(crate) static OTHER: Route = Route::new("other", "", None);

/// The router of the front-end.
pub(crate) fn router(front: &Arc<Front>) -> Router {
    let call = |operation: &'static Operation| {
        let metrics = Arc::new(front.metrics().of_route(operation.route.pattern));
        move |State(front): State<Arc<Front>>, request: Request| {
            answer(front, operation, metrics.clone(), request)
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
        .with_state(front.clone())
}

/// The route that looks most like a path that does not exist, if one does.
pub(crate) fn nearest(path: &str) -> Option<&'static str> {
    const ALIKE_MIN: f64 = 0.8;
    let path = path.trim_end_matches('/');
    let alike = |operation: &&Operation| {
        let pattern = operation.route.pattern;
        let (asked, full) = (base(path), base(pattern));
        let short = full.trim_start_matches("/v1");
        let score = strsim::jaro_winkler(asked, full).max(strsim::jaro_winkler(asked, short));
        // `/v1/locks` and `/v1/locks/{name}` differ only in having a name.
        let named = (path.len() > asked.len()) == (pattern.len() > full.len());
        (score, named, pattern)
    };
    let fits = OPERATIONS.iter().map(alike).filter(|(score, ..)| *score >= ALIKE_MIN);
    fits.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(.., pattern)| pattern)
}

/// `/v1/locks` of `/v1/locks/a/b`, and `/locks` of `/locks/a/b`.
fn base(path: &str) -> &str {
    let components = if path.starts_with("/v1/") { 2 } else { 1 };
    match path.match_indices('/').nth(components) {
        Some((end, _)) => &path[..end],
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_path_is_answered_with_the_nearest() {
        assert_eq!(nearest("/v1/lock/orders"), Some("/v1/locks/{name}"));
        assert_eq!(nearest("/locks/orders"), Some("/v1/locks/{name}"));
        assert_eq!(nearest("/v1/cluster/"), Some("/v1/cluster"));
        assert_eq!(nearest("/v1/tre/a/b"), Some("/v1/tree/{path}"));
        assert_eq!(nearest("/v1/transaction"), Some("/v1/txn"));
        assert_eq!(nearest("/readz"), Some("/readyz"));
        assert_eq!(nearest("/metric"), Some("/metrics"));
        assert_eq!(nearest("/favicon.ico"), None);
        assert_eq!(nearest(""), None);
    }
}
