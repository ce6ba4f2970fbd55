//! Why a lock is not free, who held it before, and which locks are wanted most.

use axum::http::StatusCode;

use holdfast_api::{
    ContentionBody, ExplainedBody, HistoryBody, HistoryParams, LinkBody, ListParams, LockBody,
    PastHoldBody, TimesBody,
};
use holdfast_service::{
    BlockingLink, ContendedLock, DurationHistogram, Explanation, HistoryRequest, LeaseView,
    LockHistory, LockTimes, PastHold, Response,
};
use holdfast_types::{HolderView, LockName, Owner, Stamp};

use crate::call::{CallContext, read_mode};
use crate::reply::Reply;
use crate::status::{HttpError, of_refusal};

/// `GET /v1/locks/{name}`, linearizable.
pub(crate) async fn lock(call: &CallContext<'_>, lock: LockName) -> Result<Reply, HttpError> {
    let explained = call.run(call.service().explain(&lock)).await?;
    let Response { value: explanation, revision, .. } = explained;
    let Explanation { view, leases, chain, times } = explanation;
    let now = call.now();
    let mut body = LockBody::new(view, now, Some(revision));
    for (holder, lease) in body.holders.iter_mut().zip(&leases) {
        holder.renewed_ms_ago = lease.map(|lease| lease.renewed_ago_ms());
        holder.expires_in_ms = lease.map(|lease| lease.left_ms);
    }
    let mut body = timed(body, times.as_ref());
    body.free_if_dead_in_ms = last_to_expire(&leases);
    body.blocked_by = chain.into_iter().map(|one| link(one, now)).collect();
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `GET /v1/locks?sort=contention`
pub(crate) async fn contention(
    call: &CallContext<'_>,
    params: ListParams,
) -> Result<Reply, HttpError> {
    let ListParams { prefix, limit, read, .. } = params;
    let contention = call.service().contention(prefix, limit, read_mode(read.stale));
    let response = call.run(contention).await?;
    let Response { value: found, revision, leader_contact } = response;
    let now = call.now();
    let one = |ContendedLock { view, times }| timed(LockBody::new(view, now, None), times.as_ref());
    let body = ContentionBody { locks: found.into_iter().map(one).collect(), revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}

/// `GET /v1/history/{name}`
pub(crate) async fn history(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let lock = call.lock("/v1/history/")?;
    let params = HistoryParams::parse(&call.fields(&HistoryParams::KEYS)?);
    let HistoryParams { at, limit } = params.map_err(of_refusal)?;
    let at = at.map(|at| at.stamp(call.now()));
    let request = HistoryRequest { lock, at, limit };
    let Response { value: history, revision, .. } =
        call.run(call.service().history(request)).await?;
    let LockHistory { lock, holders, holds, complete_after } = history;
    let present = holders.into_iter().map(present);
    let holds = present.chain(holds.into_iter().map(past)).collect();
    let body = HistoryBody { lock, holds, complete_after, revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn present(holder: HolderView) -> PastHoldBody {
    PastHoldBody {
        token: holder.token,
        session: holder.session,
        owner: Some(holder.owner).filter(|owner| *owner != Owner::unnamed()),
        since_at_ms: holder.granted_at.0,
        until_at_ms: None,
        until_revision: None,
        cause: None,
    }
}

fn past(hold: PastHold) -> PastHoldBody {
    PastHoldBody {
        token: hold.token,
        session: hold.session,
        owner: Some(hold.owner).filter(|owner| *owner != Owner::unnamed()),
        since_at_ms: hold.since.0,
        until_at_ms: Some(hold.until.0),
        until_revision: Some(hold.ended_in),
        cause: Some(hold.cause.as_str().to_owned()),
    }
}

/// When all who hold it are gone, if none of them shows life any more; unknown if one of them is.
fn last_to_expire(leases: &[Option<LeaseView>]) -> Option<u64> {
    let left: Option<Vec<u64>> = leases.iter().map(|lease| Some(lease.as_ref()?.left_ms)).collect();
    left?.into_iter().max()
}

fn timed(lock: LockBody, times: Option<&LockTimes>) -> ExplainedBody {
    let shown = |times: &DurationHistogram| {
        (times.count() > 0).then(|| TimesBody {
            count: times.count(),
            p50_ms: times.percentile_ms(50),
            p99_ms: times.percentile_ms(99),
            max_ms: times.longest_ms(),
        })
    };
    let wait = times.and_then(|times| shown(&times.waits));
    let hold = times.and_then(|times| shown(&times.holds));
    ExplainedBody { wait, hold, ..ExplainedBody::of(lock) }
}

fn link(link: BlockingLink, now: Stamp) -> LinkBody {
    LinkBody {
        session: link.session,
        owner: Some(link.owner).filter(|owner| *owner != Owner::unnamed()),
        waits_for: link.waits_for,
        since_ms: now.0.saturating_sub(link.since.0),
        held_by: link.held_by,
        deadlock: link.cycle,
    }
}
