//! The handshake on a connection between nodes: the caller's identity, the connection's purpose, and the expected
//! node.
//!
//! Both messages end with [`Extensions`], so a later version adds a field without a new format.

use std::fmt;

use bytes::Bytes;
use holdfast_types::{ClusterId, FeatureLevel, Incarnation, NodeId};
use serde::{Deserialize, Serialize};

/// The versions of the peer protocol that a program speaks. Two nodes use the highest version that both speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProtocolRange {
    pub(crate) oldest: u16,
    pub(crate) newest: u16,
}

/// The versions of this program.
pub(crate) const PROTOCOLS: ProtocolRange = ProtocolRange { oldest: 1, newest: 1 };

/// Fields of later versions, by tag. A reader skips unknown tags.
pub(crate) type Extensions = Vec<(u16, Bytes)>;

/// The secret of an invitation, in the hello of a node that joins a cluster.
pub(crate) const JOIN_SECRET: u16 = 1;

/// The request of a node whose data directory was emptied, in a hello without a log (`start/join.rs`).
pub(crate) const READMISSION: u16 = 2;

/// The last entry that the receiver of the message must have, as a little-endian number (`acknowledged.rs`).
pub(crate) const MUST_HAVE: u16 = 3;

/// The index after the last entry of the caller, as a little-endian number.
pub(crate) const LOG_END: u16 = 4;

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
    /// Requests of a node without a log. Its data directory need not be registered.
    Bootstrap,
}

/// The first message, from the connecting node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocols: ProtocolRange,
    pub(crate) cluster: String,
    /// `None` before the caller belongs to a cluster.
    pub(crate) cluster_id: Option<ClusterId>,
    /// The highest feature level that the caller's program knows.
    pub(crate) level_max: FeatureLevel,
    pub(crate) from: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) to: NodeId,
    pub(crate) purpose: Purpose,
    pub(crate) extensions: Extensions,
}

/// The reply of the accepting node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HelloReply {
    Accepted(HelloAccepted),
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HelloAccepted {
    /// The version for the connection.
    pub(crate) protocol: u16,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    /// The highest feature level that the program of the accepting node knows.
    pub(crate) level_max: FeatureLevel,
    pub(crate) extensions: Extensions,
}

/// The reason for a refused connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// No version of the protocol is common to both, or the hello is not readable.
    Protocol { ours: ProtocolRange },
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
    /// The clusters have the same name and different ids.
    ClusterId { ours: ClusterId },
    /// The caller's program does not know the feature level of the cluster.
    Level { cluster: FeatureLevel },
    /// The caller's certificate does not name the caller.
    Certificate,
    /// The caller is a former member.
    Retired { why: String },
    /// The caller is invited, and its secret does not prove it.
    Invitation { why: InvitationRefusal },
    /// The cluster has invited the emptied caller under this new id. Only a caller that asked for it gets this reason.
    Readmitted { node: NodeId, cluster_id: ClusterId },
    /// The log of one of the two nodes ends before an entry that it has acknowledged.
    LostEntries { node: NodeId, must_have: u64, log_end: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InvitationRefusal {
    /// The hello has no secret.
    Missing,
    Wrong,
    Expired,
}

impl ProtocolRange {
    /// The highest version in both ranges.
    pub(crate) fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl fmt::Display for ProtocolRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { oldest, newest } = self;
        if oldest == newest { write!(f, "{newest}") } else { write!(f, "{oldest} to {newest}") }
    }
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
            Self::ClusterId { .. } => "cluster-id",
            Self::Level { .. } => "level",
            Self::Certificate => "certificate",
            Self::Retired { .. } => "retired",
            Self::Invitation { .. } => "invitation",
            Self::Readmitted { .. } => "readmitted",
            Self::LostEntries { .. } => "lost-entries",
        }
    }

    /// Returns whether a node has lost the entry that the refusal names; `None` if the refusal is not about its log. `log_end` is
    /// the present end of its log: if that log has the entry, the refusing node compared an outdated end.
    pub(crate) fn is_loss_of(&self, node: NodeId, log_end: u64) -> Option<bool> {
        let Self::LostEntries { node: named, must_have, .. } = self else { return None };
        (*named == node).then_some(*must_have >= log_end)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol { ours } => write!(
                f,
                "the peer speaks version {ours} of the peer protocol, this node version {PROTOCOLS}: upgrade the older of the two"
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
                "this node is not a member of the peer's cluster: add it with holdfast member add; for a new cluster, use the same \
                 members on all nodes"
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
            Self::ClusterId { ours } => write!(
                f,
                "the peer belongs to another cluster of the same name, with the id {ours}: fix the addresses of the members, or \
                 start this node with an empty data directory"
            ),
            Self::Level { cluster } => write!(
                f,
                "the cluster has feature level {cluster}, and this program knows levels up to {}: upgrade this node",
                FeatureLevel::NEWEST
            ),
            Self::Certificate => write!(
                f,
                "this node's certificate names neither this node (holdfast://CLUSTER/node/node-ID) nor the host of its peer address: \
                 create one with holdfast certs node"
            ),
            Self::Retired { why } => write!(
                f,
                "this node has left the cluster: {why}; add a new member with holdfast member add, and give it an empty data directory"
            ),
            Self::Readmitted { node, .. } => {
                write!(f, "the cluster has invited this emptied node as node {node}")
            }
            Self::LostEntries { node, must_have, log_end } => write!(
                f,
                "node {node} has acknowledged entry {must_have}, and its log ends before entry {log_end}: its data directory is an older \
                 copy, or its disk has lost writes. Replace it with an empty directory: holdfast member replace"
            ),
            Self::Invitation { why } => {
                let why = match why {
                    InvitationRefusal::Missing => "this node has no join token",
                    InvitationRefusal::Wrong => "the join token is not that of this member",
                    InvitationRefusal::Expired => "the join token has expired",
                };
                write!(
                    f,
                    "{why}: add the member again with holdfast member add, and join with the new token"
                )
            }
        }
    }
}
