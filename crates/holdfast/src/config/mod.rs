//! The configuration of one node: a TOML file, overridden by `HOLDFAST_*`, overridden by flags.
//!
//! Owns the road from those three sources to a [`Config`] that everything behind it can trust. `source` gathers
//! values and remembers where each came from, `units` reads durations and sizes, `check` holds the rules that span
//! several keys. Refuses to know what the values do. Every error names the file (or variable, or flag) and the
//! key, and says what to write instead. docs/configuration.md lists the keys; a test compares it with `KEYS`.

mod address;
mod check;
mod door;
mod error;
mod schema;
mod source;
#[cfg(test)]
mod tests;
mod units;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_raft::Timing;
use holdfast_types::NodeId;

pub(crate) use address::Address;
pub(crate) use door::ZooKeeperDoor;
pub(crate) use error::ConfigError;
pub(crate) use source::Sources;

use source::Layers;

/// How a log line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// One node of the cluster, as this node's file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Where clients reach its HTTP door.
    pub(crate) http: Address,
    /// Where the other nodes reach it.
    pub(crate) peer: Address,
    /// Where clients reach its `ZooKeeper` door.
    pub(crate) zookeeper: Address,
}

/// Everything `serve` needs, checked.
///
/// Invariant: `members` contains `node`, has an odd length up to 7, and no two of its addresses are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// The same on all nodes; peers of another cluster are refused.
    pub(crate) cluster: String,
    /// Which member this is.
    pub(crate) node: NodeId,
    /// Where the log, the snapshots and the identity live.
    pub(crate) data_dir: PathBuf,
    /// Threads that serve clients and peers, at least 1.
    pub(crate) threads: usize,
    /// All nodes, this one included.
    pub(crate) members: BTreeMap<NodeId, Member>,
    /// Where this node listens for clients.
    pub(crate) http_listen: Address,
    /// The `ZooKeeper` door; none if it stays shut.
    pub(crate) zookeeper: Option<ZooKeeperDoor>,
    /// Where this node listens for its peers.
    pub(crate) peer_listen: Address,
    /// How often a leader shows life.
    pub(crate) heartbeat: Duration,
    /// A follower that heard nothing for longer than a random time between these two starts an election.
    pub(crate) election_min: Duration,
    /// See `election_min`.
    pub(crate) election_max: Duration,
    /// Bytes that clients may store in the cluster.
    pub(crate) tree_bytes_max: u64,
    /// Below this much free disk, bytes, writes are refused.
    pub(crate) disk_reserve: u64,
    /// A snapshot is taken after this much log, bytes.
    pub(crate) snapshot_log: u64,
    /// A `tracing` filter, for example `info` or `info,holdfast_raft=debug`.
    pub(crate) log_level: String,
    /// How log lines are written.
    pub(crate) log_format: LogFormat,
}

impl Config {
    /// Reads, merges and checks.
    ///
    /// # Errors
    /// [`ConfigError`] for the first thing that is wrong, with what to change.
    pub(crate) fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let layers = Layers::gather(sources)?;
        let config = Self::read(&layers)?;
        check::members(&config)?;
        check::timing(&config)?;
        Ok(config)
    }

    fn read(layers: &Layers) -> Result<Self, ConfigError> {
        let node = NodeId(layers.required("node", units::node_id)?);
        let members = layers.members()?;
        let own = check::own(node, &members)?;
        let timing = Timing::default();
        let (own_http, own_peer) = (own.http.clone(), own.peer.clone());
        let zookeeper = ZooKeeperDoor::read(layers, own)?;
        Ok(Self {
            cluster: layers.required("cluster", check::cluster_name)?,
            node,
            data_dir: layers.required("data_dir", units::path)?,
            threads: layers
                .optional("threads", units::threads)?
                .unwrap_or_else(half_the_processors),
            members,
            http_listen: layers.optional("http.listen", Address::read)?.unwrap_or(own_http),
            zookeeper,
            peer_listen: layers.optional("raft.listen", Address::read)?.unwrap_or(own_peer),
            heartbeat: layers.or("raft.heartbeat", units::duration, timing.heartbeat)?,
            election_min: layers.or("raft.election_min", units::duration, timing.election_min)?,
            election_max: layers.or("raft.election_max", units::duration, timing.election_max)?,
            tree_bytes_max: layers.or("limits.tree_bytes_max", units::size, 1 << 30)?,
            disk_reserve: layers.or("storage.disk_reserve", units::size, 64 << 20)?,
            snapshot_log: layers.or("storage.snapshot_log", units::size, 64 << 20)?,
            log_level: layers.or("log.level", units::filter, "info".to_owned())?,
            log_format: layers.or("log.format", units::log_format, LogFormat::Auto)?,
        })
    }
}

/// The other half is for what has threads of its own (the log, `apply`), and for the system. More threads than that cost
/// more in waking each other than they bring: docs/performance.md.
fn half_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}
