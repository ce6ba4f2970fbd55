//! One real node, a cluster of its own, with its front-end on a free port.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_http::{HttpConfig, HttpListener, HttpMetrics, LogFilter, serve};
use holdfast_raft::{PeerListen, RaftConfig};
use holdfast_service::{Service, ServiceConfig, ServiceMetrics};
use holdfast_types::{MemberAddresses, NodeId};
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{Reply, TIMEOUT, call, call_with};

/// The text of the proof that the owner of the data directory calls.
const PROOF: &str = "0123456789abcdef0123456789abcdef";

/// A node under test. Dropping it deletes its data.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) service: Service,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
    data: TempDir,
}

/// The listeners of a node, bound before their addresses are published.
struct Sockets {
    front_end: TcpListener,
    peers: TcpListener,
}

impl Sockets {
    fn bind() -> Self {
        let front_end = TcpListener::bind("127.0.0.1:0").unwrap();
        front_end.set_nonblocking(true).unwrap();
        Self { front_end, peers: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    fn member(&self) -> MemberAddresses {
        MemberAddresses {
            http: self.front_end.local_addr().unwrap().into(),
            peer: self.peers.local_addr().unwrap().into(),
            zookeeper: self.peers.local_addr().unwrap().into(),
        }
    }
}

/// The defaults of a program whose log can change.
fn default_http() -> HttpConfig {
    HttpConfig { log_filter: LogFilter::new("info", |_| Ok(())), ..HttpConfig::default() }
}

impl Node {
    pub(crate) fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// Adds the first administrator, as the owner of the data directory.
    pub(crate) async fn bootstrap(&self, more: &str) -> Reply {
        let proof = self.prove_ownership();
        self.call("POST", &format!("/v1/auth/bootstrap?proof={proof}{more}")).await
    }

    /// Writes a proof that the caller owns the data directory, and returns its text.
    pub(crate) fn prove_ownership(&self) -> &'static str {
        std::fs::write(self.data_dir().join("owner-proof"), PROOF).unwrap();
        PROOF
    }

    /// A node that leads its cluster of one.
    pub(crate) async fn start() -> Self {
        Self::start_with(default_http(), ServiceConfig::default()).await
    }

    /// A node of which one call has acquired a lock.
    pub(crate) async fn holding(target: &str) -> Self {
        let node = Self::start().await;
        node.take(target).await;
        node
    }

    /// Starts a node that leads its cluster of one, with another configuration.
    pub(crate) async fn start_with(http: HttpConfig, service: ServiceConfig) -> Self {
        let sockets = Sockets::bind();
        let members = BTreeMap::from([(NodeId(1), sockets.member())]);
        let node = Self::start_as(NodeId(1), members, sockets, http, service).await;
        node.until("the node leads", "/readyz?leader", |reply| reply.status == 200).await;
        node
    }

    /// Starts three nodes and waits for a leader, which comes first.
    pub(crate) async fn cluster() -> Vec<Self> {
        Self::cluster_with(&ServiceConfig::default()).await
    }

    /// Starts three nodes with another configuration.
    pub(crate) async fn cluster_with(service: &ServiceConfig) -> Vec<Self> {
        let sockets: Vec<Sockets> = (0..3).map(|_| Sockets::bind()).collect();
        let ids = (1..).map(NodeId);
        let members: BTreeMap<_, _> = ids.zip(sockets.iter().map(Sockets::member)).collect();
        let mut nodes = Vec::new();
        for (id, sockets) in (1..).map(NodeId).zip(sockets) {
            let (http, service) = (default_http(), service.clone());
            nodes.push(Self::start_as(id, members.clone(), sockets, http, service).await);
        }
        for node in &nodes {
            node.until("a leader", "/readyz", |reply| reply.status == 200).await;
        }
        nodes.sort_by_key(|node| node.service.leader() != Some(node.service.node()));
        nodes
    }

    async fn start_as(
        id: NodeId,
        members: BTreeMap<NodeId, MemberAddresses>,
        sockets: Sockets,
        http: HttpConfig,
        service: ServiceConfig,
    ) -> Self {
        let data = tempfile::tempdir().unwrap();
        let address = sockets.front_end.local_addr().unwrap();
        let listen = PeerListen::Bound(sockets.peers);
        let raft = RaftConfig::new("test", id, members, data.path(), listen);
        let mut registry = Registry::with_prefix("holdfast");
        let metrics = HttpMetrics::register(&mut registry);
        let counted = ServiceMetrics::register(&mut registry);
        let service = Service::start(service, raft, counted).await.unwrap();
        service.register_raft_metrics(&mut registry);
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = tokio::net::TcpListener::from_std(sockets.front_end).unwrap();
        let listener = HttpListener { listener, tls: None };
        let shutdown = async move { drop(stopped.await) };
        let registry = Arc::new(registry);
        let served = serve(listener, http, service.clone(), metrics, registry, |api| api, shutdown);
        let served = tokio::spawn(served);
        Self { address, service, stop: Some(stop), served, data }
    }

    /// One call.
    pub(crate) async fn call(&self, method: &str, target: &str) -> Reply {
        call(self.address, method, target).await
    }

    /// One call with a JSON body.
    pub(crate) async fn call_json(&self, method: &str, target: &str, body: &str) -> Reply {
        call_with(self.address, method, target, &[("Content-Type", "application/json")], body).await
    }

    /// One call in the background.
    pub(crate) fn begin(&self, method: &'static str, target: &'static str) -> JoinHandle<Reply> {
        let address = self.address;
        tokio::spawn(async move { call(address, method, target).await })
    }

    /// Acquires a lock and returns its token.
    pub(crate) async fn take(&self, target: &str) -> u64 {
        let reply = self.call("PUT", target).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["token"].as_u64().unwrap()
    }

    /// Repeats a call until the response satisfies the condition.
    pub(crate) async fn until(
        &self,
        what: &str,
        target: &str,
        fits: impl Fn(&Reply) -> bool,
    ) -> Reply {
        self.until_with(what, target, &[], fits).await
    }

    /// As [`Node::until`], with an access token.
    pub(crate) async fn until_as(
        &self,
        what: &str,
        target: &str,
        token: &str,
        fits: impl Fn(&Reply) -> bool,
    ) -> Reply {
        let header = format!("Bearer {token}");
        self.until_with(what, target, &[("Authorization", &header)], fits).await
    }

    async fn until_with(
        &self,
        what: &str,
        target: &str,
        headers: &[(&str, &str)],
        fits: impl Fn(&Reply) -> bool,
    ) -> Reply {
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        let polled = async {
            loop {
                ticks.tick().await;
                let reply = call_with(self.address, "GET", target, headers, "").await;
                if fits(&reply) {
                    return reply;
                }
            }
        };
        let found = tokio::time::timeout(TIMEOUT, polled).await;
        found.unwrap_or_else(|_| panic!("not true within the time limit: {what}"))
    }

    /// Waits until a lock has this many waiters.
    pub(crate) async fn until_waiters(&self, lock: &str, waiters: u64) {
        let target = format!("/v1/locks/{lock}");
        self.until("the waiters", &target, |reply| reply.json()["waiters"] == waiters).await;
    }

    /// Waits until this many calls are waiting.
    pub(crate) async fn until_parked(&self, calls: u64) {
        let line = format!("parked_calls {calls}\n");
        self.until("the parked calls", "/metrics", |reply| reply.body.contains(&line)).await;
    }

    /// Waits until this many members have arrived at a barrier.
    pub(crate) async fn until_arrived(&self, barrier: &str, members: usize) {
        let arrived = |reply: &Reply| reply.json()["arrived"].as_array().map(Vec::len);
        self.until("the arrivals", barrier, |reply| arrived(reply) == Some(members)).await;
    }

    /// Shuts the front-end down.
    pub(crate) async fn stop(mut self) {
        let _sent = self.stop.take().map(|stop| stop.send(()));
        tokio::time::timeout(TIMEOUT, self.served).await.unwrap().unwrap();
    }
}
