//! Who founded the cluster, as each of its members remembers it.
//!
//! Owns one small file in the data directory, written before the first entry of the log exists: the random numbers of
//! the data directories that agreed to be one cluster. By it a member knows its peers before any log has told it, and
//! knows after the loss of a majority that there was a cluster. Written at most a few times in the life of a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use holdfast_codec::Kind;
use holdfast_types::{Incarnation, NodeId};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::error::StartError;

/// The file within a data directory.
pub(crate) const ROSTER_FILE: &str = "roster";

/// The data directories that founded a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Roster {
    /// Whose idea it was. Only this one may change its mind, and only before there is a log.
    pub(crate) founder: Incarnation,
    /// All of them, the founder included.
    pub(crate) members: BTreeMap<NodeId, Incarnation>,
}

/// The roster of one data directory.
pub(crate) struct RosterBook {
    path: PathBuf,
    roster: RwLock<Option<Roster>>,
}

impl RosterBook {
    /// Reads the roster, if there is one.
    pub(crate) fn open(dir: &Path) -> Result<Self, StartError> {
        let path = dir.join(ROSTER_FILE);
        let damaged = |reason: String| {
            StartError::Store(format!("{}: {reason}: restore the file", path.display()))
        };
        let bytes =
            holdfast_storage::read_file(&path).map_err(|error| damaged(error.to_string()))?;
        let roster = match bytes {
            Some(bytes) => Some(
                holdfast_codec::decode(Kind::Roster, &bytes)
                    .map_err(|error| damaged(error.to_string()))?,
            ),
            None => None,
        };
        Ok(Self { path, roster: RwLock::new(roster) })
    }

    /// The roster, if this directory has agreed to one.
    pub(crate) fn current(&self) -> Option<Roster> {
        self.roster.read().clone()
    }

    /// The data directory of a founding member.
    pub(crate) fn incarnation(&self, node: NodeId) -> Option<Incarnation> {
        self.roster.read().as_ref().and_then(|roster| roster.members.get(&node).copied())
    }

    /// Replaces the roster; it is on the disk on return. Blocks.
    pub(crate) fn write(&self, roster: Roster) -> Result<(), String> {
        let bytes =
            holdfast_codec::encode(Kind::Roster, &roster).map_err(|error| error.to_string())?;
        let mut current = self.roster.write();
        holdfast_storage::write_file(&self.path, &bytes).map_err(|error| error.to_string())?;
        *current = Some(roster);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster() -> Roster {
        let members = BTreeMap::from([(NodeId(1), Incarnation(11)), (NodeId(2), Incarnation(22))]);
        Roster { founder: Incarnation(11), members }
    }

    #[test]
    fn a_roster_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let book = RosterBook::open(dir.path()).unwrap();
        assert_eq!(book.current(), None);
        assert_eq!(book.incarnation(NodeId(2)), None);
        book.write(roster()).unwrap();
        let book = RosterBook::open(dir.path()).unwrap();
        assert_eq!(book.current(), Some(roster()));
        assert_eq!(book.incarnation(NodeId(2)), Some(Incarnation(22)));
        assert_eq!(book.incarnation(NodeId(3)), None);
    }

    #[test]
    fn a_damaged_roster_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        RosterBook::open(dir.path()).unwrap().write(roster()).unwrap();
        let path = dir.path().join(ROSTER_FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let refused = RosterBook::open(dir.path()).err().unwrap().to_string();
        assert!(refused.contains("roster") && refused.contains("restore"), "{refused}");
    }
}
