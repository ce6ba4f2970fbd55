//! The cluster as a whole: its nodes, its feature level, its leadership, the comparison of its states, and its backup.

use axum::body::Body;
use axum::http::StatusCode;
use futures_util::FutureExt as _;
use futures_util::stream::unfold;
use holdfast_api::parameters::member::{LEVEL, TO};
use holdfast_api::{
    BACKUP_MEDIA, CallParams as _, ClusterBody, ErrorCode, FeatureLevelBody, NodeBody, Schemas,
    StateVerificationBody, TransferredLeadershipBody, VerifiedMemberBody, VerifiedState,
    format_time, params,
};
use holdfast_service::{
    BackupStream, ClusterMember, ClusterView, MemberRole, Response, StateVerification,
};
use holdfast_types::{FeatureLevel, NodeId, Right};

use crate::access::Access;
use crate::call::CallContext;
use crate::late_copies::LateCopies;
use crate::operation::{Content, Method, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes::{BACKUP, CLUSTER, FEATURE_LEVEL, TRANSFER_LEADERSHIP, VERIFY_STATE};
use crate::seal::seal_body;
use crate::status::HttpError;

const MANAGE: Access = Access::Right(Right::ClusterManage);

pub(crate) static READ: Operation = Operation {
    summary: "List the nodes of the cluster, with their roles",
    answers: || {
        let about = "The nodes, the term and the leader, as known to this node";
        ResponseSpec::ok(about, Schemas::of::<ClusterBody>)
    },
    ..Operation::node("readCluster", &CLUSTER, Access::Right(Right::ClusterRead), |call| {
        read(call).boxed()
    })
};

pub(crate) static SET_LEVEL: Operation = Operation {
    summary: "Raise or lower the feature level of the cluster",
    description: "The level changes by one, and every member must reply and know the new level. A higher level allows the calls of a new \
        program. After that, nodes with an older program do not start.",
    params: SetLevelParams::LIST,
    answers: || ResponseSpec::ok("The level", Schemas::of::<FeatureLevelBody>),
    errors: &[ErrorCode::LevelNotReady],
    ..Operation::change("setFeatureLevel", Method::Post, &FEATURE_LEVEL, MANAGE, |call| {
        set_level(call).boxed()
    })
};

pub(crate) static TRANSFER: Operation = Operation {
    summary: "Transfer leadership to another voter",
    description: "The next leader has every entry of the log. Calls wait for the short time without a leader. On a cluster of one node, \
        nothing changes.",
    params: TransferLeadershipParams::LIST,
    late_copies: LateCopies::NoStateChange,
    answers: || {
        let about = "The leader after the transfer";
        ResponseSpec::ok(about, Schemas::of::<TransferredLeadershipBody>)
    },
    errors: &[ErrorCode::MembershipUnsafe],
    ..Operation::change("transferLeadership", Method::Post, &TRANSFER_LEADERSHIP, MANAGE, |call| {
        transfer(call).boxed()
    })
};

pub(crate) static VERIFY: Operation = Operation {
    summary: "Compare the whole states of all members",
    description: "Every member hashes its state after the same entry of the log, in the background. The response waits for the slowest \
        member, at most half a minute. A member whose state differs from the majority's should be replaced.",
    late_copies: LateCopies::NoStateChange,
    answers: || {
        let about = "The digest of each member";
        ResponseSpec::ok(about, Schemas::of::<StateVerificationBody>)
    },
    errors: &[ErrorCode::LevelTooLow],
    ..Operation::change(
        "verifyState",
        Method::Post,
        &VERIFY_STATE,
        Access::Right(Right::ClusterOperate),
        |call| verify(call).boxed(),
    )
};

pub(crate) static BACK_UP: Operation = Operation {
    summary: "Make a backup of the whole cluster",
    description: "The backup contains every change that was acknowledged before the call. Any node makes it, one at a time. A response \
        without its last bytes is not a backup: holdfast backup verify checks the file. Keep it secret: it has the data of all \
        znodes, the passwords of sessions and the hashes of access tokens.",
    answers: || {
        let answer = ResponseSpec::empty(StatusCode::OK, "The backup");
        vec![answer.or(BACKUP_MEDIA, Content::Bytes)]
    },
    errors: &[ErrorCode::RateLimited],
    ..Operation::read("backUpCluster", &BACKUP, Access::Right(Right::ClusterBackup), |call| {
        back_up(call).boxed()
    })
};

params! {
    struct SetLevelParams {
        level: u64 = LEVEL,
    }
}

params! {
    struct TransferLeadershipParams {
        to: Option<NodeId> = TO,
    }
}

async fn read(call: &CallContext<'_>) -> Result<Reply, HttpError> {
    call.require(Right::ClusterRead)?;
    let ClusterView {
        cluster,
        id,
        level,
        term,
        leader,
        seal,
        change_waits_for,
        last_backup,
        nodes,
    } = call.state.service().cluster().await;
    let body = ClusterBody {
        cluster,
        cluster_id: id.map(|id| id.to_string()),
        level: level.0,
        term,
        leader,
        seal: seal.map(seal_body),
        change_waits_for,
        last_backup: last_backup.map(format_time),
        nodes: nodes.into_iter().map(node).collect(),
    };
    Ok(Reply::json(StatusCode::OK, &body))
}

fn node(view: ClusterMember) -> NodeBody {
    let role = match view.role {
        MemberRole::Leader => "leader",
        MemberRole::Follower => "follower",
        MemberRole::Candidate => "candidate",
        MemberRole::Learner => "learner",
        MemberRole::Standby => "standby",
        MemberRole::Stopped => "stopped",
        MemberRole::Unreachable => "unreachable",
    };
    NodeBody {
        id: view.id,
        role: role.to_owned(),
        votes: view.votes,
        http: view.addresses.http.to_string(),
        peer: view.addresses.peer.to_string(),
        zookeeper: view.addresses.zookeeper.to_string(),
        zone: view.zone,
        change: view.change.map(str::to_owned),
        version: view.version,
        level_max: view.level_max.map(|level| level.0),
        applied_revision: view.applied,
        healthy: view.healthy,
    }
}

async fn set_level(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let SetLevelParams { level } = call.params()?;
    let level = FeatureLevel(u16::try_from(level).unwrap_or(u16::MAX));
    let Response { value: level, revision, .. } = call.run(call.service().set_level(level)).await?;
    Ok(Reply::json(StatusCode::OK, &FeatureLevelBody { level: level.0 }).at(revision))
}

async fn transfer(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let TransferLeadershipParams { to } = call.params()?;
    let Response { value: leader, revision, .. } =
        call.run(call.service().transfer_leadership(to)).await?;
    Ok(Reply::json(StatusCode::OK, &TransferredLeadershipBody { leader }).at(revision))
}

async fn verify(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let Response { value, revision, .. } = call.run(call.service().verify_state()).await?;
    Ok(Reply::json(StatusCode::OK, &verification_body(&value)).at(revision))
}

fn verification_body(verification: &StateVerification) -> StateVerificationBody {
    let majority = verification.of_majority();
    let members = verification.digests.iter().map(|(id, digest)| VerifiedMemberBody {
        id: *id,
        digest: digest.map(|digest| format!("{digest:016x}")),
        state: match digest {
            Some(digest) if majority == Some(*digest) => VerifiedState::Same,
            Some(_) if majority.is_some() => VerifiedState::Different,
            Some(_) | None => VerifiedState::Unknown,
        },
    });
    StateVerificationBody {
        revision: verification.revision,
        same: verification.is_same(),
        members: members.collect(),
    }
}

async fn back_up(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let made = call.run(call.service().backup()).await?;
    let Response { value: stream, revision, .. } = made;
    // `None` after an error: the response ends without its last bytes.
    let bytes = unfold(Some(stream), |stream: Option<BackupStream>| async move {
        let mut stream = stream?;
        let next = stream.next().await?;
        let stream = next.is_ok().then_some(stream);
        Some((next, stream))
    });
    Ok(Reply::stream(BACKUP_MEDIA, Body::from_stream(bytes)).at(revision))
}
