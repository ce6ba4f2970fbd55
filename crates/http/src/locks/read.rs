//! `GET /v1/locks/{name}`: the holders and the queue of a lock, and why it is not free.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{
    CallParams as _, DurationStatsBody, ExplainedBody, LockBody, Schemas, WaitLinkBody, named_owner,
};
use holdfast_service::{
    BlockingLink, DurationHistogram, Explanation, LeaseView, LockTimes, Response,
};
use holdfast_types::{LockName, Right, Stamp};

use crate::access::Access;
use crate::call::{CallContext, ReadParams, read_mode};
use crate::operation::{Content, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::LOCK;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the holders and the queue of a lock",
    description: "A lock that was never acquired is free. The response for a sharded lock lists every shard.",
    params: ReadParams::LIST,
    answers: || {
        vec![
            ResponseSpec::json(StatusCode::OK, "The lock", Schemas::of::<ExplainedBody>)
                .or("application/json", Content::Json(Schemas::of::<LockBody>)),
        ]
    },
    ..Operation::read("readLock", &LOCK, Access::Right(Right::LockRead), |call| read(call).boxed())
};

async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock()?;
    let ReadParams { stale } = call.params()?;
    if !stale {
        return explain(call, lock).await;
    }
    let response = call.run(call.service().lock(&lock, read_mode(stale))).await?;
    let Response { value: view, revision, leader_contact } = response;
    let body = LockBody::new(view, call.now(), Some(revision));
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}

async fn explain(call: &CallContext<'_>, lock: LockName) -> Result<Reply, HttpError> {
    let explained = call.run(call.service().explain(&lock)).await?;
    let Response { value: Explanation { view, leases, chain, times }, revision, .. } = explained;
    let now = call.now();
    let mut lock = LockBody::new(view, now, Some(revision));
    for (holder, lease) in lock.holders.iter_mut().zip(&leases) {
        holder.since_renewal_ms = lease.map(|lease| lease.renewed_ago_ms());
        holder.expires_in_ms = lease.map(|lease| lease.left_ms);
    }
    let body = ExplainedBody {
        free_at_latest_in_ms: last_to_expire(&leases),
        blocked_by: chain.into_iter().map(|link| link_body(link, now)).collect(),
        ..with_times(lock, times.as_ref())
    };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// Milliseconds until the sessions of all holders expire without renewals; `None` if a lease is unknown.
fn last_to_expire(leases: &[Option<LeaseView>]) -> Option<u64> {
    let left: Option<Vec<u64>> = leases.iter().map(|lease| Some(lease.as_ref()?.left_ms)).collect();
    left?.into_iter().max()
}

/// A lock with the recent wait and hold times that this node measured.
pub(super) fn with_times(lock: LockBody, times: Option<&LockTimes>) -> ExplainedBody {
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
