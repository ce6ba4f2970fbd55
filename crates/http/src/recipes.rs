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
use holdfast_service::{Answer, ArriveRequest, RecipeAnswer, RecipeRequest, Request, Response};
use holdfast_types::{CountChange, Gate, RecipeName, Revision};

use crate::exchange::{Exchange, read_mode};
use crate::locks::{Staleness, astray, marked, staleness};
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

async fn ask(
    exchange: &Exchange<'_>,
    request: RecipeRequest,
) -> Result<(RecipeAnswer, Revision, Staleness), Fault> {
    let mut response: Response = exchange.ask(Request::Recipe(request)).await?;
    let marks = staleness(&mut response);
    let Answer::Recipe(answer) = response.reply else { return Err(astray()) };
    Ok((answer, response.revision, marks))
}

/// `PUT /v1/latches/{name}`
pub(crate) async fn make_latch(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let latch = exchange.recipe(LATCHES)?;
    let params = LatchParams::parse(&exchange.fields(&LatchParams::KEYS)?).map_err(of_refusal)?;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let request = RecipeRequest::MakeLatch { latch: latch.clone(), count: params.count };
    let (answer, revision, _) = ask(exchange, request).await?;
    let RecipeAnswer::Latch { view, created } = answer else { return Err(astray()) };
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
    let request = RecipeRequest::CountDown { latch: latch.clone(), key: key.clone(), when_ended };
    let (answer, revision, _) = ask(exchange, request).await?;
    let (left, counted) = if let RecipeAnswer::Counted { left, counted } = answer {
        (left, counted)
    } else if let RecipeAnswer::Promised { left } = answer {
        (left, false)
    } else {
        return Err(astray());
    };
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
    let request = RecipeRequest::AwaitLatch { latch: latch.clone(), wait, read };
    let (answer, revision, marks) = ask(exchange, request).await?;
    let RecipeAnswer::Open(view) = answer else { return Err(astray()) };
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
    let (_, revision, _) = ask(exchange, RecipeRequest::DeleteLatch { latch }).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(revision))
}

/// `POST /v1/barriers/{name}`, `PUT /v1/double-barriers/{name}`
pub(crate) async fn arrive(exchange: &mut Exchange<'_>, gate: Gate) -> Result<Reply, Fault> {
    let name = exchange.recipe(gates(gate))?;
    let header = request_id(exchange)?;
    let fields = exchange.fields(&ArriveParams::KEYS)?;
    let params = ArriveParams::parse(fields, header).map_err(of_refusal)?;
    exchange.subject.session = Some(params.session.clone());
    exchange.subject.wait = params.wait;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let ArriveParams { parties, session, owner, request, ttl, wait, labels, redirect: _ } = params;
    let request = RecipeRequest::Arrive(ArriveRequest {
        gate,
        name: name.clone(),
        parties,
        session,
        owner,
        request,
        ttl,
        wait,
        labels,
    });
    let (answer, revision, _) = ask(exchange, request).await?;
    let RecipeAnswer::Passed(passed) = answer else { return Err(astray()) };
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
    let request = RecipeRequest::Depart { gate, name: name.clone(), session, owner, wait };
    let (answer, revision, _) = ask(exchange, request).await?;
    let RecipeAnswer::Departed { changed, .. } = answer else { return Err(astray()) };
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
    let request = RecipeRequest::Gate { gate, name: name.clone(), read };
    let (answer, revision, marks) = ask(exchange, request).await?;
    let RecipeAnswer::Gate(view) = answer else { return Err(astray()) };
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
    let request = RecipeRequest::Counter { counter: counter.clone(), read };
    let (answer, revision, marks) = ask(exchange, request).await?;
    Ok(marked(counted(exchange, counter, &answer, revision)?, marks))
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
    let request = RecipeRequest::Count { counter: counter.clone(), session, request, change: what };
    let (answer, revision, _) = ask(exchange, request).await?;
    if let RecipeAnswer::Deleted { .. } = answer {
        return Ok(Reply::empty(StatusCode::NO_CONTENT).at(revision));
    }
    counted(exchange, counter, &answer, revision)
}

/// A counter, with its version as the entity tag; as text, just its value.
fn counted(
    exchange: &Exchange<'_>,
    counter: RecipeName,
    answer: &RecipeAnswer,
    revision: Revision,
) -> Result<Reply, Fault> {
    let RecipeAnswer::Counter(view) = answer else { return Err(astray()) };
    let etag: HeaderValue = tag(view.version);
    let reply = if exchange.wants_text() {
        Reply::text(StatusCode::OK, format!("{}\n", view.value))
    } else {
        Reply::json(StatusCode::OK, &CounterBody::new(counter, *view))
    };
    Ok(reply.with_header(ETAG, etag).at(revision))
}
