//! `GET /v1/locks`: locks page by page, or with another `sort` the most urgent ones.

use axum::http::StatusCode;
use holdfast_api::parameters::lock::{HELD, LIST_SESSION, PREFIX, SORT, WAITING};
use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, STALE};
use holdfast_api::{
    CallParams as _, ContentionBody, LockBody, LocksBody, ParamError, Schemas, params,
};
use holdfast_service::{ContendedLock, LockFilter, LockUrgency};
use holdfast_types::SessionName;

use super::read::with_times;
use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult, read_mode};
use crate::operation::{Content, Example, Operation, ResponseSpec, handler};
use crate::routes::LOCKS;

pub(crate) static OPERATION: Operation = Operation {
    summary: "List locks, in order of their names",
    description: "If there are more, the response has a next_page_token for the parameter page_token of the next call. With \
        another sort than name the response is one page: the first locks of this order, with recent wait and hold times.",
    params: ListParams::LIST,
    example: Example { query: "held", body: "" },
    answers: || {
        vec![
            ResponseSpec::json(StatusCode::OK, "A page of locks", Schemas::of::<LocksBody>)
                .or("application/json", Content::Json(Schemas::of::<ContentionBody>)),
        ]
    },
    ..Operation::read("listLocks", &LOCKS, CallAccess::Subject, handler!(list))
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
    if let Some(urgency) = urgency(&params)? {
        return most_urgent(call, params, urgency).await;
    }
    let ListParams { prefix, session, limit, page_token, held, waiting, stale, .. } = params;
    let filter = LockFilter { prefix: prefix.unwrap_or_default(), held, waiting, session };
    let locks = call.service().locks(&filter, page_token.as_deref(), limit, read_mode(stale));
    call.ok(locks, |page, _| LocksBody::new(page, call.now())).await
}

async fn most_urgent(
    call: &CallContext<'_>,
    params: ListParams,
    urgency: LockUrgency,
) -> HandlerResult {
    let ListParams { prefix, limit, stale, .. } = params;
    let prefix = prefix.unwrap_or_default();
    let locks = call.service().most_urgent_locks(prefix, urgency, limit, read_mode(stale));
    let now = call.now();
    call.ok(locks, |found, revision| {
        let locks = found.into_iter().map(|ContendedLock { view, times }| {
            with_times(LockBody::new(view, now, None), times.as_ref())
        });
        ContentionBody { locks: locks.collect(), revision }
    })
    .await
}

/// The order of the one page; `None` for pages in the order of the names.
fn urgency(params: &ListParams) -> Result<Option<LockUrgency>, ParamError> {
    let urgency = match params.sort {
        "contention" => LockUrgency::Waiters,
        "longest-wait" => LockUrgency::LongestWait,
        "oldest-hold" => LockUrgency::OldestHold,
        _ => return Ok(None),
    };
    let others = [
        ("session", params.session.is_some()),
        ("page_token", params.page_token.is_some()),
        ("held", params.held),
        ("waiting", params.waiting),
    ];
    let hint = "another sort than name takes prefix, limit and stale";
    ParamError::check_alone("sort", &others, hint).map(|()| Some(urgency))
}

#[cfg(test)]
mod tests {
    use holdfast_api::ErrorCode;

    use super::*;

    #[test]
    fn a_sort_by_urgency_accepts_no_state_or_session_filter_and_no_page_token() {
        let read = |query: &str| urgency(&ListParams::from_query(query)?);
        assert_eq!(read("held&session=me&limit=1000").unwrap(), None);
        assert_eq!(read("sort=name").unwrap(), None);
        let contention = read("sort=contention&prefix=a&limit=5&stale").unwrap();
        assert_eq!(contention, Some(LockUrgency::Waiters));
        assert_eq!(read("sort=longest-wait").unwrap(), Some(LockUrgency::LongestWait));
        assert_eq!(read("sort=oldest-hold").unwrap(), Some(LockUrgency::OldestHold));
        for query in [
            "sort=contention&held",
            "sort=longest-wait&waiting",
            "sort=contention&session=me",
            "sort=contention&page_token=a",
            "sort=age",
            "limit=1001",
        ] {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
