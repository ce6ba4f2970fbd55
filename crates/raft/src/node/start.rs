//! Starting a node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use holdfast_storage::{Log, LogOptions};
use holdfast_types::NodeId;
use openraft::storage::{RaftLogReader, RaftLogStorage};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::{Inner, RaftNode};
use crate::barrier::{self, Barrier};
use crate::campaign::Campaign;
use crate::config::{PeerListen, RaftConfig};
use crate::contact::Contact;
use crate::counters::Counters;
use crate::disk::{DiskGauge, Inspector};
use crate::dispatch::Dispatch;
use crate::error::StartError;
use crate::failure::Failure;
use crate::founding::roster::RosterBook;
use crate::founding::{Founding, listed};
use crate::handover;
use crate::identity::{DataDir, LOG_DIR, SNAPSHOT_DIR};
use crate::leadership::{self, Leadership};
use crate::log_store::LogStore;
use crate::network::NetworkFactory;
use crate::peers::Peers;
use crate::proposer::{Means, Packing, Proposer};
use crate::registrar::Registrar;
use crate::snapshot::SnapshotStore;
use crate::state_machine::{LocalMachine, Observer, StateMachine};
use crate::supervisor;
use crate::transport::handshake::Doorman;
use crate::transport::server;
use crate::type_config::Raft;

/// Peers that may hang up before anybody looks.
const HUNG_UP_MAX: usize = 16;

/// What is on the disk, open and verified.
struct Opened {
    data_dir: DataDir,
    roster: Arc<RosterBook>,
    log: Log,
    log_store: LogStore,
    snapshots: SnapshotStore,
}

impl RaftNode {
    /// Starts a node. `observer` is made once the node can be read, and is told of everything applied from then on.
    ///
    /// # Errors
    /// [`StartError`] says what to fix; nothing is left running.
    pub async fn start(
        config: RaftConfig,
        observer: impl FnOnce(RaftNode) -> Arc<dyn Observer>,
    ) -> Result<Self, StartError> {
        config.check()?;
        let failure = Failure::new();
        let opened = open(&config, &failure).await?;
        let log = opened.log.clone();
        let started = build(config, opened, failure, observer).await;
        if started.is_err() {
            // Blocks only until the log's thread has ended: nothing is queued.
            log.shutdown();
        }
        started
    }
}

async fn open(config: &RaftConfig, failure: &Failure) -> Result<Opened, StartError> {
    let (dir, cluster, node) = (config.data_dir.clone(), config.cluster.clone(), config.node);
    let (failure, cache_bytes) = (failure.clone(), config.log_cache_bytes);
    let given = config.log.clone();
    let open = move || {
        let data_dir = DataDir::open(&dir, &cluster, node)?;
        let roster = Arc::new(RosterBook::open(&dir)?);
        let store = |error: &dyn std::fmt::Display| StartError::Store(error.to_string());
        let snapshots =
            SnapshotStore::open(&dir.join(SNAPSHOT_DIR)).map_err(|error| store(&error))?;
        let open = || Log::open(&dir.join(LOG_DIR), LogOptions::default());
        let log = given.map_or_else(open, Ok).map_err(|error| store(&error))?;
        let log_store = LogStore::open(log.clone(), failure, cache_bytes)
            .inspect_err(|_| log.shutdown())
            .map_err(|error| store(&error))?;
        Ok(Opened { data_dir, roster, log, log_store, snapshots })
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
        refuse_unless_blank(opened.log_store.clone()).await?;
    }
    let listener = listen(&config).await?;
    let peer_address = listener.local_addr().map_err(|source| listen_error(&config, source))?;
    let counters = Arc::new(Counters::default());
    let local =
        Arc::new(LocalMachine::new(config.node, config.snapshot_log_bytes, counters.clone()));
    let doorman = Arc::new(doorman(&config, &opened, local.clone()));
    let peers = Arc::new(Peers::new(&doorman, config.node, &config.members));
    let raft = raft(&config, &opened, &local, &peers).await?;
    let (disk, inspector) = gauge(&config).await;

    let (leadership_sender, leadership) = watch::channel(Leadership::default());
    let mut tasks = JoinSet::new();
    let contact = Arc::new(Contact::new());
    let (applied, heard) = (local.applied(), contact.leader());
    tasks.spawn(leadership::follow(raft.clone(), applied, heard, leadership_sender));
    tasks.spawn(inspector.run(disk.clone()));
    let means = Means {
        raft: raft.clone(),
        node: config.node,
        peers: peers.clone(),
        leadership: leadership.clone(),
        disk: disk.clone(),
        wall_clock: config.clock.clone(),
        counters: counters.clone(),
        local: local.clone(),
    };
    let packing = Packing::of(&config);
    let (proposer, packer) = Proposer::new(means.clone(), packing, failure.clone());
    tasks.spawn(packer);
    let (barrier, rounds) = barrier(&means, &local, &failure);
    tasks.spawn(rounds);
    let founding = Arc::new(founding(&config, &opened, &means, &doorman, &failure));

    let inner = Arc::new(Inner {
        node: config.node,
        members: config.members.keys().copied().collect(),
        raft,
        log: opened.log,
        local,
        proposer,
        means,
        packing,
        barrier,
        founding,
        peers,
        disk,
        contact,
        counters,
        failure,
        leadership,
        peer_address,
        transfer_bound: config.timing.election_max * 2,
        closing: AtomicBool::new(false),
        tasks: Mutex::new(tasks),
        data_dir: Mutex::new(Some(opened.data_dir)),
    });
    let node = RaftNode { inner };
    node.inner.local.go_live(observer(node.clone()));
    node.run(&config, listener, doorman, opened.snapshots, opened.log_store);
    node.compare_members();
    Ok(node)
}

/// The disk as it is now, and who goes on looking at it.
async fn gauge(config: &RaftConfig) -> (Arc<DiskGauge>, Inspector) {
    let (disk, inspector) = (Arc::new(DiskGauge::new()), inspector(config));
    inspector.look(&disk).await;
    (disk, inspector)
}

fn doorman(config: &RaftConfig, opened: &Opened, local: Arc<LocalMachine>) -> Doorman {
    let registered = move |node| local.read(|machine| machine.incarnation(node));
    let members = config.members.keys().copied().collect();
    let identity = opened.data_dir.identity.clone();
    Doorman::new(identity, members, Arc::new(registered), opened.roster.clone())
}

fn founding(
    config: &RaftConfig,
    opened: &Opened,
    means: &Means,
    doorman: &Arc<Doorman>,
    failure: &Failure,
) -> Founding {
    Founding {
        raft: means.raft.clone(),
        node: config.node,
        incarnation: opened.data_dir.identity.incarnation,
        members: config.members.keys().copied().collect(),
        book: opened.roster.clone(),
        doorman: doorman.clone(),
        peers: means.peers.clone(),
        failure: failure.clone(),
        alone: config.bootstrap,
        waits_for: Mutex::default(),
        turn: tokio::sync::Mutex::default(),
    }
}

fn inspector(config: &RaftConfig) -> Inspector {
    Inspector {
        dir: config.data_dir.clone(),
        free_bytes: config.free_bytes.clone(),
        reserve: config.disk_reserve_bytes,
        every: config.disk_check,
    }
}

async fn raft(
    config: &RaftConfig,
    opened: &Opened,
    local: &Arc<LocalMachine>,
    peers: &Arc<Peers>,
) -> Result<Raft, StartError> {
    let settings = Arc::new(config.openraft()?);
    let network = NetworkFactory { peers: peers.clone() };
    let state_machine = StateMachine::new(local.clone(), opened.snapshots.clone());
    let log_store = opened.log_store.clone();
    // Loads the snapshot and applies what is known to be committed.
    Raft::build(config.node.0, settings, network, log_store, state_machine)
        .await
        .map_err(|error| StartError::Store(error.to_string()))
}

/// The flag is for one start: left in place, it would found a new cluster after the loss of a majority's disks.
async fn refuse_unless_blank(mut log: LogStore) -> Result<(), StartError> {
    let failed = |error: std::io::Error| StartError::Store(error.to_string());
    let state = log.get_log_state().await.map_err(failed)?;
    let vote = log.read_vote().await.map_err(failed)?;
    if state.last_log_id.is_some() || vote.is_some_and(|vote| vote.leader_id.term > 0) {
        return Err(StartError::Bootstrapped);
    }
    Ok(())
}

fn barrier(
    means: &Means,
    local: &LocalMachine,
    failure: &Failure,
) -> (Barrier, impl Future<Output = ()> + Send + 'static) {
    let means = barrier::Means {
        raft: means.raft.clone(),
        node: means.node,
        peers: means.peers.clone(),
        leadership: means.leadership.clone(),
        applied: local.applied(),
        counters: means.counters.clone(),
    };
    Barrier::new(means, failure.clone())
}

async fn listen(config: &RaftConfig) -> Result<TcpListener, StartError> {
    let listener = match &config.peer_listen {
        PeerListen::Address(address) => TcpListener::bind(address).await,
        PeerListen::Bound(listener) => listener
            .try_clone()
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .and_then(TcpListener::from_std),
    };
    listener.map_err(|source| listen_error(config, source))
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
        doorman: Arc<Doorman>,
        snapshots: SnapshotStore,
        log: LogStore,
    ) {
        let inner = &self.inner;
        let (hung_up, hang_ups) = mpsc::channel(HUNG_UP_MAX);
        let dispatch = Arc::new(Dispatch {
            raft: inner.raft.clone(),
            local: inner.local.clone(),
            log,
            snapshots: snapshots.clone(),
            proposer: inner.proposer.clone(),
            barrier: inner.barrier.clone(),
            founding: inner.founding.clone(),
            disk: inner.disk.clone(),
            contact: inner.contact.clone(),
            failure: inner.failure.clone(),
            hung_up,
        });
        let campaign = Campaign {
            raft: inner.raft.clone(),
            node: inner.node,
            members: inner.members.clone(),
            contact: inner.contact.clone(),
            leadership: inner.leadership.clone(),
            lease: config.timing.election_max,
        };
        let registrar = Registrar {
            means: inner.means.clone(),
            local: inner.local.clone(),
            doorman: doorman.clone(),
            members: inner.members.clone(),
        };
        let compactor = supervisor::Compactor {
            raft: inner.raft.clone(),
            local: inner.local.clone(),
            snapshots,
            disk: inner.disk.clone(),
            reserve: config.disk_reserve_bytes,
        };
        inner.raft.run();
        let mut tasks = inner.tasks.lock();
        tasks.spawn(campaign.run(hang_ups));
        tasks.spawn(registrar.run(inner.leadership.clone()));
        tasks.spawn(inner.founding.clone().run());
        tasks.spawn(compactor.run());
        tasks.spawn(handover::when_disk_is_low(inner.means.clone(), inner.members.clone()));
        let serving = server::serve(listener, doorman, dispatch);
        tasks.spawn(supervisor::until_failure(serving, inner.raft.clone(), inner.failure.clone()));
        tasks.spawn(supervisor::watch_openraft(inner.raft.clone(), inner.failure.clone()));
    }

    fn compare_members(&self) {
        let voters: Vec<NodeId> = self.voters();
        if !voters.is_empty() && !voters.iter().eq(self.inner.members.iter()) {
            tracing::warn!(
                configured = %listed(&self.inner.members),
                voters = %listed(&voters),
                "the members of the configuration are not those of the log, which count"
            );
        }
    }
}
