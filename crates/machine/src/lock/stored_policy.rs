//! The policy of a lock as its directory stores it.

use holdfast_types::LockPolicy;
use serde::{Deserialize, Serialize};

/// The policy of one lock. Invariant: it differs from the default policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StoredPolicy {
    pub(crate) policy: LockPolicy,
    /// An operator has set the policy: the directory is not swept, so the policy stays.
    pub(crate) kept: bool,
}
