//! Latches: `/v1/latches/{name}`. A latch opens when it was counted down as often as its count says, and stays open.

use std::time::Duration;

use axum::http::StatusCode;
use holdfast_api::parameters::STALE;
use holdfast_api::parameters::recipe::{COUNT, ENDING_SESSION, KEY, ON_DEATH, WAIT};
use holdfast_api::{
    CallParams as _, ErrorCode, LatchBody, LatchCountBody, ParamError, Schemas, params,
};
use holdfast_service::{CountedDown, CreatedLatch, Response};
use holdfast_types::{RequestId, SessionName};

use crate::access::{RECIPE_DELETE, RECIPE_READ, RECIPE_USE};
use crate::call::{CallContext, HandlerResult, read_mode};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::LATCH;

pub(crate) static CREATE: Operation = Operation {
    summary: "Create a latch",
    description: "The latch opens when it was counted down count times, and stays open.",
    params: MakeLatchParams::LIST,
    answers: || {
        let (created, existed) = ("The latch is created", "A latch with the same count exists");
        vec![
            ResponseSpec::json(StatusCode::CREATED, created, Schemas::of::<LatchBody>),
            ResponseSpec::json(StatusCode::OK, existed, Schemas::of::<LatchBody>),
        ]
    },
    errors: &[ErrorCode::QuotaExceeded, ErrorCode::CountMismatch],
    ..Operation::change("createLatch", Method::Put, &LATCH, RECIPE_USE, handler!(create))
};

pub(crate) static COUNT_DOWN: Operation = Operation {
    summary: "Count a latch down",
    description: "Each key counts once: a repeated call gets the first response.",
    params: CountDownParams::LIST,
    example: Example { query: "key=job-1", body: "" },
    answers: || {
        let about = "The key is counted, now or before";
        ResponseSpec::ok(about, Schemas::of::<LatchCountBody>)
    },
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired, ErrorCode::QuotaExceeded],
    ..Operation::change("countDown", Method::Post, &LATCH, RECIPE_USE, handler!(count_down))
};

pub(crate) static AWAIT: Operation = Operation {
    summary: "Wait for a latch to open",
    description: "The response is 200 when the latch is open, and 423 if the wait ends first.",
    params: AwaitLatchParams::LIST,
    answers: || ResponseSpec::ok("The latch is open", Schemas::of::<LatchBody>),
    errors: &[ErrorCode::NotFound, ErrorCode::NotYet, ErrorCode::TooManyWaiters],
    ..Operation::read("awaitLatch", &LATCH, RECIPE_READ, handler!(wait))
};

pub(crate) static DELETE: Operation = Operation {
    summary: "Delete a latch",
    answers: || ResponseSpec::no_content("The latch does not exist any more"),
    ..Operation::change("deleteLatch", Method::Delete, &LATCH, RECIPE_DELETE, handler!(delete))
};

params! {
    struct MakeLatchParams {
        count: u32 = COUNT,
    }

    struct CountDownParams {
        key: RequestId = KEY,
        session: Option<SessionName> = ENDING_SESSION,
        on_death: Option<&'static str> = ON_DEATH,
    }

    struct AwaitLatchParams {
        wait: Duration = WAIT,
        stale: bool = STALE,
    }
}

async fn create(call: &mut CallContext<'_>) -> HandlerResult {
    let latch = call.recipe()?;
    let MakeLatchParams { count } = call.params()?;
    let response = call.run(call.service().create_latch(latch.clone(), count)).await?;
    let Response { value: CreatedLatch { view, created }, revision, .. } = response;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::json(status, &LatchBody::new(latch, view, revision)).at(revision))
}

async fn count_down(call: &mut CallContext<'_>) -> HandlerResult {
    let latch = call.recipe()?;
    let params: CountDownParams = call.params()?;
    let key = params.key.clone();
    let when_ended = ending_session(params)?;
    call.log_fields.session.clone_from(&when_ended);
    let counted = call.service().count_down(latch.clone(), key.clone(), when_ended);
    let body = |CountedDown { left, counted }, _| LatchCountBody { latch, key, left, counted };
    call.ok(counted, body).await
}

/// Returns the session whose end counts the latch down, or `None` to count down now.
fn ending_session(params: CountDownParams) -> Result<Option<SessionName>, ParamError> {
    match (params.on_death, params.session) {
        (None, _) => Ok(None),
        (Some(_), Some(session)) => Ok(Some(session)),
        (Some(_), None) => {
            let detail = "'on_death' needs 'session'";
            Err(ParamError::invalid("session", detail)
                .hint("add the parameter session=ID of an open session"))
        }
    }
}

async fn wait(call: &mut CallContext<'_>) -> HandlerResult {
    let latch = call.recipe()?;
    let AwaitLatchParams { wait, stale } = call.params()?;
    call.log_fields.wait = wait;
    let opened = call.service().await_latch(&latch, wait, read_mode(stale));
    call.ok(opened, |view, revision| LatchBody::new(latch.clone(), view, revision)).await
}

async fn delete(call: &mut CallContext<'_>) -> HandlerResult {
    let latch = call.recipe()?;
    call.no_content(call.service().delete_latch(latch)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_required_and_bounded() {
        for query in ["", "count=0", "count=10001", "count=x", "count=-1"] {
            let error = MakeLatchParams::from_query(query).unwrap_err();
            assert_eq!(error.parameter.as_deref(), Some("count"), "{query}");
        }
    }

    #[test]
    fn a_key_is_required_and_on_death_needs_a_session() {
        let read = |query| {
            let params: CountDownParams = COUNT_DOWN.params_of(query)?;
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
