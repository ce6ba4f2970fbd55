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

use crate::exchange::{Exchange, read_mode};
use crate::locks::{marked, staleness};
use crate::precondition::{Precondition, tag};
use crate::reply::Reply;
use crate::status::{Fault, of_refusal};
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
pub(crate) async fn make_latch(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let latch = exchange.recipe(LATCHES)?;
    let params = LatchParams::parse(&exchange.fields(&LatchParams::KEYS)?).map_err(of_refusal)?;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let made = exchange.ask(exchange.service().make_latch(latch.clone(), params.count)).await?;
    let Response { value: MadeLatch { view, created }, revision, .. } = made;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::json(status, &LatchBody::new(latch, view, revision)).at(revision))
}

/// `POST /v1/latches/{name}`
pub(crate) async fn count_down(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let latch = exchange.recipe(LATCHES)?;
    let header = request_id(exchange)?;
    let fields = exchange.fields(&CountDownParams::KEYS)?;
    let params = CountDownParams::parse(&fields, header).map_err(of_refusal)?;
    exchange.subject.session.clone_from(&params.when_ended);
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let CountDownParams { key, when_ended, redirect: _ } = params;
    let counted = exchange.service().count_down(latch.clone(), key.clone(), when_ended);
    let counted = exchange.ask(counted).await?;
    let Response { value: CountedDown { left, counted }, revision, .. } = counted;
    let body = CountDownBody { latch, key, left, counted };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `GET /v1/latches/{name}`
pub(crate) async fn await_latch(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let latch = exchange.recipe(LATCHES)?;
    let params = WaitParams::parse(&exchange.fields(&WaitParams::KEYS)?).map_err(of_refusal)?;
    exchange.subject.wait = params.wait;
    if let Some(elsewhere) = exchange.elsewhere(params.read.redirect) {
        return Ok(elsewhere);
    }
    let (wait, read) = (params.wait, read_mode(params.read.stale));
    let mut response = exchange.ask(exchange.service().await_latch(&latch, wait, read)).await?;
    let marks = staleness(&mut response);
    let Response { value: view, revision, .. } = response;
    let body = LatchBody::new(latch, view, revision);
    Ok(marked(Reply::json(StatusCode::OK, &body).at(revision), marks))
}

/// `DELETE /v1/latches/{name}`
pub(crate) async fn delete_latch(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let latch = exchange.recipe(LATCHES)?;
    let redirect = exchange.fields(&LatchParams::DELETE_KEYS)?.flag("redirect");
    if let Some(elsewhere) = exchange.elsewhere(redirect) {
        return Ok(elsewhere);
    }
    let deleted = exchange.ask(exchange.service().delete_latch(latch)).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(deleted.revision))
}

/// `POST /v1/barriers/{name}`, `PUT /v1/double-barriers/{name}`
pub(crate) async fn arrive(exchange: &mut Exchange<'_>, gate: Gate) -> Result<Reply, Fault> {
    let name = exchange.recipe(gates(gate))?;
    let header = request_id(exchange)?;
    let fields = exchange.fields(&ArriveParams::KEYS)?;
    let params = ArriveParams::parse(&fields, header).map_err(of_refusal)?;
    exchange.subject.session = Some(params.session.clone());
    exchange.subject.wait = params.wait;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
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
    let Response { value: passed, revision, .. } =
        exchange.ask(exchange.service().arrive(arrive)).await?;
    Ok(Reply::json(StatusCode::OK, &PassedBody::new(name, &passed)).at(revision))
}

/// `DELETE` of them
pub(crate) async fn leave(exchange: &mut Exchange<'_>, gate: Gate) -> Result<Reply, Fault> {
    let name = exchange.recipe(gates(gate))?;
    let params = LeaveParams::parse(&exchange.fields(&LeaveParams::KEYS)?).map_err(of_refusal)?;
    exchange.subject.session = Some(params.session.clone());
    exchange.subject.wait = params.wait;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let LeaveParams { session, owner, wait, redirect: _ } = params;
    let wait = if gate == Gate::Double { wait } else { Duration::ZERO };
    let owner = owner.unwrap_or_else(Owner::unnamed);
    let leave = Depart { gate, name: name.clone(), session, owner };
    let Response { value: changed, revision, .. } =
        exchange.ask(exchange.service().leave_barrier(leave, wait)).await?;
    match gate {
        Gate::Barrier => Ok(Reply::empty(StatusCode::NO_CONTENT).at(revision)),
        Gate::Double => {
            let body = LeftBody { barrier: name, left: changed };
            Ok(Reply::json(StatusCode::OK, &body).at(revision))
        }
    }
}

/// `GET` of them
pub(crate) async fn read_gate(exchange: &mut Exchange<'_>, gate: Gate) -> Result<Reply, Fault> {
    let name = exchange.recipe(gates(gate))?;
    let params = ReadParams::parse(&exchange.fields(&ReadParams::KEYS)?);
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let read = read_mode(params.stale);
    let mut response = exchange.ask(exchange.service().barrier(gate, &name, read)).await?;
    let marks = staleness(&mut response);
    let Response { value: view, revision, .. } = response;
    let body = GateBody::new(name, view, revision);
    Ok(marked(Reply::json(StatusCode::OK, &body).at(revision), marks))
}

/// `GET /v1/counters/{name}`
pub(crate) async fn read_counter(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let counter = exchange.recipe(COUNTERS)?;
    let params = ReadParams::parse(&exchange.fields(&ReadParams::KEYS)?);
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let read = read_mode(params.stale);
    let mut response = exchange.ask(exchange.service().counter(&counter, read)).await?;
    let marks = staleness(&mut response);
    Ok(marked(counted(exchange, counter, response.value, response.revision), marks))
}

/// `POST`, `PUT` and `DELETE` of a counter; the key of its number, none to delete
pub(crate) async fn change_counter(
    exchange: &mut Exchange<'_>,
    key: Option<&str>,
) -> Result<Reply, Fault> {
    let counter = exchange.recipe(COUNTERS)?;
    let header = request_id(exchange)?;
    let keys = match key {
        Some("add") => CounterParams::ADD_KEYS,
        Some(_) => CounterParams::SET_KEYS,
        None => CounterParams::DELETE_KEYS,
    };
    let fields = exchange.fields(&keys)?;
    let CounterParams { number, version, change } =
        CounterParams::parse(&fields, key, header).map_err(of_refusal)?;
    exchange.subject.session.clone_from(&change.session);
    if let Some(elsewhere) = exchange.elsewhere(change.redirect) {
        return Ok(elsewhere);
    }
    let what = match (key, number) {
        (Some("add"), Some(amount)) => CountChange::Add { amount },
        (Some(_), Some(value)) => {
            let tag = Precondition::of_counter(&exchange.parts.headers)?;
            CountChange::Set { value, version: tag.or(version) }
        }
        _ => CountChange::Delete,
    };
    let (session, request) = (change.session, change.request);
    let count = Count { counter: counter.clone(), session, request, change: what };
    let Response { value, revision, .. } = exchange.ask(exchange.service().count(count)).await?;
    Ok(match value {
        Some(view) => counted(exchange, counter, view, revision),
        None => Reply::empty(StatusCode::NO_CONTENT).at(revision),
    })
}

/// A counter, with its version as the entity tag; as text, just its value.
fn counted(
    exchange: &Exchange<'_>,
    counter: RecipeName,
    view: CounterView,
    revision: Revision,
) -> Reply {
    let etag: HeaderValue = tag(view.version);
    let reply = if exchange.wants_text() {
        Reply::text(StatusCode::OK, format!("{}\n", view.value))
    } else {
        Reply::json(StatusCode::OK, &CounterBody::new(counter, view))
    };
    reply.with_header(ETAG, etag).at(revision)
}
