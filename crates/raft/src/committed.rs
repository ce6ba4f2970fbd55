//! The result of one command.

use holdfast_types::{Outcome, Revision};
use serde::{Deserialize, Serialize};

/// An applied command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// The result of the state machine.
    pub outcome: Outcome,
    /// The revision of the command.
    pub revision: Revision,
}
