//! Nodes in this process with the ZooKeeper front-end on free ports; mostly one that is a cluster of its own.

use holdfast_lab::zk::{ZkClient, four_letter_word};
use holdfast_lab::{DEADLINE, until};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

use holdfast_raft::{PeerListen, RaftConfig};
use holdfast_service::{Service, ServiceConfig, ServiceMetrics};
use holdfast_tls::TlsAcceptor;
use holdfast_types::{Address, MemberAddresses, NodeId};
use holdfast_zk::{Words, ZkConfig, ZkListener, ZkMetrics, serve};
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A node under test. Dropping it deletes its data.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) service: Service,
    pub(crate) registry: Registry,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
    _data: TempDir,
}

/// The shortest sessions, and every four-letter word allowed.
pub(crate) fn config() -> ZkConfig {
    ZkConfig {
        tick: ZkConfig::TICK_MIN,
        connections_per_address_max: 0,
        words: Words::all(),
        ..ZkConfig::default()
    }
}

/// The listeners of a node before its start.
struct Listeners {
    front_end: TcpListener,
    peers: TcpListener,
}

impl Listeners {
    fn bind() -> Self {
        let front_end = TcpListener::bind("127.0.0.1:0").unwrap();
        front_end.set_nonblocking(true).unwrap();
        Self { front_end, peers: TcpListener::bind("127.0.0.1:0").unwrap() }
    }

    fn addresses(&self) -> MemberAddresses {
        let zookeeper: Address = self.front_end.local_addr().unwrap().into();
        let peer = self.peers.local_addr().unwrap().into();
        MemberAddresses { http: zookeeper.clone(), peer, zookeeper }
    }
}

impl Node {
    /// A node that leads its cluster of one.
    pub(crate) async fn start() -> Self {
        Self::start_with(config()).await
    }

    pub(crate) async fn start_with(config: ZkConfig) -> Self {
        let mut nodes = Self::cluster(1, config).await;
        nodes.remove(0)
    }

    /// A node whose port requires TLS.
    pub(crate) async fn start_with_tls(config: ZkConfig, tls: TlsAcceptor) -> Self {
        Self::start_all(1, config, Some(tls)).await.remove(0)
    }

    /// A cluster of nodes, the leader first.
    pub(crate) async fn cluster(count: u64, config: ZkConfig) -> Vec<Self> {
        Self::start_all(count, config, None).await
    }

    async fn start_all(count: u64, config: ZkConfig, tls: Option<TlsAcceptor>) -> Vec<Self> {
        let listeners: Vec<Listeners> = (0..count).map(|_| Listeners::bind()).collect();
        let ids = || (1..).map(NodeId);
        let members: BTreeMap<NodeId, MemberAddresses> =
            ids().zip(listeners.iter().map(Listeners::addresses)).collect();
        let mut nodes = Vec::new();
        for (id, listeners) in ids().zip(listeners) {
            let (members, config) = (members.clone(), config.clone());
            nodes.push(Self::start_one(id, members, listeners, config, tls.clone()).await);
        }
        for node in &nodes {
            node.until("a leader is known", || node.service.leader().is_some()).await;
        }
        nodes.sort_by_key(|node| node.service.leader() != Some(node.service.node()));
        nodes
    }

    async fn start_one(
        id: NodeId,
        members: BTreeMap<NodeId, MemberAddresses>,
        Listeners { front_end, peers }: Listeners,
        config: ZkConfig,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let data = tempfile::tempdir().unwrap();
        let address = front_end.local_addr().unwrap();
        let listen = PeerListen::Bound(peers);
        let raft = RaftConfig::new("test", id, members, data.path(), listen);
        let mut registry = Registry::with_prefix("holdfast");
        let metrics = ZkMetrics::register(&mut registry);
        let counted = ServiceMetrics::register(&mut registry);
        let service = Service::start(ServiceConfig::default(), raft, counted).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = tokio::net::TcpListener::from_std(front_end).unwrap();
        let shutdown = async move { drop(stopped.await) };
        let config = ZkConfig { data_dir: data.path().to_owned(), ..config };
        let served = tokio::spawn(serve(
            ZkListener { listener, tls },
            config,
            service.clone(),
            metrics,
            shutdown,
        ));
        let stop = Some(stop);
        Self { address, service, registry, stop, served, _data: data }
    }

    /// A node, and a client with a session.
    pub(crate) async fn with_client() -> (Self, ZkClient) {
        let node = Self::start().await;
        let client = node.client().await;
        (node, client)
    }

    pub(crate) async fn client(&self) -> ZkClient {
        ZkClient::open(self.address, 10_000).await
    }

    /// The answer to a four-letter word, or to anything else that opens no session.
    pub(crate) async fn word(&self, word: &str) -> String {
        four_letter_word(self.address, word).await
    }

    /// Waits for a condition.
    pub(crate) async fn until(&self, what: &str, is: impl Fn() -> bool) {
        until(what, DEADLINE, async || is()).await;
    }

    /// The value of a metric as text.
    pub(crate) fn metric(&self, name: &str) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    }

    /// Shuts the front-end down.
    pub(crate) async fn stop(mut self) {
        let _told = self.stop.take().map(|stop| stop.send(()));
        tokio::time::timeout(DEADLINE, self.served).await.unwrap().unwrap();
    }
}
