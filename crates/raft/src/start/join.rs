//! How a node joins a running cluster: by the invitation in its data directory, which a member that lost its directory gets, too.
//!
//! `holdfast join` writes the invitation into an empty directory. The node proves with the secret that it is the invited member. A
//! node with this file never forms a new cluster.
//!
//! A node with an empty directory must not use its old id: it has forgotten votes and acknowledged entries. If the
//! configuration allows it (`rejoin_when_emptied`), its hello has a secret and its own peer address. The leader
//! invites it under a new id, which replaces the member at that address, and the refusal of the next hello names the id. The
//! node stores it as a [`JoinRequest`] and its configured id beside its identity, and joins at its next start. Until it has
//! a log, it can ask again. Bound: one request for each member.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_codec::Kind;
use holdfast_types::{Address, ClusterId, Incarnation, NodeId, SecretHash};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::StartError;
use crate::start::identity::{
    self, JOIN_FILE, LOG_DIR, LOST_AND_FOUND, SNAPSHOT_DIR, create_data_dir, read_file,
};
use crate::start::new_cluster::RestoreFailure;
use crate::start::stopped_node::StoppedNode;

/// An invitation, as the invited node has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The name of the cluster.
    pub cluster: String,
    pub cluster_id: ClusterId,
    /// The id of the invited member.
    pub node: NodeId,
    pub secret: [u8; 32],
}

/// The secret is left out.
impl std::fmt::Debug for JoinRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cluster, cluster_id, node, secret: _ } = self;
        f.debug_struct("JoinRequest")
            .field("cluster", cluster)
            .field("cluster_id", cluster_id)
            .field("node", node)
            .finish_non_exhaustive()
    }
}

/// Writes the file into a data directory, and creates the directory. Blocks the thread.
///
/// # Errors
/// The directory has files, or cannot be written.
pub fn write_join_request(dir: &Path, request: &JoinRequest) -> Result<(), StartError> {
    let failed = |source| StartError::DataDir { dir: dir.to_owned(), source };
    create_data_dir(dir)?;
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        if entry.map_err(failed)?.file_name() != LOST_AND_FOUND {
            return Err(StartError::NotEmpty(dir.to_owned()));
        }
    }
    write(dir, request)
}

/// Writes the file into a directory that exists. Blocks the thread.
fn write(dir: &Path, request: &JoinRequest) -> Result<(), StartError> {
    let store = |error: &dyn std::fmt::Display| StartError::Store(error.to_string());
    let bytes =
        holdfast_codec::encode(Kind::JoinRequest, request).map_err(|error| store(&error))?;
    holdfast_storage::write_file(&dir.join(JOIN_FILE), &bytes).map_err(|error| store(&error))
}

/// Reads the file of a data directory, if it exists.
fn read_any(dir: &Path) -> Result<Option<JoinRequest>, StartError> {
    let advice = "run holdfast join again, with an empty directory";
    read_file(&dir.join(JOIN_FILE), Kind::JoinRequest, advice)
}

/// Reads the file of the data directory of a node, if it exists.
pub(crate) fn read(
    dir: &Path,
    cluster: &str,
    node: NodeId,
) -> Result<Option<JoinRequest>, StartError> {
    let Some(request) = read_any(dir)? else { return Ok(None) };
    if request.cluster != cluster {
        let (found, expected) = (request.cluster, cluster.to_owned());
        return Err(StartError::OtherCluster { dir: dir.to_owned(), found, expected });
    }
    if request.node != node {
        let (cluster, found) = (request.cluster, request.node);
        return Err(StartError::OtherNode { dir: dir.to_owned(), cluster, found, expected: node });
    }
    Ok(Some(request))
}

/// A request older than this is that of a process that has ended.
const REQUEST_TTL: Duration = Duration::from_secs(10);
const SECRET_LEN: usize = 32;
/// The name of a blank log during its removal.
const REMOVED_DIR: &str = "log.removed";

/// What the hello of an emptied node contains.
#[derive(Clone)]
pub(crate) struct ReadmissionRequest {
    pub(crate) secret: [u8; SECRET_LEN],
    /// The address at which the node is, or was, a member.
    pub(crate) peer: Address,
}

impl ReadmissionRequest {
    /// A node that restarts sends the same request, because the incarnation of its directory is its secret. Only nodes see it.
    pub(crate) fn new(incarnation: Incarnation, peer: Address) -> Self {
        let mut secret = [0; SECRET_LEN];
        secret[..8].copy_from_slice(&incarnation.0.to_le_bytes());
        Self { secret, peer }
    }

    /// The secret, then the address as text.
    pub(crate) fn encode(&self) -> Bytes {
        [&self.secret[..], self.peer.to_string().as_bytes()].concat().into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (secret, peer) = bytes.split_first_chunk()?;
        let peer = Address::parse(std::str::from_utf8(peer).ok()?).ok()?;
        Some(Self { secret: *secret, peer })
    }
}

/// The requests that this node has received, by the member at their address.
#[derive(Debug, Default)]
pub(crate) struct EmptiedMembers(Mutex<BTreeMap<NodeId, (SecretHash, Instant)>>);

impl EmptiedMembers {
    pub(crate) fn insert(&self, member: NodeId, secret: SecretHash) {
        self.0.lock().insert(member, (secret, Instant::now()));
    }

    /// The members whose nodes still ask, and the hashes of their secrets.
    pub(crate) fn current(&self) -> Vec<(NodeId, SecretHash)> {
        let mut requests = self.0.lock();
        requests.retain(|_, (_, at)| at.elapsed() < REQUEST_TTL);
        requests.iter().map(|(member, (secret, _))| (*member, *secret)).collect()
    }
}

/// A node that asks for its readmission.
pub(crate) struct ReadmissionCaller {
    pub(crate) request: ReadmissionRequest,
    /// The id in the configuration of the node.
    pub(crate) configured: NodeId,
    pub(crate) data_dir: PathBuf,
}

impl ReadmissionCaller {
    /// Stores the invitation for the next start. Blocks the thread until it is durable.
    pub(crate) fn store(&self, invited: &JoinRequest) -> Result<(), StartError> {
        identity::write_configured_id(&self.data_dir, self.configured)?;
        write(&self.data_dir, invited)
    }
}

/// The id under which a node was readmitted; `None` if the directory is not that of a readmitted node with this configured id.
/// If the node was just invited, first removes what it has under its earlier id. Blocks the thread.
///
/// # Errors
/// A file is damaged, or the directory has a log under another id than that of its invitation.
pub fn readmitted_as(dir: &Path, configured: NodeId) -> Result<Option<NodeId>, StartError> {
    if identity::configured_id(dir) != Some(configured) {
        return Ok(None);
    }
    let identity = identity::read(dir)?;
    let Some(invited) = read_any(dir)? else {
        return Ok(identity.map(|identity| identity.node));
    };
    if let Some(identity) = identity.filter(|identity| identity.node != invited.node) {
        if holdfast_storage::has_log(&dir.join(LOG_DIR)) && has_entries(dir)? {
            let (cluster, found) = (identity.cluster, identity.node);
            let (dir, expected) = (dir.to_owned(), invited.node);
            return Err(StartError::OtherNode { dir, cluster, found, expected });
        }
        let _lock = identity::lock(dir)?;
        remove_blank(dir).map_err(|source| StartError::DataDir { dir: dir.to_owned(), source })?;
    }
    Ok(Some(invited.node))
}

fn has_entries(dir: &Path) -> Result<bool, StartError> {
    match StoppedNode::read(dir) {
        Ok(stopped) => Ok(stopped.last.is_some()),
        Err(RestoreFailure::Directory(error)) => Err(error),
        Err(error) => Err(StartError::Store(error.to_string())),
    }
}

/// The log gets another name first and the identity is removed last, so an interrupted removal is repeated.
fn remove_blank(dir: &Path) -> std::io::Result<()> {
    let if_there = |done: std::io::Result<()>| match done {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        Err(_) | Ok(()) => Ok(()),
    };
    let removed = dir.join(REMOVED_DIR);
    if_there(std::fs::remove_dir_all(&removed))?;
    if_there(std::fs::rename(dir.join(LOG_DIR), &removed))?;
    if_there(std::fs::remove_dir_all(&removed))?;
    if_there(std::fs::remove_dir_all(dir.join(SNAPSHOT_DIR)))?;
    std::fs::remove_file(dir.join(identity::IDENTITY_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written_and_a_damaged_one_is_none() {
        let peer = Address::parse("node-3:7401").unwrap();
        let request = ReadmissionRequest::new(Incarnation(7), peer.clone());
        let bytes = request.encode();
        let read = ReadmissionRequest::decode(&bytes).unwrap();
        assert_eq!((read.secret, read.peer), (request.secret, peer));
        for damaged in [&bytes[..SECRET_LEN - 1], &bytes[..SECRET_LEN], &bytes[..SECRET_LEN + 3]] {
            assert!(ReadmissionRequest::decode(damaged).is_none());
        }
    }

    /// A blank directory of node 3, which was invited as node 4.
    fn invited() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        drop(identity::DataDir::open(dir.path(), "a", NodeId(3)).unwrap());
        std::fs::create_dir(dir.path().join(LOG_DIR)).unwrap();
        let request = ReadmissionRequest::new(Incarnation(7), Address::parse("a:1").unwrap());
        let data_dir = dir.path().to_owned();
        let caller = ReadmissionCaller { request, configured: NodeId(3), data_dir };
        let (cluster, cluster_id, node) = ("a".to_owned(), ClusterId(1), NodeId(4));
        caller.store(&JoinRequest { cluster, cluster_id, node, secret: [7; SECRET_LEN] }).unwrap();
        dir
    }

    /// A new file system has the directory `lost+found`.
    #[test]
    fn a_node_joins_with_the_root_of_a_volume_and_no_other_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(LOST_AND_FOUND)).unwrap();
        let (cluster, cluster_id, node) = ("a".to_owned(), ClusterId(1), NodeId(4));
        let request = JoinRequest { cluster, cluster_id, node, secret: [7; SECRET_LEN] };
        write_join_request(dir.path(), &request).unwrap();
        let again = write_join_request(dir.path(), &request);
        assert!(matches!(again, Err(StartError::NotEmpty(_))), "{again:?}");
    }

    #[test]
    fn only_a_node_with_the_same_configured_id_takes_the_id_of_a_directory() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(readmitted_as(empty.path(), NodeId(3)).unwrap(), None);
        assert_eq!(readmitted_as(&empty.path().join("absent"), NodeId(3)).unwrap(), None);
        drop(identity::DataDir::open(empty.path(), "a", NodeId(2)).unwrap());
        assert_eq!(readmitted_as(empty.path(), NodeId(3)).unwrap(), None);
        let dir = invited();
        assert_eq!(readmitted_as(dir.path(), NodeId(2)).unwrap(), None);
        assert!(dir.path().join(LOG_DIR).exists());
        assert_eq!(readmitted_as(dir.path(), NodeId(3)).unwrap(), Some(NodeId(4)));
        assert!(!dir.path().join(LOG_DIR).exists());
        assert_eq!(readmitted_as(dir.path(), NodeId(3)).unwrap(), Some(NodeId(4)));
    }

    #[test]
    fn an_interrupted_removal_is_repeated() {
        let dir = invited();
        let removed = dir.path().join(REMOVED_DIR);
        std::fs::rename(dir.path().join(LOG_DIR), &removed).unwrap();
        std::fs::write(removed.join("part"), "x").unwrap();
        assert_eq!(readmitted_as(dir.path(), NodeId(3)).unwrap(), Some(NodeId(4)));
        assert!(!removed.exists() && !dir.path().join(identity::IDENTITY_FILE).exists());
    }
}
