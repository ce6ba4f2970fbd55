//! `POST /v1/members`: invite a member.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::member::{
    DRY_RUN, FORCE, NEW_HTTP, NEW_PEER, NEW_ZOOKEEPER, REPLACES, ROLE, ZONE,
};
use holdfast_api::parameters::{CALL_SESSION, REDIRECT, REQUEST};
use holdfast_api::{CallParams as _, ErrorCode, InvitedMemberBody, JoinToken, Schemas, params};
use holdfast_service::{ChangeMode, InvitedMember, NewMember, Response};
use holdfast_types::{
    Address, MemberAddresses, NodeId, RequestNumber, Right, SessionName, VotingRole, Zone,
};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::MEMBERS;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Add a member, or replace one",
    description: "The response has a join token for the new machine. The new node receives the whole log before it votes. A replaced \
        member leaves in the same step, so the number of voters stays the same. GET /v1/cluster shows the progress.",
    params: AddMemberParams::LIST,
    answers: || {
        let about = "The invitation. The response is the only place where its secret appears";
        let dry_run = "The checks passed; nothing was proposed";
        vec![
            ResponseSpec::json(StatusCode::CREATED, about, Schemas::of::<InvitedMemberBody>),
            ResponseSpec::json(StatusCode::OK, dry_run, Schemas::of::<InvitedMemberBody>),
        ]
    },
    errors: &[
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::MembershipInProgress,
        ErrorCode::MembershipUnsafe,
    ],
    ..Operation::write(
        "addMember",
        Method::Post,
        &MEMBERS,
        LateCopies::SecretRequest,
        HeadAccess::AnyOf(&[Right::ClusterManage]),
        BodyKind::SMALL,
        |call| add(call).boxed(),
    )
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
        _session: Option<SessionName> = CALL_SESSION,
        _request: Option<RequestNumber> = REQUEST,
        _redirect: bool = REDIRECT,
    }
}

async fn add(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let AddMemberParams { peer, http, zookeeper, zone, role, replaces, force, dry_run, .. } =
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
