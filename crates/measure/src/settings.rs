//! The command line: the measurements of a run, its systems, and its output directory.
//!
//! A run with reduced options is not a full run, and its report contains a warning.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use thiserror::Error;

use crate::adapters::redis;
use crate::bench::BenchArgs;
use crate::bench::stages::{StageArgs, StagesArgs};
use crate::catalogue::{self, ALL, OPTIMISTIC, Selection, System};
use crate::failover::FailoverCause;
use crate::machine::{MachineInfo, output_of};
use crate::plays::menu::{PlayArguments, ShowArguments};
use crate::record::{RunInfo, RunSize};
use crate::servers::command::ServersCommand;
use crate::servers::{NEWEST_SERVERS, ServerKind, has_newest_servers};

/// Measures holdfast alone, and the same work under its locks and under the locks of other systems.
#[derive(Debug, Parser)]
#[command(name = "measure")]
pub struct MeasureArguments {
    #[command(subcommand)]
    pub command: MeasureCommand,
}

#[derive(Debug, Subcommand)]
pub enum MeasureCommand {
    /// holdfast alone: lock cycles on given nodes or on an own cluster, and what a cluster costs at scale.
    Bench(BenchArgs),
    Stages(StagesArgs),
    /// Cycles per second, times, round trips, wake-ups and processor time of every lock.
    Speed(RunArguments),
    /// A flash sale under each lock and each fault: oversold pieces, lost updates, double holders.
    Safety(RunArguments),
    /// From the loss of a leader to the next grant, and until every client has a lock again.
    Failover(FailoverArguments),
    /// The order of enqueue against the order of grant.
    Fairness(RunArguments),
    /// Writers of one value: how many attempts fail without a lock, and what they cost behind a queue.
    Writers(SectionArguments),
    /// The time of a cycle on one, three and five nodes of holdfast.
    Nodes(SectionArguments),
    /// Write the report from the rows of earlier runs.
    Report(ReportArguments),
    /// All measurements, one after the other, and the report.
    All(AllArguments),
    /// Start, stop and list real servers, without measuring anything.
    #[command(subcommand)]
    Servers(ServersCommand),
    /// Answer a question about locks with a short play on real servers; without a question, list them.
    Play(PlayArguments),
    /// Show a row of the table of mechanisms on real servers; without a row, list them.
    Show(ShowArguments),
    /// A process that waits for a lock, started by `play`.
    #[command(hide = true)]
    Acquire {
        url: String,
    },
    /// The cycles of one stage, started by `stages`.
    #[command(hide = true)]
    Stage(StageArgs),
    /// One worker process of the sale, started by `safety` and `play`.
    #[command(hide = true)]
    Worker,
}

#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// Fewer systems, fewer clients, short windows: a first look within minutes.
    #[arg(long)]
    pub quick: bool,
    /// The minimum of everything, as a trial of the tool. Its numbers are meaningless.
    #[arg(long, conflicts_with = "quick")]
    pub tiny: bool,
    /// Only these systems, separated by commas; `every` for all of them.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub systems: Vec<String>,
    /// Redis servers that run already, instead of own ones, separated by commas: `redis://[:PASSWORD@]HOST:PORT`, or
    /// `sentinel://HOST:PORT,HOST:PORT/NAME` for a group. Redlock uses all of them, other locks the first.
    #[arg(long, value_name = "URLS", default_value = "", hide_default_value = true)]
    pub redis: String,
    /// The directory of the rows; rows that exist stay.
    #[arg(long, value_name = "DIR", default_value = "target/comparison")]
    pub out: PathBuf,
    /// Where the servers keep their files [default: /var/tmp]: on a disk, and open to other users, because PostgreSQL does
    /// not run as root.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// The window of each case of `speed`, seconds.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// How often each case of `speed` and `fairness` is measured.
    #[arg(long)]
    pub repetitions: Option<u32>,
    /// Numbers of clients of `speed`, separated by commas.
    #[arg(long, value_delimiter = ',')]
    pub clients: Vec<u32>,
}

#[derive(Clone, Debug, Args)]
pub struct FailoverArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// How often the leader of each system is lost.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub trials: Option<u32>,
    /// How the leader is lost.
    #[arg(long, value_enum, default_value_t)]
    pub loss: FailoverCause,
}

#[derive(Clone, Debug, Args)]
pub struct ReportArguments {
    /// The directory of the rows, and of the report.
    #[arg(long, value_name = "DIR", default_value = "target/comparison")]
    pub out: PathBuf,
    /// Write the report here too, as `comparison.md` and `comparison-plots.html`.
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct AllArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// Write the report here too, as `comparison.md` and `comparison-plots.html`.
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct SectionArguments {
    #[command(flatten)]
    pub run: RunArguments,
    /// Replace the section in `comparison.md` of this directory, and its picture.
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
}

#[derive(Debug, Error)]
pub enum SettingsError {
    #[error("unknown system `{name}`; the systems are: {known}")]
    UnknownSystem { name: String, known: String },
    #[error(
        "`{0}` is no lock: its writers exclude nobody; `measure writers --systems {0}` measures it"
    )]
    NoLock(String),
    /// A number is out of range.
    #[error("{0}")]
    Range(String),
    #[error("--redis: {0}")]
    Redis(String),
    #[error("{0}")]
    NewestServers(String),
    #[error("measure the disk below {directory}: {error}; name another directory with --directory")]
    Disk { directory: PathBuf, error: std::io::Error },
}

/// The maximum number of clients. Each has one connection, five with Redlock, and a database accepts 300.
pub const CLIENTS_MAX: u32 = 256;
pub const SECONDS_MAX: f64 = 600.0;
pub const REPETITIONS_MAX: u32 = 100;

/// The checked arguments of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub size: RunSize,
    /// The systems, in the order of reports.
    pub systems: Vec<&'static System>,
    /// The directory of the rows.
    pub out: PathBuf,
    /// Where the servers keep their files.
    pub directory: PathBuf,
    /// The Redis servers and groups that somebody else runs; empty to start own ones.
    pub redis: Vec<String>,
    /// The window of each case of the speed, seconds.
    pub seconds: Option<f64>,
    pub repetitions: Option<u32>,
    /// The numbers of clients of the speed.
    pub clients: Vec<u32>,
}

impl Settings {
    pub fn of(arguments: &RunArguments) -> Result<Self, SettingsError> {
        let systems = systems(&arguments.systems, size(arguments))?;
        if let Some(system) = systems.iter().find(|system| system.is_optimistic()) {
            return Err(SettingsError::NoLock(system.name.to_owned()));
        }
        Self::with(arguments, systems)
    }

    /// The settings of `measure writers`, which also measures systems without a lock.
    pub fn of_writers(arguments: &RunArguments) -> Result<Self, SettingsError> {
        let standard = || catalogue::WRITERS.map(str::to_owned).to_vec();
        let names = &arguments.systems;
        let names = if names.is_empty() { standard() } else { names.clone() };
        Self::with(arguments, systems(&names, size(arguments))?)
    }

    fn with(
        arguments: &RunArguments,
        systems: Vec<&'static System>,
    ) -> Result<Self, SettingsError> {
        let size = size(arguments);
        check(arguments)?;
        has_newest_servers().map_err(SettingsError::NewestServers)?;
        let redis = redis_addresses(&arguments.redis)?;
        let systems =
            if redis.is_empty() { systems } else { on_given(systems, arguments, &redis)? };
        let directory = arguments.directory.clone().unwrap_or_else(on_disk);
        // Servers change their directory before they read their files, so the path is absolute.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Ok(Self {
            size,
            systems,
            out: arguments.out.clone(),
            directory,
            redis,
            seconds: arguments.seconds,
            repetitions: arguments.repetitions,
            clients: arguments.clients.clone(),
        })
    }

    /// Returns the first row of a run. Measures the disk.
    ///
    /// # Errors
    /// [`SettingsError::Disk`].
    pub fn info(&self, plan: Vec<(String, String)>) -> Result<RunInfo, SettingsError> {
        let machine = std::fs::create_dir_all(&self.directory)
            .and_then(|()| MachineInfo::read(&self.directory));
        let failed = |error| SettingsError::Disk { directory: self.directory.clone(), error };
        let names: Vec<&str> = self.systems.iter().map(|system| system.name).collect();
        let mut settings = vec![("systems".to_owned(), names.join(", "))];
        settings.extend(plan);
        Ok(RunInfo {
            command: command(std::env::args().skip(1), has_newest_servers() == Ok(true)),
            began: output_of("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            commit: output_of("git", &["describe", "--always", "--dirty"]),
            size: self.size,
            settings,
            machine: machine.map_err(failed)?,
        })
    }
}

/// Returns the default directory: `/var/tmp` is on a disk, while `/tmp` is often in memory.
pub(crate) fn on_disk() -> PathBuf {
    let place = PathBuf::from("/var/tmp");
    if place.is_dir() { place } else { std::env::temp_dir() }
}

fn size(arguments: &RunArguments) -> RunSize {
    let cut = arguments.seconds.is_some()
        || arguments.repetitions.is_some()
        || !arguments.clients.is_empty();
    match (arguments.tiny, arguments.quick || cut) {
        (true, _) => RunSize::Tiny,
        (false, true) => RunSize::Quick,
        (false, false) => RunSize::Full,
    }
}

fn check(arguments: &RunArguments) -> Result<(), SettingsError> {
    let seconds = arguments.seconds.is_none_or(|seconds| seconds > 0.0 && seconds <= SECONDS_MAX);
    let repetitions = arguments.repetitions.is_none_or(|of| (1..=REPETITIONS_MAX).contains(&of));
    let clients = arguments.clients.iter().all(|clients| (1..=CLIENTS_MAX).contains(clients));
    let broken = [
        (seconds, format!("--seconds is above 0 and at most {SECONDS_MAX}")),
        (repetitions, format!("--repetitions is between 1 and {REPETITIONS_MAX}")),
        (clients, format!("--clients are between 1 and {CLIENTS_MAX}")),
    ];
    match broken.into_iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err(SettingsError::Range(what)),
        None => Ok(()),
    }
}

fn systems(names: &[String], size: RunSize) -> Result<Vec<&'static System>, SettingsError> {
    if names.iter().any(|name| name == "every") {
        return Ok(ALL.iter().collect());
    }
    if names.is_empty() {
        let at_most = if size == RunSize::Full { Selection::FullRuns } else { Selection::Always };
        return Ok(catalogue::selected(at_most));
    }
    let mut found = Vec::new();
    for name in names {
        let all = || ALL.iter().chain(&OPTIMISTIC);
        let known = || all().map(|system| system.name).collect::<Vec<_>>().join(", ");
        let none = || SettingsError::UnknownSystem { name: name.clone(), known: known() };
        found.push(catalogue::writer_named(name).ok_or_else(none)?);
    }
    found.sort_by_key(|system| catalogue::position(system.name));
    found.dedup();
    Ok(found)
}

/// This program, from the root of the repository.
const PROGRAM: &str =
    if cfg!(debug_assertions) { "target/debug/measure" } else { "target/release/measure" };

fn redis_addresses(list: &str) -> Result<Vec<String>, SettingsError> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let found = redis::addresses(list).map_err(SettingsError::Redis)?;
    Ok(found.iter().map(ToString::to_string).collect())
}

/// Returns the systems that can run on given servers. Of those that cannot, a named one is an error.
fn on_given(
    mut systems: Vec<&'static System>,
    arguments: &RunArguments,
    redis: &[String],
) -> Result<Vec<&'static System>, SettingsError> {
    const REDLOCK_MIN: usize = 3;
    let why = |system: &System| {
        if system.kind == ServerKind::RedisSynced {
            return Some(
                "needs servers that sync each write, and starts its own: leave it out".to_owned(),
            );
        }
        let is_too_few = system.is_redlock() && redis.len() < REDLOCK_MIN;
        is_too_few.then(|| {
            format!(
                "needs at least {REDLOCK_MIN} independent servers, and {} are given",
                redis.len()
            )
        })
    };
    for system in &systems {
        if let Some(why) =
            why(system).filter(|_| arguments.systems.iter().any(|name| name == system.name))
        {
            return Err(SettingsError::Redis(format!("`{}` {why}", system.name)));
        }
    }
    systems.retain(|system| why(system).is_none());
    Ok(systems)
}

/// Returns the line that repeats a run from the root of the repository, quoted for a shell, without the directory of
/// its rows. `scripts/compare` calls `measure all`, and chooses that directory itself.
fn command(arguments: impl Iterator<Item = String>, has_newest_servers: bool) -> String {
    let mut words: Vec<String> = arguments.collect();
    let mut line = PROGRAM.to_owned();
    if words.first().is_some_and(|part| part == "all") {
        "scripts/compare".clone_into(&mut line);
        words.remove(0);
    }
    if let Some(at) = words.iter().position(|word| word == "--out") {
        words.drain(at..words.len().min(at + 2));
    }
    words.retain(|word| !word.starts_with("--out="));
    // The line is published.
    let words: Vec<String> = words.iter().map(|word| redis::masked(word)).collect();
    let plain = |c: char| c.is_alphanumeric() || "/.,-_=:".contains(c);
    let quoted = |word: &String| {
        let whole = !word.is_empty() && word.chars().all(plain);
        if whole { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let newest = format!("{NEWEST_SERVERS}=$(scripts/maintain/newest-servers)");
    let newest = has_newest_servers.then_some(newest).into_iter();
    newest.chain([line]).chain(words.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> Result<Settings, SettingsError> {
        let words = ["measure", "speed"].into_iter().chain(line.split_whitespace());
        let MeasureCommand::Speed(arguments) =
            MeasureArguments::try_parse_from(words).unwrap().command
        else {
            unreachable!("the command is speed")
        };
        Settings::of(&arguments)
    }

    #[test]
    fn a_run_with_smaller_numbers_is_not_a_full_run() {
        for (line, size) in [
            ("", RunSize::Full),
            ("--quick", RunSize::Quick),
            ("--tiny", RunSize::Tiny),
            ("--seconds 1", RunSize::Quick),
            ("--repetitions 1", RunSize::Quick),
            ("--clients 1,16", RunSize::Quick),
            ("--systems redlock", RunSize::Full),
        ] {
            assert_eq!(settings(line).unwrap().size, size, "{line}");
        }
    }

    #[test]
    fn systems_come_in_the_order_of_reports_and_once() {
        let found = settings("--systems redlock,holdfast-http,redlock").unwrap().systems;
        let names: Vec<_> = found.iter().map(|system| system.name).collect();
        assert_eq!(names, ["holdfast-http", "redlock"]);
        assert_eq!(settings("--systems every").unwrap().systems.len(), ALL.len());
    }

    #[test]
    fn a_line_that_repeats_a_run_can_be_pasted() {
        for (given, expected) in [
            ("speed --quick --out a", "target/release/measure speed --quick"),
            ("all --quick --out a --docs docs", "scripts/compare --quick --docs docs"),
            ("all --out=a", "scripts/compare"),
            ("all --out", "scripts/compare"),
            (
                "speed --redis redis://:pw@a:1",
                "target/release/measure speed --redis 'redis://***@a:1'",
            ),
            ("speed --docs it's", "target/release/measure speed --docs 'it'\\''s'"),
        ] {
            let line = command(given.split(' ').map(str::to_owned), false);
            assert_eq!(line.replace(PROGRAM, "target/release/measure"), expected);
        }
        assert_eq!(
            command(["all".to_owned()].into_iter(), true),
            "HOLDFAST_NEWEST_SERVERS=$(scripts/maintain/newest-servers) scripts/compare"
        );
    }

    #[test]
    fn an_error_says_what_is_possible() {
        for (line, word) in [
            ("--systems redlok", "unknown system `redlok`; the systems are: holdfast-http, "),
            ("--seconds 0", "above 0"),
            ("--clients 1000", "between 1 and 256"),
            ("--clients 0", "between 1 and 256"),
            ("--repetitions 0", "between 1 and 100"),
            ("--redis localhost:6379", "--redis: `localhost:6379` is neither a server nor a group"),
            (
                "--redis redis://a:1 --systems redlock",
                "needs at least 3 independent servers, and 1 are given",
            ),
            ("--redis redis://a:1 --systems redis-getset-always", "starts its own: leave it out"),
            ("--systems redis-watch", "`measure writers --systems redis-watch` measures it"),
        ] {
            let message = settings(line).unwrap_err().to_string();
            assert!(message.contains(word), "{line}: {message}");
        }
    }
}
