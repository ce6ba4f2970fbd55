//! `POST /v1/latches/{name}`: count a latch down.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::parameters::recipe::{ENDING_SESSION, KEY, KEY_REQUEST, ON_DEATH};
use holdfast_api::{CallParams as _, ErrorCode, LatchCountBody, ParamError, Schemas, params};
use holdfast_service::{CountedDown, Response};
use holdfast_types::{RequestId, SessionName};

use crate::call::CallContext;
use crate::idempotency;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::LATCH;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Count a latch down",
    description: "Each key counts once: a repeated call gets the first response.",
    params: CountDownParams::LIST,
    headers: &[idempotency::KEY],
    example: Example { query: "key=job-1", body: "" },
    answers: || {
        let about = "The key is counted, now or before";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<LatchCountBody>)]
    },
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired, ErrorCode::QuotaExceeded],
    ..Operation::write("countDown", Method::Post, &LATCH, |call| count_down(call).boxed())
};

params! {
    struct CountDownParams {
        key: Option<RequestId> = KEY,
        request: Option<RequestId> = KEY_REQUEST,
        session: Option<SessionName> = ENDING_SESSION,
        on_death: Option<&'static str> = ON_DEATH,
        _redirect: bool = REDIRECT,
    }
}

async fn count_down(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let latch = call.recipe()?;
    let params: CountDownParams = call.params()?;
    let request = match params.key {
        Some(_) => None,
        None => idempotency::request_id(call, params.request.clone())?,
    };
    let key = key(&params, request)?;
    let when_ended = ending_session(params)?;
    call.log_fields.session.clone_from(&when_ended);
    let counted = call.service().count_down(latch.clone(), key.clone(), when_ended);
    let counted = call.run(counted).await?;
    let Response { value: CountedDown { left, counted }, revision, .. } = counted;
    let body = LatchCountBody { latch, key, left, counted };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn key(params: &CountDownParams, request: Option<RequestId>) -> Result<RequestId, ParamError> {
    params.key.clone().or(request).ok_or_else(|| {
        let detail = "a latch is counted down once for each key, and none is given";
        ParamError::of("key", ErrorCode::InvalidArgument, detail)
            .hint("add ?key=ID that names what is done, or the header Idempotency-Key")
    })
}

/// Returns the session whose end counts the latch down, or `None` to count down now.
fn ending_session(params: CountDownParams) -> Result<Option<SessionName>, ParamError> {
    match (params.on_death, params.session) {
        (None, _) => Ok(None),
        (Some(_), Some(session)) => Ok(Some(session)),
        (Some(_), None) => {
            let detail = "'on_death' needs 'session'";
            Err(ParamError::of("session", ErrorCode::InvalidArgument, detail)
                .hint("add the parameter session=ID of an open session"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_required_and_on_death_needs_a_session() {
        let read = |query| {
            let params = CountDownParams::from_query(query)?;
            let key = key(&params, params.request.clone())?;
            ending_session(params).map(|session| (key, session))
        };
        for (query, parameter) in [
            ("", "key"),
            ("key=k&on_death=count", "session"),
            ("key=k&on_death=ignore&session=s", "on_death"),
        ] {
            let error = read(query).unwrap_err();
            assert_eq!(error.parameter.as_deref(), Some(parameter), "{query}");
        }
        assert_eq!(read("request=b").unwrap().0.as_str(), "b");
        assert_eq!(read("key=k&request=b&session=s").unwrap().0.as_str(), "k");
        assert!(read("key=k&session=s&on_death=count").unwrap().1.is_some());
    }
}
