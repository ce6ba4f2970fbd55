//! The decision whether an actor may execute a command or a read.

use holdfast_types::{
    AccessTokenId, Actor, AuthChange, AuthMode, AuthRejection, CertificateId, CertificateName,
    Command, Forbidden, HandOver, Multi, NamespaceName, NumberedCall, OtherNamespace, Permission,
    Rejection, Revision, Right, RoleName, SessionName, Stamp, SubjectName, TokenPolicy,
    built_in_role,
};

use super::needed::{AS_ADMINISTRATOR, Needed, needed_by, needed_by_multi};
use super::{AccessTokenRecord, CertificateDenial, SubjectRecord};
use crate::command_rules::CommandRules;
use crate::lock::bypass::multi_on_locks;
use crate::{Machine, namespace};

/// What one actor may do at one revision, as in the mode [`AuthMode::On`].
#[derive(Clone, Copy, Debug)]
pub struct ActorRights<'a> {
    machine: &'a Machine,
    caller: AuthCaller<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AuthCaller<'a> {
    Node,
    Anonymous,
    Subject(&'a SubjectName),
}

impl Machine {
    pub fn auth_mode(&self) -> AuthMode {
        self.auth.mode
    }

    /// Whether the first administrator was added.
    pub fn has_had_administrator(&self) -> bool {
        self.auth.has_had_administrator
    }

    /// The denied certificates, and why each is denied.
    pub fn denied_certificates(
        &self,
    ) -> impl Iterator<Item = (&CertificateId, &CertificateDenial)> {
        self.auth.denied.iter().map(|(certificate, denial)| (certificate, &**denial))
    }

    /// The revision of the last change of the authorization.
    pub fn auth_changed_in(&self) -> Revision {
        self.auth.changed_in
    }

    pub fn token_policy(&self) -> TokenPolicy {
        self.auth.token_policy
    }

    pub fn access_token(&self, token: AccessTokenId) -> Option<&AccessTokenRecord> {
        self.auth.tokens.get(&token).map(|token| &**token)
    }

    /// Access tokens, by id.
    pub fn access_tokens(&self) -> impl Iterator<Item = (AccessTokenId, &AccessTokenRecord)> {
        self.auth.tokens.iter().map(|(id, token)| (*id, &**token))
    }

    pub fn subject(&self, name: &SubjectName) -> Option<&SubjectRecord> {
        self.auth.subjects.get(name).map(|subject| &**subject)
    }

    /// Subjects, by name.
    pub fn subjects(&self) -> impl Iterator<Item = (&SubjectName, &SubjectRecord)> {
        self.auth.subjects.iter().map(|(name, subject)| (name, &**subject))
    }

    /// The roles that clients have created, by name.
    pub fn roles(&self) -> impl Iterator<Item = (&RoleName, &[Permission])> {
        self.auth.roles.iter().map(|(name, permissions)| (name, &**permissions))
    }

    /// The subject of a certificate.
    pub fn subject_of_certificate(&self, certificate: &CertificateName) -> Option<&SubjectName> {
        self.auth.subject_of.get(certificate)
    }

    /// What an actor may do at the time `now`.
    ///
    /// # Errors
    /// [`AuthRejection::UnknownToken`], [`AuthRejection::TokenExpired`].
    pub fn rights_of<'a>(
        &'a self,
        actor: &'a Actor,
        now: Stamp,
    ) -> Result<ActorRights<'a>, AuthRejection> {
        let caller = match actor {
            Actor::Node => AuthCaller::Node,
            Actor::Anonymous => AuthCaller::Anonymous,
            Actor::Subject(subject) => AuthCaller::Subject(subject),
            Actor::Token(id) => match self.auth.tokens.get(id) {
                None => return Err(AuthRejection::UnknownToken),
                Some(token) if token.is_expired(now) => return Err(AuthRejection::TokenExpired),
                Some(token) => AuthCaller::Subject(&token.subject),
            },
        };
        Ok(ActorRights { machine: self, caller })
    }

    /// Rejects a command of `apply` that its actor may not execute. Changes of the authorization, and of znodes whatever
    /// their access lists allow, need a permission in every mode.
    pub(crate) fn authorize(
        &self,
        actor: &Actor,
        call: Option<&NumberedCall>,
        command: &Command,
    ) -> Result<(), Rejection> {
        let is_superuser = matches!(command, Command::Multi(multi) if multi.caller.is_superuser());
        let in_every_mode = is_superuser || matches!(command, Command::Auth(_));
        if self.auth.mode == AuthMode::On || in_every_mode {
            self.rights_of(actor, self.now)?.check_command(command)?;
        }
        if let Some(call) = call
            && self.auth.mode == AuthMode::On
        {
            self.rights_of(actor, self.now)?.check_session(&call.session)?;
        }
        Ok(())
    }
}

impl<'a> ActorRights<'a> {
    /// The rights of a subject.
    pub(super) fn of_subject(machine: &'a Machine, subject: &'a SubjectName) -> Self {
        Self { machine, caller: AuthCaller::Subject(subject) }
    }

    pub(super) fn machine(&self) -> &'a Machine {
        self.machine
    }

    pub(super) fn is_node(&self) -> bool {
        self.caller == AuthCaller::Node
    }

    /// `None` for nodes and anonymous callers.
    pub fn subject(&self) -> Option<&'a SubjectName> {
        match self.caller {
            AuthCaller::Node | AuthCaller::Anonymous => None,
            AuthCaller::Subject(subject) => Some(subject),
        }
    }

    /// Checks everything that a command needs.
    ///
    /// # Errors
    /// The first permission or session that the actor lacks.
    pub fn check_command(&self, command: &Command) -> Result<(), AuthRejection> {
        if self.caller == AuthCaller::Node
            // The change itself allows only the first one.
            || matches!(command, Command::Auth(AuthChange::AddAdministrator { .. }))
        {
            return Ok(());
        }
        needed_by(&CommandRules::of(command).needs, &mut |needed| self.check_needed(needed))?;
        multi_on_locks(command).map_or(Ok(()), |multi| self.check_bypasses(multi))
    }

    /// Whether the actor may make all of these changes whatever the access lists of the znodes allow.
    pub fn administers(&self, multi: &Multi) -> bool {
        let needed =
            needed_by_multi(multi, AS_ADMINISTRATOR, &mut |needed| self.check_needed(needed));
        needed.and_then(|()| self.check_bypasses(multi)).is_ok()
    }

    fn check_needed(&self, needed: Needed<'_>) -> Result<(), AuthRejection> {
        match needed {
            Needed::Permission(right, name) => self.check(right, &name),
            Needed::Below(right, prefix) => self.check_below(right, &prefix),
            Needed::NewOrOwnSession(session) => self.check_new_session(session),
            Needed::OwnSession(session) => self.check_session(session),
            Needed::OwnSessionId(id) => match self.machine.session_name(id) {
                Some(session) => hidden(self.check_session_of_subject(&session)),
                None => Ok(()),
            },
            Needed::ClosableSession(session) => self.check_session_close(session),
            Needed::OwnSessionToClose(session) => self.check_own_close(session),
            Needed::Receiver(hand_over) => self.check_receiver(hand_over),
            Needed::Caller => self.check_caller(),
            // Nodes propose them without an actor; clients cannot send them.
            Needed::Node if self.caller == AuthCaller::Anonymous => Ok(()),
            Needed::Node => Err(AuthRejection::NoCredential),
        }
    }

    fn check_bypasses(&self, multi: &Multi) -> Result<(), AuthRejection> {
        [&multi.then, &multi.otherwise].into_iter().try_for_each(|ops| {
            let bypasses = self.machine.bypasses(&multi.caller, self.subject(), ops);
            bypasses.iter().try_for_each(|bypass| self.check(bypass.right, bypass.lock_name()))
        })
    }

    /// Checks a right on a name; the name is empty for a right without names.
    ///
    /// # Errors
    /// [`AuthRejection::Forbidden`], [`AuthRejection::NoCredential`].
    pub fn check(&self, right: Right, name: &str) -> Result<(), AuthRejection> {
        self.check_any(right, name, |permission| permission.allows(right, name))
    }

    /// Checks a right on every name that begins with `prefix`.
    ///
    /// # Errors
    /// As [`ActorRights::check`].
    pub fn check_below(&self, right: Right, prefix: &str) -> Result<(), AuthRejection> {
        let name = format!("{prefix}*");
        self.check_any(right, &name, |permission| permission.allows_below(right, prefix))
    }

    /// Checks that the actor has a permission with one of the rights, on any name; without rights, that it has a credential.
    ///
    /// # Errors
    /// As [`ActorRights::check`]; the first right is the missing one.
    pub fn check_any_of(&self, rights: &[Right]) -> Result<(), AuthRejection> {
        let Some(right) = rights.first().copied() else { return self.check_caller() };
        let allows = |permission: &Permission| {
            rights.iter().any(|right| permission.allows_somewhere(*right))
        };
        match self.caller {
            AuthCaller::Node => Ok(()),
            _ if self.find(|_, permission| allows(permission)) => Ok(()),
            AuthCaller::Anonymous => Err(self.no_credential()),
            AuthCaller::Subject(subject) => {
                let name = if right.has_names() { "*".to_owned() } else { String::new() };
                let forbidden = Forbidden { subject: subject.clone(), right, name };
                Err(AuthRejection::Forbidden(Box::new(forbidden)))
            }
        }
    }

    /// Checks that the actor may use an existing session by its name.
    ///
    /// # Errors
    /// [`AuthRejection::HiddenSession`], [`AuthRejection::NoCredential`].
    pub fn check_session(&self, session: &SessionName) -> Result<(), AuthRejection> {
        hidden(self.check_new_session(session))
    }

    /// Checks that the actor may open a session with this name, or use its own.
    fn check_new_session(&self, session: &SessionName) -> Result<(), AuthRejection> {
        self.check_caller()?;
        if self.caller != AuthCaller::Node && self.machine.is_of_connection(session) {
            return Err(AuthRejection::OtherSubject { session: session.clone() });
        }
        self.check_session_scope(session)?;
        self.check_session_of_subject(session)
    }

    /// Checks that the actor may read a session: its own, or with the right `session read`.
    ///
    /// # Errors
    /// As [`ActorRights::check_session`].
    pub fn check_session_read(&self, session: &SessionName) -> Result<(), AuthRejection> {
        let checked = self.check_session(session);
        if matches!(checked, Err(AuthRejection::HiddenSession { .. }))
            && self.check(Right::SessionRead, session.as_str()).is_ok()
        {
            return Ok(());
        }
        checked
    }

    /// Checks that the actor may close a session: its own, or with the right `session close`. Only who may read the
    /// session learns that this right is missing.
    fn check_session_close(&self, session: &SessionName) -> Result<(), AuthRejection> {
        match self.check_session(session) {
            Err(AuthRejection::HiddenSession { .. }) => {
                let closes = self.check(Right::SessionClose, session.as_str());
                if closes.is_ok() { closes } else { self.check_session_read(session).and(closes) }
            }
            checked => checked,
        }
    }

    /// Checks that the actor may close a session as its client. Only who may close it as an operator learns that it belongs to
    /// another subject.
    fn check_own_close(&self, session: &SessionName) -> Result<(), AuthRejection> {
        match self.check_session(session) {
            Err(AuthRejection::HiddenSession { session }) => {
                self.check_session_close(&session)?;
                Err(AuthRejection::OtherSubject { session })
            }
            checked => checked,
        }
    }

    /// Checks that the subject of a session may acquire a lock that the session would receive. A session without a
    /// subject has the rights of a caller without a credential. The answer does not tell whether the session of another
    /// subject exists.
    fn check_receiver(&self, hand_over: &HandOver) -> Result<(), AuthRejection> {
        let HandOver { lock, to: (session, _), .. } = hand_over;
        // The state machine rejects a caller that does not hold the lock, whatever the receiver is.
        if self.machine.hold_to_hand_over(hand_over).is_err() {
            return Ok(());
        }
        let may_receive = if self.machine.session_id(session).is_some() {
            let subject = self.machine.sessions.subject_of(session);
            let caller = subject.map_or(AuthCaller::Anonymous, AuthCaller::Subject);
            let receiver = ActorRights { machine: self.machine, caller };
            receiver.check(Right::LockAcquire, lock.as_str()).is_ok()
        } else {
            !self.is_foreign_name(session)
        };
        if may_receive {
            return Ok(());
        }
        Err(AuthRejection::Receiver { session: session.clone(), lock: lock.clone() })
    }

    /// The permission that gives the actor a right on a name, and its role.
    pub fn deciding_permission(&self, right: Right, name: &str) -> Option<(&'a str, Permission)> {
        self.check_namespace(right, name).ok()?;
        let mut deciding = None;
        self.find(|role, permission| {
            let allows = permission.allows(right, name);
            if allows {
                deciding = Some((role, permission.clone()));
            }
            allows
        });
        deciding
    }

    /// Rejects another subject's session. A session without a subject is open to every caller.
    fn check_session_of_subject(&self, session: &SessionName) -> Result<(), AuthRejection> {
        match (self.machine.sessions.subject_of(session), self.caller) {
            (None, _) | (_, AuthCaller::Node) => Ok(()),
            (Some(owner), AuthCaller::Subject(subject)) if owner == subject => Ok(()),
            (Some(_), AuthCaller::Anonymous) => Err(self.no_credential()),
            (Some(_), AuthCaller::Subject(_)) => {
                Err(AuthRejection::OtherSubject { session: session.clone() })
            }
        }
    }

    /// Rejects callers without a credential, unless the role `anonymous` has a permission.
    ///
    /// # Errors
    /// [`AuthRejection::NoCredential`]; [`AuthRejection::NoAdministrator`] in a cluster that never had one.
    pub fn check_caller(&self) -> Result<(), AuthRejection> {
        if self.caller != AuthCaller::Anonymous || self.find(|_, _| true) {
            return Ok(());
        }
        Err(self.no_credential())
    }

    /// The rejection of a caller without a credential.
    fn no_credential(&self) -> AuthRejection {
        if self.machine.auth.has_had_administrator {
            AuthRejection::NoCredential
        } else {
            AuthRejection::NoAdministrator
        }
    }

    fn check_any(
        &self,
        right: Right,
        name: &str,
        allows: impl Fn(&Permission) -> bool,
    ) -> Result<(), AuthRejection> {
        self.check_namespace(right, name)?;
        match self.caller {
            AuthCaller::Node => Ok(()),
            AuthCaller::Anonymous | AuthCaller::Subject(_)
                if self.find(|_, permission| allows(permission)) =>
            {
                Ok(())
            }
            AuthCaller::Anonymous => Err(self.no_credential()),
            AuthCaller::Subject(subject) => {
                let (subject, name) = (subject.clone(), name.to_owned());
                Err(AuthRejection::Forbidden(Box::new(Forbidden { subject, right, name })))
            }
        }
    }

    /// Rejects what lies outside the namespace of the subject. A right without names always does, except `session open`.
    fn check_namespace(&self, right: Right, name: &str) -> Result<(), AuthRejection> {
        let AuthCaller::Subject(subject) = self.caller else { return Ok(()) };
        if right == Right::SessionOpen {
            return Ok(());
        }
        let Some(namespace) = self.machine.namespace_of(subject) else { return Ok(()) };
        let of_session = || {
            let session = SessionName::new(name).ok().filter(|_| right.has_names())?;
            self.machine.sessions.subject_of(&session)
        };
        let of_thing = namespace::of_right(right, name);
        let found = of_thing.or_else(|| of_session().map(NamespaceName::of_subject));
        if found == Some(namespace.as_str()) {
            return Ok(());
        }
        let (subject, namespace, name) = (subject.clone(), namespace.clone(), name.to_owned());
        let outside = OtherNamespace { subject, namespace, right, name };
        Err(AuthRejection::OtherNamespace(Box::new(outside)))
    }

    /// Whether `allows` is true for a permission of the actor. Every caller has the role `anonymous`.
    fn find(&self, mut allows: impl FnMut(&'a str, &Permission) -> bool) -> bool {
        let subject = self.subject().and_then(|subject| self.machine.subject(subject));
        let roles = subject.map_or(&[][..], |subject| &subject.roles).iter();
        roles.map(RoleName::as_str).chain([RoleName::ANONYMOUS]).any(|role| {
            if let Some(rights) = built_in_role(role) {
                return rights.iter().any(|right| allows(role, &Permission::on_all_names(*right)));
            }
            let permissions = self.machine.auth.roles.get(role);
            permissions.is_some_and(|all| all.iter().any(|one| allows(role, one)))
        })
    }
}

/// Hides that the session of another subject exists.
fn hidden(checked: Result<(), AuthRejection>) -> Result<(), AuthRejection> {
    if let Err(AuthRejection::OtherSubject { session }) = checked {
        return Err(AuthRejection::HiddenSession { session });
    }
    checked
}
