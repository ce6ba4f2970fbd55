//! `holdfast status`: the nodes of the cluster.

use clap::Args;
use holdfast_api::ClusterBody;

use crate::arguments::ClusterArgs;
use crate::exit::CommandFailure;
use crate::output::{answer_rows, table};

/// Show the nodes of the cluster.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(args: StatusArgs) -> Result<(), CommandFailure> {
    let body = args.cluster.quick_client()?.cluster().await?;
    answer_rows(args.cluster.format(), &body, &body.nodes, [leader_http(&body)], &show(&body));
    match body.leader {
        Some(_) => Ok(()),
        None => Err(CommandFailure::failed(
            "the cluster has no leader: a majority of its nodes must run and reach each other",
        )),
    }
}

fn leader_http(cluster: &ClusterBody) -> &str {
    let leader = cluster.nodes.iter().find(|node| Some(node.id) == cluster.leader);
    leader.map_or("", |node| &node.http)
}

fn show(cluster: &ClusterBody) -> String {
    let leader = cluster.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string());
    let rows = cluster.nodes.iter().map(|node| {
        [
            node.id.to_string(),
            node.role.clone(),
            if node.healthy { "yes" } else { "no" }.to_owned(),
            node.applied_revision.to_string(),
            node.http.clone(),
            node.peer.clone(),
        ]
    });
    let nodes = table(["node", "role", "healthy", "applied", "http", "peer"], rows);
    let backup = cluster.last_backup.as_ref();
    let backup = backup.map(|at| format!(", last backup {at}")).unwrap_or_default();
    let (name, term) = (&cluster.cluster, cluster.term);
    format!("cluster {name}, term {term}, leader {leader}{backup}\n\n{nodes}")
}
