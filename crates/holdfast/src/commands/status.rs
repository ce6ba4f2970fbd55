//! `holdfast status`: the cluster's nodes.

use holdfast_api::ClusterBody;

use super::{LOOK_MAX, connect, stop};
use crate::cli::{Format, Target};
use crate::exit::Stop;
use crate::output::{print, print_json, table};

pub(super) async fn run(target: &Target) -> Result<(), Stop> {
    let cluster = connect(target)?
        .request_timeout(LOOK_MAX)
        .cluster()
        .await
        .map_err(|error| stop(target, &error))?;
    match target.output {
        Format::Json => print_json(&cluster),
        Format::Jsonl => cluster.nodes.iter().for_each(print_json),
        // The leader's address, not the nodes'.
        Format::Value => print(&leader_http(&cluster).unwrap_or_default()),
        Format::Table => print(&show(&cluster)),
    }
    match cluster.leader {
        Some(_) => Ok(()),
        None => Err(Stop::failed(
            "the cluster has no leader: a majority of its nodes must run and reach each other",
        )),
    }
}

fn leader_http(cluster: &ClusterBody) -> Option<String> {
    let leader = cluster.leader?;
    cluster.nodes.iter().find(|node| node.id == leader).map(|node| node.http.clone())
}

fn show(cluster: &ClusterBody) -> String {
    let leader = cluster.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string());
    let rows = cluster.nodes.iter().map(|node| {
        [
            node.id.to_string(),
            node.role.clone(),
            if node.healthy { "yes" } else { "no" }.to_owned(),
            node.applied.to_string(),
            node.http.clone(),
            node.peer.clone(),
        ]
    });
    let nodes = table(["node", "role", "healthy", "applied", "http", "peer"], rows);
    format!("cluster {}, term {}, leader {leader}\n\n{nodes}", cluster.cluster, cluster.term)
}
