//! `holdfast completions SHELL`: what lets a shell complete commands and options. Made from the command line itself,
//! so it cannot lag behind it. Asks no cluster.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::output::print;

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "holdfast", &mut script);
    print(String::from_utf8_lossy(&script).trim_end());
}
