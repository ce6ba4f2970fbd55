//! The authorization in snapshots.

use std::sync::Arc;

use holdfast_types::{
    AccessTokenId, AuthMode, CertificateId, CertificateName, NamespaceName, NewAccessToken,
    Permission, Quotas, Reason, Revision, RoleName, Stamp, SubjectName, TokenPolicy,
};
use serde::{Deserialize, Serialize};

use super::{AccessTokenRecord, Auth, CertificateDenial, SubjectRecord};

/// One item of the authorization. The order of the variants and fields is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum AuthPart {
    /// The first item.
    Head {
        mode: AuthMode,
        has_had_administrator: bool,
        changed_in: Revision,
        default_quotas: Quotas,
        token_policy: TokenPolicy,
    },
    Role {
        role: RoleName,
        permissions: Vec<Permission>,
    },
    Subject {
        subject: SubjectName,
        roles: Vec<RoleName>,
        certificates: Vec<CertificateName>,
        quotas: Quotas,
    },
    Token {
        subject: SubjectName,
        created_at: Stamp,
        token: NewAccessToken,
        ttl_ms: Option<u64>,
    },
    Namespace {
        namespace: NamespaceName,
        quotas: Quotas,
    },
    Denied {
        certificate: CertificateId,
        reason: Reason,
        at: Stamp,
    },
}

/// The position of an item in the order of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AuthKey {
    Head,
    Role(RoleName),
    Subject(SubjectName),
    Token(AccessTokenId),
    Namespace(NamespaceName),
    Denied(CertificateId),
}

impl AuthPart {
    /// The approximate size in bytes.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Head { default_quotas, .. } => 16 + 16 * default_quotas.0.len(),
            Self::Role { permissions, .. } => 64 + 64 * permissions.len(),
            Self::Subject { roles, certificates, quotas, .. } => {
                64 + 32 * roles.len() + 128 * certificates.len() + 16 * quotas.0.len()
            }
            Self::Token { .. } => 128,
            Self::Denied { reason, .. } => 128 + reason.as_str().len(),
            Self::Namespace { quotas, .. } => 64 + 16 * quotas.0.len(),
        }
    }

    pub(crate) fn key(&self) -> AuthKey {
        match self {
            Self::Head { .. } => AuthKey::Head,
            Self::Role { role, .. } => AuthKey::Role(role.clone()),
            Self::Subject { subject, .. } => AuthKey::Subject(subject.clone()),
            Self::Token { token, .. } => AuthKey::Token(token.id),
            Self::Namespace { namespace, .. } => AuthKey::Namespace(namespace.clone()),
            Self::Denied { certificate, .. } => AuthKey::Denied(certificate.clone()),
        }
    }
}

impl Auth {
    /// The items after a key. Nothing if the authorization never changed.
    pub(crate) fn parts_after(&self, after: Option<&AuthKey>) -> impl Iterator<Item = AuthPart> {
        let head = AuthPart::Head {
            mode: self.mode,
            has_had_administrator: self.has_had_administrator,
            changed_in: self.changed_in,
            default_quotas: (*self.default_quotas).clone(),
            token_policy: self.token_policy,
        };
        let head = (self.changed_in > Revision(0)).then_some(head);
        let roles = self.roles.iter().map(|(role, permissions)| AuthPart::Role {
            role: role.clone(),
            permissions: permissions.to_vec(),
        });
        let subjects = self.subjects.iter().map(|(subject, record)| AuthPart::Subject {
            subject: subject.clone(),
            roles: record.roles.clone(),
            certificates: record.certificates.clone(),
            quotas: record.quotas.clone(),
        });
        let tokens = self.tokens.iter().map(|(id, token)| AuthPart::Token {
            subject: token.subject.clone(),
            created_at: token.created_at,
            token: NewAccessToken { id: *id, hash: token.hash, expires_at: token.expires_at },
            ttl_ms: token.ttl_ms,
        });
        let namespaces = self.namespaces.iter().map(|(namespace, quotas)| AuthPart::Namespace {
            namespace: namespace.clone(),
            quotas: (**quotas).clone(),
        });
        let denied = self.denied.iter().map(|(certificate, denial)| AuthPart::Denied {
            certificate: certificate.clone(),
            reason: denial.reason.clone(),
            at: denial.at,
        });
        let after = after.cloned();
        let parts = head.into_iter().chain(roles).chain(subjects).chain(tokens).chain(namespaces);
        let parts = parts.chain(denied);
        parts.filter(move |part| after.as_ref().is_none_or(|after| part.key() > *after))
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        let head = usize::from(self.changed_in > Revision(0));
        let subjects = self.subjects.len() + self.tokens.len() + self.namespaces.len();
        head + self.roles.len() + subjects + self.denied.len()
    }

    /// Adds an item of a snapshot. Returns false if it was there.
    pub(crate) fn restore(&mut self, part: AuthPart) -> bool {
        match part {
            AuthPart::Head {
                mode,
                has_had_administrator,
                changed_in,
                default_quotas,
                token_policy,
            } => {
                let is_new = self.changed_in == Revision(0);
                (self.mode, self.changed_in) = (mode, changed_in);
                self.has_had_administrator = has_had_administrator;
                self.default_quotas = Arc::new(default_quotas);
                self.token_policy = token_policy;
                is_new
            }
            AuthPart::Role { role, permissions } => {
                self.roles.insert(role, permissions.into()).is_none()
            }
            AuthPart::Subject { subject, roles, certificates, quotas } => {
                let is_new = !self.subjects.contains_key(&subject);
                self.set_subject(subject, SubjectRecord { roles, certificates, quotas });
                is_new
            }
            AuthPart::Token { subject, created_at, token, ttl_ms } => {
                let NewAccessToken { id, hash, expires_at } = token;
                let token = AccessTokenRecord { subject, hash, created_at, expires_at, ttl_ms };
                self.tokens.insert(id, Arc::new(token)).is_none()
            }
            AuthPart::Namespace { namespace, quotas } => {
                self.namespaces.insert(namespace, Arc::new(quotas)).is_none()
            }
            AuthPart::Denied { certificate, reason, at } => {
                let denial = Arc::new(CertificateDenial { reason, at });
                self.denied.insert(certificate, denial).is_none()
            }
        }
    }
}
