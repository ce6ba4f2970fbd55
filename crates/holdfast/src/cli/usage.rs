//! What a command line that was not parsed is answered with: help, the version, or an error with the usage.

use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Command, CommandFactory, Error};

use super::Cli;
use crate::output;

/// Prints it and returns the exit code. Help that cannot be written is a failure.
pub(crate) fn not_parsed(error: Error) -> ExitCode {
    if error.use_stderr() {
        let error = without_address_variable(error);
        let code = u8::try_from(error.exit_code()).unwrap_or(2);
        // Nothing can be said about a stderr that takes nothing.
        drop(error.print());
        return ExitCode::from(code);
    }
    output::note(error.print());
    output::check().map_or_else(|stop| stop.code(), |()| ExitCode::SUCCESS)
}

/// The same error as if `HOLDFAST_ADDR` were not set: clap writes options from the environment into the usage as if
/// they were required.
fn without_address_variable(error: Error) -> Error {
    without_variable(Cli::command()).try_get_matches().err().unwrap_or(error)
}

fn without_variable(command: Command) -> Command {
    let of_address = |arg: clap::Arg| match arg.get_id().as_str() {
        "addr" => arg.env(Resettable::Reset),
        _ => arg,
    };
    command.mut_args(of_address).mut_subcommands(without_variable)
}
