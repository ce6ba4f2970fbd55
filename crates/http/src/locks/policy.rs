//! The policy of a lock: `GET` and `PATCH /v1/policies/{name}`.

use std::time::Duration;

use holdfast_api::parameters::lock::{
    AGEING, COOLDOWN, DETECT_DEADLOCKS, HOLD_ALARM, LOCK_DELAY, ORDER, POLICY_LIMIT, POLICY_SHARDS,
    WAIT_ALARM,
};
use holdfast_api::{
    CallParams as _, CountOrNone, ErrorCode, ParamError, PolicyBody, Schemas, params,
};
use holdfast_types::{PolicyChange, QueueOrder, Right, millis};

use crate::access::{CallAccess, LOCK_READ};
use crate::call::{CallContext, HandlerResult, ReadParams, read_mode};
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::routes::POLICY;

pub(crate) static READ: Operation = Operation {
    summary: "Read the policy of a lock",
    description: "A lock whose policy was never changed has the default policy.",
    params: ReadParams::LIST,
    answers: || ResponseSpec::ok("The policy", Schemas::of::<PolicyBody>),
    ..Operation::read("readPolicy", &POLICY, LOCK_READ, handler!(read))
};

pub(crate) static SET: Operation = Operation {
    summary: "Change the policy of a lock, while it is in use",
    description: "Parameters that are absent keep their values. No holder loses the lock. The response is the whole policy. \
        A call without a parameter is rejected: GET shows the policy.",
    params: PolicyParams::LIST,
    example: Example { query: "order=writer-first", body: "" },
    answers: || ResponseSpec::ok("The policy", Schemas::of::<PolicyBody>),
    errors: &[
        ErrorCode::InUse,
        ErrorCode::ShardsMismatch,
        ErrorCode::QuotaExceeded,
        ErrorCode::EphemeralParent,
    ],
    ..Operation::change(
        "setPolicy",
        Method::Patch,
        &POLICY,
        CallAccess::Right(Right::LockPolicy),
        handler!(set),
    )
};

params! {
    struct PolicyParams {
        limit: Option<CountOrNone> = POLICY_LIMIT,
        order: Option<QueueOrder> = ORDER,
        ageing: Option<Duration> = AGEING,
        lock_delay: Option<Duration> = LOCK_DELAY,
        cooldown: Option<Duration> = COOLDOWN,
        detect_deadlocks: Option<bool> = DETECT_DEADLOCKS,
        shards: Option<CountOrNone> = POLICY_SHARDS,
        wait_alarm: Option<Duration> = WAIT_ALARM,
        hold_alarm: Option<Duration> = HOLD_ALARM,
    }
}

async fn read(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let ReadParams { stale } = call.params()?;
    let read = call.service().lock(&lock, read_mode(stale));
    call.ok(read, |view, _| PolicyBody::new(view.policy)).await
}

async fn set(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let change = change(&call.params()?)?;
    call.ok(call.service().set_policy(lock, change), |policy, _| PolicyBody::new(policy)).await
}

fn change(params: &PolicyParams) -> Result<PolicyChange, ParamError> {
    let change = PolicyChange {
        limit: params.limit.map(|limit| limit.0),
        order: params.order,
        ageing_ms: params.ageing.map(millis),
        lock_delay_ms: params.lock_delay.map(millis),
        cooldown_ms: params.cooldown.map(millis),
        detect_deadlocks: params.detect_deadlocks,
        shards: params.shards.map(|count| count.0),
        wait_alarm_ms: params.wait_alarm.map(millis),
        hold_alarm_ms: params.hold_alarm.map(millis),
    };
    if change == PolicyChange::default() {
        let detail = "the call names no value, so the policy did not change";
        return Err(ParamError::new(ErrorCode::InvalidArgument, detail)
            .hint("name a value, such as ?cooldown=1h; GET shows the policy"));
    }
    Ok(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<PolicyChange, ParamError> {
        change(&SET.params_of(query)?)
    }

    #[test]
    fn policy_values_out_of_bounds_are_rejected() {
        assert_eq!(read("limit=none").unwrap().limit, Some(None));
        assert_eq!(read("limit=3").unwrap().limit, Some(Some(3)));
        assert_eq!(read("shards=none").unwrap().shards, Some(None));
        assert_eq!(read("order=writer-first").unwrap().order, Some(QueueOrder::WriterFirst));
        assert_eq!(read("detect_deadlocks=false").unwrap().detect_deadlocks, Some(false));
        assert_eq!(read("wait_alarm=30s").unwrap().wait_alarm_ms, Some(30_000));
        assert_eq!(read("hold_alarm=off").unwrap().hold_alarm_ms, Some(0));
        assert_eq!(read("lock_delay=0s").unwrap().lock_delay_ms, Some(0));
        for query in ["limit=0", "limit=unknown", "limit=10001", "order=lifo", "shards=1025"] {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
        for query in
            ["lock_delay=61s", "cooldown=169h", "ageing=25h", "hold_alarm=721h", "cooldown=5"]
        {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::BadDuration, "{query}");
        }
    }

    #[test]
    fn an_empty_policy_change_is_rejected_with_an_example() {
        for query in ["", "redirect"] {
            let error = read(query).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{query}");
            assert!(error.hint.unwrap().contains("cooldown=1h"), "{query}");
        }
    }
}
