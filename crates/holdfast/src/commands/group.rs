//! `holdfast group`: who is there, each with something to say, as long as this process or a command lives.
//!
//! Owns what a command under way has to do with its membership: nothing but the time. If the membership is over because the
//! session is, that is said, and it is joined again, while the command goes on. Bounds: one call under way.

use std::convert::Infallible;
use std::ffi::OsString;
use std::time::Duration;

use holdfast_client::Client;
use holdfast_client::recipes::{Group, Membership};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::Serialize;
use tokio::process::{Child, Command};

use super::run::exit_code;
use super::{connect, stop};
use crate::cli::{GroupCommand, JoinArgs, RecipeArgs};
use crate::exit::Stop;
use crate::output::{answer, answer_rows, complain, table};
use crate::serve::Signals;

/// Leaving may take so long.
const FAREWELL: Duration = Duration::from_secs(2);
/// The rest between two attempts to join again.
const REST: Duration = Duration::from_millis(500);

pub(super) async fn run(command: GroupCommand) -> Result<(), Stop> {
    match command {
        GroupCommand::Join(args) => join(&args).await,
        GroupCommand::Ls(args) => ls(&args).await,
    }
}

/// A member, for programs.
#[derive(Debug, Serialize)]
struct Row {
    session: String,
    value: String,
}

async fn ls(args: &RecipeArgs) -> Result<(), Stop> {
    let members = connect(&args.target)?.group(args.name.as_str()).members().await;
    let members = members.map_err(|error| stop(&args.target, &error))?;
    let row = |member: holdfast_client::recipes::Member| Row {
        session: member.session.to_string(),
        value: member.value,
    };
    let rows: Vec<Row> = members.into_iter().map(row).collect();
    let people = || match rows.as_slice() {
        [] => format!("nobody is in {}", args.name),
        rows => {
            let cells = rows.iter().map(|row| [row.session.clone(), row.value.clone()]);
            table(["session", "value"], cells)
        }
    };
    answer_rows(args.target.output, &rows, &rows, |row| row.value.clone(), people);
    Ok(())
}

async fn join(args: &JoinArgs) -> Result<(), Stop> {
    let mut signals = Signals::install().map_err(Stop::failed)?;
    let (name, target) = (&args.group.name, &args.group.target);
    let client = client_for(args)?;
    let group = client.group(name.as_str());
    let joined = group.join(&args.value).await;
    let mut member = joined.map_err(|error| stop(target, &error))?;
    let ended = match args.command.as_slice() {
        [] => until_signal(args, &member, &mut signals).await,
        command => accompany(&group, &args.value, &mut member, command, &mut signals).await,
    };
    let leaving = async {
        let left = member.leave().await;
        left.and(client.close().await)
    };
    // If nobody takes it, it is gone when its session is.
    let _in_time = tokio::time::timeout(FAREWELL, leaving).await;
    ended
}

fn client_for(args: &JoinArgs) -> Result<Client, Stop> {
    let builder = Client::builder(&args.group.target.addr);
    let builder = match &args.session {
        Some(session) => builder.named_session(session),
        None => builder.session_prefix("group"),
    };
    let builder = args.ttl.into_iter().fold(builder, holdfast_client::ClientBuilder::ttl);
    builder.build().map_err(|error| Stop::usage(format!("{error}; see --addr and HOLDFAST_ADDR")))
}

async fn until_signal(
    args: &JoinArgs,
    member: &Membership,
    signals: &mut Signals,
) -> Result<(), Stop> {
    let session = member.session().map(ToString::to_string).unwrap_or_default();
    let row = Row { session: session.clone(), value: args.value.clone() };
    answer(args.group.target.output, &row, || session.clone(), || session.clone());
    tokio::select! {
        loss = member.lost() => Err(Stop::Lost(format!("no longer in {}: {loss}", args.group.name))),
        _signal = signals.next() => Ok(()),
    }
}

/// Runs a command; its end is ours.
async fn accompany(
    group: &Group,
    value: &str,
    member: &mut Membership,
    command: &[OsString],
    signals: &mut Signals,
) -> Result<(), Stop> {
    let mut child = spawn(command)?;
    let staying = stay(group, value, member);
    tokio::pin!(staying);
    loop {
        tokio::select! {
            status = child.wait() => return exit_code(status.map_err(Stop::failed)?),
            signal = signals.next() => pass_on(&child, signal),
            never = &mut staying => match never {},
        }
    }
}

fn spawn(command: &[OsString]) -> Result<Child, Stop> {
    let [program, arguments @ ..] = command else {
        return Err(Stop::failed("no command: write it after --"));
    };
    let child = Command::new(program).args(arguments).kill_on_drop(true).spawn();
    child.map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
        Stop::Code(code, Some(format!("cannot run {}: {error}", program.to_string_lossy())))
    })
}

fn pass_on(child: &Child, name: &str) {
    let signal = if name == "SIGINT" { Signal::SIGINT } else { Signal::SIGTERM };
    if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
        let _gone = nix::sys::signal::kill(Pid::from_raw(id), signal);
    }
}

/// Joins again whenever the membership is over.
async fn stay(group: &Group, value: &str, member: &mut Membership) -> Infallible {
    loop {
        let loss = member.lost().await;
        complain(&format!("holdfast: no longer in the group: {loss}; joining again"));
        *member = loop {
            match group.join(value).await {
                Ok(again) => break again,
                Err(_) => tokio::time::sleep(REST).await,
            }
        };
        complain("holdfast: in the group again");
    }
}
