//! Who may talk to whom.
//!
//! Owns both sides of the first exchange on a connection: same protocol, same cluster, the node that was meant, and
//! the very incarnation that the log or the founding of the cluster names (design D14). Nobody else is talked to, except
//! about founding: a node that nobody knows yet is remembered then, and the leader registers it before it counts.
//! Bounds: one hello, within [`HELLO_BOUND`]; what is remembered is one line a member.

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
use crate::founding::roster::RosterBook;
use crate::identity::Identity;
use crate::wire::{Hello, HelloReply, PROTOCOL, Purpose, Refusal};

/// A handshake takes at most this long.
pub(crate) const HELLO_BOUND: Duration = Duration::from_secs(2);

/// Tells which incarnation the cluster has registered for a node.
pub(crate) type Registered = Arc<dyn Fn(NodeId) -> Option<Incarnation> + Send + Sync>;

/// A peer that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Visitor {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) purpose: Purpose,
}

/// Whether a peer said that it knows this node's id by another data directory.
pub(crate) fn disowned(reason: &str) -> bool {
    reason == refused(&Refusal::Incarnation)
}

fn refused(refusal: &Refusal) -> String {
    format!("refused: {refusal}")
}

/// See the module.
pub(crate) struct Doorman {
    identity: Identity,
    members: BTreeSet<NodeId>,
    registered: Registered,
    roster: Arc<RosterBook>,
    /// Members without a log that nobody knows, as they last presented themselves.
    newcomers: Mutex<BTreeMap<NodeId, Incarnation>>,
    /// Why each member was last refused, so that each reason is logged once.
    refused: Mutex<BTreeMap<NodeId, Refusal>>,
}

impl Doorman {
    pub(crate) fn new(
        identity: Identity,
        members: BTreeSet<NodeId>,
        registered: Registered,
        roster: Arc<RosterBook>,
    ) -> Self {
        let (newcomers, refused) = (Mutex::default(), Mutex::default());
        Self { identity, members, registered, roster, newcomers, refused }
    }

    /// The one incarnation of a node that may vote and be replicated to, if it is known.
    pub(crate) fn known(&self, node: NodeId) -> Option<Incarnation> {
        (self.registered)(node).or_else(|| self.roster.incarnation(node))
    }

    /// The incarnation to register for a node that the log does not know.
    pub(crate) fn to_register(&self, node: NodeId) -> Option<Incarnation> {
        let founder = self.roster.incarnation(node);
        founder.or_else(|| self.newcomers.lock().get(&node).copied())
    }

    /// Whether this node would talk to another one about anything but founding.
    pub(crate) fn expects(&self, node: NodeId, purpose: Purpose) -> Result<(), String> {
        if purpose == Purpose::Founding || self.known(node).is_some() {
            return Ok(());
        }
        Err("its data directory is not registered yet".into())
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
        self.judge_reply(to, purpose, reply)
    }

    fn judge_reply(&self, to: NodeId, purpose: Purpose, reply: HelloReply) -> Result<(), String> {
        match reply {
            // Whoever has no log asks anybody.
            HelloReply::Welcome { node, .. } if node == to && purpose == Purpose::Founding => {
                Ok(())
            }
            HelloReply::Welcome { node, incarnation } if node == to => {
                self.judge_incarnation(node, incarnation).map_err(|refusal| refusal.to_string())
            }
            HelloReply::Welcome { node, .. } => Err(Refusal::NotMe { ours: node }.to_string()),
            HelloReply::Refused(refusal) => Err(refused(&refusal)),
        }
    }

    /// Answers the introduction of another node; gives who it is, if it may stay.
    pub(crate) async fn receive(&self, stream: &mut TcpStream) -> Option<Visitor> {
        let frame = timeout(HELLO_BOUND, read_frame(stream)).await.ok()?.ok()??;
        let hello: Hello = holdfast_codec::decode(Kind::Hello, &frame).ok()?;
        let verdict = self.judge(&hello);
        self.note(&hello, verdict.as_ref().err());
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
        let Hello { from: node, incarnation, purpose, .. } = hello;
        accepted.then_some(Visitor { node, incarnation, purpose })
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
        match self.judge_incarnation(hello.from, hello.incarnation) {
            Err(Refusal::Unregistered) if hello.purpose == Purpose::Founding => {
                self.newcomers.lock().insert(hello.from, hello.incarnation);
                Ok(())
            }
            verdict => verdict,
        }
    }

    fn judge_incarnation(&self, node: NodeId, incarnation: Incarnation) -> Result<(), Refusal> {
        match self.known(node) {
            Some(known) if known == incarnation => Ok(()),
            Some(_) => Err(Refusal::Incarnation),
            None => Err(Refusal::Unregistered),
        }
    }

    /// Logs a refusal, each reason of a member once.
    fn note(&self, hello: &Hello, refusal: Option<&Refusal>) {
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
    use crate::founding::roster::Roster;

    /// Node 2 is registered in the log, node 3 founded the cluster, and nobody knows node 4.
    fn doorman(dir: &tempfile::TempDir) -> Doorman {
        let identity =
            Identity { cluster: "a".into(), node: NodeId(1), incarnation: Incarnation(11) };
        let members = BTreeSet::from([NodeId(1), NodeId(2), NodeId(3), NodeId(4)]);
        let registered = |node| (node == NodeId(2)).then_some(Incarnation(22));
        let roster = Arc::new(RosterBook::open(dir.path()).unwrap());
        let founders = BTreeMap::from([(NodeId(1), Incarnation(11)), (NodeId(3), Incarnation(33))]);
        roster.write(Roster { founder: Incarnation(11), members: founders }).unwrap();
        Doorman::new(identity, members, Arc::new(registered), roster)
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
        let dir = tempfile::tempdir().unwrap();
        let doorman = doorman(&dir);
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
        let founding = Hello { purpose: Purpose::Founding, ..other };
        assert_eq!(doorman.judge(&founding), Err(Refusal::Incarnation));
    }

    #[test]
    fn a_founder_is_known_before_the_log_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let doorman = doorman(&dir);
        let founder = Hello { from: NodeId(3), incarnation: Incarnation(33), ..hello() };
        assert_eq!(doorman.judge(&founder), Ok(()));
        let wiped = Hello { incarnation: Incarnation(34), ..founder };
        assert_eq!(doorman.judge(&wiped), Err(Refusal::Incarnation));
    }

    /// An unknown node gets no vote and no entry, only an ear: it counts when the log says which one it is.
    #[test]
    fn a_node_that_nobody_knows_is_heard_about_founding_only() {
        let dir = tempfile::tempdir().unwrap();
        let doorman = doorman(&dir);
        let unknown = Hello { from: NodeId(4), incarnation: Incarnation(44), ..hello() };
        for purpose in [Purpose::Replication, Purpose::Control, Purpose::Snapshot, Purpose::Calls] {
            let asks = Hello { purpose, ..unknown.clone() };
            assert_eq!(doorman.judge(&asks), Err(Refusal::Unregistered));
            assert!(doorman.expects(NodeId(4), purpose).is_err());
        }
        assert_eq!(doorman.to_register(NodeId(4)), None);
        let asks = Hello { purpose: Purpose::Founding, ..unknown.clone() };
        assert_eq!(doorman.judge(&asks), Ok(()));
        assert_eq!(doorman.to_register(NodeId(4)), Some(Incarnation(44)));
        assert_eq!(doorman.judge(&unknown), Err(Refusal::Unregistered));
    }

    #[test]
    fn an_answer_of_a_wiped_or_unknown_node_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let doorman = doorman(&dir);
        let judge = |node, incarnation| {
            let welcome =
                HelloReply::Welcome { node: NodeId(node), incarnation: Incarnation(incarnation) };
            doorman.judge_reply(NodeId(2), Purpose::Calls, welcome)
        };
        assert!(judge(2, 22).is_ok());
        assert!(judge(2, 99).is_err());
        assert!(judge(3, 22).is_err());
        let welcome = HelloReply::Welcome { node: NodeId(4), incarnation: Incarnation(44) };
        assert!(doorman.judge_reply(NodeId(4), Purpose::Calls, welcome).is_err());
        let refused = HelloReply::Refused(Refusal::Incarnation);
        let reason = doorman.judge_reply(NodeId(2), Purpose::Founding, refused).unwrap_err();
        assert!(disowned(&reason), "{reason}");
    }
}
