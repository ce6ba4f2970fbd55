//! What a node is told at its start.
//!
//! Owns the tunables with their defaults, the check that they do not contradict each other, and the translation into
//! openraft's settings. Everything that reads the outside world (wall clock, free bytes of the disk) is a closure
//! here, so that tests can lie.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_storage::Log;
use holdfast_types::{NodeId, Stamp};
use openraft::SnapshotPolicy;

use crate::error::StartError;

/// Tells the wall clock, which may jump: stamps slew towards it (`stamps.rs`).
pub type Clock = Arc<dyn Fn() -> Stamp + Send + Sync>;
/// Tells the free bytes of the disk a directory is on.
pub type FreeBytes = Arc<dyn Fn(&Path) -> std::io::Result<u64> + Send + Sync>;

/// Addresses of a member, `host:port` each, as others reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// For nodes.
    pub peer: String,
    /// For HTTP clients.
    pub http: String,
    /// For `ZooKeeper` clients.
    pub zookeeper: String,
}

/// Where this node listens for its peers.
#[derive(Debug)]
pub enum PeerListen {
    /// Bind this.
    Address(SocketAddr),
    /// Somebody bound it already.
    Bound(TcpListener),
}

/// How fast a silent leader is replaced. A follower waits `election_max` (the lease) and then between `election_min`
/// and `election_max` more; when the leader's connections broke, the second wait is a few milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats; 150 ms.
    pub heartbeat: Duration,
    /// 500 ms. At least three heartbeats.
    pub election_min: Duration,
    /// 750 ms: the lease. Larger than `election_min`.
    pub election_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(500),
            election_max: Duration::from_millis(750),
        }
    }
}

/// Everything a node is told at its start. [`RaftConfig::new`] has the defaults.
pub struct RaftConfig {
    /// Name of the cluster, the same on all nodes.
    pub cluster: String,
    /// Which member this is.
    pub node: NodeId,
    /// All members, this one included. Peers are reached at the addresses given here, whatever others are told.
    pub members: BTreeMap<NodeId, Member>,
    /// Where log, snapshots and identity are kept.
    pub data_dir: PathBuf,
    /// Where to listen for peers.
    pub peer_listen: PeerListen,
    /// How fast a silent leader is replaced.
    pub timing: Timing,
    /// Below this many free bytes nothing is appended; 64 MiB.
    pub disk_reserve_bytes: u64,
    /// How often the free bytes are looked at; 1 s.
    pub disk_check: Duration,
    /// A snapshot is made when so many bytes were applied since the last one; 64 MiB.
    pub snapshot_log_bytes: u64,
    /// Entries kept in the log behind a snapshot, so that a node that was away briefly needs none; 4096.
    pub log_keep_entries: u64,
    /// Bytes of the log's tail kept in memory; 32 MiB. Exceeded only by what is not on the disk yet.
    pub log_cache_bytes: usize,
    /// Commands waiting to be proposed; 16384.
    pub propose_queue_max: usize,
    /// Entries in flight from this node's proposer; 3.
    pub propose_inflight_max: usize,
    /// Commands in one entry; 256.
    pub batch_commands_max: usize,
    /// Bytes of commands in one entry, unless a single one is larger; 64 KiB.
    pub batch_bytes_max: usize,
    /// Found the cluster without waiting for members that are absent, as long as a majority is there. An operator's
    /// decision: refused by a node that has a log.
    pub bootstrap: bool,
    /// A log to use in place of the one in `data_dir`, for tests: in memory, or on a disk that fails.
    pub log: Option<Log>,
    /// The wall clock, which stamps follow slowly (`stamps.rs`).
    pub clock: Clock,
    /// Free bytes of the disk.
    pub free_bytes: FreeBytes,
}

impl RaftConfig {
    /// A configuration with the default of every tunable.
    pub fn new(
        cluster: impl Into<String>,
        node: NodeId,
        members: BTreeMap<NodeId, Member>,
        data_dir: impl Into<PathBuf>,
        peer_listen: PeerListen,
    ) -> Self {
        Self {
            cluster: cluster.into(),
            node,
            members,
            data_dir: data_dir.into(),
            peer_listen,
            timing: Timing::default(),
            disk_reserve_bytes: 64 << 20,
            disk_check: Duration::from_secs(1),
            snapshot_log_bytes: 64 << 20,
            log_keep_entries: 4096,
            log_cache_bytes: 32 << 20,
            propose_queue_max: 16_384,
            propose_inflight_max: 3,
            batch_commands_max: 256,
            batch_bytes_max: 64 << 10,
            bootstrap: false,
            log: None,
            clock: Arc::new(wall_clock),
            free_bytes: Arc::new(holdfast_storage::free_bytes),
        }
    }

    pub(crate) fn check(&self) -> Result<(), StartError> {
        let refuse = |what: String| Err(StartError::Config(what));
        if self.cluster.is_empty() || self.cluster.len() > 128 {
            return refuse("`cluster` must have 1 to 128 bytes".into());
        }
        if self.node.0 == 0 || self.members.contains_key(&NodeId(0)) {
            return refuse("node ids start from 1".into());
        }
        if !self.members.contains_key(&self.node) {
            return refuse(format!("node {} is not among the members", self.node));
        }
        if self.timing.election_min < self.timing.heartbeat * 3 {
            return refuse("`election_min` must be at least three heartbeats".into());
        }
        if self.timing.election_max <= self.timing.election_min {
            return refuse("`election_max` must be larger than `election_min`".into());
        }
        if self.propose_queue_max == 0
            || self.propose_inflight_max == 0
            || self.batch_commands_max == 0
        {
            return refuse("the proposer's bounds must not be 0".into());
        }
        Ok(())
    }

    pub(crate) fn openraft(&self) -> Result<openraft::Config, StartError> {
        let election_max = holdfast_types::millis(self.timing.election_max);
        openraft::Config {
            cluster_name: self.cluster.clone(),
            heartbeat_interval: holdfast_types::millis(self.timing.heartbeat),
            election_timeout_min: holdfast_types::millis(self.timing.election_min),
            election_timeout_max: election_max,
            enable_pre_vote: Some(true),
            // Lease bookkeeping starts with a leadership, so a restarted leader must begin a new one.
            enable_leader_restore: Some(false),
            // Breaks the deadlock of a leader that some followers still hear, but no quorum does.
            quorum_loss_probe_interval: Some(2 * election_max),
            max_payload_entries: 1024,
            max_append_entries: Some(4096),
            api_batch_linger_ms: 0,
            snapshot_policy: SnapshotPolicy::Never,
            install_snapshot_timeout: holdfast_types::millis(SNAPSHOT_BOUND),
            max_in_snapshot_log_to_keep: self.log_keep_entries,
            replication_lag_threshold: self.log_keep_entries * 4,
            purge_batch_size: 256.min(self.log_keep_entries.max(1)),
            api_channel_size: Some(16_384),
            notification_channel_size: Some(65_536),
            backoff: "20ms 50ms 100ms ...1s".into(),
            ..openraft::Config::default()
        }
        .validate()
        .map_err(|error| StartError::Config(error.to_string()))
    }
}

impl fmt::Debug for RaftConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftConfig")
            .field("cluster", &self.cluster)
            .field("node", &self.node)
            .field("members", &self.members)
            .field("data_dir", &self.data_dir)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

/// One snapshot takes at most this long to send and install.
pub(crate) const SNAPSHOT_BOUND: Duration = Duration::from_mins(10);

fn wall_clock() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp(holdfast_types::millis(since))
}
