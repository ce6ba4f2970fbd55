//! Members of the cluster: `/v1/members`, and one of them. `GET /v1/cluster` lists them.

use axum::http::StatusCode;
use holdfast_api::parameters::member::{
    DRY_RUN, FORCE, HTTP, NEW_HTTP, NEW_PEER, NEW_ZOOKEEPER, PEER, REASON, REPLACES, ROLE, ZONE,
    ZOOKEEPER,
};
use holdfast_api::{
    CallParams as _, ErrorCode, InvitedMemberBody, JoinToken, ParamError, Schemas, params,
};
use holdfast_service::{ChangeMode, InvitedMember, MemberUpdate, NewMember, Response};
use holdfast_types::{Address, MemberAddresses, NodeId, Reason, VotingRole, Zone};

use crate::access::CLUSTER_MANAGE;
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Example, Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::{MEMBER, MEMBERS};
use crate::status::HttpError;

const ERRORS: &[ErrorCode] =
    &[ErrorCode::NotFound, ErrorCode::MembershipInProgress, ErrorCode::MembershipUnsafe];

pub(crate) static ADD: Operation = Operation {
    summary: "Add a member, or replace one",
    description: "The response has a join token for the new machine. The new node receives the whole log before it votes. A replaced \
        member leaves in the same step, so the number of voters stays the same. GET /v1/cluster shows the progress.",
    params: AddMemberParams::LIST,
    late_copies: LateCopies::SecretRequest,
    answers: || {
        let about = "The invitation. The response is the only place where its secret appears";
        let dry_run = "The checks passed; nothing was proposed";
        vec![
            ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<InvitedMemberBody>),
            ResponseSpec::json(StatusCode::OK, dry_run, Schemas::of::<InvitedMemberBody>),
        ]
    },
    errors: ERRORS,
    ..Operation::change("addMember", Method::Post, &MEMBERS, CLUSTER_MANAGE, handler!(add))
};

pub(crate) static SET: Operation = Operation {
    summary: "Change the role, the addresses or the zone of a member",
    description: "Other nodes use a new address at their next connection. A parameter that the call does not name keeps its value. A \
        role is changed in a separate call.",
    params: SetMemberParams::LIST,
    example: Example { query: "zone=b", body: "" },
    answers: || ResponseSpec::no_content("The change is in the replicated state"),
    errors: ERRORS,
    ..Operation::change("setMember", Method::Patch, &MEMBER, CLUSTER_MANAGE, handler!(set))
};

pub(crate) static REMOVE: Operation = Operation {
    summary: "Remove a member, or cancel its invitation",
    description: "A removed leader hands leadership over first. The removed node stops with exit code 71, and its id is never used \
        again. GET /v1/cluster shows the progress.",
    params: RemoveMemberParams::LIST,
    late_copies: LateCopies::UniqueId,
    answers: || ResponseSpec::no_content("The removal is in the replicated state"),
    errors: ERRORS,
    ..Operation::change("removeMember", Method::Delete, &MEMBER, CLUSTER_MANAGE, handler!(remove))
};

params! {
    struct AddMemberParams {
        peer: Address = NEW_PEER,
        http: Address = NEW_HTTP,
        zookeeper: Address = NEW_ZOOKEEPER,
        zone: Option<Zone> = ZONE,
        role: Option<VotingRole> = ROLE,
        replaces: Option<NodeId> = REPLACES,
        force: bool = FORCE,
        dry_run: bool = DRY_RUN,
    }

    struct SetMemberParams {
        role: Option<VotingRole> = ROLE,
        replaces: Option<NodeId> = REPLACES,
        peer: Option<Address> = PEER,
        http: Option<Address> = HTTP,
        zookeeper: Option<Address> = ZOOKEEPER,
        zone: Option<Zone> = ZONE,
        force: bool = FORCE,
        dry_run: bool = DRY_RUN,
    }

    struct RemoveMemberParams {
        reason: Reason = REASON,
        force: bool = FORCE,
        dry_run: bool = DRY_RUN,
    }
}

async fn add(call: &mut CallContext<'_>) -> HandlerResult {
    let AddMemberParams { peer, http, zookeeper, zone, role, replaces, force, dry_run } =
        call.params()?;
    let addresses = MemberAddresses { peer, http, zookeeper };
    let new = NewMember { addresses, zone, role, replaces };
    let mode = ChangeMode { force, dry_run };
    let Response { value: invited, revision, .. } =
        call.run(call.service().invite_member(new, mode)).await?;
    let (status, body) = match invited {
        Some(InvitedMember { node, cluster, cluster_id, secret, members }) => {
            let token = JoinToken::new(cluster, cluster_id, node, secret, members);
            let body = InvitedMemberBody { id: Some(node), join_token: Some(token.reveal()) };
            (StatusCode::CREATED, body)
        }
        None => (StatusCode::OK, InvitedMemberBody { id: None, join_token: None }),
    };
    Ok(Reply::json(status, &body).at(revision))
}

async fn set(call: &mut CallContext<'_>) -> HandlerResult {
    let node = call.member()?;
    let SetMemberParams { role, replaces, peer, http, zookeeper, zone, force, dry_run } =
        call.params()?;
    let mode = ChangeMode { force, dry_run };
    let others = peer.is_some() || http.is_some() || zookeeper.is_some() || zone.is_some();
    match (role, others) {
        (Some(role), false) if replaces.is_none() || role == VotingRole::Voter => {
            call.no_content(call.service().set_member_role(node, role, replaces, mode)).await
        }
        (None, true) if replaces.is_none() => {
            let update = MemberUpdate { peer, http, zookeeper, zone };
            call.no_content(call.service().update_member(node, update, mode)).await
        }
        (Some(_), false) => {
            Err(of_role("only a new voter takes the place of another one: name role=voter"))
        }
        (Some(_) | None, true) | (None, false) => {
            Err(of_role("name either role, or addresses and the zone"))
        }
    }
}

fn of_role(detail: &str) -> HttpError {
    ParamError::invalid("role", detail).into()
}

async fn remove(call: &mut CallContext<'_>) -> HandlerResult {
    let node = call.member()?;
    let RemoveMemberParams { reason, force, dry_run } = call.params()?;
    let mode = ChangeMode { force, dry_run };
    call.no_content(call.service().remove_member(node, reason, mode)).await
}
