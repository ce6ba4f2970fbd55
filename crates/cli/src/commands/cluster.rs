//! `holdfast cluster`: the leader, the feature level and the states of the cluster. `holdfast node`: operations on single
//! nodes; each address in `--addr` is one node.

use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_api::parameters::member::{LOG, LOG_FOR};
use holdfast_api::{
    ClusterBody, FeatureLevelBody, NodeLogBody, Query, SealBody, StateVerificationBody,
    TransferredLeadershipBody, VerifiedMemberBody, VerifiedState, format_time, parameters,
};
use holdfast_client::Call;
use holdfast_client::http::Method;
use holdfast_types::{FeatureLevel, NodeId, Reason};

use super::calls;
use super::member::node_id;
use crate::arguments::{ClusterArgs, Format, duration};
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, cell, short_time, table};

/// How long the slowest node may hash its state.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(30);

/// The leader, the feature level and the states of the cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Transfer leadership to another voter, such as before the maintenance of a machine.
    Transfer(TransferArgs),
    /// Show the feature level and the programs of all nodes, or change the level.
    ///
    /// A new program may have features that older programs do not know. They work from its feature level on. Upgrade every node
    /// first, then raise the level. After that, nodes with an older program do not start.
    Level(LevelArgs),
    /// Compare the whole states of all members.
    ///
    /// Every member hashes its state after the same entry of the log, in the background. Exit code 0 means that all members have
    /// the same state, and 1 that one differs or did not reply.
    Verify(ClusterArgs),
    /// Stop all changes, to move the cluster to other machines with its locks.
    ///
    /// Changes get the error sealed, and their callers retry. Reads, watches, backups and keepalives work. Locks stay held, and
    /// nothing expires.
    Seal(SealArgs),
    /// Accept changes again after a seal.
    ///
    /// Never unseal a cluster whose sessions were restored elsewhere: both would grant the same locks.
    Unseal(ClusterArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TransferArgs {
    /// The voter that leads next; without it, any.
    #[arg(long, value_name = "ID", value_parser = node_id)]
    to: Option<NodeId>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LevelArgs {
    /// The new level: one above or below the present one.
    #[arg(value_name = "LEVEL")]
    level: Option<u64>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SealArgs {
    /// The reason, for callers and the audit trail.
    #[arg(long)]
    reason: Reason,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(command: ClusterCommand) -> Result<(), CommandFailure> {
    match command {
        ClusterCommand::Transfer(args) => transfer(&args).await,
        ClusterCommand::Level(args) => match args.level {
            Some(level) => set_level(level, &args.cluster).await,
            None => show_level(&args.cluster).await,
        },
        ClusterCommand::Verify(cluster) => verify(&cluster).await,
        ClusterCommand::Seal(args) => seal(&args).await,
        ClusterCommand::Unseal(cluster) => unseal(&cluster).await,
    }
}

async fn transfer(args: &TransferArgs) -> Result<(), CommandFailure> {
    let query = Query::default().with_some(&parameters::member::TO, args.to.as_ref());
    let call = Call::new(Method::POST, query.target("/v1/cluster/transfer"));
    let body: TransferredLeadershipBody = args.cluster.client()?.call(&call).await?;
    let text = format!("node {} leads", body.leader);
    answer(args.cluster.format(), &body, body.leader, &text);
    Ok(())
}

async fn set_level(level: u64, cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let query = Query::default().with(&parameters::member::LEVEL, &level);
    let call = Call::new(Method::POST, query.target("/v1/cluster/level"));
    let body: FeatureLevelBody = calls::receive(&cluster.client()?, call).await?;
    let text = format!("the cluster has the feature level {}", body.level);
    answer(cluster.format(), &body, body.level, &text);
    Ok(())
}

async fn show_level(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let body = cluster.quick_client()?.cluster().await?;
    answer(cluster.format(), &body, body.level, &level_text(&body, FeatureLevel::NEWEST));
    Ok(())
}

async fn verify(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let call = Call::new(Method::POST, "/v1/cluster/verify").wait(VERIFY_TIMEOUT);
    let body: StateVerificationBody = cluster.client()?.call(&call).await?;
    let rows = body.members.iter().map(|member| {
        [member.id.to_string(), member.state.as_str().to_owned(), cell(member.digest.as_ref())]
    });
    let text = table(["node", "state", "digest"], rows);
    answer(cluster.format(), &body, body.same, &format!("revision {}\n\n{text}", body.revision));
    if body.same { Ok(()) } else { Err(CommandFailure::failed(difference(&body))) }
}

async fn seal(args: &SealArgs) -> Result<(), CommandFailure> {
    let query = Query::default().with(&parameters::member::REASON, &args.reason);
    let call = Call::new(Method::PUT, query.target("/v1/cluster/seal"));
    let client = args.cluster.client()?;
    let body: SealBody = match calls::view_of_leader(&client).await?.seal {
        Some(first) => first,
        None => calls::receive(&client, call).await?,
    };
    let since = format_time(body.since.0);
    let text = format!("sealed since {since}: {}\n\nnext: holdfast backup", body.reason);
    answer(args.cluster.format(), &body, &since, &text);
    Ok(())
}

async fn unseal(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let client = cluster.client()?;
    let Some(seal) = calls::view_of_leader(&client).await?.seal else { return Ok(()) };
    let query = Query::default().with(&parameters::member::SEAL_REVISION, &seal.revision);
    client.call_raw(&Call::new(Method::DELETE, query.target("/v1/cluster/seal"))).await?;
    Ok(())
}

/// The fact and the fix for states that are not all the same.
fn difference(body: &StateVerificationBody) -> String {
    let first = |is: fn(&VerifiedMemberBody) -> bool| body.members.iter().find(|of| is(of));
    if let Some(member) = first(|member| member.state == VerifiedState::Different) {
        let id = member.id;
        return format!(
            "the state of node {id} differs: replace it with holdfast member replace {id}"
        );
    }
    match first(|member| member.digest.is_none()) {
        Some(member) => {
            format!("node {} has no digest: start it, wait until it follows, and repeat the command", member.id)
        }
        None => "no majority has the same state: stop new work, keep all data directories, and report it".to_owned(),
    }
}

/// The levels of the cluster, of its nodes and of this program, and what an operator can do.
fn level_text(body: &ClusterBody, own: FeatureLevel) -> String {
    let rows = body.nodes.iter().map(|node| {
        [node.id.to_string(), cell(node.version.as_ref()), cell(node.level_max.as_ref())]
    });
    let level = body.level;
    let known = body.nodes.iter().map(|node| node.level_max);
    let advice = match known.min().flatten() {
        None => "the level can change when every node replies".to_owned(),
        Some(known) if known > level => {
            format!("every program knows the level {0}: holdfast cluster level {0}", level + 1)
        }
        Some(_) if own.0 > level => format!(
            "this program knows the level {own}: restart every node with it, then holdfast cluster level {}",
            level + 1
        ),
        Some(_) if own.0 < level => {
            format!("this program knows the levels up to {own}: no node can run it")
        }
        Some(_) => "this program knows no higher level".to_owned(),
    };
    let header = ["node", "version", "knows levels up to"];
    format!("the cluster has the feature level {level}\n\n{}\n\n{advice}", table(header, rows))
}

/// Operate the nodes in --addr.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Change what the nodes log, for a time.
    #[command(
        after_help = "Without LEVEL, the configured filter applies again at once. A filter: info,holdfast_raft=debug"
    )]
    Log(NodeLogArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NodeLogArgs {
    /// error, warn, info, debug, trace, or a filter.
    level: Option<String>,
    /// The time after which the configured filter applies again.
    #[arg(long = "for", value_name = "DURATION", default_value = "10m", value_parser = duration)]
    lasts: Duration,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn node(NodeCommand::Log(args): NodeCommand) -> Result<(), CommandFailure> {
    let query = Query::default().with(&LOG_FOR, &args.lasts);
    let query = args.level.iter().fold(query, |query, level| query.with(&LOG, level));
    let call = Call::new(Method::PATCH, query.target("/v1/node"));
    let nodes = &args.cluster.nodes;
    // Reports a malformed address before the first change.
    nodes.client()?;
    let (mut changed, mut failed) = (Vec::new(), Vec::new());
    for address in &nodes.addr {
        // Another node must not answer for this one.
        match nodes.only(address).client()?.call::<NodeLogBody>(&call).await {
            Ok(body) => changed.push(body),
            Err(error) => failed.push((address.as_str(), error)),
        }
    }
    if !changed.is_empty() {
        show_log_filters(args.cluster.format(), &changed);
    }
    if failed.is_empty() { Ok(()) } else { Err(nodes.failure(failed)) }
}

fn show_log_filters(format: Format, changed: &[NodeLogBody]) {
    let ends = |of: &NodeLogBody| of.ends_in_ms.map_or_else(|| "-".to_owned(), short_time);
    let rows = changed
        .iter()
        .map(|of| [of.node.to_string(), of.log.clone(), ends(of), of.configured.clone()]);
    let text = table(["node", "log", "for", "configured"], rows);
    let filters = changed.iter().map(|of| &of.log);
    answer_rows(format, &changed, changed, filters, &text);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(level: u16, known: [Option<u16>; 2]) -> ClusterBody {
        let node = |(id, level_max): (u64, Option<u16>)| {
            json!({
                "id": id, "role": "follower", "votes": true, "http": "h:1", "peer": "h:2", "zookeeper": "h:3",
                "version": level_max.map(|_| "0.1.0"), "level_max": level_max, "applied_revision": 1, "healthy": true,
            })
        };
        let nodes: Vec<_> = (1..).zip(known).map(node).collect();
        let body = json!({
            "cluster": "prod", "cluster_id": null, "level": level, "term": 1, "leader": 1, "nodes": nodes,
        });
        serde_json::from_value(body).expect("a body")
    }

    fn advice(level: u16, known: [Option<u16>; 2], own: u16) -> String {
        let text = level_text(&cluster(level, known), FeatureLevel(own));
        text.lines().last().unwrap_or_default().to_owned()
    }

    #[test]
    fn states_that_are_not_the_same_have_a_fix() {
        let fix = |members: [(&str, Option<&str>); 3]| {
            let member = |(id, (state, digest)): (u64, (&str, Option<&str>))| json!({ "id": id, "state": state, "digest": digest });
            let members: Vec<_> = (1..).zip(members).map(member).collect();
            let body = json!({ "revision": 7, "same": false, "members": members });
            difference(&serde_json::from_value(body).expect("a body"))
        };
        let (same, missing) = (("same", Some("a")), ("unknown", None));
        let different = ("different", Some("b"));
        assert_eq!(
            fix([missing, same, different]),
            "the state of node 3 differs: replace it with holdfast member replace 3"
        );
        assert_eq!(
            fix([same, missing, same]),
            "node 2 has no digest: start it, wait until it follows, and repeat the command"
        );
        let unclear = ["a", "b", "c"].map(|digest| ("unknown", Some(digest)));
        assert!(fix(unclear).starts_with("no majority has the same state"));
    }

    #[test]
    fn the_advice_follows_from_the_levels_of_the_cluster_the_nodes_and_this_program() {
        assert_eq!(
            advice(1, [Some(2), Some(3)], 2),
            "every program knows the level 2: holdfast cluster level 2"
        );
        assert_eq!(
            advice(1, [Some(1), Some(2)], 2),
            "this program knows the level 2: restart every node with it, then holdfast cluster level 2"
        );
        assert_eq!(
            advice(2, [Some(2), Some(2)], 1),
            "this program knows the levels up to 1: no node can run it"
        );
        assert_eq!(advice(2, [Some(2), Some(2)], 2), "this program knows no higher level");
        assert_eq!(advice(1, [Some(2), None], 2), "the level can change when every node replies");
    }

    #[test]
    fn the_long_help_of_unseal_warns_of_a_second_cluster() {
        let command = ClusterCommand::augment_subcommands(clap::Command::new("cluster"));
        let unseal = command.find_subcommand("unseal").and_then(clap::Command::get_long_about);
        assert!(unseal.is_some_and(|long| long.to_string().contains("Never unseal a cluster")));
    }
}
