//! `holdfast group`: members with a value, as long as this process or a command runs.
//!
//! If the session ends while the command runs, this process joins the group again.

use std::convert::Infallible;
use std::ffi::OsString;
use std::pin::pin;
use std::time::Duration;

use clap::{Args, Subcommand};
use holdfast_client::recipes::Membership;
use holdfast_client::{Client, ClientBuilder, Loss};
use holdfast_types::SessionName;
use nix::unistd::Pid;
use serde::Serialize;
use tokio::process::Command;

use super::acquire::LEAVE_TIMEOUT;
use super::outer_locks::OuterLocks;
use crate::arguments::{RecipeArgs, duration};
use crate::exit::{CommandFailure, exit_code, not_started};
use crate::output::{answer, answer_rows, print_in_thread, table_or, write_stderr};
use crate::signals::{ParentSignals, ReceivedSignal};

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

#[derive(Debug, Args)]
#[command(override_usage = "holdfast group join [OPTIONS] <NAME> [-- <COMMAND> [ARGS]...]")]
pub(crate) struct GroupJoinArgs {
    #[command(flatten)]
    group: RecipeArgs,
    /// The value that the other members see, e.g. an address.
    #[arg(long, value_name = "TEXT", default_value = "")]
    value: String,
    /// The session of the member, which stays open after this process; by default a new session that ends with it.
    #[arg(long, env = "HOLDFAST_SESSION")]
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
    let text = table_or(&format!("{name} has no members"), ["session", "value"], cells);
    let body = MembersBody { group: name, members: &rows };
    answer_rows(cluster.format(), &body, &rows, rows.iter().map(|row| &row.value), &text);
    Ok(())
}

async fn join(args: &GroupJoinArgs) -> Result<(), CommandFailure> {
    let mut signals = ParentSignals::install()?;
    let mut member = ProcessMembership::default();
    let result = stay_member(args, &mut member, &mut signals).await;
    member.leave().await;
    result
}

async fn stay_member(
    args: &GroupJoinArgs,
    member: &mut ProcessMembership,
    signals: &mut ParentSignals,
) -> Result<(), CommandFailure> {
    tokio::select! {
        joined = member.join(args) => joined?,
        ReceivedSignal { signal, .. } = signals.next() => {
            let reason = format!("{signal} while joining {}", args.group.name);
            return Err(CommandFailure::Signalled(signal, Some(reason)));
        }
    }
    match args.command.as_slice() {
        [] => until_signal(args, member, signals).await,
        _ => while_command(args, member, signals).await,
    }
}

/// The membership of this process, with the client of its session.
#[derive(Debug, Default)]
struct ProcessMembership {
    client: Option<Client>,
    membership: Option<Membership>,
}

impl ProcessMembership {
    /// Joins with a new client: a client does not open a named session again that has ended.
    async fn join(&mut self, args: &GroupJoinArgs) -> Result<(), CommandFailure> {
        let client = client_of_member(args).await?;
        let group = client.group(args.group.name.as_str());
        self.client = Some(client);
        self.membership = Some(group.join(&args.value).await?);
        Ok(())
    }

    /// Leaves the group, and closes a session that the client opened. If no node answers in time, the member leaves when
    /// its session ends.
    async fn leave(&mut self) {
        let (membership, client) = (self.membership.take(), self.client.take());
        let leave = async {
            if let Some(membership) = membership {
                drop(membership.leave().await);
            }
            if let Some(client) = client {
                drop(client.close().await);
            }
        };
        let _in_time = tokio::time::timeout(LEAVE_TIMEOUT, leave).await;
    }

    async fn lost(&self) -> Loss {
        match &self.membership {
            Some(membership) => membership.lost().await,
            None => Loss::SessionEnded,
        }
    }

    /// Joins again after each loss.
    async fn stay(&mut self, args: &GroupJoinArgs) -> Infallible {
        loop {
            let loss = self.lost().await;
            write_stderr(&format!("holdfast: no longer in the group: {loss}; joining again"));
            let mut reported = String::new();
            loop {
                self.leave().await;
                let Err(error) = self.join(args).await else { break };
                let error = error.to_string();
                if error != reported {
                    write_stderr(&format!("holdfast: not in the group, joining again: {error}"));
                    reported = error;
                }
                tokio::time::sleep(PAUSE).await;
            }
            write_stderr("holdfast: in the group again");
        }
    }
}

/// Returns a client with the session of the member.
async fn client_of_member(args: &GroupJoinArgs) -> Result<Client, CommandFailure> {
    let cluster = &args.group.cluster;
    let session = match &args.session {
        Some(session) => OuterLocks::live_session(&cluster.client()?, session.clone()).await?,
        None => None,
    };
    cluster.nodes.client_with(|builder| {
        let builder = match &session {
            Some(session) => builder.named_session(session.as_str()),
            None => builder.session_prefix("group"),
        };
        args.ttl.into_iter().fold(builder, ClientBuilder::ttl)
    })
}

async fn until_signal(
    args: &GroupJoinArgs,
    member: &ProcessMembership,
    signals: &mut ParentSignals,
) -> Result<(), CommandFailure> {
    let session = member.membership.as_ref().and_then(Membership::session);
    let session = session.map(ToString::to_string).unwrap_or_default();
    let row = MemberRow { session: session.clone(), value: args.value.clone() };
    let format = args.group.cluster.format();
    drop(print_in_thread(move || answer(format, &row, &session, &session)));
    tokio::select! {
        loss = member.lost() => Err(CommandFailure::Lost(format!("no longer in {}: {loss}", args.group.name))),
        _ = signals.next() => Ok(()),
    }
}

/// Runs the command and returns its exit code. The command gets the signals of a terminal from the terminal.
async fn while_command(
    args: &GroupJoinArgs,
    member: &mut ProcessMembership,
    signals: &mut ParentSignals,
) -> Result<(), CommandFailure> {
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(CommandFailure::usage("no command: write it after --"));
    };
    let mut command = Command::new(program);
    command.args(arguments).kill_on_drop(true);
    let child = ParentSignals::unblocked(|| command.spawn());
    let mut child = child.map_err(|error| not_started(program, &error))?;
    let mut staying = pin!(member.stay(args));
    loop {
        tokio::select! {
            status = child.wait() => return exit_code(status.map_err(CommandFailure::failed)?),
            ReceivedSignal { signal, is_for_group } = signals.next() => {
                if !is_for_group
                    && let Some(id) = child.id().and_then(|id| i32::try_from(id).ok())
                {
                    let _ended = nix::sys::signal::kill(Pid::from_raw(id), signal);
                }
            }
            never = &mut staying => match never {},
        }
    }
}
