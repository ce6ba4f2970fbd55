//! `holdfast manual`: the manual pages, generated from the command line, for packages.

use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man;
use holdfast_cli::exit::CommandFailure;

/// Write the manual pages of all commands.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// The directory, which must exist.
    dir: PathBuf,
}

pub(crate) fn run(args: &ManualArgs, mut command: Command) -> Result<(), CommandFailure> {
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
