//! The first words on a connection between nodes: who calls, what for, and whom the caller believes to reach.

use std::fmt;

use holdfast_types::{Incarnation, NodeId};
use serde::{Deserialize, Serialize};

/// Version of the peer protocol. Two nodes talk only if theirs are equal.
pub(crate) const PROTOCOL: u16 = 1;

/// What a connection is for. Each purpose has a connection of its own, so that a large append or a snapshot never
/// delays a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Appends with entries.
    Replication,
    /// Heartbeats, votes and transfers of leadership.
    Control,
    /// Snapshots.
    Snapshot,
    /// Forwarded proposals, read indexes and the service's own calls.
    Calls,
    /// What a node without a log asks. The one purpose for which nodes need not know each other's data directories.
    Founding,
}

/// What the connecting node says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u16,
    pub(crate) cluster: String,
    pub(crate) from: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) to: NodeId,
    pub(crate) purpose: Purpose,
}

/// What the other node answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HelloReply {
    /// Go on.
    Welcome {
        /// Who answers.
        node: NodeId,
        /// Its data directory.
        incarnation: Incarnation,
    },
    /// Go away.
    Refused(Refusal),
}

/// Why a connection is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The versions of the protocol differ.
    Protocol { ours: u16 },
    /// The names of the clusters differ.
    Cluster { ours: String },
    /// Another node was meant.
    NotMe { ours: NodeId },
    /// The caller is not in our configuration.
    Stranger,
    /// The cluster knows the caller's id by another data directory.
    Incarnation,
    /// Too many connections.
    Busy,
    /// Neither the log nor the founding of the cluster tells the caller's data directory.
    Unregistered,
}

impl Purpose {
    /// One word for the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Replication => "replication",
            Self::Control => "control",
            Self::Snapshot => "snapshot",
            Self::Calls => "calls",
            Self::Founding => "founding",
        }
    }
}

impl Refusal {
    /// One word for the log of the node that refuses; the text is for the node that is refused.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Protocol { .. } => "protocol",
            Self::Cluster { .. } => "cluster",
            Self::NotMe { .. } => "not-me",
            Self::Stranger => "stranger",
            Self::Incarnation => "incarnation",
            Self::Busy => "busy",
            Self::Unregistered => "unregistered",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol { ours } => {
                write!(
                    f,
                    "it speaks version {ours} of the peer protocol, not {PROTOCOL}: run the same version on all nodes"
                )
            }
            Self::Cluster { ours } => {
                write!(
                    f,
                    "it belongs to cluster {ours:?}: fix `cluster` or the addresses of the members"
                )
            }
            Self::NotMe { ours } => {
                write!(f, "it is node {ours}: fix the addresses of the members")
            }
            Self::Stranger => {
                write!(f, "its configuration has no such member: use the same members on all nodes")
            }
            Self::Incarnation => write!(
                f,
                "the cluster knows this node's id by another data directory: restore that directory, or join under a new id"
            ),
            Self::Busy => write!(f, "it has too many connections"),
            Self::Unregistered => write!(
                f,
                "it does not know the caller's data directory: it belongs to no cluster yet, or has not applied the registration yet"
            ),
        }
    }
}
