//! Describes commands for the trail: the action, its target, its details and its reason. `command_rules.rs` has the record
//! of each command. The details are what the change did, and the holds and waits that it ended, as far as they fit.

use holdfast_types::{
    Acquire, AuditAction, AuditItem, AuditRecord, AuthChange, Event, FeatureLevel, ForceRelease,
    LockEvent, LockName, LossCause, MembershipChange, NewAccessToken, NodeOperation, PolicyChange,
    PolicyItem, Quotas, Reason, RequestRelease, SessionId, SessionName, SubjectName, TokenPolicy,
    VotingRole,
};

/// At most [`AuditRecord::DETAILS_MAX`] bytes. A longer list ends with [`AuditItem::More`].
#[derive(Debug, Default)]
pub(crate) struct Details {
    pub(super) items: Vec<AuditItem>,
    bytes: usize,
}

impl Details {
    pub(super) fn add(&mut self, item: AuditItem) {
        if self.items.last() == Some(&AuditItem::More) {
            return;
        }
        self.bytes += item.stored_len();
        let fits = self.bytes + AuditItem::More.stored_len() <= AuditRecord::DETAILS_MAX;
        self.items.push(if fits { item } else { AuditItem::More });
    }

    pub(super) fn of(items: impl IntoIterator<Item = AuditItem>) -> Self {
        let mut details = Self::default();
        for item in items {
            details.add(item);
        }
        details
    }

    pub(super) fn add_ended(&mut self, event: &Event) {
        let Event::Lock(event) = event else { return };
        if let LockEvent::HoldEnded { lock, session, token, cause, .. } = event
            && *cause == LossCause::ForceReleased
        {
            let (lock, session, token) = (lock.clone(), session.clone(), *token);
            self.add(AuditItem::HoldEnded { lock, session, token });
        } else if let LockEvent::WaitEnded { lock, session, cause, .. } = event
            && *cause == LossCause::ForceReleased
        {
            self.add(AuditItem::WaitEnded { lock: lock.clone(), session: session.clone() });
        }
    }
}

/// The action, its target, its details and its reason.
pub(crate) type Described = (AuditAction, AuditItem, Details, Option<Reason>);

fn bare(action: AuditAction, target: AuditItem, reason: &Reason) -> Described {
    (action, target, Details::default(), Some(reason.clone()))
}

fn plain(action: AuditAction, target: AuditItem) -> Described {
    (action, target, Details::default(), None)
}

pub(crate) fn force_release(ForceRelease { lock, reason, .. }: &ForceRelease) -> Described {
    bare(AuditAction::ForceRelease, AuditItem::Lock(lock.clone()), reason)
}

/// `None` for a request that ends no hold.
pub(crate) fn revocation(request: &RequestRelease) -> Option<Described> {
    let RequestRelease { lock, holder, reason, deadline_ms, revoke, .. } = request;
    let holder = holder.as_ref().map(|(session, _)| session.clone());
    let details = Details::of([AuditItem::Revoked { holder, deadline_ms: *deadline_ms }]);
    let lock = AuditItem::Lock(lock.clone());
    revoke.then(|| (AuditAction::RevokeLock, lock, details, reason.clone()))
}

/// `None` for an acquire of any other hold.
pub(crate) fn durable_hold(acquire: &Acquire) -> Option<Described> {
    let reason = acquire.options.durable.clone()?;
    let details = Details::of([AuditItem::Session(acquire.open.session.clone())]);
    let lock = AuditItem::Lock(acquire.locks.first().clone());
    Some((AuditAction::HoldDurable, lock, details, Some(reason)))
}

pub(crate) fn policy(lock: &LockName, change: &PolicyChange) -> Described {
    let lock = AuditItem::Lock(lock.clone());
    (AuditAction::SetLockPolicy, lock, details_of_policy(change), None)
}

pub(crate) fn end_of_session(session: &SessionName, reason: &Reason) -> Described {
    bare(AuditAction::CloseSession, AuditItem::Session(session.clone()), reason)
}

/// One record has the total of several commands.
pub(crate) fn end_of_sessions(
    subject: &SubjectName,
    sessions: &[(SessionName, SessionId)],
    reason: &Reason,
    total: Option<u64>,
) -> Option<Described> {
    let names = sessions.iter().map(|(name, _)| AuditItem::Session(name.clone()));
    let details = Details::of([AuditItem::SessionCount(total?)].into_iter().chain(names));
    let subject = AuditItem::Subject(subject.clone());
    Some((AuditAction::CloseSessions, subject, details, Some(reason.clone())))
}

pub(crate) fn level(level: FeatureLevel) -> Described {
    plain(AuditAction::SetLevel, AuditItem::Level(level))
}

pub(crate) fn seal(reason: &Reason) -> Described {
    bare(AuditAction::Seal, AuditItem::Cluster, reason)
}

pub(crate) fn unseal() -> Described {
    plain(AuditAction::Unseal, AuditItem::Cluster)
}

pub(crate) fn operation(operation: &NodeOperation) -> Described {
    match operation {
        NodeOperation::Backup { node } => plain(AuditAction::Backup, AuditItem::Node(*node)),
        NodeOperation::TransferLeadership { to } => {
            let to = to.map_or(AuditItem::AnyVoter, AuditItem::Node);
            plain(AuditAction::TransferLeadership, to)
        }
        NodeOperation::SetLog { node, filter, lasts_ms } => {
            let log = AuditItem::LogFilter { filter: filter.clone(), lasts_ms: *lasts_ms };
            (AuditAction::SetNodeLog, AuditItem::Node(*node), Details::of([log]), None)
        }
    }
}

/// `None` for a change that nodes make.
pub(crate) fn membership(change: &MembershipChange) -> Option<Described> {
    let zone = |zone: &Option<_>| zone.clone().map(AuditItem::Zone);
    Some(match change {
        // The id of the new member is larger than every earlier one, and the record has no other name for it.
        MembershipChange::Invite { addresses, zone: named, role, replaces, .. } => {
            let parts = [AuditItem::VotingRole(*role), AuditItem::Http(addresses.http.clone())];
            let replaces = replaces.map(AuditItem::Replaces);
            let details = Details::of(parts.into_iter().chain(zone(named)).chain(replaces));
            (AuditAction::AddMember, AuditItem::Peer(addresses.peer.clone()), details, None)
        }
        MembershipChange::Update { node, addresses, zone: named } => {
            let addresses = addresses.clone().map(AuditItem::Addresses);
            let details = Details::of(addresses.into_iter().chain(zone(named)));
            (AuditAction::UpdateMember, AuditItem::Node(*node), details, None)
        }
        MembershipChange::SetRole { node, role } => {
            let details = Details::of([AuditItem::VotingRole(*role)]);
            (AuditAction::SetMemberRole, AuditItem::Node(*node), details, None)
        }
        MembershipChange::Remove { node, reason } => {
            let (node, reason) = (AuditItem::Node(*node), Some(reason.clone()));
            (AuditAction::RemoveMember, node, Details::default(), reason)
        }
        MembershipChange::Replace { node, replaces } => {
            let role = AuditItem::VotingRole(VotingRole::Voter);
            let details = Details::of([role, AuditItem::Replaces(*replaces)]);
            (AuditAction::SetMemberRole, AuditItem::Node(*node), details, None)
        }
        MembershipChange::Finish { .. } => return None,
    })
}

fn details_of_policy(change: &PolicyChange) -> Details {
    let PolicyChange { limit, order, ageing_ms, lock_delay_ms, cooldown_ms, .. } = change;
    let items = [
        limit.map(PolicyItem::Limit),
        order.map(PolicyItem::Order),
        ageing_ms.map(PolicyItem::AgeingMs),
        lock_delay_ms.map(PolicyItem::LockDelayMs),
        cooldown_ms.map(PolicyItem::CooldownMs),
        change.detect_deadlocks.map(PolicyItem::DeadlockDetection),
        change.shards.map(PolicyItem::Shards),
        change.wait_alarm_ms.map(PolicyItem::WaitAlarmMs),
        change.hold_alarm_ms.map(PolicyItem::HoldAlarmMs),
    ];
    Details::of(items.into_iter().flatten().map(AuditItem::Policy))
}

type WithoutReason = (AuditAction, AuditItem, Details);

pub(crate) fn auth_change(change: &AuthChange) -> Described {
    let (action, target, details) = without_reason(change);
    let reason = if let AuthChange::DenyCertificate { reason, .. } = change {
        Some(reason.clone())
    } else {
        None
    };
    (action, target, details, reason)
}

fn without_reason(change: &AuthChange) -> WithoutReason {
    let none = Details::default;
    match change {
        AuthChange::AddAdministrator { subject, token, mode } => {
            let token = [AuditItem::AccessToken(token.id)];
            let details = Details::of(token.into_iter().chain(mode.map(AuditItem::Mode)));
            (AuditAction::AddAdministrator, AuditItem::Subject(subject.clone()), details)
        }
        AuthChange::SetRole { role, permissions } => {
            let details = Details::of(permissions.iter().cloned().map(AuditItem::Permission));
            (AuditAction::SetRole, AuditItem::Role(role.clone()), details)
        }
        AuthChange::DeleteRole { role } => {
            (AuditAction::DeleteRole, AuditItem::Role(role.clone()), none())
        }
        AuthChange::SetSubject { subject, roles, certificates } => {
            let roles = roles.iter().cloned().map(AuditItem::Role);
            let certificates = certificates.iter().cloned().map(AuditItem::CertificateName);
            let details = Details::of(roles.chain(certificates));
            (AuditAction::SetSubject, AuditItem::Subject(subject.clone()), details)
        }
        AuthChange::DeleteSubject { subject } => {
            (AuditAction::DeleteSubject, AuditItem::Subject(subject.clone()), none())
        }
        AuthChange::AddToken { subject, token } => {
            let details = details_of_token(subject, token);
            (AuditAction::AddAccessToken, AuditItem::AccessToken(token.id), details)
        }
        AuthChange::RotateToken { old, token, old_expires_at } => {
            let expires = AuditItem::ExpiresBy(*old_expires_at);
            let details = Details::of([AuditItem::ReplacedBy(token.id), expires]);
            (AuditAction::RotateAccessToken, AuditItem::AccessToken(*old), details)
        }
        AuthChange::DeleteToken { token } => {
            (AuditAction::DeleteAccessToken, AuditItem::AccessToken(*token), none())
        }
        AuthChange::SetMode(mode) => (AuditAction::SetAuthMode, AuditItem::Mode(*mode), none()),
        AuthChange::DenyCertificate { certificate, .. } => {
            (AuditAction::DenyCertificate, AuditItem::Certificate(certificate.clone()), none())
        }
        AuthChange::AllowCertificate { certificate } => {
            (AuditAction::AllowCertificate, AuditItem::Certificate(certificate.clone()), none())
        }
        AuthChange::SetTokenPolicy(TokenPolicy { default_ttl_ms, max_ttl_ms }) => {
            let ttls = [AuditItem::DefaultTtlMs(*default_ttl_ms), AuditItem::MaxTtlMs(*max_ttl_ms)];
            (AuditAction::SetTokenPolicy, AuditItem::AccessTokens, Details::of(ttls))
        }
        AuthChange::SetNamespace { namespace, quotas } => {
            let namespace = AuditItem::Namespace(namespace.clone());
            (AuditAction::SetNamespace, namespace, details_of_quotas(quotas))
        }
        AuthChange::SetQuotas { subject, quotas } => {
            let target = subject.clone().map_or(AuditItem::OtherSubjects, AuditItem::Subject);
            (AuditAction::SetQuotas, target, details_of_quotas(quotas))
        }
        AuthChange::DeleteNamespace { namespace } => {
            (AuditAction::DeleteNamespace, AuditItem::Namespace(namespace.clone()), none())
        }
    }
}

fn details_of_token(subject: &SubjectName, token: &NewAccessToken) -> Details {
    let until = token.expires_at.map(AuditItem::ExpiresAt);
    Details::of([AuditItem::Subject(subject.clone())].into_iter().chain(until))
}

fn details_of_quotas(quotas: &Quotas) -> Details {
    Details::of(quotas.0.iter().map(|(quota, limit)| AuditItem::Quota(*quota, *limit)))
}
