//! The authorization in snapshots.

use std::sync::Arc;

use holdfast_types::{
    AccessTokenId, AuthMode, CertificateId, NamespaceName, Permission, Quotas, Revision, RoleName,
    SubjectName, TokenPolicy,
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
    Role(RoleName, Arc<[Permission]>),
    Subject(SubjectName, Arc<SubjectRecord>),
    Token(AccessTokenId, Arc<AccessTokenRecord>),
    Namespace(NamespaceName, Arc<Quotas>),
    Denied(CertificateId, Arc<CertificateDenial>),
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
            Self::Role(_, permissions) => 64 + 64 * permissions.len(),
            Self::Subject(_, subject) => {
                let SubjectRecord { roles, certificates, quotas } = &**subject;
                64 + 32 * roles.len() + 128 * certificates.len() + 16 * quotas.0.len()
            }
            Self::Token(..) => 128,
            Self::Denied(_, denial) => 128 + denial.reason.as_str().len(),
            Self::Namespace(_, quotas) => 64 + 16 * quotas.0.len(),
        }
    }

    pub(crate) fn key(&self) -> AuthKey {
        match self {
            Self::Head { .. } => AuthKey::Head,
            Self::Role(role, _) => AuthKey::Role(role.clone()),
            Self::Subject(subject, _) => AuthKey::Subject(subject.clone()),
            Self::Token(id, _) => AuthKey::Token(*id),
            Self::Namespace(namespace, _) => AuthKey::Namespace(namespace.clone()),
            Self::Denied(certificate, _) => AuthKey::Denied(certificate.clone()),
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
        let roles = self.roles.iter();
        let roles = roles.map(|(role, of)| AuthPart::Role(role.clone(), Arc::clone(of)));
        let subjects = self.subjects.iter();
        let subjects = subjects.map(|(name, of)| AuthPart::Subject(name.clone(), Arc::clone(of)));
        let tokens = self.tokens.iter().map(|(id, of)| AuthPart::Token(*id, Arc::clone(of)));
        let namespaces = self.namespaces.iter();
        let namespaces =
            namespaces.map(|(name, of)| AuthPart::Namespace(name.clone(), Arc::clone(of)));
        let denied = self.denied.iter();
        let denied = denied.map(|(id, of)| AuthPart::Denied(id.clone(), Arc::clone(of)));
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
            AuthPart::Role(role, permissions) => self.roles.insert(role, permissions).is_none(),
            AuthPart::Subject(name, subject) => {
                let is_new = !self.subjects.contains_key(&name);
                self.set_subject(name, Arc::unwrap_or_clone(subject));
                is_new
            }
            AuthPart::Token(id, token) => self.tokens.insert(id, token).is_none(),
            AuthPart::Namespace(name, quotas) => self.namespaces.insert(name, quotas).is_none(),
            AuthPart::Denied(id, denial) => self.denied.insert(id, denial).is_none(),
        }
    }
}
