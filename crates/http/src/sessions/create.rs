//! `POST /v1/sessions`: open a session whose id the server generates.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{CallParams as _, ErrorCode, Schemas, SessionBody};
use holdfast_service::generate_session_name;

use super::LOCATION;
use super::open::{OpenParams, open_session};
use holdfast_types::Right;

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::SESSIONS;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Open a session with an id that the server generates",
    params: OpenParams::LIST,
    answers: || {
        let about = "The session is open";
        let opened = ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<SessionBody>);
        vec![opened.with(&[LOCATION])]
    },
    errors: &[ErrorCode::QuotaExceeded],
    ..Operation::write(
        "createSession",
        Method::Post,
        &SESSIONS,
        LateCopies::NewSession,
        HeadAccess::AnyOf(&[Right::SessionOpen]),
        BodyKind::LISTS,
        |call| create(call).boxed(),
    )
};

async fn create(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let session = generate_session_name().map_err(|failure| call.error(failure))?;
    let session = call.whole_session(session)?;
    let OpenParams { ttl, labels, .. } = call.params()?;
    open_session(call, (session, None), ttl, labels).await
}
