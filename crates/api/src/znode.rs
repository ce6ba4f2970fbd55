//! Bodies of znodes: stats, children, access lists.
//!
//! Revisions are cluster-wide; versions count the changes of one znode. Stamps are milliseconds since the Unix epoch
//! by the leader's clock: information, the same on every node.

use serde::{Deserialize, Serialize};

use holdfast_types::{
    AclEntry, CONTAINER_OWNER, NodeView, Page, Revision, Stat, TTL_OWNER, ZnodePath,
};

use crate::{Rfc3339Time, format_acl_entry};

/// The kind of a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ZnodeKindBody {
    /// Exists until it is deleted.
    Persistent,
    /// Deleted some time after the deletion of its last child.
    Container,
    /// Deleted when its session ends.
    Ephemeral,
    /// Deleted after its time-to-live without children and without changes.
    Ttl,
}

impl ZnodeKindBody {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Persistent => "persistent",
            Self::Container => "container",
            Self::Ephemeral => "ephemeral",
            Self::Ttl => "ttl",
        }
    }
}

/// The stat of a znode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatBody {
    /// The kind.
    pub kind: ZnodeKindBody,
    /// The number of changes of the data, for `If-Match`.
    pub version: i32,
    /// The number of created children plus the number of deleted children.
    pub children_version: i32,
    /// The number of changes of the access list.
    pub acl_version: i32,
    /// The revision that created the znode.
    pub created_revision: Revision,
    /// The revision that last changed the data.
    pub modified_revision: Revision,
    /// The revision that last created or deleted a child.
    pub children_revision: Revision,
    /// The time of creation.
    pub created_at: Rfc3339Time,
    /// The time of the last change of the data.
    pub modified_at: Rfc3339Time,
    /// The length of the data, bytes.
    pub data_length: i32,
    /// The current number of children.
    pub children: i32,
    /// The session number of an ephemeral znode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_number: Option<i64>,
    /// The time-to-live of a `ttl` znode, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<i64>,
}

impl From<Stat> for StatBody {
    fn from(stat: Stat) -> Self {
        let (kind, session_number, ttl_ms) = kind(stat.ephemeral_owner);
        Self {
            kind,
            version: stat.version,
            children_version: stat.cversion,
            acl_version: stat.aversion,
            created_revision: stat.created_in(),
            modified_revision: stat.changed_in(),
            children_revision: stat.children_changed_in(),
            created_at: Rfc3339Time(stat.ctime),
            modified_at: Rfc3339Time(stat.mtime),
            data_length: stat.data_length,
            children: stat.num_children,
            session_number,
            ttl_ms,
        }
    }
}

fn kind(owner: i64) -> (ZnodeKindBody, Option<i64>, Option<i64>) {
    match owner {
        0 => (ZnodeKindBody::Persistent, None, None),
        CONTAINER_OWNER => (ZnodeKindBody::Container, None, None),
        TTL_OWNER..0 => (ZnodeKindBody::Ttl, None, Some(owner - TTL_OWNER)),
        number => (ZnodeKindBody::Ephemeral, Some(number), None),
    }
}

/// A znode with its stat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ZnodeBody {
    /// The path.
    pub path: ZnodePath,
    /// The stat.
    #[serde(flatten)]
    pub stat: StatBody,
    /// The revision of this response; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
}

impl ZnodeBody {
    pub fn new(path: ZnodePath, stat: Stat, revision: Revision) -> Self {
        Self { path, stat: stat.into(), revision: Some(revision) }
    }
}

impl From<NodeView> for ZnodeBody {
    fn from(NodeView { path, stat }: NodeView) -> Self {
        Self { path, stat: stat.into(), revision: None }
    }
}

/// A child of a znode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChildBody {
    /// The name within the parent.
    pub name: String,
    /// The stat.
    #[serde(flatten)]
    pub stat: StatBody,
}

/// A page of a znode's children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChildrenBody {
    /// The path.
    pub path: ZnodePath,
    /// The children, ordered by name.
    pub children: Vec<ChildBody>,
    /// The `page_token` of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The revision of the read.
    pub revision: Revision,
}

impl ChildrenBody {
    pub fn new(path: ZnodePath, page: Page<NodeView>) -> Self {
        let child = |view: NodeView| ChildBody {
            name: view.path.file_name().to_owned(),
            stat: view.stat.into(),
        };
        Self {
            path,
            children: page.items.into_iter().map(child).collect(),
            next_page_token: page.next,
            revision: page.revision,
        }
    }
}

/// A page of a znode and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubtreeBody {
    /// The path.
    pub path: ZnodePath,
    /// The znode, and every znode below it that the caller may read.
    pub znodes: Vec<ZnodeBody>,
    /// The `page_token` of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
    /// The revision of the read.
    pub revision: Revision,
}

impl SubtreeBody {
    pub fn new(path: ZnodePath, page: Page<NodeView>) -> Self {
        Self {
            path,
            znodes: page.items.into_iter().map(ZnodeBody::from).collect(),
            next_page_token: page.next,
            revision: page.revision,
        }
    }
}

/// The access list of a znode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AclBody {
    /// The path.
    pub path: ZnodePath,
    /// The entries, `scheme:id:perms`.
    pub acl: Vec<String>,
    /// The number of changes of the list, for `If-Match` with `?acl`.
    pub acl_version: i32,
    /// The revision of this response.
    pub revision: Revision,
}

impl AclBody {
    pub fn new(path: ZnodePath, list: &[AclEntry], stat: &Stat, revision: Revision) -> Self {
        let acl = list.iter().map(format_acl_entry).collect();
        Self { path, acl, acl_version: stat.aversion, revision }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::Stamp;

    use super::*;

    fn stat(ephemeral_owner: i64) -> Stat {
        let (ctime, mtime) = (Stamp(1_700_000_000_000), Stamp(1_700_000_000_500));
        let (version, cversion, aversion) = (3, 2, 1);
        let (data_length, num_children) = (5, 2);
        Stat {
            ctime,
            mtime,
            version,
            cversion,
            aversion,
            ephemeral_owner,
            data_length,
            num_children,
            ..Stat::default()
        }
    }

    fn path(path: &str) -> ZnodePath {
        ZnodePath::new(path).unwrap()
    }

    #[test]
    fn a_node_looks_as_specified() {
        let body = ZnodeBody::new(path("/cfg/x"), stat(0), Revision(9));
        let expected = r#"{"path":"/cfg/x","kind":"persistent","version":3,"children_version":2,"acl_version":1,"created_revision":0,"modified_revision":0,"children_revision":0,"created_at":"2023-11-14T22:13:20.000Z","modified_at":"2023-11-14T22:13:20.500Z","data_length":5,"children":2,"revision":9}"#;
        let json = serde_json::to_string(&body).unwrap();
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<ZnodeBody>(&json).unwrap(), body);
    }

    #[test]
    fn the_kind_follows_from_the_ephemeral_owner() {
        let of = |owner| {
            let body = StatBody::from(stat(owner));
            (body.kind.as_str(), body.session_number, body.ttl_ms)
        };
        assert_eq!(of(0), ("persistent", None, None));
        assert_eq!(of(17), ("ephemeral", Some(17), None));
        assert_eq!(of(CONTAINER_OWNER), ("container", None, None));
        assert_eq!(of(TTL_OWNER + 3_600_000), ("ttl", None, Some(3_600_000)));
    }

    #[test]
    fn lists_look_as_specified() {
        let view = |at: &str| NodeView { path: path(at), stat: stat(0) };
        let page = |next: Option<&str>| Page {
            items: vec![view("/a/b")],
            next: next.map(str::to_owned),
            revision: Revision(4),
        };
        let children =
            serde_json::to_value(ChildrenBody::new(path("/a"), page(Some("b")))).unwrap();
        assert_eq!(children["children"][0]["name"], "b");
        assert_eq!(children["children"][0]["version"], 3);
        assert_eq!((&children["next_page_token"], &children["revision"]), (&"b".into(), &4.into()));
        let listed = serde_json::to_value(SubtreeBody::new(path("/a"), page(None))).unwrap();
        assert_eq!(listed["znodes"][0]["path"], "/a/b");
        assert!(
            listed.get("next_page_token").is_none() && listed["znodes"][0]["revision"].is_null()
        );
        let list = AclBody::new(path("/a"), &[AclEntry::open()], &stat(0), Revision(4));
        let expected = r#"{"path":"/a","acl":["world:anyone:cdrwa"],"acl_version":1,"revision":4}"#;
        assert_eq!(serde_json::to_string(&list).unwrap(), expected);
    }
}
