//! `GET /v1/cluster`: the nodes of the cluster, and the leader.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{ClusterBody, NodeBody, Schemas, format_time};
use holdfast_service::{ClusterMember, ClusterView, MemberRole};
use holdfast_types::Right;

use crate::call::CallContext;
use crate::members::seal::seal_body;
use crate::operation::{Operation, ResponseSpec, Scope};
use crate::reply::Reply;
use crate::routes::CLUSTER;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    scope: Scope::Node,
    summary: "List the nodes of the cluster, with their roles",
    answers: || {
        let about = "The nodes, the term and the leader, as known to this node";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<ClusterBody>)]
    },
    ..Operation::public("readCluster", &CLUSTER, |call| cluster(call).boxed())
};

async fn cluster(call: &CallContext<'_>) -> Result<Reply, HttpError> {
    let allowed = call.service().require(Right::ClusterRead);
    allowed.map_err(|failure| call.error(failure))?;
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
    let last_backup = last_backup.map(format_time);
    let (cluster_id, level) = (id.map(|id| id.to_string()), level.0);
    let nodes = nodes.into_iter().map(node).collect();
    let seal = seal.map(seal_body);
    let body = ClusterBody {
        cluster,
        cluster_id,
        level,
        term,
        leader,
        seal,
        change_waits_for,
        last_backup,
        nodes,
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
