//! How a lock is asked for at the command line, and `holdfast run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{duration, key_value};

/// Which lock to take, and how.
#[derive(Debug, Args)]
pub(crate) struct TakeArgs {
    /// The lock; its name may contain '/'.
    pub(crate) name: String,
    /// The session to hold it with, which outlives this process; a new one is made up without it.
    #[arg(long, env = "HOLDFAST_SESSION")]
    pub(crate) session: Option<String>,
    /// How long the lock outlives this process if it dies: 30s, or what the session has already.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// How long to wait for it; without it, as long as it takes.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait.
    #[arg(long = "try", conflicts_with = "wait")]
    pub(crate) try_once: bool,
    /// Shown to those who wait; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) label: Vec<(String, String)>,
    /// No progress on stderr.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// What becomes of the command when the lock is about to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// SIGTERM in time to end by itself, SIGKILL before the lock can be another's.
    Term,
    /// SIGKILL before the lock can be another's, without a warning.
    Kill,
    /// Nothing: it goes on, and only the fencing token protects what it writes.
    Ignore,
}

/// `holdfast run`.
#[derive(Debug, Args)]
#[command(
    override_usage = "holdfast run [OPTIONS] <NAME> -- <COMMAND> [ARGS]...",
    after_help = "Exit codes: the command's own (128 + n if signal n ended it), 75 if the lock was not acquired, 76 if \
                  it was lost and the command was killed, 126 or 127 if the command could not be started.\n\
                  The command gets HOLDFAST_LOCK, HOLDFAST_TOKEN, HOLDFAST_SESSION and HOLDFAST_ADDR."
)]
pub(crate) struct RunArgs {
    /// Which lock, and how.
    #[command(flatten)]
    pub(crate) take: TakeArgs,
    /// The command may run for so long, then it is stopped as if the lock were lost.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,
    /// What becomes of the command when the lock is about to be lost.
    #[arg(long, value_enum, default_value_t = OnLoss::Term)]
    pub(crate) on_loss: OnLoss,
    /// From SIGTERM to SIGKILL; a third of the ttl at most, so that renewals have their time.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// The exit code if the lock was not acquired.
    #[arg(long, value_name = "CODE", default_value_t = 75)]
    pub(crate) busy_exit: u8,
    /// HTTP addresses of one or more nodes, separated by commas; any node answers for all.
    #[arg(
        long,
        env = "HOLDFAST_ADDR",
        value_name = "ADDR[,ADDR]",
        value_delimiter = ',',
        default_value = "127.0.0.1:7400"
    )]
    pub(crate) addr: Vec<String>,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, ClientCommand, Command};

    fn parse(line: &str) -> Result<RunArgs, String> {
        match Cli::try_parse_from(line.split_whitespace()) {
            Ok(Cli { command: Command::Client(ClientCommand::Run(args)) }) => Ok(args),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_command_is_what_stands_behind_the_dashes() {
        let args =
            parse("holdfast run shop/nightly --try --max-hold 2h -- backup --wait 3").unwrap();
        assert_eq!(args.take.name, "shop/nightly");
        assert_eq!(args.command, ["backup", "--wait", "3"]);
        assert_eq!((args.take.try_once, args.take.wait), (true, None));
        assert_eq!(
            (args.max_hold, args.grace),
            (Some(Duration::from_hours(2)), Duration::from_secs(5))
        );
        assert_eq!((args.on_loss, args.busy_exit), (OnLoss::Term, 75));
    }

    #[test]
    fn without_a_command_the_usage_shows_the_dashes() {
        for line in ["holdfast run nightly", "holdfast run nightly backup"] {
            let complaint = parse(line).unwrap_err();
            assert!(complaint.contains("-- <COMMAND>"), "{complaint}");
        }
    }
}
