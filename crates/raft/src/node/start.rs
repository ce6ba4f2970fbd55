//! The start of a node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use holdfast_storage::{Log, LogOptions};
use holdfast_tls::PendingConnections;
use holdfast_types::{ClusterId, NodeId};
use openraft::storage::{RaftLogReader, RaftLogStorage};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Inner, RaftNode};
use crate::barrier::Barrier;
use crate::config::{PeerListen, RaftConfig};
use crate::dispatch::Dispatch;
use crate::error::StartError;
use crate::failure::{Failure, StopReason};
use crate::leadership::fast_election::{FastElection, LeaderLoss};
use crate::leadership::{LeaderContact, Leadership, LeadershipMonitor, handover};
use crate::members::MemberTable;
use crate::members::membership::{Membership, MembershipProgress, ObservedNodes};
use crate::metrics::RaftMetrics;
use crate::network::NetworkFactory;
use crate::peers::{IncomingConnections, Peers};
use crate::proposer::{BatchLimits, NodeContext, Proposer};
use crate::start::bootstrap::{Bootstrap, list_ids};
use crate::start::identity::{DataDir, InitialMembersFile, LOG_DIR, SNAPSHOT_DIR, configured_id};
use crate::start::join::{self, JoinRequest, ReadmissionCaller, ReadmissionRequest};
use crate::state_machine::{LocalMachine, Observer, Raft, StateMachine};
use crate::store::disk::{DiskGauge, DiskMonitor};
use crate::store::log_store::LogStore;
use crate::store::scrub::Scrub;
use crate::store::snapshot::SnapshotStore;
use crate::supervisor;
use crate::transport::handshake::PeerHandshake;
use crate::transport::server;

/// The open and verified parts of the data directory.
struct Opened {
    data_dir: DataDir,
    initial_members: Arc<InitialMembersFile>,
    /// The invitation, if this node joins a running cluster.
    join: Option<JoinRequest>,
    log: Log,
    log_store: LogStore,
    snapshots: SnapshotStore,
}

impl RaftNode {
    /// Starts a node. The node calls `observer` once the node is readable, and notifies its result of everything
    /// applied from then on.
    ///
    /// # Errors
    /// [`StartError`]; no task keeps running.
    pub async fn start(
        config: RaftConfig,
        observer: impl FnOnce(RaftNode) -> Arc<dyn Observer>,
    ) -> Result<Self, StartError> {
        config.check()?;
        let failure = Failure::new();
        let started = async {
            let opened = open(&config, &failure).await?;
            let log = opened.log.clone();
            let started = build(config, opened, failure.clone(), observer).await;
            if started.is_err() {
                // Blocks only until the log thread has ended, because the queue is empty.
                log.shutdown();
            }
            started
        };
        started.await.map_err(|error| match failure.reason() {
            Some(StopReason::OldProgram(why)) => StartError::OldProgram(why),
            Some(StopReason::Failed(_) | StopReason::Removed(_) | StopReason::Readmitted(_))
            | None => error,
        })
    }
}

async fn open(config: &RaftConfig, failure: &Failure) -> Result<Opened, StartError> {
    let (dir, cluster, node) = (config.data_dir.clone(), config.cluster.clone(), config.node);
    let (failure, cache_bytes) = (failure.clone(), config.log_cache_bytes);
    let given = config.log.clone();
    let open = move || {
        let data_dir = DataDir::open(&dir, &cluster, node)?;
        let initial_members = Arc::new(InitialMembersFile::open(&dir)?);
        let join = join::read(&dir, &cluster, node)?;
        let store = |error: &dyn std::fmt::Display| StartError::Store(error.to_string());
        let snapshots = SnapshotStore::open(&dir.join(SNAPSHOT_DIR), failure.clone())?;
        let open = || Log::open(&dir.join(LOG_DIR), LogOptions::default());
        let log = given.map_or_else(open, Ok)?;
        let log_store = LogStore::open(log.clone(), failure, cache_bytes)
            .inspect_err(|_| log.shutdown())
            .map_err(|error| store(&error))?;
        log_store.protect(snapshots.position().map_err(|error| store(&error))?);
        Ok(Opened { data_dir, initial_members, join, log, log_store, snapshots })
    };
    tokio::task::spawn_blocking(open).await.map_err(|error| StartError::Store(error.to_string()))?
}

async fn build(
    config: RaftConfig,
    opened: Opened,
    failure: Failure,
    observer: impl FnOnce(RaftNode) -> Arc<dyn Observer>,
) -> Result<RaftNode, StartError> {
    if config.bootstrap {
        reject_unless_blank(opened.log_store.clone()).await?;
    }
    let (listener, peer_address) = listen(&config).await?;
    let metrics = Arc::new(RaftMetrics::default());
    let local =
        Arc::new(LocalMachine::new(config.node, config.snapshot_log_bytes, metrics.clone()));
    let (members, handshake) = members(&config, &opened, &local, &failure);
    let peers = Arc::new(Peers::new(&handshake, config.tls.as_ref()));
    let mut tasks = JoinSet::new();
    let disk = disk(&config, &opened.log_store, &mut tasks).await;
    let raft = raft(&config, &opened, &local, &peers, &disk, &failure).await?;
    handshake.acknowledged().start(raft.clone());
    let contact = Arc::new(LeaderContact::new());
    let leadership = leadership(&config, &raft, &local, &contact, &metrics, &mut tasks);
    let context = NodeContext {
        raft: raft.clone(),
        node: config.node,
        peers: peers.clone(),
        leadership: leadership.clone(),
        disk: disk.clone(),
        wall_clock: config.clock.clone(),
        metrics: metrics.clone(),
        local: local.clone(),
    };
    let limits = BatchLimits::new(&config);
    let (proposer, proposer_worker) = Proposer::new(context.clone(), limits, failure.clone());
    tasks.spawn(proposer_worker);
    let (barrier, barrier_worker) =
        Barrier::new(context.clone(), limits.leader_wait, failure.clone());
    tasks.spawn(barrier_worker);
    let bootstrap = Arc::new(bootstrap(&config, &opened, &context, &members, &failure)?);

    let inner = Arc::new(Inner {
        node: config.node,
        members,
        membership_progress: MembershipProgress::default(),
        raft,
        log: opened.log,
        local,
        proposer,
        context,
        limits,
        barrier,
        bootstrap,
        peers,
        disk,
        contact,
        metrics,
        failure,
        leadership,
        peer_address,
        election_max: config.timing.election_max,
        started: Instant::now(),
        refuses_forwarded: Arc::default(),
        tasks: Mutex::new(tasks),
        data_dir: Mutex::new(Some(opened.data_dir)),
    });
    let node = RaftNode { inner };
    node.inner.local.start_observing(observer(node.clone()));
    node.run(&config, listener, handshake, opened.snapshots, opened.log_store);
    node.warn_of_other_members();
    Ok(node)
}

fn members(
    config: &RaftConfig,
    opened: &Opened,
    local: &Arc<LocalMachine>,
    failure: &Failure,
) -> (Arc<MemberTable>, Arc<PeerHandshake>) {
    let (configured, initial) = (config.members.clone(), opened.initial_members.clone());
    let members = Arc::new(MemberTable::new(configured, local.clone(), initial.clone()));
    let (identity, join) = (opened.data_dir.identity.clone(), opened.join.clone());
    // A node with initial members belongs to a cluster already. The invitation of a readmitted one may have expired.
    let configured = configured_id(&config.data_dir);
    let may_be_emptied = initial.current().is_none() && (join.is_none() || configured.is_some());
    let incarnation = identity.incarnation;
    let handshake = PeerHandshake::new(
        identity,
        members.clone(),
        initial,
        join,
        opened.log_store.clone(),
        failure.clone(),
    );
    if !config.rejoin_when_emptied {
        return (members, Arc::new(handshake));
    }
    let own = config.members.get(&config.node).filter(|_| may_be_emptied);
    let caller = own.map(|own| ReadmissionCaller {
        request: ReadmissionRequest::new(incarnation, own.peer.clone()),
        configured: configured.unwrap_or(config.node),
        data_dir: config.data_dir.clone(),
    });
    (members, Arc::new(handshake.readmitting(caller)))
}

/// Returns the leadership, and the monitor that keeps it current.
fn leadership(
    config: &RaftConfig,
    raft: &Raft,
    local: &LocalMachine,
    contact: &Arc<LeaderContact>,
    metrics: &Arc<RaftMetrics>,
    tasks: &mut JoinSet<()>,
) -> watch::Receiver<Leadership> {
    let monitor = LeadershipMonitor {
        raft: raft.clone(),
        applied: local.applied(),
        contact: contact.clone(),
        metrics: metrics.clone(),
        silence_max: config.timing.silence_max(),
    };
    let (sender, leadership) = watch::channel(Leadership::default());
    tasks.spawn(monitor.run(sender));
    leadership
}

/// Returns the gauge after a first check. A task keeps it current.
async fn disk(config: &RaftConfig, log: &LogStore, tasks: &mut JoinSet<()>) -> Arc<DiskGauge> {
    // The log and the snapshots can be on volumes of their own.
    let volumes = [LOG_DIR, SNAPSHOT_DIR].map(|dir| config.data_dir.join(dir));
    let volumes = volumes.into_iter().filter(|dir| dir.exists());
    let monitor = DiskMonitor {
        dirs: std::iter::once(config.data_dir.clone()).chain(volumes).collect(),
        free_bytes: config.free_bytes.clone(),
        every: config.disk_check,
        log: log.clone(),
    };
    let gauge = Arc::new(DiskGauge::new(config.disk_reserve_bytes));
    monitor.check(&gauge).await;
    tasks.spawn(monitor.run(gauge.clone()));
    gauge
}

fn bootstrap(
    config: &RaftConfig,
    opened: &Opened,
    context: &NodeContext,
    members: &Arc<MemberTable>,
    failure: &Failure,
) -> Result<Bootstrap, StartError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| StartError::Store(error.to_string()))?;
    Ok(Bootstrap {
        raft: context.raft.clone(),
        node: config.node,
        incarnation: opened.data_dir.identity.incarnation,
        new_cluster_id: ClusterId(u128::from_le_bytes(random)),
        members: members.clone(),
        joins: opened.join.is_some(),
        file: opened.initial_members.clone(),
        peers: context.peers.clone(),
        failure: failure.clone(),
        data_dir: config.data_dir.clone(),
        permitted: config.may_create_cluster,
        without_absent: config.bootstrap,
        waiting_for: Mutex::default(),
        storing: tokio::sync::Mutex::default(),
    })
}

async fn raft(
    config: &RaftConfig,
    opened: &Opened,
    local: &Arc<LocalMachine>,
    peers: &Arc<Peers>,
    disk: &Arc<DiskGauge>,
    failure: &Failure,
) -> Result<Raft, StartError> {
    let settings = Arc::new(config.openraft()?);
    let (peers, metrics) = (peers.clone(), local.metrics().clone());
    let network = NetworkFactory { peers, metrics, failure: failure.clone() };
    let state_machine = StateMachine::new(local.clone(), opened.snapshots.clone(), disk.clone());
    let log_store = opened.log_store.clone();
    // `build` loads the snapshot and applies the entries known to be committed.
    Raft::build(config.node.0, settings, network, log_store, state_machine)
        .await
        .map_err(|error| StartError::Store(error.to_string()))
}

/// The flag is for one start: a permanent flag would bootstrap a new cluster after the loss of a majority's disks.
async fn reject_unless_blank(mut log: LogStore) -> Result<(), StartError> {
    let failed = |error: std::io::Error| StartError::Store(error.to_string());
    let state = log.get_log_state().await.map_err(failed)?;
    let vote = log.read_vote().await.map_err(failed)?;
    if state.last_log_id.is_some() || vote.is_some_and(|vote| vote.leader_id.term > 0) {
        return Err(StartError::AlreadyBootstrapped);
    }
    Ok(())
}

async fn listen(config: &RaftConfig) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = match &config.peer_listen {
        PeerListen::Address(address) => TcpListener::bind(address).await,
        PeerListen::Bound(listener) => listener
            .try_clone()
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .and_then(TcpListener::from_std),
    };
    listener
        .and_then(|listener| listener.local_addr().map(|address| (listener, address)))
        .map_err(|source| listen_error(config, source))
}

fn listen_error(config: &RaftConfig, source: std::io::Error) -> StartError {
    let address = match &config.peer_listen {
        PeerListen::Address(address) => address.to_string(),
        PeerListen::Bound(listener) => {
            listener.local_addr().as_ref().map_or_else(ToString::to_string, SocketAddr::to_string)
        }
    };
    StartError::Listen { address, source }
}

impl RaftNode {
    fn run(
        &self,
        config: &RaftConfig,
        listener: TcpListener,
        handshake: Arc<PeerHandshake>,
        snapshots: SnapshotStore,
        log: LogStore,
    ) {
        let inner = &self.inner;
        let (incoming, ends) = IncomingConnections::new();
        let (raft, leadership) = (inner.raft.clone(), inner.leadership.clone());
        let loss = LeaderLoss::new(raft, leadership, incoming.clone(), inner.peers.clone());
        let lease = config.timing.election_max;
        let fast_election = FastElection::new(&loss, inner.node, inner.contact.clone(), lease);
        let dispatch = Arc::new(Dispatch {
            raft: inner.raft.clone(),
            local: inner.local.clone(),
            log,
            snapshots: snapshots.clone(),
            proposer: inner.proposer.clone(),
            barrier: inner.barrier.clone(),
            bootstrap: inner.bootstrap.clone(),
            members: inner.members.clone(),
            peers: inner.peers.clone(),
            disk: inner.disk.clone(),
            contact: inner.contact.clone(),
            failure: inner.failure.clone(),
            refuses_forwarded: inner.refuses_forwarded.clone(),
            incoming,
            loss,
        });
        let membership = self.membership(config, handshake.clone());
        let scrub = self.scrub(config, snapshots.clone());
        let compactor = supervisor::Compactor {
            raft: inner.raft.clone(),
            local: inner.local.clone(),
            snapshots,
            disk: inner.disk.clone(),
        };
        inner.raft.run();
        let mut tasks = inner.tasks.lock();
        tasks.spawn(fast_election.run(ends));
        tasks.spawn(membership.run(inner.leadership.clone()));
        tasks.spawn(inner.bootstrap.clone().run());
        tasks.spawn(compactor.run());
        tasks.spawn(inner.peers.clone().check_changed_addresses());
        tasks.spawn(scrub.run());
        tasks.spawn({
            let handshake = handshake.clone();
            async move { handshake.acknowledged().run().await }
        });
        tasks.spawn(handover::transfer_while_disk_is_low(
            inner.context.clone(),
            inner.members.clone(),
        ));
        let serving = server::serve(
            listener,
            config.tls.clone(),
            handshake,
            dispatch,
            config.failures.clone(),
            PendingConnections::of_port(config.connections_max),
        );
        tasks.spawn(supervisor::until_failure(serving, inner.raft.clone(), inner.failure.clone()));
        tasks.spawn(supervisor::watch_openraft(inner.raft.clone(), inner.failure.clone()));
    }

    fn scrub(&self, config: &RaftConfig, snapshots: SnapshotStore) -> Scrub {
        let inner = &self.inner;
        Scrub {
            log: inner.log.clone(),
            snapshots,
            failure: inner.failure.clone(),
            metrics: inner.metrics.clone(),
            every: config.scrub_every,
        }
    }

    fn membership(&self, config: &RaftConfig, handshake: Arc<PeerHandshake>) -> Membership {
        let inner = &self.inner;
        Membership {
            context: inner.context.clone(),
            handshake,
            progress: inner.membership_progress.clone(),
            contact: inner.contact.clone(),
            silence_max: config.timing.silence_max(),
            replace_after: config.replace_after,
            observed: ObservedNodes::default(),
        }
    }

    fn warn_of_other_members(&self) {
        let voters: Vec<NodeId> = self.voters();
        let configured = self.inner.members.configured_ids();
        if !voters.is_empty() && !voters.iter().eq(configured.iter()) {
            tracing::info!(
                configured = %list_ids(&configured),
                voters = %list_ids(&voters),
                "the configured members differ from the voters in the log; using those in the log"
            );
        }
    }
}
