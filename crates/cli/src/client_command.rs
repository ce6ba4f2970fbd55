//! The commands that only talk to a cluster, with one row for each. The file of a command has its arguments, its help and
//! its handler.
//!
//! A new command is a function in the file of its noun and a row of `commands!`. docs/cli.md shows the commands in use.

use std::ffi::OsStr;

use clap::builder::Resettable;
use clap::{CommandFactory as _, FromArgMatches, Subcommand};

use crate::commands::{
    audit, auth, barrier, certs, cluster, elect, fence, group, holders, lock, ls, member,
    namespace, policy, recent, recipes, run, session, status, top, tree, unlock, watch,
};
use crate::exit::CommandFailure;

/// Defines the enum of the commands and the calls of their handlers.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($args:ty) => $run:expr,)*) => {
        /// A command that only talks to a cluster, or that makes certificates.
        #[derive(Debug, Subcommand)]
        #[expect(private_interfaces, reason = "only `run` uses the arguments")]
        pub enum ClientCommand {
            /// Create and show certificates.
            #[command(subcommand)]
            Certs(certs::CertsCommand),
            $($(#[$attribute])* $name($args),)*
        }

        impl ClientCommand {
            /// Runs the command on one thread.
            ///
            /// # Errors
            /// [`CommandFailure`] with an exit code of docs/cli.md.
            pub fn run(self) -> Result<(), CommandFailure> {
                match self {
                    Self::Certs(command) => certs::run(&command),
                    $(Self::$name(args) => block_on($run(args)),)*
                }
            }
        }
    };
}

commands! {
    #[command(subcommand)]
    Auth(auth::AuthCommand) => auth::run,
    #[command(subcommand)]
    Audit(audit::AuditCommand) => audit::run,
    #[command(subcommand)]
    Member(member::MemberCommand) => member::run,
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand) => cluster::run,
    #[command(subcommand)]
    Namespace(namespace::NamespaceCommand) => namespace::run,
    #[command(subcommand)]
    Node(cluster::NodeCommand) => cluster::node,
    Status(status::StatusArgs) => status::run,
    Alarms(status::AlarmsArgs) => status::alarms,
    #[command(alias = "acquire")]
    Lock(lock::LockArgs) => lock::run,
    Run(run::RunArgs) => run::run,
    Elect(elect::ElectArgs) => elect::run,
    #[command(alias = "release")]
    Unlock(unlock::UnlockArgs) => unlock::run,
    Ls(ls::LsArgs) => ls::run,
    Who(holders::WhoArgs) => holders::who,
    #[command(subcommand)]
    Fence(fence::FenceCommand) => fence::run,
    Top(top::TopArgs) => top::run,
    Recent(recent::RecentArgs) => recent::run,
    History(holders::HistoryArgs) => holders::history,
    Wait(watch::WaitArgs) => watch::wait,
    #[command(subcommand)]
    Tree(tree::TreeCommand) => tree::run,
    #[command(subcommand)]
    Session(session::SessionCommand) => session::run,
    Policy(policy::PolicyArgs) => policy::run,
    #[command(subcommand)]
    Latch(recipes::LatchCommand) => recipes::latch,
    #[command(subcommand)]
    Barrier(barrier::BarrierCommand) => barrier::run,
    #[command(subcommand)]
    Counter(recipes::CounterCommand) => recipes::counter,
    #[command(subcommand)]
    Group(group::GroupCommand) => group::run,
}

/// Runs a mode of this program that only `holdfast run` starts. These modes are no commands of the command line, so no
/// tip and no completion shows them. `None` for any other command line.
#[must_use]
pub fn internal_command() -> Option<Result<(), CommandFailure>> {
    let mut arguments = std::env::args_os();
    let mode = arguments.by_ref().nth(1)?;
    if mode == run::LAUNCHER {
        return Some(Err(run::launch(&arguments.collect::<Vec<_>>())));
    }
    let watchdog = || {
        let command = without_empty_variables(run::WatchdogArgs::command());
        let words = std::iter::once(mode.clone()).chain(arguments);
        let matches = command.try_get_matches_from(words)?;
        run::WatchdogArgs::from_arg_matches(&matches)
    };
    let parsed = (mode == run::WATCHDOG).then(watchdog)?;
    Some(parsed.map_err(CommandFailure::usage).and_then(|args| block_on(run::watchdog(args))))
}

/// Ignores variables with an empty value: `HOLDFAST_ADDR=` counts as unset.
#[must_use]
pub fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let reset = |arg: clap::Arg| {
        let is_unset = arg.get_env().is_some_and(is_empty);
        if is_unset { arg.env(Resettable::Reset) } else { arg }
    };
    command.mut_args(reset).mut_subcommands(without_empty_variables)
}

/// Runs a command on one thread.
///
/// # Errors
/// That of the command; [`CommandFailure::Failed`] if the system has no thread or file for it.
pub fn block_on(
    command: impl Future<Output = Result<(), CommandFailure>>,
) -> Result<(), CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CommandFailure::failed)?.block_on(command)
}

/// Parses the arguments of a command of type `T`, for tests: `parse::<LockArgs>("lock a --try")`.
#[cfg(test)]
pub(crate) fn parse<T: FromArgMatches>(line: &str) -> Result<T, String> {
    let words = std::iter::once("holdfast").chain(line.split_whitespace());
    let command = ClientCommand::augment_subcommands(clap::Command::new("holdfast"));
    let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
    let (_, arguments) = matches.subcommand().ok_or("no command")?;
    T::from_arg_matches(arguments).map_err(|error| error.to_string())
}

/// Starts a node that answers each call by its first line, on a connection of its own. Returns its address and these lines.
#[cfg(test)]
pub(crate) fn scripted_node(
    answer: impl Fn(&str) -> (u16, String) + Send + 'static,
) -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let lines = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
    let recorded = lines.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut bytes) = (stream.unwrap(), [0; 4_096]);
            let read = stream.read(&mut bytes).unwrap();
            let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
            let line = text.lines().next().unwrap_or_default();
            recorded.lock().unwrap().push(line.to_owned());
            let (status, body) = answer(line);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all((head + &body).as_bytes()).unwrap();
        }
    });
    (address, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_of_other_lock_services_work_and_no_internal_command_is_suggested() {
        assert!(parse::<unlock::UnlockArgs>("release a --session me").is_ok());
        assert!(parse::<lock::LockArgs>("acquire a").is_ok());
        for typed in ["lease", "releas", "least", "watchdog"] {
            let error = parse::<lock::LockArgs>(&format!("{typed} a")).unwrap_err();
            assert!(!error.contains(run::WATCHDOG), "{error}");
        }
    }
}
