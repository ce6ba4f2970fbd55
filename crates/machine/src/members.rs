//! The members of the cluster and the commands that change them.
//!
//! The state has the members that the cluster is to have. The leader makes the Raft membership equal to it and proposes
//! [`MembershipChange::Finish`], so a change survives the end of the leader. Invariants: at most one change is unfinished; no
//! two members share an address; no id is used twice. Bounds: [`Member::COUNT_MAX`] members, and the newest
//! [`Retirement::COUNT_MAX`] former ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_types::{
    Address, Event, Incarnation, Member, MemberAddresses, MembershipChange, MembershipRejection,
    NodeId, Outcome, PendingChange, Reason, Rejection, Reply, Retirement, Stamp, VotingRole,
};
use imbl::OrdMap;

use crate::Machine;
use crate::context::ApplyContext;
use crate::invariants::ensure;

/// The present and former members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    current: OrdMap<NodeId, Arc<Member>>,
    retired: OrdMap<NodeId, Arc<Retirement>>,
}

impl Machine {
    /// All members by id; none before the first command of the log.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.members.current.iter().map(|(node, member)| (*node, &**member))
    }

    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.current.get(&node).map(|member| &**member)
    }

    /// The incarnation that is registered under a node id.
    pub fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.member(node)?.incarnation
    }

    /// The largest id that the cluster has used; 0 before its first command.
    pub fn highest_member(&self) -> NodeId {
        self.members.highest()
    }

    /// The end of a former member; `None` for a member, an unused id, and a member that left long ago.
    pub fn retirement(&self, node: NodeId) -> Option<&Retirement> {
        self.members.retired.get(&node).map(|retirement| &**retirement)
    }

    /// When a member last replaced another one, as far as the state remembers.
    pub fn last_replacement(&self) -> Option<Stamp> {
        let replaced = self.members.retired.values().filter(|it| it.replaced_by.is_some());
        replaced.map(|it| it.at).max()
    }

    /// Whether the id belonged to a former member.
    pub fn is_retired(&self, node: NodeId) -> bool {
        node <= self.highest_member() && self.member(node).is_none()
    }

    pub(crate) fn register_node(
        &mut self,
        node: NodeId,
        incarnation: Incarnation,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        let member = self.members.find(node)?;
        match member.incarnation {
            Some(known) if known != incarnation => return Err(Rejection::NodeIdTaken),
            Some(_) => {}
            None => {
                let incarnation = Some(incarnation);
                self.members.put(node, Member { incarnation, ..member.clone() });
                ctx.emit(Event::MemberChanged { node });
            }
        }
        Ok(Reply::NodeRegistered)
    }

    pub(crate) fn change_membership(
        &mut self,
        change: MembershipChange,
        ctx: &mut ApplyContext<'_>,
    ) -> Outcome {
        // The maps are persistent: the copy costs O(1).
        let mut members = self.members.clone();
        members.retire_expired(ctx.now);
        let (node, reply) = members.change(change, ctx.now)?;
        self.members = members;
        ctx.emit(Event::MemberChanged { node });
        Ok(reply)
    }

    /// Checks the bounds, and that at most one change is unfinished.
    pub(crate) fn check_members(&self) -> Result<(), String> {
        let Members { current, retired } = &self.members;
        ensure(current.len() <= Member::COUNT_MAX, || "too many members".to_owned())?;
        ensure(retired.len() <= Retirement::COUNT_MAX, || "too many former members".to_owned())?;
        ensure(retired.keys().all(|node| !current.contains_key(node)), || {
            "a member is also a former member".to_owned()
        })?;
        let pending = current.values().filter(|member| member.pending.is_some()).count();
        ensure(pending <= 1, || "two changes of members are unfinished".to_owned())?;
        let mut addresses: Vec<&Address> = self
            .members()
            .filter(|(node, member)| !self.members.is_replaced(*node) && !member.is_leaving())
            .flat_map(|(_, member)| member.addresses.iter().flat_map(MemberAddresses::iter))
            .collect();
        let count = addresses.len();
        addresses.sort_unstable();
        addresses.dedup();
        ensure(addresses.len() == count, || "two members share an address".to_owned())
    }
}

impl Members {
    pub(crate) fn initial(members: BTreeSet<NodeId>) -> Self {
        let initial = Arc::new(Member::INITIAL);
        let current = members.into_iter().map(|node| (node, initial.clone())).collect();
        Self { current, retired: OrdMap::new() }
    }

    /// The only member of a restored cluster. Its configuration has its addresses.
    pub(crate) fn restored(node: NodeId, incarnation: Incarnation) -> Self {
        let member = Member { incarnation: Some(incarnation), ..Member::INITIAL };
        Self { current: OrdMap::unit(node, Arc::new(member)), retired: OrdMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.current.len()
    }

    pub(crate) fn retired_len(&self) -> usize {
        self.retired.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NodeId, &Arc<Member>)> {
        self.current.iter()
    }

    pub(crate) fn retired_iter(&self) -> impl Iterator<Item = (&NodeId, &Arc<Retirement>)> {
        self.retired.iter()
    }

    /// Adds a member of a snapshot. Returns false if it was there.
    pub(crate) fn restore(&mut self, node: NodeId, member: Member) -> bool {
        self.current.insert(node, Arc::new(member)).is_none()
    }

    /// Adds a former member of a snapshot. Returns false if it was there.
    pub(crate) fn restore_retired(&mut self, node: NodeId, retirement: Retirement) -> bool {
        self.retired.insert(node, Arc::new(retirement)).is_none()
    }

    fn highest(&self) -> NodeId {
        let last = |id: Option<&NodeId>| id.copied().unwrap_or_default();
        let current = last(self.current.get_max().map(|(node, _)| node));
        current.max(last(self.retired.get_max().map(|(node, _)| node)))
    }

    fn find(&self, node: NodeId) -> Result<&Member, MembershipRejection> {
        match self.current.get(&node) {
            Some(member) => Ok(member),
            None if node <= self.highest() => Err(MembershipRejection::Retired { node }),
            None => Err(MembershipRejection::NoMember { node }),
        }
    }

    fn put(&mut self, node: NodeId, member: Member) {
        self.current.insert(node, Arc::new(member));
    }

    /// Whether an unfinished change replaces the member.
    fn is_replaced(&self, node: NodeId) -> bool {
        self.current.values().any(|member| member.replaces() == Some(node))
    }

    fn check_idle(&self) -> Result<(), MembershipRejection> {
        let pending = self.current.iter().find(|(_, member)| member.pending.is_some());
        pending.map_or(Ok(()), |(node, _)| Err(MembershipRejection::InProgress { node: *node }))
    }

    fn check_addresses(
        &self,
        addresses: Option<&MemberAddresses>,
        except: &[NodeId],
    ) -> Result<(), MembershipRejection> {
        let new: Vec<&Address> = addresses.into_iter().flat_map(MemberAddresses::iter).collect();
        for (node, member) in self.current.iter().filter(|(node, _)| !except.contains(node)) {
            let mut used = member.addresses.iter().flat_map(MemberAddresses::iter);
            if let Some(address) = used.find(|address| new.contains(address)) {
                let (address, node) = (address.clone(), *node);
                return Err(MembershipRejection::AddressInUse { address, node });
            }
        }
        Ok(())
    }

    /// The voters after all unfinished changes, without one member.
    fn voters_without(&self, node: NodeId) -> usize {
        let votes = |(id, member): &(&NodeId, &Arc<Member>)| {
            **id != node && member.role == VotingRole::Voter && !member.is_leaving()
        };
        self.current.iter().filter(votes).count()
    }

    /// Returns the changed member, and the reply.
    fn change(
        &mut self,
        change: MembershipChange,
        now: Stamp,
    ) -> Result<(NodeId, Reply), MembershipRejection> {
        let node = match change {
            MembershipChange::Invite { addresses, zone, role, invitation, replaces } => {
                let pending = Some(PendingChange::Join { invitation, replaces });
                let addresses = Some(addresses);
                let member = Member { addresses, zone, role, incarnation: None, pending };
                let node = self.invite(member, replaces)?;
                return Ok((node, Reply::MemberInvited { node }));
            }
            MembershipChange::Update { node, addresses, zone } => {
                let member = self.find(node)?.clone();
                self.check_addresses(addresses.as_ref(), &[node])?;
                let addresses = addresses.or(member.addresses);
                let zone = zone.or(member.zone);
                self.put(node, Member { addresses, zone, ..member });
                node
            }
            MembershipChange::SetRole { node, role } => {
                self.set_role(node, role)?;
                node
            }
            MembershipChange::Remove { node, reason } => {
                self.remove(node, reason, now)?;
                node
            }
            MembershipChange::Finish { node } => {
                self.finish(node, now)?;
                node
            }
            MembershipChange::Replace { node, replaces } => {
                self.replace(node, replaces)?;
                node
            }
        };
        Ok((node, Reply::MembershipChanged))
    }

    fn invite(
        &mut self,
        member: Member,
        replaces: Option<NodeId>,
    ) -> Result<NodeId, MembershipRejection> {
        self.check_idle()?;
        if let Some(replaces) = replaces {
            let role = self.find(replaces)?.role;
            if role != member.role {
                return Err(MembershipRejection::UnequalRoles { replaces, role });
            }
        }
        self.check_addresses(member.addresses.as_ref(), replaces.as_slice())?;
        let voters = self.voters_without(replaces.unwrap_or_default());
        if member.role == VotingRole::Voter && voters >= Member::VOTERS_MAX {
            return Err(MembershipRejection::TooMany { voters: true });
        }
        if self.current.len() >= Member::COUNT_MAX {
            return Err(MembershipRejection::TooMany { voters: false });
        }
        let node = NodeId(self.highest().0.saturating_add(1));
        self.put(node, member);
        Ok(node)
    }

    fn set_role(&mut self, node: NodeId, role: VotingRole) -> Result<(), MembershipRejection> {
        let member = self.find(node)?.clone();
        self.check_idle()?;
        if member.incarnation.is_none() {
            return Err(MembershipRejection::NotJoined { node });
        }
        if member.role == role {
            return Err(MembershipRejection::HasRole { node, role });
        }
        let others = self.voters_without(node);
        if role != VotingRole::Voter && others == 0 {
            return Err(MembershipRejection::LastVoter);
        }
        if role == VotingRole::Voter && others >= Member::VOTERS_MAX {
            return Err(MembershipRejection::TooMany { voters: true });
        }
        self.put(node, Member { role, pending: Some(PendingChange::SetRole), ..member });
        Ok(())
    }

    /// The number of voters stays the same.
    fn replace(&mut self, node: NodeId, replaces: NodeId) -> Result<(), MembershipRejection> {
        let member = self.find(node)?.clone();
        let role = self.find(replaces)?.role;
        self.check_idle()?;
        if member.role == VotingRole::Voter {
            return Err(MembershipRejection::HasRole { node, role: member.role });
        }
        if role != VotingRole::Voter {
            return Err(MembershipRejection::UnequalRoles { replaces, role });
        }
        let (role, pending) = (VotingRole::Voter, Some(PendingChange::Replace { replaces }));
        self.put(node, Member { role, pending, ..member });
        Ok(())
    }

    fn remove(
        &mut self,
        node: NodeId,
        reason: Reason,
        now: Stamp,
    ) -> Result<(), MembershipRejection> {
        let member = self.find(node)?.clone();
        // The removal may end an unfinished change of this member, and of no other.
        if member.pending.is_none() {
            self.check_idle()?;
        }
        if member.invitation().is_some() {
            self.retire(node, Retirement { at: now, reason: Some(reason), replaced_by: None });
            return Ok(());
        }
        if self.voters_without(node) == 0 {
            return Err(MembershipRejection::LastVoter);
        }
        self.put(node, Member { pending: Some(PendingChange::Leave { reason }), ..member });
        Ok(())
    }

    /// Ends the change of a member, if it has one.
    fn finish(&mut self, node: NodeId, now: Stamp) -> Result<(), MembershipRejection> {
        let member = self.find(node)?.clone();
        match member.pending {
            None => {}
            Some(PendingChange::Leave { reason }) => {
                self.retire(node, Retirement { at: now, reason: Some(reason), replaced_by: None });
            }
            Some(
                PendingChange::SetRole | PendingChange::Join { .. } | PendingChange::Replace { .. },
            ) => {
                if member.incarnation.is_none() {
                    return Err(MembershipRejection::NotJoined { node });
                }
                let replaced = member.replaces();
                self.put(node, Member { pending: None, ..member });
                if let Some(replaced) = replaced {
                    let replaced_by = Some(node);
                    self.retire(replaced, Retirement { at: now, reason: None, replaced_by });
                }
            }
        }
        Ok(())
    }

    fn retire_expired(&mut self, now: Stamp) {
        let expired: Vec<NodeId> = self
            .current
            .iter()
            .filter(|(_, member)| member.invitation().is_some_and(|it| it.expires_at <= now))
            .map(|(node, _)| *node)
            .collect();
        for node in expired {
            self.retire(node, Retirement { at: now, reason: None, replaced_by: None });
        }
    }

    fn retire(&mut self, node: NodeId, retirement: Retirement) {
        if self.current.remove(&node).is_some() {
            self.retired.insert(node, Arc::new(retirement));
        }
        if self.retired.len() > Retirement::COUNT_MAX {
            self.retired = self.retired.without_min().1;
        }
    }
}
