//! A cluster of services in one process, and short forms of their calls.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast_raft::{PeerListen, RaftConfig};
use holdfast_service::{
    Failure, ReadMode, Response, Service, ServiceConfig, ServiceMetrics, SessionLease,
    generate_session_name,
};
use holdfast_types::{
    Acquire, Address, Grant, LockName, LockView, MemberAddresses, NodeId, OpenSession, Owner,
    Rejection, Release, ReleaseTarget, Released, SessionName, Ttl,
};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// A timeout that only a failing test reaches.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
pub(crate) const NO_WAIT: Duration = Duration::ZERO;
pub(crate) const LONG: Duration = Duration::from_mins(1);

pub(crate) struct Nodes {
    pub(crate) services: Vec<Service>,
    /// The free bytes of each node's disk, as reported to the node.
    pub(crate) free: Vec<Arc<AtomicU64>>,
    /// The data directories, removed with the nodes.
    dirs: Vec<TempDir>,
}

impl Nodes {
    pub(crate) async fn start(count: usize) -> Self {
        Self::start_with(count, ServiceConfig::default()).await
    }

    pub(crate) async fn start_with(count: usize, config: ServiceConfig) -> Self {
        let listeners: Vec<TcpListener> =
            (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let member = |listener: &TcpListener| {
            let peer: Address = listener.local_addr().unwrap().into();
            MemberAddresses { http: peer.clone(), zookeeper: peer.clone(), peer }
        };
        let members: BTreeMap<NodeId, MemberAddresses> =
            (1..).map(NodeId).zip(listeners.iter().map(member)).collect();
        let mut nodes = Self { services: Vec::new(), free: Vec::new(), dirs: Vec::new() };
        for (id, listener) in (1..).map(NodeId).zip(listeners) {
            let dir = tempfile::tempdir().unwrap();
            let listen = PeerListen::Bound(listener);
            let mut raft = RaftConfig::new("test", id, members.clone(), dir.path(), listen);
            let free = Arc::new(AtomicU64::new(1 << 40));
            nodes.free.push(free.clone());
            raft.free_bytes = Arc::new(move |_: &Path| Ok(free.load(Ordering::Relaxed)));
            raft.disk_check = Duration::from_millis(50);
            let metrics = ServiceMetrics::default();
            nodes.services.push(Service::start(config.clone(), raft, metrics).await.unwrap());
            nodes.dirs.push(dir);
        }
        nodes.leader().await;
        nodes
    }

    /// Waits until every node has the same leader, and the leader serves a linearizable read.
    pub(crate) async fn leader(&self) -> Service {
        self.leader_among(&self.services).await
    }

    pub(crate) async fn leader_among(&self, services: &[Service]) -> Service {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let known: Vec<_> = services.iter().map(Service::leader).collect();
            let leader = services.iter().find(|service| known[0] == Some(service.node()));
            if let (Some(leader), true) = (leader, known.iter().all(|id| *id == known[0]))
                && leader.lock(&lock("none-such"), ReadMode::Linearizable).await.is_ok()
            {
                return leader.clone();
            }
            assert!(Instant::now() < deadline, "no leader: {known:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns a node that does not lead.
    pub(crate) async fn follower(&self) -> Service {
        let leader = self.leader().await.node();
        self.services.iter().find(|service| service.node() != leader).unwrap().clone()
    }
}

pub(crate) fn lock(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

pub(crate) fn session(name: &str) -> SessionName {
    SessionName::new(name).unwrap()
}

pub(crate) fn open(who: Option<&str>, ttl: Option<Ttl>) -> OpenSession {
    let name = who.map_or_else(|| generate_session_name().unwrap(), session);
    OpenSession { ttl, anonymous: who.is_none(), ..OpenSession::of(name) }
}

pub(crate) fn acquire(name: &str, who: Option<&str>, ttl_ms: u64, wait: Duration) -> Acquire {
    let open = open(who, Some(Ttl::from_millis(ttl_ms).unwrap()));
    Acquire::new(lock(name), open, Owner::unnamed()).waiting(wait)
}

pub(crate) async fn take(service: &Service, acquire: Acquire) -> Result<Grant, Failure> {
    Ok(service.acquire(acquire).await?.value.grant)
}

/// Acquires a lock for a session that does not expire during a test.
pub(crate) async fn hold(service: &Service, name: &str, who: &str) -> Grant {
    take(service, acquire(name, Some(who), 30_000, NO_WAIT)).await.unwrap()
}

/// Acquires a lock in another task. The caller disconnects if the task is aborted.
pub(crate) fn spawn_take(
    service: &Service,
    acquire: Acquire,
) -> JoinHandle<Result<Grant, Failure>> {
    let service = service.clone();
    tokio::spawn(async move { take(&service, acquire).await })
}

pub(crate) async fn release(
    service: &Service,
    name: &str,
    who: &str,
) -> Result<Response<Released>, Failure> {
    let (session, owner, target) = (session(who), Owner::unnamed(), ReleaseTarget::AnyEntry);
    service.release(Release { locks: lock(name).into(), session, owner, target }).await
}

pub(crate) async fn view(service: &Service, name: &str) -> LockView {
    service.lock(&lock(name), ReadMode::Linearizable).await.unwrap().value
}

pub(crate) async fn close_session(service: &Service, who: &str) -> Result<Response<()>, Failure> {
    service.close_session(session(who), None).await
}

pub(crate) async fn keep_alive(
    service: &Service,
    who: &str,
) -> Result<Response<SessionLease>, Failure> {
    service.keep_alive(session(who), None).await
}

/// Waits until the state of the lock satisfies `wanted`.
pub(crate) async fn until(
    service: &Service,
    name: &str,
    wanted: impl Fn(&LockView) -> bool,
) -> LockView {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let view = view(service, name).await;
        if wanted(&view) {
            return view;
        }
        assert!(Instant::now() < deadline, "the lock does not reach the wanted state: {view:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the lock has this number of waiters. Returns its state.
pub(crate) async fn until_waiting(service: &Service, name: &str, waiters: u32) -> LockView {
    until(service, name, |view| view.waiters_total == waiters).await
}

/// Waits until the node has applied nothing for 3 s. A new leader first records the clocks: it asks the members until all
/// reply, at least once a second.
pub(crate) async fn until_quiet(service: &Service) {
    let deadline = Instant::now() + DEADLINE;
    let (mut revision, mut since) = (service.revision(), Instant::now());
    while since.elapsed() < Duration::from_secs(3) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if service.revision() != revision {
            (revision, since) = (service.revision(), Instant::now());
        }
        assert!(Instant::now() < deadline, "the node still applies entries: {revision:?}");
    }
}

pub(crate) fn rejection<T: std::fmt::Debug>(result: Result<T, Failure>) -> Rejection {
    match result.unwrap_err() {
        Failure::Rejected(rejection) => rejection,
        other => panic!("not a rejection: {other:?}"),
    }
}
