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

use crate::call::{CallContext, read_mode};
use crate::reply::Reply;
use crate::status::{HttpError, of_refusal};

/// `POST /v1/sessions`
pub(crate) async fn create(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    open_as(call, None).await
}

/// `PUT /v1/sessions/{id}`
pub(crate) async fn open(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = call.session()?;
    open_as(call, Some(session)).await
}

async fn open_as(
    call: &mut CallContext<'_>,
    session: Option<SessionName>,
) -> Result<Reply, HttpError> {
    let params = OpenParams::parse(&call.fields(&OpenParams::KEYS)?).map_err(of_refusal)?;
    let OpenParams { ttl, labels, redirect: _ } = params;
    let session = session.map_or_else(generate_session_name, Ok).map_err(|f| call.error(f))?;
    let open = OpenSession { session, ttl, anonymous: false, labels, password: None };
    let response = call.run(call.service().open_session(open)).await?;
    Ok(one(call, response))
}

/// `POST /v1/sessions/{id}/keepalive`
pub(crate) async fn keep_alive(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = call.session()?;
    let params = KeepAliveParams::parse(&call.fields(&KeepAliveParams::KEYS)?);
    let params = params.map_err(of_refusal)?;
    if params.listens() {
        return listen(call, session, params).await;
    }
    let response = call.run(call.service().keep_alive(&session)).await?;
    Ok(one(call, response))
}

async fn listen(
    call: &mut CallContext<'_>,
    session: SessionName,
    params: KeepAliveParams,
) -> Result<Reply, HttpError> {
    let wait = params.wait.unwrap_or_default();
    call.log_fields.wait = wait;
    let request = ListenRequest { session, since: params.since, wait };
    let reply = call.run(call.service().listen(request)).await?;
    let Response { value: reply, revision, .. } = reply;
    let ListenReply { view, expires_in, waited, events, gap } = reply;
    let now = call.now();
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
pub(crate) async fn keep_many_alive(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let KeepManyParams { sessions } = KeepManyParams::parse(&call.body).map_err(of_refusal)?;
    let Response { value: kept, revision, .. } =
        call.run(call.service().keep_many_alive(sessions)).await?;
    let one = |kept: KeptAlive| match kept.renewed {
        Ok((ttl, expires_in)) => KeptBody::renewed(kept.session, ttl, expires_in),
        Err(failure) => KeptBody::refused(kept.session, call.error(failure)),
    };
    let body = KeptManyBody { sessions: kept.into_iter().map(one).collect(), revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

/// `GET /v1/sessions/{id}`
pub(crate) async fn read(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = call.session()?;
    let params = ReadParams::parse(&call.fields(&ReadParams::KEYS)?);
    let read = call.service().session(&session, read_mode(params.stale));
    let response = call.run(read).await?;
    Ok(one(call, response))
}

/// `DELETE /v1/sessions/{id}`
pub(crate) async fn close(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = call.session()?;
    let params = CloseParams::parse(&call.fields(&CloseParams::KEYS)?).map_err(of_refusal)?;
    let incarnation = params.incarnation;
    let (service, context) = (call.service(), &call.context);
    let closed = match params.force {
        Some(reason) => {
            call.run(service.end_session(context, session, incarnation, reason)).await?
        }
        None => call.run(service.close_session(session, incarnation)).await?,
    };
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(closed.revision))
}

/// `GET /v1/sessions`
pub(crate) async fn list(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let fields = call.fields(&ListParams::SESSION_KEYS)?;
    let params = ListParams::parse(&fields).map_err(of_refusal)?;
    let (after, read) = (params.page_token.as_deref(), read_mode(params.read.stale));
    let sessions = call.service().sessions(after, params.limit, read);
    let response = call.run(sessions).await?;
    let Response { value: page, revision, leader_contact } = response;
    let body = SessionsBody::new(page, call.now());
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}

/// One session: 201 with its place if the call opened it.
fn one(call: &CallContext<'_>, response: Response<SessionLease>) -> Reply {
    let Response { value: SessionLease { view, created, expires_in }, revision, leader_contact } =
        response;
    let location = session_path(&view.session);
    let body = SessionBody::new(view, expires_in, call.now(), revision);
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let reply = Reply::json(status, &body).at(revision).stale(leader_contact);
    match HeaderValue::try_from(location) {
        Ok(location) if created => reply.with_header(LOCATION, location),
        Ok(_) | Err(_) => reply,
    }
}
