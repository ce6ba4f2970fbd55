//! Reads of locks: one with its holders and its queue (`GET /v1/locks/{name}`), the list (`GET /v1/locks`), and the check of a fencing
//! token (`GET /v1/fence/{name}`). The check is advice: only a check by the store that is written protects the data.

use axum::http::StatusCode;
use holdfast_api::parameters::lock::{
    CHECK_MODE, CHECKED_TOKEN, HELD, LIST_SESSION, PREFIX, SORT, WAITING,
};
use holdfast_api::parameters::{LIMIT, PAGE_TOKEN, STALE};
use holdfast_api::{
    CallParams as _, ContentionBody, DurationStatsBody, ErrorCode, ExplainedBody, Facts, FenceBody,
    LockBody, LocksBody, ParamError, Problem, Schemas, WaitLinkBody, named_owner, params,
};
use holdfast_service::{
    BlockingLink, ContendedLock, DurationHistogram, Explanation, FenceMode, LeaseView, LockFilter,
    LockTimes, LockUrgency, Response, TokenCheck,
};
use holdfast_types::{FenceView, FencingToken, LockName, Revision, Right, SessionName, Stamp};

use crate::access::{CallAccess, LOCK_READ};
use crate::call::{CallContext, HandlerResult, ReadParams, read_mode};
use crate::operation::{Content, Example, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::{FENCE, LOCK, LOCKS};
use crate::status::HttpError;

pub(crate) static READ: Operation = Operation {
    summary: "Read the holders and the queue of a lock",
    description: "A lock that was never acquired is free. The response for a sharded lock lists every shard.",
    params: ReadParams::LIST,
    answers: || {
        vec![
            ResponseSpec::json(StatusCode::OK, "The lock", Schemas::of::<ExplainedBody>)
                .or("application/json", Content::Json(Schemas::of::<LockBody>)),
        ]
    },
    ..Operation::read("readLock", &LOCK, LOCK_READ, handler!(read))
};

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let ReadParams { stale } = call.params()?;
    if !stale {
        let explained = call.service().explain(&lock);
        let body = |lock, revision| explained_body(lock, call.now(), revision);
        return call.ok(explained, body).await;
    }
    let read = call.service().lock(&lock, read_mode(stale));
    call.ok(read, |view, revision| LockBody::new(view, call.now(), Some(revision))).await
}

fn explained_body(explained: Explanation, now: Stamp, revision: Revision) -> ExplainedBody {
    let Explanation { view, leases, chain, times } = explained;
    let mut lock = LockBody::new(view, now, Some(revision));
    for (holder, lease) in lock.holders.iter_mut().zip(&leases) {
        holder.since_renewal_ms = lease.map(|lease| lease.renewed_ago_ms());
        holder.expires_in_ms = lease.map(|lease| lease.left_ms);
    }
    ExplainedBody {
        free_at_latest_in_ms: last_to_expire(&leases),
        blocked_by: chain.into_iter().map(|link| link_body(link, now)).collect(),
        ..with_times(lock, times.as_ref())
    }
}

/// Milliseconds until the sessions of all holders expire without renewals; `None` if a lease is unknown.
fn last_to_expire(leases: &[Option<LeaseView>]) -> Option<u64> {
    let left: Option<Vec<u64>> = leases.iter().map(|lease| Some(lease.as_ref()?.left_ms)).collect();
    left?.into_iter().max()
}

/// A lock with the recent wait and hold times that this node measured.
fn with_times(lock: LockBody, times: Option<&LockTimes>) -> ExplainedBody {
    let body = |times: &DurationHistogram| {
        (times.count() > 0).then(|| DurationStatsBody {
            count: times.count(),
            p50_ms: times.percentile_ms(50),
            p99_ms: times.percentile_ms(99),
            max_ms: times.longest_ms(),
        })
    };
    let wait = times.and_then(|times| body(&times.waits));
    let hold = times.and_then(|times| body(&times.holds));
    ExplainedBody { wait, hold, ..ExplainedBody::of(lock) }
}

fn link_body(link: BlockingLink, now: Stamp) -> WaitLinkBody {
    WaitLinkBody {
        session: link.session,
        owner: named_owner(link.owner),
        waits_for: link.waits_for,
        waiting_for_ms: now.0.saturating_sub(link.since.0),
        held_by: link.held_by,
        deadlock: link.cycle,
    }
}

pub(crate) static LIST: Operation = Operation {
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

pub(crate) static CHECK_TOKEN: Operation = Operation {
    summary: "Check whether a fencing token is still valid",
    description: "The response is advice: only a check by the store that is written protects the data.",
    params: CheckTokenParams::LIST,
    answers: || ResponseSpec::ok("It is valid", Schemas::of::<FenceBody>),
    errors: &[ErrorCode::ShardsMismatch, ErrorCode::StaleToken],
    ..Operation::read("checkToken", &FENCE, CallAccess::Right(Right::LockCheck), handler!(check))
};

params! {
    struct CheckTokenParams {
        token: FencingToken = CHECKED_TOKEN,
        mode: &'static str = CHECK_MODE,
        stale: bool = STALE,
    }
}

async fn check(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let CheckTokenParams { token, mode, stale } = call.params()?;
    let mode = if mode == "monotonic" { FenceMode::Monotonic } else { FenceMode::Current };
    let checked = call.service().check_token(&lock, token, mode, read_mode(stale));
    let Response { value: TokenCheck { valid, view }, revision, leader_contact } =
        call.run(checked).await?;
    if !valid {
        return Err(stale_token(lock, token, view));
    }
    let body = FenceBody::new(lock, token, view, revision);
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}

fn stale_token(lock: LockName, token: FencingToken, view: FenceView) -> HttpError {
    let FenceView { current, floor: _, highest } = view;
    let detail = match (current, highest) {
        (Some(current), _) => format!("the token of '{lock}' is {current}, not {token}"),
        (None, Some(highest)) => {
            format!("'{lock}' has no holder; its last token was {highest}, this one is {token}")
        }
        (None, None) => format!("'{lock}' has no holder, and no token of it is remembered"),
    };
    let lock = Some(lock);
    let facts = Facts { lock, token: Some(token), current, highest, ..Facts::default() };
    let hint = "stop writing: the lock of this token is lost";
    Box::new(Problem::new(ErrorCode::StaleToken, detail).hint(hint).facts(facts))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_token_is_a_number_below_two_to_the_53() {
        let read = CheckTokenParams::from_query;
        assert_eq!(read("token=4812").unwrap().token, FencingToken(4_812));
        assert_eq!(read("token=9007199254740991&mode=monotonic").unwrap().mode, "monotonic");
        for query in
            ["", "token=x", "token=-1", "token=%2B1", "token=9007199254740992", "token=1&mode=old"]
        {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
