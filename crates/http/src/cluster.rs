//! The cluster as a whole: its nodes, its feature level, its leadership, the comparison of its states, its seal and its backup.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream::unfold;
use futures_util::{Stream, StreamExt as _};
use holdfast_api::parameters::member::{LEVEL, REASON, SEAL_REVISION, TO};
use holdfast_api::{
    BACKUP_MEDIA, CallParams as _, ClusterBody, ErrorCode, FeatureLevelBody, NodeBody, Rfc3339Time,
    Schemas, SealBody, StateVerificationBody, TransferredLeadershipBody, VerifiedMemberBody,
    VerifiedState, format_time, params,
};
use holdfast_service::{
    BackupStream, ClusterMember, ClusterView, MemberRole, Response, StateVerification,
};
use holdfast_types::{FeatureLevel, NodeId, Reason, Revision, Right, Seal};
use tokio::time::Instant;

use crate::access::{CLUSTER_MANAGE, CallAccess};
use crate::call::{CallContext, HandlerResult};
use crate::late_copies::LateCopies;
use crate::operation::{Content, Method, Operation, ResponseSpec, handler};
use crate::reply::Reply;
use crate::routes::{BACKUP, CLUSTER, FEATURE_LEVEL, SEAL, TRANSFER_LEADERSHIP, VERIFY_STATE};

/// Bytes of a backup that its reader must take per second, over the time [`SLOW_READ_MAX`].
const READ_PER_SECOND_MIN: u64 = 64 * 1024;
/// How much longer a reader may take than that.
const SLOW_READ_MAX: Duration = Duration::from_mins(1);

pub(crate) static READ: Operation = Operation {
    summary: "List the nodes of the cluster, with their roles",
    answers: || {
        let about = "The nodes, the term and the leader, as known to this node";
        ResponseSpec::ok(about, Schemas::of::<ClusterBody>)
    },
    ..Operation::node(
        "readCluster",
        &CLUSTER,
        CallAccess::Right(Right::ClusterRead),
        handler!(read),
    )
};

pub(crate) static SET_LEVEL: Operation = Operation {
    summary: "Raise or lower the feature level of the cluster",
    description: "The level changes by one, and every member must reply and know the new level. A higher level allows the calls of a new \
        program. After that, nodes with an older program do not start.",
    params: SetLevelParams::LIST,
    answers: || ResponseSpec::ok("The level", Schemas::of::<FeatureLevelBody>),
    errors: &[ErrorCode::LevelNotReady],
    ..Operation::change(
        "setFeatureLevel",
        Method::Post,
        &FEATURE_LEVEL,
        CLUSTER_MANAGE,
        handler!(set_level),
    )
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
    ..Operation::change(
        "transferLeadership",
        Method::Post,
        &TRANSFER_LEADERSHIP,
        CLUSTER_MANAGE,
        handler!(transfer),
    )
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
    ..Operation::change(
        "verifyState",
        Method::Post,
        &VERIFY_STATE,
        CallAccess::Right(Right::ClusterOperate),
        handler!(verify),
    )
};

pub(crate) static SEAL_CLUSTER: Operation = Operation {
    summary: "Seal the cluster, to move it to other machines",
    description: "A sealed cluster rejects all changes with the error sealed and the reason. Reads, watches, backups and keepalives work. Held locks \
        stay held, and nothing expires. A sealed cluster keeps its first seal.",
    params: SealParams::LIST,
    answers: || ResponseSpec::ok("The seal", Schemas::of::<SealBody>),
    errors: &[ErrorCode::BadName],
    ..Operation::change("sealCluster", Method::Put, &SEAL, CLUSTER_MANAGE, handler!(seal))
};

pub(crate) static UNSEAL_CLUSTER: Operation = Operation {
    summary: "End the seal of the cluster",
    description: "Changes are accepted again. Every session has as much time left as when the cluster was sealed, or more. Never \
        unseal a cluster whose sessions were restored elsewhere: both would grant the same locks.",
    params: UnsealParams::LIST,
    late_copies: LateCopies::Seal,
    answers: || ResponseSpec::no_content("The cluster is not sealed"),
    errors: &[ErrorCode::VersionMismatch],
    ..Operation::change("unsealCluster", Method::Delete, &SEAL, CLUSTER_MANAGE, handler!(unseal))
};

pub(crate) static BACK_UP: Operation = Operation {
    summary: "Make a backup of the whole cluster",
    description: "The backup contains every change that was acknowledged before the call. Any node makes it, one at a time. A response \
        without its last bytes is not a backup: holdfast backup verify checks the file. A reader that takes less than 64 KiB per \
        second, with a minute to spare, gets such a response. Keep it secret: it has the data of all \
        znodes, the passwords of sessions and the hashes of access tokens.",
    answers: || {
        let answer = ResponseSpec::empty(StatusCode::OK, "The backup");
        vec![answer.or(BACKUP_MEDIA, Content::Bytes)]
    },
    errors: &[ErrorCode::RateLimited],
    ..Operation::read(
        "backUpCluster",
        &BACKUP,
        CallAccess::Right(Right::ClusterBackup),
        handler!(back_up),
    )
};

params! {
    struct SetLevelParams {
        level: u64 = LEVEL,
    }

    struct SealParams {
        reason: Reason = REASON,
    }

    struct UnsealParams {
        seal: Revision = SEAL_REVISION,
    }

    struct TransferLeadershipParams {
        to: Option<NodeId> = TO,
    }
}

async fn read(call: &CallContext<'_>) -> HandlerResult {
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
    } = call.state.service.cluster().await;
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
        disk_free_bytes: view.disk_free,
        log_bytes: view.log_bytes,
        certificate_expires_at: view.certificate_expires_at.map(format_time),
        cannot_reach: view.cannot_reach,
    }
}

async fn set_level(call: &mut CallContext<'_>) -> HandlerResult {
    let SetLevelParams { level } = call.params()?;
    let level = FeatureLevel(u16::try_from(level).unwrap_or(u16::MAX));
    call.ok(call.service().set_level(level), |level, _| FeatureLevelBody { level: level.0 }).await
}

async fn transfer(call: &mut CallContext<'_>) -> HandlerResult {
    let TransferLeadershipParams { to } = call.params()?;
    let transferred = call.service().transfer_leadership(to);
    call.ok(transferred, |leader, _| TransferredLeadershipBody { leader }).await
}

async fn verify(call: &mut CallContext<'_>) -> HandlerResult {
    call.ok(call.service().verify_state(), |verified, _| verification_body(&verified)).await
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

async fn seal(call: &mut CallContext<'_>) -> HandlerResult {
    let SealParams { reason } = call.params()?;
    call.ok(call.service().seal(reason), |seal, _| seal_body(seal)).await
}

fn seal_body(seal: Seal) -> SealBody {
    let Seal { revision, since, by, reason } = seal;
    SealBody { revision, since: Rfc3339Time(since), by, reason }
}

async fn unseal(call: &mut CallContext<'_>) -> HandlerResult {
    let UnsealParams { seal } = call.params()?;
    call.no_content(call.service().unseal(seal)).await
}

async fn back_up(call: &mut CallContext<'_>) -> HandlerResult {
    let made = call.run(call.service().backup()).await?;
    let Response { value: stream, revision, .. } = made;
    let bytes = unfold(stream, |mut stream: BackupStream| async {
        stream.next().await.map(|next| (next, stream))
    });
    Ok(Reply::stream(BACKUP_MEDIA, Body::from_stream(for_reader(bytes))).at(revision))
}

/// The bytes up to the first error: the response then ends without its last bytes. A reader that takes too few bytes is an error,
/// because it keeps other callers from making a backup. A reader that takes nothing loses its connection.
fn for_reader(
    bytes: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    unfold(Some((bytes.boxed(), Instant::now(), SLOW_READ_MAX)), |state| async {
        let (mut bytes, given_at, left) = state?;
        let Some(left) = left.checked_sub(given_at.elapsed()) else {
            tracing::warn!("a backup ended early: its reader takes too few bytes");
            return Some((Err(io::Error::other("the reader takes too few bytes")), None));
        };
        let piece = bytes.next().await?;
        let bytes_read = piece.as_ref().map_or(0, |piece| piece.len() as u64);
        let earned = Duration::from_millis(bytes_read * 1_000 / READ_PER_SECOND_MIN);
        let left = (left + earned).min(SLOW_READ_MAX);
        let state = piece.is_ok().then(|| (bytes, Instant::now(), left));
        Some((piece, state))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Reads pieces with a pause after each, and returns whether the backup was complete.
    async fn is_complete(pieces: usize, pause: Duration) -> bool {
        let place = Arc::new(());
        let held = place.clone();
        let source = unfold((0, held), move |(at, held)| async move {
            let piece = Bytes::from(vec![0; 64 * 1024]);
            (at < pieces).then_some((Ok(piece), (at + 1, held)))
        });
        let mut bytes = Box::pin(for_reader(source));
        while let Some(piece) = bytes.next().await {
            if piece.is_err() {
                assert_eq!(Arc::strong_count(&place), 1, "the place is free");
                return false;
            }
            tokio::time::sleep(pause).await;
        }
        true
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_too_few_bytes_of_a_backup_gives_up_its_place() {
        assert!(is_complete(500, Duration::from_secs(1)).await);
        assert!(!is_complete(500, Duration::from_secs(2)).await);
        assert!(is_complete(30, Duration::from_secs(2)).await);
        assert!(!is_complete(2, SLOW_READ_MAX + Duration::from_secs(2)).await);
    }
}
