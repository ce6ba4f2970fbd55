//! Bodies of watches.

use serde::{Deserialize, Serialize};

use holdfast_types::{FencingToken, LockName, Revision, SessionName, ZnodePath};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// A znode was created.
    Created,
    /// The data of a znode was replaced.
    Changed,
    /// A znode was deleted.
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

/// A change of a znode or of a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeBody {
    /// The revision of the change.
    pub revision: Revision,
    /// The kind.
    pub kind: ChangeKind,
    /// The path of the znode; for a lock, the path of its directory.
    pub path: ZnodePath,
    /// The lock, for a change of a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockName>,
    /// The fencing token of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// The session whose hold began or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
}

impl ChangeBody {
    /// A change of a znode.
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

/// The response to a long poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchBody {
    /// The changes, in order, in complete revisions. Empty if the wait timed out.
    pub events: Vec<ChangeBody>,
    /// The response includes every change up to this revision, which is the `since` of the next call.
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
