//! How a lock is asked for at the command line, and `holdfast run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nix::sys::signal::Signal;

use super::{duration, key_value};

/// Which lock to take, and how.
#[derive(Debug, Args)]
pub(crate) struct TakeArgs {
    /// The lock; its name may contain '/'.
    pub(crate) name: String,
    /// More locks, to be taken together with it: all or none.
    #[arg(conflicts_with_all = ["permits", "segments", "segment", "min_hold", "priority", "value"])]
    pub(crate) also: Vec<String>,
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
    /// How long to look for a node that answers: 10s; 3s with --try or a shorter --wait.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Hold it together with others who share it.
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,
    /// Take so many permits of a semaphore; with `/LIMIT` the first who says so makes it one of that limit.
    #[arg(long, value_name = "N[/LIMIT]", value_parser = permits)]
    pub(crate) permits: Option<Permits>,
    /// Take one of so many segments of it, each a lock of its own: one that is free, or else the emptiest. The first who says
    /// so cuts it, and all must say the same number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) segments: Option<u32>,
    /// Take this segment of it, from 0.
    #[arg(long, value_name = "I", value_parser = clap::value_parser!(u32).range(0..1024))]
    pub(crate) segment: Option<u32>,
    /// The hold ends after so long, however often it is renewed: of `run` the command is stopped before.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,
    /// Nobody else gets it for so long after the grant, even if it is given back before.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) min_hold: Option<Duration>,
    /// How urgent it is, 0 to 9: a level is worth ten seconds of waiting.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=9))]
    pub(crate) priority: u8,
    /// Shown beside the place to everybody who looks: an address, the number of a job.
    #[arg(long, value_name = "TEXT")]
    pub(crate) value: Option<String>,
    /// Shown to those who wait; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) label: Vec<(String, String)>,
    /// No progress on stderr.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Permits of a semaphore, and its limit if it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(crate) count: u32,
    pub(crate) limit: Option<u32>,
}

fn permits(text: &str) -> Result<Permits, String> {
    let number = |text: &str| text.parse().ok().filter(|count| *count > 0);
    let (count, limit) = match text.split_once('/') {
        Some((count, limit)) => (number(count), number(limit).map(Some)),
        None => (number(text), Some(None)),
    };
    match (count, limit) {
        (Some(count), Some(limit)) if limit.is_none_or(|limit| count <= limit) => {
            Ok(Permits { count, limit })
        }
        _ => Err(format!("{text:?} is neither permits, like 1, nor permits of a limit, like 1/4")),
    }
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

/// The signal that reports a release request to the command, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnReleaseRequest(pub(crate) Option<Signal>);

pub(super) fn on_release_request(text: &str) -> Result<OnReleaseRequest, String> {
    let name = text.to_ascii_uppercase();
    if name == "NONE" {
        return Ok(OnReleaseRequest(None));
    }
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let signal = format!("SIG{name}").parse();
    signal
        .map(|signal| OnReleaseRequest(Some(signal)))
        .map_err(|_| format!("{text:?} is not a signal: name one, like TERM or USR1, or none"))
}

/// `holdfast run`.
#[derive(Debug, Args)]
#[command(
    override_usage = "holdfast run [OPTIONS] <NAME> [NAME]... -- <COMMAND> [ARGS]...",
    after_help = "Exit codes: the command's own (128 + n if signal n ended it), 75 if the lock was not acquired, 76 if \
                  it was lost and the command was killed, 126 or 127 if the command could not be started.\n\
                  The command gets HOLDFAST_LOCK, HOLDFAST_TOKEN, HOLDFAST_SESSION and HOLDFAST_ADDR; with --max-hold \
                  HOLDFAST_DEADLINE, with --permits HOLDFAST_SLOTS, with --segments HOLDFAST_SEGMENT. Of several locks it gets \
                  HOLDFAST_TOKENS, a line NAME TOKEN for each, instead of HOLDFAST_LOCK and HOLDFAST_TOKEN."
)]
pub(crate) struct RunArgs {
    /// Which lock, and how.
    #[command(flatten)]
    pub(crate) take: TakeArgs,
    /// What becomes of the command when the lock is about to be lost.
    #[arg(long, value_enum, default_value_t = OnLoss::Term)]
    pub(crate) on_loss: OnLoss,
    /// From SIGTERM to SIGKILL; a third of the ttl at most, so that renewals have their time.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) grace: Duration,
    /// The signal that the command is sent when somebody asks for the release of the lock (holdfast ask): TERM, USR1, none.
    #[arg(long, value_name = "SIGNAL", default_value = "none", value_parser = on_release_request)]
    pub(crate) on_release_request: OnReleaseRequest,
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
            (args.take.max_hold, args.grace),
            (Some(Duration::from_hours(2)), Duration::from_secs(5))
        );
        assert_eq!((args.on_loss, args.busy_exit), (OnLoss::Term, 75));
    }

    #[test]
    fn permits_are_so_many_or_so_many_of_a_limit() {
        let permits = |text: &str| {
            parse(&format!("holdfast run pool --permits {text} -- true"))
                .map(|args| args.take.permits)
        };
        assert_eq!(permits("2"), Ok(Some(Permits { count: 2, limit: None })));
        assert_eq!(permits("1/4"), Ok(Some(Permits { count: 1, limit: Some(4) })));
        for wrong in ["0", "5/4", "1/", "x", "1/0", "-1/4"] {
            assert!(permits(wrong).is_err(), "{wrong}");
        }
        assert!(parse("holdfast run pool --shared --permits 1 -- true").is_err());
    }

    #[test]
    fn a_release_request_is_reported_by_the_signal_that_is_named() {
        let signal = |text: &str| {
            parse(&format!("holdfast run a --on-release-request {text} -- true"))
                .map(|args| args.on_release_request.0)
        };
        assert_eq!(signal("none"), Ok(None));
        for text in ["USR1", "usr1", "SIGUSR1"] {
            assert_eq!(signal(text), Ok(Some(Signal::SIGUSR1)));
        }
        assert!(signal("LOUD").unwrap_err().contains("TERM or USR1"));
        assert_eq!(parse("holdfast run a -- true").unwrap().on_release_request.0, None);
    }

    #[test]
    fn without_a_command_the_usage_shows_the_dashes() {
        for line in ["holdfast run nightly", "holdfast run nightly backup"] {
            let complaint = parse(line).unwrap_err();
            assert!(complaint.contains("-- <COMMAND>"), "{complaint}");
        }
    }
}
