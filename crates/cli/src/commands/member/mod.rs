//! `holdfast member`: the members of the cluster.

mod changes;

use clap::Subcommand;
use holdfast_api::{ClusterBody, NodeBody};
use holdfast_types::NodeId;

use crate::arguments::ClusterArgs;
use crate::exit::CommandFailure;
use crate::output::{answer_rows, cell, table};

use changes::{AddArgs, DemoteArgs, PromoteArgs, RemoveArgs, ReplaceArgs, SetArgs};

/// Add, replace and remove members.
#[derive(Debug, Subcommand)]
pub(crate) enum MemberCommand {
    /// List the members, their roles and the unfinished change.
    Ls(ClusterArgs),
    /// Invite a new member, and print a join token for its machine.
    Add(AddArgs),
    /// Invite a new member that takes the place of another one, which may be dead.
    Replace(ReplaceArgs),
    /// Remove a member for ever, or cancel its invitation.
    Remove(RemoveArgs),
    /// Give a learner or a standby its vote.
    Promote(PromoteArgs),
    /// Take the vote of a voter; it still receives the log.
    Demote(DemoteArgs),
    /// Change the addresses or the zone of a member.
    Set(SetArgs),
}

pub(crate) async fn run(command: MemberCommand) -> Result<(), CommandFailure> {
    match command {
        MemberCommand::Ls(cluster) => ls(&cluster).await,
        MemberCommand::Add(args) => args.run(None).await,
        MemberCommand::Replace(args) => args.run().await,
        MemberCommand::Remove(args) => args.run().await,
        MemberCommand::Promote(args) => args.run().await,
        MemberCommand::Demote(args) => args.run().await,
        MemberCommand::Set(args) => args.run().await,
    }
}

async fn ls(cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let body = cluster.quick_client()?.cluster().await?;
    let ids = body.nodes.iter().map(|node| node.id);
    answer_rows(cluster.format(), &body, &body.nodes, ids, &text(&body));
    Ok(())
}

fn text(body: &ClusterBody) -> String {
    let newest = body.nodes.iter().map(|node| node.applied_revision.0).max().unwrap_or_default();
    let rows = body.nodes.iter().map(|node| {
        [
            node.id.to_string(),
            node.role.clone(),
            if node.votes { "yes" } else { "no" }.to_owned(),
            lag(node, newest),
            cell(node.zone.as_ref()),
            cell(node.version.as_ref()),
            node.peer.clone(),
            cell(node.change.as_ref()),
        ]
    });
    let header = ["id", "role", "votes", "behind", "zone", "version", "peer", "change"];
    let voters = body.nodes.iter().filter(|node| node.votes);
    let (voters, healthy) = (voters.clone().count(), voters.filter(|node| node.healthy).count());
    let survives = match healthy.checked_sub(voters / 2 + 1) {
        None => "the cluster has no quorum".to_owned(),
        Some(spare) => {
            format!("{healthy} are healthy, and the cluster survives the loss of {spare}")
        }
    };
    let waits = body.change_waits_for.as_ref();
    let waits = waits.map(|why| format!("\nthe change waits: {why}")).unwrap_or_default();
    format!("{}\n\nvoters: {voters}; {survives}{waits}", table(header, rows))
}

/// The commands that the node has not applied yet.
fn lag(node: &NodeBody, newest: u64) -> String {
    let behind = newest.saturating_sub(node.applied_revision.0);
    if node.version.is_some() { behind.to_string() } else { "?".to_owned() }
}

pub(crate) fn node_id(text: &str) -> Result<NodeId, String> {
    match text.parse() {
        Ok(id) if id > 0 => Ok(NodeId(id)),
        Ok(_) | Err(_) => {
            Err("the id of a member is a number from 1: holdfast member ls lists them".to_owned())
        }
    }
}
