//! The decision whether an actor may execute a command or a read.

use holdfast_types::{
    AccessTokenId, Actor, AuthChange, AuthMode, AuthRejection, CertificateName, Command, Forbidden,
    Permission, Rejection, Revision, Right, RoleName, SessionName, SubjectName, built_in_role,
};

use super::needed::{Needed, needed_by};
use super::{AccessToken, Subject};
use crate::Machine;

impl Machine {
    pub fn auth_mode(&self) -> AuthMode {
        self.auth.mode
    }

    /// The revision of the last change of subjects, roles, access tokens or the mode; 0 before the first.
    pub fn auth_revision(&self) -> Revision {
        self.auth.changed_in
    }

    /// Whether the first administrator was added.
    pub fn has_had_administrator(&self) -> bool {
        self.auth.has_had_administrator
    }

    pub fn access_token(&self, token: AccessTokenId) -> Option<&AccessToken> {
        self.auth.tokens.get(&token).map(|token| &**token)
    }

    /// Access tokens, by id.
    pub fn access_tokens(&self) -> impl Iterator<Item = (AccessTokenId, &AccessToken)> {
        self.auth.tokens.iter().map(|(id, token)| (*id, &**token))
    }

    /// Subjects, by name.
    pub fn subjects(&self) -> impl Iterator<Item = (&SubjectName, &Subject)> {
        self.auth.subjects.iter().map(|(name, subject)| (name, &**subject))
    }

    pub fn subject(&self, name: &SubjectName) -> Option<&Subject> {
        self.auth.subjects.get(name).map(|subject| &**subject)
    }

    /// The roles that clients have created, by name.
    pub fn roles(&self) -> impl Iterator<Item = (&RoleName, &[Permission])> {
        self.auth.roles.iter().map(|(name, permissions)| (name, &**permissions))
    }

    /// The subject of a certificate.
    pub fn subject_of_certificate(&self, certificate: &CertificateName) -> Option<&SubjectName> {
        self.auth.subject_of.get(certificate)
    }

    /// The subject of an actor; `None` for nodes and anonymous callers.
    ///
    /// # Errors
    /// [`AuthRejection::UnknownToken`], [`AuthRejection::TokenExpired`].
    pub fn subject_of<'a>(
        &'a self,
        actor: &'a Actor,
    ) -> Result<Option<&'a SubjectName>, AuthRejection> {
        match actor {
            Actor::Node | Actor::Anonymous => Ok(None),
            Actor::Subject(subject) => Ok(Some(subject)),
            Actor::Token(id) => match self.auth.tokens.get(id) {
                None => Err(AuthRejection::UnknownToken),
                Some(token) if token.is_expired(self.now) => Err(AuthRejection::TokenExpired),
                Some(token) => Ok(Some(&token.subject)),
            },
        }
    }

    /// Decides whether an actor may execute a command, as in the mode [`AuthMode::On`].
    ///
    /// # Errors
    /// The first permission or session that the actor lacks.
    pub fn authorize(&self, actor: &Actor, command: &Command) -> Result<(), Rejection> {
        if *actor == Actor::Node {
            return Ok(());
        }
        if matches!(command, Command::Auth(AuthChange::AddAdministrator { .. })) {
            // The change itself allows only the first one.
            return Ok(());
        }
        let subject = self.subject_of(actor)?;
        let mut check = |needed: Needed<'_>| match needed {
            Needed::Permission(right, name) => self.check_permission(subject, right, &name),
            Needed::OwnSession(session) => self.check_owner(subject, session),
            Needed::OwnSessionId(id) => match self.session_name(id) {
                Some(session) => self.check_owner(subject, &session),
                None => Ok(()),
            },
            Needed::ClosableSession(session) => self
                .check_owner(subject, session)
                .or_else(|_| self.check_permission(subject, Right::SessionClose, session.as_str())),
            Needed::Caller => self.check_caller(subject),
            // Clients cannot send these commands. Nodes propose them without an actor.
            Needed::Node if *actor == Actor::Anonymous => Ok(()),
            Needed::Node => Err(AuthRejection::NoCredential),
        };
        Ok(needed_by(command, &mut check)?)
    }

    /// Decides whether an actor has a right on a name, as in the mode [`AuthMode::On`].
    ///
    /// # Errors
    /// [`AuthRejection::Forbidden`], [`AuthRejection::NoCredential`]; the errors of [`Machine::subject_of`].
    pub fn authorize_right(
        &self,
        actor: &Actor,
        right: Right,
        name: &str,
    ) -> Result<(), AuthRejection> {
        match actor {
            Actor::Node => Ok(()),
            Actor::Anonymous | Actor::Token(_) | Actor::Subject(_) => {
                self.check_permission(self.subject_of(actor)?, right, name)
            }
        }
    }

    /// As [`Machine::authorize_right`], for every name that begins with `prefix`.
    ///
    /// # Errors
    /// As [`Machine::authorize_right`].
    pub fn authorize_below(
        &self,
        actor: &Actor,
        right: Right,
        prefix: &str,
    ) -> Result<(), AuthRejection> {
        if *actor == Actor::Node {
            return Ok(());
        }
        let subject = self.subject_of(actor)?;
        if self.has_permission(subject, |permission| permission.allows_below(right, prefix)) {
            return Ok(());
        }
        Err(denied(subject, right, &format!("{prefix}*")))
    }

    /// Decides whether an actor may use a session as its own.
    ///
    /// # Errors
    /// [`AuthRejection::OtherSubject`]; the errors of [`Machine::subject_of`].
    pub fn authorize_session(
        &self,
        actor: &Actor,
        session: &SessionName,
    ) -> Result<(), AuthRejection> {
        if *actor == Actor::Node {
            return Ok(());
        }
        let subject = self.subject_of(actor)?;
        self.check_caller(subject)?;
        self.check_owner(subject, session)
    }

    /// The permission that gives an actor a right on a name, with its role.
    pub fn deciding_permission(
        &self,
        subject: Option<&SubjectName>,
        right: Right,
        name: &str,
    ) -> Option<(String, Permission)> {
        let mut found = None;
        self.has_permission_of(subject, |role, permission| {
            let allows = permission.allows(right, name);
            if allows {
                found = Some((role.to_owned(), permission.clone()));
            }
            allows
        });
        found
    }

    fn check_permission(
        &self,
        subject: Option<&SubjectName>,
        right: Right,
        name: &str,
    ) -> Result<(), AuthRejection> {
        if self.has_permission(subject, |permission| permission.allows(right, name)) {
            return Ok(());
        }
        Err(denied(subject, right, name))
    }

    /// Rejects callers without a credential, unless the role `anonymous` has a permission.
    fn check_caller(&self, subject: Option<&SubjectName>) -> Result<(), AuthRejection> {
        if subject.is_some() || self.has_permission(None, |_| true) {
            return Ok(());
        }
        Err(AuthRejection::NoCredential)
    }

    /// Rejects another subject's session. A session that nobody owns is open to every caller.
    fn check_owner(
        &self,
        subject: Option<&SubjectName>,
        session: &SessionName,
    ) -> Result<(), AuthRejection> {
        match self.sessions.owner(session) {
            Some(owner) if subject == Some(owner) => Ok(()),
            Some(_) if subject.is_none() => Err(AuthRejection::NoCredential),
            Some(_) => Err(AuthRejection::OtherSubject { session: session.clone() }),
            None => Ok(()),
        }
    }

    fn has_permission(
        &self,
        subject: Option<&SubjectName>,
        allows: impl Fn(&Permission) -> bool,
    ) -> bool {
        self.has_permission_of(subject, |_, permission| allows(permission))
    }

    /// Whether `allows` returns true for a permission of the subject. Every subject also has the role `anonymous`.
    fn has_permission_of(
        &self,
        subject: Option<&SubjectName>,
        mut allows: impl FnMut(&str, &Permission) -> bool,
    ) -> bool {
        let own = subject.and_then(|subject| self.subject(subject));
        let own = own.map_or(&[][..], |subject| &subject.roles);
        let roles = own.iter().map(RoleName::as_str).chain([RoleName::ANONYMOUS]);
        roles.into_iter().any(|role| match built_in_role(role) {
            Some(rights) => {
                rights.iter().any(|right| allows(role, &Permission::on_all_names(*right)))
            }
            None => {
                let permissions = self.auth.roles.get(role);
                permissions.is_some_and(|all| all.iter().any(|one| allows(role, one)))
            }
        })
    }
}

fn denied(subject: Option<&SubjectName>, right: Right, name: &str) -> AuthRejection {
    match subject {
        None => AuthRejection::NoCredential,
        Some(subject) => {
            let subject = subject.clone();
            AuthRejection::Forbidden(Box::new(Forbidden { subject, right, name: name.to_owned() }))
        }
    }
}
