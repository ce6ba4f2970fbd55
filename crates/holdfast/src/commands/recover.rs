//! `holdfast recover`: shows the directories of stopped nodes, and makes a new cluster of one of them after the loss of
//! the majority.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use holdfast_cli::arguments::{OutputArgs, node_id};
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::new_file::{as_owner_of, owner_below_root};
use holdfast_cli::output::{answer_rows, cell, table, write_stderr};
use holdfast_raft::{
    LogPosition, Recovery, RestoreFailure, StoppedNode, directory_before_recovery,
};
use holdfast_types::NodeId;
use serde::Serialize;

use super::restore::{self, NewClusterArgs};

const ACCEPT: &str = "--i-accept-losing-acknowledged-writes";

/// Make a new cluster from one surviving node, after the loss of the majority.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "The rules of holdfast restore apply. The old directory is kept as DIR.before-recovery."
)]
pub(crate) struct RecoverArgs {
    #[command(subcommand)]
    command: Option<RecoverCommand>,
    /// The data directory of the survivor, which must not run.
    #[arg(required = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// All other members, which will never run again.
    #[arg(long, value_name = "ID[,ID]", value_delimiter = ',', value_parser = node_id)]
    lost: Vec<NodeId>,
    /// Confirm that writes may be lost which only the lost nodes had.
    #[arg(long)]
    i_accept_losing_acknowledged_writes: bool,
    #[command(flatten)]
    new: NewClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Subcommand)]
enum RecoverCommand {
    /// Compare the data directories of stopped nodes, and name the most complete one.
    Inspect(InspectArgs),
}

#[derive(Debug, Args)]
struct InspectArgs {
    /// Data directories of stopped nodes of one cluster.
    #[arg(required = true, value_name = "DIR")]
    data_dirs: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(args: RecoverArgs) -> Result<(), CommandFailure> {
    if let Some(RecoverCommand::Inspect(args)) = &args.command {
        return inspect(args);
    }
    let Some(dir) = &args.data_dir else { return Err(CommandFailure::usage("name the DIR")) };
    // The recovery renames the directory, not a symbolic link to it. A missing one is an error of the read.
    let dir = &dir.canonicalize().unwrap_or_else(|_| dir.clone());
    let stopped = read(dir)?;
    args.check_lost(dir, &stopped)?;
    if !args.i_accept_losing_acknowledged_writes {
        return Err(args.not_accepted(dir, &stopped));
    }
    if is_mount_point(dir) {
        return Err(CommandFailure::failed(format!(
            "{0} is a mount point, which cannot be renamed: move its files to {0}/node, recover {0}/node, and move \
             the files of {0}/node back",
            dir.display()
        )));
    }
    let (node, counts) = (stopped.node, stopped.machine.counts());
    let plan = args.new.plan(&stopped.cluster).await?;
    let recovery = Recovery {
        dir: dir.clone(),
        cluster: plan.cluster.clone(),
        token_floor: plan.token_floor,
        revokes_tokens: plan.revokes_tokens,
    };
    // The new directory is written beside the old one.
    let above = dir.parent().unwrap_or(dir);
    let owner = owner_below_root(dir).filter(|_| owner_below_root(above).is_none());
    let restored =
        as_owner_of(above, || recovery.run(stopped))?.map_err(|failure| not_written(&failure))?;
    write_stderr(&format!("the old directory is {}", directory_before_recovery(dir).display()));
    restore::print(dir, node, counts.sessions, plan, restored, &args.output);
    let given = owner.map_or(Ok(()), |owner| give(dir, owner));
    given.map_err(|error| {
        CommandFailure::failed(format!(
            "give {} to its owner before the start: {error}",
            dir.display()
        ))
    })
}

/// Reads a directory, which can create the first file of its log.
fn read(dir: &Path) -> Result<StoppedNode, CommandFailure> {
    as_owner_of(dir, || StoppedNode::read(dir))?.map_err(CommandFailure::failed)
}

/// Gives a new directory of root to the owner of the old one, who cannot reach a file before its directory.
fn give(path: &Path, (user, group): (u32, u32)) -> std::io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in path.read_dir()? {
            give(&entry?.path(), (user, group))?;
        }
    }
    lchown(path, Some(user), Some(group))
}

/// Whether a directory is a mount point, as the volume of a container is.
fn is_mount_point(dir: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    device(dir) != device(&dir.join(".."))
}

fn not_written(failure: &RestoreFailure) -> CommandFailure {
    let hint = match failure {
        RestoreFailure::NotEmpty(_) => ": move it away, then repeat the command",
        RestoreFailure::State(_)
        | RestoreFailure::Directory(_)
        | RestoreFailure::Damaged { .. }
        | RestoreFailure::Write { .. } => "",
    };
    CommandFailure::failed(format!("{failure}{hint}"))
}

impl RecoverArgs {
    /// Every other member must be named: one that runs would be a second cluster.
    fn check_lost(&self, dir: &Path, stopped: &StoppedNode) -> Result<(), CommandFailure> {
        let others = other_voters(stopped);
        if others.is_empty() {
            return Err(CommandFailure::failed(format!(
                "{} is of a cluster without another member: start it with holdfast serve",
                dir.display()
            )));
        }
        if others == self.lost.iter().copied().collect() {
            return Ok(());
        }
        Err(CommandFailure::failed(format!(
            "node {} has the other members {}: if none of them will run again: {}",
            stopped.node,
            listed(&others),
            self.confirmed(dir, &others)
        )))
    }

    fn not_accepted(&self, dir: &Path, stopped: &StoppedNode) -> CommandFailure {
        let last = position(stopped.last);
        CommandFailure::failed(format!(
            "node {} has the entries up to {last}; writes that only the other nodes have are lost for ever: {}",
            stopped.node,
            self.confirmed(dir, &other_voters(stopped))
        ))
    }

    /// The command of these arguments, with the lost members and the confirmation.
    fn confirmed(&self, dir: &Path, lost: &BTreeSet<NodeId>) -> String {
        let Self {
            command: _,
            data_dir: _,
            lost: _,
            i_accept_losing_acknowledged_writes: _,
            new,
            output,
        } = self;
        let (dir, lost) = (dir.display(), listed(lost));
        let (new, output) = (new.options(), restore::output_options(output));
        format!("holdfast recover {dir} --lost {lost} {ACCEPT}{new}{output}")
    }
}

fn other_voters(stopped: &StoppedNode) -> BTreeSet<NodeId> {
    stopped.voters.iter().filter(|voter| **voter != stopped.node).copied().collect()
}

fn listed(nodes: &BTreeSet<NodeId>) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(",")
}

/// The index and the term of an entry.
fn position(last: Option<LogPosition>) -> String {
    cell(last.map(|last| format!("{} of term {}", last.index, last.term)))
}

/// The directory of a stopped node.
#[derive(Debug, Serialize)]
struct StoppedNodeBody {
    data_dir: PathBuf,
    cluster: String,
    cluster_id: Option<String>,
    node: NodeId,
    voters: BTreeSet<NodeId>,
    term: Option<u64>,
    last_term: Option<u64>,
    last_index: Option<u64>,
    committed_index: Option<u64>,
    snapshot_index: Option<u64>,
    revision: u64,
    last_token: u64,
    state_digest: String,
    /// No other given directory has later entries.
    most_complete: bool,
}

impl StoppedNodeBody {
    fn of(data_dir: &Path, stopped: &StoppedNode) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            cluster: stopped.cluster.clone(),
            cluster_id: stopped.machine.cluster_id().map(|id| id.to_string()),
            node: stopped.node,
            voters: stopped.voters.clone(),
            term: stopped.vote.map(|(term, _)| term),
            last_term: stopped.last.map(|last| last.term),
            last_index: stopped.last.map(|last| last.index),
            committed_index: stopped.committed,
            snapshot_index: stopped.snapshot,
            revision: stopped.machine.revision().0,
            last_token: stopped.machine.counts().grants,
            state_digest: format!("{:016x}", stopped.machine.state_digest()),
            most_complete: false,
        }
    }

    fn position(&self) -> (Option<u64>, Option<u64>) {
        (self.last_term, self.last_index)
    }

    fn row(&self) -> [String; 9] {
        let last = self.last_term.zip(self.last_index);
        [
            self.data_dir.display().to_string(),
            self.node.to_string(),
            listed(&self.voters),
            position(last.map(|(term, index)| LogPosition { term, index })),
            cell(self.committed_index),
            cell(self.snapshot_index),
            self.revision.to_string(),
            self.state_digest.clone(),
            if self.most_complete { "most complete" } else { "-" }.to_owned(),
        ]
    }
}

fn inspect(args: &InspectArgs) -> Result<(), CommandFailure> {
    let mut bodies = Vec::new();
    for dir in &args.data_dirs {
        let stopped = read(dir)?;
        bodies.push(StoppedNodeBody::of(dir, &stopped));
    }
    let clusters: BTreeSet<_> = bodies.iter().map(|body| &body.cluster_id).collect();
    if clusters.len() > 1 {
        let clusters: Vec<_> = clusters.into_iter().map(|id| cell(id.as_ref())).collect();
        return Err(CommandFailure::failed(format!(
            "the directories are of different clusters: {}; compare those of one",
            clusters.join(", ")
        )));
    }
    if let Some(latest) = bodies.iter().map(StoppedNodeBody::position).max() {
        for body in &mut bodies {
            body.most_complete = body.position() == latest;
        }
    }
    let header = [
        "directory",
        "node",
        "voters",
        "last entry",
        "committed",
        "snapshot",
        "revision",
        "digest",
        "result",
    ];
    let text = table(header, bodies.iter().map(StoppedNodeBody::row));
    let best = bodies.iter().filter(|body| body.most_complete);
    let best = best.map(|body| body.data_dir.display().to_string());
    answer_rows(args.output.format, &bodies, &bodies, best.collect::<Vec<_>>(), &text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::restore::tests::parse;
    use super::*;

    #[test]
    fn a_suggested_recovery_has_all_options_that_were_given() {
        let given = "holdfast recover dir --lost 1,2 --i-accept-losing-acknowledged-writes --cluster c --token-floor 7 \
                     --floor-from sqlite:a --revoke-all-tokens --output json";
        let (args, names) = parse::<RecoverArgs>(given);
        for name in names {
            assert!(given.contains(&name), "the test lacks {name}");
        }
        let lost = BTreeSet::from([NodeId(1), NodeId(2)]);
        assert_eq!(args.confirmed(Path::new("dir"), &lost), given);
    }

    #[test]
    fn a_mounted_volume_is_a_mount_point() {
        assert!(is_mount_point(Path::new("/proc")));
        assert!(!is_mount_point(tempfile::tempdir().unwrap().path()));
    }
}
