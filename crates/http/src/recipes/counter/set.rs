//! `PUT /v1/counters/{name}?value=7`: set a counter.

use futures_util::FutureExt as _;
use holdfast_api::parameters::recipe::{VALUE, VERSION};
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{CounterChange, RequestNumber, Right, SessionName};

use super::{answers, change};
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Header, Method, Operation};
use crate::precondition::Precondition;
use crate::reply::Reply;
use crate::routes::COUNTER;
use crate::status::HttpError;

const IF_MATCH: Header =
    Header::text("if-match", "The version that the counter must have, in quotes");

pub(crate) static OPERATION: Operation = Operation {
    summary: "Set a counter",
    description: "With If-Match or version the counter is set only if it has that version.",
    params: SetParams::LIST,
    headers: &[IF_MATCH],
    answers,
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::CounterOverflow,
        ErrorCode::VersionMismatch,
    ],
    ..Operation::write(
        "setCounter",
        Method::Put,
        &COUNTER,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::RecipeUse]),
        BodyKind::SMALL,
        |call| set(call).boxed(),
    )
};

params! {
    struct SetParams {
        value: i64 = VALUE,
        version: Option<u64> = VERSION,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn set(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let counter = call.recipe()?;
    let SetParams { value, version, .. } = call.params()?;
    let version = Precondition::of_counter(&call.parts.headers)?.or(version);
    change(call, counter, CounterChange::Set { value, version }).await
}
