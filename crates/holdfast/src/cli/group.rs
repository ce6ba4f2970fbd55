//! The command line of `holdfast group`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{RecipeArgs, duration};

/// `holdfast group`.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Join a group, and be in it until ^C or as long as a command runs.
    Join(JoinArgs),
    /// Show who is there, and what they say.
    Ls(RecipeArgs),
}

/// `holdfast group join`.
#[derive(Debug, Args)]
#[command(override_usage = "holdfast group join [OPTIONS] <NAME> [-- <COMMAND> [ARGS]...]")]
pub(crate) struct JoinArgs {
    /// Which group.
    #[command(flatten)]
    pub(crate) group: RecipeArgs,
    /// What to say to the others: an address, for example.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) value: String,
    /// The session to be there with, which outlives this process; a new one is made up without it.
    #[arg(long, env = "HOLDFAST_SESSION")]
    pub(crate) session: Option<String>,
    /// How long it is there after this process has died: 30s, or what the session has already.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// The command and its arguments, after `--`; without it until ^C.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
