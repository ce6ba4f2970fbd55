//! The durable copies of the audit trail: a file of JSON lines, and messages to a syslog server.
//!
//! Each line is one that `holdfast audit follow -o jsonl` prints. A copy resumes after its position, a file in the data
//! directory, so a record can be written twice after a crash, and none is left out: records that were evicted before
//! they were written are a line with `gap`. Bound: [`BATCH`] records in memory.

mod target;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holdfast_api::{AuditGapBody, AuditGapLine, AuditRecordBody, Rfc3339Time};
use holdfast_service::{AuditBatch, AuditSinkState, Service};
use holdfast_types::{AuditClass, Stamp};

use self::target::{CopyTarget, FileCopy, SyslogCopy};
use crate::config::AuditConfig;

/// Records that are written with one sync.
const BATCH: usize = 1_000;
/// The time between two attempts to write.
const RETRY: Duration = Duration::from_secs(1);

/// One line of a copy, without its line feed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AuditLine {
    at: Stamp,
    json: String,
}

/// What a copy has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CopyPosition {
    /// The id of the cluster; a restore makes a new one.
    cluster: String,
    /// The number of the newest written record.
    number: u64,
}

impl CopyPosition {
    fn read(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text?,
        };
        // Without a position, all records are written again.
        let text = String::from_utf8_lossy(&text);
        let (cluster, number) = text.trim().split_once(' ').unwrap_or_default();
        let number = number.parse().unwrap_or_default();
        Ok(Self { cluster: cluster.to_owned(), number })
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        std::fs::write(&new, format!("{} {}\n", self.cluster, self.number))?;
        std::fs::rename(new, path)
    }
}

/// One copy of the trail.
#[derive(Debug)]
struct AuditCopy {
    target: CopyTarget,
    position_file: PathBuf,
    position: CopyPosition,
    /// The numbers up to which evicted records were reported.
    reported: BTreeMap<AuditClass, u64>,
    lost_at: Option<Instant>,
}

impl AuditCopy {
    fn open(target: CopyTarget, position_file: PathBuf) -> io::Result<Self> {
        let mut position = CopyPosition::read(&position_file)?;
        if let CopyTarget::File(file) = &target
            && position.number > 0
        {
            // A crash can lose the position of records that are in the file. A position follows the first record of its
            // cluster, so the newest record in the file is not that of another cluster.
            position.number = position.number.max(file.newest()?);
        }
        let reported = BTreeMap::new();
        Ok(Self { target, position_file, position, reported, lost_at: None })
    }

    /// Writes the records of a batch, and returns whether there were some.
    fn write(&mut self, batch: AuditBatch) -> io::Result<bool> {
        let Some(cluster) = batch.cluster.map(|cluster| cluster.to_string()) else {
            return Ok(false);
        };
        if self.position.cluster != cluster {
            self.position = CopyPosition { cluster, number: 0 };
            self.reported.clear();
            return Ok(true);
        }
        let (gaps, reported) = self.gaps(&batch)?;
        let newest = batch.records.last().map(|record| record.number);
        let records = batch.records.into_iter().map(AuditRecordBody::from);
        let records = records.map(|record| line(record.at.0, &record));
        let lines: Vec<_> = gaps.into_iter().map(Ok).chain(records).collect::<io::Result<_>>()?;
        if lines.is_empty() {
            return Ok(false);
        }
        self.target.append(&lines)?;
        if !reported.is_empty() && self.position.number > 0 {
            self.lost_at = Some(Instant::now());
        }
        self.reported.extend(reported);
        self.position.number = newest.unwrap_or(self.position.number);
        self.position.write(&self.position_file)?;
        Ok(true)
    }

    /// A line for each class of which records were evicted before they were written.
    fn gaps(&self, batch: &AuditBatch) -> io::Result<(Vec<AuditLine>, BTreeMap<AuditClass, u64>)> {
        let (mut lines, mut reported) = (Vec::new(), BTreeMap::new());
        let after = self.position.number;
        for (class, evicted) in &batch.evicted {
            let known = self.reported.get(class).copied().unwrap_or_default().max(after);
            if evicted.number > known {
                let (newest, newest_at) = (evicted.number, Rfc3339Time(evicted.at));
                let gap = AuditGapBody { class: *class, after: known, newest, newest_at };
                lines.push(line(evicted.at, &AuditGapLine { gap })?);
                reported.insert(*class, evicted.number);
            }
        }
        Ok((lines, reported))
    }
}

fn line(at: Stamp, body: &impl serde::Serialize) -> io::Result<AuditLine> {
    Ok(AuditLine { at, json: serde_json::to_string(body)? })
}

/// Starts the copies of the configuration. They end with the runtime.
///
/// # Errors
/// An unreadable position or file.
pub(crate) fn start(
    config: &AuditConfig,
    host: &str,
    data_dir: &Path,
    service: &Service,
) -> io::Result<()> {
    let AuditConfig { file, file_size, files, syslog } = config;
    let file = file.as_ref().map(|path| {
        let copy = FileCopy::new(path.clone(), *file_size, *files);
        (CopyTarget::File(copy), "audit-file.position")
    });
    let syslog = syslog.as_ref().map(|target| {
        let copy = SyslogCopy::new(target.clone(), host.to_owned());
        (CopyTarget::Syslog(copy), "audit-syslog.position")
    });
    for (target, position) in file.into_iter().chain(syslog) {
        let copy = AuditCopy::open(target, data_dir.join(position))?;
        tokio::spawn(run(copy, service.clone()));
    }
    Ok(())
}

async fn run(mut copy: AuditCopy, service: Service) {
    let mut changes = service.audit_changes();
    let mut state = AuditSinkState {
        target: copy.target.name(),
        written: copy.position.number,
        error: None,
        behind_since: None,
        lost_at: copy.lost_at,
    };
    loop {
        changes.borrow_and_update();
        let batch = service.audit_batch(copy.position.number, BATCH);
        let newest = batch.newest;
        // A write to a file system that does not answer never ends.
        state.count_behind(newest);
        service.set_audit_sink(state.clone());
        // A full disk or a silent server must not block the runtime.
        let writing = tokio::task::spawn_blocking(move || {
            let written = copy.write(batch);
            (copy, written)
        });
        let Ok((back, written)) = writing.await else { return };
        copy = back;
        let failed = state.error.is_some();
        state.error = written.as_ref().err().map(ToString::to_string);
        if state.error.is_some() != failed {
            let destination = &state.target;
            if let Some(error) = &state.error {
                tracing::error!(destination, error, "cannot write the audit trail");
            } else {
                tracing::info!(destination, "writing the audit trail again");
            }
        }
        (state.written, state.lost_at) = (copy.position.number, copy.lost_at);
        state.count_behind(newest);
        service.set_audit_sink(state.clone());
        match written {
            Ok(true) => {}
            Ok(false) => drop(tokio::time::timeout(RETRY, changes.changed()).await),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

#[cfg(test)]
mod tests;
