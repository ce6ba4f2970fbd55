//! `holdfast group`: members with a value, as long as this process or a command runs.
//!
//! If the session ends while the command runs, this process joins the group again.

use std::convert::Infallible;
use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_client::ClientBuilder;
use holdfast_client::recipes::{Group, Membership};
use holdfast_types::SessionName;
use nix::unistd::Pid;
use serde::Serialize;

use super::child::{exit_code, spawn};
use super::outer_locks::OuterLocks;
use crate::arguments::{RecipeArgs, duration, session_name};
use crate::exit::CommandFailure;
use crate::output::{answer, answer_rows, table, write_stderr};
use crate::signals::StopSignals;

/// The time limit for leaving the group.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two attempts to join again.
const PAUSE: Duration = Duration::from_millis(500);

/// Join a group, and list its members with their values.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Join a group until ^C, or while a command runs.
    Join(GroupJoinArgs),
    /// Show the members with their values.
    Ls(RecipeArgs),
}

/// Join a group until ^C, or while a command runs.
#[derive(Debug, Args)]
#[command(override_usage = "holdfast group join [OPTIONS] <NAME> [-- <COMMAND> [ARGS]...]")]
pub(crate) struct GroupJoinArgs {
    #[command(flatten)]
    group: RecipeArgs,
    /// The value that the other members see, e.g. an address.
    #[arg(long, value_name = "TEXT", default_value = "")]
    value: String,
    /// The session of the member, which stays open after this process; by default a new session that ends with it.
    #[arg(long, env = "HOLDFAST_SESSION", value_parser = session_name)]
    session: Option<SessionName>,
    /// How long the member stays if this process dies: 30s, or the ttl that the session already has.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,
    /// The command and its arguments, after `--`; by default the member stays until ^C.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The members of a group in the output.
#[derive(Debug, Serialize)]
struct MembersBody<'a> {
    group: &'a str,
    members: &'a [MemberRow],
}

/// One member in the output.
#[derive(Debug, Serialize)]
struct MemberRow {
    session: String,
    value: String,
}

pub(crate) async fn run(command: GroupCommand) -> Result<(), CommandFailure> {
    match command {
        GroupCommand::Join(args) => join(&args).await,
        GroupCommand::Ls(args) => ls(&args).await,
    }
}

async fn ls(RecipeArgs { name, cluster }: &RecipeArgs) -> Result<(), CommandFailure> {
    let members = cluster.client()?.group(name.as_str()).members().await?;
    let row = |member: holdfast_client::recipes::GroupMember| MemberRow {
        session: member.session.to_string(),
        value: member.value,
    };
    let rows: Vec<MemberRow> = members.into_iter().map(row).collect();
    let cells = rows.iter().map(|row| [row.session.clone(), row.value.clone()]);
    let text = match rows.as_slice() {
        [] => format!("{name} has no members"),
        _ => table(["session", "value"], cells),
    };
    let body = MembersBody { group: name, members: &rows };
    answer_rows(cluster.format(), &body, &rows, rows.iter().map(|row| &row.value), &text);
    Ok(())
}

async fn join(args: &GroupJoinArgs) -> Result<(), CommandFailure> {
    let mut signals = StopSignals::install().map_err(CommandFailure::failed)?;
    let session = match &args.session {
        Some(session) => {
            OuterLocks::live_session(&args.group.cluster.client()?, session.clone()).await?
        }
        None => None,
    };
    let client = args.group.cluster.nodes.client_with(|builder| {
        let builder = match &session {
            Some(session) => builder.named_session(session.as_str()),
            None => builder.session_prefix("group"),
        };
        args.ttl.into_iter().fold(builder, ClientBuilder::ttl)
    })?;
    let group = client.group(args.group.name.as_str());
    let mut member = group.join(&args.value).await?;
    let result = match args.command.as_slice() {
        [] => until_signal(args, &member, &mut signals).await,
        _ => while_command(&group, args, &mut member, &mut signals).await,
    };
    let leave = async { member.leave().await.and(client.close().await) };
    // If the leave times out, the member leaves when its session ends.
    let _in_time = tokio::time::timeout(LEAVE_TIMEOUT, leave).await;
    result
}

async fn until_signal(
    args: &GroupJoinArgs,
    member: &Membership,
    signals: &mut StopSignals,
) -> Result<(), CommandFailure> {
    let session = member.session().map(ToString::to_string).unwrap_or_default();
    let row = MemberRow { session: session.clone(), value: args.value.clone() };
    answer(args.group.cluster.format(), &row, &session, &session);
    tokio::select! {
        loss = member.lost() => Err(CommandFailure::Lost(format!("no longer in {}: {loss}", args.group.name))),
        _ = signals.next() => Ok(()),
    }
}

/// Runs the command and returns its exit code.
async fn while_command(
    group: &Group,
    args: &GroupJoinArgs,
    member: &mut Membership,
    signals: &mut StopSignals,
) -> Result<(), CommandFailure> {
    let mut child = spawn(&args.command, |command| {
        command.kill_on_drop(true);
    })?;
    let staying = stay(group, &args.value, member);
    tokio::pin!(staying);
    loop {
        tokio::select! {
            status = child.wait() => return exit_code(status.map_err(CommandFailure::failed)?),
            signal = signals.next() => {
                if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
                    let _ended = nix::sys::signal::kill(Pid::from_raw(id), signal);
                }
            }
            never = &mut staying => match never {},
        }
    }
}

/// Joins again after each loss.
async fn stay(group: &Group, value: &str, member: &mut Membership) -> Infallible {
    loop {
        let loss = member.lost().await;
        write_stderr(&format!("holdfast: no longer in the group: {loss}; joining again"));
        *member = loop {
            match group.join(value).await {
                Ok(again) => break again,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        write_stderr("holdfast: in the group again");
    }
}
