//! `POST /v1/keepalive`: renew many sessions. The body is a JSON list of their ids.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::REDIRECT;
use holdfast_api::{
    CallParams as _, ErrorCode, KEEPALIVE_SESSIONS_MAX, KeepaliveBody, KeepaliveManyBody,
    ParamError, Schemas, params,
};
use holdfast_service::{Response, SessionRenewal};
use holdfast_types::SessionName;

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::KEEP_MANY_ALIVE;
use crate::status::{HttpError, with_status};

pub(crate) static OPERATION: Operation = Operation {
    summary: "Renew many sessions at once",
    description: "The leader confirms its leadership once for all of them. Each session has a result of its own. The results \
        do not list holds: POST /v1/sessions/{id}/keepalive does, and PUT of a lock with its attempt returns 409 after a loss.",
    params: KeepManyAliveParams::LIST,
    example: Example { query: "", body: "[\"me\"]" },
    answers: || {
        let about = "The result of each session";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<KeepaliveManyBody>)]
    },
    errors: &[ErrorCode::BadName],
    is_rate_limited: false,
    ..Operation::write(
        "keepSessionsAlive",
        Method::Post,
        &KEEP_MANY_ALIVE,
        LateCopies::Renewal,
        HeadAccess::Subject,
        BodyKind::Sessions,
        |call| keep_many_alive(call).boxed(),
    )
};

params! {
    struct KeepManyAliveParams {
        _redirect: bool = REDIRECT,
    }
}

async fn keep_many_alive(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let sessions = session_ids(&call.body)?;
    let sessions = sessions.into_iter().map(|session| call.whole_session(session));
    let sessions = sessions.collect::<Result<_, _>>()?;
    let kept = call.run(call.service().keep_many_alive(sessions)).await?;
    let Response { value: kept, revision, .. } = kept;
    let result = |SessionRenewal { session, renewed }| match renewed {
        Ok((ttl, expires_in)) => KeepaliveBody::renewed(session, ttl, expires_in),
        Err(failure) => KeepaliveBody::refused(session, with_status(call.error(failure))),
    };
    let body = KeepaliveManyBody { sessions: kept.into_iter().map(result).collect(), revision };
    Ok(Reply::json(StatusCode::OK, &body).at(revision))
}

fn session_ids(body: &[u8]) -> Result<Vec<SessionName>, ParamError> {
    const HINT: &str = r#"send a JSON list of session ids as the body: ["me", "you"]"#;
    let ids: Vec<String> = serde_json::from_slice(body).map_err(|error| {
        let detail = format!("the body is not a list of session ids: {error}");
        ParamError::of("body", ErrorCode::InvalidArgument, detail).hint(HINT)
    })?;
    if ids.is_empty() || ids.len() > KEEPALIVE_SESSIONS_MAX {
        let detail = format!("{} sessions: 1 to {KEEPALIVE_SESSIONS_MAX} at once", ids.len());
        return Err(ParamError::of("body", ErrorCode::InvalidArgument, detail).hint(HINT));
    }
    let session =
        |id| SessionName::new(id).map_err(|error| ParamError::bad_name("session", &error));
    ids.into_iter().map(session).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_a_list_of_1_to_1000_ids() {
        assert_eq!(session_ids(br#"["a","b"]"#).unwrap().len(), 2);
        for body in ["", "[]", r#"{"sessions":["a"]}"#, r#"["a b"]"#, "[1]"] {
            assert!(session_ids(body.as_bytes()).is_err(), "{body}");
        }
        let many = format!("[{}\"a\"]", "\"a\",".repeat(KEEPALIVE_SESSIONS_MAX));
        assert!(session_ids(many.as_bytes()).unwrap_err().detail.contains("1 to 1000"));
    }
}
