//! The durable copies of the audit trail that this node writes to a file or a syslog server: what they read, and where
//! they report their state.
//!
//! The copy has no queue: the trail is the queue, and a record that is evicted before it is written is reported as lost.

use std::time::Instant;

use holdfast_machine::Machine;
use holdfast_types::{AuditClass, AuditEvicted, AuditRecord, ClusterId};
use tokio::sync::watch;

use crate::audit_sink_state::AuditSinkState;
use crate::service::Service;

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
    /// The records after a number, by the state of this node.
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

    /// Reports the state of a copy.
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
