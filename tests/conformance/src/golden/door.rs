//! The two doors, and how each calls the machine's refusals.
//!
//! Owns the table of their names. One that a door does not tell from others is common to these there.

/// Where a script is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// `/v1/tree` and `/v1/txn`.
    Http,
    /// The `ZooKeeper` port.
    ZooKeeper,
}

/// The machine's, HTTP's, `ZooKeeper`'s.
const NAMES: &[(&str, &str, i32)] = &[
    ("NoNode", "not-found", -101),
    ("NotAllowed", "forbidden", -102),
    ("BadVersion", "version-mismatch", -103),
    ("NoChildrenForEphemerals", "ephemeral-parent", -108),
    ("NodeExists", "node-exists", -110),
    ("NotEmpty", "not-empty", -111),
    ("BadAcl", "invalid-argument", -114),
    ("QuotaExceeded", "quota-exceeded", -125),
    ("Reserved", "bad-name", -8),
];

impl Door {
    /// What this door calls a refusal of the machine; none if there is no one name.
    pub(super) fn name_of(self, refusal: &str) -> Option<String> {
        let (_, http, zookeeper) = NAMES.iter().find(|(name, _, _)| *name == refusal)?;
        Some(match self {
            Self::Http => (*http).to_owned(),
            Self::ZooKeeper => zookeeper.to_string(),
        })
    }
}
