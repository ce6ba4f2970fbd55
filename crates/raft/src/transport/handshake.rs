//! The handshake on a connection between nodes, both sides.
//!
//! Both sides check the protocol version, the cluster, its feature level, the node id, and the data directory, whose
//! incarnation must match the log or the initial members (design D14). There are two exceptions. A bootstrap connection
//! accepts an unregistered member, which an invited one proves with its secret, and the node remembers it until the leader
//! registers it. A member that knows the id of the cluster is accepted also by a node that has not applied its registration.
//! Bounds: one hello within [`HELLO_BOUND`]; one remembered incarnation and one refusal for each member.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use holdfast_codec::Kind;
use holdfast_tls::{CertificateInfo, FailureReason, MaybeTlsStream};
use holdfast_types::{
    Address, ClusterId, Command, FeatureLevel, Incarnation, Member, NodeId, Retirement, SecretHash,
};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::frame::{HELLO_BOUND, Stranger, read_frame, read_hello, reply, write};
use crate::failure::{Failure, StopReason};
use crate::leadership::acknowledged::AcknowledgedEntries;
use crate::members::{MemberTable, Registration};
use crate::start::identity::{Identity, InitialMembersFile};
use crate::start::join::{EmptiedMembers, JoinRequest, ReadmissionCaller, ReadmissionRequest};
use crate::store::log_store::LogStore;
use crate::wire::{
    Hello, HelloAccepted, HelloReply, InvitationRefusal, JOIN_SECRET, LOG_END, MUST_HAVE,
    PROTOCOLS, Purpose, READMISSION, Refusal,
};

/// The log field `refusal` for a comparison of logs that proves nothing.
const OUTDATED: &str = "outdated-log-end";

/// A peer that passed the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectedPeer {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) purpose: Purpose,
}

/// Returns `true` if a peer refused the handshake because the cluster has registered this node's id with another data
/// directory.
pub(crate) fn is_other_incarnation(reason: &str) -> bool {
    reason == refused(&Refusal::Incarnation)
}

fn refused(refusal: &Refusal) -> String {
    format!("the peer refused the connection: {refusal}")
}

pub(crate) struct PeerHandshake {
    identity: Identity,
    members: Arc<MemberTable>,
    initial_members: Arc<InitialMembersFile>,
    /// The invitation of this node, until it belongs to the cluster.
    join: Option<JoinRequest>,
    /// Whether this node invites emptied members while it leads.
    readmits: bool,
    /// This node as a caller, if its directory may have been emptied; until it is invited.
    caller: Mutex<Option<ReadmissionCaller>>,
    /// The requests of other nodes.
    emptied_members: EmptiedMembers,
    /// Stops this node when the cluster has removed it.
    failure: Failure,
    /// Unregistered members without a log, with the incarnation of their last hello.
    unregistered: Mutex<BTreeMap<NodeId, Incarnation>>,
    /// The last refusal of each member and its log field, so that the node logs each reason once.
    refused: Mutex<BTreeMap<NodeId, (Refusal, &'static str)>>,
    /// Why each member refused the last handshake of this node.
    refused_by: Mutex<BTreeMap<NodeId, String>>,
    /// What the peers must have.
    acknowledged: AcknowledgedEntries,
    /// The log of this node.
    log: LogStore,
}

impl PeerHandshake {
    pub(crate) fn new(
        identity: Identity,
        members: Arc<MemberTable>,
        initial_members: Arc<InitialMembersFile>,
        join: Option<JoinRequest>,
        log: LogStore,
        failure: Failure,
    ) -> Self {
        Self {
            identity,
            members,
            initial_members,
            join,
            readmits: false,
            caller: Mutex::default(),
            emptied_members: EmptiedMembers::default(),
            failure,
            unregistered: Mutex::default(),
            refused: Mutex::default(),
            refused_by: Mutex::default(),
            acknowledged: AcknowledgedEntries::default(),
            log,
        }
    }

    /// Invites emptied members. With `caller`, this node may be one itself, and asks for an invitation.
    pub(crate) fn readmitting(self, caller: Option<ReadmissionCaller>) -> Self {
        Self { readmits: true, caller: Mutex::new(caller), ..self }
    }

    /// The members whose emptied nodes ask for an invitation, and the hashes of their secrets.
    pub(crate) fn emptied_members(&self) -> Vec<(NodeId, SecretHash)> {
        self.emptied_members.current()
    }

    /// Why a member refused the last handshake of this node, or which entries it has lost.
    pub(crate) fn refused_by(&self, node: NodeId) -> Option<String> {
        let refused = self.refused.lock().get(&node).map(|(refusal, _)| refusal.clone());
        let lost = refused.filter(|refusal| {
            matches!(refusal, Refusal::LostEntries { .. }) && !self.may_be_outdated(node, refusal)
        });
        lost.map(|lost| lost.to_string()).or_else(|| self.refused_by.lock().get(&node).cloned())
    }

    pub(crate) fn acknowledged(&self) -> &AcknowledgedEntries {
        &self.acknowledged
    }

    pub(crate) fn members(&self) -> &MemberTable {
        &self.members
    }

    pub(crate) fn peer_address(&self, node: NodeId) -> Option<Address> {
        self.members.addresses(node).map(|addresses| addresses.peer)
    }

    /// Whether a node is a member of the cluster, or of the configuration.
    pub(crate) fn is_member(&self, node: NodeId) -> bool {
        let registration = self.members.registration(node);
        self.members.addresses(node).is_some()
            || matches!(registration, Registration::Registered(_) | Registration::Unregistered(_))
    }

    /// The incarnation to register for a node that is not in the log.
    pub(crate) fn to_register(&self, node: NodeId) -> Option<Incarnation> {
        let initial = self.initial_members.incarnation(node);
        initial.or_else(|| self.unregistered.lock().get(&node).copied())
    }

    /// The first command of the log; `None` before this node belongs to a cluster.
    pub(crate) fn bootstrap_command(&self) -> Option<Command> {
        let initial = self.initial_members.current()?;
        let members = self.members.configured_ids();
        Some(Command::Bootstrap { cluster_id: initial.cluster_id, level: initial.level, members })
    }

    /// Checks that this node may call a peer; the error is the reason.
    pub(crate) fn may_call(&self, node: NodeId, purpose: Purpose) -> Result<(), String> {
        if purpose == Purpose::Bootstrap || self.members.incarnation(node).is_some() {
            return Ok(());
        }
        Err("the peer's data directory is not registered yet".into())
    }

    /// Runs the client side of the handshake. Returns the version for the connection.
    pub(crate) async fn initiate(
        &self,
        stream: &mut MaybeTlsStream,
        to: NodeId,
        purpose: Purpose,
    ) -> Result<(), String> {
        if !self.is_named(stream.certificate().as_deref(), to) {
            return Err(format!(
                "the certificate of the peer names neither node {to} (holdfast://CLUSTER/node/node-{to}) nor the host of its address"
            ));
        }
        let hello = self.hello(to, purpose);
        let exchange = async {
            let frame = holdfast_codec::encode(Kind::Hello, &hello).map_err(|e| e.to_string())?;
            write(stream, &frame).await.map_err(|e| e.to_string())?;
            let frame = read_frame(stream).await.map_err(|e| e.to_string())?;
            let frame = frame.ok_or(
                "the peer closed the connection during the handshake: it may run an earlier version of holdfast",
            )?;
            holdfast_codec::decode::<HelloReply>(Kind::Hello, &frame).map_err(|e| e.to_string())
        };
        let reply = timeout(HELLO_BOUND, exchange).await.map_err(|_| "no handshake in time")??;
        let checked = self.check_reply(to, purpose, reply);
        match &checked {
            Ok(()) => {
                self.refused_by.lock().remove(&to);
                self.refused.lock().remove(&to);
            }
            Err(reason) => drop(self.refused_by.lock().insert(to, reason.clone())),
        }
        checked
    }

    fn hello(&self, to: NodeId, purpose: Purpose) -> Hello {
        let secret = self.join.as_ref().map(|join| Bytes::copy_from_slice(&join.secret));
        let secret = secret.map(|secret| (JOIN_SECRET, secret));
        let caller = self.caller.lock();
        let request = caller.as_ref().map(|caller| (READMISSION, caller.request.encode()));
        let bootstraps = purpose == Purpose::Bootstrap;
        let extensions = secret.into_iter().chain(request).filter(|_| bootstraps);
        let must_have = self.acknowledged.must_have(to).map(|index| (MUST_HAVE, index));
        let logs = must_have.into_iter().chain([(LOG_END, self.log_end())]);
        let logs = logs.map(|(tag, index)| (tag, Bytes::copy_from_slice(&index.to_le_bytes())));
        let logs = logs.filter(|_| !bootstraps);
        Hello {
            protocols: PROTOCOLS,
            cluster: self.identity.cluster.clone(),
            cluster_id: self.cluster_id(),
            level_max: FeatureLevel::NEWEST,
            from: self.identity.node,
            incarnation: self.identity.incarnation,
            to,
            purpose,
            extensions: extensions.chain(logs).collect(),
        }
    }

    /// The index after the last entry that this node has. The log learns of a new snapshot later than the machine.
    fn log_end(&self) -> u64 {
        let last = self.log.last_index().max(self.members.state().last_applied());
        last.map_or(0, |last| last + 1)
    }

    /// Checks that neither log has lost an entry that a peer knows. The caller has sent what this node must have before this
    /// node reads its own log. In the other direction the caller may have acknowledged more meanwhile, so it checks a refusal.
    fn check_logs(&self, hello: &Hello) -> Result<(), Refusal> {
        let number = |wanted| {
            let found = hello.extensions.iter().find(|(tag, _)| *tag == wanted);
            found.and_then(|(_, bytes)| bytes[..].try_into().ok()).map(u64::from_le_bytes)
        };
        let own = lost_entries(self.identity.node, number(MUST_HAVE), Some(self.log_end()));
        let must_have = self.acknowledged.must_have(hello.from);
        let lost = own.or_else(|| lost_entries(hello.from, must_have, number(LOG_END)));
        lost.map_or(Ok(()), Err)
    }

    /// Stops this node if it is the one that has lost entries.
    fn stop_if_lost(&self, refusal: &Refusal) {
        if refusal.is_loss_of(self.identity.node, self.log_end()) == Some(true) {
            self.failure.report(refusal.to_string());
        }
    }

    /// Returns `true` if a caller may have acknowledged an entry after it had sent where its log ends. Only the caller knows.
    fn may_be_outdated(&self, caller: NodeId, refusal: &Refusal) -> bool {
        matches!(refusal, Refusal::LostEntries { node, .. } if *node == caller)
            && self.acknowledged.has_grown_within(caller, HELLO_BOUND)
    }

    fn check_reply(&self, to: NodeId, purpose: Purpose, reply: HelloReply) -> Result<(), String> {
        match reply {
            // A node without a log may call any member. The configuration of an invited one may have an earlier id.
            HelloReply::Accepted(HelloAccepted { node, .. })
                if purpose == Purpose::Bootstrap && (node == to || self.join.is_some()) =>
            {
                Ok(())
            }
            HelloReply::Accepted(HelloAccepted { node, incarnation, level_max, .. })
                if node == to =>
            {
                let checked = check_incarnation(self.members.registration(node), incarnation);
                checked.map_err(|refusal| refusal.to_string())?;
                let cluster = self.members.state().level();
                if level_max < cluster {
                    return Err(format!(
                        "the peer's program knows feature levels up to {level_max}, and the cluster has level {cluster}: \
                         upgrade the peer"
                    ));
                }
                Ok(())
            }
            HelloReply::Accepted(HelloAccepted { node, .. }) => {
                Err(Refusal::WrongNode { ours: node }.to_string())
            }
            HelloReply::Refused(refusal) => {
                if let Refusal::Retired { .. } = &refusal {
                    self.failure.stop(StopReason::Removed(refusal.to_string()));
                }
                if let Refusal::Level { .. } = &refusal {
                    self.failure.stop(StopReason::OldProgram(refusal.to_string()));
                }
                self.stop_if_lost(&refusal);
                if refusal.is_loss_of(self.identity.node, self.log_end()) == Some(false) {
                    return Err("the peer compared an outdated end of this node's log: this node connects again".into());
                }
                if let Refusal::Readmitted { node, cluster_id } = &refusal {
                    self.readmitted(*node, *cluster_id);
                }
                Err(refused(&refusal))
            }
        }
    }

    /// Stores the invitation of this emptied node, and stops it: it joins at its next start.
    fn readmitted(&self, node: NodeId, cluster_id: ClusterId) {
        // Other connections wait until this node stops. A peer answers to a hello without the request that its node was replaced.
        let mut asking = self.caller.lock();
        let Some(caller) = asking.as_ref() else { return };
        let (cluster, secret) = (self.identity.cluster.clone(), caller.request.secret);
        if let Err(error) = caller.store(&JoinRequest { cluster, cluster_id, node, secret }) {
            return self.failure.report(format!("failed to store the invitation: {error}"));
        }
        self.failure.stop(StopReason::Readmitted(format!(
            "the data directory was emptied, and the cluster has invited this node as node {node}: start it again"
        )));
        *asking = None;
    }

    /// Returns `true` if a certificate has the URI of the node, or the host of its address. The host of a member that this
    /// node has not applied yet is unknown. Only a connection without TLS has no certificate: [`holdfast_tls::PeerTls`]
    /// requires one that it can read.
    fn is_named(&self, certificate: Option<&CertificateInfo>, node: NodeId) -> bool {
        let Some(certificate) = certificate else { return true };
        let uri = format!("holdfast://{}/node/node-{node}", self.identity.cluster);
        let address = self.peer_address(node);
        certificate.uris.contains(&uri)
            || address.as_ref().map(Address::host).is_some_and(|host| {
                certificate.dns_names.iter().any(|name| name == host)
                    || certificate.addresses.iter().any(|address| address.to_string() == host)
            })
    }

    fn cluster_id(&self) -> Option<ClusterId> {
        let initial = self.initial_members.current().map(|initial| initial.cluster_id);
        initial.or_else(|| self.join.as_ref().map(|join| join.cluster_id))
    }

    /// Runs the server side of the handshake. Returns the peer; the error is `None` if the connection closed, or if the log
    /// has the reason already.
    pub(crate) async fn accept(
        &self,
        stream: &mut MaybeTlsStream,
    ) -> Result<ConnectedPeer, Option<Stranger>> {
        let hello = read_hello(stream).await?;
        let certificate = stream.certificate();
        let checked = self
            .check_hello(&hello, certificate.as_deref())
            .map_err(|refusal| self.readmit(&hello, certificate.as_deref()).unwrap_or(refusal));
        self.log_refusal(&hello, checked.as_ref().err());
        let (node, incarnation, purpose) = (hello.from, hello.incarnation, hello.purpose);
        match checked {
            Ok(protocol) => {
                let accepted = HelloAccepted {
                    protocol,
                    node: self.identity.node,
                    incarnation: self.identity.incarnation,
                    level_max: FeatureLevel::NEWEST,
                    extensions: Vec::new(),
                };
                reply(stream, &HelloReply::Accepted(accepted)).await.ok_or(None::<Stranger>)?;
                Ok(ConnectedPeer { node, incarnation, purpose })
            }
            Err(refusal) => {
                reply(stream, &HelloReply::Refused(refusal.clone())).await;
                // The peer has the reason before this node stops.
                self.stop_if_lost(&refusal);
                let reason = if refusal == Refusal::Certificate {
                    FailureReason::Certificate
                } else if self.is_known(node) {
                    return Err(None);
                } else {
                    FailureReason::NotMember
                };
                let cluster = hello.cluster;
                Err(Some(Stranger {
                    reason,
                    detail: format!("node {node} of '{cluster}': {refusal}"),
                }))
            }
        }
    }

    /// Returns the version for the connection. What follows the check of the certificate tells the peer about this cluster, and
    /// has effects: the leader registers a new data directory, and a node that has lost entries stops.
    fn check_hello(
        &self,
        hello: &Hello,
        certificate: Option<&CertificateInfo>,
    ) -> Result<u16, Refusal> {
        let protocol = PROTOCOLS.common(hello.protocols);
        let protocol = protocol.ok_or(Refusal::Protocol { ours: PROTOCOLS })?;
        if !self.is_named(certificate, hello.from) {
            return Err(Refusal::Certificate);
        }
        if hello.cluster != self.identity.cluster {
            return Err(Refusal::Cluster { ours: self.identity.cluster.clone() });
        }
        if let (Some(ours), Some(theirs)) = (self.cluster_id(), hello.cluster_id)
            && ours != theirs
        {
            return Err(Refusal::ClusterId { ours });
        }
        let level = self.members.state().level();
        if hello.level_max < level {
            return Err(Refusal::Level { cluster: level });
        }
        let is_bootstrap = hello.purpose == Purpose::Bootstrap;
        let is_joining =
            is_bootstrap && hello.extensions.iter().any(|(tag, _)| *tag == JOIN_SECRET);
        if hello.to != self.identity.node && !is_joining {
            return Err(Refusal::WrongNode { ours: self.identity.node });
        }
        if hello.from == self.identity.node {
            return Err(Refusal::NotMember);
        }
        match self.members.registration(hello.from) {
            Registration::Unregistered(member) if is_bootstrap => {
                self.check_invitation(member.as_ref(), hello)?;
                self.unregistered.lock().insert(hello.from, hello.incarnation);
            }
            Registration::Newer | Registration::Unregistered(Some(_))
                if !is_bootstrap && self.is_of_this_cluster(hello) => {}
            registration @ (Registration::Registered(_)
            | Registration::Unregistered(_)
            | Registration::Retired(_)
            | Registration::Newer
            | Registration::Unknown) => check_incarnation(registration, hello.incarnation)?,
        }
        self.check_logs(hello)?;
        Ok(protocol)
    }

    /// The reply to a refused emptied node, if this node knows the member at its address: it waits, or it is invited.
    fn readmit(&self, hello: &Hello, certificate: Option<&CertificateInfo>) -> Option<Refusal> {
        let asks = self.readmits
            && hello.purpose == Purpose::Bootstrap
            && hello.cluster == self.identity.cluster
            && hello.level_max >= self.members.state().level();
        let mut extensions = hello.extensions.iter().filter(|_| asks);
        let (_, request) = extensions.find(|(tag, _)| *tag == READMISSION)?;
        let ReadmissionRequest { secret, peer } = ReadmissionRequest::decode(request)?;
        // One reading: between two, a new member can replace the emptied one, which would then be at no address.
        let members = self.members.all();
        let at_address = |member: &Member| {
            member.addresses.as_ref().is_some_and(|addresses| addresses.peer == peer)
        };
        // A new member at the address has a larger id than the one that it replaces.
        let (&member, _) = members.iter().find(|(_, member)| at_address(member))?;
        let is_named = |node| self.is_named(certificate, node);
        if member == self.identity.node || !(is_named(hello.from) || is_named(member)) {
            return None;
        }
        let secret = SecretHash::of(&secret);
        let now = self.members.state().now();
        let is_invited = |member: &Member| {
            let invitation = member.invitation();
            invitation.is_some_and(|it| it.secret == secret && it.expires_at > now)
        };
        let invited = members.iter().find(|(_, member)| is_invited(member));
        if let (Some((&node, _)), Some(cluster_id)) = (invited, self.cluster_id()) {
            return Some(Refusal::Readmitted { node, cluster_id });
        }
        self.emptied_members.insert(member, secret);
        Some(Refusal::Incarnation)
    }

    fn is_of_this_cluster(&self, hello: &Hello) -> bool {
        hello.cluster_id.is_some() && hello.cluster_id == self.cluster_id()
    }

    fn check_invitation(&self, member: Option<&Member>, hello: &Hello) -> Result<(), Refusal> {
        let Some(invitation) = member.and_then(Member::invitation) else { return Ok(()) };
        let secret = hello.extensions.iter().find(|(tag, _)| *tag == JOIN_SECRET);
        let Some((_, secret)) = secret else {
            return Err(Refusal::Invitation { why: InvitationRefusal::Missing });
        };
        if SecretHash::of(secret) != invitation.secret {
            return Err(Refusal::Invitation { why: InvitationRefusal::Wrong });
        }
        if invitation.expires_at <= self.members.state().now() {
            return Err(Refusal::Invitation { why: InvitationRefusal::Expired });
        }
        Ok(())
    }

    /// Whether a member has this address. A host name has none here.
    pub(crate) fn is_member_address(&self, source: IpAddr) -> bool {
        let source = source.to_canonical().to_string();
        let mut addresses = self.members.ids().into_iter().filter_map(|id| self.peer_address(id));
        addresses.any(|address| address.host() == source)
    }

    /// Whether the node is or was a member.
    fn is_known(&self, node: NodeId) -> bool {
        self.members.addresses(node).is_some() || node <= self.members.state().highest_member()
    }

    /// Logs a refusal, once for each reason of a member.
    fn log_refusal(&self, hello: &Hello, refusal: Option<&Refusal>) {
        let mut refused = self.refused.lock();
        let Some(refusal) = refusal else {
            refused.remove(&hello.from);
            return;
        };
        // The listener logs those of strangers.
        if !self.is_known(hello.from) || matches!(refusal, Refusal::Certificate) {
            return;
        }
        let is_outdated = self.may_be_outdated(hello.from, refusal);
        let reason = if is_outdated { OUTDATED } else { refusal.name() };
        let logged = (refusal.clone(), reason);
        if refused.insert(hello.from, logged.clone()) != Some(logged) {
            let peer = hello.from.0;
            tracing::warn!(peer, cluster = hello.cluster, refusal = reason, "refused a peer");
        }
    }
}

fn check_incarnation(registration: Registration, incarnation: Incarnation) -> Result<(), Refusal> {
    match registration {
        Registration::Registered(expected) if expected == incarnation => Ok(()),
        Registration::Registered(_) => Err(Refusal::Incarnation),
        Registration::Unregistered(_) => Err(Refusal::Unregistered),
        Registration::Retired(retirement) => Err(Refusal::Retired { why: retired(retirement) }),
        Registration::Newer | Registration::Unknown => Err(Refusal::NotMember),
    }
}

fn lost_entries(node: NodeId, must_have: Option<u64>, log_end: Option<u64>) -> Option<Refusal> {
    let (must_have, log_end) = must_have.zip(log_end).filter(|(index, end)| index >= end)?;
    Some(Refusal::LostEntries { node, must_have, log_end })
}

/// Why a former member left, for its own log.
fn retired(retirement: Option<Retirement>) -> String {
    match retirement {
        Some(Retirement { replaced_by: Some(node), .. }) => format!("node {node} replaced it"),
        Some(Retirement { reason: Some(reason), .. }) => {
            format!("an operator removed it: {reason}")
        }
        Some(Retirement { reason: None, .. }) => "its invitation expired".to_owned(),
        None => "it is not a member".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use holdfast_storage::Log;
    use holdfast_types::{Invitation, MemberAddresses, PendingChange, Reason, Stamp};
    use openraft::storage::RaftLogStorage as _;

    use super::*;
    use crate::leadership::acknowledged::Replication;
    use crate::members::ClusterState;
    use crate::type_config::{LeaderId, LogId};
    use crate::wire::{InitialMembers, ProtocolRange};

    /// The log has registered node 2. Nodes 3 and 4 are members without a registered directory, node 5 has left, and node 6
    /// is invited.
    struct TestState;

    const INVITED: NodeId = NodeId(6);
    const SECRET: &[u8] = b"secret";

    impl ClusterState for TestState {
        fn last_applied(&self) -> Option<u64> {
            None
        }

        fn level(&self) -> FeatureLevel {
            FeatureLevel(1)
        }

        fn members(&self) -> BTreeMap<NodeId, Member> {
            let known = (1..=6).map(NodeId).filter_map(|node| Some((node, self.member(node)?)));
            known.collect()
        }

        fn member(&self, node: NodeId) -> Option<Member> {
            let incarnation = (node == NodeId(2)).then_some(Incarnation(22));
            let invitation = Invitation { secret: SecretHash::of(SECRET), expires_at: Stamp(100) };
            let join = PendingChange::Join { invitation, replaces: None };
            let pending = (node == INVITED).then_some(join);
            let is_member = (1..=4).contains(&node.0) || node == INVITED;
            is_member.then_some(Member { incarnation, pending, ..Member::INITIAL })
        }

        fn highest_member(&self) -> NodeId {
            INVITED
        }

        fn retirement(&self, node: NodeId) -> Option<Retirement> {
            let reason = Some(Reason::new("disk failed").unwrap());
            (node == NodeId(5)).then_some(Retirement { at: Stamp(1), reason, replaced_by: None })
        }

        fn now(&self) -> Stamp {
            Stamp(99)
        }
    }

    /// Node 2 is registered in the log, node 3 is an initial member, and node 4 is not registered.
    pub(crate) fn handshake(dir: &tempfile::TempDir) -> PeerHandshake {
        let identity =
            Identity { cluster: "a".into(), node: NodeId(1), incarnation: Incarnation(11) };
        let addresses = |id: u64| {
            let address = |port: u16| Address::parse(&format!("host-{id}:{port}")).unwrap();
            MemberAddresses { peer: address(1), http: address(2), zookeeper: address(3) }
        };
        let members = (1..=4).map(|id| (NodeId(id), addresses(id))).collect();
        let file = Arc::new(InitialMembersFile::open(dir.path()).unwrap());
        let initial = BTreeMap::from([(NodeId(1), Incarnation(11)), (NodeId(3), Incarnation(33))]);
        let (cluster_id, level) = (ClusterId(5), FeatureLevel(1));
        let initiator = Incarnation(11);
        file.write(InitialMembers { cluster_id, level, initiator, members: initial }).unwrap();
        let members = Arc::new(MemberTable::new(members, Arc::new(TestState), file.clone()));
        let log = LogStore::open(Log::in_memory().unwrap(), Failure::new(), 0).unwrap();
        PeerHandshake::new(identity, members, file, None, log, Failure::new())
    }

    fn hello() -> Hello {
        Hello {
            protocols: PROTOCOLS,
            cluster: "a".into(),
            cluster_id: Some(ClusterId(5)),
            level_max: FeatureLevel(1),
            from: NodeId(2),
            incarnation: Incarnation(22),
            to: NodeId(1),
            purpose: Purpose::Control,
            extensions: Vec::new(),
        }
    }

    #[test]
    fn each_mismatch_is_rejected_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        assert_eq!(handshake.check_hello(&hello(), None), Ok(PROTOCOLS.newest));
        let later = ProtocolRange { oldest: PROTOCOLS.newest + 1, newest: PROTOCOLS.newest + 9 };
        let other = Hello { protocols: later, ..hello() };
        assert_eq!(handshake.check_hello(&other, None), Err(Refusal::Protocol { ours: PROTOCOLS }));
        let other = Hello { cluster: "b".into(), ..hello() };
        assert_eq!(handshake.check_hello(&other, None), Err(Refusal::Cluster { ours: "a".into() }));
        let other = Hello { cluster_id: Some(ClusterId(6)), ..hello() };
        let refusal = Refusal::ClusterId { ours: ClusterId(5) };
        assert_eq!(handshake.check_hello(&other, None), Err(refusal));
        let other = Hello { level_max: FeatureLevel(0), ..hello() };
        let refusal = Refusal::Level { cluster: FeatureLevel(1) };
        assert_eq!(handshake.check_hello(&other, None), Err(refusal));
        let other = Hello { to: NodeId(3), ..hello() };
        assert_eq!(
            handshake.check_hello(&other, None),
            Err(Refusal::WrongNode { ours: NodeId(1) })
        );
        let other = Hello { incarnation: Incarnation(23), ..hello() };
        assert_eq!(handshake.check_hello(&other, None), Err(Refusal::Incarnation));
        let bootstrap = Hello { purpose: Purpose::Bootstrap, ..other };
        assert_eq!(handshake.check_hello(&bootstrap, None), Err(Refusal::Incarnation));
    }

    /// At its first reading node 2 is a member; afterwards the invited node 6 has replaced it.
    #[derive(Default)]
    struct ReplacedState(AtomicBool);

    impl ClusterState for ReplacedState {
        fn last_applied(&self) -> Option<u64> {
            None
        }

        fn level(&self) -> FeatureLevel {
            FeatureLevel(1)
        }

        fn members(&self) -> BTreeMap<NodeId, Member> {
            let was_replaced = self.0.swap(true, Ordering::Relaxed);
            let gone = if was_replaced { NodeId(2) } else { INVITED };
            let mut members = TestState.members();
            members.remove(&gone);
            members
        }

        fn member(&self, node: NodeId) -> Option<Member> {
            self.members().remove(&node)
        }

        fn highest_member(&self) -> NodeId {
            INVITED
        }

        fn retirement(&self, node: NodeId) -> Option<Retirement> {
            let replaced_by = Some(INVITED);
            (node == NodeId(2)).then_some(Retirement { at: Stamp(1), reason: None, replaced_by })
        }

        fn now(&self) -> Stamp {
            Stamp(99)
        }
    }

    /// It would be told that it has left the cluster, and would never come back.
    #[test]
    fn an_emptied_node_that_is_replaced_while_it_asks_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let PeerHandshake { identity, members, .. } = handshake(&dir);
        let peer = members.addresses(NodeId(2)).unwrap().peer;
        let file = Arc::new(InitialMembersFile::open(dir.path()).unwrap());
        let configured =
            members.all().into_iter().filter_map(|(node, member)| Some((node, member.addresses?)));
        let state = Arc::new(ReplacedState::default());
        let members = Arc::new(MemberTable::new(configured.collect(), state, file.clone()));
        let log = LogStore::open(Log::in_memory().unwrap(), Failure::new(), 0).unwrap();
        let handshake = PeerHandshake::new(identity, members, file, None, log, Failure::new())
            .readmitting(None);
        let request = ReadmissionRequest::new(Incarnation(22), peer);
        let extensions = vec![(READMISSION, request.encode())];
        let hello = Hello { purpose: Purpose::Bootstrap, extensions, ..hello() };
        assert_eq!(handshake.readmit(&hello, None), Some(Refusal::Incarnation));
    }

    /// A peer answers to a hello without the request that its node was replaced, and the node would stop for that reason.
    #[test]
    fn an_invited_node_sends_no_hello_without_its_request_before_it_stops() {
        let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        drop(crate::start::identity::DataDir::open(data.path(), "a", NodeId(1)).unwrap());
        let request = ReadmissionRequest::new(Incarnation(7), Address::parse("a:1").unwrap());
        let data_dir = data.path().to_owned();
        let caller = ReadmissionCaller { request, configured: NodeId(1), data_dir };
        let handshake = handshake(&dir).readmitting(Some(caller));
        let refusal = Refusal::Readmitted { node: NodeId(6), cluster_id: ClusterId(5) };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let reply = HelloReply::Refused(refusal);
                handshake.check_reply(NodeId(2), Purpose::Bootstrap, reply).unwrap_err();
            });
            let asks = |hello: Hello| hello.extensions.iter().any(|(tag, _)| *tag == READMISSION);
            while asks(handshake.hello(NodeId(3), Purpose::Bootstrap)) {
                std::thread::yield_now();
            }
            let reason = handshake.failure.reason();
            assert!(matches!(reason, Some(StopReason::Readmitted(_))), "{reason:?}");
        });
    }

    fn certificate(uri: &str, dns: &str) -> CertificateInfo {
        CertificateInfo {
            ids: ["1".parse().unwrap(), "2".parse().unwrap()],
            subject: String::new(),
            issuer: String::new(),
            uris: vec![uri.to_owned()],
            dns_names: vec![dns.to_owned()],
            addresses: Vec::new(),
            not_before: std::time::SystemTime::UNIX_EPOCH,
            not_after: std::time::SystemTime::UNIX_EPOCH,
            is_ca: false,
            for_servers: true,
            for_clients: true,
        }
    }

    #[test]
    fn a_hello_with_the_certificate_of_a_client_has_no_effect() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let client = certificate("holdfast://a/client/ci", "elsewhere");
        let refused = |hello: &Hello| handshake.check_hello(hello, Some(&client)).unwrap_err();
        // It names an entry that this node must have: a member with it would stop this node.
        let must_have = vec![(MUST_HAVE, Bytes::copy_from_slice(&u64::MAX.to_le_bytes()))];
        for from in [2, 9] {
            let hello = Hello { from: NodeId(from), extensions: must_have.clone(), ..hello() };
            assert_eq!(refused(&hello), Refusal::Certificate, "node {from}");
        }
        // It does not learn the id of the cluster.
        let guess = Hello { cluster_id: Some(ClusterId(6)), ..hello() };
        assert_eq!(refused(&guess), Refusal::Certificate);
        // The leader would register its data directory.
        let (from, incarnation) = (NodeId(4), Incarnation(44));
        let hello = Hello { from, incarnation, purpose: Purpose::Bootstrap, ..hello() };
        assert_eq!(refused(&hello), Refusal::Certificate);
        assert_eq!(handshake.to_register(NodeId(4)), None);
        let node = certificate("holdfast://a/node/node-4", "elsewhere");
        assert_eq!(handshake.check_hello(&hello, Some(&node)), Ok(PROTOCOLS.newest));
        assert_eq!(handshake.to_register(NodeId(4)), Some(Incarnation(44)));
    }

    #[test]
    fn a_certificate_must_name_its_node() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let names = |uri, dns| handshake.is_named(Some(&certificate(uri, dns)), NodeId(2));
        assert!(names("holdfast://a/node/node-2", "elsewhere"));
        assert!(names("spiffe://x", "host-2"));
        assert!(!names("holdfast://a/node/node-3", "host-3"));
        assert!(!names("holdfast://b/node/node-2", "elsewhere"));
        assert!(!names("holdfast://a/client/node-2", "elsewhere"));
        assert!(handshake.is_named(None, NodeId(2)), "a connection without TLS");
    }

    #[test]
    fn a_later_program_is_accepted_with_the_highest_common_version() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let later = Hello {
            protocols: ProtocolRange { oldest: PROTOCOLS.oldest, newest: PROTOCOLS.newest + 4 },
            level_max: FeatureLevel(7),
            extensions: vec![(900, Bytes::from_static(b"unknown here"))],
            ..hello()
        };
        assert_eq!(handshake.check_hello(&later, None), Ok(PROTOCOLS.newest));
    }

    #[test]
    fn an_initial_member_is_accepted_before_the_log_registers_it() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let initial = Hello { from: NodeId(3), incarnation: Incarnation(33), ..hello() };
        assert_eq!(handshake.check_hello(&initial, None), Ok(PROTOCOLS.newest));
        let wiped = Hello { incarnation: Incarnation(34), ..initial };
        assert_eq!(handshake.check_hello(&wiped, None), Err(Refusal::Incarnation));
    }

    #[test]
    fn a_former_member_is_refused_with_the_reason_and_stops() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        for purpose in [Purpose::Control, Purpose::Bootstrap] {
            let retired = Hello { from: NodeId(5), purpose, ..hello() };
            let refusal = handshake.check_hello(&retired, None).unwrap_err();
            assert!(refusal.to_string().contains("disk failed"), "{refusal}");
            // The refused node.
            handshake.check_reply(NodeId(2), purpose, HelloReply::Refused(refusal)).unwrap_err();
            let Some(StopReason::Removed(why)) = handshake.failure.reason() else { panic!() };
            assert!(why.contains("holdfast member add"), "{why}");
        }
    }

    #[test]
    fn a_node_whose_program_does_not_know_the_feature_level_stops() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let refusal = Refusal::Level { cluster: FeatureLevel(9) };
        let reply = HelloReply::Refused(refusal);
        handshake.check_reply(NodeId(2), Purpose::Control, reply).unwrap_err();
        let Some(StopReason::OldProgram(why)) = handshake.failure.reason() else { panic!() };
        assert!(why.contains("feature level 9"), "{why}");
    }

    /// This node may be behind: the cluster may have added the member since.
    #[test]
    fn a_newer_id_of_the_same_cluster_is_accepted_except_for_the_bootstrap() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let newer = Hello { from: NodeId(7), incarnation: Incarnation(77), ..hello() };
        assert_eq!(handshake.check_hello(&newer, None), Ok(PROTOCOLS.newest));
        assert!(handshake.may_call(NodeId(7), Purpose::Control).is_err());
        let unproved = Hello { cluster_id: None, ..newer.clone() };
        assert_eq!(handshake.check_hello(&unproved, None), Err(Refusal::NotMember));
        let bootstrap = Hello { purpose: Purpose::Bootstrap, ..newer };
        assert_eq!(handshake.check_hello(&bootstrap, None), Err(Refusal::NotMember));
    }

    #[test]
    fn an_invited_node_proves_itself_with_its_secret() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let joins = |secret: Option<&'static [u8]>| Hello {
            from: INVITED,
            incarnation: Incarnation(66),
            purpose: Purpose::Bootstrap,
            extensions: secret
                .map(|it| (JOIN_SECRET, Bytes::from_static(it)))
                .into_iter()
                .collect(),
            ..hello()
        };
        let refused = |why| Err(Refusal::Invitation { why });
        let check = |secret| handshake.check_hello(&joins(secret), None);
        assert_eq!(check(None), refused(InvitationRefusal::Missing));
        assert_eq!(check(Some(b"guess")), refused(InvitationRefusal::Wrong));
        assert_eq!(handshake.to_register(INVITED), None);
        assert_eq!(check(Some(SECRET)), Ok(PROTOCOLS.newest));
        assert_eq!(handshake.to_register(INVITED), Some(Incarnation(66)));
        let early = Hello { purpose: Purpose::Control, cluster_id: None, ..joins(Some(SECRET)) };
        assert_eq!(handshake.check_hello(&early, None), Err(Refusal::Unregistered));
        // This node may be behind: the cluster may have registered the member since.
        let registered = Hello { purpose: Purpose::Control, ..joins(None) };
        assert_eq!(handshake.check_hello(&registered, None), Ok(PROTOCOLS.newest));
        assert!(handshake.may_call(INVITED, Purpose::Control).is_err());
    }

    /// An unregistered node gets neither votes nor entries until the log registers its incarnation.
    #[test]
    fn a_node_that_does_not_know_the_cluster_is_accepted_for_the_bootstrap_only() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let (from, incarnation) = (NodeId(4), Incarnation(44));
        // A node that is registered knows the id of the cluster.
        let unknown = Hello { from, incarnation, cluster_id: None, ..hello() };
        for purpose in [Purpose::Replication, Purpose::Control, Purpose::Snapshot, Purpose::Calls] {
            let asks = Hello { purpose, ..unknown.clone() };
            assert_eq!(handshake.check_hello(&asks, None), Err(Refusal::Unregistered));
            assert!(handshake.may_call(NodeId(4), purpose).is_err());
        }
        assert_eq!(handshake.to_register(NodeId(4)), None);
        let asks = Hello { purpose: Purpose::Bootstrap, ..unknown.clone() };
        assert_eq!(handshake.check_hello(&asks, None), Ok(PROTOCOLS.newest));
        assert_eq!(handshake.to_register(NodeId(4)), Some(Incarnation(44)));
        assert_eq!(handshake.check_hello(&unknown, None), Err(Refusal::Unregistered));
    }

    #[test]
    fn a_node_that_has_lost_an_acknowledged_entry_refuses_and_stops() {
        let number = |tag, index: u64| (tag, Bytes::copy_from_slice(&index.to_le_bytes()));
        let lost = |node| Refusal::LostEntries { node: NodeId(node), must_have: 1, log_end: 0 };
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let hello = Hello { extensions: vec![number(MUST_HAVE, 1)], ..hello() };
        assert_eq!(handshake.check_hello(&hello, None), Err(lost(1)));
        handshake.stop_if_lost(&lost(1));
        let Some(StopReason::Failed(why)) = handshake.failure.reason() else { panic!() };
        assert!(why.contains("acknowledged entry 1") && why.contains("member replace"), "{why}");
    }

    #[tokio::test]
    async fn a_caller_that_has_lost_an_acknowledged_entry_is_refused_and_stops() {
        let number = |tag, index: u64| (tag, Bytes::copy_from_slice(&index.to_le_bytes()));
        let dir = tempfile::tempdir().unwrap();
        let peer = handshake(&dir);
        let matched = BTreeMap::from([(NodeId(2), Some(1))]);
        let replication = Replication { matched, applied: Some(1), last: Some(1) };
        peer.acknowledged.record(&replication, tokio::time::Instant::now());
        let calls = |log_end| Hello { extensions: vec![number(LOG_END, log_end)], ..hello() };
        assert!(peer.check_hello(&calls(2), None).is_ok());
        let refusal = peer.check_hello(&calls(1), None).unwrap_err();
        let expected = Refusal::LostEntries { node: NodeId(2), must_have: 1, log_end: 1 };
        assert_eq!(refusal, expected);
        // The peer goes on.
        peer.stop_if_lost(&refusal);
        assert!(!peer.failure.is_set());
        // The caller compares its log again.
        let of_caller = Refusal::LostEntries { node: NodeId(1), must_have: 0, log_end: 0 };
        let reply = HelloReply::Refused(of_caller);
        peer.check_reply(NodeId(2), Purpose::Control, reply).unwrap_err();
        assert!(peer.failure.is_set());
    }

    /// After a freeze, a leader may read a hello that is older than what the caller has acknowledged since.
    #[tokio::test]
    async fn a_log_end_from_before_an_acknowledgement_is_called_outdated() {
        let dir = tempfile::tempdir().unwrap();
        let peer = handshake(&dir);
        let log_end = (LOG_END, Bytes::copy_from_slice(&5_u64.to_le_bytes()));
        let hello = Hello { extensions: vec![log_end], ..hello() };
        let named = || peer.refused.lock().get(&NodeId(2)).map(|(_, name)| *name);
        let refuse = |index: u64, at| {
            let matched = BTreeMap::from([(NodeId(2), Some(index))]);
            let replication = Replication { matched, applied: Some(9), last: Some(9) };
            peer.acknowledged.record(&replication, at);
            let refusal = peer.check_hello(&hello, None).unwrap_err();
            peer.log_refusal(&hello, Some(&refusal));
            refusal
        };
        let now = tokio::time::Instant::now();
        refuse(7, now.checked_sub(HELLO_BOUND).unwrap());
        assert_eq!(named(), Some("lost-entries"));
        assert!(peer.refused_by(NodeId(2)).unwrap().contains("older copy"));
        let refusal = refuse(8, now);
        assert_eq!((named(), peer.refused_by(NodeId(2))), (Some(OUTDATED), None));
        assert_eq!(refusal.is_loss_of(NodeId(2), 8), Some(true));
        assert_eq!(refusal.is_loss_of(NodeId(2), 9), Some(false));
        assert_eq!(refusal.is_loss_of(NodeId(3), 5), None);
    }

    #[tokio::test]
    async fn a_refused_node_that_has_the_entry_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let last = LogId::new(LeaderId { term: 1, node_id: 1 }, 4);
        handshake.log.clone().purge(last).await.unwrap();
        let refused = |must_have| {
            let refusal = Refusal::LostEntries { node: NodeId(1), must_have, log_end: 2 };
            let reply = HelloReply::Refused(refusal);
            handshake.check_reply(NodeId(2), Purpose::Control, reply).unwrap_err()
        };
        assert!(refused(4).contains("outdated"));
        assert!(!handshake.failure.is_set());
        assert!(refused(5).contains("older copy"));
        assert!(handshake.failure.is_set());
    }

    fn accepted(node: NodeId, incarnation: Incarnation) -> HelloAccepted {
        let (protocol, level_max) = (PROTOCOLS.newest, FeatureLevel::NEWEST);
        HelloAccepted { protocol, node, incarnation, level_max, extensions: Vec::new() }
    }

    #[test]
    fn a_reply_of_a_wiped_or_unregistered_node_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let check = |node, incarnation| {
            let accepted = accepted(NodeId(node), Incarnation(incarnation));
            handshake.check_reply(NodeId(2), Purpose::Calls, HelloReply::Accepted(accepted))
        };
        assert!(check(2, 22).is_ok());
        assert!(check(2, 99).is_err());
        assert!(check(3, 22).is_err());
        let unregistered = HelloReply::Accepted(accepted(NodeId(4), Incarnation(44)));
        assert!(handshake.check_reply(NodeId(4), Purpose::Calls, unregistered).is_err());
        let old =
            HelloAccepted { level_max: FeatureLevel(0), ..accepted(NodeId(2), Incarnation(22)) };
        let reply = handshake.check_reply(NodeId(2), Purpose::Calls, HelloReply::Accepted(old));
        assert!(reply.unwrap_err().contains("upgrade the peer"));
        let refused = HelloReply::Refused(Refusal::Incarnation);
        let reason = handshake.check_reply(NodeId(2), Purpose::Bootstrap, refused).unwrap_err();
        assert!(is_other_incarnation(&reason), "{reason}");
    }
}
