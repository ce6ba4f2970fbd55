//! What can go wrong, said so that the caller knows what to do next.
//!
//! Owns the error types of the crate's surface and the one distinction that matters for retries: whether a command
//! was certainly not appended, or nobody can tell. Refuses to carry any type of the consensus library.

use std::path::PathBuf;

use holdfast_types::NodeId;
use thiserror::Error;

/// Why a proposal has no outcome. All but [`ProposeError::Unknown`] mean: certainly not appended, a retry is safe.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProposeError {
    /// No leader accepted it in time. Retry.
    #[error("no leader: the command was not applied, retry")]
    NoLeader,
    /// It may or may not take effect. Ask again in a way that is safe to repeat.
    #[error("outcome unknown: the command may or may not take effect")]
    Unknown,
    /// The queue is full. Back off, then retry.
    #[error("too many commands are waiting: back off, then retry")]
    Overloaded,
    /// The leader's disk is below its reserve. Free space on it; then retry.
    #[error("the leader's disk is below its reserve: free space, then retry")]
    DiskFull,
    /// The command is larger than a log entry may be. Send less data.
    #[error("the command is too large for a log entry: send less data")]
    TooLarge,
    /// This node is stopping. Ask another one.
    #[error("this node is shutting down: ask another one")]
    ShuttingDown,
    /// This node no longer trusts its disk. Ask another one.
    #[error("this node has failed: ask another one")]
    Failed,
}

/// Why a read could not be made linearizable. Nothing was changed; a retry is always safe.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// No leader confirmed itself in time, or this node is not it. Retry, there or here.
    #[error("no leader confirmed the read: retry")]
    NoLeader,
    /// Too many reads are waiting. Back off, then retry.
    #[error("too many reads are waiting: back off, then retry")]
    Overloaded,
    /// A leader confirmed the read, but this node did not catch up with it in time. Ask another node.
    #[error("this node lags behind: ask another one")]
    Lagging,
    /// This node is stopping. Ask another one.
    #[error("this node is shutting down: ask another one")]
    ShuttingDown,
    /// This node no longer trusts its disk. Ask another one.
    #[error("this node has failed: ask another one")]
    Failed,
}

/// Why a call to a peer has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The peer certainly did not get the request.
    #[error("the peer did not get the request: {0}")]
    NotSent(String),
    /// The peer may have got the request.
    #[error("the peer may have got the request: {0}")]
    Unknown(String),
}

/// Why a node does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration contradicts itself.
    #[error("invalid configuration: {0}")]
    Config(String),
    /// The data directory cannot be used.
    #[error("failed to use the data directory {}: {source}", dir.display())]
    DataDir {
        /// Which directory.
        dir: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process has the data directory open.
    #[error("{} is in use by another process: stop it, or configure another data_dir", .0.display())]
    InUse(PathBuf),
    /// The data directory belongs to another node.
    #[error(
        "{} belongs to node {found} of cluster {cluster:?}, but this is node {expected}: fix `node` or `data_dir`",
        dir.display()
    )]
    OtherNode {
        /// Which directory.
        dir: PathBuf,
        /// Its cluster.
        cluster: String,
        /// Whose it is.
        found: NodeId,
        /// Who wanted it.
        expected: NodeId,
    },
    /// The data directory belongs to another cluster.
    #[error(
        "{} belongs to cluster {found:?}, but this node is configured for {expected:?}: fix `cluster` or `data_dir`",
        dir.display()
    )]
    OtherCluster {
        /// Which directory.
        dir: PathBuf,
        /// Whose it is.
        found: String,
        /// Who wanted it.
        expected: String,
    },
    /// The data directory holds a log, but not the file that says whose it is.
    #[error(
        "{} is not whole: a log, its snapshots, the roster or the identity file is missing; restore it whole, or start this node under a new id with an empty data_dir",
        .0.display()
    )]
    NoIdentity(PathBuf),
    /// The cluster was to be founded by a node that belongs to one.
    #[error(
        "this node belongs to a cluster already: start it without --bootstrap, which is for one start of a new cluster"
    )]
    Bootstrapped,
    /// The peers' address cannot be listened on.
    #[error("failed to listen for peers on {address}: {source}")]
    Listen {
        /// Which address.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// What is on the disk cannot be trusted, or not be read.
    #[error("failed to open the store: {0}")]
    Store(String),
}
