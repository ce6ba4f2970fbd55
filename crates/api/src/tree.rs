//! Bodies of calls on the tree as a whole: transactions, watches, and quotas of subtrees.

use holdfast_types::{
    FencingToken, LockName, Op, OpReply, Page, Revision, SessionName, SubtreeLimits,
    SubtreeQuotaView, ZnodePath,
};
use serde::{Deserialize, Serialize};

use crate::StatBody;

/// The response to a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TxnBody {
    /// Whether every condition held and `then` was applied; otherwise `else` was applied.
    pub succeeded: bool,
    /// The result of each applied operation, in order.
    pub results: Vec<OpBody>,
    /// The revision of the change.
    pub revision: Revision,
}

/// The result of one operation: its key and path, and the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OpBody {
    /// The znode was created.
    Created {
        /// The path, with the number of a sequential znode.
        create: ZnodePath,
        /// The stat.
        stat: StatBody,
    },
    /// The data was replaced.
    DataSet {
        /// The path.
        set: ZnodePath,
        /// The stat.
        stat: StatBody,
    },
    /// The access list was replaced.
    AclSet {
        /// The path.
        set_acl: ZnodePath,
        /// The stat.
        stat: StatBody,
    },
    /// The znode was deleted.
    Deleted {
        /// The path; with `recursive`, everything below it was deleted as well.
        delete: ZnodePath,
        /// The number of deleted znodes.
        count: u32,
    },
    /// The znode exists, with the expected version.
    Checked {
        /// The path.
        check: ZnodePath,
    },
}

impl OpBody {
    pub fn new(path: ZnodePath, reply: OpReply) -> Self {
        match reply {
            OpReply::Created { path, stat } => Self::Created { create: path, stat: stat.into() },
            OpReply::DataSet { stat } => Self::DataSet { set: path, stat: stat.into() },
            OpReply::AclSet { stat } => Self::AclSet { set_acl: path, stat: stat.into() },
            OpReply::Deleted { count } => Self::Deleted { delete: path, count },
            OpReply::Checked => Self::Checked { check: path },
        }
    }
}

/// The path of an operation; for a create, the path of the directory.
pub fn path_of(op: &Op) -> &ZnodePath {
    match op {
        Op::Create(create) => &create.directory,
        Op::Delete { path, .. }
        | Op::SetData { path, .. }
        | Op::SetAcl { path, .. }
        | Op::Check { path, .. } => path,
    }
}

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

/// A page of the quotas of subtrees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeQuotasBody {
    /// By path.
    pub quotas: Vec<TreeQuotaBody>,
    /// The `page_token` of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The revision of the read.
    pub revision: Revision,
}

/// The quota of a subtree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeQuotaBody {
    /// The root of the subtree, which need not exist.
    pub path: ZnodePath,
    /// The limits.
    pub limits: TreeQuotaLimits,
    /// What the subtree uses.
    pub used: TreeQuotaUse,
}

/// The limits of a subtree. A limit that is missing is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeQuotaLimits {
    /// More znodes are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub znodes: Option<u64>,
    /// More bytes of data are rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// More znodes raise an alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_znodes: Option<u64>,
    /// More bytes of data raise an alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_bytes: Option<u64>,
}

/// What a subtree uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TreeQuotaUse {
    /// The number of znodes, including the root of the subtree.
    pub znodes: u64,
    /// The bytes of data.
    pub bytes: u64,
}

impl From<SubtreeQuotaView> for TreeQuotaBody {
    fn from(quota: SubtreeQuotaView) -> Self {
        let SubtreeQuotaView { path, limits, used_znodes, used_bytes } = quota;
        let SubtreeLimits { znodes, bytes, soft_znodes, soft_bytes } = limits;
        let limits = TreeQuotaLimits { znodes, bytes, soft_znodes, soft_bytes };
        Self { path, limits, used: TreeQuotaUse { znodes: used_znodes, bytes: used_bytes } }
    }
}

impl From<Page<SubtreeQuotaView>> for TreeQuotasBody {
    fn from(Page { items, next, revision }: Page<SubtreeQuotaView>) -> Self {
        let quotas = items.into_iter().map(TreeQuotaBody::from).collect();
        Self { quotas, next_page_token: next, revision }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::Stat;

    use super::*;

    fn path(path: &str) -> ZnodePath {
        ZnodePath::new(path).unwrap()
    }

    #[test]
    fn results_repeat_the_key_and_path_of_their_operation() {
        let created = OpReply::Created { path: path("/q/n-0000000001"), stat: Stat::default() };
        let results = vec![
            OpBody::new(path("/q"), created),
            OpBody::new(path("/a"), OpReply::DataSet { stat: Stat::default() }),
            OpBody::new(path("/b"), OpReply::Deleted { count: 2 }),
            OpBody::new(path("/a"), OpReply::Checked),
        ];
        let body = TxnBody { succeeded: true, results, revision: Revision(7) };
        let json = serde_json::to_value(&body).unwrap();
        assert_eq!(json["results"][0]["create"], "/q/n-0000000001");
        assert_eq!(json["results"][0]["stat"]["version"], 0);
        assert_eq!(json["results"][1]["set"], "/a");
        assert_eq!(json["results"][2].to_string(), r#"{"count":2,"delete":"/b"}"#);
        assert_eq!(json["results"][3].to_string(), r#"{"check":"/a"}"#);
        assert_eq!(serde_json::from_value::<TxnBody>(json).unwrap(), body);
    }

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

    #[test]
    fn a_quota_looks_as_specified() {
        let limits = SubtreeLimits { znodes: Some(5), ..SubtreeLimits::default() };
        let path = ZnodePath::new("/cfg").unwrap();
        let view = SubtreeQuotaView { path, limits, used_znodes: 2, used_bytes: 9 };
        let json = serde_json::to_string(&TreeQuotaBody::from(view)).unwrap();
        let expected = r#"{"path":"/cfg","limits":{"znodes":5},"used":{"znodes":2,"bytes":9}}"#;
        assert_eq!(json, expected);
    }
}
