//! The commands that talk to a running cluster. One file each; they know HTTP through the client crate, and those
//! about the tree, whose bodies are raw, through `asking`.
//!
//! Answers go to stdout, everything else to stderr. Without a cluster to be found, the error says where was looked.

mod asking;
mod doctor;
mod double;
mod elect;
mod fence;
mod group;
mod held;
mod history;
mod lock;
mod ls;
mod naming;
mod recipes;
mod run;
mod sem;
mod status;
mod taken;
mod taking;
mod top;
mod tree;
mod unlock;
mod until;
mod waiting;
mod watch;
mod who;

use std::time::Duration;

use holdfast_api::HolderBody;
use holdfast_client::{Client, Error};
use holdfast_types::{Labels, LockName, SessionName};

use crate::cli::{ClientCommand, Target};
use crate::exit::Stop;

/// How long a question that changes nothing looks for a node that answers.
const LOOK_MAX: Duration = Duration::from_secs(3);

/// What to type if something has not happened in the time given.
const WAIT_LONGER: &str = "wait longer with --wait";

/// Runs a client command.
///
/// # Errors
/// [`Stop`] with the exit code of docs/cli.md.
pub(crate) fn run(command: ClientCommand) -> Result<(), Stop> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Stop::failed)?;
    runtime.block_on(async {
        match command {
            ClientCommand::Status(target) => status::run(&target).await,
            ClientCommand::Doctor(args) => doctor::run(&args).await,
            ClientCommand::Lock(args) => lock::run(args).await,
            ClientCommand::Run(args) => run::run(args).await,
            ClientCommand::Leash => run::leash().await,
            ClientCommand::Elect(args) => elect::run(args).await,
            ClientCommand::Unlock(args) => unlock::run(&args).await,
            ClientCommand::Ask(args) => taken::ask(&args).await,
            ClientCommand::Ls(args) => ls::run(&args).await,
            ClientCommand::Who(args) => who::run(&args).await,
            ClientCommand::Fence(command) => fence::run(command).await,
            ClientCommand::Top(args) => top::run(&args).await,
            ClientCommand::History(args) => history::run(&args).await,
            ClientCommand::Wait(args) => until::run(&args).await,
            ClientCommand::Tree(command) => tree::run(command).await,
            ClientCommand::Sem(command) => sem::run(command).await,
            ClientCommand::Rules(args) => sem::rules(&args).await,
            ClientCommand::Latch(command) => recipes::latch(command).await,
            ClientCommand::Barrier(args) => recipes::barrier(args).await,
            ClientCommand::DoubleBarrier(command) => double::run(command).await,
            ClientCommand::Counter(command) => recipes::counter(command).await,
            ClientCommand::Group(command) => group::run(command).await,
            ClientCommand::Watch(args) => watch::run(&args).await,
        }
    })
}

fn connect(target: &Target) -> Result<Client, Stop> {
    Client::new(&target.addr)
        .map_err(|error| Stop::usage(format!("{error}; see --addr and HOLDFAST_ADDR")))
}

fn lock_name(name: &str) -> Result<LockName, Stop> {
    LockName::new(name).map_err(Stop::usage)
}

/// An error of the client library, with what to do at the command line.
fn stop(target: &Target, error: &Error) -> Stop {
    let addresses = target.addr.join(",");
    match error {
        Error::Retry(_) => Stop::failed(format!(
            "{error}; asked {addresses}: is the cluster running, and are these its addresses (--addr, HOLDFAST_ADDR)?"
        )),
        Error::Lost(_) => Stop::Lost(error.to_string()),
        Error::Busy(_) | Error::Unknown(_) | Error::Refused(_) | Error::Foreign(_) => {
            Stop::failed(error)
        }
        Error::Argument(_) => Stop::usage(error),
    }
}

/// `web-3 (host=web-3 pid=812)`, or of a made-up name `web-3-812-fbe3 (user=alice)`.
fn name_of(holder: &HolderBody) -> String {
    match labels_beside(&holder.session, &holder.labels) {
        labels if labels.is_empty() => holder.session.to_string(),
        labels => format!("{} ({labels})", holder.session),
    }
}

/// The labels beside a session's name. A name that was made up begins with host and process, which are then left out.
fn labels_beside(session: &SessionName, labels: &Labels) -> String {
    let label =
        |wanted: &str| labels.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value);
    let in_name = label("host")
        .zip(label("pid"))
        .is_some_and(|(host, pid)| session.as_str().starts_with(&format!("{host}-{pid}-")));
    let shown = labels.iter().filter(|(key, _)| !in_name || !matches!(*key, "host" | "pid"));
    let pairs: Vec<String> = shown.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(" ")
}

/// A length of time for people: `812ms`, `12s`, `4m12s`, `3h5m`, `2d4h`.
fn for_people(ms: u64) -> String {
    let duration = Duration::from_millis(ms);
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_in_the_name_are_not_repeated() {
        let labels = r#"{"host":"vm","pid":"812","user":"alice"}"#;
        let of = |session: &str| {
            let session = SessionName::new(session).unwrap();
            labels_beside(&session, &serde_json::from_str(labels).unwrap())
        };
        assert_eq!(of("vm-812-fbe32011e05eb6e7"), "user=alice");
        assert_eq!(of("vm-8123-fbe32011e05eb6e7"), "host=vm pid=812 user=alice");
        assert_eq!(of("me"), "host=vm pid=812 user=alice");
    }

    #[test]
    fn times_are_short() {
        for (ms, text) in [
            (0, "0ms"),
            (812, "812ms"),
            (12_000, "12s"),
            (252_000, "4m12s"),
            (11_100_000, "3h5m"),
            (187_200_000, "2d4h"),
        ] {
            assert_eq!(for_people(ms), text);
        }
    }
}
