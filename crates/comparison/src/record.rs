//! What was measured: one row a line of JSON, appended as soon as it is known.
//!
//! Owns the rows of all parts, their files, and reading any set of them again. Refuses to judge: a row says what was
//! seen, also that nothing was (`trouble`). Times are milliseconds, rates are per second.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::machine::Machine;

/// What keeps rows from being written or read.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The system refused a file.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Its answer.
        error: std::io::Error,
    },
    /// A line is no row of ours.
    #[error(
        "{path}:{line}: not a row of this version of the tool: {error}; remove the line, or measure again"
    )]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What the parser said.
        error: serde_json::Error,
    },
    /// There is nothing to report on.
    #[error(
        "no rows below {0}: run `compare speed --out {0}` first, or name another directory with --out"
    )]
    Nothing(PathBuf),
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "kebab-case")]
pub enum Row {
    /// A command that began to measure.
    Run(Run),
    /// A system that was measured.
    About(About),
    /// One case of the speed.
    Speed(Speed),
    /// The order of grants.
    Fairness(Fairness),
    /// One sale under one fault.
    Safety(Safety),
    /// Times from the loss of a leader to the next grant.
    Failover(Failover),
}

impl Row {
    /// The file that it goes to, without its ending.
    fn file(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::About(_) => "about",
            Self::Speed(_) => "speed",
            Self::Fairness(_) => "fairness",
            Self::Safety(_) => "safety",
            Self::Failover(_) => "failover",
        }
    }
}

/// A command that began to measure, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The command line that repeats it.
    pub command: String,
    /// When it began, for people.
    pub began: String,
    /// Our own commit, as far as it is known.
    pub commit: String,
    /// `full`, `quick`, or `tiny` for one whose numbers say nothing.
    pub size: Size,
    /// What was set, in the order of a reader.
    pub settings: Vec<(String, String)>,
    /// On what.
    pub machine: Machine,
}

/// How much a run can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// A trial of the tool: its numbers say nothing.
    Tiny,
    /// Few systems, short windows: a first look.
    Quick,
    /// What conclusions may be drawn from.
    Full,
}

/// A system that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its name in the catalogue.
    pub system: String,
    /// The kind of its servers.
    pub servers: String,
    /// How many of them.
    pub nodes: u32,
    /// What their program says of itself.
    pub version: String,
    /// How they keep what they acknowledge.
    pub durability: String,
    /// What it is documented not to do, in sentences.
    pub limitations: Vec<String>,
}

/// Which locks the clients take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Locks {
    /// Each its own: what the servers can do.
    Spread,
    /// All the same: what a hand-over costs.
    Hot,
}

impl Locks {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Hot => "hot",
        }
    }
}

/// How the clients decide when to begin the next cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// When the last one has ended.
    Closed,
    /// At moments that are fixed beforehand, so many a second in all.
    Open(u32),
}

/// One case of the speed, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Its name in the catalogue.
    pub system: String,
    /// Which locks.
    pub locks: Locks,
    /// Closed loop, or open loop at a rate.
    pub load: Load,
    /// Clients, each with a connection of its own.
    pub clients: u32,
    /// Which of the repetitions, from 1.
    pub repetition: u32,
    /// What was measured; also what there was until the trouble.
    pub measured: Option<Measured>,
    /// Why nothing more was measured.
    pub trouble: Option<String>,
}

/// What one case of the speed gave. A cycle is one acquire and one release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// How long it was measured.
    pub seconds: f64,
    /// Cycles that ended in that time; in the open loop, those that were scheduled in it and served.
    pub cycles: u64,
    /// Cycles a second.
    pub per_second: f64,
    /// Half of the cycles took at most this. In the open loop every time counts from the moment that was scheduled.
    pub p50_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// 999 of 1,000.
    pub p999_ms: f64,
    /// All.
    pub max_ms: f64,
    /// Requests to servers an acquire, each server counted; none if there was no acquire.
    pub round_trips: Option<f64>,
    /// Attempts in vain an acquire.
    pub polls: Option<f64>,
    /// Wake-ups an acquire; none where the answer itself is the wake-up.
    pub wakeups: Option<f64>,
    /// Processor seconds of all server processes for 1,000 cycles; none if that cannot be told.
    pub cpu_seconds: Option<f64>,
    /// Times that a client was told to have a lock while another believed to have it.
    pub overlaps: u64,
    /// Cycles that the open loop had scheduled; 0 in the closed loop.
    pub scheduled: u64,
    /// Of those, how many had not begun or not ended when it gave up. Their time so far is in the quantiles.
    pub unserved: u64,
    /// Kinds of errors, counted.
    pub errors: BTreeMap<String, u64>,
}

/// The order of grants against the order of the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Its name in the catalogue.
    pub system: String,
    /// How many enqueued in each round, one after the other, while the lock was held.
    pub contenders: u32,
    /// Time between two of them, milliseconds.
    pub apart_ms: u64,
    /// Of each round: who was granted, in the order of grants; contenders are numbered from 0 in the order of enqueue.
    pub orders: Vec<Vec<u32>>,
    /// Of each round: pairs that were granted against the order of enqueue.
    pub inversions: Vec<u64>,
    /// Of each round: the longest time from enqueue to grant.
    pub longest_wait_ms: Vec<f64>,
    /// Of each round: from the first release to the last grant.
    pub drained_ms: Vec<f64>,
    /// Kinds of errors, counted.
    pub errors: BTreeMap<String, u64>,
    /// Why there are no more rounds.
    pub trouble: Option<String>,
}

/// One flash sale under one fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Safety {
    /// Its name in the catalogue, with what was added to it.
    pub system: String,
    /// The fault.
    pub fault: String,
    /// Processes that sold.
    pub workers: u32,
    /// Pieces in the books.
    pub sold: u64,
    /// Pieces that were sold and were not there.
    pub oversold: u64,
    /// Sales that another sale overwrote.
    pub lost_updates: u64,
    /// Critical sections that overlapped.
    pub double_holders: u64,
    /// From the fault to the next grant.
    pub next_grant_ms: Option<f64>,
    /// Locks that nobody got any more within the bound.
    pub stuck: u64,
    /// Why this fault makes no sense for this system.
    #[serde(default)]
    pub does_not_apply: Option<String>,
    /// What kept it from being measured.
    pub trouble: Option<String>,
}

/// Times from the loss of a leader to the next grant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failover {
    /// Its name in the catalogue.
    pub system: String,
    /// How often it was tried.
    pub trials: u32,
    /// What was measured.
    pub gaps_ms: Vec<f64>,
    /// What was killed, and what took over.
    #[serde(default)]
    pub how: String,
    /// Why there are fewer gaps than trials.
    pub trouble: Option<String>,
}

/// Where rows go: a file for each part, below one directory.
#[derive(Debug)]
pub struct Records {
    directory: PathBuf,
}

const ENDING: &str = "jsonl";

impl Records {
    /// Below this directory, which is made.
    ///
    /// # Errors
    /// [`RecordError::File`].
    pub fn at(directory: &Path) -> Result<Self, RecordError> {
        std::fs::create_dir_all(directory).map_err(failed(directory))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Appends one row, in one write.
    ///
    /// # Errors
    /// [`RecordError::File`].
    pub fn append(&self, row: &Row) -> Result<(), RecordError> {
        let path = self.directory.join(row.file()).with_extension(ENDING);
        let mut text = serde_json::to_string(row)
            .map_err(|error| failed(&path)(std::io::Error::other(error)))?;
        text.push('\n');
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.map_err(failed(&path))?;
        file.write_all(text.as_bytes()).map_err(failed(&path))
    }

    /// Every row below a directory, files in the order of their names.
    ///
    /// # Errors
    /// [`RecordError`]: also if there is no row at all.
    pub fn read(directory: &Path) -> Result<Vec<Row>, RecordError> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()).collect(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(directory)(error)),
        };
        let mut files: Vec<PathBuf> = entries;
        files.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
        files.sort();
        let mut rows = Vec::new();
        for path in files {
            read_file(&path, &mut rows)?;
        }
        if rows.is_empty() { Err(RecordError::Nothing(directory.to_owned())) } else { Ok(rows) }
    }
}

fn read_file(path: &Path, rows: &mut Vec<Row>) -> Result<(), RecordError> {
    let file = BufReader::new(File::open(path).map_err(failed(path))?);
    for (line, text) in (1..).zip(file.lines()) {
        let text = text.map_err(failed(path))?;
        if text.trim().is_empty() {
            continue;
        }
        let bad = |error| RecordError::Line { path: path.to_owned(), line, error };
        rows.push(serde_json::from_str(&text).map_err(bad)?);
    }
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> RecordError {
    let path = path.to_owned();
    move |error| RecordError::File { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failover(system: &str) -> Row {
        Row::Failover(Failover { system: system.to_owned(), ..Failover::default() })
    }

    #[test]
    fn rows_are_read_as_they_were_appended() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(&directory.path().join("made")).unwrap();
        let safety = Row::Safety(Safety { trouble: Some("gone".to_owned()), ..Safety::default() });
        let rows = [failover("a"), failover("b"), safety];
        for row in &rows {
            records.append(row).unwrap();
        }
        assert_eq!(Records::read(&directory.path().join("made")).unwrap(), rows);
    }

    #[test]
    fn a_line_that_is_no_row_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path()).unwrap();
        records.append(&failover("a")).unwrap();
        let file = directory.path().join("failover.jsonl");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}\n{{\"row\":\"other\"}}\n")).unwrap();
        let said = Records::read(directory.path()).unwrap_err().to_string();
        assert!(said.contains("failover.jsonl:3: not a row"), "{said}");
    }

    #[test]
    fn a_directory_without_rows_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        for place in [directory.path().to_owned(), directory.path().join("missing")] {
            let said = Records::read(&place).unwrap_err().to_string();
            assert!(said.contains("compare speed --out"), "{said}");
        }
    }
}
