//! `PUT /v1/elections/{name}`: campaign for an election, renew the leadership, or replace the value.

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::parameters::election::{SESSION, VALUE};
use holdfast_api::parameters::{ATTEMPT, CHANGE, LABELS, OWNER, REDIRECT, TTL, WAIT};
use holdfast_api::{
    CallParams as _, ElectedBody, ErrorCode, ParamError, ParamValue as _, Schemas, params,
};
use holdfast_service::{Granted, Response};
use holdfast_types::{
    Acquire, AcquireOptions, Attempt, Data, Labels, Owner, Right, SessionName, Ttl,
};

use super::election;
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::locks::{
    ACQUIRE_ERRORS, GRANTED_TOKEN, acquiring_session, check_change, grant_reply, owner_or_unnamed,
};
use crate::operation::{Content, Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::ELECTION;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
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
    ..Operation::write(
        "campaign",
        Method::Put,
        &ELECTION,
        LateCopies::Attempt,
        HeadAccess::AnyOf(&[Right::LockAcquire]),
        BodyKind::Value,
        |call| campaign(call).boxed(),
    )
};

params! {
    struct CampaignParams as "a campaign" {
        session: Option<SessionName> = SESSION,
        owner: Option<Owner> = OWNER,
        attempt: Option<Attempt> = ATTEMPT,
        change: Option<Attempt> = CHANGE,
        ttl: Option<Ttl> = TTL,
        wait: Duration = WAIT,
        value: Option<String> = VALUE,
        _redirect: bool = REDIRECT,
        labels: Labels = LABELS,
    }
}

async fn campaign(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let (election, lock) = election(call)?;
    let params: CampaignParams = call.params()?;
    let value = value(params.value, &call.body, is_text(&call.parts.headers))?;
    call.log_fields.wait = params.wait;
    let (attempt, change, ttl) = (params.attempt, params.change, params.ttl);
    check_change(change, attempt, params.session.as_ref())?;
    let open = acquiring_session(call, params.session, attempt, ttl, params.labels)?;
    let acquire = Acquire::new(lock, open, owner_or_unnamed(params.owner)).waiting(params.wait);
    let value = value.map(|value| Data::from(value.into_bytes()));
    let options = AcquireOptions { value, ..AcquireOptions::PLAIN };
    let acquire = Acquire { attempt, change, options, ..acquire };
    let granted = call.run(call.service().acquire(acquire)).await?;
    let Response { value: Granted { grant, waited, expires_in, .. }, revision, .. } = granted;
    let token = grant.token;
    let body = ElectedBody::new(election, grant, (waited, expires_in), revision);
    Ok(grant_reply(call, token, &body, revision))
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
    let invalid = |detail: &str, hint: &str| {
        Err(ParamError::of("value", ErrorCode::InvalidArgument, detail).hint(hint))
    };
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
}
