//! The audit trail: what operators and administrators have changed. It is part of the state, so every node has the same
//! records, also after a snapshot (ADR 0013).
//!
//! `apply` adds a record for each executed command that [`AuditedChange::of`] names. A rejected command, and one that
//! changes nothing, leave none. Bound:
//! the newest [`RECORDS_MAX`] records, each of at most [`AuditRecord::DETAIL_MAX`] bytes and a few names.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use holdfast_types::{
    Actor, AuditAction, AuditHash, AuditRecord, AuthChange, Break, Command, Credential, Event,
    LockEvent, LossCause, MembershipChange, NewAccessToken, Permission, PolicyChange, Quotas,
    Reason, RequestRelease, Revision, SubjectName,
};
use imbl::OrdMap;

use crate::Machine;

/// Records that the state keeps.
pub const RECORDS_MAX: usize = 10_000;

/// The newest records, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditTrail(OrdMap<u64, Arc<AuditRecord>>);

/// An audited command before its execution.
#[derive(Debug)]
pub(crate) struct AuditedChange {
    subject: Option<SubjectName>,
    credential: Credential,
    action: AuditAction,
    target: String,
    detail: Detail,
    reason: Option<Reason>,
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

    /// Describes a command for the trail; `None` for most commands.
    pub(crate) fn audited(&self, actor: &Actor, command: &Command) -> Option<AuditedChange> {
        let (action, target, detail, reason) = described(command)?;
        // Before the command is executed: it may delete its own access token.
        let rights = self.rights_of(actor, self.now).ok();
        let subject = rights.and_then(|rights| rights.subject()).cloned();
        let credential = Credential::of(actor);
        Some(AuditedChange { subject, credential, action, target, detail, reason })
    }

    /// Adds a record of a change that was executed, with the holds and waits that it ended.
    pub(crate) fn record_change(
        &mut self,
        mut change: AuditedChange,
        events: &[(Revision, Event)],
    ) -> Event {
        for (_, event) in events {
            change.detail.add_ended(event);
        }
        self.add_record(change)
    }

    /// Adds a record of the restore of the cluster.
    pub(crate) fn record_restore(
        &mut self,
        cluster: String,
        detail: impl IntoIterator<Item = String>,
    ) {
        self.add_record(AuditedChange {
            subject: None,
            credential: Credential::Node,
            action: AuditAction::Restored,
            target: cluster,
            detail: Detail::of(detail),
            reason: None,
        });
    }

    fn add_record(&mut self, change: AuditedChange) -> Event {
        let AuditedChange { subject, credential, action, target, detail, reason } = change;
        let (number, previous) = self.audit_head().unwrap_or_default();
        let mut record = AuditRecord {
            number: number + 1,
            revision: self.revision,
            at: self.now,
            subject,
            credential,
            action,
            target,
            detail: detail.0,
            reason,
            hash: AuditHash::default(),
        };
        record.hash = record.hash_after(previous);
        let event = Event::Audited { number: record.number, hash: record.hash };
        self.audit.push(record);
        event
    }
}

impl AuditTrail {
    pub(crate) fn iter_after(&self, number: u64) -> impl Iterator<Item = &Arc<AuditRecord>> {
        self.0.range(number.saturating_add(1)..).map(|(_, record)| record)
    }

    fn last(&self) -> Option<&AuditRecord> {
        self.0.get_max().map(|(_, record)| &**record)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn push(&mut self, record: AuditRecord) {
        self.0.insert(record.number, Arc::new(record));
        if self.0.len() > RECORDS_MAX {
            self.0 = self.0.without_min().1;
        }
    }

    /// Adds a record of a snapshot. Returns false if it was there.
    pub(crate) fn restore(&mut self, record: AuditRecord) -> bool {
        self.0.insert(record.number, Arc::new(record)).is_none()
    }

    /// Checks the numbers, the bounds and the hashes. `revision` is that of the machine.
    pub(crate) fn check(&self, revision: Revision) -> Result<(), String> {
        if self.0.len() > RECORDS_MAX {
            return Err("the audit trail has too many records".to_owned());
        }
        let mut previous: Option<&AuditRecord> = None;
        for record in self.0.values() {
            let number = record.number;
            if number == 0 || number > record.revision.0 || record.revision > revision {
                return Err(format!("audit record {number} has a wrong number or revision"));
            }
            let expected = match previous {
                Some(before) if before.number + 1 == number => Some(before.hash),
                Some(_) => return Err(format!("the audit trail has no record {}", number - 1)),
                None => (number == 1).then(AuditHash::default),
            };
            if record.detail.len() > AuditRecord::DETAIL_MAX {
                return Err(format!("the detail of audit record {number} is too long"));
            }
            if expected.is_some_and(|before| record.hash_after(before) != record.hash) {
                return Err(format!("the hash of audit record {number} is wrong"));
            }
            previous = Some(record);
        }
        Ok(())
    }
}

/// A text of at most [`AuditRecord::DETAIL_MAX`] bytes. A longer one ends with "…".
#[derive(Debug, Default)]
struct Detail(String);

impl Detail {
    const ELLIPSIS: &str = "…";

    /// Adds a part after a comma.
    fn add(&mut self, part: impl fmt::Display) {
        if self.0.ends_with(Self::ELLIPSIS) {
            return;
        }
        let before = self.0.len();
        let comma = if self.0.is_empty() { "" } else { ", " };
        // Writing into a string does not fail.
        let _infallible = write!(self.0, "{comma}{part}");
        if self.0.len() > AuditRecord::DETAIL_MAX - Self::ELLIPSIS.len() {
            self.0.truncate(before);
            self.0.push_str(Self::ELLIPSIS);
        }
    }

    fn of(parts: impl IntoIterator<Item: fmt::Display>) -> Self {
        let mut detail = Self::default();
        for part in parts {
            detail.add(part);
        }
        detail
    }

    fn add_ended(&mut self, event: &Event) {
        match event {
            Event::Lock(LockEvent::HoldEnded { lock, session, token, cause, .. })
                if *cause == LossCause::Broken =>
            {
                self.add(format_args!("{session} lost {lock} (token {token})"));
            }
            Event::Lock(LockEvent::WaitEnded { lock, session, cause, .. })
                if *cause == LossCause::Broken =>
            {
                self.add(format_args!("{session} left the queue of {lock}"));
            }
            Event::Lock(_)
            | Event::Session(_)
            | Event::Tree(_)
            | Event::Recipe(_)
            | Event::MemberChanged { .. }
            | Event::LevelChanged { .. }
            | Event::AuthChanged
            | Event::VerifyState
            | Event::SealChanged
            | Event::Audited { .. } => {}
        }
    }
}

/// The action, its target, its detail and its reason.
type Described = (AuditAction, String, Detail, Option<Reason>);

fn described(command: &Command) -> Option<Described> {
    match command {
        Command::Break(Break { lock, reason, .. }) => {
            let reason = Some(reason.clone());
            Some((AuditAction::BreakLock, lock.to_string(), Detail::default(), reason))
        }
        Command::RequestRelease(request) if request.revoke => {
            let RequestRelease { lock, holder, reason, deadline_ms, .. } = request;
            let whom = holder.as_ref().map_or("every holder", |(session, _)| session.as_str());
            let detail = Detail::of([format!("{whom} in {deadline_ms} ms")]);
            Some((AuditAction::RevokeLock, lock.to_string(), detail, reason.clone()))
        }
        Command::SetPolicy { lock, change } => {
            Some((AuditAction::SetLockPolicy, lock.to_string(), detail_of_policy(change), None))
        }
        Command::EndSession { session, reason, .. } => {
            let reason = Some(reason.clone());
            Some((AuditAction::CloseSession, session.to_string(), Detail::default(), reason))
        }
        Command::Auth(change) => {
            let (action, target, detail) = described_change(change);
            Some((action, target, detail, None))
        }
        Command::Membership(change) => described_membership(change),
        Command::SetLevel(level) => {
            Some((AuditAction::SetLevel, level.to_string(), Detail::default(), None))
        }
        Command::Seal { reason } => {
            Some((AuditAction::Seal, "cluster".to_owned(), Detail::default(), Some(reason.clone())))
        }
        Command::Unseal { .. } => {
            Some((AuditAction::Unseal, "cluster".to_owned(), Detail::default(), None))
        }
        Command::As { command, .. } | Command::Once { command, .. } => described(command),
        Command::RequestRelease(_)
        | Command::OpenSession { .. }
        | Command::RenewSession { .. }
        | Command::CloseSession { .. }
        | Command::ExpireSession { .. }
        | Command::Acquire(_)
        | Command::Release(_)
        | Command::Cancel(_)
        | Command::Multi(_)
        | Command::Sweep { .. }
        | Command::SetLimits(_)
        | Command::RegisterNode { .. }
        | Command::AttachSession { .. }
        | Command::ClaimSession { .. }
        | Command::RecordBackup { .. }
        | Command::VerifyState
        | Command::RecordClocks { .. }
        | Command::RecordLeases { .. }
        | Command::Recipe(_)
        | Command::RunTimers { .. }
        | Command::HandOver(_)
        | Command::Bootstrap { .. } => None,
    }
}

fn described_membership(
    change: &MembershipChange,
) -> Option<(AuditAction, String, Detail, Option<Reason>)> {
    Some(match change {
        // The id of the new member is larger than every earlier one, and the record has no other name for it.
        MembershipChange::Invite { addresses, zone, role, replaces, .. } => {
            let replaces = replaces.map(|node| format!("replaces node {node}"));
            let zone = zone.as_ref().map(|zone| format!("zone {zone}"));
            let parts = [format!("{}, http {}", role.as_str(), addresses.http)];
            let detail = Detail::of(parts.into_iter().chain(zone).chain(replaces));
            (AuditAction::AddMember, addresses.peer.to_string(), detail, None)
        }
        MembershipChange::Update { node, addresses, zone } => {
            let addresses = addresses.as_ref().map(|new| {
                format!("peer {}, http {}, zookeeper {}", new.peer, new.http, new.zookeeper)
            });
            let zone = zone.as_ref().map(|zone| format!("zone {zone}"));
            let detail = Detail::of(addresses.into_iter().chain(zone));
            (AuditAction::UpdateMember, format!("node {node}"), detail, None)
        }
        MembershipChange::SetRole { node, role } => {
            let detail = Detail::of([role.as_str().to_owned()]);
            (AuditAction::SetMemberRole, format!("node {node}"), detail, None)
        }
        MembershipChange::Remove { node, reason } => {
            let reason = Some(reason.clone());
            (AuditAction::RemoveMember, format!("node {node}"), Detail::default(), reason)
        }
        MembershipChange::Replace { node, replaces } => {
            let detail = Detail::of([format!("voter, replaces node {replaces}")]);
            (AuditAction::SetMemberRole, format!("node {node}"), detail, None)
        }
        MembershipChange::Finish { .. } => return None,
    })
}

fn detail_of_policy(change: &PolicyChange) -> Detail {
    let PolicyChange { limit, order, ageing_ms, lock_delay_ms, cooldown_ms, .. } = change;
    let count = |count: Option<u32>| count.map_or("none".to_owned(), |count| count.to_string());
    let ms = |ms: u64| format!("{ms} ms");
    let fields = [
        ("limit", limit.map(count)),
        ("order", order.map(|order| order.as_str().to_owned())),
        ("ageing", ageing_ms.map(ms)),
        ("lock delay", lock_delay_ms.map(ms)),
        ("cooldown", cooldown_ms.map(ms)),
        ("deadlock detection", change.detect_deadlocks.map(|on| on.to_string())),
        ("shards", change.shards.map(count)),
    ];
    Detail::of(fields.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?))))
}

fn described_change(change: &AuthChange) -> (AuditAction, String, Detail) {
    let of_token = |subject: &SubjectName, token: &NewAccessToken| {
        let until = token.expires_at.map(|at| format!("expires at {}", at.0));
        Detail::of([format!("of {subject}")].into_iter().chain(until))
    };
    match change {
        AuthChange::AddAdministrator { subject, token, mode } => {
            let token = [format!("access token {}", token.id)];
            let mode = mode.map(|mode| format!("mode {}", mode.as_str()));
            let detail = Detail::of(token.into_iter().chain(mode));
            (AuditAction::AddAdministrator, subject.to_string(), detail)
        }
        AuthChange::SetRole { role, permissions } => {
            let detail = Detail::of(permissions.iter().map(Permission::to_string));
            (AuditAction::SetRole, role.to_string(), detail)
        }
        AuthChange::DeleteRole { role } => {
            (AuditAction::DeleteRole, role.to_string(), Detail::default())
        }
        AuthChange::SetSubject { subject, roles, certificates } => {
            let roles = roles.iter().map(|role| format!("role {role}"));
            let certificates =
                certificates.iter().map(|name| format!("certificate {}", name.as_str()));
            (AuditAction::SetSubject, subject.to_string(), Detail::of(roles.chain(certificates)))
        }
        AuthChange::DeleteSubject { subject } => {
            (AuditAction::DeleteSubject, subject.to_string(), Detail::default())
        }
        AuthChange::AddToken { subject, token } => {
            (AuditAction::AddAccessToken, token.id.to_string(), of_token(subject, token))
        }
        AuthChange::RotateToken { old, token, old_expires_at } => {
            let detail = Detail::of([
                format!("replaced by {}", token.id),
                format!("expires at {} or earlier", old_expires_at.0),
            ]);
            (AuditAction::RotateAccessToken, old.to_string(), detail)
        }
        AuthChange::DeleteToken { token } => {
            (AuditAction::DeleteAccessToken, token.to_string(), Detail::default())
        }
        AuthChange::SetMode(mode) => {
            (AuditAction::SetAuthMode, mode.as_str().to_owned(), Detail::default())
        }
        AuthChange::SetNamespace { namespace, quotas } => {
            (AuditAction::SetNamespace, namespace.to_string(), described_quotas(quotas))
        }
        AuthChange::SetQuotas { subject, quotas } => {
            let target = subject.as_ref().map_or("default".to_owned(), SubjectName::to_string);
            (AuditAction::SetQuotas, target, described_quotas(quotas))
        }
        AuthChange::DeleteNamespace { namespace } => {
            (AuditAction::DeleteNamespace, namespace.to_string(), Detail::default())
        }
    }
}

fn described_quotas(quotas: &Quotas) -> Detail {
    Detail::of(quotas.0.iter().map(|(quota, limit)| format!("{quota} {limit}")))
}
