//! Which method and path is which [`Action`]. Paths are matched as sent: nothing is decoded or normalised here.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::{get, post, put};

use crate::action::{Action, Route};
use crate::door::{Front, answer};

/// The handler of one action.
macro_rules! to {
    ($action:ident) => {
        |State(front): State<Arc<Front>>, request: Request| answer(front, Action::$action, request)
    };
}

/// The router of the whole door.
pub(crate) fn router(front: Arc<Front>) -> Router {
    let lock = put(to!(Acquire)).get(to!(ReadLock)).delete(to!(Release));
    let session = put(to!(OpenSession)).get(to!(ReadSession)).delete(to!(CloseSession));
    let (fence, history) = (get(to!(Fence)), get(to!(History)));
    let node = put(to!(PutNode)).post(to!(PostNode)).get(to!(ReadNode)).delete(to!(DeleteNode));
    Router::new()
        .route("/v1/locks", get(to!(ListLocks)))
        // An empty name reaches the same place, to be told that it is empty.
        .route("/v1/locks/", lock.clone())
        .route("/v1/locks/{*name}", lock)
        .route("/v1/sessions", post(to!(CreateSession)).get(to!(ListSessions)))
        .route("/v1/sessions/", session.clone())
        .route("/v1/sessions/{id}", session)
        .route("/v1/sessions/{id}/keepalive", post(to!(KeepAlive)))
        .route("/v1/keepalive", post(to!(KeepManyAlive)))
        .route("/v1/history/", history.clone())
        .route("/v1/history/{*name}", history)
        .route("/v1/fence/", fence.clone())
        .route("/v1/fence/{*name}", fence)
        // The root, with and without its slash.
        .route("/v1/tree", node.clone())
        .route("/v1/tree/", node.clone())
        .route("/v1/tree/{*path}", node)
        .route("/v1/txn", post(to!(Txn)))
        .route("/v1/watch", get(to!(Watch)))
        .route("/v1/cluster", get(to!(Cluster)))
        .route("/livez", get(to!(Live)))
        .route("/readyz", get(to!(Ready)))
        .route("/metrics", get(to!(Metrics)))
        .route("/version", get(to!(Version)))
        .route("/errors/{code}", get(to!(Explain)))
        .method_not_allowed_fallback(to!(WrongMethod))
        .fallback(to!(NoSuchPath))
        .with_state(front)
}

/// The route that looks most like a path that does not exist, if one does.
pub(crate) fn nearest(path: &str) -> Option<&'static str> {
    const ALIKE_MIN: f64 = 0.8;
    let path = path.trim_end_matches('/');
    let alike = |route: &Route| {
        let pattern = route.pattern();
        let (asked, full) = (base(path), base(pattern));
        let short = full.trim_start_matches("/v1");
        let score = strsim::jaro_winkler(asked, full).max(strsim::jaro_winkler(asked, short));
        // `/v1/locks` and `/v1/locks/{name}` differ only in having a name.
        let named = (path.len() > asked.len()) == (pattern.len() > full.len());
        (score, named, pattern)
    };
    let known = Route::ALL.iter().filter(|route| **route != Route::Other).map(alike);
    let fits = known.filter(|(score, ..)| *score >= ALIKE_MIN);
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
