//! The audit trail: changes by operators and administrators.
//!
//! Each record has the hash of its content and of the record of its class before it, so no record can be changed or
//! removed unnoticed (Haber and Stornetta, "How to time-stamp a digital document", 1991).

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::{AccessTokenId, Actor, Reason, Revision, Stamp, SubjectName};

/// A change that `apply` has executed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditRecord {
    /// From 1, without gaps over all classes.
    pub number: u64,
    pub revision: Revision,
    pub at: Stamp,
    /// `None` without a credential, and for [`Credential::Node`].
    pub subject: Option<SubjectName>,
    pub credential: Credential,
    pub action: AuditAction,
    /// The lock, session, role, subject, access token or member that the action names.
    pub target: String,
    /// In one line, at most [`AuditRecord::DETAIL_MAX`] bytes.
    pub detail: String,
    /// The reason that the caller gave.
    pub reason: Option<Reason>,
    /// See [`AuditRecord::hash_after`].
    pub hash: AuditHash,
}

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

/// The records of a class that the cluster no longer keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AuditEvicted {
    /// At least 1, unless nothing was evicted.
    pub count: u64,
    /// The number of the newest of them.
    pub number: u64,
    /// The time of the newest of them.
    pub at: Stamp,
    /// The time of the last eviction.
    pub evicted_at: Stamp,
}

/// How the caller proved its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Credential {
    None,
    AccessToken(AccessTokenId),
    Certificate,
    /// The change came from the machine of a node, such as a recovery.
    Node,
}

/// What was done. Append-only: the order of the variants is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AuditAction {
    /// Holders or waiters were removed from a lock.
    #[serde(rename = "force-release")]
    BreakLock,
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
}

/// SHA-256. In JSON, 64 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditHash(pub [u8; 32]);

impl AuditRecord {
    /// The maximum length of the detail, bytes.
    pub const DETAIL_MAX: usize = 1_024;

    /// The SHA-256 over ten lines, each ended by a line feed: the hash of the record of its class before it (64
    /// zeros before the first), the number, the revision, the stamp, the subject, the credential, the action, the target, the detail and
    /// the reason. The action `force-release` counts as `break-lock`. An absent value is an empty line. No value contains a line feed.
    pub fn hash_after(&self, previous: AuditHash) -> AuditHash {
        let Self { number, revision, at, action, target, detail, .. } = self;
        let subject = self.subject.as_ref().map_or("", SubjectName::as_str);
        let reason = self.reason.as_ref().map_or("", Reason::as_str);
        let (credential, action) = (self.credential, action.hashed_word());
        let text = format!(
            "{previous}\n{number}\n{revision}\n{}\n{subject}\n{credential}\n{action}\n{target}\n{detail}\n{reason}\n",
            at.0
        );
        AuditHash(Sha256::digest(text).into())
    }
}

impl Credential {
    pub fn of(actor: &Actor) -> Self {
        match actor {
            Actor::Node => Self::Node,
            Actor::Anonymous => Self::None,
            Actor::Token(token) => Self::AccessToken(*token),
            Actor::Subject(_) => Self::Certificate,
        }
    }

    /// The word in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::AccessToken(_) => "access-token",
            Self::Certificate => "certificate",
            Self::Node => "node",
        }
    }

    /// The access token.
    pub const fn token(self) -> Option<AccessTokenId> {
        match self {
            Self::AccessToken(token) => Some(token),
            Self::None | Self::Certificate | Self::Node => None,
        }
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        self.token().map_or(Ok(()), |token| write!(f, " {token}"))
    }
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
    pub const ALL: [Self; 32] = [
        Self::BreakLock,
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
    ];

    pub const fn class(self) -> AuditClass {
        match self {
            Self::BreakLock | Self::RevokeLock => AuditClass::Intervention,
            Self::CloseSession
            | Self::CloseSessions
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

    /// The word in the hash of a record. It never changes: all nodes compute the same hashes.
    const fn hashed_word(self) -> &'static str {
        if matches!(self, Self::BreakLock) { "break-lock" } else { self.as_str() }
    }

    /// The word in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BreakLock => "force-release",
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
        }
    }
}

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text for people, 32 bytes in snapshots.
impl Serialize for AuditHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for AuditHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return <[u8; 32]>::deserialize(deserializer).map(Self);
        }
        let text = String::deserialize(deserializer)?;
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let digit =
            |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|[high, low]| Some(digit(*high)? * 16 + digit(*low)?)).collect();
        let hash = bytes.filter(|_| rest.is_empty()).and_then(|bytes| bytes.try_into().ok());
        hash.map(Self).ok_or_else(|| D::Error::custom("not 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> AuditRecord {
        AuditRecord {
            number: 1,
            revision: Revision(7),
            at: Stamp(1_000),
            subject: Some(SubjectName::new("ops").unwrap()),
            credential: Credential::AccessToken(AccessTokenId(1)),
            action: AuditAction::BreakLock,
            target: "orders".to_owned(),
            detail: "ended the hold of 'web1' with token 3".to_owned(),
            reason: Some(Reason::new("stuck").unwrap()),
            hash: AuditHash::default(),
        }
    }

    /// The expected value is the output of `printf '%s\n' … | sha256sum`.
    #[test]
    fn the_hash_is_the_sha_256_of_ten_lines() {
        let hash = record().hash_after(AuditHash::default());
        assert_eq!(
            hash.to_string(),
            "886be0fe3d1606c314f2a6c58ae8746d2037a46dc1fd7a0910cfa2efa2681166"
        );
    }

    #[test]
    fn every_field_changes_the_hash() {
        let first = record();
        let subject = SubjectName::new("dev").unwrap();
        let changed = [
            AuditRecord { number: 2, ..first.clone() },
            AuditRecord { revision: Revision(8), ..first.clone() },
            AuditRecord { at: Stamp(1_001), ..first.clone() },
            AuditRecord { subject: Some(subject), ..first.clone() },
            AuditRecord { credential: Credential::Certificate, ..first.clone() },
            AuditRecord { action: AuditAction::RevokeLock, ..first.clone() },
            AuditRecord { target: "order".to_owned(), ..first.clone() },
            AuditRecord { detail: String::new(), ..first.clone() },
            AuditRecord { reason: None, ..first.clone() },
        ];
        let mut hashes: Vec<_> = changed.iter().chain([&first]).collect::<Vec<_>>();
        hashes.sort_unstable_by_key(|record| record.hash_after(AuditHash::default()));
        hashes.dedup_by_key(|record| record.hash_after(AuditHash::default()));
        assert_eq!(hashes.len(), 10);
        assert_ne!(first.hash_after(AuditHash([1; 32])), first.hash_after(AuditHash::default()));
    }
}
