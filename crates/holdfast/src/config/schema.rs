//! The keys of the configuration, for the file, the environment and the flags.

/// All keys outside `[[member]]`.
pub(crate) const KEYS: &[&str] = &[
    "cluster",
    "node",
    "data_dir",
    "bootstrap",
    "threads",
    "tls.cert",
    "tls.key",
    "tls.ca",
    "tls.min_version",
    "security.mode",
    "http.listen",
    "http.hosts",
    "http.tls",
    "http.client_certificates",
    "console.enabled",
    "zookeeper.enabled",
    "zookeeper.listen",
    "zookeeper.tls",
    "zookeeper.client_certificates",
    "zookeeper.authentication",
    "zookeeper.tick",
    "zookeeper.connections_per_address_max",
    "zookeeper.frame_max",
    "zookeeper.four_letter_commands",
    "raft.listen",
    "raft.tls",
    "raft.heartbeat",
    "raft.election_min",
    "raft.election_max",
    "raft.priority",
    "raft.replace_after",
    "raft.rejoin_when_emptied",
    "limits.tree_bytes_max",
    "tree.container_idle",
    "tree.sweep_every",
    "locks.durable_alarm_after",
    "storage.disk_reserve",
    "storage.snapshot_log",
    "storage.scrub_every",
    "backup.expect_every",
    "backup.every",
    "backup.directory",
    "backup.keep",
    "backup.recipient",
    "audit.file",
    "audit.file_size",
    "audit.files",
    "audit.syslog",
    "log.level",
    "log.format",
    "traces.endpoint",
    "traces.sample",
    "traces.headers_file",
];

/// The keys of a `[[member]]` block; all are required.
pub(crate) const MEMBER_KEYS: &[&str] = &["id", "http", "peer", "zookeeper"];

/// Variables of the client commands, which share the prefix.
const FOREIGN_VARIABLES: &[&str] = &[
    "HOLDFAST_ACCESS_TOKEN",
    "HOLDFAST_ACCESS_TOKEN_FILE",
    "HOLDFAST_ADDR",
    "HOLDFAST_CACERT",
    "HOLDFAST_CERT",
    "HOLDFAST_CERT_KEY",
    "HOLDFAST_CONFIG",
    "HOLDFAST_DEADLINE",
    "HOLDFAST_ELECTION",
    "HOLDFAST_HELD",
    "HOLDFAST_LOCK",
    "HOLDFAST_MIN_VALID_TOKEN",
    "HOLDFAST_MIN_VALID_TOKENS",
    "HOLDFAST_SESSION",
    "HOLDFAST_SHARD",
    "HOLDFAST_SLOTS",
    "HOLDFAST_TOKEN",
    "HOLDFAST_TOKENS",
    "HOLDFAST_TOKEN_FILE",
    "HOLDFAST_USER",
];

/// The prefix of all variables.
pub(super) const PREFIX: &str = "HOLDFAST_";

/// Returns the variable that overrides a key: `HOLDFAST_RAFT_HEARTBEAT` for `raft.heartbeat`.
pub(crate) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// Returns `true` if a variable with the prefix is not a key. It belongs to the client commands, or Kubernetes sets it
/// for a Service named `holdfast` (`HOLDFAST_SERVICE_HOST`, `HOLDFAST_PORT_7400_TCP` ...).
pub(super) fn is_foreign(variable: &str) -> bool {
    FOREIGN_VARIABLES.contains(&variable)
        || variable.contains("_SERVICE_")
        || variable.ends_with("_PORT")
        || variable.contains("_PORT_")
}

/// Returns the known key most similar to an unknown key, if it is similar enough.
pub(super) fn most_similar<'a>(
    unknown: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|key| (strsim::jaro_winkler(unknown, key), key))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, key)| key)
}
