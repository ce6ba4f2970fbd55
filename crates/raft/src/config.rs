//! The configuration of a node: options with defaults, and their conversion to openraft's settings.
//!
//! The wall clock and the free bytes of the disk are closures, so that tests can replace them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_storage::Log;
use holdfast_tls::{CallerFailures, PeerTls};
use holdfast_types::{MemberAddresses, NodeId, Stamp};
use openraft::SnapshotPolicy;

use crate::error::StartError;

/// Reads the wall clock, which may jump; stamps follow it slowly (`stamps.rs`).
pub type Clock = Arc<dyn Fn() -> Stamp + Send + Sync>;
/// Reads the free bytes on the disk of a directory.
pub type FreeBytes = Arc<dyn Fn(&Path) -> std::io::Result<u64> + Send + Sync>;

/// The listener for peers.
#[derive(Debug)]
pub enum PeerListen {
    Address(SocketAddr),
    /// An already bound listener.
    Bound(TcpListener),
}

/// The election timing. A follower waits `election_max` (the lease), and then between `election_min` and
/// `election_max` more. When the leader's connections close, the second wait is a few milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The interval between two heartbeats; 100 ms.
    pub heartbeat: Duration,
    /// The minimum election timeout, at least three heartbeats; 400 ms.
    pub election_min: Duration,
    /// The maximum election timeout and the lease, larger than `election_min`; 550 ms.
    pub election_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(400),
            election_max: Duration::from_millis(550),
        }
    }
}

impl Timing {
    /// A leader without contact for this long counts no longer: its followers have elected another one, or cannot.
    pub(crate) fn silence_max(&self) -> Duration {
        self.election_max * 2
    }

    /// How long a call waits for a leader: until the end of the election after the freeze of a leader.
    pub(crate) fn leader_wait(&self) -> Duration {
        self.silence_max() + Duration::from_millis(400)
    }
}

/// The configuration of a node. [`RaftConfig::new`] has the defaults.
pub struct RaftConfig {
    /// The name of the cluster, equal on all nodes.
    pub cluster: String,
    pub node: NodeId,
    /// All members, this node included. Of a new cluster they are its first members. This node calls its peers at these
    /// addresses, unless the replicated state has others.
    pub members: BTreeMap<NodeId, MemberAddresses>,
    /// The directory of the log, the snapshots and the identity.
    pub data_dir: PathBuf,
    pub peer_listen: PeerListen,
    /// `None` for connections between nodes without TLS.
    pub tls: Option<PeerTls>,
    /// Counts, logs and slows callers of the peer port that are no nodes.
    pub failures: CallerFailures,
    /// The maximum number of connections to the peer port without a complete handshake, with some room for others; 10,000.
    pub connections_max: usize,
    pub timing: Timing,
    /// The node rejects appends below this number of free bytes; 64 MiB.
    pub disk_reserve_bytes: u64,
    /// The interval between two checks of the free bytes; 1 s.
    pub disk_check: Duration,
    /// The bytes of applied entries between two snapshots; 64 MiB.
    pub snapshot_log_bytes: u64,
    /// The time between two scrubs, which read and verify the log and the current snapshot; 24 h.
    pub scrub_every: Duration,
    /// The number of entries kept before a snapshot, so that a briefly absent node needs no snapshot; 4096.
    pub log_keep_entries: u64,
    /// The bytes of the log's tail kept in memory; 32 MiB. Only entries not yet on the disk can exceed it.
    pub log_cache_bytes: usize,
    /// The maximum number of commands in the proposal queue; 16384.
    pub propose_queue_max: usize,
    /// The maximum number of this proposer's entries in flight; 3.
    pub propose_inflight_max: usize,
    /// The maximum number of commands in one entry; 256.
    pub batch_commands_max: usize,
    /// The maximum bytes of commands in one entry, unless a single command is larger; 64 KiB.
    pub batch_bytes_max: usize,
    /// Permits a new cluster when all members are present and none has data; `true`. With `false`, an operator has to call
    /// [`permit_new_cluster`](crate::permit_new_cluster).
    pub may_create_cluster: bool,
    /// Bootstraps the cluster, after a while without absent members if a majority is present. A node with a log rejects
    /// this option at its start.
    pub bootstrap: bool,
    /// A standby replaces a voter that has acknowledged nothing for this long; 10 min.
    pub replace_after: Duration,
    /// A member whose data directory was emptied returns under a new id, without an operator. The emptied node and the
    /// leader must both allow it.
    pub rejoin_when_emptied: bool,
    /// A log that replaces the one in `data_dir`, for tests: in memory, or on a failing disk.
    pub log: Option<Log>,
    /// The wall clock. Stamps follow it slowly (`stamps.rs`).
    pub clock: Clock,
    pub free_bytes: FreeBytes,
}

impl RaftConfig {
    pub fn new(
        cluster: impl Into<String>,
        node: NodeId,
        members: BTreeMap<NodeId, MemberAddresses>,
        data_dir: impl Into<PathBuf>,
        peer_listen: PeerListen,
    ) -> Self {
        Self {
            cluster: cluster.into(),
            node,
            members,
            data_dir: data_dir.into(),
            peer_listen,
            tls: None,
            failures: CallerFailures::default(),
            connections_max: 10_000,
            timing: Timing::default(),
            disk_reserve_bytes: 64 << 20,
            disk_check: Duration::from_secs(1),
            snapshot_log_bytes: 64 << 20,
            scrub_every: Duration::from_hours(24),
            log_keep_entries: 4096,
            log_cache_bytes: 32 << 20,
            propose_queue_max: 16_384,
            propose_inflight_max: 3,
            batch_commands_max: 256,
            batch_bytes_max: 64 << 10,
            may_create_cluster: true,
            bootstrap: false,
            replace_after: Duration::from_mins(10),
            rejoin_when_emptied: false,
            log: None,
            clock: Arc::new(wall_clock),
            free_bytes: Arc::new(holdfast_storage::free_bytes),
        }
    }

    /// Checks the values, as the start of a node does.
    ///
    /// # Errors
    /// [`StartError::Config`] for the first wrong value.
    pub fn check(&self) -> Result<(), StartError> {
        let reject = |what: String| Err(StartError::Config(what));
        if self.cluster.is_empty() || self.cluster.len() > 128 {
            return reject("`cluster` must have 1 to 128 bytes".into());
        }
        if self.node.0 == 0 || self.members.contains_key(&NodeId(0)) {
            return reject("node ids start from 1".into());
        }
        if !self.members.contains_key(&self.node) {
            return reject(format!("node {} is not among the members", self.node));
        }
        if self.timing.election_min < self.timing.heartbeat * 3 {
            return reject("`election_min` must be at least three heartbeats".into());
        }
        if self.timing.election_max <= self.timing.election_min {
            return reject("`election_max` must be larger than `election_min`".into());
        }
        if self.replace_after < REPLACE_AFTER_MIN {
            return reject(format!(
                "`replace_after` must be at least {REPLACE_AFTER_MIN:?}: a restart must not be a reason"
            ));
        }
        if self.propose_queue_max == 0
            || self.propose_inflight_max == 0
            || self.batch_commands_max == 0
        {
            return reject("the proposer's bounds must not be 0".into());
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
            // Session leases start with a leadership, so a restarted leader must start a new leadership.
            enable_leader_restore: Some(false),
            // This ends the leadership of a node that reaches some followers but no quorum.
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

/// The shortest time after which a standby replaces a voter.
const REPLACE_AFTER_MIN: Duration = Duration::from_secs(2);
/// The time limit for sending and installing one snapshot.
pub(crate) const SNAPSHOT_BOUND: Duration = Duration::from_mins(10);

pub(crate) fn wall_clock() -> Stamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Stamp(holdfast_types::millis(since))
}
