//! The errors of the crate's interface.
//!
//! Retries depend on one distinction: a command was certainly not appended, or its outcome is unknown. No error
//! contains an openraft type.

use std::collections::BTreeSet;
use std::path::PathBuf;

use holdfast_storage::StoreError;
use holdfast_types::NodeId;
use thiserror::Error;

/// The reason for a proposal without an outcome. All errors except [`ProposeError::Unknown`] mean that the command was
/// certainly not appended, so a retry is safe.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProposeError {
    /// No leader accepted the command in time. Retry.
    #[error("no leader: the command was not applied, retry")]
    NoLeader,
    /// The command may or may not take effect. Repeat it only if repeating is safe.
    #[error("outcome unknown: the command may or may not take effect")]
    Unknown,
    /// The queue is full. Back off, then retry.
    #[error("too many commands are waiting: back off, then retry")]
    Overloaded,
    /// The disks of these members are below their reserves, so the leader cannot write. Free space on them; then retry.
    #[error("free disk space is below the reserve on {}: free space, then retry", listed(members))]
    DiskFull { members: BTreeSet<NodeId> },
    /// The command exceeds the limit of a log entry. Send less data.
    #[error("the command is too large for a log entry: send less data")]
    TooLarge,
    /// This node is shutting down. Use another node.
    #[error("this node is shutting down: use another node")]
    ShuttingDown,
    /// This node has failed, e.g. because of its disk. Use another node.
    #[error("this node has failed: use another node")]
    Failed,
}

fn listed(members: &BTreeSet<NodeId>) -> String {
    members.iter().map(|id| format!("node {id}")).collect::<Vec<_>>().join(" and ")
}

/// The reason for a failed linearizable read. A retry is always safe.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// No leader confirmed its leadership in time, or this node does not lead. Retry.
    #[error("no leader confirmed the read: retry")]
    NoLeader,
    /// Too many reads are waiting. Back off, then retry.
    #[error("too many reads are waiting: back off, then retry")]
    Overloaded,
    /// A leader confirmed the read, but this node did not catch up with it in time. Use another node.
    #[error("this node is behind the leader: use another node")]
    Lagging,
    /// This node is shutting down. Use another node.
    #[error("this node is shutting down: use another node")]
    ShuttingDown,
    /// This node has failed, e.g. because of its disk. Use another node.
    #[error("this node has failed: use another node")]
    Failed,
}

/// The reason for a call without a reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The peer certainly did not receive the request.
    #[error("the peer did not receive the request: {0}")]
    NotSent(String),
    /// The peer received the request and rejected it without an effect.
    #[error("the peer refused the request: {0}")]
    Refused(String),
    /// The peer may have received the request.
    #[error("the peer may have received the request: {0}")]
    Unknown(String),
}

/// The reason for a failed start of a node.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration is inconsistent.
    #[error("invalid configuration: {0}")]
    Config(String),
    /// The data directory cannot be used.
    #[error("failed to use the data directory {}: {source}", dir.display())]
    DataDir { dir: PathBuf, source: std::io::Error },
    /// Another process has the data directory open.
    #[error("{} is in use by another process: stop it, or configure another data_dir", .0.display())]
    InUse(PathBuf),
    /// The data directory belongs to another node.
    #[error(
        "{} belongs to node {found} of cluster {cluster:?}, but this is node {expected}: fix `node` or `data_dir`",
        dir.display()
    )]
    OtherNode { dir: PathBuf, cluster: String, found: NodeId, expected: NodeId },
    /// The data directory belongs to another cluster.
    #[error(
        "{} belongs to cluster {found:?}, but this node is configured for {expected:?}: fix `cluster` or `data_dir`",
        dir.display()
    )]
    OtherCluster { dir: PathBuf, found: String, expected: String },
    /// A node can only join with an empty data directory.
    #[error("{} has files: join with an empty data directory", .0.display())]
    NotEmpty(PathBuf),
    /// The data directory holds only a part of its files.
    #[error(
        "{} is incomplete: the log, the snapshots, the file `initial-members` or the file `identity` is missing; after an interrupted restore or join, delete the directory and repeat the command; otherwise bring the whole directory back, or replace the node: holdfast member replace",
        .0.display()
    )]
    NoIdentity(PathBuf),
    /// A recovery was interrupted between its last two steps.
    #[error(
        "{0} has no data, because a recovery was interrupted: run mv -T {1} {0}, then repeat the command",
        dir.display(), kept.display()
    )]
    InterruptedRecovery { dir: PathBuf, kept: PathBuf },
    /// A newer holdfast wrote the data directory.
    #[error("{0}")]
    OldProgram(String),
    /// `--bootstrap` was given to a node that belongs to a cluster.
    #[error(
        "this node belongs to a cluster already: start it without --bootstrap, which is for one start of a new cluster"
    )]
    AlreadyBootstrapped,
    /// A permission for a new cluster was given to a node that belongs to a cluster.
    #[error(
        "{} belongs to a cluster, or to an invitation to one: only empty data directories form a new cluster",
        .0.display()
    )]
    NotBlank(PathBuf),
    #[error("failed to listen for peers on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    /// The files in the data directory are damaged, or cannot be read.
    #[error("failed to open the store: {0}")]
    Store(String),
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        if matches!(error, StoreError::UnknownFormat { .. }) {
            Self::OldProgram(text)
        } else {
            Self::Store(text)
        }
    }
}
