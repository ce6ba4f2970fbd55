//! Describes commands for the trail. The match is exhaustive: a new command does not compile without its line here.
//!
//! Times are written as times, not as numbers.

use holdfast_types::{
    AuditAction, AuthChange, Break, Command, MembershipChange, NewAccessToken, NodeOperation,
    Permission, PolicyChange, Quotas, Reason, RequestRelease, SubjectName, TokenPolicy,
    format_time,
};

use super::detail::Detail;

/// The action, its target, its detail and its reason.
pub(super) type Described = (AuditAction, String, Detail, Option<Reason>);

/// `None` for most commands.
pub(super) fn described(command: &Command) -> Option<Described> {
    let of_cluster =
        |action, reason| Some((action, "cluster".to_owned(), Detail::default(), reason));
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
        Command::EndSessions { subject, sessions, reason, total: Some(total) } => {
            let names = sessions.iter().map(|(name, _)| name.to_string());
            let detail = Detail::of([format!("{total} sessions")].into_iter().chain(names));
            let reason = Some(reason.clone());
            Some((AuditAction::CloseSessions, subject.to_string(), detail, reason))
        }
        Command::Auth(AuthChange::DenyCertificate { certificate, reason }) => {
            let (action, reason) = (AuditAction::DenyCertificate, Some(reason.clone()));
            Some((action, certificate.to_string(), Detail::default(), reason))
        }
        Command::RecordOperation(operation) => {
            let (action, target, detail) = described_operation(operation);
            Some((action, target, detail, None))
        }
        Command::Auth(change) => {
            let (action, target, detail) = described_change(change);
            Some((action, target, detail, None))
        }
        Command::Membership(change) => described_membership(change),
        Command::SetLevel(level) => {
            Some((AuditAction::SetLevel, level.to_string(), Detail::default(), None))
        }
        Command::Seal { reason } => of_cluster(AuditAction::Seal, Some(reason.clone())),
        Command::Unseal { .. } => of_cluster(AuditAction::Unseal, None),
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

fn described_operation(operation: &NodeOperation) -> (AuditAction, String, Detail) {
    match operation {
        NodeOperation::Backup { node } => {
            (AuditAction::Backup, format!("node {node}"), Detail::default())
        }
        NodeOperation::TransferLeadership { to } => {
            let to = to.map_or_else(|| "a voter".to_owned(), |node| format!("node {node}"));
            (AuditAction::TransferLeadership, to, Detail::default())
        }
        NodeOperation::SetLog { node, filter, lasts_ms } => {
            let detail = filter.as_ref().map(|filter| format!("{filter} for {lasts_ms} ms"));
            let detail = detail.unwrap_or_else(|| "the configured filter".to_owned());
            (AuditAction::SetNodeLog, format!("node {node}"), Detail::of([detail]))
        }
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
        let until = token.expires_at.map(|at| format!("expires at {}", format_time(at)));
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
                format!("expires at {} or earlier", format_time(*old_expires_at)),
            ]);
            (AuditAction::RotateAccessToken, old.to_string(), detail)
        }
        AuthChange::DeleteToken { token } => {
            (AuditAction::DeleteAccessToken, token.to_string(), Detail::default())
        }
        AuthChange::SetMode(mode) => {
            (AuditAction::SetAuthMode, mode.as_str().to_owned(), Detail::default())
        }
        AuthChange::DenyCertificate { certificate, .. } => {
            (AuditAction::DenyCertificate, certificate.to_string(), Detail::default())
        }
        AuthChange::AllowCertificate { certificate } => {
            (AuditAction::AllowCertificate, certificate.to_string(), Detail::default())
        }
        AuthChange::SetTokenPolicy(TokenPolicy { default_ttl_ms, max_ttl_ms }) => {
            let shown = |name: &str, ms: &Option<u64>| match ms {
                Some(ms) => format!("{name} {ms} ms"),
                None => format!("{name} none"),
            };
            let detail =
                Detail::of([shown("default", default_ttl_ms), shown("maximum", max_ttl_ms)]);
            (AuditAction::SetTokenPolicy, "tokens".to_owned(), detail)
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
