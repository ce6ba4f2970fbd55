//! Bodies of subjects, roles and access tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use holdfast_types::{AccessTokenId, CertificateName, NamespaceName, RoleName, SubjectName};

use crate::Rfc3339Time;

/// The authorization of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuthBody {
    /// `off`, `shadow` or `on`.
    pub mode: String,
    /// Whether this node applies the mode `on`, whatever the mode of the cluster is.
    pub required_here: bool,
    /// Whether the first administrator was added.
    pub has_had_administrator: bool,
    /// The lifetimes of new access tokens.
    #[serde(default)]
    pub token_policy: TokenPolicyBody,
    /// Sessions that callers without a credential opened, and that are in use. In the mode `on`, their
    /// renewals are refused, so they end with their TTL.
    pub sessions_without_credential: u64,
    /// Calls that this node refused, or would refuse in the mode `on`; the latest first.
    pub refusals: Vec<RefusalBody>,
}

/// The lifetimes of new access tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenPolicyBody {
    /// The lifetime of a token whose creator names none, milliseconds; absent for the maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl_ms: Option<u64>,
    /// The longest lifetime, milliseconds; absent if there is none, so that tokens may last until they are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ttl_ms: Option<u64>,
}

/// Refused calls of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusalBody {
    /// The caller; absent without a valid credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectName>,
    /// The missing permission, or the problem of the credential.
    pub why: String,
    /// The number of such calls.
    pub count: u64,
    /// The time of the last one.
    pub last_at: Rfc3339Time,
}

/// A new access token. The response is the only place where its secret appears.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IssuedTokenBody {
    /// The access token with its secret.
    pub token: String,
    /// Its id, which is not secret.
    pub id: AccessTokenId,
    /// The subject that it proves.
    pub subject: SubjectName,
    /// When it expires; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Rfc3339Time>,
}

impl std::fmt::Debug for IssuedTokenBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IssuedTokenBody({} of {})", self.id, self.subject)
    }
}

/// The first administrator, and the mode of the authorization from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirstAdministratorBody {
    /// The administrator's access token.
    #[serde(flatten)]
    pub issued: IssuedTokenBody,
    /// `off`, `shadow` or `on`.
    pub mode: String,
    /// As in the response of GET /v1/auth, before the call.
    pub sessions_without_credential: u64,
}

/// Access tokens, by id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccessTokensBody {
    /// The access tokens.
    pub tokens: Vec<AccessTokenBody>,
}

/// An access token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccessTokenBody {
    /// The id.
    pub id: AccessTokenId,
    /// The subject that it proves.
    pub subject: SubjectName,
    /// When it was created.
    pub created_at: Rfc3339Time,
    /// When it expires; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Rfc3339Time>,
    /// The lifetime with which it was created, milliseconds; absent if it had no end. A rotation keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Whether it has expired.
    pub expired: bool,
}

/// The denied certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeniedCertificatesBody {
    /// The certificates.
    pub certificates: Vec<DeniedCertificateBody>,
}

/// A denied certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeniedCertificateBody {
    /// `serial:` or `sha256:`, and hexadecimal digits.
    pub certificate: String,
    /// The reason that the administrator gave.
    pub reason: String,
    /// When it was denied.
    pub denied_at: Rfc3339Time,
}

/// The roles, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RolesBody {
    /// The roles.
    pub roles: Vec<RoleBody>,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleBody {
    /// The role.
    pub role: RoleName,
    /// Its permissions, `KIND VERB PATTERN`.
    pub permissions: Vec<String>,
    /// Whether holdfast defines the role, so that it cannot be changed.
    pub built_in: bool,
}

/// The subjects, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubjectsBody {
    /// The subjects.
    pub subjects: Vec<SubjectBody>,
}

/// A subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubjectBody {
    /// The subject.
    pub subject: SubjectName,
    /// Its roles.
    pub roles: Vec<RoleName>,
    /// The client certificates that prove it.
    pub certificates: Vec<CertificateName>,
}

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallerBody {
    /// The subject; absent without a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectName>,
    /// `access-token`, `certificate` or `none`.
    pub credential: String,
    /// The id of the access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<AccessTokenId>,
    /// When the access token expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Rfc3339Time>,
    /// The roles of the subject.
    pub roles: Vec<RoleName>,
    /// The namespace to which the subject belongs; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespaceName>,
    /// The mode of the authorization on this node: `off`, `shadow` or `on`.
    #[serde(default)]
    pub mode: String,
}

/// Whether a subject has a permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerdictBody {
    /// Whether the subject has it.
    pub allowed: bool,
    /// The asked permission.
    pub asked: String,
    /// The role that gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The permission of the role that gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// The namespace of the subject, if the name lies outside of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_of: Option<NamespaceName>,
}

/// The number of sessions that a call closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClosedSessionsBody {
    /// The number of sessions.
    pub closed_sessions: u64,
}

/// The limits of a subject, and what it uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubjectQuotasBody {
    /// The subject; absent for the limits of subjects without quotas of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<SubjectName>,
    /// The limits, by name. A limit that is missing is unlimited.
    pub quotas: BTreeMap<String, u64>,
    /// What the subject uses of each quota that counts something.
    pub used: BTreeMap<String, u64>,
}

/// The namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamespacesBody {
    /// By name.
    pub namespaces: Vec<NamespaceBody>,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamespaceBody {
    /// The name.
    pub namespace: NamespaceName,
    /// The quotas, by name. A quota that is missing is unlimited.
    pub quotas: BTreeMap<String, u64>,
    /// What the namespace uses of each quota that counts items.
    pub used: BTreeMap<String, u64>,
}
