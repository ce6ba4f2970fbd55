//! The handshake on a connection between nodes, both sides.
//!
//! Both sides check the protocol version, the cluster, the node id, and the data directory. The directory's
//! incarnation must match the log or the initial members (design D14). The exception is a bootstrap connection, which
//! accepts an unregistered node and remembers it until the leader registers it. Bounds: one hello within
//! [`HELLO_BOUND`]; one remembered incarnation and one refusal for each member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdfast_codec::Kind;
use holdfast_types::{Incarnation, NodeId};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::frame::read_frame;
use crate::identity::Identity;
use crate::initial_members::InitialMembersFile;
use crate::wire::{Hello, HelloReply, PROTOCOL, Purpose, Refusal};

/// The timeout of a handshake.
pub(crate) const HELLO_BOUND: Duration = Duration::from_secs(2);

/// Returns the incarnation that the log has registered for a node.
pub(crate) type Registered = Arc<dyn Fn(NodeId) -> Option<Incarnation> + Send + Sync>;

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
    members: BTreeSet<NodeId>,
    registered: Registered,
    initial_members: Arc<InitialMembersFile>,
    /// Unregistered members without a log, with the incarnation of their last hello.
    unregistered: Mutex<BTreeMap<NodeId, Incarnation>>,
    /// The last refusal of each member, so that the node logs each reason once.
    refused: Mutex<BTreeMap<NodeId, Refusal>>,
}

impl PeerHandshake {
    pub(crate) fn new(
        identity: Identity,
        members: BTreeSet<NodeId>,
        registered: Registered,
        initial_members: Arc<InitialMembersFile>,
    ) -> Self {
        let (unregistered, refused) = (Mutex::default(), Mutex::default());
        Self { identity, members, registered, initial_members, unregistered, refused }
    }

    /// The only incarnation of a node that may vote and receive entries; `None` if the node is not registered.
    pub(crate) fn expected_incarnation(&self, node: NodeId) -> Option<Incarnation> {
        (self.registered)(node).or_else(|| self.initial_members.incarnation(node))
    }

    /// The incarnation to register for a node that is not in the log.
    pub(crate) fn to_register(&self, node: NodeId) -> Option<Incarnation> {
        let initial = self.initial_members.incarnation(node);
        initial.or_else(|| self.unregistered.lock().get(&node).copied())
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
        stream: &mut TcpStream,
        to: NodeId,
        purpose: Purpose,
    ) -> Result<(), String> {
        let hello = Hello {
            protocol: PROTOCOL,
            cluster: self.identity.cluster.clone(),
            from: self.identity.node,
            incarnation: self.identity.incarnation,
            to,
            purpose,
        };
        let exchange = async {
            let frame = holdfast_codec::encode(Kind::Hello, &hello).map_err(|e| e.to_string())?;
            stream.write_all(&frame).await.map_err(|e| e.to_string())?;
            let frame = read_frame(stream).await.map_err(|e| e.to_string())?;
            let frame = frame.ok_or("the peer closed the connection during the handshake")?;
            holdfast_codec::decode::<HelloReply>(Kind::Hello, &frame).map_err(|e| e.to_string())
        };
        let reply = timeout(HELLO_BOUND, exchange).await.map_err(|_| "no handshake in time")??;
        self.check_reply(to, purpose, reply)
    }

    fn check_reply(&self, to: NodeId, purpose: Purpose, reply: HelloReply) -> Result<(), String> {
        match reply {
            // A node without a log may call any member.
            HelloReply::Accepted { node, .. } if node == to && purpose == Purpose::Bootstrap => {
                Ok(())
            }
            HelloReply::Accepted { node, incarnation } if node == to => {
                self.check_incarnation(node, incarnation).map_err(|refusal| refusal.to_string())
            }
            HelloReply::Accepted { node, .. } => Err(Refusal::WrongNode { ours: node }.to_string()),
            HelloReply::Refused(refusal) => Err(refused(&refusal)),
        }
    }

    /// Runs the server side of the handshake. Returns the peer, or `None` if the connection is refused or broken.
    pub(crate) async fn accept(&self, stream: &mut TcpStream) -> Option<ConnectedPeer> {
        let frame = timeout(HELLO_BOUND, read_frame(stream)).await.ok()?.ok()??;
        let hello: Hello = holdfast_codec::decode(Kind::Hello, &frame).ok()?;
        let checked = self.check_hello(&hello);
        self.log_refusal(&hello, checked.as_ref().err());
        let accepted = checked.is_ok();
        let reply = match checked {
            Ok(()) => HelloReply::Accepted {
                node: self.identity.node,
                incarnation: self.identity.incarnation,
            },
            Err(refusal) => HelloReply::Refused(refusal),
        };
        let frame = holdfast_codec::encode(Kind::Hello, &reply).ok()?;
        timeout(HELLO_BOUND, stream.write_all(&frame)).await.ok()?.ok()?;
        let Hello { from: node, incarnation, purpose, .. } = hello;
        accepted.then_some(ConnectedPeer { node, incarnation, purpose })
    }

    fn check_hello(&self, hello: &Hello) -> Result<(), Refusal> {
        if hello.protocol != PROTOCOL {
            return Err(Refusal::Protocol { ours: PROTOCOL });
        }
        if hello.cluster != self.identity.cluster {
            return Err(Refusal::Cluster { ours: self.identity.cluster.clone() });
        }
        if hello.to != self.identity.node {
            return Err(Refusal::WrongNode { ours: self.identity.node });
        }
        if hello.from == self.identity.node || !self.members.contains(&hello.from) {
            return Err(Refusal::NotMember);
        }
        match self.check_incarnation(hello.from, hello.incarnation) {
            Err(Refusal::Unregistered) if hello.purpose == Purpose::Bootstrap => {
                self.unregistered.lock().insert(hello.from, hello.incarnation);
                Ok(())
            }
            result => result,
        }
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
        let again = self.members.contains(&hello.from)
            && refused.insert(hello.from, refusal.clone()).as_ref() == Some(refusal);
        if !again {
            let (peer, reason) = (hello.from.0, refusal.name());
            tracing::warn!(peer, cluster = hello.cluster, refusal = reason, "refused a peer");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::InitialMembers;

    /// Node 2 is registered in the log, node 3 is an initial member, and node 4 is not registered.
    fn handshake(dir: &tempfile::TempDir) -> PeerHandshake {
        let identity =
            Identity { cluster: "a".into(), node: NodeId(1), incarnation: Incarnation(11) };
        let members = BTreeSet::from([NodeId(1), NodeId(2), NodeId(3), NodeId(4)]);
        let registered = |node| (node == NodeId(2)).then_some(Incarnation(22));
        let file = Arc::new(InitialMembersFile::open(dir.path()).unwrap());
        let initial = BTreeMap::from([(NodeId(1), Incarnation(11)), (NodeId(3), Incarnation(33))]);
        file.write(InitialMembers { initiator: Incarnation(11), members: initial }).unwrap();
        PeerHandshake::new(identity, members, Arc::new(registered), file)
    }

    fn hello() -> Hello {
        Hello {
            protocol: PROTOCOL,
            cluster: "a".into(),
            from: NodeId(2),
            incarnation: Incarnation(22),
            to: NodeId(1),
            purpose: Purpose::Control,
        }
    }

    #[test]
    fn each_mismatch_is_rejected_with_its_reason() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        assert_eq!(handshake.check_hello(&hello()), Ok(()));
        let other = Hello { protocol: PROTOCOL + 1, ..hello() };
        assert_eq!(handshake.check_hello(&other), Err(Refusal::Protocol { ours: PROTOCOL }));
        let other = Hello { cluster: "b".into(), ..hello() };
        assert_eq!(handshake.check_hello(&other), Err(Refusal::Cluster { ours: "a".into() }));
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
    fn an_initial_member_is_accepted_before_the_log_registers_it() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let initial = Hello { from: NodeId(3), incarnation: Incarnation(33), ..hello() };
        assert_eq!(handshake.check_hello(&initial), Ok(()));
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
        assert_eq!(handshake.check_hello(&asks), Ok(()));
        assert_eq!(handshake.to_register(NodeId(4)), Some(Incarnation(44)));
        assert_eq!(handshake.check_hello(&unknown), Err(Refusal::Unregistered));
    }

    #[test]
    fn a_reply_of_a_wiped_or_unregistered_node_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let handshake = handshake(&dir);
        let check = |node, incarnation| {
            let accepted =
                HelloReply::Accepted { node: NodeId(node), incarnation: Incarnation(incarnation) };
            handshake.check_reply(NodeId(2), Purpose::Calls, accepted)
        };
        assert!(check(2, 22).is_ok());
        assert!(check(2, 99).is_err());
        assert!(check(3, 22).is_err());
        let accepted = HelloReply::Accepted { node: NodeId(4), incarnation: Incarnation(44) };
        assert!(handshake.check_reply(NodeId(4), Purpose::Calls, accepted).is_err());
        let refused = HelloReply::Refused(Refusal::Incarnation);
        let reason = handshake.check_reply(NodeId(2), Purpose::Bootstrap, refused).unwrap_err();
        assert!(is_other_incarnation(&reason), "{reason}");
    }
}
