//! Acts of operators: commands that end a hold or change its holder from outside (break, release request, hand-over), and
//! operations that change no replicated state.
//!
//! The audit trail has the latter before a node carries them out. A read of the trail is none of them: a record of each would
//! wake the reader that follows it.

use serde::{Deserialize, Serialize};

use crate::{FencingToken, LockName, NodeId, Owner, Reason, Right, SessionName, Stamp, Ticket};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForceRelease {
    pub lock: LockName,
    pub what: ForceReleaseTarget,
    /// Shown to the clients that lose their entries, and kept in the audit trail.
    pub reason: Reason,
}

/// Which queue entries an operator removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForceReleaseTarget {
    /// Every holder at the time of `apply`. A repeated command also removes later holders.
    Holders,
    /// The holder or waiter with this ticket.
    Ticket(Ticket),
    /// The holder or waiter with this sequence number in the lock's directory.
    Sequence(u64),
    /// The holder with this token. If its hold was the last, and the lock has no holder, the command ends the cooldown. A
    /// repeated command removes no later holder.
    Token(FencingToken),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRelease {
    pub lock: LockName,
    /// `None` means every holder.
    pub holder: Option<(SessionName, Owner)>,
    /// The hold that should end; any other is not asked. `None` means any hold.
    pub token: Option<FencingToken>,
    /// Shown to the holder.
    pub reason: Option<Reason>,
    /// Milliseconds from `apply`, from 1 to [`RequestRelease::DEADLINE_MAX_MS`].
    pub deadline_ms: u64,
    /// Whether the hold ends at the deadline.
    pub revoke: bool,
}

impl RequestRelease {
    /// Thirty days.
    pub const DEADLINE_MAX_MS: u64 = 30 * 86_400_000;
}

/// A request that a holder release the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReleaseRequest {
    pub reason: Option<Reason>,
    pub requested_at: Stamp,
    pub deadline: Stamp,
    /// Whether the hold ends at the deadline.
    pub revoke: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    pub lock: LockName,
    /// The present holder.
    pub from: (SessionName, Owner),
    /// The next holder.
    pub to: (SessionName, Owner),
    /// The token of the hold to hand over; any other hold stays. A retry gets the first reply while the receiving
    /// session remembers it. `None` means any hold of `from`.
    pub token: Option<FencingToken>,
}

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
