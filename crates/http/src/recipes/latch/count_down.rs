//! `POST /v1/latches/{name}`: count a latch down.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::recipe::{ENDING_SESSION, KEY, ON_DEATH};
use holdfast_api::parameters::{REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, LatchCountBody, ParamError, Schemas, params};
use holdfast_service::{CountedDown, Response};
use holdfast_types::{RequestId, RequestNumber, Right, SessionName};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::LATCH;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Count a latch down",
    description: "Each key counts once: a repeated call gets the first response.",
    params: CountDownParams::LIST,
    example: Example { query: "key=job-1", body: "" },
    answers: || {
        let about = "The key is counted, now or before";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<LatchCountBody>)]
    },
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired, ErrorCode::QuotaExceeded],
    ..Operation::write(
        "countDown",
        Method::Post,
        &LATCH,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::RecipeUse]),
        BodyKind::SMALL,
        |call| count_down(call).boxed(),
    )
};

params! {
    struct CountDownParams {
        key: RequestId = KEY,
        session: Option<SessionName> = ENDING_SESSION,
        on_death: Option<&'static str> = ON_DEATH,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn count_down(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let latch = call.recipe()?;
    let params: CountDownParams = call.params()?;
    let key = params.key.clone();
    let when_ended = ending_session(params)?;
    call.log_fields.session.clone_from(&when_ended);
    let counted = call.service().count_down(latch.clone(), key.clone(), when_ended);
    let counted = call.run(counted).await?;
    let Response { value: CountedDown { left, counted }, revision, .. } = counted;
    let body = LatchCountBody { latch, key, left, counted };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
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
            let key = params.key.clone();
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
        assert_eq!(read("key=k&request=7&session=s").unwrap().0.as_str(), "k");
        assert!(read("key=k&session=s&on_death=count").unwrap().1.is_some());
    }
}
