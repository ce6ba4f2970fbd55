//! What an audit record says was done, and its class.

use serde::{Deserialize, Serialize};

/// A class of records. Each class has its own bound and its own chain of hashes, so no record evicts one of another class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AuditClass {
    /// Subjects, roles, access tokens, namespaces, members, levels, seals and restores.
    Administration,
    /// Holds and waits that another caller ended.
    Intervention,
    /// Sessions that another caller closed, backups, transfers of leadership, and filters of logs.
    Operation,
    /// Policies of locks.
    Policy,
}

/// What was done. Append-only: the order of the variants is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AuditAction {
    /// Holders or waiters were removed from a lock.
    #[serde(rename = "force-release")]
    ForceRelease,
    /// Holders of a lock lose it at a deadline.
    RevokeLock,
    SetLockPolicy,
    /// The session of another client was closed.
    CloseSession,
    AddAdministrator,
    SetRole,
    DeleteRole,
    SetSubject,
    DeleteSubject,
    AddAccessToken,
    RotateAccessToken,
    DeleteAccessToken,
    /// The mode of the authorization was set.
    SetAuthMode,
    SetNamespace,
    DeleteNamespace,
    AddMember,
    UpdateMember,
    SetMemberRole,
    RemoveMember,
    /// The cluster was restored from a backup or from one surviving node.
    Restored,
    /// The feature level was raised or lowered.
    SetLevel,
    /// The cluster was sealed.
    Seal,
    Unseal,
    /// The quotas of a subject, or of all subjects, were set.
    SetQuotas,
    /// The sessions of a subject were closed.
    CloseSessions,
    /// The access list of a lock's znode was set.
    SetLockAcl,
    /// The lifetimes of new access tokens were set.
    SetTokenPolicy,
    /// A node was asked for a backup of everything.
    Backup,
    /// Another voter was asked to lead.
    TransferLeadership,
    /// The filter of a node's log was changed.
    SetNodeLog,
    DenyCertificate,
    AllowCertificate,
    /// A durable hold was acquired, or queued for.
    HoldDurable,
}

impl AuditClass {
    pub const ALL: [Self; 4] =
        [Self::Administration, Self::Intervention, Self::Operation, Self::Policy];

    /// The word in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Administration => "administration",
            Self::Intervention => "intervention",
            Self::Operation => "operation",
            Self::Policy => "policy",
        }
    }
}

impl AuditAction {
    pub const ALL: [Self; 33] = [
        Self::ForceRelease,
        Self::RevokeLock,
        Self::SetLockPolicy,
        Self::CloseSession,
        Self::AddAdministrator,
        Self::SetRole,
        Self::DeleteRole,
        Self::SetSubject,
        Self::DeleteSubject,
        Self::AddAccessToken,
        Self::RotateAccessToken,
        Self::DeleteAccessToken,
        Self::SetAuthMode,
        Self::SetNamespace,
        Self::DeleteNamespace,
        Self::AddMember,
        Self::UpdateMember,
        Self::SetMemberRole,
        Self::RemoveMember,
        Self::Restored,
        Self::SetLevel,
        Self::Seal,
        Self::Unseal,
        Self::SetQuotas,
        Self::CloseSessions,
        Self::SetLockAcl,
        Self::SetTokenPolicy,
        Self::Backup,
        Self::TransferLeadership,
        Self::SetNodeLog,
        Self::DenyCertificate,
        Self::AllowCertificate,
        Self::HoldDurable,
    ];

    pub const fn class(self) -> AuditClass {
        match self {
            Self::ForceRelease | Self::RevokeLock => AuditClass::Intervention,
            Self::CloseSession
            | Self::CloseSessions
            | Self::HoldDurable
            | Self::Backup
            | Self::TransferLeadership
            | Self::SetNodeLog => AuditClass::Operation,
            Self::SetLockPolicy | Self::SetLockAcl => AuditClass::Policy,
            Self::AddAdministrator
            | Self::SetRole
            | Self::DeleteRole
            | Self::SetSubject
            | Self::DeleteSubject
            | Self::AddAccessToken
            | Self::RotateAccessToken
            | Self::DeleteAccessToken
            | Self::SetAuthMode
            | Self::SetTokenPolicy
            | Self::DenyCertificate
            | Self::AllowCertificate
            | Self::SetNamespace
            | Self::DeleteNamespace
            | Self::AddMember
            | Self::UpdateMember
            | Self::SetMemberRole
            | Self::RemoveMember
            | Self::Restored
            | Self::SetLevel
            | Self::Seal
            | Self::Unseal
            | Self::SetQuotas => AuditClass::Administration,
        }
    }

    /// The word in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ForceRelease => "force-release",
            Self::RevokeLock => "revoke-lock",
            Self::SetLockPolicy => "set-lock-policy",
            Self::CloseSession => "close-session",
            Self::AddAdministrator => "add-administrator",
            Self::SetRole => "set-role",
            Self::DeleteRole => "delete-role",
            Self::SetSubject => "set-subject",
            Self::DeleteSubject => "delete-subject",
            Self::AddAccessToken => "add-access-token",
            Self::RotateAccessToken => "rotate-access-token",
            Self::DeleteAccessToken => "delete-access-token",
            Self::SetAuthMode => "set-auth-mode",
            Self::SetNamespace => "set-namespace",
            Self::DeleteNamespace => "delete-namespace",
            Self::AddMember => "add-member",
            Self::UpdateMember => "update-member",
            Self::SetMemberRole => "set-member-role",
            Self::RemoveMember => "remove-member",
            Self::Restored => "restored",
            Self::SetLevel => "set-level",
            Self::Seal => "seal",
            Self::Unseal => "unseal",
            Self::SetQuotas => "set-quotas",
            Self::CloseSessions => "close-sessions",
            Self::SetLockAcl => "set-lock-acl",
            Self::SetTokenPolicy => "set-token-policy",
            Self::Backup => "backup",
            Self::TransferLeadership => "transfer-leadership",
            Self::SetNodeLog => "set-node-log",
            Self::DenyCertificate => "deny-certificate",
            Self::AllowCertificate => "allow-certificate",
            Self::HoldDurable => "hold-durable",
        }
    }
}
