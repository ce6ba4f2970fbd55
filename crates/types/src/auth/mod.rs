//! Authorization: subjects, their roles and access tokens, and the commands that change them.
//!
//! A *subject* is who calls: a person or a program. It has roles. A role has permissions ([`Permission`]). An access token
//! or a client certificate proves a subject. Everything that no permission allows is denied.

mod credential;
mod permission;
mod right;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::name::{check_controls, check_len};
use crate::{
    LockName, NameError, NamespaceName, Quotas, Reason, RoleName, SessionName, Stamp, SubjectName,
};

pub use credential::{AccessTokenId, CertificateId, NotCertificateId, TokenLifetime, TokenPolicy};
pub use permission::{NamePattern, Permission, PermissionError};
pub use right::Right;

/// The file of a data directory with the proof that a caller owns the directory. The caller writes it, and the node deletes it.
pub const OWNER_PROOF_FILE: &str = "owner-proof";

/// Who proposes a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Actor {
    /// A node of the cluster, which may do everything. No client can be this actor.
    Node,
    /// A caller without a credential. It has the role `anonymous`.
    Anonymous,
    /// A caller with an access token; `apply` looks up the subject of the token.
    Token(AccessTokenId),
    /// A caller with a certificate of this subject.
    Subject(SubjectName),
}

/// What happens to a call that no permission allows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum AuthMode {
    /// It is executed. Only changes of subjects, roles and access tokens need a permission.
    #[default]
    Off,
    /// It is executed, and the node that received it lists it.
    Shadow,
    /// It is rejected.
    On,
}

impl AuthMode {
    pub const ALL: [Self; 3] = [Self::Off, Self::Shadow, Self::On];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::On => "on",
        }
    }
}

/// A new access token. The secret stays with the caller: the log has only its hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NewAccessToken {
    pub id: AccessTokenId,
    pub hash: SecretHash,
    /// `None`: until it is deleted.
    pub expires_at: Option<Stamp>,
}

/// The SHA-256 of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretHash(pub [u8; 32]);

impl SecretHash {
    pub fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

impl std::fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

/// A change of subjects, roles, access tokens or the mode. Append-only: the order of the variants is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthChange {
    /// Gives the role `admin` to a subject, with an access token, and sets the mode. Rejected if the cluster has had an
    /// administrator before, unless a node proposes it.
    AddAdministrator {
        subject: SubjectName,
        token: NewAccessToken,
        mode: Option<AuthMode>,
    },
    /// Creates or replaces a role.
    SetRole {
        role: RoleName,
        /// At most [`Permission::PER_ROLE_MAX`].
        permissions: Vec<Permission>,
    },
    /// Deletes a role, and takes it from its subjects.
    DeleteRole {
        role: RoleName,
    },
    /// Creates or replaces the roles and certificates of a subject.
    SetSubject {
        subject: SubjectName,
        roles: Vec<RoleName>,
        certificates: Vec<CertificateName>,
    },
    /// Deletes a subject and its access tokens.
    DeleteSubject {
        subject: SubjectName,
    },
    /// Creates an access token.
    AddToken {
        subject: SubjectName,
        token: NewAccessToken,
    },
    /// Creates an access token for the subject of another one, which expires at `old_expires_at` or earlier.
    RotateToken {
        old: AccessTokenId,
        token: NewAccessToken,
        old_expires_at: Stamp,
    },
    DeleteToken {
        token: AccessTokenId,
    },
    SetMode(AuthMode),
    /// Registers a namespace, or replaces its quotas.
    SetNamespace {
        namespace: NamespaceName,
        quotas: Quotas,
    },
    /// Deletes a namespace to which nothing belongs.
    DeleteNamespace {
        namespace: NamespaceName,
    },
    /// Replaces the quotas of a subject.
    SetQuotas {
        /// `None`: the quotas of the subjects that have none of their own.
        subject: Option<SubjectName>,
        quotas: Quotas,
    },
    /// Replaces the lifetimes of new access tokens.
    SetTokenPolicy(TokenPolicy),
    /// Denies a certificate on every port, or replaces the reason.
    DenyCertificate {
        certificate: CertificateId,
        reason: Reason,
    },
    /// Ends the denial of a certificate.
    AllowCertificate {
        certificate: CertificateId,
    },
}

/// The name of a client certificate: one of its URIs, or its subject in the form of RFC 2253.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CertificateName(String);

impl CertificateName {
    /// The maximum length, bytes.
    pub const MAX_LEN: usize = 512;
    /// The maximum number for one subject.
    pub const PER_SUBJECT_MAX: usize = 8;

    /// # Errors
    /// [`NameError`] for an empty or long name, or a control character.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        check_len("the name of the certificate", &name, Self::MAX_LEN)?;
        check_controls("the name of the certificate", &name)?;
        Ok(Self(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CertificateName {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl From<CertificateName> for String {
    fn from(name: CertificateName) -> Self {
        name.0
    }
}

/// Why a call is denied, or a change of the authorization rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AuthRejection {
    /// The call needs a credential, and has none.
    NoCredential,
    /// No access token has this id and secret, now.
    UnknownToken,
    /// The access token has expired.
    TokenExpired,
    /// The subject has no permission for the call.
    Forbidden(Box<Forbidden>),
    /// The name of the new session belongs to another subject.
    OtherSubject {
        session: SessionName,
    },
    /// The session belongs to another subject. Clients get the answer of a session that does not exist.
    HiddenSession {
        session: SessionName,
    },
    /// The subject of the session that would receive the lock has no permission to acquire it.
    Receiver {
        session: SessionName,
        lock: LockName,
    },
    /// The cluster has had an administrator: the first one is added only once.
    HasAdministrator,
    /// The change would leave no usable access token or certificate with the role `admin`.
    LastAdministrator,
    /// The call or the mode needs an administrator, and the cluster has had none.
    NoAdministrator,
    NoSubject {
        subject: SubjectName,
    },
    NoRole {
        role: RoleName,
    },
    NoToken {
        token: AccessTokenId,
    },
    /// Another access token has the id.
    TokenExists {
        token: AccessTokenId,
    },
    /// The program defines the role.
    BuiltInRole {
        role: RoleName,
    },
    /// Another subject has the certificate.
    CertificateTaken {
        certificate: CertificateName,
        subject: SubjectName,
    },
    /// The subject belongs to a namespace, and the name does not.
    OtherNamespace(Box<OtherNamespace>),
    NoNamespace {
        namespace: NamespaceName,
    },
    /// The namespace cannot be deleted while anything belongs to it.
    NamespaceInUse {
        namespace: NamespaceName,
        used: Box<NamespaceItems>,
    },
    /// An access token or the default would outlive the maximum.
    TokenLifetime {
        max_ms: u64,
    },
    /// The certificate is not denied.
    NotDenied {
        certificate: CertificateId,
    },
}

/// The items that belong to a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamespaceItems {
    pub subjects: u64,
    pub sessions: u64,
    pub znodes: u64,
    pub recipes: u64,
}

/// A name outside the namespace of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OtherNamespace {
    pub subject: SubjectName,
    pub namespace: NamespaceName,
    pub right: Right,
    /// What the call names; empty for a right without names.
    pub name: String,
}

/// A missing permission.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Forbidden {
    pub subject: SubjectName,
    pub right: Right,
    /// What the call names; empty for a right without names.
    pub name: String,
}

impl Forbidden {
    /// The permission that would allow the call: `lock acquire orders/eu`.
    pub fn needed(&self) -> String {
        let Self { right, name, .. } = self;
        if name.is_empty() { right.to_string() } else { format!("{right} {name}") }
    }
}

/// The roles that the program defines. Each of their rights holds for every name.
pub fn built_in_role(role: &str) -> Option<&'static [Right]> {
    const OPERATOR: [Right; 12] = [
        Right::LockRead,
        Right::LockRequestRelease,
        Right::LockForceRelease,
        Right::LockPolicy,
        Right::RecipeRead,
        Right::SessionClose,
        Right::ClusterRead,
        Right::MetricsRead,
        Right::LockCheck,
        Right::AuditRead,
        Right::ClusterOperate,
        // For the numbers of their calls.
        Right::SessionOpen,
    ];
    const VIEWER: [Right; 5] = [
        Right::LockRead,
        Right::RecipeRead,
        Right::SessionRead,
        Right::ClusterRead,
        Right::MetricsRead,
    ];
    match role {
        RoleName::ADMIN => Some(&Right::ALL),
        "operator" => Some(&OPERATOR),
        "viewer" => Some(&VIEWER),
        "metrics" => Some(&[Right::MetricsRead]),
        "fence-checker" => Some(&[Right::LockCheck]),
        _ => None,
    }
}

/// The names of the roles that the program defines.
pub const BUILT_IN_ROLES: [&str; 5] =
    [RoleName::ADMIN, "operator", "viewer", "metrics", "fence-checker"];

impl RoleName {
    /// The role that may do everything.
    pub const ADMIN: &str = "admin";
    /// The role of callers without a credential.
    pub const ANONYMOUS: &str = "anonymous";
    /// The maximum number of roles of one subject.
    pub const PER_SUBJECT_MAX: usize = 16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_role_is_known_and_the_administrator_has_every_right() {
        for role in BUILT_IN_ROLES {
            assert!(built_in_role(role).is_some() && RoleName::new(role).is_ok(), "{role}");
        }
        assert_eq!(built_in_role(RoleName::ADMIN).unwrap(), Right::ALL);
        assert_eq!(built_in_role(RoleName::ANONYMOUS), None);
    }
}
