//! The handshake on a connection between nodes, both sides.
//!
//! Both sides check the protocol version, the cluster, its feature level, the node id, and the data directory. The
//! directory's
//! incarnation must match the log or the initial members (design D14). The exception is a bootstrap connection, which
//! accepts an unregistered node and remembers it until the leader registers it. Bounds: one hello within
//! [`HELLO_BOUND`]; one remembered incarnation and one refusal for each member.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_codec::Kind;
use holdfast_tls::{CertificateInfo, MaybeTlsStream};
use holdfast_types::{ClusterId, Command, FeatureLevel, Incarnation, NodeId};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::frame::read_frame;
use crate::identity::Identity;
use crate::initial_members::InitialMembersFile;
use crate::wire::{Hello, HelloAccepted, HelloReply, PROTOCOLS, Purpose, Refusal};

/// The timeout of a handshake.
pub(crate) const HELLO_BOUND: Duration = Duration::from_secs(2);

/// What the handshake reads from the replicated state of this node.
pub(crate) trait ClusterState: Send + Sync {
    /// The incarnation that the log has registered for a node.
    fn incarnation(&self, node: NodeId) -> Option<Incarnation>;

    fn level(&self) -> FeatureLevel;
}

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
    /// The host of each member's address for other nodes.
    members: BTreeMap<NodeId, String>,
    state: Arc<dyn ClusterState>,
    initial_members: Arc<InitialMembersFile>,
    /// Unregistered members without a log, with the incarnation of their last hello.
    unregistered: Mutex<BTreeMap<NodeId, Incarnation>>,
    /// The last refusal of each member, so that the node logs each reason once.
    refused: Mutex<BTreeMap<NodeId, Refusal>>,
}

impl PeerHandshake {
    pub(crate) fn new(
        identity: Identity,
        members: BTreeMap<NodeId, String>,
        state: Arc<dyn ClusterState>,
        initial_members: Arc<InitialMembersFile>,
    ) -> Self {
        let (unregistered, refused) = (Mutex::default(), Mutex::default());
        Self { identity, members, state, initial_members, unregistered, refused }
    }

    /// The only incarnation of a node that may vote and receive entries; `None` if the node is not registered.
    pub(crate) fn expected_incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.state.incarnation(node).or_else(|| self.initial_members.incarnation(node))
    }

    /// The incarnation to register for a node that is not in the log.
    pub(crate) fn to_register(&self, node: NodeId) -> Option<Incarnation> {
        let initial = self.initial_members.incarnation(node);
        initial.or_else(|| self.unregistered.lock().get(&node).copied())
    }

    /// The first command of the log; `None` before this node belongs to a cluster.
    pub(crate) fn bootstrap_command(&self) -> Option<Command> {
        let initial = self.initial_members.current()?;
        Some(Command::Bootstrap { cluster_id: initial.cluster_id, level: initial.level })
    }

    /// Checks that this node may call a peer; the error is the reason.
    pub(crate) fn may_call(&self, node: NodeId, purpose: Purpose) -> Result<(), String> {
        if purpose == Purpose::Bootstrap || self.expected_incarnation(node).is_some() {
            return Ok(());
        }
        Err("the peer's data directory is not registered yet".into())
    }

    /// Runs the client side of the handshake.
    pub(crate) async fn initiate(
        &self,
        stream: &mut MaybeTlsStream,
        to: NodeId,
        purpose: Purpose,
    ) -> Result<(), String> {
        if !self.is_named(stream.certificate(), to) {
            return Err(format!(
                "the certificate of the peer names neither node {to} (holdfast://CLUSTER/node/node-{to}) nor the host of its address"
            ));
        }
        let hello = Hello {
            protocols: PROTOCOLS,
            cluster: self.identity.cluster.clone(),
            cluster_id: self.cluster_id(),
            level_max: FeatureLevel::NEWEST,
            from: self.identity.node,
            incarnation: self.identity.incarnation,
            to,
            purpose,
            extensions: Vec::new(),
        };
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
        self.check_reply(to, purpose, reply)
    }

    fn check_reply(&self, to: NodeId, purpose: Purpose, reply: HelloReply) -> Result<(), String> {
        match reply {
            // A node without a log may call any member.
            HelloReply::Accepted(HelloAccepted { node, .. })
                if node == to && purpose == Purpose::Bootstrap =>
            {
                Ok(())
            }
            HelloReply::Accepted(HelloAccepted { node, incarnation, level_max, .. })
                if node == to =>
            {
                let checked = self.check_incarnation(node, incarnation);
                checked.map_err(|refusal| refusal.to_string())?;
                let cluster = self.state.level();
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
            HelloReply::Refused(refusal) => Err(refused(&refusal)),
        }
    }

    /// Returns `true` if a certificate has the URI of the node, or the host of its address. A connection without TLS has no
    /// certificate.
    fn is_named(&self, certificate: Option<CertificateInfo>, node: NodeId) -> bool {
        let Some(certificate) = certificate else { return true };
        let uri = format!("holdfast://{}/node/node-{node}", self.identity.cluster);
        let host = self.members.get(&node);
        certificate.uris.contains(&uri)
            || host.is_some_and(|host| {
                certificate.dns_names.contains(host)
                    || certificate.addresses.iter().any(|address| address.to_string() == *host)
            })
    }

    fn cluster_id(&self) -> Option<ClusterId> {
        self.initial_members.current().map(|initial| initial.cluster_id)
    }

    /// Runs the server side of the handshake. Returns the peer, or `None` if the connection is refused or broken.
    pub(crate) async fn accept(&self, stream: &mut MaybeTlsStream) -> Option<ConnectedPeer> {
        let frame = timeout(HELLO_BOUND, read_frame(stream)).await.ok()?.ok()??;
        let Ok(hello) = holdfast_codec::decode::<Hello>(Kind::Hello, &frame) else {
            // An earlier or a later program: its log shows the reason.
            let refusal = Refusal::Protocol { ours: PROTOCOLS };
            reply(stream, &HelloReply::Refused(refusal)).await;
            return None;
        };
        let certificate = stream.certificate();
        let checked = self.check_hello(&hello).and_then(|protocol| {
            if self.is_named(certificate, hello.from) {
                Ok(protocol)
            } else {
                Err(Refusal::Certificate)
            }
        });
        self.log_refusal(&hello, checked.as_ref().err());
        let Hello { from: node, incarnation, purpose, .. } = hello;
        match checked {
            Ok(protocol) => {
                let accepted = HelloAccepted {
                    protocol,
                    node: self.identity.node,
                    incarnation: self.identity.incarnation,
                    level_max: FeatureLevel::NEWEST,
                    extensions: Vec::new(),
                };
                reply(stream, &HelloReply::Accepted(accepted)).await?;
                Some(ConnectedPeer { node, incarnation, purpose })
            }
            Err(refusal) => {
                reply(stream, &HelloReply::Refused(refusal)).await;
                None
            }
        }
    }

    /// Returns the version for the connection.
    fn check_hello(&self, hello: &Hello) -> Result<u16, Refusal> {
        let protocol = PROTOCOLS.common(hello.protocols);
        let protocol = protocol.ok_or(Refusal::Protocol { ours: PROTOCOLS })?;
        if hello.cluster != self.identity.cluster {
            return Err(Refusal::Cluster { ours: self.identity.cluster.clone() });
        }
        if let (Some(ours), Some(theirs)) = (self.cluster_id(), hello.cluster_id)
            && ours != theirs
        {
            return Err(Refusal::ClusterId { ours });
        }
        if hello.level_max < self.state.level() {
            return Err(Refusal::Level { cluster: self.state.level() });
        }
        if hello.to != self.identity.node {
            return Err(Refusal::WrongNode { ours: self.identity.node });
        }
        if hello.from == self.identity.node || !self.members.contains_key(&hello.from) {
            return Err(Refusal::NotMember);
        }
        match self.check_incarnation(hello.from, hello.incarnation) {
            Err(Refusal::Unregistered) if hello.purpose == Purpose::Bootstrap => {
                self.unregistered.lock().insert(hello.from, hello.incarnation);
            }
            result => result?,
        }
        Ok(protocol)
    }

    fn check_incarnation(&self, node: NodeId, incarnation: Incarnation) -> Result<(), Refusal> {
        match self.expected_incarnation(node) {
            Some(expected) if expected == incarnation => Ok(()),
            Some(_) => Err(Refusal::Incarnation),
            None => Err(Refusal::Unregistered),
        }
    }

    /// Logs a refusal, once for each reason of a member.
    fn log_refusal(&self, hello: &Hello, refusal: Option<&Refusal>) {
        let mut refused = self.refused.lock();
        let Some(refusal) = refusal else {
            refused.remove(&hello.from);
            return;
        };
        let again = self.members.contains_key(&hello.from)
            && refused.insert(hello.from, refusal.clone()).as_ref() == Some(refusal);
        if !again {
            let (peer, reason) = (hello.from.0, refusal.name());
            tracing::warn!(peer, cluster = hello.cluster, refusal = reason, "refused a peer");
        }
    }
}

async fn reply(stream: &mut MaybeTlsStream, reply: &HelloReply) -> Option<()> {
    let frame = holdfast_codec::encode(Kind::Hello, reply).ok()?;
    timeout(HELLO_BOUND, write(stream, &frame)).await.ok()?.ok()
}

async fn write(stream: &mut MaybeTlsStream, frame: &[u8]) -> std::io::Result<()> {
    stream.write_all(frame).await?;
    // TLS may hold back the end of the last record.
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::{InitialMembers, ProtocolRange};

    /// The log has registered node 2.
    struct TestState;

    impl ClusterState for TestState {
        fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
            (node == NodeId(2)).then_some(Incarnation(22))
        }

        fn level(&self) -> FeatureLevel {
            FeatureLevel(1)
        }
    }

    /// Node 2 is registered in the log, node 3 is an initial member, and node 4 is not registered.
    fn handshake(dir: &tempfile::TempDir) -> PeerHandshake {
        let identity =
            Identity { cluster: "a".into(), node: NodeId(1), incarnation: Incarnation(11) };
        let members = (1..=4).map(|id| (NodeId(id), format!("host-{id}"))).collect();
        let file = Arc::new(InitialMembersFile::open(dir.path()).unwrap());
        let initial = BTreeMap::from([(NodeId(1), Incarnation(11)), (NodeId(3), Incarnation(33))]);
        let (cluster_id, level) = (ClusterId(5), FeatureLevel(1));
        let initiator = Incarnation(11);
        file.write(InitialMembers { cluster_id, level, initiator, members: initial }).unwrap();
        PeerHandshake::new(identity, members, Arc::new(TestState), file)
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
        assert_eq!(handshake.check_hello(&hello()), Ok(PROTOCOLS.newest));
        let later = ProtocolRange { oldest: PROTOCOLS.newest + 1, newest: PROTOCOLS.newest + 9 };
        let other = Hello { protocols: later, ..hello() };
        assert_eq!(handshake.check_hello(&other), Err(Refusal::Protocol { ours: PROTOCOLS }));
        let other = Hello { cluster: "b".into(), ..hello() };
        assert_eq!(handshake.check_hello(&other), Err(Refusal::Cluster { ours: "a".into() }));
        let other = Hello { cluster_id: Some(ClusterId(6)), ..hello() };
        let refusal = Refusal::ClusterId { ours: ClusterId(5) };
        assert_eq!(handshake.check_hello(&other), Err(refusal));
        let other = Hello { level_max: FeatureLevel(0), ..hello() };
        let refusal = Refusal::Level { cluster: FeatureLevel(1) };
        assert_eq!(handshake.check_hello(&other), Err(refusal));
        let other = Hello { to: NodeId(3), ..hello() };
        assert_eq!(handshake.check_hello(&other), Err(Refusal::WrongNode { ours: NodeId(1) }));
        let other = Hello { from: NodeId(9), ..hello() };
        assert_eq!(handshake.check_hello(&other), Err(Refusal::NotMember));
        let other = Hello { incarnation: Incarnation(23), ..hello() };
        assert_eq!(handshake.check_hello(&other), Err(Refusal::Incarnation));
        let bootstrap = Hello { purpose: Purpose::Bootstrap, ..other };
        assert_eq!(handshake.check_hello(&bootstrap), Err(Refusal::Incarnation));
    }

    #[test]
    fn a_certificate_must_name_its_node() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let certificate = |uri: &str, dns: &str| CertificateInfo {
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
        };
        let names = |uri, dns| handshake.is_named(Some(certificate(uri, dns)), NodeId(2));
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
        assert_eq!(handshake.check_hello(&later), Ok(PROTOCOLS.newest));
    }

    #[test]
    fn an_initial_member_is_accepted_before_the_log_registers_it() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let initial = Hello { from: NodeId(3), incarnation: Incarnation(33), ..hello() };
        assert_eq!(handshake.check_hello(&initial), Ok(PROTOCOLS.newest));
        let wiped = Hello { incarnation: Incarnation(34), ..initial };
        assert_eq!(handshake.check_hello(&wiped), Err(Refusal::Incarnation));
    }

    /// An unregistered node gets neither votes nor entries until the log registers its incarnation.
    #[test]
    fn an_unregistered_node_is_accepted_for_the_bootstrap_only() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let unknown = Hello { from: NodeId(4), incarnation: Incarnation(44), ..hello() };
        for purpose in [Purpose::Replication, Purpose::Control, Purpose::Snapshot, Purpose::Calls] {
            let asks = Hello { purpose, ..unknown.clone() };
            assert_eq!(handshake.check_hello(&asks), Err(Refusal::Unregistered));
            assert!(handshake.may_call(NodeId(4), purpose).is_err());
        }
        assert_eq!(handshake.to_register(NodeId(4)), None);
        let asks = Hello { purpose: Purpose::Bootstrap, ..unknown.clone() };
        assert_eq!(handshake.check_hello(&asks), Ok(PROTOCOLS.newest));
        assert_eq!(handshake.to_register(NodeId(4)), Some(Incarnation(44)));
        assert_eq!(handshake.check_hello(&unknown), Err(Refusal::Unregistered));
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
