//! A cluster of real processes with its own directory and its own loopback ports.
//!
//! A [`Cluster`] has the configuration files, the processes and the network between them. When the test panics, the
//! tail of every node's log is printed before the processes are killed.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use holdfast_client::http::Method;
use nix::sys::signal::Signal;
use serde::Deserialize;
use tempfile::TempDir;

use crate::binary::binary;
use crate::clock::WallClock;
use crate::config::{NodeAddresses, NodeConfig, Timing};
use crate::http::{Http, Request};
use crate::links::{Delays, Links};
use crate::ports::Ports;
use crate::process::{Process, pause, tail};
use crate::until::{DEADLINE, report, until, until_some};

const LOG_TAIL_LINES: usize = 60;

/// `GET /v1/cluster`.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterView {
    /// The cluster's name.
    pub cluster: String,
    /// The node's current Raft term.
    pub term: u64,
    /// The node's current leader, if any.
    pub leader: Option<u64>,
    /// The members in the node's view.
    pub nodes: Vec<NodeView>,
}

/// One member in `GET /v1/cluster`.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeView {
    /// Node id.
    pub id: u64,
    /// Raft role, e.g. `leader` or `follower`.
    pub role: String,
    /// Last applied revision.
    pub applied_revision: Option<u64>,
    /// True if the member is reachable.
    pub healthy: bool,
}

/// Settings of a cluster.
pub struct ClusterBuilder {
    size: u64,
    name: String,
    timing: Timing,
    extra: String,
    delays: Option<Delays>,
    data: Option<PathBuf>,
    own_clocks: bool,
}

impl ClusterBuilder {
    /// Puts proxies between the nodes, without delays.
    #[must_use]
    pub fn with_links(self) -> Self {
        Self { delays: Some(Delays::NONE), ..self }
    }

    /// Puts proxies between the nodes that delay every chunk by up to `max`, drawn from `seed`.
    #[must_use]
    pub fn with_delays(self, seed: u64, max: Duration) -> Self {
        Self { delays: Some(Delays::new(seed, max)), ..self }
    }

    /// Sets heartbeat interval and election timeouts.
    #[must_use]
    pub fn timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// Names the cluster.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Appends TOML to every node's configuration.
    #[must_use]
    pub fn extra(self, toml: &str) -> Self {
        Self { extra: toml.to_owned(), ..self }
    }

    /// Keeps the data directories under `root` (`root/node1` and so on) instead of the cluster's own directory.
    #[must_use]
    pub fn data_under(self, root: &Path) -> Self {
        Self { data: Some(root.to_owned()), ..self }
    }

    /// Gives every node a separate wall clock ([`Node::clock`]).
    #[must_use]
    pub fn with_own_clocks(self) -> Self {
        Self { own_clocks: true, ..self }
    }

    /// Writes the configuration files; starts no process.
    pub async fn prepare(self) -> Cluster {
        let dir = tempfile::Builder::new().prefix("holdfast-cluster-").tempdir();
        let dir = dir.expect("a temporary directory");
        let mut ports = Ports::default();
        let members: Vec<NodeAddresses> = (1..=self.size)
            .map(|id| NodeAddresses {
                id,
                http: ports.reserve(),
                peer: ports.reserve(),
                zookeeper: ports.reserve(),
            })
            .collect();
        let links = match self.delays {
            Some(delays) => {
                let links = Links::delayed_between(self.size, delays).await;
                for member in &members {
                    links.point(member.id, Some(member.peer));
                }
                Some(links)
            }
            None => None,
        };
        let data_root = self.data.clone().unwrap_or_else(|| dir.path().to_owned());
        let node = |id| Node::prepare(&self, dir.path(), &data_root, &members, links.as_ref(), id);
        let nodes = (1..=self.size).map(node).collect();
        Cluster { nodes, links, _ports: ports, dir }
    }

    /// Starts every node and waits until all agree on a leader and are ready.
    pub async fn start(self) -> Cluster {
        let cluster = self.prepare().await;
        cluster.start_all();
        cluster.wait_ready().await;
        cluster
    }
}

/// One node: files, front-end addresses, and the process while it runs.
pub struct Node {
    /// From 1.
    pub id: u64,
    /// Data directory.
    pub data_dir: PathBuf,
    /// HTTP API.
    pub http: Http,
    /// Address of the ZooKeeper front-end.
    pub zookeeper: std::net::SocketAddr,
    config: PathBuf,
    log: PathBuf,
    clock: Option<WallClock>,
    program: Mutex<&'static Path>,
    process: Mutex<Option<Process>>,
}

impl Node {
    /// Writes a proof that the caller owns the data directory, and returns its text.
    pub fn prove_ownership(&self) -> &'static str {
        const PROOF: &str = "0123456789abcdef0123456789abcdef";
        std::fs::write(self.data_dir.join("owner-proof"), PROOF).expect("a file in the data");
        PROOF
    }

    fn prepare(
        builder: &ClusterBuilder,
        dir: &Path,
        data_root: &Path,
        members: &[NodeAddresses],
        links: Option<&Links>,
        id: u64,
    ) -> Self {
        let data_dir = data_root.join(format!("node{id}"));
        let seen_by_this_node = members.iter().cloned().map(|mut member| {
            if let (Some(links), true) = (links, member.id != id) {
                member.peer = links.address(id, member.id);
            }
            member
        });
        let file = NodeConfig {
            cluster: builder.name.clone(),
            node: id,
            data_dir: data_dir.clone(),
            members: seen_by_this_node.collect(),
            timing: builder.timing,
            extra: builder.extra.clone(),
        };
        let config = dir.join(format!("node{id}.toml"));
        std::fs::write(&config, file.to_toml()).expect("a configuration file");
        let own = members.iter().find(|member| member.id == id).expect("every node is a member");
        let log = dir.join(format!("node{id}.log"));
        Self {
            id,
            data_dir,
            http: Http::new(own.http),
            zookeeper: own.zookeeper,
            config,
            log,
            clock: builder.own_clocks.then(|| WallClock::make(dir, id)),
            program: Mutex::new(binary()),
            process: Mutex::new(None),
        }
    }

    /// Sets the program of later starts.
    pub fn install(&self, program: &'static Path) {
        *self.program.lock().expect("the program") = program;
    }

    /// Starts the process; it must not be running.
    pub fn start(&self) {
        self.start_with(&[]);
    }

    /// Starts the process with additional flags of `holdfast serve`.
    pub fn start_with(&self, flags: &[&str]) {
        let program = *self.program.lock().expect("the program");
        let started =
            Process::serve(program, (&self.config, flags), &self.log, self.clock.as_ref());
        let before = self.process.lock().expect("the process slot").replace(started);
        assert!(before.is_none(), "node {} was running", self.id);
    }

    /// Sends SIGKILL; has no effect if the process is not running.
    pub fn kill(&self) {
        drop(self.take());
    }

    /// Sends SIGTERM; the process must exit with status 0 within [`DEADLINE`].
    pub async fn stop(&self) {
        let mut process = self.take().expect("a running node");
        let status = process.terminate(DEADLINE).await;
        assert!(status.success(), "node {} ended with {status} on SIGTERM", self.id);
    }

    /// Sends SIGSTOP, and returns when every thread is stopped.
    pub async fn pause(&self) {
        let pid = self.pid();
        pause(pid).await;
    }

    /// Sends SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Sends any signal to the running process.
    pub fn signal(&self, signal: Signal) {
        self.process
            .lock()
            .expect("the process slot")
            .as_ref()
            .expect("a running node")
            .signal(signal);
    }

    /// The process id of the running process.
    pub fn pid(&self) -> u32 {
        self.process.lock().expect("the process slot").as_ref().expect("a running node").pid()
    }

    /// Waits until the process exits on its own, and returns its exit code.
    pub async fn exit_code(&self) -> Option<i32> {
        let mut process = self.take().expect("a running node");
        process.exit(DEADLINE).await.code()
    }

    /// Returns the exit status if the process exited on its own.
    pub fn ended(&self) -> Option<std::process::ExitStatus> {
        self.process.lock().expect("the process slot").as_mut().and_then(Process::ended)
    }

    /// True if the test started the process and has not stopped it.
    pub fn is_started(&self) -> bool {
        self.process.lock().expect("the process slot").is_some()
    }

    /// Resident memory, KiB.
    pub fn resident_kib(&self) -> u64 {
        let process = self.process.lock().expect("the process slot");
        process.as_ref().map_or(0, Process::resident_kib)
    }

    /// The last lines of the log, across restarts.
    pub fn log_tail(&self) -> String {
        tail(&self.log, LOG_TAIL_LINES)
    }

    /// The number of log lines that contain `words`, across restarts.
    pub fn log_lines_with(&self, words: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(words)).count()
    }

    /// The node's wall clock; panics unless the cluster was built with clocks.
    pub fn clock(&self) -> &WallClock {
        self.clock.as_ref().expect("a cluster built with clocks")
    }

    /// The configuration file.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// The node's view of the cluster; `None` if the node does not reply.
    pub async fn view(&self) -> Option<ClusterView> {
        let request = Request::new(Method::GET, "/v1/cluster");
        let reply = self.http.send(request.within(Duration::from_secs(3))).await.ok()?;
        serde_json::from_str(&reply.body).ok()
    }

    /// True if the node replies over HTTP.
    pub async fn answers(&self) -> bool {
        let request = Request::new(Method::GET, "/livez");
        self.http.send(request.within(Duration::from_secs(3))).await.is_ok()
    }

    /// True if `/readyz` returns 200.
    pub async fn is_ready(&self) -> bool {
        let request = Request::new(Method::GET, "/readyz");
        let reply = self.http.send(request.within(Duration::from_secs(3))).await;
        reply.is_ok_and(|reply| reply.status == 200)
    }

    /// Waits until `/readyz` returns 200.
    pub async fn wait_ready(&self) {
        let what = format!("node {} to be ready", self.id);
        until(&what, DEADLINE, || self.is_ready()).await;
    }

    fn take(&self) -> Option<Process> {
        self.process.lock().expect("the process slot").take()
    }
}

/// A cluster of nodes 1 to n.
pub struct Cluster {
    nodes: Vec<Node>,
    links: Option<Links>,
    _ports: Ports,
    dir: TempDir,
}

impl Cluster {
    /// Returns a builder for a cluster of `size` nodes.
    pub fn of(size: u64) -> ClusterBuilder {
        ClusterBuilder {
            size,
            name: "laboratory".into(),
            timing: Timing::default(),
            extra: String::new(),
            delays: None,
            data: None,
            own_clocks: false,
        }
    }

    /// Starts three nodes with default settings.
    pub async fn three() -> Self {
        Self::of(3).start().await
    }

    /// All nodes, in order of their ids.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node with this id.
    pub fn node(&self, id: u64) -> &Node {
        self.nodes.iter().find(|node| node.id == id).expect("a member")
    }

    /// The nodes other than this one.
    pub fn others(&self, id: u64) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.id != id)
    }

    /// The network proxies; panics unless the cluster was built with links.
    pub fn links(&self) -> &Links {
        self.links.as_ref().expect("a cluster built with links")
    }

    /// The HTTP APIs of all nodes.
    pub fn endpoints(&self) -> Vec<Http> {
        self.nodes.iter().map(|node| node.http.clone()).collect()
    }

    /// A directory for the test's files, removed with the cluster.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts every node.
    pub fn start_all(&self) {
        self.nodes.iter().for_each(Node::start);
    }

    /// Sends SIGKILL to every node in immediate succession.
    pub fn kill_all(&self) {
        let running = self.nodes.iter().filter(|node| node.is_started());
        running.for_each(|node| node.signal(Signal::SIGKILL));
        self.nodes.iter().for_each(Node::kill);
    }

    /// Waits until all started nodes agree on a leader and are ready; returns the leader.
    pub async fn wait_ready(&self) -> u64 {
        let started: Vec<&Node> = self.nodes.iter().filter(|node| node.is_started()).collect();
        let leader = wait_agreement(&started).await;
        for node in started {
            node.wait_ready().await;
        }
        leader
    }

    /// Waits until the nodes in `among` agree on one of them as leader.
    pub async fn wait_leader_among(&self, among: &[u64]) -> u64 {
        let among: Vec<&Node> = among.iter().map(|id| self.node(*id)).collect();
        wait_agreement(&among).await
    }

    /// The term and leader in the view of node `id`.
    pub async fn term_at(&self, id: u64) -> (u64, Option<u64>) {
        let what = format!("an answer of node {id}");
        let view = until_some(&what, DEADLINE, async || self.node(id).view().await).await;
        (view.term, view.leader)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for node in &self.nodes {
                report(&format!("--- node {} ---\n{}", node.id, node.log_tail()));
            }
        }
    }
}

async fn wait_agreement(nodes: &[&Node]) -> u64 {
    let ids: Vec<u64> = nodes.iter().map(|node| node.id).collect();
    let what = format!("nodes {ids:?} to agree on one of them as leader");
    until_some(&what, DEADLINE, async || {
        for node in nodes {
            let ended = node.ended();
            assert!(ended.is_none(), "node {} ended by itself: {ended:?}", node.id);
        }
        let views = futures_util::future::join_all(nodes.iter().map(|node| node.view())).await;
        let views: Option<Vec<ClusterView>> = views.into_iter().collect();
        let views = views?;
        let (term, leader) = (views[0].term, views[0].leader?);
        let agreed = views.iter().all(|view| view.term == term && view.leader == Some(leader));
        (agreed && ids.contains(&leader)).then_some(leader)
    })
    .await
}
