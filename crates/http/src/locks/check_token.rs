//! `GET /v1/fence/{name}`: check a fencing token. The response is advice: only a check by the
//! store that is written protects the data.

use axum::http::StatusCode;
use holdfast_api::parameters::STALE;
use holdfast_api::parameters::lock::{CHECK_MODE, CHECKED_TOKEN};
use holdfast_api::{CallParams as _, ErrorCode, Facts, FenceBody, Problem, Schemas, params};
use holdfast_service::{FenceMode, Response, TokenCheck};
use holdfast_types::{FenceView, FencingToken, LockName, Right};

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult, read_mode};
use crate::operation::{Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::FENCE;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Check whether a fencing token is still valid",
    description: "The response is advice: only a check by the store that is written protects the data.",
    params: CheckTokenParams::LIST,
    answers: || ResponseSpec::ok("It is valid", Schemas::of::<FenceBody>),
    errors: &[ErrorCode::StaleToken],
    ..Operation::read("checkToken", &FENCE, CallAccess::Right(Right::LockCheck), handler!(check))
};

params! {
    struct CheckTokenParams {
        token: FencingToken = CHECKED_TOKEN,
        mode: &'static str = CHECK_MODE,
        stale: bool = STALE,
    }
}

async fn check(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let CheckTokenParams { token, mode, stale } = call.params()?;
    let mode = if mode == "monotonic" { FenceMode::Monotonic } else { FenceMode::Current };
    let checked = call.service().check_token(&lock, token, mode, read_mode(stale));
    let Response { value: TokenCheck { valid, view }, revision, leader_contact } =
        call.run(checked).await?;
    if !valid {
        return Err(stale_token(lock, token, view));
    }
    let body = FenceBody::new(lock, token, view, revision);
    Ok(Reply::json(StatusCode::OK, &body).at(revision).stale(leader_contact))
}

fn stale_token(lock: LockName, token: FencingToken, view: FenceView) -> HttpError {
    let FenceView { current, floor: _, highest } = view;
    let detail = match (current, highest) {
        (Some(current), _) => format!("the token of '{lock}' is {current}, not {token}"),
        (None, Some(highest)) => {
            format!("'{lock}' has no holder; its last token was {highest}, this one is {token}")
        }
        (None, None) => format!("'{lock}' has no holder, and no token of it is remembered"),
    };
    let lock = Some(lock);
    let facts = Facts { lock, token: Some(token), current, highest, ..Facts::default() };
    let hint = "stop writing: the lock of this token is lost";
    Box::new(Problem::new(ErrorCode::StaleToken, detail).hint(hint).facts(facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_number_below_two_to_the_53() {
        let read = CheckTokenParams::from_query;
        assert_eq!(read("token=4812").unwrap().token, FencingToken(4_812));
        assert_eq!(read("token=9007199254740991&mode=monotonic").unwrap().mode, "monotonic");
        for query in
            ["", "token=x", "token=-1", "token=%2B1", "token=9007199254740992", "token=1&mode=old"]
        {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
    }
}
