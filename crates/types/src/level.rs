//! The feature level of a cluster, and its seal.
//!
//! The level is part of the replicated state. It says which commands the log may have and which fields snapshots have. A
//! member joins only if its program knows the level, so no member meets a command that it does not know.
//!
//! | level | since | adds |
//! |---|---|---|
//! | 1 | 0.1 | everything |

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Reason, Revision, Stamp, SubjectName};

/// A feature level, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeatureLevel(pub u16);

impl FeatureLevel {
    pub const FIRST: Self = Self(1);
    /// The highest level that this program knows.
    pub const NEWEST: Self = Self(1);
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

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
