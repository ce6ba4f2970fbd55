//! What a run measures, on which systems, and where it writes: the command line, checked.
//!
//! Owns the command line's words and their meaning. A run that was made smaller by hand is no full run, and says so.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use thiserror::Error;

use crate::catalogue::{self, ALL, Chosen, Listed};
use crate::machine::{Machine, said_by};
use crate::record::{Run, Size};
use crate::servers::command::Action;

/// The same work under many locks, on real servers, and a report of it.
#[derive(Debug, Parser)]
#[command(name = "compare")]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub part: Part,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Part {
    /// Cycles a second, times, round trips, wake-ups and processor time of every lock.
    Speed(Wanted),
    /// A flash sale under each lock and each fault: what is sold that is not there.
    Safety(Wanted),
    /// From the loss of a leader to the next grant.
    Failover(Wanted),
    /// The order of enqueue against the order of grant.
    Fairness(Wanted),
    /// Make the pages from the rows that are there.
    Report(Pages),
    /// All parts one after the other, and the report.
    All(Everything),
    /// Start, stop and list real servers, without measuring anything.
    #[command(subcommand)]
    Servers(Action),
    /// One process that sells, started by `safety` itself.
    #[command(hide = true)]
    Worker,
}

/// What a part measures.
#[derive(Clone, Debug, Args)]
pub struct Wanted {
    /// Fewer systems, fewer clients, short windows: a first look within minutes.
    #[arg(long)]
    pub quick: bool,
    /// The least of everything, to try the tool. Its numbers say nothing.
    #[arg(long, conflicts_with = "quick")]
    pub tiny: bool,
    /// Only these systems, with commas between them; `every` for all there are.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub systems: Vec<String>,
    /// Where rows go, one file a part; rows that are there stay.
    #[arg(long, value_name = "DIR", default_value = "target/comparison")]
    pub out: PathBuf,
    /// Where servers keep their files while they run [default: /var/tmp]. It has to be on a disk, and every user has to reach
    /// it: `PostgreSQL` does not run as root.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Length of one window of the speed, seconds.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// How often each case of the speed and the fairness is measured.
    #[arg(long)]
    pub repetitions: Option<u32>,
    /// Numbers of clients of the speed, with commas between them.
    #[arg(long, value_delimiter = ',')]
    pub clients: Vec<u32>,
}

/// What the report is made of, and where it goes.
#[derive(Clone, Debug, Args)]
pub struct Pages {
    /// Where the rows are, and where the pages go.
    #[arg(long, value_name = "DIR", default_value = "target/comparison")]
    pub out: PathBuf,
    /// Write the pages here too, as `comparison.md` and `comparison.html`.
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
}

/// All parts and the report.
#[derive(Clone, Debug, Args)]
pub struct Everything {
    /// What is measured.
    #[command(flatten)]
    pub wanted: Wanted,
    /// Write the pages here too, as `comparison.md` and `comparison.html`.
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
}

/// What is wrong with a command line.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// A name that is not in the catalogue.
    #[error("there is no system `{name}`; there are: {known}")]
    NoSystem {
        /// The name.
        name: String,
        /// All there are.
        known: String,
    },
    /// A number that cannot be measured with.
    #[error("{0}")]
    Bound(String),
    /// The machine could not be looked at.
    #[error("measure the disk below {directory}: {error}; name another directory with --directory")]
    Disk {
        /// Where.
        directory: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
}

/// Clients at most: each has a connection, with `RedLock` five, and a database has 300.
pub const CLIENTS_MAX: u32 = 256;
/// Seconds of one window at most.
pub const SECONDS_MAX: f64 = 600.0;
/// Repetitions at most.
pub const REPETITIONS_MAX: u32 = 100;

/// A run, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much it can say.
    pub size: Size,
    /// What it measures, in the order of reports.
    pub systems: Vec<&'static Listed>,
    /// Where rows go.
    pub out: PathBuf,
    /// Below which directory servers keep their files.
    pub directory: PathBuf,
    /// Length of one window of the speed, if it was given.
    pub seconds: Option<f64>,
    /// Repetitions, if they were given.
    pub repetitions: Option<u32>,
    /// Clients of the speed, if they were given.
    pub clients: Vec<u32>,
}

impl Settings {
    /// From a command line.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn of(wanted: &Wanted) -> Result<Self, SettingsError> {
        let size = size(wanted);
        check(wanted)?;
        let directory = wanted.directory.clone().unwrap_or_else(on_disk);
        // Servers change their directory before they read their files.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Ok(Self {
            size,
            systems: systems(&wanted.systems, size)?,
            out: wanted.out.clone(),
            directory,
            seconds: wanted.seconds,
            repetitions: wanted.repetitions,
            clients: wanted.clients.clone(),
        })
    }

    /// The row with which a run begins; measures the disk.
    ///
    /// # Errors
    /// [`SettingsError::Disk`].
    pub fn run(&self, more: Vec<(String, String)>) -> Result<Run, SettingsError> {
        let looked =
            std::fs::create_dir_all(&self.directory).and_then(|()| Machine::look(&self.directory));
        let failed = |error| SettingsError::Disk { directory: self.directory.clone(), error };
        let names: Vec<&str> = self.systems.iter().map(|listed| listed.name).collect();
        let mut settings = vec![("systems".to_owned(), names.join(", "))];
        settings.extend(more);
        Ok(Run {
            command: command(std::env::args().skip(1)),
            began: said_by("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            commit: said_by("git", &["describe", "--always", "--dirty"]),
            size: self.size,
            settings,
            machine: looked.map_err(failed)?,
        })
    }
}

/// Where files may lie that every user may reach: what is temporary elsewhere is often in memory.
fn on_disk() -> PathBuf {
    let place = PathBuf::from("/var/tmp");
    if place.is_dir() { place } else { std::env::temp_dir() }
}

/// A run that was cut down by hand is none that conclusions may be drawn from.
fn size(wanted: &Wanted) -> Size {
    let cut =
        wanted.seconds.is_some() || wanted.repetitions.is_some() || !wanted.clients.is_empty();
    match (wanted.tiny, wanted.quick || cut) {
        (true, _) => Size::Tiny,
        (false, true) => Size::Quick,
        (false, false) => Size::Full,
    }
}

fn check(wanted: &Wanted) -> Result<(), SettingsError> {
    let seconds = wanted.seconds.is_none_or(|seconds| seconds > 0.0 && seconds <= SECONDS_MAX);
    let repetitions = wanted.repetitions.is_none_or(|of| (1..=REPETITIONS_MAX).contains(&of));
    let clients = wanted.clients.iter().all(|clients| (1..=CLIENTS_MAX).contains(clients));
    let broken = [
        (seconds, format!("--seconds is above 0 and at most {SECONDS_MAX}")),
        (repetitions, format!("--repetitions is between 1 and {REPETITIONS_MAX}")),
        (clients, format!("--clients are between 1 and {CLIENTS_MAX}")),
    ];
    match broken.into_iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err(SettingsError::Bound(what)),
        None => Ok(()),
    }
}

fn systems(names: &[String], size: Size) -> Result<Vec<&'static Listed>, SettingsError> {
    if names.iter().any(|name| name == "every") {
        return Ok(ALL.iter().collect());
    }
    if names.is_empty() {
        let at_most = if size == Size::Full { Chosen::Full } else { Chosen::Always };
        return Ok(catalogue::chosen(at_most));
    }
    let mut found = Vec::new();
    for name in names {
        let known = || ALL.each_ref().map(|listed| listed.name).join(", ");
        let none = || SettingsError::NoSystem { name: name.clone(), known: known() };
        found.push(catalogue::named(name).ok_or_else(none)?);
    }
    found.sort_by_key(|listed| catalogue::place(listed.name));
    found.dedup();
    Ok(found)
}

/// The line that repeats a run from the root of the repository, with quotes where a shell needs them. `scripts/compare`
/// calls `compare all`, and finds a place for the rows itself: those of two runs are not to be mixed.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = arguments.collect();
    let mut line = "target/release/compare".to_owned();
    if words.first().is_some_and(|part| part == "all") {
        "scripts/compare".clone_into(&mut line);
        words.remove(0);
        if let Some(at) = words.iter().position(|word| word == "--out") {
            words.drain(at..words.len().min(at + 2));
        }
        words.retain(|word| !word.starts_with("--out="));
    }
    let plain = |c: char| c.is_alphanumeric() || "/.,-_=:".contains(c);
    let quoted = |word: &String| {
        let whole = !word.is_empty() && word.chars().all(plain);
        if whole { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    std::iter::once(line).chain(words.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(line: &str) -> Result<Settings, SettingsError> {
        let words = ["compare", "speed"].into_iter().chain(line.split_whitespace());
        let Part::Speed(wanted) = Arguments::try_parse_from(words).unwrap().part else {
            unreachable!("it says speed")
        };
        Settings::of(&wanted)
    }

    #[test]
    fn a_run_that_was_cut_down_is_no_full_run() {
        for (line, size) in [
            ("", Size::Full),
            ("--quick", Size::Quick),
            ("--tiny", Size::Tiny),
            ("--seconds 1", Size::Quick),
            ("--repetitions 1", Size::Quick),
            ("--clients 1,16", Size::Quick),
            ("--systems redlock", Size::Full),
        ] {
            assert_eq!(settings(line).unwrap().size, size, "{line}");
        }
    }

    #[test]
    fn systems_come_in_the_order_of_reports_and_once() {
        let found = settings("--systems redlock,holdfast-http,redlock").unwrap().systems;
        let names: Vec<_> = found.iter().map(|listed| listed.name).collect();
        assert_eq!(names, ["holdfast-http", "redlock"]);
        assert_eq!(settings("--systems every").unwrap().systems.len(), ALL.len());
    }

    #[test]
    fn a_line_that_repeats_a_run_can_be_pasted() {
        for (given, expected) in [
            ("speed --quick --out a", "target/release/compare speed --quick --out a"),
            ("all --quick --out a --docs docs", "scripts/compare --quick --docs docs"),
            ("all --out=a", "scripts/compare"),
            ("all --out", "scripts/compare"),
            ("fairness --out it's", "target/release/compare fairness --out 'it'\\''s'"),
        ] {
            assert_eq!(command(given.split(' ').map(str::to_owned)), expected);
        }
    }

    #[test]
    fn bad_input_is_told_what_is_possible() {
        for (line, word) in [
            ("--systems redlok", "there is no system `redlok`; there are: holdfast-http, "),
            ("--seconds 0", "above 0"),
            ("--clients 1000", "between 1 and 256"),
            ("--clients 0", "between 1 and 256"),
            ("--repetitions 0", "between 1 and 100"),
        ] {
            let said = settings(line).unwrap_err().to_string();
            assert!(said.contains(word), "{line}: {said}");
        }
    }
}
