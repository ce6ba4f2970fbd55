//! The location of the znode of a new queue entry, and the check that the tree has room for it.

use holdfast_types::{LockName, Mode, Perms, Rejection, TreeRejection, ZnodePath};

use crate::Machine;
use crate::context::ApplyContext;
use crate::lock::entry_name::own_name;
use crate::tree::create::{check_counter, child_path};
use crate::tree::multi::Requester;

/// The location of a new entry: the missing directories, its znode and its sequence number.
#[derive(Debug)]
pub(crate) struct EntryLocation {
    pub(crate) directory: ZnodePath,
    /// Directories to create, parents first.
    pub(crate) missing: Vec<ZnodePath>,
    pub(crate) path: ZnodePath,
    pub(crate) sequence: u64,
}

impl Machine {
    /// Returns the location of a new entry of the HTTP API, if the tree has room for its znode.
    pub(crate) fn location_with_room(
        &self,
        lock: &LockName,
        mode: Mode,
        ctx: &ApplyContext<'_>,
    ) -> Result<EntryLocation, Rejection> {
        let location = self.location_of(lock, mode, ctx)?;
        self.check_room_for_znodes(location.missing.len() + 1)?;
        let new = location.missing.iter().chain(Some(&location.path));
        self.tree.check_quotas(&location.path, &new, 0)?;
        Ok(location)
    }

    fn location_of(
        &self,
        lock: &LockName,
        mode: Mode,
        ctx: &ApplyContext<'_>,
    ) -> Result<EntryLocation, Rejection> {
        let (directory, missing) = if let Some(indexed) = self.locks.get(lock) {
            (indexed.directory.clone(), Vec::new())
        } else {
            let directory = ZnodePath::of_lock(lock);
            let missing = self.missing_directories(&directory)?;
            (directory, missing)
        };
        let nearest = missing.first().and_then(ZnodePath::parent);
        let nearest = self.allowed(
            nearest.as_ref().unwrap_or(&directory),
            Perms::CREATE,
            Requester::ANYBODY,
        )?;
        let sequence = nearest.next_sequence(!missing.is_empty());
        check_counter(sequence)?;
        let path = child_path(&directory, &own_name(mode, sequence, None))?;
        if !self.tree.contains(&path) {
            return Ok(EntryLocation { directory, missing, path, sequence });
        }
        // A plain node has that name.
        let path = child_path(&directory, &own_name(mode, sequence, Some(ctx.revision.0)))?;
        if self.tree.contains(&path) {
            return Err(TreeRejection::ZnodeExists { path }.into());
        }
        Ok(EntryLocation { directory, missing, path, sequence })
    }
}
