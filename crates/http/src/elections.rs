//! Elections: `/v1/elections/{name}`. An election is the lock `elections/<name>`: the holder leads, the waiters are
//! candidates.
//!
//! `PUT` campaigns, renews the leadership, or replaces the value; `GET` reads the leader and the candidates, once or as a
//! stream; `DELETE` resigns, or withdraws a candidacy.

mod observe;

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use holdfast_api::parameters::election::{RESIGNED_SESSION, SESSION, VALUE};
use holdfast_api::parameters::{
    ATTEMPT, CHANGE, INCARNATION, LABELS, OWNER, RELEASED_ATTEMPT, RELEASED_TOKEN, TTL, WAIT,
};
use holdfast_api::{
    CallParams as _, ElectedBody, ElectionBody, ErrorCode, ParamError, ParamValue as _, Schemas,
    election_lock, params,
};
use holdfast_service::{Granted, Response};
use holdfast_types::{
    Acquire, AcquireOptions, Attempt, Data, FencingToken, Labels, LockName, Owner, Release,
    SessionId, SessionName, Ttl,
};

use self::observe::observe;
use crate::access::{CallAccess, LOCK_ACQUIRE, LOCK_READ};
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult, ReadParams, accepts, accepts_text, read_mode};
use crate::late_copies::LateCopies;
use crate::locks::acquiring::{ACQUIRE_ERRORS, GRANTED_TOKEN, acquiring_session, grant_reply};
use crate::locks::release::{RELEASE_ERRORS, release_target};
use crate::operation::{Content, Example, Header, Method, Operation, ResponseSpec, handler};
use crate::reply::{EVENT_STREAM, LAST_EVENT_ID, Reply};
use crate::routes::ELECTION;
use crate::status::HttpError;

const LAST_EVENT: Header = Header::text(
    LAST_EVENT_ID,
    "Of a stream that is resumed: the id of the last event that the client has. The stream has only what changed since",
);

pub(crate) static CAMPAIGN: Operation = Operation {
    summary: "Campaign for an election, renew the leadership, or replace the value",
    description: "2xx means that the caller leads, 423 that it does not. The same call sent again renews, with the same token. \
        With change, another value replaces the published one; without a value it stays. With Accept: text/plain the response is the \
        token alone.",
    params: CampaignParams::LIST,
    example: Example { query: "session=me&wait=10s", body: "" },
    answers: || {
        vec![
            ResponseSpec::json(StatusCode::OK, "The caller leads", Schemas::of::<ElectedBody>)
                .or("text/plain", Content::Text)
                .with(&[GRANTED_TOKEN]),
        ]
    },
    errors: ACQUIRE_ERRORS,
    late_copies: LateCopies::Attempt,
    body: BodyKind::Value,
    ..Operation::change("campaign", Method::Put, &ELECTION, LOCK_ACQUIRE, handler!(campaign))
};

pub(crate) static READ: Operation = Operation {
    summary: "Read the leader and the candidates of an election",
    description: "An election without candidates has no leader. With Accept: text/plain the response is the leader's value \
        alone. With Accept: text/event-stream the response is a stream that begins with the leader and lasts until one side \
        ends it. Its events are leader, vacant, gap (changes are missing; the present leader follows), bookmark, reconnect.",
    params: ReadParams::LIST,
    headers: &[LAST_EVENT],
    answers: || {
        vec![
            ResponseSpec::json(StatusCode::OK, "The election", Schemas::of::<ElectionBody>)
                .or("text/plain", Content::Text)
                .or("text/event-stream", Content::Text),
        ]
    },
    errors: &[ErrorCode::ShardsMismatch],
    ..Operation::read("readElection", &ELECTION, LOCK_READ, handler!(read))
};

pub(crate) static RESIGN: Operation = Operation {
    summary: "Resign the leadership, or withdraw a candidacy",
    description: "The next candidate leads in the same step. With token or attempt a late copy of the call changes nothing. \
        Without them the call ends the leadership or the candidacy that the owner has when the call arrives.",
    params: ResignParams::LIST,
    answers: || ResponseSpec::no_content("The place is given up"),
    errors: RELEASE_ERRORS,
    late_copies: LateCopies::Release,
    ..Operation::change("resign", Method::Delete, &ELECTION, CallAccess::Subject, handler!(resign))
};

params! {
    struct CampaignParams as "a campaign" {
        session: Option<SessionName> = SESSION,
        incarnation: Option<SessionId> = INCARNATION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = ATTEMPT,
        change: Option<Attempt> = CHANGE,
        ttl: Option<Ttl> = TTL,
        wait: Duration = WAIT,
        value: Option<String> = VALUE,
        labels: Labels = LABELS,
    }

    struct ResignParams as "a resignation" {
        session: SessionName = RESIGNED_SESSION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = RELEASED_ATTEMPT,
        token: Option<FencingToken> = RELEASED_TOKEN,
    }
}

/// Parses the election from the path; returns it with its lock.
fn election(call: &mut CallContext<'_>) -> Result<(LockName, LockName), HttpError> {
    let election = call.lock()?;
    let lock = election_lock(&election)
        .map_err(|error| ParamError::new(ErrorCode::BadName, error.to_string()))?;
    call.log_fields.lock = Some(lock.clone());
    Ok((election, lock))
}

async fn campaign(call: &mut CallContext<'_>) -> HandlerResult {
    let (election, lock) = election(call)?;
    let params: CampaignParams = call.params()?;
    let value = value(params.value, &call.body, is_text(&call.parts.headers))?;
    call.log_fields.wait = params.wait;
    let (attempt, change) = (params.attempt, params.change);
    let session = (params.session, params.incarnation);
    let open = acquiring_session(call, session, (attempt, change), params.ttl, params.labels)?;
    let acquire =
        Acquire::new(lock, open, params.owner.unwrap_or_else(Owner::unnamed)).waiting(params.wait);
    let value = value.map(|value| Data::from(value.into_bytes()));
    let options = AcquireOptions { value, ..AcquireOptions::PLAIN };
    let acquire = Acquire { attempt, change, options, ..acquire };
    let granted = call.run(call.service().acquire(acquire)).await?;
    let Response { value: Granted { grant, waited, expires_in, .. }, revision, .. } = granted;
    let body = ElectedBody::new(election, grant, (waited, expires_in), revision);
    Ok(grant_reply(call, body.token, &body, revision))
}

/// Whether the caller calls the body text. `curl -d` calls it a form.
fn is_text(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media.is_some_and(|media| media.trim_start().to_ascii_lowercase().starts_with("text/"))
}

fn is_json_object(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body).is_ok()
}

/// Returns the value, from the parameter or from the body. A JSON object is more likely a mistake than a value.
fn value(value: Option<String>, body: &[u8], is_text: bool) -> Result<Option<String>, ParamError> {
    let invalid = |detail: &str, hint: &str| Err(ParamError::invalid("value", detail).hint(hint));
    match (value, body) {
        (value, []) => Ok(value),
        (_, body) if !is_text && is_json_object(body) => invalid(
            "the body is a JSON object, and the body of a campaign is the value",
            "send parameters in the query: ?session=ID&value=TEXT; for a value that is JSON, send content-type: text/plain",
        ),
        (Some(_), _) => invalid("'value' is given twice", "give it as the body, or with ?value="),
        (None, body) => match std::str::from_utf8(body) {
            Ok(text) => String::parse(&VALUE, text).map(Some),
            Err(_) => invalid("the value is not UTF-8", "send text, e.g. an address or a name"),
        },
    }
}

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let (election, lock) = election(call)?;
    let ReadParams { stale } = call.params()?;
    if accepts(&call.parts.headers, EVENT_STREAM) {
        return observe(call, (election, lock), read_mode(stale)).await;
    }
    let read = call.service().unsharded_lock(&lock, read_mode(stale));
    let Response { value: view, revision, leader_contact } = call.run(read).await?;
    let reply = if accepts_text(&call.parts.headers) {
        let value = view.holder().and_then(|holder| holder.value.clone());
        let value = value.map(|value| format!("{}\n", String::from_utf8_lossy(&value)));
        Reply::text(StatusCode::OK, value.unwrap_or_default())
    } else {
        let body = ElectionBody::new(election, view, call.now(), revision);
        Reply::json(StatusCode::OK, &body)
    };
    Ok(reply.at(revision).stale(leader_contact))
}

async fn resign(call: &mut CallContext<'_>) -> HandlerResult {
    let (_, lock) = election(call)?;
    let ResignParams { session, owner, attempt, token } = call.params()?;
    let target = release_target(attempt, token)?;
    call.log_fields.session = Some(session.clone());
    let release = Release {
        locks: lock.into(),
        session,
        owner: owner.unwrap_or_else(Owner::unnamed),
        target,
    };
    call.no_content(call.service().release(release)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, body: &[u8]) -> Result<Option<String>, ParamError> {
        value(CampaignParams::from_query(query)?.value, body, false)
    }

    #[test]
    fn the_value_comes_from_the_parameter_or_the_body() {
        assert_eq!(read("", b"").unwrap(), None);
        assert_eq!(read("value=10.0.0.7%3A5432", b"").unwrap().as_deref(), Some("10.0.0.7:5432"));
        assert_eq!(read("", b"10.0.0.7").unwrap().as_deref(), Some("10.0.0.7"));
        assert_eq!(read("", &[b'x'; 4_096]).unwrap().map(|value| value.len()), Some(4_096));
    }

    #[test]
    fn a_json_object_is_a_value_only_if_the_caller_calls_it_text() {
        let body = br#"{"session":"c9","value":"me"}"#;
        let error = read("", body).unwrap_err();
        assert!(error.hint.unwrap().contains("?session=ID&value=TEXT"));
        assert!(value(None, body, true).unwrap().unwrap().contains("c9"));
        assert_eq!(read("", b"{not json}").unwrap().as_deref(), Some("{not json}"));
    }

    #[test]
    fn a_repeated_empty_too_long_or_non_utf8_value_is_rejected() {
        let long = format!("value={}", "x".repeat(4_097));
        for (query, body, detail) in [
            ("value=a", &b"b"[..], "given twice"),
            ("value=a&value=b", b"", "given twice"),
            ("", &[0xff], "not UTF-8"),
            ("value=%ff", b"", "UTF-8"),
            ("value=", b"", "no value"),
            (long.as_str(), b"", "longer than 4096 bytes"),
            ("", &[b'x'; 4_097], "longer than 4096 bytes"),
        ] {
            let error = read(query, body).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{query}");
            assert!(error.detail.contains(detail), "{query}: {error}");
        }
    }

    #[test]
    fn a_resignation_needs_a_session_and_has_at_most_one_target() {
        let read = |query: &str| {
            let params: ResignParams = RESIGN.params_of(query)?;
            release_target(params.attempt, params.token)
        };
        assert!(read("session=db1&owner=o&redirect&token=7").is_ok());
        assert_eq!(read("owner=o").unwrap_err().parameter.as_deref(), Some("session"));
        let error = read("session=db1&token=7&attempt=1").unwrap_err();
        assert_eq!(error.parameter.as_deref(), Some("token"));
    }
}
