//! Barriers and double barriers. The last arrival at a barrier (`/v1/barriers/{name}`) lets all members pass in one step. The members
//! of a double barrier (`/v1/double-barriers/{name}`) enter together, and leave together.

use std::time::Duration;

use holdfast_api::parameters::recipe::{
    ARRIVAL, GENERATION, LEFT_ARRIVAL, MEMBER, MEMBER_OWNER, PARTIES, WAIT,
};
use holdfast_api::parameters::{INCARNATION, LABELS, TTL};
use holdfast_api::{
    BarrierBody, CallParams as _, ErrorCode, LeftBody, Schemas, TrippedBody, params,
};
use holdfast_types::{
    Arrive, BarrierKind, Labels, LeaveBarrier, OpenSession, Owner, RecipeName, RequestNumber,
    Revision, SessionId, SessionName, Ttl, millis,
};

use crate::access::{RECIPE_READ, RECIPE_USE};
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult, ReadParams, read_mode};
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::precondition::request_number;
use crate::routes::{BARRIER, DOUBLE_BARRIER};

pub(crate) static ARRIVE: Operation = Operation {
    summary: "Arrive at a barrier and wait for the others",
    description: "The last arrival lets all members pass in one step. A member that leaves, or whose session or wait ends, \
        breaks the barrier for the members that wait.",
    params: ArriveParams::LIST,
    late_copies: LateCopies::Arrival,
    body: BodyKind::LISTS,
    example: Example { query: "parties=1&session=me&wait=10s", body: "" },
    answers: || ResponseSpec::ok("All have arrived", Schemas::of::<TrippedBody>),
    errors: &[
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::TooManyWaiters,
        ErrorCode::CountMismatch,
        ErrorCode::BarrierBroken,
    ],
    ..Operation::change("arriveAtBarrier", Method::Put, &BARRIER, RECIPE_USE, |call| {
        Box::pin(arrive(call, BarrierKind::Barrier))
    })
};

pub(crate) static READ: Operation = Operation {
    summary: "Read the arrivals at a barrier",
    params: ReadParams::LIST,
    answers: || ResponseSpec::ok("The barrier", Schemas::of::<BarrierBody>),
    ..Operation::read("readBarrier", &BARRIER, RECIPE_READ, |call| {
        Box::pin(read(call, BarrierKind::Barrier))
    })
};

pub(crate) static LEAVE: Operation = Operation {
    summary: "Leave a barrier",
    params: LeaveParams::LIST,
    late_copies: LateCopies::Generation,
    answers: || ResponseSpec::no_content("The member has left"),
    errors: &[ErrorCode::NotFound, ErrorCode::SessionExpired],
    ..Operation::change("leaveBarrier", Method::Delete, &BARRIER, RECIPE_USE, handler!(leave))
};

params! {
    struct ArriveParams {
        parties: u32 = PARTIES,
        session: SessionName = MEMBER,
        incarnation: Option<SessionId> = INCARNATION,
        owner: Option<Owner> = MEMBER_OWNER,
        request: Option<RequestNumber> = ARRIVAL,
        ttl: Option<Ttl> = TTL,
        wait: Duration = WAIT,
        labels: Labels = LABELS,
    }

    struct LeaveParams {
        session: SessionName = MEMBER,
        owner: Option<Owner> = MEMBER_OWNER,
        generation: Option<Revision> = GENERATION,
        request: Option<RequestNumber> = LEFT_ARRIVAL,
        wait: Duration = WAIT,
    }
}

impl LeaveParams {
    fn command(self, barrier_kind: BarrierKind, name: RecipeName) -> LeaveBarrier {
        let Self { session, owner, generation, request, .. } = self;
        let owner = owner.unwrap_or_else(Owner::unnamed);
        LeaveBarrier { barrier_kind, name, session, owner, generation, request }
    }
}

async fn arrive(call: &mut CallContext<'_>, barrier_kind: BarrierKind) -> HandlerResult {
    let name = call.recipe()?;
    let params: ArriveParams = call.params()?;
    let ArriveParams { parties, session, incarnation, owner, request, ttl, wait, labels } = params;
    let request = request_number(call, request)?;
    call.log_fields.session = Some(session.clone());
    call.log_fields.wait = wait;
    let wait_ms = (!wait.is_zero()).then(|| millis(wait));
    let arrive = Arrive {
        barrier_kind,
        name: name.clone(),
        parties,
        open: OpenSession { ttl, labels, incarnation, ..OpenSession::of(session) },
        owner: owner.unwrap_or_else(Owner::unnamed),
        request,
        wait_ms,
    };
    call.ok(call.service().arrive(arrive), |tripped, _| TrippedBody::new(name, &tripped)).await
}

async fn read(call: &mut CallContext<'_>, barrier_kind: BarrierKind) -> HandlerResult {
    let name = call.recipe()?;
    let ReadParams { stale } = call.params()?;
    let read = call.service().barrier(barrier_kind, &name, read_mode(stale));
    call.ok(read, |view, revision| BarrierBody::new(name.clone(), view, revision)).await
}

async fn leave(call: &mut CallContext<'_>) -> HandlerResult {
    let name = call.recipe()?;
    let params: LeaveParams = call.params()?;
    call.log_fields.session = Some(params.session.clone());
    let leave = params.command(BarrierKind::Barrier, name);
    call.no_content(call.service().leave_barrier(leave, Duration::ZERO)).await
}

pub(crate) static ENTER_DOUBLE: Operation = Operation {
    summary: "Enter a double barrier together",
    params: ArriveParams::LIST,
    late_copies: LateCopies::Arrival,
    body: BodyKind::LISTS,
    example: Example { query: "parties=1&session=me&wait=10s", body: "" },
    answers: || ResponseSpec::ok("All members are inside", Schemas::of::<TrippedBody>),
    errors: &[
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::QuotaExceeded,
        ErrorCode::TooManyWaiters,
        ErrorCode::CountMismatch,
    ],
    ..Operation::change("enterDoubleBarrier", Method::Put, &DOUBLE_BARRIER, RECIPE_USE, |call| {
        Box::pin(arrive(call, BarrierKind::Double))
    })
};

pub(crate) static READ_DOUBLE: Operation = Operation {
    summary: "Read the members that wait at a double barrier, and those inside",
    params: ReadParams::LIST,
    answers: || ResponseSpec::ok("The double barrier", Schemas::of::<BarrierBody>),
    ..Operation::read("readDoubleBarrier", &DOUBLE_BARRIER, RECIPE_READ, |call| {
        Box::pin(read(call, BarrierKind::Double))
    })
};

pub(crate) static LEAVE_DOUBLE: Operation = Operation {
    summary: "Leave a double barrier together",
    description: "The response is 200 when all members have left.",
    params: LeaveParams::LIST,
    late_copies: LateCopies::Generation,
    answers: || ResponseSpec::ok("All members are outside", Schemas::of::<LeftBody>),
    errors: &[
        ErrorCode::NotFound,
        ErrorCode::NotYet,
        ErrorCode::SessionExpired,
        ErrorCode::TooManyWaiters,
    ],
    ..Operation::change(
        "leaveDoubleBarrier",
        Method::Delete,
        &DOUBLE_BARRIER,
        RECIPE_USE,
        handler!(leave_double),
    )
};

async fn leave_double(call: &mut CallContext<'_>) -> HandlerResult {
    let barrier = call.recipe()?;
    let params: LeaveParams = call.params()?;
    let wait = params.wait;
    call.log_fields.session = Some(params.session.clone());
    call.log_fields.wait = wait;
    let leave = params.command(BarrierKind::Double, barrier.clone());
    call.ok(call.service().leave_barrier(leave, wait), |left, _| LeftBody { barrier, left }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_and_session_are_required() {
        for (query, parameter) in [
            ("session=s", "parties"),
            ("parties=1001&session=s", "parties"),
            ("parties=3", "session"),
        ] {
            let error = ArriveParams::from_query(query).unwrap_err();
            assert_eq!(error.parameter.as_deref(), Some(parameter), "{query}");
        }
    }
}
