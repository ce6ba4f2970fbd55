//! Names chosen by callers, checked at construction: locks, recipes, sessions, owners, reasons, requests, subjects, roles,
//! namespaces, labels.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::SessionId;

/// Why a name was rejected. The message contains the rule or the bound.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    #[error("{what} is empty: give it at least one character")]
    Empty { what: &'static str },
    /// Longer than its bound.
    #[error("{what} is {len} bytes long: at most {max} are allowed")]
    TooLong {
        what: &'static str,
        /// In bytes.
        len: usize,
        /// In bytes.
        max: usize,
    },
    /// A character that no name may contain.
    #[error("{what} contains {found:?}: {rule}")]
    BadCharacter {
        what: &'static str,
        found: char,
        /// The violated rule, the end of the message.
        rule: &'static str,
    },
    /// A path component such as `.`, `..` or an empty one.
    #[error("{what} has the component {component:?}: components may not be empty, '.' or '..'")]
    BadComponent { what: &'static str, component: String },
    /// A name that a built-in directory has.
    #[error("{what} cannot be {name:?}: holdfast uses this name")]
    Reserved { what: &'static str, name: String },
    /// Too many of something, such as labels.
    #[error("{count} {what}: at most {max} are allowed")]
    TooMany { what: &'static str, count: usize, max: usize },
}

/// Deserializes a checked text without an allocation for the unchecked one.
pub(crate) struct TextVisitor<T> {
    /// The noun of error messages, such as "the lock name".
    pub(crate) what: &'static str,
    pub(crate) parse: fn(&str) -> Result<T, NameError>,
}

impl<T> serde::de::Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as a string", self.what)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(TextVisitor { what: $what, parse: |name| Self::new(name) })
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl $name {
            /// The maximum length, bytes.
            pub const MAX_LEN: usize = $max;

            /// # Errors
            /// [`NameError`] if the name violates a rule.
            pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
                let name = name.as_ref();
                check_len($what, name, $max)?;
                $check($what, name)?;
                Ok(Self(name.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }
    };
}

name! {
    /// A lock: components joined by `/`, without a leading `/`. The lock `orders` is the directory `/locks/orders`.
    LockName, "the lock name", 512, check_components
}
name! {
    /// A latch, a barrier or a counter: components joined by `/`, as for locks. Each kind has its own name space.
    RecipeName, "the name", 512, check_components
}
name! {
    /// A session id chosen by the client (`?session=me`). The whole name has its [`crate::SessionScope`] too.
    SessionName, "the session id", 256, check_flat
}
name! {
    /// A failure domain: members in one zone may fail together.
    Zone, "the zone", 64, check_flat
}
name! {
    /// The owner within a session: two owners of one session exclude each other.
    Owner, "the owner", 128, check_flat
}
name! {
    /// The reason for a break or a release request: any text in one line.
    Reason, "the reason", 256, check_controls
}
name! {
    /// The key of a latch, which counts it once.
    RequestId, "the latch key", 64, check_flat
}

name! {
    /// A person or a program that calls, such as `ci/deploy`.
    SubjectName, "the subject", 128, check_subject
}
name! {
    /// A namespace: the first component of the names that belong to it.
    NamespaceName, "the namespace", 64, check_namespace
}
name! {
    /// A role: a named list of permissions.
    RoleName, "the role", 64, check_flat
}

impl RoleName {
    /// The role that may do everything.
    pub fn admin() -> Self {
        Self(Self::ADMIN.into())
    }
}

impl SessionName {
    /// A name made from the session number, such as `#7`, for use when the real name is not available.
    pub fn of(id: SessionId) -> Self {
        Self(format!("#{id}").into())
    }
}

impl Owner {
    /// The owner of a call without one.
    pub fn unnamed() -> Self {
        Self("-".into())
    }
}

/// Key-value pairs of a session (`host=web3`), shown beside its holds and waits. Ordered by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// The maximum number of labels.
    pub const MAX_COUNT: usize = 16;
    /// The maximum length of a key, bytes.
    pub const MAX_KEY_LEN: usize = 64;
    /// The maximum length of a value, bytes.
    pub const MAX_VALUE_LEN: usize = 256;

    /// # Errors
    /// [`NameError`] for too many labels, a length over its maximum, or a forbidden character.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, NameError> {
        if labels.len() > Self::MAX_COUNT {
            let count = labels.len();
            return Err(NameError::TooMany { what: "labels", count, max: Self::MAX_COUNT });
        }
        for (key, value) in &labels {
            check_len("a label's key", key, Self::MAX_KEY_LEN)?;
            check_flat("a label's key", key)?;
            if value.len() > Self::MAX_VALUE_LEN {
                let (what, max) = ("a label's value", Self::MAX_VALUE_LEN);
                return Err(NameError::TooLong { what, len: value.len(), max });
            }
            check_controls("a label's value", value)?;
        }
        Ok(Self(labels))
    }

    /// The labels, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn check_len(what: &'static str, name: &str, max: usize) -> Result<(), NameError> {
    match name.len() {
        0 => Err(NameError::Empty { what }),
        len if len > max => Err(NameError::TooLong { what, len, max }),
        _ => Ok(()),
    }
}

/// Whether a reader does not see a character: controls, line separators, marks of the writing direction, and characters without a
/// width (Unicode's `Default_Ignorable_Code_Point`). With them, two different names look equal, or a text is read backwards.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// ZooKeeper's rule for characters (no NUL, no C0 or C1 controls, no private use, no specials), and no hidden ones.
pub(crate) fn check_controls(what: &'static str, name: &str) -> Result<(), NameError> {
    // Most names are in ASCII.
    if name.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Ok(());
    }
    let special = |c: char| matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}');
    match name.chars().find(|c| is_hidden(*c) || special(*c)) {
        Some(found) => {
            let rule = "control, invisible, private-use and special characters are not allowed";
            Err(NameError::BadCharacter { what, found, rule })
        }
        None => Ok(()),
    }
}

pub(crate) fn check_components(what: &'static str, path: &str) -> Result<(), NameError> {
    check_controls(what, path)?;
    match path.split('/').find(|component| matches!(*component, "" | "." | "..")) {
        Some(component) => Err(NameError::BadComponent { what, component: component.to_owned() }),
        None => Ok(()),
    }
}

/// Components joined by `/`, without white space, `:` and `*`: a subject is also the name in `Basic` credentials.
fn check_subject(what: &'static str, name: &str) -> Result<(), NameError> {
    check_components(what, name)?;
    match name.chars().find(|c| c.is_whitespace() || matches!(c, ':' | '*')) {
        Some(found) => {
            let rule = "white space, ':' and '*' are not allowed";
            Err(NameError::BadCharacter { what, found, rule })
        }
        None => Ok(()),
    }
}

/// A name of one component that no built-in directory has.
fn check_namespace(what: &'static str, name: &str) -> Result<(), NameError> {
    check_flat(what, name)?;
    check_subject(what, name)?;
    if name.starts_with(SessionName::OF_SUBJECT) {
        let rule = "a namespace cannot begin with it, because the sessions of subjects do";
        return Err(NameError::BadCharacter { what, found: SessionName::OF_SUBJECT, rule });
    }
    if matches!(name, "locks" | "groups" | "elections" | "zookeeper") {
        return Err(NameError::Reserved { what, name: name.to_owned() });
    }
    Ok(())
}

fn check_flat(what: &'static str, name: &str) -> Result<(), NameError> {
    check_controls(what, name)?;
    if let Some(found) = name.chars().find(|c| *c == '/' || c.is_whitespace()) {
        let rule = "'/' and white space are not allowed";
        return Err(NameError::BadCharacter { what, found, rule });
    }
    // URL libraries remove these two as path segments.
    if matches!(name, "." | "..") {
        return Err(NameError::BadComponent { what, component: name.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_one_word_of_components() {
        for good in ["ci", "ci/deploy", "anna@example.com", "ü"] {
            assert!(SubjectName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a:b", "a//b", "/a", "..", "*"] {
            assert!(SubjectName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn session_names_contain_no_path_separator() {
        for good in ["me", "web1-812", "a.b", "...", "ü"] {
            assert!(SessionName::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "a\n", "a\u{7f}", &"a".repeat(257)] {
            assert!(SessionName::new(bad).is_err(), "{bad:?}");
        }
    }

    /// Two names that look equal are one name.
    #[test]
    fn no_name_has_characters_that_a_reader_does_not_see() {
        let bad = [
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{180e}',
            '\u{200b}',
            '\u{200d}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{e0041}',
        ];
        for c in bad {
            let name = format!("a{c}b");
            assert!(SessionName::new(&name).is_err(), "{c:?}");
            assert!(LockName::new(&name).is_err(), "{c:?}");
            assert!(SubjectName::new(&name).is_err(), "{c:?}");
            assert!(Owner::new(&name).is_err(), "{c:?}");
            assert!(crate::ZnodePath::new(format!("/{name}")).is_err(), "{c:?}");
            assert!(Labels::new([("k".to_owned(), name.clone())].into()).is_err(), "{c:?}");
        }
        for good in ["ünï", "鍵", "日本語", "ключ", "قفل", "a\u{301}", "👨"] {
            assert!(LockName::new(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn labels_are_bounded() {
        let many = |count: usize| (0..count).map(|n| (format!("k{n}"), String::new())).collect();
        assert!(Labels::new(many(Labels::MAX_COUNT)).is_ok());
        assert!(Labels::new(many(Labels::MAX_COUNT + 1)).is_err());
        let long = "v".repeat(Labels::MAX_VALUE_LEN + 1);
        assert!(Labels::new([("k".to_owned(), long)].into()).is_err());
    }
}
