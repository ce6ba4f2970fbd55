//! The two front-ends, and the name of each rejection of the machine there. Rejections that a front-end does not tell
//! apart have the same name.

/// The API over which a script is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// `/v1/tree` and `/v1/txn`.
    Http,
    /// The `ZooKeeper` port.
    ZooKeeper,
}

/// The machine's, HTTP's, `ZooKeeper`'s.
const NAMES: &[(&str, &str, i32)] = &[
    ("NoZnode", "not-found", -101),
    ("NotAllowed", "forbidden", -102),
    ("BadVersion", "version-mismatch", -103),
    ("NoChildrenForEphemerals", "ephemeral-parent", -108),
    ("ZnodeExists", "node-exists", -110),
    ("NotEmpty", "not-empty", -111),
    ("BadAcl", "invalid-argument", -114),
    ("QuotaExceeded", "quota-exceeded", -125),
    ("Reserved", "bad-name", -8),
];

impl FrontEnd {
    /// The name of a rejection of the machine at this front-end; `None` if there is no single name.
    pub(super) fn name_of(self, refusal: &str) -> Option<String> {
        let (_, http, zookeeper) = NAMES.iter().find(|(name, _, _)| *name == refusal)?;
        Some(match self {
            Self::Http => (*http).to_owned(),
            Self::ZooKeeper => zookeeper.to_string(),
        })
    }
}
