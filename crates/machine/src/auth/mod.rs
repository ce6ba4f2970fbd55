//! Subjects, roles and access tokens, and the decision whether an actor may execute a command.
//!
//! Every node decides the same, because [`ActorRights`] reads only the state. `apply` checks each command while the mode is
//! [`AuthMode::On`], and front-ends check it before they propose it. Bounds: [`TOKENS_MAX`], [`SUBJECTS_MAX`],
//! [`ROLES_MAX`], [`crate::namespace::NAMESPACES_MAX`], and the constants of [`holdfast_types::Permission`], `RoleName`
//! and `CertificateName`.

mod authorize;
mod change;
pub(crate) mod needed;
pub(crate) mod part;
mod session_names;

use std::sync::Arc;

use holdfast_types::{
    AccessTokenId, AuthMode, CertificateId, CertificateName, NamespaceName, Permission, Quotas,
    Reason, Revision, RoleName, SecretHash, Stamp, SubjectName, TokenPolicy, built_in_role,
};
use imbl::OrdMap;
use serde::{Deserialize, Serialize};

pub use authorize::ActorRights;

/// Access tokens of the cluster.
pub(crate) const TOKENS_MAX: usize = 10_000;
/// Subjects of the cluster.
pub(crate) const SUBJECTS_MAX: usize = 10_000;
/// Denied certificates of the cluster.
pub(crate) const DENIED_MAX: usize = 10_000;
/// Roles of the cluster, without the built-in ones.
pub(crate) const ROLES_MAX: usize = 1_000;

/// The authorization of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Auth {
    pub(crate) mode: AuthMode,
    /// Whether the first administrator was added.
    pub(crate) has_had_administrator: bool,
    /// The last change; 0 before the first.
    pub(crate) changed_in: Revision,
    /// Without the built-in roles.
    pub(crate) roles: OrdMap<RoleName, Arc<[Permission]>>,
    pub(crate) subjects: OrdMap<SubjectName, Arc<SubjectRecord>>,
    pub(crate) tokens: OrdMap<AccessTokenId, Arc<AccessTokenRecord>>,
    pub(crate) namespaces: OrdMap<NamespaceName, Arc<Quotas>>,
    /// The quotas of subjects that have none of their own.
    pub(crate) default_quotas: Arc<Quotas>,
    pub(crate) token_policy: TokenPolicy,
    pub(crate) denied: OrdMap<CertificateId, Arc<CertificateDenial>>,
    /// Invariant: the certificates of the subjects.
    subject_of: OrdMap<CertificateName, SubjectName>,
}

/// A subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubjectRecord {
    /// Sorted, each once.
    pub roles: Vec<RoleName>,
    /// Sorted, each once.
    pub certificates: Vec<CertificateName>,
    /// Those that differ from the default.
    pub quotas: Quotas,
}

/// Why and when a certificate was denied.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CertificateDenial {
    pub reason: Reason,
    pub at: Stamp,
}

/// An access token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessTokenRecord {
    pub subject: SubjectName,
    pub(crate) hash: SecretHash,
    pub created_at: Stamp,
    /// `None`: until it is deleted.
    pub expires_at: Option<Stamp>,
    /// Its whole lifetime when it was created, milliseconds: a rotation shortens only `expires_at`.
    pub ttl_ms: Option<u64>,
}

impl AccessTokenRecord {
    fn is_expired(&self, now: Stamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// The hash of its secret.
    pub fn hash(&self) -> SecretHash {
        self.hash
    }
}

impl Auth {
    /// Whether a subject with the role `admin`, and of no namespace, has a certificate, or an access token that has not
    /// expired.
    fn has_administrator(&self, now: Stamp) -> bool {
        let is_administrator = |name: &SubjectName| {
            self.namespace_of(name).is_none()
                && self.subjects.get(name).is_some_and(|subject| {
                    subject.roles.iter().any(|role| role.as_str() == RoleName::ADMIN)
                })
        };
        let by_certificate = |subject: &SubjectName| is_administrator(subject);
        self.subject_of.values().any(by_certificate)
            || self
                .tokens
                .values()
                .any(|token| !token.is_expired(now) && is_administrator(&token.subject))
    }

    /// The namespace to which a subject belongs.
    pub(crate) fn namespace_of(&self, subject: &SubjectName) -> Option<&NamespaceName> {
        self.namespaces
            .get_key_value(NamespaceName::of_subject(subject))
            .map(|(namespace, _)| namespace)
    }

    /// Replaces a subject. The caller has checked that no other subject has one of its certificates.
    pub(crate) fn set_subject(&mut self, name: SubjectName, subject: SubjectRecord) {
        self.remove_subject(&name);
        for certificate in &subject.certificates {
            self.subject_of.insert(certificate.clone(), name.clone());
        }
        self.subjects.insert(name, Arc::new(subject));
    }

    /// Checks that every token has a subject, every role of a subject exists, and the certificates are indexed.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.changed_in == Revision(0) && *self != Self::default() {
            return Err("the authorization has changed in no revision".to_owned());
        }
        if let Some((id, _)) =
            self.tokens.iter().find(|(_, token)| !self.subjects.contains_key(&token.subject))
        {
            return Err(format!("access token {id} has no subject"));
        }
        let mut certificates = 0;
        for (name, subject) in &self.subjects {
            let is_missing = |role: &&RoleName| {
                built_in_role(role.as_str()).is_none() && !self.roles.contains_key(*role)
            };
            if let Some(role) = subject.roles.iter().find(is_missing) {
                return Err(format!("subject {name} has the role {role}, which does not exist"));
            }
            certificates += subject.certificates.len();
            let is_lost =
                |certificate: &&CertificateName| self.subject_of.get(*certificate) != Some(name);
            if let Some(lost) = subject.certificates.iter().find(is_lost) {
                return Err(format!("certificate {} is not indexed", lost.as_str()));
            }
        }
        if certificates == self.subject_of.len() {
            Ok(())
        } else {
            Err("the index has a certificate of no subject".to_owned())
        }
    }

    /// Deletes all access tokens.
    pub(crate) fn revoke_tokens(&mut self, revision: Revision) {
        if !self.tokens.is_empty() {
            self.tokens = OrdMap::new();
            self.changed_in = revision;
        }
    }

    fn remove_subject(&mut self, name: &SubjectName) -> bool {
        let Some(subject) = self.subjects.remove(name) else { return false };
        for certificate in &subject.certificates {
            self.subject_of.remove(certificate);
        }
        true
    }
}
