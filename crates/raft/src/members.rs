//! The members as this node knows them: those of the replicated state, with the addresses of the configuration where the
//! state has none. The leader's changes of openraft's membership are in `membership`.
//!
//! Every reader asks this table at the time of use, so an applied change holds at once.

pub(crate) mod membership;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_types::{
    FeatureLevel, Incarnation, Member, MemberAddresses, NodeId, Retirement, Stamp,
};

use crate::start::identity::InitialMembersFile;

/// What this module reads from the replicated state of this node.
pub(crate) trait ClusterState: Send + Sync {
    /// The last applied position of the log.
    fn last_applied(&self) -> Option<u64>;
    fn level(&self) -> FeatureLevel;

    /// All members at one position of the log; empty before its first command is applied.
    fn members(&self) -> BTreeMap<NodeId, Member>;

    fn member(&self, node: NodeId) -> Option<Member>;

    /// The largest id that a member has or had.
    fn highest_member(&self) -> NodeId;

    fn retirement(&self, node: NodeId) -> Option<Retirement>;

    /// The newest applied stamp.
    fn now(&self) -> Stamp;
}

/// What this node knows about a node id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// A member with this registered data directory, or a data directory of `initial-members`.
    Registered(Incarnation),
    /// A member whose data directory is not registered.
    Unregistered(Option<Member>),
    /// A former member.
    Retired(Option<Retirement>),
    /// An id above all ids that this node has applied: the cluster may have added the member since.
    Newer,
    /// No member has or had the id.
    Unknown,
}

pub(crate) struct MemberTable {
    configured: BTreeMap<NodeId, MemberAddresses>,
    state: Arc<dyn ClusterState>,
    initial: Arc<InitialMembersFile>,
}

impl MemberTable {
    pub(crate) fn new(
        configured: BTreeMap<NodeId, MemberAddresses>,
        state: Arc<dyn ClusterState>,
        initial: Arc<InitialMembersFile>,
    ) -> Self {
        Self { configured, state, initial }
    }

    pub(crate) fn state(&self) -> &dyn ClusterState {
        &*self.state
    }

    /// The members; those of the configuration before the first command of the log is applied.
    pub(crate) fn ids(&self) -> BTreeSet<NodeId> {
        self.all().into_keys().collect()
    }

    /// The members at one position of the log, with their addresses; those of the configuration before the first command
    /// of the log is applied.
    pub(crate) fn all(&self) -> BTreeMap<NodeId, Member> {
        self.with_addresses(self.state.members())
    }

    /// Completes the members of one position of the log.
    pub(crate) fn with_addresses(
        &self,
        mut members: BTreeMap<NodeId, Member>,
    ) -> BTreeMap<NodeId, Member> {
        if members.is_empty() {
            members = self.configured.keys().map(|node| (*node, Member::INITIAL)).collect();
        }
        for (node, member) in &mut members {
            if member.addresses.is_none() {
                member.addresses = self.configured.get(node).cloned();
            }
        }
        members
    }

    pub(crate) fn configured_ids(&self) -> BTreeSet<NodeId> {
        self.configured.keys().copied().collect()
    }

    /// The addresses of a member; `None` also for a former member.
    pub(crate) fn addresses(&self, node: NodeId) -> Option<MemberAddresses> {
        if let Some(Member { addresses: Some(addresses), .. }) = self.state.member(node) {
            return Some(addresses);
        }
        match self.registration(node) {
            Registration::Retired(_) => None,
            Registration::Registered(_)
            | Registration::Unregistered(_)
            | Registration::Newer
            | Registration::Unknown => self.configured.get(&node).cloned(),
        }
    }

    pub(crate) fn registration(&self, node: NodeId) -> Registration {
        let highest = self.state.highest_member();
        let member = self.state.member(node);
        if member.is_none() && node <= highest {
            return Registration::Retired(self.state.retirement(node));
        }
        let registered = member.as_ref().and_then(|member| member.incarnation);
        if let Some(incarnation) = registered.or_else(|| self.initial.incarnation(node)) {
            return Registration::Registered(incarnation);
        }
        let is_configured = highest == NodeId(0) && self.configured.contains_key(&node);
        if member.is_some() || is_configured {
            return Registration::Unregistered(member);
        }
        if highest > NodeId(0) { Registration::Newer } else { Registration::Unknown }
    }

    /// The only incarnation of a node that may vote and receive entries; `None` if the node is not registered.
    pub(crate) fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        match self.registration(node) {
            Registration::Registered(incarnation) => Some(incarnation),
            Registration::Unregistered(_)
            | Registration::Retired(_)
            | Registration::Newer
            | Registration::Unknown => None,
        }
    }

    /// The registered data directories.
    pub(crate) fn registered(&self) -> BTreeMap<NodeId, Incarnation> {
        let ids = self.ids().into_iter();
        ids.filter_map(|node| Some((node, self.incarnation(node)?))).collect()
    }
}
