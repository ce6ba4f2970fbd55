//! The whole names of sessions: which one a caller means, and to whom it belongs.

use holdfast_types::{
    Actor, AuthRejection, NameError, NamespaceName, Right, SessionEnd, SessionName, SessionScope,
    SubjectName,
};

use super::authorize::ActorRights;
use crate::Machine;
use crate::session::store::KnownSession;

impl Machine {
    /// The scopes of the sessions of a caller: the first is that of its new sessions. A subject of a namespace keeps the names
    /// from before its registration. Callers without a credential and nodes have none.
    pub fn session_scopes(&self, actor: &Actor) -> Vec<SessionScope> {
        self.named_subject(actor).map_or_else(Vec::new, |subject| self.scopes_of(subject))
    }

    fn scopes_of(&self, subject: &SubjectName) -> Vec<SessionScope> {
        let namespace = self.namespace_of(subject).map(SessionScope::of_namespace);
        namespace.into_iter().chain([SessionScope::of_subject(subject)]).collect()
    }

    /// The subject of an actor. The names of its sessions stay when its access token expires.
    fn named_subject<'a>(&'a self, actor: &'a Actor) -> Option<&'a SubjectName> {
        match actor {
            Actor::Node | Actor::Anonymous => None,
            Actor::Subject(subject) => Some(subject),
            Actor::Token(id) => self.access_token(*id).map(|token| &token.subject),
        }
    }

    /// The whole name of a session that a caller names: the first of its scopes in which the session is known; otherwise the
    /// name itself, if the caller may use or name such a session; otherwise the name in the scope of its new sessions.
    ///
    /// # Errors
    /// [`NameError`] if the whole name is too long.
    pub fn whole_session_name(
        &self,
        actor: &Actor,
        name: SessionName,
    ) -> Result<SessionName, NameError> {
        let Some(subject) = self.named_subject(actor) else { return Ok(name) };
        if self.has_scope(&name) {
            return Ok(name);
        }
        let mut whole = self.scopes_of(subject).into_iter().map(|scope| scope.whole(&name));
        let Some(new) = whole.next() else { return Ok(name) };
        let is_known = |name: &SessionName| self.sessions.named(name).is_some();
        if let Ok(new) = &new
            && is_known(new)
        {
            return Ok(new.clone());
        }
        if let Some(older) = whole.flatten().find(is_known) {
            return Ok(older);
        }
        if self.is_named_by(subject, &name) { Ok(name) } else { new }
    }

    /// Whether a name is a whole name of a namespace or a subject.
    fn has_scope(&self, name: &SessionName) -> bool {
        name.scope().is_some_and(|scope| {
            scope.starts_with(SessionName::OF_SUBJECT) || self.auth.namespaces.contains_key(scope)
        })
    }

    /// Whether a subject means an existing session by its name without a scope. It was opened without a credential, or by
    /// this subject; it is the session of a connection, whose name has random digits; or the subject may read it. A closed
    /// session counts, because the attempts of its late copies are over.
    fn is_named_by(&self, subject: &SubjectName, name: &SessionName) -> bool {
        let (owner, is_of_connection, is_readable) = match self.sessions.named(name) {
            None => return false,
            Some(KnownSession::Open(id)) => {
                let Some(session) = self.sessions.get(id) else { return false };
                (session.subject.as_ref(), session.password.is_some(), true)
            }
            Some(KnownSession::Ended { end, .. }) => {
                let ended = self.sessions.tombstone(name);
                (ended.and_then(|ended| ended.subject.as_ref()), false, end == SessionEnd::Expired)
            }
        };
        let may_read = || {
            let rights = ActorRights::of_subject(self, subject);
            rights.check(Right::SessionRead, name.as_str()).is_ok()
        };
        owner.is_none_or(|owner| owner == subject) || is_of_connection || is_readable && may_read()
    }
}

impl ActorRights<'_> {
    /// Rejects the name of a session of another namespace or subject, whether or not it is open.
    pub(super) fn check_session_scope(&self, session: &SessionName) -> Result<(), AuthRejection> {
        if self.is_node() || !self.machine().has_scope(session) || self.owns_name(session) {
            return Ok(());
        }
        Err(AuthRejection::OtherSubject { session: session.clone() })
    }

    /// Whether a name is a whole name of the caller.
    fn owns_name(&self, session: &SessionName) -> bool {
        let Some(subject) = self.subject() else { return false };
        let namespace = self.machine().namespace_of(subject).map(NamespaceName::as_str);
        session.is_of(subject) || namespace.is_some() && session.scope() == namespace
    }

    /// Whether the name of a session is that of another namespace or subject.
    pub(super) fn is_foreign_name(&self, session: &SessionName) -> bool {
        self.check_session_scope(session).is_err()
    }
}
