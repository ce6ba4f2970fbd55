//! A permission: a right on the names that a pattern matches, `lock acquire orders/*`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Right;

/// A right on the names that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Permission {
    pub right: Right,
    pub pattern: NamePattern,
}

/// Which names a permission covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NamePattern {
    /// `*`: every name.
    All,
    /// `orders/*`: every name below `orders`. The text ends with `/`.
    Below(Arc<str>),
    /// Only this name.
    Exact(Arc<str>),
}

/// Why a text is not a permission. The message says what to write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PermissionError {
    #[error("a permission is KIND VERB PATTERN, such as: lock acquire orders/*")]
    Incomplete,
    #[error("the kind {kind:?} does not exist: use {}", kinds())]
    UnknownKind { kind: String },
    #[error("the kind {kind} has no verb {verb:?}: use {}", verbs(kind))]
    UnknownVerb { kind: &'static str, verb: String },
    #[error(
        "the pattern {pattern:?} is neither a name nor NAME/* nor *: a '*' stands only at the end, after '/'"
    )]
    BadPattern { pattern: String },
    #[error("the pattern is {len} bytes long: at most {} are allowed", NamePattern::MAX_LEN)]
    LongPattern { len: usize },
    #[error("{right} has no names: write {right} *")]
    HasNoNames { right: Right },
}

impl Permission {
    /// The maximum number of permissions of one role.
    pub const PER_ROLE_MAX: usize = 64;

    /// The right on every name.
    pub const fn on_all_names(right: Right) -> Self {
        Self { right, pattern: NamePattern::All }
    }

    pub fn right(&self) -> Right {
        self.right
    }

    /// Whether the permission allows `right` on some name.
    pub fn allows_somewhere(&self, right: Right) -> bool {
        if right == Right::SessionOpen {
            return self.right.opens_sessions();
        }
        self.right.includes(right)
    }

    /// Whether the permission allows `right` on `name`.
    pub fn allows(&self, right: Right, name: &str) -> bool {
        self.allows_somewhere(right) && (right == Right::SessionOpen || self.pattern.matches(name))
    }

    /// Whether the permission allows `right` on every name that begins with `prefix`.
    pub fn allows_below(&self, right: Right, prefix: &str) -> bool {
        self.right.includes(right) && self.pattern.covers(prefix)
    }
}

impl NamePattern {
    /// The maximum length, bytes: that of a path with its `*`.
    pub const MAX_LEN: usize = 1024;

    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Below(directory) => {
                name.len() > directory.len() && name.starts_with(&**directory)
            }
            Self::Exact(exact) => name == &**exact,
        }
    }

    /// Whether every name that begins with `prefix` matches.
    pub fn covers(&self, prefix: &str) -> bool {
        match self {
            Self::All => true,
            Self::Below(directory) => prefix.starts_with(&**directory),
            Self::Exact(_) => false,
        }
    }
}

impl FromStr for NamePattern {
    type Err = PermissionError;

    fn from_str(text: &str) -> Result<Self, PermissionError> {
        if text.len() > Self::MAX_LEN {
            return Err(PermissionError::LongPattern { len: text.len() });
        }
        let (base, below) = match text.strip_suffix('*') {
            Some("") => return Ok(Self::All),
            Some(base) => (base, true),
            None => (text, false),
        };
        let bad = base.is_empty()
            || base.contains('*')
            || base.chars().any(char::is_control)
            || (below && !base.ends_with('/'))
            || (!below && base.ends_with('/') && base != "/");
        if bad {
            return Err(PermissionError::BadPattern { pattern: text.to_owned() });
        }
        Ok(if below { Self::Below(base.into()) } else { Self::Exact(base.into()) })
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Below(directory) => write!(f, "{directory}*"),
            Self::Exact(name) => f.write_str(name),
        }
    }
}

impl FromStr for Permission {
    type Err = PermissionError;

    /// Reads `KIND VERB PATTERN`. Rights without names may omit the pattern.
    fn from_str(text: &str) -> Result<Self, PermissionError> {
        let mut words = text.trim().splitn(3, ' ');
        let (Some(kind), Some(verb)) = (words.next(), words.next()) else {
            return Err(PermissionError::Incomplete);
        };
        let of_kind = |right: &&Right| right.words().0 == kind;
        let Some(known) = Right::ALL.iter().find(of_kind) else {
            return Err(PermissionError::UnknownKind { kind: kind.to_owned() });
        };
        let right = Right::ALL.iter().filter(of_kind).find(|right| right.words().1 == verb);
        let Some(right) = right.copied() else {
            let (kind, verb) = (known.words().0, verb.to_owned());
            return Err(PermissionError::UnknownVerb { kind, verb });
        };
        let pattern = match words.next().map(str::trim) {
            Some(pattern) => pattern.parse()?,
            None if right.has_names() => return Err(PermissionError::Incomplete),
            None => NamePattern::All,
        };
        if !right.has_names() && pattern != NamePattern::All {
            return Err(PermissionError::HasNoNames { right });
        }
        Ok(Self { right, pattern })
    }
}

/// `lock acquire orders/*`.
impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.right, self.pattern)
    }
}

fn kinds() -> String {
    let mut kinds: Vec<_> = Right::ALL.iter().map(|right| right.words().0).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(", ")
}

fn verbs(kind: &str) -> String {
    let of_kind = Right::ALL.iter().map(|right| right.words()).filter(|(of, _)| *of == kind);
    of_kind.map(|(_, verb)| verb).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(text: &str) -> Permission {
        text.parse().unwrap()
    }

    #[test]
    fn every_right_has_a_text_that_is_read_back() {
        for right in Right::ALL {
            let text = format!("{right} *");
            assert_eq!(permission(&text).to_string(), text);
            assert!(permission(&text).allows(right, "any"), "{text}");
        }
        assert_eq!(permission("metrics read").to_string(), "metrics read *");
    }

    #[test]
    fn a_pattern_covers_a_name_or_everything_below_it() {
        let below = permission("lock acquire orders/*");
        assert!(below.allows(Right::LockAcquire, "orders/eu"));
        assert!(below.allows(Right::LockRead, "orders/eu/1"));
        for other in ["orders", "orders/", "ordersx/a", "invoices"] {
            assert!(!below.allows(Right::LockAcquire, other), "{other}");
        }
        let exact = permission("lock acquire orders");
        assert!(exact.allows(Right::LockAcquire, "orders"));
        assert!(!exact.allows(Right::LockAcquire, "orders/eu"));
        assert!(!exact.allows(Right::LockForceRelease, "orders"));
        assert!(permission("tree read /*").allows(Right::TreeRead, "/a"));
        assert!(!permission("tree read /*").allows(Right::TreeRead, "/"));
    }

    #[test]
    fn a_prefix_is_covered_only_as_a_whole() {
        let below = permission("tree read /cfg/*");
        for (prefix, covered) in [("/cfg/", true), ("/cfg/a", true), ("/cfg", false), ("/", false)]
        {
            assert_eq!(below.allows_below(Right::TreeRead, prefix), covered, "{prefix}");
        }
        assert!(!permission("tree read /cfg").allows_below(Right::TreeRead, "/cfg"));
    }

    #[test]
    fn a_wrong_permission_says_what_to_write() {
        for (text, words) in [
            ("", "KIND VERB PATTERN"),
            ("lock", "KIND VERB PATTERN"),
            ("lock acquire", "KIND VERB PATTERN"),
            ("locks acquire *", "use audit, auth, cluster, lock"),
            ("lock own *", "use read, acquire, check"),
            ("lock read a*", "neither a name"),
            ("lock read */x", "neither a name"),
            ("lock read a/", "neither a name"),
            ("metrics read a", "write metrics read *"),
        ] {
            let error = text.parse::<Permission>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let long = format!("lock read {}", "a".repeat(1025));
        assert!(long.parse::<Permission>().unwrap_err().to_string().contains("1025 bytes"));
    }
}
