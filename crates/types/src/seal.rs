//! The seal of a cluster.

use serde::{Deserialize, Serialize};

use crate::{FeatureLevel, Reason, Revision, Stamp, SubjectName};

/// Why a cluster is sealed. A sealed cluster keeps its sessions, locks and tree unchanged until it is unsealed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seal {
    /// The revision of the command that sealed the cluster. It names this seal.
    pub revision: Revision,
    pub since: Stamp,
    /// The subject that sealed the cluster; `None` without a credential.
    pub by: Option<SubjectName>,
    pub reason: Reason,
}

impl Seal {
    /// The level from which on the state may have it.
    pub const LEVEL: FeatureLevel = FeatureLevel(2);
}
