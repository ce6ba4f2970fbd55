//! Rebuilds the lock index from the znodes: to load a snapshot, and to check the maintained index.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_types::{SessionId, ZnodePath};

use crate::Machine;
use crate::invariants::ensure;
use crate::lock::index::{Lock, LockIndex};
use crate::lock::lock_entry::LockEntry;
use crate::tree::znode::{LockDirectory, Znode, ZnodeKind};

/// The index that the znodes describe, and the number of queue entries of each session.
type Rebuilt = (LockIndex, BTreeMap<SessionId, u32>);

impl Machine {
    /// Builds the index from the znodes alone.
    ///
    /// # Errors
    /// An entry contradicts its znode, lies outside a lock's directory, or repeats a sequence number or an acquire
    /// revision.
    pub(crate) fn rebuild_locks(&self) -> Result<Rebuilt, String> {
        let mut locks = self.locks.without_locks();
        let mut counts = BTreeMap::new();
        for (path, node) in self.tree.iter() {
            if let (Some(lock_directory), Some(lock)) = (node.lock_directory(), path.as_lock())
                && lock_directory.is_of_lock()
            {
                let LockDirectory { last_token, stored_policy, cooldowns, .. } =
                    lock_directory.clone();
                locks.restore_lock(
                    lock,
                    Lock { last_token, stored_policy, cooldowns, ..Lock::new(path.clone()) },
                );
            }
        }
        for (path, node) in self.tree.iter() {
            if let Some(entry) = node.entry() {
                self.rebuild_entry(&mut locks, path, node, entry)?;
                *counts.entry(entry.session).or_default() += 1;
            }
        }
        Ok((locks, counts))
    }

    fn rebuild_entry(
        &self,
        locks: &mut LockIndex,
        path: &ZnodePath,
        node: &Znode,
        entry: &Arc<LockEntry>,
    ) -> Result<(), String> {
        let Some(directory) = path.parent() else {
            return Err("the root is a queue entry".to_owned());
        };
        let counter = self.tree.get(&directory).map_or(0, Znode::counter);
        let name = self.sessions.get(entry.session).map(|session| &session.name);
        let sound = node.kind == ZnodeKind::Ephemeral(entry.session)
            && entry.path == *path
            && entry.ticket.0 == node.czxid.0
            && entry.since == node.ctime
            && entry.requested_in >= node.czxid
            && entry.requested_in <= self.revision
            && entry.sequence() < counter
            && name == Some(&entry.session_name);
        ensure(sound, || format!("{path} contradicts its queue entry"))?;
        let outside = || format!("queue entry {path} is outside a lock's directory");
        let lock = directory.as_lock().ok_or_else(outside)?;
        let own = locks.restore_entry(&lock, &directory, entry);
        ensure(own, || format!("{path} repeats a sequence number or an acquire revision"))
    }

    pub(crate) fn check_index(&self, rebuilt: &LockIndex) -> Result<(), String> {
        match self.locks.difference(rebuilt) {
            Some(part) => Err(format!("the lock index differs from the znodes: {part}")),
            None => Ok(()),
        }
    }

    pub(crate) fn check_queue_entry_counts(
        &self,
        counts: &BTreeMap<SessionId, u32>,
    ) -> Result<(), String> {
        for session in self.sessions.iter() {
            let counted = counts.get(&session.id).copied().unwrap_or(0);
            ensure(session.queue_entries == counted, || {
                format!("session {} has a wrong number of queue entries", session.name)
            })?;
        }
        Ok(())
    }
}
