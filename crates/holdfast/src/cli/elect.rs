//! The command line of `holdfast elect`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::run::{OnLoss, OnReleaseRequest, RunArgs, TakeArgs, on_release_request};
use super::{Target, WhoArgs, duration, key_value};

/// `holdfast elect`.
#[derive(Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    override_usage = "holdfast elect [OPTIONS] <NAME> -- <COMMAND> [ARGS]...\n       holdfast elect who|watch <NAME>\n       \
                      holdfast elect ls [PREFIX]",
    after_help = "Exit codes are those of `holdfast run`: the command's own, 75 if not elected, 76 if the leadership was lost \
                  and the command was killed.\n\
                  The command gets HOLDFAST_ELECTION, HOLDFAST_TOKEN, HOLDFAST_SESSION, HOLDFAST_ADDR and HOLDFAST_LOCK, the \
                  lock of the election."
)]
pub(crate) struct ElectArgs {
    /// Look instead.
    #[command(subcommand)]
    pub(crate) what: Option<ElectCommand>,
    /// The election; its name may contain '/'.
    #[arg(required = true)]
    pub(crate) name: Option<String>,
    /// What everybody is shown of this candidate: an address. At most 4 KiB.
    #[arg(long, value_name = "TEXT")]
    pub(crate) value: Option<String>,
    /// Stand again whenever the command has ended or the leadership was lost, until ^C.
    #[arg(long)]
    pub(crate) forever: bool,
    /// The session to lead with, which outlives this process; a new one is made up without it.
    #[arg(long, env = "HOLDFAST_SESSION")]
    pub(crate) session: Option<String>,
    /// How long the leadership outlives this process if it dies: 30s, or what the session has already.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// How long to stand; without it, as long as it takes.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "forever")]
    pub(crate) wait: Option<Duration>,
    /// Lead if nobody does, and do not stand otherwise.
    #[arg(long = "try", conflicts_with_all = ["wait", "forever"])]
    pub(crate) try_once: bool,
    /// How long to look for a node that answers: 10s; 3s with --try or a shorter --wait.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Shown to those who look; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) label: Vec<(String, String)>,
    /// No progress on stderr.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// What becomes of the command when the leadership is about to be lost.
    #[arg(long, value_enum, default_value_t = OnLoss::Term)]
    pub(crate) on_loss: OnLoss,
    /// From SIGTERM to SIGKILL; a third of the ttl at most, so that renewals have their time.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// The signal that the command is sent when somebody asks for the release of the leadership (holdfast ask): TERM, USR1, none.
    #[arg(long, value_name = "SIGNAL", default_value = "none", value_parser = on_release_request)]
    pub(crate) on_release_request: OnReleaseRequest,
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

/// Looking at elections.
#[derive(Debug, Subcommand)]
pub(crate) enum ElectCommand {
    /// Show who leads, and who stands in which order.
    Who(WhoArgs),
    /// List the elections that somebody leads or stands for.
    Ls(ElectLsArgs),
    /// Print who leads, and then every change, one line each, until ^C.
    Watch(ElectWatchArgs),
}

/// `holdfast elect ls`.
#[derive(Debug, Args)]
pub(crate) struct ElectLsArgs {
    /// Only elections whose names begin with this.
    pub(crate) prefix: Option<String>,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

/// `holdfast elect watch`.
#[derive(Debug, Args)]
pub(crate) struct ElectWatchArgs {
    /// The election.
    pub(crate) name: String,
    /// End after so many lines.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Where to ask.
    #[command(flatten)]
    pub(crate) target: Target,
}

impl ElectArgs {
    /// Leading is holding the lock of the election: what is to be run, under which lock.
    pub(crate) fn into_run(self, lock: String) -> RunArgs {
        let take = TakeArgs {
            name: lock,
            also: Vec::new(),
            session: self.session,
            ttl: self.ttl,
            wait: self.wait,
            try_once: self.try_once,
            timeout: self.timeout,
            shared: false,
            permits: None,
            segments: None,
            segment: None,
            max_hold: None,
            min_hold: None,
            priority: 0,
            value: self.value,
            label: self.label,
            quiet: self.quiet,
        };
        RunArgs {
            take,
            on_loss: self.on_loss,
            grace: self.grace,
            on_release_request: self.on_release_request,
            busy_exit: 75,
            addr: self.addr,
            command: self.command,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, ClientCommand, Command};

    fn parse(line: &str) -> Result<ElectArgs, String> {
        match Cli::try_parse_from(line.split_whitespace()) {
            Ok(Cli { command: Command::Client(ClientCommand::Elect(args)) }) => Ok(args),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_name_and_a_command_stand_and_a_verb_looks() {
        let args = parse("holdfast elect db --value 10.0.0.7 --forever -- serve --wait 3").unwrap();
        assert!(args.what.is_none() && args.forever);
        let run = args.into_run("elections/db".to_owned());
        assert_eq!(
            (run.take.name.as_str(), run.take.value.as_deref()),
            ("elections/db", Some("10.0.0.7"))
        );
        assert_eq!(run.command, ["serve", "--wait", "3"]);
        let what = |line: &str| parse(line).unwrap().what;
        assert!(
            matches!(what("holdfast elect who db"), Some(ElectCommand::Who(args)) if args.name == "db")
        );
        assert!(matches!(what("holdfast elect ls"), Some(ElectCommand::Ls(_))));
        assert!(matches!(what("holdfast elect watch db --count 1"), Some(ElectCommand::Watch(_))));
    }

    #[test]
    fn without_a_command_the_usage_shows_the_dashes() {
        for line in
            ["holdfast elect db", "holdfast elect", "holdfast elect db --try --forever -- true"]
        {
            let complaint = parse(line).unwrap_err();
            assert!(complaint.contains("<NAME> -- <COMMAND>"), "{complaint}");
        }
    }
}
