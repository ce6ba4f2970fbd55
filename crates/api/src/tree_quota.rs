//! Bodies of the quotas of subtrees.

use holdfast_types::{Page, Revision, SubtreeLimits, SubtreeQuotaView, ZnodePath};
use serde::{Deserialize, Serialize};

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
    use super::*;

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
