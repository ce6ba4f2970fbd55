//! The audit trail: reading it, and waiting for its next record, for callers and for its durable copies (`audit/sink.rs`).

pub(crate) mod sink;

use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_types::{
    AuditAction, AuditClass, AuditEvicted, AuditRecord, ClusterId, Right, SubjectName,
};
use tokio::sync::watch;

use self::sink::AuditSinkState;
use crate::request::{Failure, ReadMode, Response};
use crate::service::Service;
use crate::waiting::{Wait, WaitEvent};

/// Which records to read.
#[derive(Clone, Debug)]
pub struct AuditQuery {
    /// Only records with a greater number.
    pub after: u64,
    pub subject: Option<SubjectName>,
    pub action: Option<AuditAction>,
    pub target: Option<String>,
    pub limit: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPage {
    /// The oldest first.
    pub records: Vec<AuditRecord>,
    /// All records up to this number were considered.
    pub read_up_to: u64,
    /// The numbers of the oldest and the newest record; `None` before the first.
    pub kept: Option<(u64, u64)>,
    /// The evicted records of each class that has some.
    pub evicted: Vec<(AuditClass, AuditEvicted)>,
}

/// Records for the copy.
#[derive(Clone, Debug)]
pub struct AuditBatch {
    /// `None` before the first command of the log.
    pub cluster: Option<ClusterId>,
    /// The oldest first.
    pub records: Vec<AuditRecord>,
    pub evicted: Vec<(AuditClass, AuditEvicted)>,
    /// The number of the newest record of the trail.
    pub newest: u64,
}

impl Service {
    /// Reads records of the audit trail. Without a record that matches, the call waits for the first one.
    ///
    /// # Errors
    /// [`holdfast_types::AuthRejection::Forbidden`] without the right `audit read`; otherwise the errors of any read.
    pub async fn audit(
        &self,
        query: &AuditQuery,
        wait: Duration,
        mode: ReadMode,
    ) -> Result<Response<AuditPage>, Failure> {
        let deadline = Instant::now() + wait;
        let _permit = self.admit(wait)?;
        let mut new_records = self.observer().audit_records.subscribe();
        let mut wait = Wait::until(self, deadline);
        loop {
            let page = self.read(mode, |machine| {
                self.check(machine, Right::AuditRead, "")?;
                Ok(AuditPage::of(machine, query))
            });
            let page = page.await?;
            if !page.value.records.is_empty() || Instant::now() >= deadline {
                return Ok(page);
            }
            match wait.next(new_records.changed()).await {
                WaitEvent::Woken(_)
                | WaitEvent::Renewed { .. }
                | WaitEvent::Deadline
                | WaitEvent::SessionEnded(_) => {}
                WaitEvent::Denied(rejection) => return Err(Failure::Rejected(rejection)),
                WaitEvent::Draining => return Err(Failure::ShuttingDown),
            }
        }
    }

    /// The records after a number, by the state of this node, for a durable copy. A copy has no queue: the trail is the queue.
    pub fn audit_batch(&self, after: u64, limit: usize) -> AuditBatch {
        self.raft().read(|machine| AuditBatch {
            cluster: machine.cluster_id(),
            records: machine.audit_records_after(after).take(limit).cloned().collect(),
            evicted: machine.audit_evicted().collect(),
            newest: machine.audit_head().map_or(0, |(number, _)| number),
        })
    }

    /// Changes with every new record.
    pub fn audit_changes(&self) -> watch::Receiver<()> {
        self.observer().audit_records.subscribe()
    }

    pub fn set_audit_sink(&self, state: AuditSinkState) {
        let mut sinks = self.parts.audit_sinks.lock();
        match sinks.iter_mut().find(|sink| sink.target == state.target) {
            Some(sink) => *sink = state,
            None => sinks.push(state),
        }
    }

    /// The problem of each copy that has one.
    pub(crate) fn audit_sink_problems(&self, now: Instant) -> Vec<String> {
        let newest = self.raft().read(Machine::audit_head).map_or(0, |head| head.0);
        let sinks = self.parts.audit_sinks.lock();
        sinks.iter().filter_map(|sink| sink.problem(newest, now)).collect()
    }
}

impl AuditPage {
    fn of(machine: &Machine, query: &AuditQuery) -> Self {
        let AuditQuery { after, subject, action, target, limit } = query;
        let matches = |record: &&AuditRecord| {
            subject.as_ref().is_none_or(|subject| record.subject.as_ref() == Some(subject))
                && action.is_none_or(|action| record.action == action)
                && target.as_ref().is_none_or(|target| record.target.as_target() == *target)
        };
        let found = machine.audit_records_after(*after).filter(matches).take(*limit);
        let records: Vec<_> = found.cloned().collect();
        let oldest = machine.audit_records_after(0).next().map(|record| record.number);
        let newest = machine.audit_head().map(|(number, _)| number);
        let read_up_to = match records.last() {
            Some(last) if records.len() == *limit => last.number,
            Some(_) | None => newest.unwrap_or_default().max(*after),
        };
        let evicted = machine.audit_evicted().collect();
        Self { records, read_up_to, kept: oldest.zip(newest), evicted }
    }
}
