//! The measured results: one row per line of JSON, appended as soon as it is complete.
//!
//! A row records the observed result, including a failure. Times are milliseconds, rates are per second. Systems have
//! the names of the catalogue.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::catalogue::System;
use crate::machine::MachineInfo;
use crate::servers::GivenRedis;

#[derive(Debug, Error)]
pub enum RecordError {
    #[error("{path}: {error}")]
    File { path: PathBuf, error: std::io::Error },
    /// Line numbers start at 1.
    #[error(
        "{path}:{line}: not a row of this version of the tool: {error}; remove the line, or measure again"
    )]
    Line { path: PathBuf, line: usize, error: serde_json::Error },
    #[error(
        "no rows below {0}: run `measure speed --out {0}` first, or name another directory with --out"
    )]
    NoRows(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "kebab-case")]
pub enum Row {
    Run(RunInfo),
    System(SystemInfo),
    WarmUp(WarmUp),
    Speed(Speed),
    ClientLibrary(LibrarySpeed),
    Fairness(Fairness),
    Safety(Safety),
    Failover(Failover),
    Writers(Writers),
    Nodes(ClusterSpeed),
}

impl Row {
    /// The name of the row's file, without the extension.
    fn file(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::System(_) => "system",
            Self::WarmUp(_) => "warm-up",
            Self::Speed(_) => "speed",
            Self::ClientLibrary(_) => "client-library",
            Self::Fairness(_) => "fairness",
            Self::Safety(_) => "safety",
            Self::Failover(_) => "failover",
            Self::Writers(_) => "writers",
            Self::Nodes(_) => "nodes",
        }
    }
}

/// A measuring command and its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The command line that repeats the run.
    pub command: String,
    pub began: String,
    /// holdfast's commit.
    pub commit: String,
    pub size: RunSize,
    /// The names and values, in the order of the report.
    pub settings: Vec<(String, String)>,
    pub machine: MachineInfo,
}

/// The significance of the numbers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunSize {
    /// A trial of the tool: its numbers are meaningless.
    Tiny,
    /// Few systems, short windows: a first look.
    Quick,
    Full,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemInfo {
    pub system: String,
    /// The kind of the system's servers.
    pub servers: String,
    pub nodes: u32,
    pub version: String,
    pub durability: String,
}

impl SystemInfo {
    /// Describes a system on servers that somebody else runs.
    pub fn given(system: &System, redis: &GivenRedis) -> Self {
        let nodes = if system.is_redlock() { redis.count } else { 1 };
        let (version, durability) = (redis.version.clone(), redis.durability.clone());
        Self { nodes, version, durability, ..Self::of(system) }
    }

    /// Describes a system, also if its servers are missing.
    pub fn of(system: &System) -> Self {
        let missing = system.kind.missing();
        let version = missing.map_or_else(|| system.kind.version(), |_| "not installed".to_owned());
        Self {
            system: system.name.to_owned(),
            servers: system.kind.name().to_owned(),
            nodes: system.nodes(),
            version,
            durability: system.kind.durability().to_owned(),
        }
    }
}

/// The number of locks of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockLayout {
    /// Each client has its own lock, which measures the capacity of the servers.
    Spread,
    /// All clients share one lock, which measures the hand-over.
    Hot,
}

impl LockLayout {
    pub fn name(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Hot => "hot",
        }
    }
}

/// The start of a client's next cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadLoop {
    /// At the end of the client's last cycle.
    Closed,
    /// At fixed times: this many cycles per second over all clients.
    Open(u32),
}

/// The load on new servers of one kind before their first speed case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// The kind of the servers.
    pub servers: String,
    /// The system whose cycles were the load.
    pub system: String,
    /// The number of the repetition, from 1.
    pub repetition: u32,
    pub clients: u32,
    pub seconds: f64,
    /// Cycles per second in each window.
    pub rates: Vec<f64>,
    /// Whether the last windows were no faster than earlier ones; otherwise the time was over.
    pub is_flat: bool,
}

/// One repetition of one speed case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    pub system: String,
    pub locks: LockLayout,
    pub load: LoadLoop,
    pub clients: u32,
    /// The number of the repetition, from 1.
    pub repetition: u32,
    /// The measurement, including a partial one before a failure.
    pub measured: Option<Measured>,
    pub failure: Option<String>,
}

/// The result of one speed case. A cycle is one acquire and one release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub seconds: f64,
    /// Cycles that ended in the window; in an open loop, those scheduled in it and served.
    pub cycles: u64,
    pub per_second: f64,
    /// In an open loop every time counts from the scheduled start.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
    /// Requests to servers per acquire, counted for each server; `None` without an acquire.
    pub round_trips: Option<f64>,
    /// Failed attempts per acquire.
    pub polls: Option<f64>,
    /// Wake-ups per acquire.
    pub wakeups: Option<f64>,
    /// Processor seconds of all server processes for 1,000 cycles, if the measured time is sufficient.
    pub cpu_seconds: Option<f64>,
    /// Grants while another client assumed to hold the lock.
    pub overlaps: u64,
    /// Cycles that an open loop scheduled.
    pub scheduled: u64,
    /// The scheduled cycles that the client gave up. The quantiles include their elapsed time.
    pub unserved: u64,
    /// Counts by kind.
    pub errors: BTreeMap<String, u64>,
}

/// The order of grants against the order of enqueue. The lists have one value per round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    pub system: String,
    /// The number of waiters that enqueued one after the other, while the lock was held.
    pub waiters: u32,
    /// The interval between two enqueues.
    pub interval_ms: u64,
    /// The waiters in the order of grants, numbered from 0 in the order of enqueue.
    pub orders: Vec<Vec<u32>>,
    /// Pairs that were granted against the order of enqueue.
    pub inversions: Vec<u64>,
    /// The times from enqueue to grant.
    pub longest_wait_ms: Vec<f64>,
    /// The times from the first release to the last grant.
    pub drained_ms: Vec<f64>,
    /// Counts by kind.
    pub errors: BTreeMap<String, u64>,
    /// The reason for missing rounds.
    pub failure: Option<String>,
}

/// One flash sale under one fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Safety {
    /// The name, with `+fence` if every write carries the token.
    pub system: String,
    pub fault: String,
    /// The number of worker processes.
    pub workers: u32,
    /// The number of recorded sales.
    pub sold: u64,
    /// Sales of nonexistent pieces.
    pub oversold: u64,
    /// Sales that another sale overwrote.
    pub lost_updates: u64,
    /// Critical sections that overlapped.
    pub double_holders: u64,
    /// The time from the fault to the next grant.
    pub next_grant_ms: Option<f64>,
    /// Locks that no client acquired within the time limit.
    pub stuck: u64,
    /// The reason why this fault does not apply to this system.
    pub does_not_apply: Option<String>,
    pub failure: Option<String>,
}

/// Times from the loss of a leader to the next grant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failover {
    pub system: String,
    pub trials: u32,
    pub gaps_ms: Vec<f64>,
    /// From the loss until every client had a lock again.
    #[serde(default)]
    pub all_gaps_ms: Vec<f64>,
    /// The killed process, and its replacement.
    pub method: String,
    /// The reason for fewer gaps than trials.
    pub failure: Option<String>,
}

/// Writers that change one value at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Writers {
    pub system: String,
    /// The number of writers, each with its own connections.
    pub writers: u32,
    pub seconds: f64,
    /// Changes that ended in the window.
    pub changes: u64,
    /// Attempts that ended in the window without a change: another writer was faster.
    pub in_vain: u64,
    /// The time of a change, with its attempts in vain.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub failure: Option<String>,
}

/// One repetition of one case on a cluster of holdfast, each client with its own lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterSpeed {
    /// The number of nodes.
    pub nodes: u32,
    pub clients: u32,
    /// The number of the repetition, from 1.
    pub repetition: u32,
    pub measured: Option<Measured>,
    pub failure: Option<String>,
}

/// One turn of holdfast's client library and of another lock client of the same language, in one program.
///
/// `scripts/maintain/client-speed` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LibrarySpeed {
    pub language: String,
    /// The other client.
    pub other: String,
    /// Concurrent callers of one client, each with its own lock.
    pub tasks: u32,
    pub per_second: f64,
    pub other_per_second: f64,
}

/// The files of rows, one for each part, in one directory.
#[derive(Debug)]
pub struct Records {
    directory: PathBuf,
}

const ENDING: &str = "jsonl";

impl Records {
    /// Creates the directory.
    pub fn at(directory: &Path) -> Result<Self, RecordError> {
        std::fs::create_dir_all(directory).map_err(failed(directory))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Appends one row, in one write.
    pub fn append(&self, row: &Row) -> Result<(), RecordError> {
        let path = self.directory.join(row.file()).with_extension(ENDING);
        let mut text = serde_json::to_string(row)
            .map_err(|error| failed(&path)(std::io::Error::other(error)))?;
        text.push('\n');
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.map_err(failed(&path))?;
        file.write_all(text.as_bytes()).map_err(failed(&path))
    }

    /// Reads every row in a directory, files in the order of their names.
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
        if rows.is_empty() { Err(RecordError::NoRows(directory.to_owned())) } else { Ok(rows) }
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
        let safety = Row::Safety(Safety { failure: Some("gone".to_owned()), ..Safety::default() });
        let rows = [failover("a"), failover("b"), safety];
        for row in &rows {
            records.append(row).unwrap();
        }
        assert_eq!(Records::read(&directory.path().join("made")).unwrap(), rows);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::at(directory.path()).unwrap();
        records.append(&failover("a")).unwrap();
        let file = directory.path().join("failover.jsonl");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}\n{{\"row\":\"other\"}}\n")).unwrap();
        let error = Records::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("failover.jsonl:3: not a row"), "{error}");
    }

    #[test]
    fn the_error_for_a_directory_without_rows_names_the_next_step() {
        let directory = tempfile::tempdir().unwrap();
        for directory in [directory.path().to_owned(), directory.path().join("missing")] {
            let error = Records::read(&directory).unwrap_err().to_string();
            assert!(error.contains("measure speed --out"), "{error}");
        }
    }
}
