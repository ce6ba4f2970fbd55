//! The handshake on a connection between nodes: the caller's identity, the connection's purpose, and the expected
//! node.

use std::fmt;

use holdfast_types::{Incarnation, NodeId};
use serde::{Deserialize, Serialize};

/// The version of the peer protocol. Two nodes exchange requests only if their versions are equal.
pub(crate) const PROTOCOL: u16 = 2;

/// The purpose of a connection. Each purpose has its own connection, so that a large append or a snapshot never delays
/// a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Appends with entries.
    Replication,
    /// Heartbeats, votes and leadership transfers.
    Control,
    /// Snapshots.
    Snapshot,
    /// Forwarded proposals, read indexes and calls between services.
    Calls,
    /// Requests of a node without a log. Only this purpose permits unregistered data directories.
    Bootstrap,
}

/// The first message, from the connecting node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u16,
    pub(crate) cluster: String,
    pub(crate) from: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) to: NodeId,
    pub(crate) purpose: Purpose,
}

/// The reply of the accepting node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HelloReply {
    Accepted { node: NodeId, incarnation: Incarnation },
    Refused(Refusal),
}

/// The reason for a refused connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The versions of the protocol differ.
    Protocol { ours: u16 },
    /// The names of the clusters differ.
    Cluster { ours: String },
    /// The caller expects another node at this address.
    WrongNode { ours: NodeId },
    /// The caller is not among the configured members.
    NotMember,
    /// The cluster has registered the caller's id with another data directory.
    Incarnation,
    /// Too many connections.
    Busy,
    /// Neither the log nor the initial members name the caller's data directory.
    Unregistered,
}

impl Purpose {
    /// The value of the log field `purpose`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Replication => "replication",
            Self::Control => "control",
            Self::Snapshot => "snapshot",
            Self::Calls => "calls",
            Self::Bootstrap => "bootstrap",
        }
    }
}

impl Refusal {
    /// The value of the log field `refusal` on the refusing node. The `Display` text is for the refused node.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Protocol { .. } => "protocol",
            Self::Cluster { .. } => "cluster",
            Self::WrongNode { .. } => "wrong-node",
            Self::NotMember => "not-member",
            Self::Incarnation => "incarnation",
            Self::Busy => "busy",
            Self::Unregistered => "unregistered",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol { ours } => write!(
                f,
                "the peer uses version {ours} of the peer protocol, this node version {PROTOCOL}: run the same version on all nodes"
            ),
            Self::Cluster { ours } => write!(
                f,
                "the peer belongs to cluster {ours:?}: fix `cluster` or the addresses of the members"
            ),
            Self::WrongNode { ours } => {
                write!(f, "the peer is node {ours}: fix the addresses of the members")
            }
            Self::NotMember => write!(
                f,
                "this node is not in the peer's configuration: use the same members on all nodes"
            ),
            Self::Incarnation => write!(
                f,
                "the cluster has registered this node's id with another data directory: restore that directory, or join under a new id"
            ),
            Self::Busy => write!(f, "the peer has too many connections"),
            Self::Unregistered => write!(
                f,
                "the peer has not registered this node's data directory: it belongs to no cluster yet, or has not applied the registration yet"
            ),
        }
    }
}
