//! Who may talk to whom.
//!
//! Owns both sides of the first exchange on a connection: same protocol, same cluster, the node that was meant, and
//! an incarnation that fits the one the cluster has registered (design D14). Remembers the incarnations it saw, which
//! the leader registers. Bounds: one hello of at most `HELLO_MAX` bytes, within [`HELLO_BOUND`].

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
use crate::wire::{Hello, HelloReply, PROTOCOL, Purpose, Refusal};

/// A handshake takes at most this long.
pub(crate) const HELLO_BOUND: Duration = Duration::from_secs(2);

/// Tells which incarnation the cluster has registered for a node.
pub(crate) type Registered = Arc<dyn Fn(NodeId) -> Option<Incarnation> + Send + Sync>;

/// See the module.
pub(crate) struct Doorman {
    identity: Identity,
    members: BTreeSet<NodeId>,
    registered: Registered,
    seen: Mutex<BTreeMap<NodeId, Incarnation>>,
}

impl Doorman {
    pub(crate) fn new(
        identity: Identity,
        members: BTreeSet<NodeId>,
        registered: Registered,
    ) -> Self {
        let seen = Mutex::new(BTreeMap::from([(identity.node, identity.incarnation)]));
        Self { identity, members, registered, seen }
    }

    /// The incarnation a node last presented itself with, if it was accepted.
    pub(crate) fn seen(&self, node: NodeId) -> Option<Incarnation> {
        self.seen.lock().get(&node).copied()
    }

    /// Introduces this node on a fresh stream.
    pub(crate) async fn introduce(
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
            let frame = frame.ok_or("the peer hung up")?;
            holdfast_codec::decode::<HelloReply>(Kind::Hello, &frame).map_err(|e| e.to_string())
        };
        let reply = timeout(HELLO_BOUND, exchange).await.map_err(|_| "no hello in time")??;
        self.judge_reply(to, reply)
    }

    fn judge_reply(&self, to: NodeId, reply: HelloReply) -> Result<(), String> {
        match reply {
            HelloReply::Welcome { node, incarnation } if node == to => {
                self.judge_incarnation(node, incarnation).map_err(|refusal| refusal.to_string())
            }
            HelloReply::Welcome { node, .. } => Err(Refusal::NotMe { ours: node }.to_string()),
            HelloReply::Refused(refusal) => Err(format!("refused: {refusal}")),
        }
    }

    /// Answers the introduction of another node; gives who it is, if it may stay.
    pub(crate) async fn receive(&self, stream: &mut TcpStream) -> Option<(NodeId, Purpose)> {
        let frame = timeout(HELLO_BOUND, read_frame(stream)).await.ok()?.ok()??;
        let hello: Hello = holdfast_codec::decode(Kind::Hello, &frame).ok()?;
        let verdict = self.judge(&hello);
        if let Err(refusal) = &verdict {
            tracing::warn!(node = %hello.from, cluster = hello.cluster, ?refusal, "refused a peer");
        }
        let accepted = verdict.is_ok();
        let reply = match verdict {
            Ok(()) => HelloReply::Welcome {
                node: self.identity.node,
                incarnation: self.identity.incarnation,
            },
            Err(refusal) => HelloReply::Refused(refusal),
        };
        let frame = holdfast_codec::encode(Kind::Hello, &reply).ok()?;
        timeout(HELLO_BOUND, stream.write_all(&frame)).await.ok()?.ok()?;
        accepted.then_some((hello.from, hello.purpose))
    }

    fn judge(&self, hello: &Hello) -> Result<(), Refusal> {
        if hello.protocol != PROTOCOL {
            return Err(Refusal::Protocol { ours: PROTOCOL });
        }
        if hello.cluster != self.identity.cluster {
            return Err(Refusal::Cluster { ours: self.identity.cluster.clone() });
        }
        if hello.to != self.identity.node {
            return Err(Refusal::NotMe { ours: self.identity.node });
        }
        if hello.from == self.identity.node || !self.members.contains(&hello.from) {
            return Err(Refusal::Stranger);
        }
        self.judge_incarnation(hello.from, hello.incarnation)
    }

    fn judge_incarnation(&self, node: NodeId, incarnation: Incarnation) -> Result<(), Refusal> {
        let mut seen = self.seen.lock();
        // Until it is registered, the first incarnation met is the one.
        let known = (self.registered)(node).or_else(|| seen.get(&node).copied());
        if known.is_some_and(|known| known != incarnation) {
            return Err(Refusal::Incarnation);
        }
        seen.insert(node, incarnation);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doorman() -> Doorman {
        let identity =
            Identity { cluster: "a".into(), node: NodeId(1), incarnation: Incarnation(11) };
        let members = BTreeSet::from([NodeId(1), NodeId(2), NodeId(3)]);
        let registered = |node| (node == NodeId(2)).then_some(Incarnation(22));
        Doorman::new(identity, members, Arc::new(registered))
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
    fn each_mismatch_is_refused_for_what_it_is() {
        let doorman = doorman();
        assert_eq!(doorman.judge(&hello()), Ok(()));
        let other = Hello { protocol: 2, ..hello() };
        assert_eq!(doorman.judge(&other), Err(Refusal::Protocol { ours: PROTOCOL }));
        let other = Hello { cluster: "b".into(), ..hello() };
        assert_eq!(doorman.judge(&other), Err(Refusal::Cluster { ours: "a".into() }));
        let other = Hello { to: NodeId(3), ..hello() };
        assert_eq!(doorman.judge(&other), Err(Refusal::NotMe { ours: NodeId(1) }));
        let other = Hello { from: NodeId(9), ..hello() };
        assert_eq!(doorman.judge(&other), Err(Refusal::Stranger));
        let other = Hello { incarnation: Incarnation(23), ..hello() };
        assert_eq!(doorman.judge(&other), Err(Refusal::Incarnation));
    }

    #[test]
    fn an_unregistered_node_is_accepted_and_remembered() {
        let doorman = doorman();
        let hello = Hello { from: NodeId(3), incarnation: Incarnation(33), ..hello() };
        assert_eq!(doorman.judge(&hello), Ok(()));
        assert_eq!(doorman.seen(NodeId(3)), Some(Incarnation(33)));
    }

    /// Registration takes a moment; a node that is wiped meanwhile is not the one that was met.
    #[test]
    fn a_node_wiped_before_it_is_registered_is_refused() {
        let doorman = doorman();
        let hello = Hello { from: NodeId(3), incarnation: Incarnation(33), ..hello() };
        assert_eq!(doorman.judge(&hello), Ok(()));
        let wiped = Hello { incarnation: Incarnation(34), ..hello };
        assert_eq!(doorman.judge(&wiped), Err(Refusal::Incarnation));
    }

    #[test]
    fn an_answer_of_a_wiped_node_is_refused() {
        let doorman = doorman();
        let welcome = |incarnation| HelloReply::Welcome { node: NodeId(2), incarnation };
        assert!(doorman.judge_reply(NodeId(2), welcome(Incarnation(22))).is_ok());
        assert!(doorman.judge_reply(NodeId(2), welcome(Incarnation(99))).is_err());
        assert!(doorman.judge_reply(NodeId(3), welcome(Incarnation(22))).is_err());
    }
}
