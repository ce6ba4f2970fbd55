//! Opening, renewing, closing and listing sessions.

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};

use holdfast_api::{
    CloseParams, EventBody, GapBody, KeepAliveParams, KeepManyParams, KeptBody, KeptManyBody,
    ListParams, NewsBody, OpenParams, ReadParams, SessionBody, SessionsBody, session_path,
};
use holdfast_service::{
    KeptAlive, ListenReply, ListenRequest, Response, SessionEvent, SessionLease,
    generate_session_name,
};
use holdfast_types::{OpenSession, SessionName};

use crate::exchange::{Exchange, read_mode};
use crate::locks::{marked, staleness};
use crate::reply::Reply;
use crate::status::{Fault, of_refusal};

/// `POST /v1/sessions`
pub(crate) async fn create(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    open_as(exchange, None).await
}

/// `PUT /v1/sessions/{id}`
pub(crate) async fn open(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let session = exchange.session()?;
    open_as(exchange, Some(session)).await
}

async fn open_as(
    exchange: &mut Exchange<'_>,
    session: Option<SessionName>,
) -> Result<Reply, Fault> {
    let params = OpenParams::parse(&exchange.fields(&OpenParams::KEYS)?).map_err(of_refusal)?;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let OpenParams { ttl, labels, redirect: _ } = params;
    let session = session.map_or_else(generate_session_name, Ok).map_err(|f| exchange.fault(f))?;
    let open = OpenSession { session, ttl, anonymous: false, labels, password: None };
    let response = exchange.ask(exchange.service().open_session(open)).await?;
    Ok(one(exchange, response))
}

/// `POST /v1/sessions/{id}/keepalive`
pub(crate) async fn keep_alive(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let session = exchange.session()?;
    let params = KeepAliveParams::parse(&exchange.fields(&KeepAliveParams::KEYS)?);
    let params = params.map_err(of_refusal)?;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    if params.listens() {
        return listen(exchange, session, params).await;
    }
    let response = exchange.ask(exchange.service().keep_alive(&session)).await?;
    Ok(one(exchange, response))
}

async fn listen(
    exchange: &mut Exchange<'_>,
    session: SessionName,
    params: KeepAliveParams,
) -> Result<Reply, Fault> {
    let wait = params.wait.unwrap_or_default();
    exchange.subject.wait = wait;
    let request = ListenRequest { session, since: params.since, wait };
    let reply = exchange.ask(exchange.service().listen(request)).await?;
    let Response { value: reply, revision, .. } = reply;
    let ListenReply { view, expires_in, waited, events, gap } = reply;
    let now = exchange.now();
    let event = |e: SessionEvent| {
        let body = EventBody::new(e.revision, e.lock, e.owner, e.token, e.lost);
        match (e.asked, e.broken) {
            (Some(request), _) => body.asked(request, now),
            (None, Some(reason)) => body.broken(reason.to_string()),
            (None, None) => body,
        }
    };
    let body = NewsBody {
        session: SessionBody::new(view, expires_in, now, revision),
        waited_ms: holdfast_types::millis(waited),
        events: events.into_iter().map(event).collect(),
        gap: gap.map(|until| GapBody { until }),
    };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `POST /v1/keepalive`
pub(crate) async fn keep_many_alive(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let redirect = exchange.query(&KeepManyParams::KEYS)?.flag("redirect");
    if let Some(elsewhere) = exchange.elsewhere(redirect) {
        return Ok(elsewhere);
    }
    let KeepManyParams { sessions } = KeepManyParams::parse(&exchange.body).map_err(of_refusal)?;
    let Response { value: kept, revision, .. } =
        exchange.ask(exchange.service().keep_many_alive(sessions)).await?;
    let one = |kept: KeptAlive| match kept.renewed {
        Ok((ttl, expires_in)) => KeptBody::renewed(kept.session, ttl, expires_in),
        Err(failure) => KeptBody::refused(kept.session, exchange.fault(failure)),
    };
    let body = KeptManyBody { sessions: kept.into_iter().map(one).collect(), revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `GET /v1/sessions/{id}`
pub(crate) async fn read(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let session = exchange.session()?;
    let params = ReadParams::parse(&exchange.fields(&ReadParams::KEYS)?);
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let read = exchange.service().session(&session, read_mode(params.stale));
    let response = exchange.ask(read).await?;
    Ok(one(exchange, response))
}

/// `DELETE /v1/sessions/{id}`
pub(crate) async fn close(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let session = exchange.session()?;
    let params = CloseParams::parse(&exchange.fields(&CloseParams::KEYS)?).map_err(of_refusal)?;
    if let Some(elsewhere) = exchange.elsewhere(params.redirect) {
        return Ok(elsewhere);
    }
    let incarnation = params.incarnation;
    let (service, context) = (exchange.service(), &exchange.context);
    let closed = match params.force {
        Some(reason) => {
            exchange.ask(service.end_session(context, session, incarnation, reason)).await?
        }
        None => exchange.ask(service.close_session(session, incarnation)).await?,
    };
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(closed.revision))
}

/// `GET /v1/sessions`
pub(crate) async fn list(exchange: &mut Exchange<'_>) -> Result<Reply, Fault> {
    let fields = exchange.fields(&ListParams::SESSION_KEYS)?;
    let params = ListParams::parse(&fields).map_err(of_refusal)?;
    if let Some(elsewhere) = exchange.elsewhere(params.read.redirect) {
        return Ok(elsewhere);
    }
    let (after, read) = (params.page_token.as_deref(), read_mode(params.read.stale));
    let sessions = exchange.service().sessions(after, params.limit, read);
    let mut response = exchange.ask(sessions).await?;
    let marks = staleness(&mut response);
    let Response { value: page, revision, .. } = response;
    let body = SessionsBody::new(page, exchange.now());
    Ok(marked(Reply::json(StatusCode::OK, &body).at(revision), marks))
}

/// One session: 201 with its place if the call opened it.
fn one(exchange: &Exchange<'_>, mut response: Response<SessionLease>) -> Reply {
    let marks = staleness(&mut response);
    let Response { value: SessionLease { view, created, expires_in }, revision, .. } = response;
    let location = session_path(&view.session);
    let body = SessionBody::new(view, expires_in, exchange.now(), revision);
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let reply = marked(Reply::json(status, &body).at(revision), marks);
    match HeaderValue::try_from(location) {
        Ok(location) if created => reply.with_header(LOCATION, location),
        Ok(_) | Err(_) => reply,
    }
}
