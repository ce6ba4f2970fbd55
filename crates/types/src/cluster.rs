//! The cluster as a part of the replicated state: its members, their changes, its feature level, and its seal.
//!
//! The state says who the members are and what is to change. The leader makes the Raft membership equal to it, and then
//! proposes [`MembershipChange::Finish`]. At most one change is unfinished at a time. An id is never reused.
//!
//! The feature level says which commands the log may have and which fields snapshots have. A member joins only if its program
//! knows the level, so no member meets a command that it does not know.
//!
//! | level | since | adds |
//! |---|---|---|
//! | 1 | 0.1 | everything |

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Address, Incarnation, NodeId, Reason, Revision, SecretHash, Stamp, SubjectName, Zone};

/// The advertised addresses of a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberAddresses {
    /// The address for other nodes.
    pub peer: Address,
    /// The address for HTTP clients.
    pub http: Address,
    /// The address for ZooKeeper clients.
    pub zookeeper: Address,
}

impl MemberAddresses {
    pub fn iter(&self) -> impl Iterator<Item = &Address> {
        [&self.peer, &self.http, &self.zookeeper].into_iter()
    }
}

/// Whether a member votes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum VotingRole {
    #[default]
    Voter,
    /// The member receives the log and does not vote.
    Learner,
    /// A learner that gets the vote of a voter that does not answer for a long time.
    Standby,
}

impl VotingRole {
    pub const ALL: [Self; 3] = [Self::Voter, Self::Learner, Self::Standby];

    /// The word in replies and parameters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Voter => "voter",
            Self::Learner => "learner",
            Self::Standby => "standby",
        }
    }
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// `None` for an initial member: each node has its addresses in its own configuration.
    pub addresses: Option<MemberAddresses>,
    pub zone: Option<Zone>,
    /// The role that the member has, or gets when `pending` is finished.
    pub role: VotingRole,
    /// The data directory; `None` until it is registered.
    pub incarnation: Option<Incarnation>,
    pub pending: Option<PendingChange>,
}

impl Member {
    /// The most members of a cluster.
    pub const COUNT_MAX: usize = 16;
    /// The most voters of a cluster: more voters make every commit slower and add no safety.
    pub const VOTERS_MAX: usize = 7;

    /// A member of a new cluster, which votes.
    pub const INITIAL: Self = Self {
        addresses: None,
        zone: None,
        role: VotingRole::Voter,
        incarnation: None,
        pending: None,
    };

    /// The invitation of a member that has not joined yet.
    pub fn invitation(&self) -> Option<&Invitation> {
        match (&self.pending, self.incarnation) {
            (Some(PendingChange::Join { invitation, .. }), None) => Some(invitation),
            _ => None,
        }
    }

    /// The member that leaves when this one has its role.
    pub fn replaces(&self) -> Option<NodeId> {
        match &self.pending {
            Some(PendingChange::Join { replaces, .. }) => *replaces,
            Some(PendingChange::Replace { replaces }) => Some(*replaces),
            Some(PendingChange::SetRole | PendingChange::Leave { .. }) | None => None,
        }
    }

    pub fn is_leaving(&self) -> bool {
        matches!(self.pending, Some(PendingChange::Leave { .. }))
    }
}

/// A change that the leader has not finished.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PendingChange {
    /// The member is invited, or its node receives the log before it gets its role.
    Join {
        invitation: Invitation,
        /// The member that leaves when this one has its role.
        replaces: Option<NodeId>,
    },
    /// The Raft membership does not have the new role yet.
    SetRole,
    /// The Raft membership still has the member.
    Leave { reason: Reason },
    /// The member does not have the vote of the other one yet.
    Replace { replaces: NodeId },
}

/// Lets one data directory join under the id of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Invitation {
    /// The SHA-256 of the secret in the join token.
    pub secret: SecretHash,
    pub expires_at: Stamp,
}

/// A former member. Its id is never used again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Retirement {
    pub at: Stamp,
    /// `None` if another member replaced it, or its invitation expired.
    pub reason: Option<Reason>,
    pub replaced_by: Option<NodeId>,
}

impl Retirement {
    /// The newest retirements that the state keeps.
    pub const COUNT_MAX: usize = 256;
}

/// A change of the members. Append-only: the order of the variants is part of the format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MembershipChange {
    /// Adds a member under a new id, which joins with the secret of the invitation.
    Invite {
        addresses: MemberAddresses,
        zone: Option<Zone>,
        role: VotingRole,
        invitation: Invitation,
        /// A member of the same role, which leaves in the same step of the Raft membership in which the new one votes.
        replaces: Option<NodeId>,
    },
    /// Changes the addresses or the zone; `None` keeps the present value.
    Update {
        node: NodeId,
        addresses: Option<MemberAddresses>,
        zone: Option<Zone>,
    },
    SetRole {
        node: NodeId,
        role: VotingRole,
    },
    /// Removes a member, or cancels its invitation.
    Remove {
        node: NodeId,
        reason: Reason,
    },
    /// The Raft membership is equal to the change of a member. Only nodes propose it.
    Finish {
        node: NodeId,
    },
    /// Gives a learner or standby the vote of another member, which leaves in the same step of the Raft membership.
    Replace {
        node: NodeId,
        replaces: NodeId,
    },
}

/// Why a change of the members was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MembershipRejection {
    /// Another change is unfinished.
    InProgress {
        /// The member that it changes.
        node: NodeId,
    },
    /// No member has this id.
    NoMember { node: NodeId },
    /// The id belonged to a former member.
    Retired { node: NodeId },
    /// Another member has the address.
    AddressInUse { address: Address, node: NodeId },
    /// The cluster would have no voter.
    LastVoter,
    /// The cluster would have more members, or more voters, than it may.
    TooMany { voters: bool },
    /// The member has the role already.
    HasRole { node: NodeId, role: VotingRole },
    /// A member that has not joined can only be removed.
    NotJoined { node: NodeId },
    /// A member is replaced by one of the same role, so that the number of voters stays the same.
    UnequalRoles {
        /// The member to replace, and its role.
        replaces: NodeId,
        role: VotingRole,
    },
}

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
