//! `POST /v1/counters/{name}?add=5`: add to a counter.

use futures_util::FutureExt as _;
use holdfast_api::parameters::recipe::ADD;
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, params};
use holdfast_types::{CounterChange, RequestNumber, Right, SessionName};

use super::{answers, change};
use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation};
use crate::reply::Reply;
use crate::routes::COUNTER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Add to a counter",
    params: AddParams::LIST,
    answers,
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::CounterOverflow,
    ],
    ..Operation::write(
        "addToCounter",
        Method::Post,
        &COUNTER,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::RecipeUse]),
        BodyKind::SMALL,
        |call| add(call).boxed(),
    )
};

params! {
    struct AddParams {
        add: i64 = ADD,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn add(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let counter = call.recipe()?;
    let AddParams { add, .. } = call.params()?;
    change(call, counter, CounterChange::Add { amount: add }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_amount_is_a_signed_64_bit_integer() {
        assert_eq!(AddParams::from_query("add=-9223372036854775808").unwrap().add, i64::MIN);
        for query in ["", "add=9223372036854775808", "add=x"] {
            let error = AddParams::from_query(query).unwrap_err();
            assert_eq!(error.parameter.as_deref(), Some("add"), "{query}");
        }
    }
}
