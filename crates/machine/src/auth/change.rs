//! The commands that change subjects, roles, access tokens and the mode.

use std::sync::Arc;

use holdfast_types::{
    AccessTokenId, Actor, AuthChange, AuthMode, AuthRejection, Bound, CertificateId,
    CertificateName, Event, NewAccessToken, OtherNamespace, OutOfBounds, Outcome, Permission,
    QuotaKind, Quotas, Rejection, Reply, Right, RoleName, SessionId, Stamp, SubjectName,
    built_in_role,
};

use super::{
    AccessTokenRecord, Auth, CertificateDenial, DENIED_MAX, ROLES_MAX, SUBJECTS_MAX, SubjectRecord,
    TOKENS_MAX,
};
use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::namespace::NAMESPACES_MAX;

/// How far the clock of the node that computed an expiry may be ahead of the log's time, milliseconds.
const PROPOSAL_MAX_MS: u64 = 60_000;

impl Machine {
    /// Executes a change, unless it would remove the last administrator.
    pub(crate) fn change_auth(
        &mut self,
        change: AuthChange,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        // The maps are persistent: the copy costs O(1).
        let mut auth = self.auth.clone();
        let (mut new, mut deleted) = (None, None);
        if let AuthChange::SetNamespace { namespace, .. } = &change {
            new = (!auth.namespaces.contains_key(namespace)).then(|| namespace.clone());
        } else if let AuthChange::DeleteNamespace { namespace } = &change {
            self.check_unused(namespace)?;
            deleted = Some(namespace.clone());
        }
        auth.change(change, &ctx.actor, ctx.now)?;
        if self.auth.has_administrator(ctx.now) && !auth.has_administrator(ctx.now) {
            return Err(AuthRejection::LastAdministrator.into());
        }
        if let Some(namespace) = new {
            self.start_namespace(&namespace)?;
        }
        if let Some(namespace) = deleted {
            self.stop_namespace(&namespace);
        }
        auth.changed_in = ctx.revision;
        self.auth = auth;
        ctx.emit(Event::AuthChanged);
        let (newest, _) = self.sessions.counters();
        Ok(Reply::AuthChanged { newest_session: SessionId(newest) })
    }
}

impl Auth {
    fn change(&mut self, change: AuthChange, actor: &Actor, now: Stamp) -> Result<(), Rejection> {
        match change {
            AuthChange::AddAdministrator { subject, token, mode } => {
                if self.has_had_administrator && *actor != Actor::Node {
                    return Err(AuthRejection::HasAdministrator.into());
                }
                self.add_administrator(subject.clone())?;
                self.add_token(subject, &token, now)?;
                self.mode = mode.unwrap_or(self.mode);
                Ok(())
            }
            AuthChange::SetRole { role, permissions } => self.set_role(role, permissions),
            AuthChange::DeleteRole { role } => self.delete_role(&role),
            AuthChange::SetSubject { subject, roles, certificates } => {
                self.replace_subject(subject, roles, certificates)
            }
            AuthChange::DeleteSubject { subject } => {
                if !self.remove_subject(&subject) {
                    return Err(AuthRejection::NoSubject { subject }.into());
                }
                self.remove_tokens(|token| token.subject == subject);
                Ok(())
            }
            AuthChange::AddToken { subject, token } => {
                if !self.subjects.contains_key(&subject) {
                    return Err(AuthRejection::NoSubject { subject }.into());
                }
                self.add_token(subject, &token, now)
            }
            AuthChange::RotateToken { old, token, old_expires_at } => {
                self.rotate_token(old, &token, old_expires_at, now)
            }
            AuthChange::DeleteToken { token } => match self.tokens.remove(&token) {
                Some(_) => Ok(()),
                None => Err(AuthRejection::NoToken { token }.into()),
            },
            AuthChange::SetMode(mode) => self.set_mode(mode, now),
            AuthChange::DenyCertificate { certificate, reason } => {
                self.deny(certificate, CertificateDenial { reason, at: now })
            }
            AuthChange::AllowCertificate { certificate } => {
                match self.denied.remove(&certificate) {
                    Some(_) => Ok(()),
                    None => Err(AuthRejection::NotDenied { certificate }.into()),
                }
            }
            AuthChange::SetTokenPolicy(policy) => {
                if let Some(max_ms) = policy.max_ttl_ms.filter(|_| policy.is_contradictory()) {
                    return Err(AuthRejection::TokenLifetime { max_ms }.into());
                }
                self.token_policy = policy;
                Ok(())
            }
            AuthChange::SetNamespace { namespace, quotas } => {
                if !self.namespaces.contains_key(&namespace) {
                    within(Bound::Namespaces, self.namespaces.len() + 1, NAMESPACES_MAX)?;
                }
                check_quotas(&quotas, &QuotaKind::OF_NAMESPACE)?;
                self.namespaces.insert(namespace, Arc::new(quotas));
                Ok(())
            }
            AuthChange::DeleteNamespace { namespace } => {
                self.namespaces.remove(&namespace);
                Ok(())
            }
            AuthChange::SetQuotas { subject, quotas } => self.set_quotas(subject, quotas),
        }
    }

    fn set_mode(&mut self, mode: AuthMode, now: Stamp) -> Result<(), Rejection> {
        if mode == AuthMode::On && !self.has_administrator(now) {
            return Err(AuthRejection::NoAdministrator.into());
        }
        self.mode = mode;
        Ok(())
    }

    fn deny(
        &mut self,
        certificate: CertificateId,
        denial: CertificateDenial,
    ) -> Result<(), Rejection> {
        if !self.denied.contains_key(&certificate) {
            within(Bound::DeniedCertificates, self.denied.len() + 1, DENIED_MAX)?;
        }
        self.denied.insert(certificate, Arc::new(denial));
        Ok(())
    }

    fn set_quotas(
        &mut self,
        subject: Option<SubjectName>,
        quotas: Quotas,
    ) -> Result<(), Rejection> {
        check_quotas(&quotas, &QuotaKind::OF_SUBJECT)?;
        match subject {
            None => self.default_quotas = Arc::new(quotas),
            Some(subject) => match self.subjects.get_mut(&subject).map(Arc::make_mut) {
                Some(known) => known.quotas = quotas,
                None => return Err(AuthRejection::NoSubject { subject }.into()),
            },
        }
        Ok(())
    }

    /// Gives a subject the role `admin`, in addition to its other roles.
    fn add_administrator(&mut self, name: SubjectName) -> Result<(), Rejection> {
        if let Some(namespace) = self.namespace_of(&name).cloned() {
            let (subject, right, name) = (name, Right::AuthManage, String::new());
            let outside = OtherNamespace { subject, namespace, right, name };
            return Err(AuthRejection::OtherNamespace(Box::new(outside)).into());
        }
        let mut subject =
            self.subjects.get(&name).map_or_else(SubjectRecord::default, |s| (**s).clone());
        let admin = RoleName::admin();
        if !subject.roles.contains(&admin) {
            subject.roles.push(admin);
        }
        let SubjectRecord { roles, certificates, .. } = subject;
        self.has_had_administrator = true;
        self.replace_subject(name, roles, certificates)
    }

    fn set_role(
        &mut self,
        role: RoleName,
        mut permissions: Vec<Permission>,
    ) -> Result<(), Rejection> {
        if built_in_role(role.as_str()).is_some() {
            return Err(AuthRejection::BuiltInRole { role }.into());
        }
        permissions.sort_unstable();
        permissions.dedup();
        within(Bound::Permissions, permissions.len(), Permission::PER_ROLE_MAX)?;
        if !self.roles.contains_key(&role) {
            within(Bound::Roles, self.roles.len() + 1, ROLES_MAX)?;
        }
        self.roles.insert(role, permissions.into());
        Ok(())
    }

    fn delete_role(&mut self, role: &RoleName) -> Result<(), Rejection> {
        if built_in_role(role.as_str()).is_some() {
            return Err(AuthRejection::BuiltInRole { role: role.clone() }.into());
        }
        if self.roles.remove(role).is_none() {
            return Err(AuthRejection::NoRole { role: role.clone() }.into());
        }
        let has_it = |subject: &Arc<SubjectRecord>| subject.roles.contains(role);
        let changed: Vec<_> = self
            .subjects
            .iter()
            .filter(|(_, subject)| has_it(subject))
            .map(|(name, subject)| (name.clone(), (**subject).clone()))
            .collect();
        for (name, mut subject) in changed {
            subject.roles.retain(|other| other != role);
            self.set_subject(name, subject);
        }
        Ok(())
    }

    fn replace_subject(
        &mut self,
        name: SubjectName,
        mut roles: Vec<RoleName>,
        mut certificates: Vec<CertificateName>,
    ) -> Result<(), Rejection> {
        roles.sort_unstable();
        roles.dedup();
        certificates.sort_unstable();
        certificates.dedup();
        within(Bound::RolesOfSubject, roles.len(), RoleName::PER_SUBJECT_MAX)?;
        within(Bound::CertificatesOfSubject, certificates.len(), CertificateName::PER_SUBJECT_MAX)?;
        if !self.subjects.contains_key(&name) {
            within(Bound::Subjects, self.subjects.len() + 1, SUBJECTS_MAX)?;
        }
        let is_known = |role: &RoleName| {
            built_in_role(role.as_str()).is_some() || self.roles.contains_key(role)
        };
        if let Some(role) = roles.iter().find(|role| !is_known(role)) {
            return Err(AuthRejection::NoRole { role: role.clone() }.into());
        }
        for certificate in &certificates {
            if let Some(subject) = self.subject_of.get(certificate)
                && *subject != name
            {
                let (certificate, subject) = (certificate.clone(), subject.clone());
                return Err(AuthRejection::CertificateTaken { certificate, subject }.into());
            }
        }
        let quotas = self.subjects.get(&name).map(|known| known.quotas.clone()).unwrap_or_default();
        self.set_subject(name, SubjectRecord { roles, certificates, quotas });
        Ok(())
    }

    fn add_token(
        &mut self,
        subject: SubjectName,
        token: &NewAccessToken,
        now: Stamp,
    ) -> Result<(), Rejection> {
        let NewAccessToken { id, hash, expires_at } = *token;
        if self.tokens.contains_key(&id) {
            return Err(AuthRejection::TokenExists { token: id }.into());
        }
        let ttl_ms = expires_at.map(|at| at.0.saturating_sub(now.0));
        if let Some(max_ms) = self.token_policy.max_ttl_ms
            && ttl_ms.is_none_or(|ttl| ttl > max_ms.saturating_add(PROPOSAL_MAX_MS))
        {
            return Err(AuthRejection::TokenLifetime { max_ms }.into());
        }
        if self.tokens.len() >= TOKENS_MAX {
            self.remove_tokens(|token| token.is_expired(now));
        }
        within(Bound::AccessTokens, self.tokens.len() + 1, TOKENS_MAX)?;
        let token = AccessTokenRecord { subject, hash, created_at: now, expires_at, ttl_ms };
        self.tokens.insert(id, Arc::new(token));
        Ok(())
    }

    fn remove_tokens(&mut self, is_removed: impl Fn(&AccessTokenRecord) -> bool) {
        let kept = self.tokens.iter().filter(|(_, token)| !is_removed(token));
        self.tokens = kept.map(|(id, token)| (*id, token.clone())).collect();
    }

    fn rotate_token(
        &mut self,
        old: AccessTokenId,
        token: &NewAccessToken,
        old_expires_at: Stamp,
        now: Stamp,
    ) -> Result<(), Rejection> {
        let Some(known) = self.tokens.get_mut(&old).map(Arc::make_mut) else {
            return Err(AuthRejection::NoToken { token: old }.into());
        };
        known.expires_at =
            Some(known.expires_at.map_or(old_expires_at, |at| at.min(old_expires_at)));
        let subject = known.subject.clone();
        self.add_token(subject, token, now)
    }
}

fn check_quotas(quotas: &Quotas, kinds: &[QuotaKind]) -> Result<(), Rejection> {
    if quotas.are_of(kinds) {
        Ok(())
    } else {
        Err(Rejection::OutOfBounds { what: OutOfBounds::Quota })
    }
}

fn within(bound: Bound, count: usize, max: usize) -> Result<(), Rejection> {
    if count > max { Err(limit_reached(bound, max as u64)) } else { Ok(()) }
}
