//! Members that lost their data directory and ask to join again.
//!
//! A node with an empty directory must not use its old id: it has forgotten votes and acknowledged entries. If the
//! configuration allows it (`rejoin_when_emptied`), its hello has a secret and its own peer address. The leader
//! invites it under a new id, which replaces the member at that address, and the refusal of the next hello names the id. The
//! node stores it as a [`JoinRequest`], and joins at its next start. Bound: one request for each member.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_types::{Address, NodeId, SecretHash};
use parking_lot::Mutex;

use crate::error::StartError;
use crate::identity::{self, LOG_DIR, SNAPSHOT_DIR};
use crate::join::{self, JoinRequest};
use crate::new_cluster::RestoreFailure;
use crate::stopped_node::StoppedNode;

/// A request older than this is that of a process that has ended.
const REQUEST_TTL: Duration = Duration::from_secs(10);
const SECRET_LEN: usize = 32;

/// What the hello of an emptied node contains.
#[derive(Clone)]
pub(crate) struct ReadmissionRequest {
    pub(crate) secret: [u8; SECRET_LEN],
    /// The address at which the node is, or was, a member.
    pub(crate) peer: Address,
}

impl ReadmissionRequest {
    pub(crate) fn new(peer: Address) -> Result<Self, StartError> {
        let mut secret = [0; SECRET_LEN];
        getrandom::fill(&mut secret).map_err(|error| StartError::Store(error.to_string()))?;
        Ok(Self { secret, peer })
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

/// The side of the emptied node.
pub(crate) struct Emptied {
    pub(crate) request: ReadmissionRequest,
    pub(crate) data_dir: PathBuf,
}

impl Emptied {
    /// Stores the invitation for the next start. Blocks the thread until it is durable.
    pub(crate) fn store(&self, invited: &JoinRequest) -> Result<(), StartError> {
        join::write(&self.data_dir, invited)
    }
}

/// The node that a data directory belongs to; `None` for an empty directory. If the node there was invited again under a new
/// id, first removes what it has under the old one. Blocks the thread.
///
/// # Errors
/// A file is damaged, or the directory has a log under another id than that of its invitation.
pub fn node_of_directory(dir: &Path) -> Result<Option<NodeId>, StartError> {
    let identity = identity::read(dir)?;
    let Some(invited) = join::read_any(dir)? else {
        return Ok(identity.map(|identity| identity.node));
    };
    if let Some(identity) = identity.filter(|identity| identity.node != invited.node) {
        if dir.join(LOG_DIR).exists() && has_entries(dir)? {
            let (cluster, found) = (identity.cluster, identity.node);
            let (dir, expected) = (dir.to_owned(), invited.node);
            return Err(StartError::OtherNode { dir, cluster, found, expected });
        }
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

/// The identity is removed last, so an interrupted removal is repeated.
fn remove_blank(dir: &Path) -> std::io::Result<()> {
    for part in [LOG_DIR, SNAPSHOT_DIR] {
        match std::fs::remove_dir_all(dir.join(part)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Err(_) | Ok(()) => {}
        }
    }
    std::fs::remove_file(dir.join(identity::IDENTITY_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written_and_a_damaged_one_is_none() {
        let peer = Address::parse("node-3:7401").unwrap();
        let request = ReadmissionRequest::new(peer.clone()).unwrap();
        let bytes = request.encode();
        let read = ReadmissionRequest::decode(&bytes).unwrap();
        assert_eq!((read.secret, read.peer), (request.secret, peer));
        for damaged in [&bytes[..SECRET_LEN - 1], &bytes[..SECRET_LEN], &bytes[..SECRET_LEN + 3]] {
            assert!(ReadmissionRequest::decode(damaged).is_none());
        }
    }

    #[test]
    fn an_empty_directory_belongs_to_no_node() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(node_of_directory(dir.path()).unwrap(), None);
        assert_eq!(node_of_directory(&dir.path().join("absent")).unwrap(), None);
    }
}
