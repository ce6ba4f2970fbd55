//! `GET /v1/locks/{name}`: the holders and the queue of a lock, and why it is not free.

use axum::http::StatusCode;
use holdfast_api::{
    CallParams as _, DurationStatsBody, ExplainedBody, LockBody, Schemas, WaitLinkBody, named_owner,
};
use holdfast_service::{BlockingLink, DurationHistogram, Explanation, LeaseView, LockTimes};
use holdfast_types::{LockName, Revision, Stamp};

use crate::access::LOCK_READ;
use crate::call::{CallContext, HandlerResult, ReadParams, read_mode};
use crate::operation::{Content, Operation, ResponseSpec, handler};
use crate::routes::LOCK;

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
    ..Operation::read("readLock", &LOCK, LOCK_READ, handler!(read))
};

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let ReadParams { stale } = call.params()?;
    if !stale {
        return explain(call, lock).await;
    }
    let read = call.service().lock(&lock, read_mode(stale));
    call.ok(read, |view, revision| LockBody::new(view, call.now(), Some(revision))).await
}

async fn explain(call: &CallContext<'_>, lock: LockName) -> HandlerResult {
    let explained = call.service().explain(&lock);
    call.ok(explained, |lock, revision| explained_body(lock, call.now(), revision)).await
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
