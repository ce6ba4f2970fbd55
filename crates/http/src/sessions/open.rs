//! `PUT /v1/sessions/{id}`: open a session, or renew it.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::session::OPEN_ATTEMPT;
use holdfast_api::parameters::{LABELS, REDIRECT, TTL};
use holdfast_api::{CallParams as _, ErrorCode, Schemas, SessionBody, params};
use holdfast_types::{Attempt, Labels, OpenSession, Right, SessionName, Ttl};

use super::{LOCATION, session_reply};
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::SESSION;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Open a session, or renew it",
    description: "A session owns locks and ephemeral nodes. It ends when it is closed, or when its ttl has passed since its \
        last renewal. Everything that it holds is released then.",
    params: OpenNamedParams::LIST,
    example: Example { query: "ttl=1m", body: "" },
    answers: || {
        let renewed = "The session was open and is renewed";
        let opened = "The session is open";
        vec![
            ResponseSpec::json(StatusCode::OK, renewed, Schemas::of::<SessionBody>),
            ResponseSpec::json(StatusCode::CREATED, opened, Schemas::of::<SessionBody>)
                .with(&[LOCATION]),
        ]
    },
    errors: &[ErrorCode::QuotaExceeded, ErrorCode::SessionExpired, ErrorCode::AttemptOver],
    ..Operation::write(
        "openSession",
        Method::Put,
        &SESSION,
        LateCopies::OpenAttempt,
        HeadAccess::AnyOf(&[Right::SessionOpen]),
        BodyKind::LISTS,
        |call| open(call).boxed(),
    )
};

params! {
    struct OpenNamedParams {
        attempt: Option<Attempt> = OPEN_ATTEMPT,
        ttl: Option<Ttl> = TTL,
        _redirect: bool = REDIRECT,
        labels: Labels = LABELS,
    }
}

params! {
    pub(super) struct OpenParams {
        ttl: Option<Ttl> = TTL,
        _redirect: bool = REDIRECT,
        labels: Labels = LABELS,
    }
}

async fn open(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = call.session()?;
    let OpenNamedParams { attempt, ttl, labels, .. } = call.params()?;
    open_session(call, (session, attempt), ttl, labels).await
}

pub(super) async fn open_session(
    call: &CallContext<'_>,
    (session, attempt): (SessionName, Option<Attempt>),
    ttl: Option<Ttl>,
    labels: Labels,
) -> Result<Reply, HttpError> {
    let open = OpenSession { session, ttl, anonymous: false, labels, password: None, id: None };
    let response = call.run(call.service().open_session(open, attempt)).await?;
    Ok(session_reply(call, response))
}
