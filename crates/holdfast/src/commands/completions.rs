//! `holdfast completions`: the completion script of a shell, generated from the command line.

use clap::{Args, Command};

use crate::exit::CommandFailure;
use crate::output::print;

/// Print the completion script of a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

#[expect(clippy::unnecessary_wraps, reason = "every command returns a result")]
pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> Result<(), CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "holdfast", &mut script);
    print(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}
