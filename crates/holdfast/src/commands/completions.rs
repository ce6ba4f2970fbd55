//! `holdfast completions`: the completion script of a shell, generated from the command line.

use clap::{Args, Command};
use holdfast_cli::exit::CommandFailure;
use holdfast_cli::output::print;

/// Print the completion script of a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

#[expect(clippy::unnecessary_wraps, reason = "every command returns a result")]
pub(crate) fn run(args: &CompletionsArgs, command: &Command) -> Result<(), CommandFailure> {
    print(script_of(args.shell, command).trim_end());
    Ok(())
}

/// The script for the commands that the help shows: `clap_complete` includes hidden ones.
fn script_of(shell: clap_complete::Shell, command: &Command) -> String {
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown = Command::new("holdfast").args(command.get_arguments()).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "holdfast", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn hidden_commands_are_in_no_completion() {
        let command = Command::new("holdfast")
            .subcommand(Command::new("shown-command"))
            .subcommand(Command::new("hidden-command").hide(true));
        for shell in clap_complete::Shell::value_variants() {
            let script = script_of(*shell, &command);
            assert!(script.contains("shown-command"), "{shell}");
            assert!(!script.contains("hidden-command"), "{shell}");
        }
    }
}
