//! Bodies of watches.

use serde::{Deserialize, Serialize};

use holdfast_types::{FencingToken, LockName, Revision, SessionName, ZnodePath};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// A node was created.
    Created,
    /// A node's data was replaced.
    Changed,
    /// A node was deleted.
    Deleted,
    /// A lock was granted.
    Granted,
    /// A lock is no longer held.
    Lost,
}

impl ChangeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::Granted => "granted",
            Self::Lost => "lost",
        }
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeBody {
    /// The revision of the change.
    pub revision: Revision,
    /// The kind.
    pub kind: ChangeKind,
    /// The path; of a lock, its directory.
    pub path: ZnodePath,
    /// The lock, if the change is one of a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockName>,
    /// The token that was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// The session whose hold began or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
}

impl ChangeBody {
    /// A change of a node.
    pub fn of_node(revision: Revision, kind: ChangeKind, path: ZnodePath) -> Self {
        Self { revision, kind, path, lock: None, token: None, session: None }
    }

    /// A grant, with its token; or the end of a hold, without one.
    pub fn of_lock(
        revision: Revision,
        lock: LockName,
        session: SessionName,
        token: Option<FencingToken>,
    ) -> Self {
        let kind = if token.is_some() { ChangeKind::Granted } else { ChangeKind::Lost };
        let path = ZnodePath::of_lock(&lock);
        Self { revision, kind, path, lock: Some(lock), token, session: Some(session) }
    }
}

/// The answer to a long poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchBody {
    /// The changes, in order; whole revisions. Empty if the wait has passed.
    pub events: Vec<ChangeBody>,
    /// All changes up to this revision are reported: the `since` of the next call.
    pub revision: Revision,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_looks_as_specified() {
        let change = ChangeBody::of_node(
            Revision(12),
            ChangeKind::Created,
            ZnodePath::new("/cfg/x").unwrap(),
        );
        let json = serde_json::to_string(&change).unwrap();
        assert_eq!(json, r#"{"revision":12,"kind":"created","path":"/cfg/x"}"#);
        let (lock, me) = (LockName::new("a").unwrap(), SessionName::new("me").unwrap());
        let change = ChangeBody::of_lock(Revision(12), lock, me, Some(FencingToken(4)));
        let json = serde_json::to_string(&change).unwrap();
        assert_eq!(
            json,
            r#"{"revision":12,"kind":"granted","path":"/locks/a","lock":"a","token":4,"session":"me"}"#
        );
    }
}
