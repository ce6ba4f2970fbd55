//! The audit trail: what operators and administrators have changed. It is part of the state, so every node has the same
//! records, also after a snapshot (ADR 0013).
//!
//! `apply` adds a record for each executed command whose rules name one (`command_rules.rs`). A rejected command, and one that changes
//! nothing, leave none. Bound: the newest [`RECORDS_MAX`] records of each class, each of at most
//! [`AuditRecord::DETAILS_MAX`] bytes and a few names.

pub(crate) mod describe;
pub(crate) mod trail;

use holdfast_types::{
    Actor, AuditAction, AuditClass, AuditEvicted, AuditHash, AuditItem, AuditRecord, ClusterId,
    Command, Credential, Event, Outcome, Reason, Reply, RestoreItem, Revision, SubjectName,
};

use self::describe::{Described, Details};
use crate::Machine;
use crate::lock::bypass::multi_on_locks;
use crate::tree::multi::Requester;

/// Records of each class that the state keeps.
pub const RECORDS_MAX: usize = 10_000;

/// An audited command before its execution.
#[derive(Debug)]
pub(crate) struct AuditedChange {
    subject: Option<SubjectName>,
    credential: Credential,
    action: AuditAction,
    target: AuditItem,
    details: Details,
    reason: Option<Reason>,
}

impl AuditedChange {
    /// Whether the command was executed and changed something. A new access list, and an operation of a node, cause no
    /// event.
    pub(crate) fn is_done(&self, outcome: &Outcome, caused: &[(Revision, Event)]) -> bool {
        match outcome {
            Ok(Reply::Repeated { .. }) | Err(_) => false,
            Ok(Reply::OperationRecorded) => true,
            Ok(_) => !caused.is_empty() || self.action == AuditAction::SetLockAcl,
        }
    }
}

impl Machine {
    /// The records after a number, the oldest first.
    pub fn audit_records_after(&self, number: u64) -> impl Iterator<Item = &AuditRecord> {
        self.audit.iter_after(number).map(|record| &**record)
    }

    /// The number and the hash of the newest record; `None` before the first.
    pub fn audit_head(&self) -> Option<(u64, AuditHash)> {
        self.audit.last().map(|record| (record.number, record.hash))
    }

    /// The evicted records of each class that has some.
    pub fn audit_evicted(&self) -> impl Iterator<Item = (AuditClass, AuditEvicted)> {
        self.audit.evicted()
    }

    /// Adds the caller to the description of a command; `None` for most commands.
    pub(crate) fn audited(
        &self,
        actor: &Actor,
        command: &Command,
        described: Option<Described>,
    ) -> Option<AuditedChange> {
        let described = described.or_else(|| self.described_bypass(actor, command));
        let (action, target, details, reason) = described?;
        // Before the command is executed: it may delete its own access token.
        let rights = self.rights_of(actor, self.now).ok();
        let subject = rights.and_then(|rights| rights.subject()).cloned();
        let credential = Credential::of(actor);
        Some(AuditedChange { subject, credential, action, target, details, reason })
    }

    /// A change of znodes that bypasses the queues of locks. Its target is the first of them.
    fn described_bypass(&self, actor: &Actor, command: &Command) -> Option<Described> {
        let multi = multi_on_locks(command)?;
        let by = Requester { session: None, identities: &multi.caller.identities };
        let holds = self.all_hold(&multi.conditions, by, actor).ok()?;
        let ops = if holds { &multi.then } else { &multi.otherwise };
        let rights = self.rights_of(actor, self.now).ok();
        let subject = rights.and_then(|rights| rights.subject());
        let bypasses = self.bypasses(&multi.caller, subject, ops);
        let recorded =
            || bypasses.iter().filter_map(|bypass| Some((&bypass.lock, bypass.record.as_ref()?)));
        let is_break = |(_, (action, _)): &(_, &(AuditAction, AuditItem))| {
            *action == AuditAction::ForceRelease
        };
        let (lock, (action, _)) = recorded().find(is_break).or_else(|| recorded().next())?;
        let details = Details::of(recorded().map(|(_, (_, item))| item.clone()));
        let lock = lock.clone().map_or(AuditItem::EveryLock, AuditItem::Lock);
        Some((*action, lock, details, None))
    }

    /// Adds a record of a change that was executed, with the holds and waits that it ended.
    pub(crate) fn record_change(
        &mut self,
        mut change: AuditedChange,
        events: &[(Revision, Event)],
    ) -> Event {
        for (_, event) in events {
            change.details.add_ended(event);
        }
        self.add_record(change)
    }

    /// Adds a record of the restore of the cluster.
    pub(crate) fn record_restore(
        &mut self,
        cluster: ClusterId,
        items: impl IntoIterator<Item = RestoreItem>,
    ) {
        self.add_record(AuditedChange {
            subject: None,
            credential: Credential::Node,
            action: AuditAction::Restored,
            target: AuditItem::ClusterId(cluster),
            details: Details::of(items.into_iter().map(AuditItem::Restore)),
            reason: None,
        });
    }

    fn add_record(&mut self, change: AuditedChange) -> Event {
        let AuditedChange { subject, credential, action, target, details, reason } = change;
        let number = self.audit_head().map_or(0, |(number, _)| number);
        let previous = self.audit.newest_hash(action.class());
        let mut record = AuditRecord {
            number: number + 1,
            revision: self.revision,
            at: self.now,
            subject,
            credential,
            action,
            target,
            details: details.items,
            reason,
            hash: AuditHash::default(),
        };
        record.hash = record.hash_after(previous);
        let event = Event::Audited { number: record.number, hash: record.hash };
        self.audit.push(record, self.now);
        event
    }
}
