//! `PATCH /v1/members/{id}`: change the role, the addresses or the zone of a member.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::member::{
    DRY_RUN, FORCE, HTTP, PEER, REPLACES, ROLE, ZONE, ZOOKEEPER,
};
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, ParamError, params};
use holdfast_service::{ChangeMode, MemberUpdate};
use holdfast_types::{Address, NodeId, RequestNumber, Right, SessionName, VotingRole, Zone};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::MEMBER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Change the role, the addresses or the zone of a member",
    description: "Other nodes use a new address at their next connection. A parameter that the call does not name keeps its value. A \
        role is changed in a separate call.",
    params: SetMemberParams::LIST,
    example: Example { query: "zone=b", body: "" },
    answers: || {
        vec![ResponseSpec::empty(StatusCode::NO_CONTENT, "The change is in the replicated state")]
    },
    errors: &[
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::MembershipInProgress,
        ErrorCode::MembershipUnsafe,
    ],
    ..Operation::write(
        "setMember",
        Method::Patch,
        &MEMBER,
        LateCopies::Request,
        HeadAccess::AnyOf(&[Right::ClusterManage]),
        BodyKind::SMALL,
        |call| set(call).boxed(),
    )
};

params! {
    struct SetMemberParams {
        role: Option<VotingRole> = ROLE,
        replaces: Option<NodeId> = REPLACES,
        peer: Option<Address> = PEER,
        http: Option<Address> = HTTP,
        zookeeper: Option<Address> = ZOOKEEPER,
        zone: Option<Zone> = ZONE,
        force: bool = FORCE,
        dry_run: bool = DRY_RUN,
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn set(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let node = call.member()?;
    let SetMemberParams { role, replaces, peer, http, zookeeper, zone, force, dry_run, .. } =
        call.params()?;
    let mode = ChangeMode { force, dry_run };
    let others = peer.is_some() || http.is_some() || zookeeper.is_some() || zone.is_some();
    let changed = match (role, others) {
        (Some(role), false) if replaces.is_none() || role == VotingRole::Voter => {
            call.run(call.service().set_member_role(node, role, replaces, mode)).await?
        }
        (None, true) if replaces.is_none() => {
            let update = MemberUpdate { peer, http, zookeeper, zone };
            call.run(call.service().update_member(node, update, mode)).await?
        }
        (Some(_), false) => {
            return Err(of_role(
                "only a new voter takes the place of another one: name role=voter",
            ));
        }
        (Some(_) | None, true) | (None, false) => {
            return Err(of_role("name either role, or addresses and the zone"));
        }
    };
    Ok(Reply::empty(StatusCode::NO_CONTENT).at(changed.revision))
}

fn of_role(detail: &str) -> HttpError {
    ParamError::of("role", ErrorCode::InvalidArgument, detail).into()
}
