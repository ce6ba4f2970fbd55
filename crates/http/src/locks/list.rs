//! `GET /v1/locks`: locks page by page, or with `sort=contention` those with the longest queues.

use axum::http::StatusCode;
use holdfast_api::parameters::lock::{HELD, LIST_SESSION, PREFIX, SORT, WAITING};
use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, STALE};
use holdfast_api::{
    CallParams as _, ContentionBody, LockBody, LocksBody, ParamError, Schemas, params,
};
use holdfast_service::{ContendedLock, LockFilter};
use holdfast_types::SessionName;

use super::read::with_times;
use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult, read_mode};
use crate::operation::{Content, Example, Operation, ResponseSpec};
use crate::routes::LOCKS;

pub(crate) static OPERATION: Operation = Operation {
    summary: "List locks, in order of their names",
    description: "If there are more, the response has a next_page_token for the parameter page_token of the next call. With \
        sort=contention the response is one page: the locks with the longest queues, with recent wait and hold times.",
    params: ListParams::LIST,
    example: Example { query: "held", body: "" },
    answers: || {
        vec![
            ResponseSpec::json(StatusCode::OK, "A page of locks", Schemas::of::<LocksBody>)
                .or("application/json", Content::Json(Schemas::of::<ContentionBody>)),
        ]
    },
    ..Operation::read("listLocks", &LOCKS, CallAccess::Subject, |call| Box::pin(list(call)))
};

params! {
    struct ListParams {
        prefix: Option<String> = PREFIX,
        session: Option<SessionName> = LIST_SESSION,
        limit: usize = LIMIT,
        page_token: Option<String> = PAGE_TOKEN,
        sort: &'static str = SORT,
        held: bool = HELD,
        waiting: bool = WAITING,
        stale: bool = STALE,
    }
}

async fn list(call: &mut CallContext<'_>) -> HandlerResult {
    let params: ListParams = call.params()?;
    if sorts_by_contention(&params)? {
        return contention(call, params).await;
    }
    let ListParams { prefix, session, limit, page_token, held, waiting, stale, .. } = params;
    let filter = LockFilter { prefix: prefix.unwrap_or_default(), held, waiting, session };
    let locks = call.service().locks(&filter, page_token.as_deref(), limit, read_mode(stale));
    call.ok(locks, |page, _| LocksBody::new(page, call.now())).await
}

async fn contention(call: &CallContext<'_>, params: ListParams) -> HandlerResult {
    let ListParams { prefix, limit, stale, .. } = params;
    let contention = call.service().contention(prefix.unwrap_or_default(), limit, read_mode(stale));
    let now = call.now();
    call.ok(contention, |found, revision| {
        let locks = found.into_iter().map(|ContendedLock { view, times }| {
            with_times(LockBody::new(view, now, None), times.as_ref())
        });
        ContentionBody { locks: locks.collect(), revision }
    })
    .await
}

fn sorts_by_contention(params: &ListParams) -> Result<bool, ParamError> {
    if params.sort != "contention" {
        return Ok(false);
    }
    let others = [
        ("session", params.session.is_some()),
        ("page_token", params.page_token.is_some()),
        ("held", params.held),
        ("waiting", params.waiting),
    ];
    let hint = "sort=contention takes prefix, limit and stale";
    ParamError::check_alone("sort=contention", &others, hint).map(|()| true)
}

#[cfg(test)]
mod tests {
    use holdfast_api::ErrorCode;

    use super::*;

    #[test]
    fn sort_by_contention_accepts_no_state_or_session_filter_and_no_page_token() {
        let read = |query: &str| sorts_by_contention(&ListParams::from_query(query)?);
        assert!(!read("held&session=me&limit=1000").unwrap() && !read("sort=name").unwrap());
        assert!(read("sort=contention&prefix=a&limit=5&stale").unwrap());
        for query in [
            "sort=contention&held",
            "sort=contention&waiting",
            "sort=contention&session=me",
            "sort=contention&page_token=a",
            "sort=age",
            "limit=1001",
        ] {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
