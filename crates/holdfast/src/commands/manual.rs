//! `holdfast completions` and `holdfast manual`: the completion script of a shell, and the manual pages for packages, both
//! generated from the command line.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
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
pub(crate) fn completions(args: &CompletionsArgs, command: &Command) -> Result<(), CommandFailure> {
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

/// Write the manual pages of all commands.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// The directory, which must exist.
    dir: PathBuf,
}

pub(crate) fn manual(args: &ManualArgs, mut command: Command) -> Result<(), CommandFailure> {
    command.build();
    write(&command, &args.dir)
}

/// Writes the page of a command, and of each of its commands: `holdfast-auth-token.1`.
fn write(command: &Command, dir: &Path) -> Result<(), CommandFailure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let path = dir.join(format!("{name}.1"));
    let failed = |error| CommandFailure::failed(format!("{}: {error}", path.display()));
    let mut page = Vec::new();
    Man::new(command.clone()).manual("holdfast").render(&mut page).map_err(failed)?;
    std::fs::write(&path, page).map_err(failed)?;
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|command| write(command, dir))
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
