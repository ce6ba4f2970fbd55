//! Operations of an operator that change no replicated state. The audit trail has them before a node carries them out.
//!
//! A read of the trail is none of them: a record of each would wake the reader that follows it.

use serde::{Deserialize, Serialize};

use crate::{NodeId, Right};

/// Append-only: the order of the variants is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeOperation {
    /// A node sends a backup of everything.
    Backup { node: NodeId },
    /// `None` for a voter that has every entry.
    TransferLeadership { to: Option<NodeId> },
    /// The filter of a node's log is changed; `None` for the configured one.
    SetLog { node: NodeId, filter: Option<String>, lasts_ms: u64 },
}

impl NodeOperation {
    /// The right that it needs.
    pub const fn right(&self) -> Right {
        match self {
            Self::Backup { .. } => Right::ClusterBackup,
            Self::TransferLeadership { .. } => Right::ClusterManage,
            Self::SetLog { .. } => Right::ClusterOperate,
        }
    }
}
