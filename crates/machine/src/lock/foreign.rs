//! Znodes of ZooKeeper clients that do not see the queue entries of HTTP callers.
//!
//! Such a client can enter beside a holder. It is therefore never in one lock with an HTTP caller: the second one of
//! the two is rejected. The znodes are queue entries of an unknown recipe, ephemerals that are not sequential, and
//! permanent znodes with the name of a queue entry. Curator's semaphores put theirs into `NAME/leases`. Bound: a look-up
//! and a foreign create cost a few steps.

use holdfast_types::{LockName, LockRejection, Rejection, SessionId, ZnodePath};

use crate::Machine;
use crate::lock::entry_name::EntryRecipe;
use crate::lock::index::Lock;
use crate::tree::znode::{Znode, ZnodeKind};

/// The directory of a semaphore of Curator, below the one of its name.
const LEASES: &str = "leases";

/// Whether a new child of a lock's directory belongs to a client that does not see HTTP callers.
pub(crate) fn is_foreign(path: &ZnodePath, kind: ZnodeKind, is_entry: bool) -> bool {
    let is_in_lock = || {
        let below = path.as_str().strip_prefix("/locks/");
        below.is_some_and(|below| below.contains('/'))
    };
    let reads_names = || EntryRecipe::of(path.file_name()) != EntryRecipe::Unknown;
    match kind {
        ZnodeKind::Ephemeral(_) if is_entry => !reads_names(),
        ZnodeKind::Ephemeral(_) => is_in_lock(),
        ZnodeKind::Persistent | ZnodeKind::Ttl(_) => reads_names() && is_in_lock(),
        ZnodeKind::Container(_) => false,
    }
}

impl Znode {
    /// As [`is_foreign`], for an existing znode.
    pub(crate) fn is_foreign(&self, path: &ZnodePath) -> bool {
        match self.entry() {
            Some(entry) => entry.recipe() == EntryRecipe::Unknown,
            None => is_foreign(path, self.kind, false),
        }
    }
}

impl Machine {
    /// The znodes of other clients that an HTTP caller of this lock cannot stand beside, sorted.
    pub(crate) fn foreign_znodes(&self, lock: &LockName) -> impl Iterator<Item = &ZnodePath> {
        let index = &self.tree.node_indexes;
        let directory = index.has_foreign().then(|| ZnodePath::of_lock(lock));
        let leases = directory.as_ref().and_then(|directory| directory.child(LEASES).ok());
        [directory, leases].into_iter().flatten().flat_map(|directory| index.foreign_in(directory))
    }

    /// Rejects an HTTP caller's new entry in a lock with a foreign znode.
    pub(crate) fn check_no_foreign_znode(&self, lock: &LockName) -> Result<(), Rejection> {
        match self.foreign_znodes(lock).next().cloned() {
            Some(path) => Err(LockRejection::ForeignRecipe { path }.into()),
            None => Ok(()),
        }
    }

    /// Rejects a reader of Curator whose session writes, if an HTTP caller waits. Up to its version 5.4, such a reader enters at
    /// once, and it would still read when the HTTP caller is granted. It has no safe place before that caller: a reader of
    /// another thread of this client would wait for it.
    pub(crate) fn check_no_downgrade_beside_http_waiter(
        &self,
        lock: &LockName,
        session: SessionId,
        recipe: EntryRecipe,
        path: &ZnodePath,
    ) -> Result<(), Rejection> {
        let beside_waiter = |indexed: &&Lock| indexed.http_waiters > 0;
        let holder = self.locks.get(lock).filter(beside_waiter).and_then(|it| it.holders.first());
        let is_writer =
            holder.is_some_and(|it| it.session == session && it.recipe() == EntryRecipe::Exclusive);
        if recipe == EntryRecipe::CuratorReader && is_writer {
            return Err(LockRejection::ForeignRecipe { path: path.clone() }.into());
        }
        Ok(())
    }

    /// Rejects a foreign znode in a lock with an entry of an HTTP caller.
    pub(crate) fn check_not_beside_http_caller(
        &self,
        directory: &ZnodePath,
        path: &ZnodePath,
    ) -> Result<(), Rejection> {
        let semaphore = directory.parent().filter(|_| directory.file_name() == LEASES);
        let locks = [Some(directory.clone()), semaphore].into_iter().flatten();
        let mut locks = locks.filter_map(|directory| directory.as_lock());
        let has_http_caller = |lock| self.locks.get(&lock).is_some_and(Lock::has_http_caller);
        if locks.any(has_http_caller) {
            return Err(LockRejection::ForeignRecipe { path: path.clone() }.into());
        }
        Ok(())
    }
}
