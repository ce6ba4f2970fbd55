//! `GET` and `PATCH /v1/auth`: the mode of the authorization, and the calls that this node refused.

use holdfast_api::parameters::auth::MODE;
use holdfast_api::{
    AuthBody, CallParams as _, RefusalBody, Rfc3339Time, Schemas, TokenPolicyBody, params,
};
use holdfast_service::{AuthStatus, RefusalCount};
use holdfast_types::{AuthChange, AuthMode, TokenPolicy};

use crate::access::{AUTH_MANAGE, AUTH_READ};
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Method, Operation, ResponseSpec, handler};
use crate::routes::AUTH;

pub(crate) static READ: Operation = Operation {
    summary: "Read the mode of the authorization, and the latest refusals of this node",
    description: "In the mode shadow, the refusals are the calls that the mode on would refuse.",
    answers: || ResponseSpec::ok("The authorization", Schemas::of::<AuthBody>),
    ..Operation::read("readAuth", &AUTH, AUTH_READ, handler!(read))
};

pub(crate) static SET: Operation = Operation {
    summary: "Set the mode of the authorization",
    params: SetModeParams::LIST,
    answers: || ResponseSpec::no_content("The mode is set"),
    ..Operation::change("setAuthMode", Method::Patch, &AUTH, AUTH_MANAGE, handler!(set))
};

params! {
    struct SetModeParams {
        mode: AuthMode = MODE,
    }
}

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    call.ok(call.service().auth_status(), |status, _| status_body(status)).await
}

fn status_body(status: AuthStatus) -> AuthBody {
    let AuthStatus {
        mode,
        required_here,
        has_had_administrator,
        token_policy: TokenPolicy { default_ttl_ms, max_ttl_ms },
        sessions_without_credential,
        refusals,
    } = status;
    let refusal = |refusal: RefusalCount| {
        let RefusalCount { subject, why, count, last_at } = refusal;
        RefusalBody { subject, why, count, last_at: Rfc3339Time(last_at) }
    };
    AuthBody {
        mode: mode.as_str().to_owned(),
        required_here,
        has_had_administrator,
        token_policy: TokenPolicyBody { default_ttl_ms, max_ttl_ms },
        sessions_without_credential,
        refusals: refusals.into_iter().map(refusal).collect(),
    }
}

async fn set(call: &mut CallContext<'_>) -> HandlerResult {
    let SetModeParams { mode } = call.params()?;
    call.no_content(call.service().change_auth(AuthChange::SetMode(mode))).await
}
