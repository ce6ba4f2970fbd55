//! The command line, with one row for each command. The file of a command has its arguments, its help and its handler.
//!
//! A new command is a file and a row of `commands!`. docs/cli.md shows the commands in use.

use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{CommandFactory, Error, Parser, Subcommand};

use crate::commands::{
    ask, barrier, completions, counter, doctor, double_barrier, elect, explain, fence, group,
    history, latch, lock, ls, policy, run, sem, status, top, tree, unlock, wait, watch, who,
};
use crate::exit::CommandFailure;
use crate::output;
use crate::{bench, dev, serve};

/// A self-hosted lock coordinator: locks in one HTTP call, with fencing tokens.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Defines the enum of the commands and the calls of their handlers. A local command is a function. A cluster command
/// is an asynchronous function on one thread.
macro_rules! commands {
    (
        local { $($(#[$local_attribute:meta])* $local:ident($local_args:ty) => $local_run:expr,)* }
        client { $($(#[$attribute:meta])* $name:ident($args:ty) => $run:expr,)* }
    ) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$local_attribute])* $local($local_args),)*
            $($(#[$attribute])* $name($args),)*
        }

        impl Command {
            /// Runs the command.
            ///
            /// # Errors
            /// [`CommandFailure`] with an exit code of docs/cli.md.
            pub(crate) fn run(self) -> Result<(), CommandFailure> {
                match self {
                    $(Self::$local(args) => $local_run(&args),)*
                    $(Self::$name(args) => block_on($run(args)),)*
                }
            }
        }
    };
}

commands! {
    local {
        Serve(serve::ServeArgs) => serve::run,
        Dev(dev::DevArgs) => dev::run,
        Bench(bench::BenchArgs) => bench::run,
        Explain(explain::ExplainArgs) => explain::run,
        Completions(completions::CompletionsArgs) => |args: &_| completions::run(args, Cli::command()),
    }
    client {
        Status(status::StatusArgs) => status::run,
        Doctor(doctor::DoctorArgs) => doctor::run,
        #[command(alias = "acquire")]
        Lock(lock::LockArgs) => lock::run,
        Run(run::RunArgs) => run::run,
        Elect(elect::ElectArgs) => elect::run,
        #[command(hide = true, name = run::WATCHDOG)]
        Watchdog(run::WatchdogArgs) => run::watchdog,
        #[command(alias = "release")]
        Unlock(unlock::UnlockArgs) => unlock::run,
        #[command(name = "ask")]
        RequestRelease(ask::AskArgs) => ask::run,
        Ls(ls::LsArgs) => ls::run,
        Who(who::WhoArgs) => who::run,
        #[command(subcommand)]
        Fence(fence::FenceCommand) => fence::run,
        Top(top::TopArgs) => top::run,
        History(history::HistoryArgs) => history::run,
        Wait(wait::WaitArgs) => wait::run,
        #[command(subcommand)]
        Tree(tree::TreeCommand) => tree::run,
        #[command(subcommand)]
        Sem(sem::SemCommand) => sem::run,
        Policy(policy::PolicyArgs) => policy::run,
        #[command(subcommand)]
        Latch(latch::LatchCommand) => latch::run,
        Barrier(barrier::BarrierArgs) => barrier::run,
        #[command(subcommand)]
        DoubleBarrier(double_barrier::DoubleBarrierCommand) => double_barrier::run,
        #[command(subcommand)]
        Counter(counter::CounterCommand) => counter::run,
        #[command(subcommand)]
        Group(group::GroupCommand) => group::run,
        Watch(watch::WatchArgs) => watch::run,
    }
}

fn block_on(
    command: impl Future<Output = Result<(), CommandFailure>>,
) -> Result<(), CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CommandFailure::failed)?.block_on(command)
}

/// Prints the help, the version or the usage error of an unparsed command line, and returns the exit code.
pub(crate) fn not_parsed(error: Error) -> ExitCode {
    if error.use_stderr() {
        let error = without_address_variable(error);
        let code = u8::try_from(error.exit_code()).unwrap_or(2);
        // An error of stderr has no other output channel.
        drop(error.print());
        return ExitCode::from(code);
    }
    output::record_write_error(error.print());
    output::check().map_or_else(|stop| stop.code(), |()| ExitCode::SUCCESS)
}

/// Returns the error as if `HOLDFAST_ADDR` were not set. clap shows options set by the environment as required in the
/// usage.
fn without_address_variable(error: Error) -> Error {
    without_variable(Cli::command()).try_get_matches().err().unwrap_or(error)
}

fn without_variable(command: clap::Command) -> clap::Command {
    let unset = |arg: clap::Arg| match arg.get_id().as_str() {
        "addr" => arg.env(Resettable::Reset),
        _ => arg,
    };
    command.mut_args(unset).mut_subcommands(without_variable)
}

/// Parses the arguments of a command of type `T`, for tests: `parse::<LockArgs>("lock a --try")`.
#[cfg(test)]
pub(crate) fn parse<T: clap::FromArgMatches>(line: &str) -> Result<T, String> {
    let words = std::iter::once("holdfast").chain(line.split_whitespace());
    let matches = Cli::command().try_get_matches_from(words).map_err(|error| error.to_string())?;
    let (_, arguments) = matches.subcommand().ok_or("no command")?;
    T::from_arg_matches(arguments).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Result<Command, String> {
        let words = line.split_whitespace();
        Cli::try_parse_from(words).map(|cli| cli.command).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_mistyped_command_gets_a_suggestion() {
        assert!(command("holdfast serv").unwrap_err().contains("serve"));
    }

    #[test]
    fn aliases_of_other_lock_services_work_and_no_internal_command_is_suggested() {
        assert!(matches!(command("holdfast release a --session me"), Ok(Command::Unlock(_))));
        assert!(matches!(command("holdfast acquire a"), Ok(Command::Lock(_))));
        for typed in ["lease", "releas", "least", "watchdog"] {
            let error = command(&format!("holdfast {typed} a")).unwrap_err();
            assert!(!error.contains(run::WATCHDOG), "{error}");
        }
    }

    #[test]
    fn every_command_has_a_help_text() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
