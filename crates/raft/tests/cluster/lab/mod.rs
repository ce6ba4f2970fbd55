//! A cluster in one process, over real TCP, with links that a test can cut.
//!
//! Every direction of every pair of nodes has a proxy. A node gets a new port at each start; the ports of the proxies
//! stay. Tests wait for conditions, with a time limit far above the expected time.

#![expect(clippy::unwrap_used, reason = "a laboratory that cannot be set up is a failed test")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use holdfast_lab::{Flow, Links, until_some};
use holdfast_machine::Machine;
use holdfast_raft::{
    Committed, JoinRequest, LeaderEpoch, Observer, PeerListen, ProposeError, RaftConfig, RaftNode,
    StartError, Timing, Urgency, readmitted_as, write_join_request,
};
use holdfast_storage::{FaultyDisk, Log};
use holdfast_types::{
    Actor, Applied, Command, Invitation, MemberAddresses, MembershipChange, NodeId, OpenSession,
    Outcome, Revision, SecretHash, SessionName, SessionStatus, Stamp, Ttl, VotingRole,
};
use parking_lot::Mutex;
use tempfile::TempDir;

/// The time limit for a condition, sufficient on a busy machine.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// Records its notifications.
#[derive(Default)]
pub(crate) struct Recorder {
    /// The revisions of the applied entries.
    pub(crate) applied: Mutex<Vec<Revision>>,
    /// The revision of the machine at each restore.
    pub(crate) restored: Mutex<Vec<Revision>>,
}

impl Observer for Recorder {
    fn applied(&self, machine: &Machine, applied: &Applied) {
        assert_eq!(machine.revision(), applied.revision, "the machine is that after the entry");
        self.applied.lock().push(applied.revision);
    }

    fn restored(&self, machine: &Machine) {
        self.restored.lock().push(machine.revision());
    }

    fn called(&self, from: NodeId, request: Bytes, _: Instant) -> BoxFuture<'static, Bytes> {
        let answer = format!("{from} sent {}", String::from_utf8_lossy(&request));
        Box::pin(async move { Bytes::from(answer) })
    }
}

/// Nodes that a test can add to the first ones.
const ADDED_MAX: u64 = 3;
const SECRET: [u8; 32] = [9; 32];

pub(crate) struct Lab {
    pub(crate) cluster: String,
    /// The members of the new cluster.
    first: u64,
    pub(crate) dirs: BTreeMap<u64, TempDir>,
    pub(crate) nodes: BTreeMap<u64, RaftNode>,
    pub(crate) notes: BTreeMap<u64, Arc<Recorder>>,
    pub(crate) links: Links,
    pub(crate) free_bytes: BTreeMap<u64, Arc<AtomicU64>>,
    pub(crate) tune: fn(&mut RaftConfig),
    /// The nodes whose log is on a disk in memory instead of their directory.
    pub(crate) disks: BTreeMap<u64, FaultyDisk>,
}

impl Lab {
    /// Starts a cluster of `count` nodes.
    pub(crate) async fn start(count: u64) -> Self {
        Self::start_with(count, |_| {}).await
    }

    pub(crate) async fn start_with(count: u64, tune: fn(&mut RaftConfig)) -> Self {
        let mut lab = Self::prepare(count, tune).await;
        for id in 1..=count {
            lab.boot(id).await.unwrap();
        }
        lab
    }

    pub(crate) async fn prepare(count: u64, tune: fn(&mut RaftConfig)) -> Self {
        let ids = 1..=count;
        let free = |id| (id, Arc::new(AtomicU64::new(1 << 40)));
        Self {
            cluster: "lab".into(),
            first: count,
            dirs: ids.clone().map(|id| (id, tempfile::tempdir().unwrap())).collect(),
            nodes: BTreeMap::new(),
            notes: BTreeMap::new(),
            links: Links::between(count + ADDED_MAX).await,
            free_bytes: (1..=count + ADDED_MAX).map(free).collect(),
            tune,
            disks: BTreeMap::new(),
        }
    }

    pub(crate) fn config(&self, id: u64) -> RaftConfig {
        // A node that joins later knows itself in addition.
        let known = (1..=self.first).chain((id > self.first).then_some(id));
        let members = known.map(|other| (NodeId(other), self.addresses(id, other)));
        let listener = PeerListen::Bound(TcpListener::bind("127.0.0.1:0").unwrap());
        let dir = self.dirs[&id].path();
        let mut config =
            RaftConfig::new(&self.cluster, NodeId(id), members.collect(), dir, listener);
        config.timing = Timing {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(800),
            election_max: Duration::from_millis(1200),
        };
        config.disk_check = Duration::from_millis(20);
        let free = self.free_bytes[&id].clone();
        config.free_bytes = Arc::new(move |_| Ok(free.load(Ordering::Relaxed)));
        (self.tune)(&mut config);
        config
    }

    /// The addresses of a node for another one; only that for peers is in use.
    fn addresses(&self, from: u64, to: u64) -> MemberAddresses {
        let port =
            |port: u64| format!("10.0.0.{to}:{port}").parse::<std::net::SocketAddr>().unwrap();
        MemberAddresses {
            peer: self.links.address(from, to).into(),
            http: port(1).into(),
            zookeeper: port(2).into(),
        }
    }

    pub(crate) async fn change(&self, through: u64, change: MembershipChange) -> Outcome {
        let command = Command::Membership(change).by(Actor::Node);
        let done = self.node(through).propose(command, Urgency::Immediate, soon()).await;
        done.unwrap().outcome
    }

    /// The address of a node that joins later; only its own failures reach it.
    pub(crate) fn addresses_of_new(&self, id: u64) -> MemberAddresses {
        self.addresses(id, id)
    }

    /// Invites a voter, and prepares its directory. Returns its id.
    pub(crate) async fn invite(&mut self, through: u64, replaces: Option<u64>) -> u64 {
        let id = self.node(through).read(Machine::highest_member).0 + 1;
        self.invite_at(through, replaces, self.addresses_of_new(id)).await
    }

    pub(crate) async fn invite_at(
        &mut self,
        through: u64,
        replaces: Option<u64>,
        addresses: MemberAddresses,
    ) -> u64 {
        self.invite_as(VotingRole::Voter, through, replaces, addresses).await
    }

    pub(crate) async fn invite_standby(&mut self, through: u64) -> u64 {
        let id = self.node(through).read(Machine::highest_member).0 + 1;
        self.invite_as(VotingRole::Standby, through, None, self.addresses_of_new(id)).await
    }

    async fn invite_as(
        &mut self,
        role: VotingRole,
        through: u64,
        replaces: Option<u64>,
        addresses: MemberAddresses,
    ) -> u64 {
        let id = self.node(through).read(Machine::highest_member).0 + 1;
        let invitation =
            Invitation { secret: SecretHash::of(&SECRET), expires_at: Stamp(u64::MAX) };
        let change = MembershipChange::Invite {
            addresses,
            zone: None,
            role,
            invitation,
            replaces: replaces.map(NodeId),
        };
        let invited = self.change(through, change).await.unwrap();
        assert_eq!(invited.into_member_invited(), Some(NodeId(id)));
        let cluster_id = self.node(through).read(Machine::cluster_id).unwrap();
        let (cluster, node) = (self.cluster.clone(), NodeId(id));
        let dir = tempfile::tempdir().unwrap();
        let request = JoinRequest { cluster, cluster_id, node, secret: SECRET };
        write_join_request(dir.path(), &request).unwrap();
        self.dirs.insert(id, dir);
        id
    }

    /// Waits until all running nodes have the voters, and no change is unfinished.
    pub(crate) async fn voters(&self, voters: &[u64]) {
        let settled = |node: &RaftNode| {
            let pending =
                node.read(|machine| machine.members().any(|(_, it)| it.pending.is_some()));
            !pending && node.status().voters.iter().map(|id| id.0).eq(voters.iter().copied())
        };
        eventually(&format!("the voters {voters:?}"), || {
            self.nodes.values().all(settled).then_some(())
        })
        .await;
    }

    /// Starts a node as the one that its data directory belongs to, as `serve` does. Its configuration names it `id`, and the
    /// address at which `leader` knows it. Returns its id.
    pub(crate) async fn boot_as_of_directory(&mut self, id: u64, leader: u64) -> u64 {
        let of_directory = readmitted_as(self.dirs[&id].path(), NodeId(id)).unwrap();
        let now = of_directory.map_or(id, |node| node.0);
        if now != id {
            let dir = self.dirs.remove(&id).unwrap();
            self.dirs.insert(now, dir);
        }
        let notes = Arc::new(Recorder::default());
        let observer = notes.clone();
        let mut config = self.config(now);
        // The configuration names the address of the first id.
        let own = self.addresses(leader, id);
        config.members.remove(&NodeId(id));
        config.members.insert(NodeId(now), own);
        let node = RaftNode::start(config, |_| observer).await.unwrap();
        self.links.point(id, Some(node.peer_address()));
        self.nodes.insert(now, node);
        self.notes.insert(now, notes);
        now
    }

    /// Cuts all links between these nodes and the others. Not for nodes that join later: all others reach those through one link.
    pub(crate) fn cut_off(&self, part: &[u64]) {
        for from in part {
            for to in self.nodes.keys().filter(|id| !part.contains(id)) {
                self.links.set(*from, *to, Flow::Cut);
                self.links.set(*to, *from, Flow::Cut);
            }
        }
    }

    /// Starts one node.
    pub(crate) async fn boot(&mut self, id: u64) -> Result<RaftNode, StartError> {
        let notes = Arc::new(Recorder::default());
        let observer = notes.clone();
        let mut config = self.config(id);
        if let Some(disk) = self.disks.get(&id) {
            let log = Log::with_disk(disk.open());
            config.log = Some(log.map_err(|error| StartError::Store(error.to_string()))?);
        }
        let started = RaftNode::start(config, |_| observer).await;
        let dir = self.dirs[&id].path();
        if self.disks.contains_key(&id) && dir.join("identity").exists() {
            // A data directory with an identity has a log with files.
            let log = dir.join("log");
            std::fs::create_dir_all(&log).unwrap();
            std::fs::write(log.join("synced"), "").unwrap();
        }
        let node = started?;
        self.links.point(id, Some(node.peer_address()));
        self.nodes.insert(id, node.clone());
        self.notes.insert(id, notes);
        Ok(node)
    }

    /// Stops one node like a kill.
    pub(crate) async fn kill(&mut self, id: u64) {
        let node = self.nodes.remove(&id).unwrap();
        self.links.point(id, None);
        node.halt().await;
    }

    /// Stops every node like a kill.
    pub(crate) async fn kill_all(&mut self) {
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.kill(id).await;
        }
    }

    pub(crate) fn node(&self, id: u64) -> &RaftNode {
        &self.nodes[&id]
    }

    /// Waits for a ready leader on which the running nodes agree. Returns its id.
    pub(crate) async fn leader(&self) -> u64 {
        let agreed = eventually("a leader that all agree on", || {
            let views: Vec<_> =
                self.nodes.values().map(|node| *node.leadership().borrow()).collect();
            let first = views.first()?;
            let same = views.iter().all(|v| v.leader == first.leader && v.term == first.term);
            let ready = views.iter().any(|view| view.epoch.is_some());
            (same && ready).then_some(first.leader?)
        });
        agreed.await.0
    }

    /// The leader that a running node knows; 0 without one.
    pub(crate) fn leader_now(&self) -> u64 {
        let leaders = self.nodes.values().map(|node| node.leadership().borrow().leader);
        leaders.flatten().next().unwrap_or_default().0
    }

    pub(crate) async fn epoch(&self) -> LeaderEpoch {
        let leader = self.leader().await;
        eventually("an epoch", || self.node(leader).leadership().borrow().epoch).await
    }

    pub(crate) fn follower_of(&self, leader: u64) -> u64 {
        *self.nodes.keys().find(|id| **id != leader).unwrap()
    }

    /// Opens a session through a node.
    pub(crate) async fn open(&self, id: u64, name: &str) -> Result<Committed, ProposeError> {
        self.node(id).propose(open_session(name), Urgency::Immediate, soon()).await
    }

    /// Waits until all running nodes have applied the same revision.
    pub(crate) async fn settle(&self) {
        eventually("all nodes at the same revision", || {
            let mut revisions =
                self.nodes.values().map(|node| node.read(Machine::revision).0).collect::<Vec<_>>();
            revisions.dedup();
            (revisions.len() == 1).then_some(())
        })
        .await;
    }

    /// Waits until every running node has applied the registration of every member. After that, a healthy cluster
    /// proposes no commands by itself.
    pub(crate) async fn registered(&self) {
        let known = |node: &RaftNode, id| node.read(|machine| machine.incarnation(NodeId(id)));
        eventually("all members registered on all nodes", || {
            let all = |node: &RaftNode| self.dirs.keys().all(|id| known(node, *id).is_some());
            self.nodes.values().all(all).then_some(())
        })
        .await;
    }

    /// Waits until all running nodes have applied the same revision, and compares the digests of their machines.
    pub(crate) async fn agree(&self) {
        self.settle().await;
        let digests: Vec<_> = self
            .nodes
            .values()
            .map(|node| node.read(|machine| (machine.digest(), machine.state_digest())))
            .collect();
        assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
    }
}

pub(crate) fn session_name(name: &str) -> SessionName {
    SessionName::new(name).unwrap()
}

pub(crate) fn open_session(name: &str) -> Command {
    Command::OpenSession {
        open: OpenSession { ttl: Some(Ttl::DEFAULT), ..OpenSession::of(session_name(name)) },
        attempt: None,
    }
}

pub(crate) fn has_session(node: &RaftNode, name: &str) -> bool {
    let name = session_name(name);
    node.read(|machine| matches!(machine.session(&name), SessionStatus::Open(_)))
}

pub(crate) fn soon() -> Instant {
    Instant::now() + LONG
}

/// Waits until `check` returns a value.
pub(crate) async fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    until_some(what, LONG, async || check()).await
}
