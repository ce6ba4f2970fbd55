//! The identity of a data directory: cluster, node, and a random incarnation.
//!
//! The incarnation lets peers distinguish a restarted node from a wiped one. A lock file prevents concurrent use of
//! one directory by two processes. A directory of another node or cluster is an error, as is a directory with a log
//! but no identity file.
//!
//! A caller proves that it owns the directory by the content of a file that it has written there.

use std::fs::{DirEntry, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use holdfast_codec::Kind;
use holdfast_storage::has_log;
use holdfast_types::{Incarnation, NodeId, OWNER_PROOF_FILE};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::error::StartError;
use crate::failure::old_program;
use crate::wire::InitialMembers;

/// The name of the identity file.
pub(crate) const IDENTITY_FILE: &str = "identity";
const IDENTITY_PARTIAL: &str = "identity.partial";
pub(crate) const LOCK_FILE: &str = "lock";
/// The directory that ext4 creates in an empty volume.
pub(crate) const LOST_AND_FOUND: &str = "lost+found";
/// The name of the file with the initial members.
pub(crate) const INITIAL_MEMBERS_FILE: &str = "initial-members";
/// The name of the file with the invitation.
pub(crate) const JOIN_FILE: &str = "join";
/// The file with the id that the configuration of a readmitted node has. Only a node with this configured id may use the
/// directory under another id.
const CONFIGURED_FILE: &str = "configured-id";
/// The suffix of the directory that a recovery writes before it takes the place of the old one.
pub(crate) const RECOVERING_SUFFIX: &str = ".recovering";
/// The log directory within a data directory.
pub(crate) const LOG_DIR: &str = "log";
/// The snapshot directory within a data directory.
pub(crate) const SNAPSHOT_DIR: &str = "snapshots";

/// The content of the identity file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
}

/// A data directory, locked by this process until the drop of the value.
#[derive(Debug)]
pub(crate) struct DataDir {
    pub(crate) identity: Identity,
    _lock: File,
}

/// Whether a data directory belongs to no cluster and to no invitation to one.
pub fn is_new_data_dir(path: &Path) -> bool {
    !path.join(IDENTITY_FILE).exists() && !path.join(JOIN_FILE).exists()
}

impl DataDir {
    /// Opens a directory and creates the identity of a new one.
    pub(crate) fn open(path: &Path, cluster: &str, node: NodeId) -> Result<Self, StartError> {
        check_recovered(path)?;
        create_data_dir(path)?;
        let lock = lock(path)?;
        let has_log = has_log(&path.join(LOG_DIR));
        // A node that has stored initial members has had a log.
        if path.join(INITIAL_MEMBERS_FILE).exists() && !has_log {
            return Err(StartError::NoIdentity(path.to_owned()));
        }
        if !path.join(IDENTITY_FILE).exists() {
            check_complete(path)?;
        }
        let identity = match read(path)? {
            Some(identity) => {
                let identity = check(path, identity, cluster, node)?;
                // Without its log this node lost its votes, or never had a log. In both cases it gets a new
                // incarnation.
                if has_log { identity } else { create(path, cluster, node)? }
            }
            None => create(path, cluster, node)?,
        };
        Ok(Self { identity, _lock: lock })
    }
}

impl DataDir {
    /// Opens the directory of a stopped node, whichever it is. Creates nothing but the lock file.
    pub(crate) fn open_existing(path: &Path) -> Result<Self, StartError> {
        check_recovered(path)?;
        if !path.join(IDENTITY_FILE).exists() {
            let kept = directory_before_recovery(path);
            return Err(if kept.exists() {
                StartError::InterruptedRecovery { dir: path.to_owned(), kept }
            } else {
                StartError::NoIdentity(path.to_owned())
            });
        }
        let lock = lock(path)?;
        let identity = read(path)?.ok_or_else(|| StartError::NoIdentity(path.to_owned()))?;
        Ok(Self { identity, _lock: lock })
    }
}

/// Creates a data directory and its missing parents durably, for their owner only.
pub(crate) fn create_data_dir(dir: &Path) -> Result<(), StartError> {
    holdfast_storage::create_dir(dir).map_err(|error| StartError::DataDir {
        dir: dir.to_owned(),
        source: io::Error::other(error),
    })
}

/// Locks a data directory for this process until the drop of the file.
pub(crate) fn lock(dir: &Path) -> Result<File, StartError> {
    let failed = |source| StartError::DataDir { dir: dir.to_owned(), source };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join(LOCK_FILE))
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StartError::InUse(dir.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

pub(crate) fn read(dir: &Path) -> Result<Option<Identity>, StartError> {
    read_file(&dir.join(IDENTITY_FILE), Kind::Identity, "restore the file")
}

/// Reads and decodes a small file of a data directory; `None` if it does not exist.
///
/// # Errors
/// [`StartError::OldProgram`] for a file of a newer holdfast; [`StartError::Store`] with `advice` for a damaged one.
pub(crate) fn read_file<T: DeserializeOwned>(
    path: &Path,
    kind: Kind,
    advice: &str,
) -> Result<Option<T>, StartError> {
    let read = holdfast_storage::read_file(path).map_err(io::Error::other).and_then(|bytes| {
        let value = bytes.map(|bytes| holdfast_codec::decode(kind, &bytes));
        value.transpose().map_err(io::Error::other)
    });
    read.map_err(|error| match old_program(path.display(), &error) {
        Some(why) => StartError::OldProgram(why),
        None => StartError::Store(format!("{}: {error}: {advice}", path.display())),
    })
}

fn check(
    dir: &Path,
    identity: Identity,
    cluster: &str,
    node: NodeId,
) -> Result<Identity, StartError> {
    if identity.cluster != cluster {
        return Err(StartError::OtherCluster {
            dir: dir.to_owned(),
            found: identity.cluster,
            expected: cluster.to_owned(),
        });
    }
    if identity.node != node {
        return Err(StartError::OtherNode {
            dir: dir.to_owned(),
            cluster: identity.cluster,
            found: identity.node,
            expected: node,
        });
    }
    Ok(identity)
}

/// Rejects a missing directory whose recovery was killed before its last rename: the node would start as an empty cluster.
fn check_recovered(dir: &Path) -> Result<(), StartError> {
    let kept = with_suffix(dir, RECOVERING_SUFFIX);
    if !dir.join(IDENTITY_FILE).exists() && kept.exists() {
        return Err(StartError::InterruptedRecovery { dir: dir.to_owned(), kept });
    }
    Ok(())
}

/// Rejects a directory without an identity whose restore or join has not finished, for the same reason.
fn check_complete(dir: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::DataDir { dir: dir.to_owned(), source };
    for entry in dir.read_dir().map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        // A new node that was killed at its first start has only a part of its identity.
        if name.to_string_lossy().ends_with(".partial") && name != IDENTITY_PARTIAL {
            return Err(StartError::NoIdentity(dir.to_owned()));
        }
    }
    Ok(())
}

/// The id in the configuration of the readmitted node that a directory belongs to; `None` for every other directory.
pub(crate) fn configured_id(dir: &Path) -> Option<NodeId> {
    let bytes = holdfast_storage::read_file(&dir.join(CONFIGURED_FILE)).ok()??;
    std::str::from_utf8(&bytes).ok()?.parse().ok().map(NodeId)
}

/// Stores the configured id of a node that has another id. Blocks the thread until the file is durable.
pub(crate) fn write_configured_id(dir: &Path, configured: NodeId) -> Result<(), StartError> {
    let text = configured.to_string();
    holdfast_storage::write_file(&dir.join(CONFIGURED_FILE), text.as_bytes())
        .map_err(|error| StartError::Store(error.to_string()))
}

/// The path of a sibling whose name has a suffix.
pub(crate) fn with_suffix(dir: &Path, suffix: &str) -> PathBuf {
    // A path that ends with a slash gets the suffix, too.
    let mut name = dir.components().as_path().as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The name under which a recovery keeps the old directory.
pub fn directory_before_recovery(dir: &Path) -> PathBuf {
    with_suffix(dir, ".before-recovery")
}

fn create(dir: &Path, cluster: &str, node: NodeId) -> Result<Identity, StartError> {
    // A first start that was killed leaves empty directories.
    if has_log(&dir.join(LOG_DIR)) || has_files(&dir.join(SNAPSHOT_DIR)) {
        return Err(StartError::NoIdentity(dir.to_owned()));
    }
    let random = getrandom::u64().map_err(|error| StartError::Store(error.to_string()))?;
    let identity = Identity { cluster: cluster.to_owned(), node, incarnation: Incarnation(random) };
    write(dir, &identity)?;
    Ok(identity)
}

/// Whether a directory has files, and not only that of a new volume. Also true for one that cannot be read.
fn has_files(dir: &Path) -> bool {
    let is_new = |file: &io::Result<DirEntry>| {
        file.as_ref().is_ok_and(|file| file.file_name() == LOST_AND_FOUND)
    };
    dir.read_dir().map_or(dir.exists(), |mut files| !files.all(|file| is_new(&file)))
}

/// Writes the identity of a directory durably.
pub(crate) fn write(dir: &Path, identity: &Identity) -> Result<(), StartError> {
    let bytes = holdfast_codec::encode(Kind::Identity, identity)
        .map_err(|error| StartError::Store(error.to_string()))?;
    holdfast_storage::write_file(&dir.join(IDENTITY_FILE), &bytes)
        .map_err(|error| StartError::Store(error.to_string()))
}

/// The shortest proof, bytes.
const PROOF_BYTES_MIN: usize = 32;

/// Compares a proof with the file, and deletes the file. Returns false if they differ or there is no file.
pub fn take_owner_proof(data_dir: &Path, proof: &str) -> bool {
    let file = data_dir.join(OWNER_PROOF_FILE);
    let Ok(expected) = std::fs::read_to_string(&file) else { return false };
    let is_equal: bool = expected.trim().as_bytes().ct_eq(proof.as_bytes()).into();
    // A wrong proof leaves the file, so that another caller cannot end a call of the owner.
    proof.len() >= PROOF_BYTES_MIN && is_equal && std::fs::remove_file(file).is_ok()
}

/// The file with the initial members of the cluster. Each of them writes it before the first log entry exists: the
/// incarnations of the data directories that agreed to form one cluster. It identifies the peers' data directories before the
/// log registers them. After the loss of a majority, the file proves that a cluster existed.
pub(crate) struct InitialMembersFile {
    path: PathBuf,
    current: RwLock<Option<InitialMembers>>,
}

impl InitialMembersFile {
    /// Reads the file, if it exists.
    pub(crate) fn open(dir: &Path) -> Result<Self, StartError> {
        let path = dir.join(INITIAL_MEMBERS_FILE);
        let current = read_file(&path, Kind::InitialMembers, "restore the file")?;
        Ok(Self { path, current: RwLock::new(current) })
    }

    /// The initial members, if this data directory has accepted them.
    pub(crate) fn current(&self) -> Option<InitialMembers> {
        self.current.read().clone()
    }

    /// The incarnation of an initial member's data directory.
    pub(crate) fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.current.read().as_ref().and_then(|initial| initial.members.get(&node).copied())
    }

    /// Replaces the file durably. Blocks the thread.
    pub(crate) fn write(&self, members: InitialMembers) -> Result<(), String> {
        let bytes = holdfast_codec::encode(Kind::InitialMembers, &members)
            .map_err(|error| error.to_string())?;
        let mut current = self.current.write();
        holdfast_storage::write_file(&self.path, &bytes).map_err(|error| error.to_string())?;
        *current = Some(members);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use holdfast_types::{ClusterId, FeatureLevel};

    use super::*;

    #[test]
    fn only_the_owner_of_a_node_can_read_its_new_directory() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("nodes/1");
        drop(DataDir::open(&dir, "a", NodeId(1)).unwrap());
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    /// A node without its log has lost its votes, so it must not vote under the incarnation that its peers have
    /// registered.
    #[test]
    fn a_directory_without_its_log_gets_a_new_incarnation() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path(), "a", NodeId(1)).unwrap().identity;
        let second = DataDir::open(dir.path(), "a", NodeId(1)).unwrap().identity;
        assert_ne!(first.incarnation, second.incarnation);
        // The first start was killed after it had created this directory.
        std::fs::create_dir(dir.path().join(SNAPSHOT_DIR)).unwrap();
        let third = DataDir::open(dir.path(), "a", NodeId(1)).unwrap().identity;
        assert_ne!(second.incarnation, third.incarnation);
        std::fs::write(dir.path().join(SNAPSHOT_DIR).join("any"), "").unwrap();
        let refused = DataDir::open(dir.path(), "a", NodeId(1)).unwrap_err().to_string();
        assert!(refused.contains("member replace"), "{refused}");
    }

    #[test]
    fn a_directory_of_another_node_or_cluster_is_rejected_by_name() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open(dir.path(), "a", NodeId(1)).unwrap());
        let node = DataDir::open(dir.path(), "a", NodeId(2)).unwrap_err().to_string();
        assert!(node.contains("belongs to node 1") && node.contains("this is node 2"), "{node}");
        let cluster = DataDir::open(dir.path(), "b", NodeId(1)).unwrap_err().to_string();
        assert!(cluster.contains("\"a\"") && cluster.contains("\"b\""), "{cluster}");
    }

    #[test]
    fn an_identity_file_of_another_kind_is_rejected_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = holdfast_codec::encode(Kind::Identity, &("a", 1_u64, 11_u64)).unwrap();
        bytes[3] = 7;
        holdfast_storage::write_file(&dir.path().join(IDENTITY_FILE), &bytes).unwrap();
        let error = DataDir::open(dir.path(), "a", NodeId(1)).unwrap_err();
        let names_file = error.to_string().contains(IDENTITY_FILE);
        assert!(matches!(error, StartError::Store(_)) && names_file, "{error}");
    }

    #[test]
    fn a_log_without_an_identity_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join(LOG_DIR);
        std::fs::create_dir(&log).unwrap();
        std::fs::write(log.join("synced"), "").unwrap();
        let error = DataDir::open(dir.path(), "a", NodeId(1)).unwrap_err();
        assert!(matches!(error, StartError::NoIdentity(_)), "{error}");
    }

    #[test]
    fn a_restarted_node_keeps_its_incarnation_until_its_log_is_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let incarnation =
            || DataDir::open(dir.path(), "a", NodeId(1)).unwrap().identity.incarnation;
        let first = incarnation();
        let log = dir.path().join(LOG_DIR);
        std::fs::create_dir(&log).unwrap();
        for (file, of_log) in [("synced", true), ("00000001.log", true), ("lock", false)] {
            let before = incarnation();
            std::fs::write(log.join(file), "").unwrap();
            assert_eq!(incarnation() == before, of_log, "{file}");
            std::fs::remove_file(log.join(file)).unwrap();
        }
        assert_ne!(incarnation(), first);
    }

    /// A node whose log is on a volume of its own.
    #[test]
    fn a_new_node_starts_on_new_volumes() {
        let dir = tempfile::tempdir().unwrap();
        for volume in [LOG_DIR, SNAPSHOT_DIR] {
            std::fs::create_dir_all(dir.path().join(volume).join(LOST_AND_FOUND)).unwrap();
        }
        drop(DataDir::open(dir.path(), "a", NodeId(1)).unwrap());
    }

    #[test]
    fn an_initial_member_that_lost_its_log_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        drop(DataDir::open(dir.path(), "a", NodeId(1)).unwrap());
        std::fs::write(dir.path().join(INITIAL_MEMBERS_FILE), "anything").unwrap();
        let refused = || {
            let error = DataDir::open(dir.path(), "a", NodeId(1)).unwrap_err();
            assert!(matches!(error, StartError::NoIdentity(_)), "{error}");
        };
        refused();
        // A new volume in place of the log, and one that an interrupted start has used.
        let log = dir.path().join(LOG_DIR);
        std::fs::create_dir_all(log.join(LOST_AND_FOUND)).unwrap();
        refused();
        std::fs::write(log.join("lock"), "").unwrap();
        refused();
    }

    #[test]
    fn two_users_of_one_directory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let _first = DataDir::open(dir.path(), "a", NodeId(1)).unwrap();
        let error = DataDir::open(dir.path(), "a", NodeId(1)).unwrap_err();
        assert!(matches!(error, StartError::InUse(_)), "{error}");
    }

    #[test]
    fn a_proof_is_accepted_once_and_only_if_it_is_equal() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(OWNER_PROOF_FILE);
        let proof = "0123456789abcdef0123456789abcdef";
        assert!(!take_owner_proof(dir.path(), proof));
        std::fs::write(&file, format!("{proof}\n")).unwrap();
        assert!(!take_owner_proof(dir.path(), "0123456789abcdef0123456789abcdee"));
        assert!(take_owner_proof(dir.path(), proof));
        assert!(!take_owner_proof(dir.path(), proof));
        std::fs::write(&file, "short\n").unwrap();
        assert!(!take_owner_proof(dir.path(), "short"));
    }

    fn initial_members() -> InitialMembers {
        let members = BTreeMap::from([(NodeId(1), Incarnation(11)), (NodeId(2), Incarnation(22))]);
        let (cluster_id, level) = (ClusterId(5), FeatureLevel::NEWEST);
        InitialMembers { cluster_id, level, initiator: Incarnation(11), members }
    }

    #[test]
    fn the_initial_members_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let file = InitialMembersFile::open(dir.path()).unwrap();
        assert_eq!(file.current(), None);
        assert_eq!(file.incarnation(NodeId(2)), None);
        file.write(initial_members()).unwrap();
        let file = InitialMembersFile::open(dir.path()).unwrap();
        assert_eq!(file.current(), Some(initial_members()));
        assert_eq!(file.incarnation(NodeId(2)), Some(Incarnation(22)));
        assert_eq!(file.incarnation(NodeId(3)), None);
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        InitialMembersFile::open(dir.path()).unwrap().write(initial_members()).unwrap();
        let path = dir.path().join(INITIAL_MEMBERS_FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let refused = InitialMembersFile::open(dir.path()).err().unwrap().to_string();
        assert!(refused.contains("initial-members") && refused.contains("restore"), "{refused}");
    }
}
