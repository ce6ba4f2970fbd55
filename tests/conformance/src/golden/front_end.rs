//! The two front-ends, and their error for each rejection of the machine. Rejections that a front-end does not
//! distinguish have the same error.

/// The API of a script run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// `/v1/tree` and `/v1/txn`.
    Http,
    /// The ZooKeeper port.
    ZooKeeper,
}

/// Name in the machine, code in HTTP, code in ZooKeeper.
const NAMES: &[(&str, &str, i32)] = &[
    ("NoZnode", "not-found", -101),
    ("NotAllowed", "forbidden", -102),
    ("BadVersion", "version-mismatch", -103),
    ("NoChildrenForEphemerals", "ephemeral-parent", -108),
    ("ZnodeExists", "znode-exists", -110),
    ("NotEmpty", "not-empty", -111),
    ("BadAcl", "invalid-argument", -114),
    ("QuotaExceeded", "quota-exceeded", -125),
    ("Reserved", "bad-name", -8),
];

impl FrontEnd {
    /// This front-end's error for a rejection of the machine; `None` if there is no single one.
    pub(super) fn name_of(self, refusal: &str) -> Option<String> {
        let (_, http, zookeeper) = NAMES.iter().find(|(name, _, _)| *name == refusal)?;
        Some(match self {
            Self::Http => (*http).to_owned(),
            Self::ZooKeeper => zookeeper.to_string(),
        })
    }
}
