//! Builds the router from the list of operations.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::on;

use crate::front::answer;
use crate::operation::Operation;
use crate::operations::{NO_SUCH_PATH, OPERATIONS, WRONG_METHOD};
use crate::state::HttpState;

pub(crate) fn router(state: &Arc<HttpState>) -> Router {
    let call = |operation: &'static Operation| {
        let metrics = Arc::new(state.metrics().of_route(operation.route.pattern));
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
    use crate::routes::ROUTES;

    #[test]
    fn every_operation_has_a_route_and_every_route_has_an_operation() {
        for operation in OPERATIONS {
            assert!(
                ROUTES.iter().any(|route| std::ptr::eq(*route, operation.route)),
                "{operation:?}"
            );
        }
        for route in ROUTES {
            let mut operations = OPERATIONS.iter();
            assert!(operations.any(|operation| std::ptr::eq(*route, operation.route)), "{route:?}");
        }
    }
}
