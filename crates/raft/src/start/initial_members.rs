//! The file with the initial members of the cluster.
//!
//! Each initial member writes it before the first log entry exists: the incarnations of the data directories that
//! agreed to form one cluster. It identifies the peers' data directories before the log registers them. After the loss
//! of a majority, the file proves that a cluster existed.

use std::path::{Path, PathBuf};

use holdfast_codec::Kind;
use holdfast_types::{Incarnation, NodeId};
use parking_lot::RwLock;

use crate::error::StartError;
use crate::start::identity::{INITIAL_MEMBERS_FILE, read_file};
use crate::wire::InitialMembers;

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

    use holdfast_types::{ClusterId, FeatureLevel};

    use super::*;

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
