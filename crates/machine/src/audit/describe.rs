//! Describes commands for the trail. The match is exhaustive: a new command does not compile without its line here.

use holdfast_types::{
    Acquire, AuditAction, AuditItem, AuthChange, Break, Command, MembershipChange, NewAccessToken,
    NodeOperation, PolicyChange, PolicyItem, Quotas, Reason, RequestRelease, SubjectName,
    TokenPolicy, VotingRole,
};

use super::details::Details;

/// The action, its target, its details and its reason.
pub(super) type Described = (AuditAction, AuditItem, Details, Option<Reason>);

/// `None` for most commands.
pub(super) fn described(command: &Command) -> Option<Described> {
    let bare = |action, target, reason: &Reason| {
        (action, target, Details::default(), Some(reason.clone()))
    };
    let plain = |action, target| (action, target, Details::default(), None);
    match command {
        Command::Break(Break { lock, reason, .. }) => {
            Some(bare(AuditAction::BreakLock, AuditItem::Lock(lock.clone()), reason))
        }
        Command::RequestRelease(request) if request.revoke => {
            let RequestRelease { lock, holder, reason, deadline_ms, .. } = request;
            let holder = holder.as_ref().map(|(session, _)| session.clone());
            let details = Details::of([AuditItem::Revoked { holder, deadline_ms: *deadline_ms }]);
            let lock = AuditItem::Lock(lock.clone());
            Some((AuditAction::RevokeLock, lock, details, reason.clone()))
        }
        Command::Acquire(Acquire { locks, open, options, .. }) if options.durable.is_some() => {
            let details = Details::of([AuditItem::Session(open.session.clone())]);
            let lock = AuditItem::Lock(locks.first().clone());
            Some((AuditAction::HoldDurable, lock, details, options.durable.clone()))
        }
        Command::SetPolicy { lock, change } => {
            let lock = AuditItem::Lock(lock.clone());
            Some((AuditAction::SetLockPolicy, lock, details_of_policy(change), None))
        }
        Command::EndSession { session, reason, .. } => {
            Some(bare(AuditAction::CloseSession, AuditItem::Session(session.clone()), reason))
        }
        Command::EndSessions { subject, sessions, reason, total: Some(total) } => {
            let names = sessions.iter().map(|(name, _)| AuditItem::Session(name.clone()));
            let details = Details::of([AuditItem::SessionCount(*total)].into_iter().chain(names));
            let subject = AuditItem::Subject(subject.clone());
            Some((AuditAction::CloseSessions, subject, details, Some(reason.clone())))
        }
        Command::Auth(AuthChange::DenyCertificate { certificate, reason }) => {
            let certificate = AuditItem::Certificate(certificate.clone());
            Some(bare(AuditAction::DenyCertificate, certificate, reason))
        }
        Command::RecordOperation(operation) => Some(without_reason(described_operation(operation))),
        Command::Auth(change) => Some(without_reason(described_change(change))),
        Command::Membership(change) => described_membership(change),
        Command::SetLevel(level) => Some(plain(AuditAction::SetLevel, AuditItem::Level(*level))),
        Command::Seal { reason } => Some(bare(AuditAction::Seal, AuditItem::Cluster, reason)),
        Command::Unseal { .. } => Some(plain(AuditAction::Unseal, AuditItem::Cluster)),
        Command::As { command, .. } | Command::Once { command, .. } => described(command),
        Command::RequestRelease(_)
        | Command::EndSessions { .. }
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

type WithoutReason = (AuditAction, AuditItem, Details);

fn without_reason((action, target, details): WithoutReason) -> Described {
    (action, target, details, None)
}

fn described_operation(operation: &NodeOperation) -> WithoutReason {
    match operation {
        NodeOperation::Backup { node } => {
            (AuditAction::Backup, AuditItem::Node(*node), Details::default())
        }
        NodeOperation::TransferLeadership { to } => {
            let to = to.map_or(AuditItem::AnyVoter, AuditItem::Node);
            (AuditAction::TransferLeadership, to, Details::default())
        }
        NodeOperation::SetLog { node, filter, lasts_ms } => {
            let log = AuditItem::LogFilter { filter: filter.clone(), lasts_ms: *lasts_ms };
            (AuditAction::SetNodeLog, AuditItem::Node(*node), Details::of([log]))
        }
    }
}

fn described_membership(change: &MembershipChange) -> Option<Described> {
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
    ];
    Details::of(items.into_iter().flatten().map(AuditItem::Policy))
}

fn described_change(change: &AuthChange) -> WithoutReason {
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
