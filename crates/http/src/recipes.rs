//! Latches, barriers, double barriers and counters over HTTP.
//!
//! Owns their routes and what each answers. A call that waits is answered 200 when what it waits for has happened, 423
//! when not, and 409 when it never will.

use std::time::Duration;

use axum::http::header::ETAG;
use axum::http::{HeaderValue, StatusCode};

use holdfast_api::{
    ArriveParams, CountDownBody, CountDownParams, CounterBody, CounterParams, GateBody, LatchBody,
    LatchParams, LeaveParams, LeftBody, PassedBody, ReadParams, WaitParams,
};
use holdfast_service::{CountedDown, MadeLatch, Response};
use holdfast_types::{
    Arrive, Count, CountChange, CounterView, Depart, Gate, OpenSession, Owner, RecipeName,
    Revision, queue_fields,
};

use crate::call::{CallContext, read_mode};
use crate::precondition::{Precondition, tag};
use crate::reply::Reply;
use crate::status::{HttpError, of_refusal};
use crate::tree::request_id;

const LATCHES: &str = "/v1/latches/";
const COUNTERS: &str = "/v1/counters/";

const fn gates(gate: Gate) -> &'static str {
    match gate {
        Gate::Barrier => "/v1/barriers/",
        Gate::Double => "/v1/double-barriers/",
    }
}

/// `PUT /v1/latches/{name}`
pub(crate) async fn make_latch(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let latch = call.recipe(LATCHES)?;
    let params = LatchParams::parse(&call.fields(&LatchParams::KEYS)?).map_err(of_refusal)?;
    let made = call.run(call.service().make_latch(latch.clone(), params.count)).await?;
    let Response { value: MadeLatch { view, created }, revision, .. } = made;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::json(status, &LatchBody::new(latch, view, revision)).at(revision))
}

/// `POST /v1/latches/{name}`
pub(crate) async fn count_down(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let latch = call.recipe(LATCHES)?;
    let header = request_id(call)?;
    let fields = call.fields(&CountDownParams::KEYS)?;
    let params = CountDownParams::parse(&fields, header).map_err(of_refusal)?;
    call.log_fields.session.clone_from(&params.when_ended);
    let CountDownParams { key, when_ended, redirect: _ } = params;
    let counted = call.service().count_down(latch.clone(), key.clone(), when_ended);
    let counted = call.run(counted).await?;
    let Response { value: CountedDown { left, counted }, revision, .. } = counted;
    let body = CountDownBody { latch, key, left, counted };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `GET /v1/latches/{name}`
pub(crate) async fn await_latch(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let latch = call.recipe(LATCHES)?;
    let params = WaitParams::parse(&call.fields(&WaitParams::KEYS)?).map_err(of_refusal)?;
    call.log_fields.wait = params.wait;
    let (wait, read) = (params.wait, read_mode(params.read.stale));
    let response = call.run(call.service().await_latch(&latch, wait, read)).await?;
    let Response { value: view, revision, leader_contact } = response;
    let body = LatchBody::new(latch, view, revision);
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}

/// `DELETE /v1/latches/{name}`
pub(crate) async fn delete_latch(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let latch = call.recipe(LATCHES)?;
    let deleted = call.run(call.service().delete_latch(latch)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(deleted.revision))
}

/// `POST /v1/barriers/{name}`, `PUT /v1/double-barriers/{name}`
pub(crate) async fn arrive(call: &mut CallContext<'_>, gate: Gate) -> Result<Reply, HttpError> {
    let name = call.recipe(gates(gate))?;
    let header = request_id(call)?;
    let fields = call.fields(&ArriveParams::KEYS)?;
    let params = ArriveParams::parse(&fields, header).map_err(of_refusal)?;
    call.log_fields.session = Some(params.session.clone());
    call.log_fields.wait = params.wait;
    let ArriveParams { parties, session, owner, request, ttl, wait, labels, redirect: _ } = params;
    let (_, wait_ms) = queue_fields(wait);
    let arrive = Arrive {
        gate,
        name: name.clone(),
        parties,
        open: OpenSession { session, ttl, anonymous: false, labels, password: None },
        owner: owner.unwrap_or_else(Owner::unnamed),
        request,
        wait_ms,
    };
    let Response { value: passed, revision, .. } = call.run(call.service().arrive(arrive)).await?;
    Ok(Reply::json(StatusCode::OK, &PassedBody::new(name, &passed)).at(revision))
}

/// `DELETE` of them
pub(crate) async fn leave(call: &mut CallContext<'_>, gate: Gate) -> Result<Reply, HttpError> {
    let name = call.recipe(gates(gate))?;
    let params = LeaveParams::parse(&call.fields(&LeaveParams::KEYS)?).map_err(of_refusal)?;
    call.log_fields.session = Some(params.session.clone());
    call.log_fields.wait = params.wait;
    let LeaveParams { session, owner, wait, redirect: _ } = params;
    let wait = if gate == Gate::Double { wait } else { Duration::ZERO };
    let owner = owner.unwrap_or_else(Owner::unnamed);
    let leave = Depart { gate, name: name.clone(), session, owner };
    let Response { value: changed, revision, .. } =
        call.run(call.service().leave_barrier(leave, wait)).await?;
    match gate {
        Gate::Barrier => Ok(Reply::empty(StatusCode::NO_CONTENT).at(revision)),
        Gate::Double => {
            let body = LeftBody { barrier: name, left: changed };
            Ok(Reply::json(StatusCode::OK, &body).at(revision))
        }
    }
}

/// `GET` of them
pub(crate) async fn read_gate(call: &mut CallContext<'_>, gate: Gate) -> Result<Reply, HttpError> {
    let name = call.recipe(gates(gate))?;
    let params = ReadParams::parse(&call.fields(&ReadParams::KEYS)?);
    let read = read_mode(params.stale);
    let response = call.run(call.service().barrier(gate, &name, read)).await?;
    let Response { value: view, revision, leader_contact } = response;
    let body = GateBody::new(name, view, revision);
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}

/// `GET /v1/counters/{name}`
pub(crate) async fn read_counter(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let counter = call.recipe(COUNTERS)?;
    let params = ReadParams::parse(&call.fields(&ReadParams::KEYS)?);
    let read = read_mode(params.stale);
    let response = call.run(call.service().counter(&counter, read)).await?;
    let Response { value, revision, leader_contact } = response;
    Ok(counted(call, counter, value, revision).stale(leader_contact))
}

/// `POST`, `PUT` and `DELETE` of a counter; the key of its number, none to delete
pub(crate) async fn change_counter(
    call: &mut CallContext<'_>,
    key: Option<&str>,
) -> Result<Reply, HttpError> {
    let counter = call.recipe(COUNTERS)?;
    let header = request_id(call)?;
    let keys = match key {
        Some("add") => CounterParams::ADD_KEYS,
        Some(_) => CounterParams::SET_KEYS,
        None => CounterParams::DELETE_KEYS,
    };
    let fields = call.fields(&keys)?;
    let CounterParams { number, version, change } =
        CounterParams::parse(&fields, key, header).map_err(of_refusal)?;
    call.log_fields.session.clone_from(&change.session);
    let what = match (key, number) {
        (Some("add"), Some(amount)) => CountChange::Add { amount },
        (Some(_), Some(value)) => {
            let tag = Precondition::of_counter(&call.parts.headers)?;
            CountChange::Set { value, version: tag.or(version) }
        }
        _ => CountChange::Delete,
    };
    let (session, request) = (change.session, change.request);
    let count = Count { counter: counter.clone(), session, request, change: what };
    let Response { value, revision, .. } = call.run(call.service().count(count)).await?;
    Ok(match value {
        Some(view) => counted(call, counter, view, revision),
        None => Reply::empty(StatusCode::NO_CONTENT).at(revision),
    })
}

/// A counter, with its version as the entity tag; as text, just its value.
fn counted(
    call: &CallContext<'_>,
    counter: RecipeName,
    view: CounterView,
    revision: Revision,
) -> Reply {
    let etag: HeaderValue = tag(view.version);
    let reply = if call.wants_text() {
        Reply::text(StatusCode::OK, format!("{}\n", view.value))
    } else {
        Reply::json(StatusCode::OK, &CounterBody::new(counter, view))
    };
    reply.with_header(ETAG, etag).at(revision)
}
