//! Changes of the members, and transfers of leadership.
//!
//! Any node accepts a change: it checks the voters, and then proposes a command. The leader carries it out
//! (`raft::membership`). A trial run applies the command to a copy of this node's state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use holdfast_machine::Machine;
use holdfast_raft::Leadership;
use holdfast_types::{
    Address, ClusterId, Command, Entry, Invitation, Member, MemberAddresses, MembershipChange,
    MembershipRejection, NodeId, NodeOperation, Reason, Rejection, Reply, Right, SecretHash,
    VotingRole, Zone,
};

use crate::auth::access_token::random_bytes;
use crate::members::checks::{VoterChange, VotersView};
use crate::request::{Failure, Response};
use crate::service::Service;
use crate::service_call::{ServiceCall as _, TransferLeadership};

/// An invitation can be used for this long.
const INVITATION_TTL: Duration = Duration::from_hours(1);

/// How a change is carried out.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChangeMode {
    /// Also a change after which the cluster survives fewer failures.
    pub force: bool,
    /// Only the checks: nothing is proposed.
    pub dry_run: bool,
}

/// A member to add.
#[derive(Clone, Debug)]
pub struct NewMember {
    pub addresses: MemberAddresses,
    pub zone: Option<Zone>,
    /// `None` is the role of the replaced member; without one, a voter.
    pub role: Option<VotingRole>,
    /// The member that leaves when the new one has its role.
    pub replaces: Option<NodeId>,
}

/// What the node of a new member needs to join.
#[derive(Clone)]
pub struct InvitedMember {
    pub node: NodeId,
    pub cluster: String,
    pub cluster_id: ClusterId,
    pub secret: [u8; 32],
    /// All members, the new one included.
    pub members: BTreeMap<NodeId, MemberAddresses>,
}

/// The secret is left out.
impl std::fmt::Debug for InvitedMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InvitedMember").field("node", &self.node).finish_non_exhaustive()
    }
}

/// New values of a member; `None` keeps the present one.
#[derive(Clone, Debug, Default)]
pub struct MemberUpdate {
    pub peer: Option<Address>,
    pub http: Option<Address>,
    pub zookeeper: Option<Address>,
    pub zone: Option<Zone>,
}

impl Service {
    /// All members with their addresses, as this node knows them.
    pub fn members(&self) -> BTreeMap<NodeId, MemberAddresses> {
        self.raft().members()
    }

    /// Whether the cluster has no other node.
    pub fn is_only_member(&self) -> bool {
        self.members().len() <= 1
    }

    /// Invites a member. `None` after a trial run.
    ///
    /// # Errors
    /// [`Failure::UnsafeChange`] if the voters do not allow it, a rejection with its reason, or the errors of any write.
    pub async fn invite_member(
        &self,
        new: NewMember,
        mode: ChangeMode,
    ) -> Result<Response<Option<InvitedMember>>, Failure> {
        self.require(Right::ClusterManage)?;
        self.read_barrier().await?;
        let NewMember { addresses, zone, role, replaces } = new;
        let role = role.or_else(|| self.role_of(replaces?)).unwrap_or_default();
        self.check_addresses(&addresses, replaces)?;
        if role == VotingRole::Voter {
            let change = replaces.map_or(VoterChange::Add, VoterChange::Replace);
            self.check_voters(change, mode.force).await?;
        }
        let secret = random_bytes()?;
        let expires_at = self.stamp_after(INVITATION_TTL);
        let invitation = Invitation { secret: SecretHash::of(&secret), expires_at };
        let joining = addresses.clone();
        let change = MembershipChange::Invite { addresses, zone, role, invitation, replaces };
        let invited = self.change_members(change, mode.dry_run, Reply::into_member_invited).await?;
        let (cluster_id, cluster) =
            (self.cluster_id().ok_or(Failure::NoLeader)?, self.parts.cluster.clone());
        let mut members = self.members();
        Ok(invited.map(|node| {
            let node = node?;
            // A node at the addresses of the one that it replaces knows itself there.
            members.retain(|_, member| {
                !member.iter().any(|used| joining.iter().any(|new| new == used))
            });
            members.insert(node, joining);
            Some(InvitedMember { node, cluster, cluster_id, secret, members })
        }))
    }

    /// Changes the addresses or the zone of a member.
    ///
    /// # Errors
    /// A rejection with its reason, or the errors of any write.
    pub async fn update_member(
        &self,
        node: NodeId,
        update: MemberUpdate,
        mode: ChangeMode,
    ) -> Result<Response<()>, Failure> {
        self.require(Right::ClusterManage)?;
        self.read_barrier().await?;
        let MemberUpdate { peer, http, zookeeper, zone } = update;
        let changes_address = peer.is_some() || http.is_some() || zookeeper.is_some();
        let addresses = match self.members().remove(&node) {
            Some(known) if changes_address => Some(MemberAddresses {
                peer: peer.unwrap_or(known.peer),
                http: http.unwrap_or(known.http),
                zookeeper: zookeeper.unwrap_or(known.zookeeper),
            }),
            _ => None,
        };
        if let Some(addresses) = &addresses {
            self.check_addresses(addresses, Some(node))?;
        }
        let change = MembershipChange::Update { node, addresses, zone };
        let changed = self.change_members(change, mode.dry_run, Reply::into_membership_changed);
        Ok(changed.await?.map(drop))
    }

    /// Gives a member its vote, or takes it. A new voter can replace another one.
    ///
    /// # Errors
    /// As [`Service::invite_member`].
    pub async fn set_member_role(
        &self,
        node: NodeId,
        role: VotingRole,
        replaces: Option<NodeId>,
        mode: ChangeMode,
    ) -> Result<Response<()>, Failure> {
        self.require(Right::ClusterManage)?;
        self.read_barrier().await?;
        let (effect, change) = match (role, replaces) {
            (_, Some(replaces)) => {
                (VoterChange::Replace(replaces), MembershipChange::Replace { node, replaces })
            }
            (VotingRole::Voter, None) => {
                (VoterChange::Add, MembershipChange::SetRole { node, role })
            }
            (VotingRole::Learner | VotingRole::Standby, None) => {
                (VoterChange::Remove(node), MembershipChange::SetRole { node, role })
            }
        };
        self.check_voters(effect, mode.force).await?;
        let changed = self.change_members(change, mode.dry_run, Reply::into_membership_changed);
        Ok(changed.await?.map(drop))
    }

    /// Removes a member, or cancels its invitation. The member's id is never used again.
    ///
    /// # Errors
    /// As [`Service::invite_member`].
    pub async fn remove_member(
        &self,
        node: NodeId,
        reason: Reason,
        mode: ChangeMode,
    ) -> Result<Response<()>, Failure> {
        self.require(Right::ClusterManage)?;
        self.read_barrier().await?;
        if self.raft().status().voters.contains(&node) {
            self.check_voters(VoterChange::Remove(node), mode.force).await?;
        }
        let change = MembershipChange::Remove { node, reason };
        let changed = self.change_members(change, mode.dry_run, Reply::into_membership_changed);
        Ok(changed.await?.map(drop))
    }

    /// Transfers leadership to a voter that has every entry, or to `to`. Returns the leader after it.
    ///
    /// # Errors
    /// [`Failure::UnsafeChange`] if `to` is not a voter that works; [`Failure::NoLeader`].
    pub async fn transfer_leadership(
        &self,
        to: Option<NodeId>,
    ) -> Result<Response<NodeId>, Failure> {
        self.require(Right::ClusterManage)?;
        self.read_barrier().await?;
        let view = self.voters_view().await;
        if let Some(to) = to.filter(|to| !(view.voters.contains(to) && view.healthy.contains(to))) {
            let detail =
                format!("node {to} is not a voter that works: holdfast member ls lists the voters");
            return Err(Failure::UnsafeChange { detail, can_be_forced: false });
        }
        self.record_operation(NodeOperation::TransferLeadership { to }).await?;
        let deadline = self.deadline();
        let from = self.leader().ok_or_else(|| self.no_leader())?;
        let transfer = TransferLeadership { to };
        let is_asked = match to {
            Some(_) => self.call_leader(transfer, deadline).await.map(|()| true)?,
            // Each further call would end the next leadership.
            None if from == self.node() => transfer.answer(self, deadline).await.is_ok(),
            None => self.call_service(from, transfer, deadline).await.is_ok(),
        };
        // This node may learn of the new leader later than the old one.
        let moves = to != Some(from) && view.voters.len() > 1;
        let is_over = |now: &Leadership| now.leader.is_some_and(|leader| !moves || leader != from);
        let give_up_at = deadline.min(Instant::now() + self.raft().leader_wait());
        let mut leadership = self.raft().leadership();
        drop(tokio::time::timeout_at(give_up_at.into(), leadership.wait_for(is_over)).await);
        let leader = self.leader().filter(|leader| is_asked || *leader != from);
        let leader = leader.ok_or_else(|| self.no_leader())?;
        Ok(Response::new(leader, self.revision()))
    }

    async fn change_members<T>(
        &self,
        change: MembershipChange,
        dry_run: bool,
        extract: impl FnOnce(Reply) -> Option<T>,
    ) -> Result<Response<Option<T>>, Failure> {
        let command = Command::Membership(change);
        if !dry_run {
            return Ok(self.propose(command, extract).await?.map(Some));
        }
        self.authorize(&command).await?;
        self.read_barrier().await?;
        let mut copy = self.raft().read(Machine::clone);
        let revision = copy.revision();
        let commands = vec![self.signed(command)];
        let outcome = copy.apply(Entry { stamped_at: self.log_time(), commands }).outcomes.pop();
        outcome.ok_or(Failure::UnexpectedReply)?.map_err(Failure::Rejected)?;
        Ok(Response::new(None, revision))
    }

    fn role_of(&self, node: NodeId) -> Option<VotingRole> {
        self.raft().read(|machine| machine.member(node).map(|member| member.role))
    }

    async fn check_voters(&self, change: VoterChange, force: bool) -> Result<(), Failure> {
        self.voters_view().await.check(change, force)
    }

    async fn voters_view(&self) -> VotersView {
        let voters = self.raft().status().voters.into_iter().collect();
        let nodes = self.cluster().await.nodes.into_iter();
        let healthy: BTreeSet<NodeId> =
            nodes.filter(|node| node.healthy).map(|node| node.id).collect();
        VotersView { voters, healthy }
    }

    /// Rejects an address of another member. The state has no addresses of initial members.
    fn check_addresses(
        &self,
        addresses: &MemberAddresses,
        except: Option<NodeId>,
    ) -> Result<(), Failure> {
        for (node, member) in self.members().into_iter().filter(|(node, _)| Some(*node) != except) {
            if let Some(address) =
                addresses.iter().find(|new| member.iter().any(|used| used == *new)).cloned()
            {
                let in_use = MembershipRejection::AddressInUse { address, node };
                return Err(Failure::Rejected(Rejection::Membership(in_use)));
            }
        }
        Ok(())
    }

    /// `None` before the bootstrap.
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.raft().read(Machine::cluster_id)
    }
}

/// The unfinished change of a member, in words.
pub(crate) fn pending_text(member: &Member, now: holdfast_types::Stamp) -> Option<&'static str> {
    use holdfast_types::PendingChange;
    match (&member.pending, member.invitation()) {
        (None, _) => None,
        (Some(_), Some(invitation)) if invitation.expires_at <= now => Some("invitation expired"),
        (Some(_), Some(_)) => Some("invited"),
        (Some(PendingChange::Join { .. }), None) => Some("joining"),
        (Some(PendingChange::SetRole | PendingChange::Replace { .. }), None) => {
            Some("changing its role")
        }
        (Some(PendingChange::Leave { .. }), None) => Some("leaving"),
    }
}
