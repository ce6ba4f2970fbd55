//! `holdfast restore`: writes the data directory of the only node of a new cluster, from a backup.

mod floors;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum as _};
use holdfast_cli::arguments::{Format, OutputArgs, cluster_name, node_id};
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::new_file::as_owner_of;
use holdfast_cli::output::{answer, facts};
use holdfast_raft::{NewCluster, RestoreError, RestoreFailure, RestoredCluster};
use holdfast_types::{NodeId, RestoreSource};
use serde::Serialize;

use self::floors::{FenceMark, FloorSource};
use super::backup::{IdentityArgs, read_backup};

const NEVER_UNSEAL: &str = "stop the nodes of the old cluster first, and never unseal it: it would grant the same locks\n\n";

/// Create one node of a new cluster from a backup.
#[derive(Debug, Args)]
#[command(
    after_help = "The new cluster has another id, one member, only larger tokens, and no sessions without --keep-sessions. If the \
                  old cluster still runs, a guarded resource rejects its holders from the first call of a new holder on; other resources do not."
)]
pub(crate) struct RestoreArgs {
    /// The backup, or - for stdin.
    file: PathBuf,
    /// The new data directory, absent or empty.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// The id of the node, as in its configuration.
    #[arg(long, value_name = "ID", default_value = "1", value_parser = node_id)]
    node: NodeId,
    /// Keep the sessions, locks, waiters and ephemeral znodes of a sealed cluster. A floor above the last token is refused.
    #[arg(long)]
    keep_sessions: bool,
    #[command(flatten)]
    identity: IdentityArgs,
    #[command(flatten)]
    new: NewClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What differs between the old and the new cluster.
#[derive(Debug, Args)]
pub(crate) struct NewClusterArgs {
    /// The name of the new cluster; by default that of the old one.
    #[arg(long, value_name = "NAME", value_parser = cluster_name)]
    cluster: Option<String>,
    /// A token that a cluster has minted: the tokens continue above it. By default the clock decides.
    #[arg(long, value_name = "TOKEN", default_value_t = 0)]
    token_floor: u64,
    /// A store with fence marks: the tokens continue above the largest. postgres://..., redis://..., sqlite:FILE, or @FILE with a
    /// file that has the URL.
    #[arg(long, value_name = "URL")]
    floor_from: Vec<FloorSource>,
    /// Delete all access tokens; holdfast auth recover creates a new one.
    #[arg(long)]
    revoke_all_tokens: bool,
}

/// The floors of a new cluster, known before it is written.
pub(crate) struct NewClusterPlan {
    pub(crate) cluster: String,
    pub(crate) token_floor: u64,
    pub(crate) revokes_tokens: bool,
    marks: Vec<FenceMark>,
}

impl RestoreArgs {
    /// The command of these arguments for another directory, with or without the sessions.
    fn command(&self, data_dir: &Path, keeps_sessions: bool) -> String {
        let Self { file, data_dir: _, node, keep_sessions: _, identity, new, output } = self;
        format!(
            "holdfast restore {} --node {node} --data-dir {}{}{}{}{}",
            file.display(),
            data_dir.components().as_path().display(),
            if keeps_sessions { " --keep-sessions" } else { "" },
            identity.options(),
            new.options(),
            output_options(output)
        )
    }
}

/// The options of a suggested command.
pub(crate) fn output_options(output: &OutputArgs) -> String {
    let format = output.format.to_possible_value().filter(|_| output.format != Format::Table);
    format.map_or_else(String::new, |format| format!(" --output {}", format.get_name()))
}

impl NewClusterArgs {
    /// The options of a suggested command. The URLs have no users and passwords.
    pub(crate) fn options(&self) -> String {
        let Self { cluster, token_floor, floor_from, revoke_all_tokens } = self;
        let cluster = cluster.iter().map(|cluster| format!(" --cluster {cluster}"));
        let floor = Some(token_floor).filter(|floor| **floor > 0);
        let floor = floor.into_iter().map(|floor| format!(" --token-floor {floor}"));
        let stores = floor_from.iter().map(|store| format!(" --floor-from {store}"));
        let revoke = revoke_all_tokens.then(|| " --revoke-all-tokens".to_owned());
        cluster.chain(floor).chain(stores).chain(revoke).collect()
    }

    /// Reads the fence marks.
    pub(crate) async fn plan(&self, cluster: &str) -> Result<NewClusterPlan, CommandFailure> {
        let mut marks = Vec::new();
        for source in &self.floor_from {
            marks.push(source.store.read().await?);
        }
        let largest = marks.iter().map(|mark| mark.token).max().unwrap_or(0);
        Ok(NewClusterPlan {
            cluster: self.cluster.clone().unwrap_or_else(|| cluster.to_owned()),
            token_floor: self.token_floor.max(largest),
            revokes_tokens: self.revoke_all_tokens,
            marks,
        })
    }
}

/// The new cluster.
#[derive(Debug, Serialize)]
struct RestoreBody {
    cluster: String,
    cluster_id: String,
    node: NodeId,
    data_dir: PathBuf,
    revision: u64,
    /// The tokens continue above this one.
    last_token: u64,
    /// The sessions that the restore kept, and those that it ended.
    sessions_kept: u64,
    sessions_ended: u64,
    fence_marks: Vec<FenceMark>,
}

pub(crate) async fn run(args: RestoreArgs) -> Result<(), CommandFailure> {
    let backup = read_backup(&args.file, &args.identity)?;
    let plan = args.new.plan(&backup.head.cluster).await?;
    let new = NewCluster {
        data_dir: args.data_dir.clone(),
        cluster: plan.cluster.clone(),
        node: args.node,
        token_floor: plan.token_floor,
        keeps_sessions: args.keep_sessions,
        revokes_tokens: plan.revokes_tokens,
        source: RestoreSource::Backup { sha256: backup.end.sha256_hex() },
    };
    let sessions = backup.head.sessions;
    let restored = as_owner_of(&args.data_dir, || new.write(backup.machine))?
        .map_err(|failure| not_written(&args, &failure))?;
    print(&args.data_dir, args.node, sessions, plan, restored, &args.output);
    Ok(())
}

fn not_written(args: &RestoreArgs, failure: &RestoreFailure) -> CommandFailure {
    match failure {
        RestoreFailure::NotEmpty(dir) => {
            // A directory beside it could be outside of the volume.
            let restore = args.command(&dir.join("restored"), args.keep_sessions);
            CommandFailure::failed(format!("{failure}; into a new directory: {restore}"))
        }
        RestoreFailure::State(RestoreError::NotSealed | RestoreError::TokensSince { .. }) => {
            let restore = args.command(&args.data_dir, false);
            CommandFailure::failed(format!("{failure}; without its sessions: {restore}"))
        }
        RestoreFailure::State(
            RestoreError::NoTokens { .. }
            | RestoreError::NoRevisions { .. }
            | RestoreError::ClockAhead { .. },
        )
        | RestoreFailure::Directory(_)
        | RestoreFailure::Damaged { .. }
        | RestoreFailure::Write { .. } => CommandFailure::failed(failure),
    }
}

/// Prints what was written, and what to do next.
pub(crate) fn print(
    data_dir: &Path,
    node: NodeId,
    sessions: u64,
    plan: NewClusterPlan,
    restored: RestoredCluster,
    output: &OutputArgs,
) {
    let body = RestoreBody {
        cluster: plan.cluster,
        cluster_id: restored.cluster_id.to_string(),
        node,
        data_dir: data_dir.to_owned(),
        revision: restored.revision.0,
        last_token: restored.last_token,
        sessions_kept: restored.sessions,
        sessions_ended: sessions - restored.sessions,
        fence_marks: plan.marks,
    };
    let rows = [
        ("cluster", body.cluster.clone()),
        ("cluster id", body.cluster_id.clone()),
        ("node", body.node.to_string()),
        ("data directory", body.data_dir.display().to_string()),
        ("revision", body.revision.to_string()),
        ("tokens continue above", body.last_token.to_string()),
        ("sessions kept", body.sessions_kept.to_string()),
        ("sessions ended", body.sessions_ended.to_string()),
    ];
    let marks = body.fence_marks.iter().map(|mark| ("fence mark", mark.to_string()));
    let never = if body.sessions_kept > 0 { NEVER_UNSEAL } else { "" };
    let text = format!(
        "{}\n\n{never}next: start it with a configuration whose only member is node {node}: holdfast serve --config FILE",
        facts(["fact", "value"], rows.into_iter().chain(marks))
    );
    answer(output.format, &body, body.last_token, &text);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The arguments of a command line, and the names of all options that it can have.
    pub(crate) fn parse<T: Args>(line: &str) -> (T, Vec<String>) {
        let command = T::augment_args(clap::Command::new("any"));
        let names = command.get_arguments().filter_map(clap::Arg::get_long);
        let names = names.map(|name| format!(" --{name}")).collect();
        let matches = command.try_get_matches_from(line.split(' ').skip(1)).unwrap();
        (T::from_arg_matches(&matches).unwrap(), names)
    }

    #[test]
    fn a_suggested_restore_has_all_options_that_were_given() {
        let given = "holdfast restore old.backup --node 3 --data-dir new --keep-sessions --identity key --cluster c \
                     --token-floor 7 --floor-from sqlite:a --floor-from redis://b --revoke-all-tokens --output json";
        let (args, names) = parse::<RestoreArgs>(given);
        for name in names {
            assert!(given.contains(&name), "the test lacks {name}");
        }
        assert_eq!(args.command(Path::new("new"), true), given);
        let without = given.replace(" --keep-sessions", "");
        assert_eq!(args.command(Path::new("new"), false), without);
        let least = "holdfast restore - --node 1 --data-dir new";
        assert_eq!(parse::<RestoreArgs>(least).0.command(Path::new("new"), false), least);
    }
}
