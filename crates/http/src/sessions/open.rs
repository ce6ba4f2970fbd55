//! `PUT /v1/sessions/{id}`: open a session, or renew it.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::{LABELS, REDIRECT, TTL};
use holdfast_api::{CallParams as _, ErrorCode, Schemas, SessionBody, params};
use holdfast_types::{Labels, OpenSession, SessionName, Ttl};

use super::{LOCATION, session_reply};
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
    params: OpenParams::LIST,
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
    errors: &[ErrorCode::QuotaExceeded, ErrorCode::SessionExpired],
    ..Operation::write("openSession", Method::Put, &SESSION, LateCopies::OpenAttempt, |call| {
        open(call).boxed()
    })
};

params! {
    pub(super) struct OpenParams {
        ttl: Option<Ttl> = TTL,
        _redirect: bool = REDIRECT,
        labels: Labels = LABELS,
    }
}

async fn open(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = call.session()?;
    open_session(call, session).await
}

pub(super) async fn open_session(
    call: &CallContext<'_>,
    session: SessionName,
) -> Result<Reply, HttpError> {
    let OpenParams { ttl, labels, .. } = call.params()?;
    let open = OpenSession { session, ttl, anonymous: false, labels, password: None };
    let response = call.run(call.service().open_session(open)).await?;
    Ok(session_reply(call, response))
}
