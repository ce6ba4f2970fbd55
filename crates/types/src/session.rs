//! Sessions: their opening and end, and whose a session is, as its name shows.
//!
//! The whole name of a session begins with its scope: `team-a:web1` of the namespace `team-a`, `@ci:web1` of the subject `ci` of no
//! namespace. The callers of a scope write and read `web1`; all others write and read the whole name. No namespace begins with `@`,
//! and no subject contains `:`, so two scopes have no name in common. A session that was opened without a credential has no scope.

use serde::{Deserialize, Serialize};

use crate::name::check_len;
use crate::{Labels, NameError, NamespaceName, Password, SessionId, SessionName, SubjectName, Ttl};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    pub session: SessionName,
    /// The time without a renewal after which the session expires. `None` means [`Ttl::DEFAULT`] for a new session,
    /// and unchanged for an open one.
    pub ttl: Option<Ttl>,
    /// Whether the server created the session for one acquire. It closes with its last release.
    pub anonymous: bool,
    /// Shown beside the session's queue entries.
    pub labels: Labels,
    /// Required from another connection to take over the session; `None` if the name is sufficient.
    pub password: Option<Password>,
    /// The id that a node has sent to the client of a connection before it opens the session, in [`SessionId::CHOSEN`].
    /// `None`: the state machine assigns the next one.
    pub id: Option<SessionId>,
    /// The session to use, among all sessions of that name: the command opens no other one, and is rejected after its end.
    pub incarnation: Option<SessionId>,
}

impl OpenSession {
    /// Opens or renews a session without other settings.
    pub fn of(session: SessionName) -> Self {
        Self {
            session,
            ttl: None,
            anonymous: false,
            labels: Labels::default(),
            password: None,
            id: None,
            incarnation: None,
        }
    }
}

/// How much of the lease of a session had passed without a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    pub session: SessionId,
    /// The lease. A record of a renewed lease changes nothing.
    pub generation: u64,
    /// Milliseconds; less than the TTL.
    pub used_ms: u32,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SessionEnd {
    /// A client closed it.
    Closed,
    /// Its lease expired.
    Expired,
}

/// The namespace or the subject to which the names of some sessions belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionScope {
    prefix: String,
}

impl SessionScope {
    pub fn of_namespace(namespace: &NamespaceName) -> Self {
        Self { prefix: format!("{namespace}{}", SessionName::SCOPE_END) }
    }

    pub fn of_subject(subject: &SubjectName) -> Self {
        let escaped: String = escaped(subject).collect();
        Self { prefix: format!("{}{escaped}{}", SessionName::OF_SUBJECT, SessionName::SCOPE_END) }
    }

    /// How the names of the scope begin.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The whole name of a session for which the callers of the scope write only `name`.
    ///
    /// # Errors
    /// [`NameError`] if both together are too long.
    pub fn whole(&self, name: &SessionName) -> Result<SessionName, NameError> {
        let (kind, name) = name.without_kind();
        let whole = format!("{kind}{}{name}", self.prefix);
        let what = "the session id with its subject or namespace";
        check_len(what, &whole, SessionName::MAX_LEN)?;
        SessionName::new(whole)
    }
}

/// A subject in the names of its sessions. They contain no `/`, so `~1` stands for it and `~0` for `~`, as in JSON pointers.
fn escaped(subject: &SubjectName) -> impl Iterator<Item = char> {
    subject.as_str().chars().flat_map(|c| match c {
        '~' => ['~', '0'].into_iter().take(2),
        '/' => ['~', '1'].into_iter().take(2),
        other => [other, other].into_iter().take(1),
    })
}

impl SessionName {
    /// How the name of a session of durable holds begins.
    pub const DURABLE: &str = "durable!";

    /// How the scope of a subject begins.
    pub const OF_SUBJECT: char = '@';

    /// Separates the scope from the name that its callers write.
    pub const SCOPE_END: char = ':';

    /// The text before the first `:`, such as `team-a` or `@ci`; `None` for a name without one. The text is the scope of the
    /// session if it begins with `@` or is a registered namespace.
    pub fn scope(&self) -> Option<&str> {
        let (scope, name) = self.without_kind().1.split_once(Self::SCOPE_END)?;
        (!name.is_empty()).then_some(scope)
    }

    /// Whether the name is a whole name of a subject.
    pub fn is_of(&self, subject: &SubjectName) -> bool {
        let scope = self.scope().and_then(|scope| scope.strip_prefix(Self::OF_SUBJECT));
        scope.is_some_and(|scope| scope.chars().eq(escaped(subject)))
    }

    /// The name without the scope of a subject.
    pub fn without_subject(&self) -> &str {
        let name = self.without_kind().1;
        match self.scope() {
            Some(scope) if scope.starts_with(Self::OF_SUBJECT) => {
                name.get(scope.len() + 1..).unwrap_or_default()
            }
            Some(_) | None => name,
        }
    }

    /// The session of the durable holds of a name. It has no lease, and it closes with its last queue entry.
    ///
    /// # Errors
    /// [`NameError`] if both together are too long.
    pub fn durable(name: &Self) -> Result<Self, NameError> {
        Self::new(format!("{}{name}", Self::DURABLE))
    }

    /// Whether the session has durable holds. The state machine refuses such a name in any other call.
    pub fn is_durable(&self) -> bool {
        self.as_str().starts_with(Self::DURABLE)
    }

    /// [`SessionName::DURABLE`] or nothing, and the rest of the name.
    fn without_kind(&self) -> (&str, &str) {
        match self.as_str().strip_prefix(Self::DURABLE) {
            Some(name) => (Self::DURABLE, name),
            None => ("", self.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SessionName {
        SessionName::new(text).unwrap()
    }

    fn subject(text: &str) -> SubjectName {
        SubjectName::new(text).unwrap()
    }

    fn of_subject(text: &str) -> SessionScope {
        SessionScope::of_subject(&subject(text))
    }

    #[test]
    fn a_whole_name_begins_with_its_scope() {
        let team = SessionScope::of_namespace(&NamespaceName::new("team-a").unwrap());
        for (scope, written, whole) in [
            (&team, "web1", "team-a:web1"),
            (&team, "host:80", "team-a:host:80"),
            (&of_subject("ci"), "web1", "@ci:web1"),
            (&of_subject("ci"), "@web", "@ci:@web"),
            (&of_subject("ci/deploy"), "web1", "@ci~1deploy:web1"),
            (&of_subject("ci"), "durable!anna", "durable!@ci:anna"),
            (&of_subject("anna@example.com"), "a", "@anna@example.com:a"),
        ] {
            let found = scope.whole(&name(written)).unwrap();
            assert_eq!(found.as_str(), whole);
            assert_eq!(format!("{}:", found.scope().unwrap()), scope.prefix());
        }
        let found = of_subject("ci").whole(&name("web1~7")).unwrap();
        assert_eq!(found.without_subject(), "web1~7");
        assert_eq!(name("team-a:web1").without_subject(), "team-a:web1");
        // Without a name after it, a scope is none.
        for text in ["web1", "@ci", "@ci:", "team-a:", "durable!@ci:"] {
            assert_eq!(name(text).scope(), None, "{text}");
            assert!(!name(text).is_of(&subject("ci")), "{text}");
        }
    }

    #[test]
    fn two_subjects_have_no_name_in_common() {
        let subjects =
            ["a/b", "a~1b", "a~0/b", "a~/b", "a/b/c", "a/b~1c", "a", "@a", "a@b", "~", "~0", "~1"];
        for one in subjects {
            for other in subjects {
                let whole = of_subject(one).whole(&name("web1")).unwrap();
                assert_eq!(whole.is_of(&subject(other)), one == other, "{whole}: {other}");
            }
        }
    }

    /// The longest subject can name sessions, even if each character of it is escaped.
    #[test]
    fn a_whole_name_has_a_maximum_length() {
        let longest = vec!["a"; 64].join("/");
        let room = SessionName::MAX_LEN - of_subject(&longest).prefix().len();
        assert!(room > "durable!".len() + "s-".len() + 32, "{room}");
        let fits = name(&"x".repeat(room));
        assert_eq!(of_subject(&longest).whole(&fits).unwrap().as_str().len(), SessionName::MAX_LEN);
        let too_long = of_subject(&longest).whole(&name(&"x".repeat(room + 1))).unwrap_err();
        let text = too_long.to_string();
        assert!(text.contains("with its subject or namespace is 257 bytes"), "{text}");
    }
}
