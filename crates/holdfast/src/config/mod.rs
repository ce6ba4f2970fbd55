//! The configuration of one node: a TOML file, overridden by `HOLDFAST_*` variables, overridden by flags.
//!
//! `source` merges the layers and keeps the origin of each value, `units` parses durations and sizes, and `check` has
//! the rules that span several keys. Every error names the origin, the key and the correct form. docs/configuration.md
//! lists the keys; a test compares it with `KEYS`.

mod check;
mod schema;
mod sections;
mod source;
#[cfg(test)]
mod tests;
mod tls;
mod units;
mod zookeeper;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_raft::Timing;
use holdfast_service::ServiceConfig;
use holdfast_types::{Address, MemberAddresses, NodeId};

pub(crate) use check::SecurityMode;
pub(crate) use sections::{AuditConfig, BackupConfig, SyslogTarget, TracesConfig};
pub(crate) use source::{ConfigError, ConfigSources};
pub(crate) use tls::ListenersTls;
pub(crate) use zookeeper::ZooKeeperConfig;

use source::ConfigLayers;
use units::Scalar;

use crate::telemetry::LogFormat;

/// The checked configuration of `serve`.
///
/// Invariant: `members` contains `node`, and no two of its addresses are equal. A new cluster has an odd number of members up
/// to 7.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// The name of the cluster, equal on all nodes; a node rejects peers of another cluster.
    pub(crate) cluster: String,
    /// The id of this member.
    pub(crate) node: NodeId,
    /// The directory of the log, the snapshots and the identity.
    pub(crate) data_dir: PathBuf,
    /// What empty data directories become; `None` if the addresses decide.
    pub(crate) bootstrap: Option<BootstrapMode>,
    /// The number of threads that serve clients and peers, at least 1.
    pub(crate) threads: usize,
    /// All nodes, including this one.
    pub(crate) members: BTreeMap<NodeId, MemberAddresses>,
    /// The address of the HTTP listener.
    pub(crate) http_listen: Address,
    pub(crate) tls: ListenersTls,
    pub(crate) security: SecurityMode,
    /// Further names of this node, which callers of the HTTP port may use.
    pub(crate) http_hosts: Vec<String>,
    /// Whether the HTTP port has the pages of the console.
    pub(crate) has_console: bool,
    /// `None` if the ZooKeeper front-end is disabled.
    pub(crate) zookeeper: Option<ZooKeeperConfig>,
    /// The address of the listener for other nodes.
    pub(crate) peer_listen: Address,
    /// The interval of the heartbeats of a leader.
    pub(crate) heartbeat: Duration,
    /// The minimum election timeout: a follower starts an election after a random time from `election_min` to
    /// `election_max` without a heartbeat.
    pub(crate) election_min: Duration,
    /// The maximum election timeout.
    pub(crate) election_max: Duration,
    /// 0 to 9: of several voters, the one with the highest priority leads.
    pub(crate) priority: u8,
    /// A standby replaces a voter that has been silent for this long.
    pub(crate) replace_after: Duration,
    /// A member whose data directory was emptied returns under a new id.
    pub(crate) rejoin_when_emptied: bool,
    /// The maximum size of the data that clients store in the cluster, bytes.
    pub(crate) tree_bytes_max: u64,
    /// An empty container is kept at least this long.
    pub(crate) container_idle: Duration,
    /// The time between two searches for containers and znodes with a TTL to delete.
    pub(crate) sweep_every: Duration,
    /// The age of a durable hold from which on it raises the alarm `durable-hold-old`.
    pub(crate) durable_alarm_after: Duration,
    /// The node rejects writes below this free disk space, bytes.
    pub(crate) disk_reserve: u64,
    /// The size of the log between two snapshots, bytes.
    pub(crate) snapshot_log: u64,
    /// The time between two scrubs of the files.
    pub(crate) scrub_every: Duration,
    /// The longest time between two backups, for the alarm `backup-old`.
    pub(crate) backup_expect_every: Option<Duration>,
    /// The backups of this node; `None` without a schedule.
    pub(crate) backup: Option<BackupConfig>,
    pub(crate) audit: AuditConfig,
    /// A `tracing` filter, for example `info` or `info,holdfast_raft=debug`.
    pub(crate) log_level: String,
    pub(crate) log_format: LogFormat,
    /// `None` if the node exports no traces.
    pub(crate) traces: Option<TracesConfig>,
}

/// What empty data directories become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootstrapMode {
    /// A new cluster, when all members are present.
    New,
    /// Members of the running cluster. A new cluster needs `holdfast init` or `--bootstrap`.
    Join,
}

const DAY: Duration = Duration::from_hours(24);
const TEN_MINUTES: Duration = Duration::from_mins(10);

impl Config {
    /// # Errors
    /// [`ConfigError`] for the first problem, with what to change.
    pub(crate) fn load(sources: &ConfigSources) -> Result<Self, ConfigError> {
        let layers = ConfigLayers::gather(sources)?;
        let config = Self::read(&layers)?;
        check::members(&config)?;
        check::timing(&config)?;
        check::security(&config)?;
        Ok(config)
    }

    /// By default only a cluster of one machine is created without an operator.
    pub(crate) fn may_create_cluster(&self) -> bool {
        let loopback = || {
            let members = self.members.values().flat_map(|of| [&of.http, &of.peer, &of.zookeeper]);
            let own = [&self.http_listen, &self.peer_listen];
            members.chain(own).all(Address::is_loopback)
        };
        self.bootstrap.map_or_else(loopback, |mode| mode == BootstrapMode::New)
    }

    fn read(layers: &ConfigLayers) -> Result<Self, ConfigError> {
        let node = NodeId(layers.required("node", units::node_id)?);
        let members = layers.members()?;
        let own = check::own(node, &members)?;
        let (timing, service) = (Timing::default(), ServiceConfig::default());
        let (own_http, own_peer) = (own.http.clone(), own.peer.clone());
        let zookeeper = ZooKeeperConfig::read(layers, own)?;
        Ok(Self {
            cluster: layers.required("cluster", check::cluster_name)?,
            node,
            data_dir: layers.required("data_dir", units::path)?,
            bootstrap: layers.optional("bootstrap", bootstrap_mode)?,
            threads: layers
                .optional("threads", units::threads)?
                .unwrap_or_else(half_the_processors),
            members,
            http_listen: layers.optional("http.listen", units::address)?.unwrap_or(own_http),
            http_hosts: layers.or("http.hosts", units::hosts, Vec::new())?,
            tls: ListenersTls::read(layers)?,
            security: layers.or("security.mode", check::security_mode, SecurityMode::Secure)?,
            has_console: layers.or("console.enabled", units::boolean, true)?,
            zookeeper,
            peer_listen: layers.optional("raft.listen", units::address)?.unwrap_or(own_peer),
            heartbeat: layers.or("raft.heartbeat", units::duration, timing.heartbeat)?,
            election_min: layers.or("raft.election_min", units::duration, timing.election_min)?,
            election_max: layers.or("raft.election_max", units::duration, timing.election_max)?,
            priority: layers.or(
                "raft.priority",
                units::priority,
                ServiceConfig::DEFAULT_PRIORITY,
            )?,
            replace_after: layers.or("raft.replace_after", units::duration, TEN_MINUTES)?,
            rejoin_when_emptied: layers.or("raft.rejoin_when_emptied", units::boolean, false)?,
            tree_bytes_max: layers.or("limits.tree_bytes_max", units::size, 1 << 30)?,
            container_idle: layers.or(
                "tree.container_idle",
                units::duration,
                service.container_idle,
            )?,
            sweep_every: layers.or("tree.sweep_every", units::duration, service.sweep_every)?,
            durable_alarm_after: layers.or(
                "locks.durable_alarm_after",
                units::duration,
                service.durable_hold_alarm_after,
            )?,
            disk_reserve: layers.or("storage.disk_reserve", units::disk_reserve, 64 << 20)?,
            snapshot_log: layers.or("storage.snapshot_log", units::size, 64 << 20)?,
            scrub_every: layers.or("storage.scrub_every", units::duration, DAY)?,
            backup_expect_every: layers.optional("backup.expect_every", units::duration)?,
            backup: BackupConfig::read(layers)?,
            audit: AuditConfig::read(layers)?,
            log_level: layers.or("log.level", units::filter, "info".to_owned())?,
            log_format: layers.or("log.format", units::log_format, LogFormat::Auto)?,
            traces: TracesConfig::read(layers)?,
        })
    }
}

fn bootstrap_mode(value: &Scalar) -> Result<BootstrapMode, String> {
    let wanted = "\"new\" or \"join\"";
    match value.text(wanted)? {
        "new" => Ok(BootstrapMode::New),
        "join" => Ok(BootstrapMode::Join),
        other => Err(format!("{other:?} is not a mode: write {wanted}")),
    }
}

/// The default number of threads. The other half serves the log, `apply` and the system. More threads cost more in
/// wake-ups than they gain: docs/contributing/performance.md.
fn half_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}
