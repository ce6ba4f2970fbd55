//! Changes existing znodes: delete, set data, set the access list, check a version, and sweep. The checks follow ZooKeeper.
//!
//! A sweep removes containers that have been empty long enough, and znodes whose TTL has expired. The node index finds them
//! without a scan. A container that never had a child stays longer, because its creator may be about to use it. A znode
//! with a TTL is swept when it has no children and its data has not changed for that time. Bounds: the recursive deletes of
//! one command remove at most [`DELETED_MAX`] znodes, and a sweep [`SWEEP_MAX`].

use holdfast_types::{
    AclEntry, Bound, Data, LossCause, OpReply, Perms, Rejection, Stamp, TreeEvent, TreeRejection,
    ZnodePath,
};

use crate::Machine;
use crate::context::{ApplyContext, limit_reached};
use crate::lock::index::SessionLockKey;
use crate::tree::BUILT_IN;
use crate::tree::acl;
use crate::tree::create::reserved;
use crate::tree::multi::Requester;
use crate::tree::znode::{LockDirectory, NodeIndexKey, Znode};

/// The largest number of znodes that the recursive deletes of one command remove.
pub(crate) const DELETED_MAX: usize = 10_000;

/// The largest number of znodes that one command removes, regardless of its `count_max`.
const SWEEP_MAX: u32 = 10_000;

/// The factor by which a container that never had a child stays longer.
const UNUSED_WAITS: u64 = 5;

impl Machine {
    /// Deletes a znode without children. A queue entry leaves its queue; the caller grants its lock.
    pub(crate) fn delete(
        &mut self,
        path: &ZnodePath,
        version: Option<i32>,
        by: Requester<'_>,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<OpReply, Rejection> {
        let (directory, node) = self.deletable(path, version, by)?;
        if node.children > 0 {
            return Err(TreeRejection::NotEmpty { path: path.clone() }.into());
        }
        self.remove_with_entry(&directory, path, ctx);
        ctx.locks_to_grant.extend(directory.as_lock());
        Ok(OpReply::Deleted { count: 1 })
    }

    /// Deletes a znode and everything below it, children first. Queues in deleted directories are not granted; the caller
    /// grants the other changed locks.
    pub(crate) fn delete_all(
        &mut self,
        path: &ZnodePath,
        version: Option<i32>,
        by: Requester<'_>,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<OpReply, Rejection> {
        let (directory, root) = self.deletable(path, version, by)?;
        let may = |path: &ZnodePath, node: &Znode| match node.children {
            0 => Ok(()),
            _ => acl::require(path, node, Perms::DELETE, by.identities),
        };
        let mut deleted = Vec::new();
        let below = self.tree.below_after(path, None).map(|(path, node)| (path, &**node));
        for (path, node) in std::iter::once((path, root)).chain(below) {
            may(path, node)?;
            if ctx.deleted + deleted.len() >= DELETED_MAX {
                return Err(limit_reached(Bound::DeletedAtOnce, DELETED_MAX as u64));
            }
            deleted.push(path.clone());
        }
        ctx.deleted += deleted.len();
        for path in deleted.iter().rev() {
            if let Some(directory) = path.parent() {
                self.remove_with_entry(&directory, path, ctx);
            }
        }
        ctx.locks_to_grant.extend(directory.as_lock());
        Ok(OpReply::Deleted { count: u32::try_from(deleted.len()).unwrap_or(u32::MAX) })
    }

    /// Replaces the data of a znode.
    pub(crate) fn set_data(
        &mut self,
        path: ZnodePath,
        data: Data,
        version: Option<i32>,
        by: Requester<'_>,
        ctx: &mut ApplyContext<'_>,
    ) -> Result<OpReply, Rejection> {
        let node = self.allowed(&path, Perms::WRITE, by)?;
        self.check_data_length(data.len())?;
        let more = data.len().saturating_sub(node.data.len()) as u64;
        self.tree.check_quotas(&path, &std::iter::empty(), more)?;
        matching(&path, version, node.version)?;
        let set = self.tree.set_data(&path, data, ctx.revision, ctx.now);
        let Some((node, exceeded)) = set else {
            return Err(TreeRejection::NoZnode { path }.into());
        };
        let stat = node.stat();
        ctx.emit(TreeEvent::DataChanged { path });
        ctx.soft_quota_exceeded(exceeded);
        Ok(OpReply::DataSet { stat })
    }

    /// Replaces the access list of a znode.
    pub(crate) fn set_acl(
        &mut self,
        path: &ZnodePath,
        acl: Vec<AclEntry>,
        version: Option<i32>,
        by: Requester<'_>,
    ) -> Result<OpReply, Rejection> {
        let acl = acl::normalize(path, acl, by.identities)?;
        let node = self.allowed(path, Perms::ADMIN, by)?;
        matching(path, version, node.aversion)?;
        let set = self.tree.rewrite(path, |node| {
            node.acl = acl;
            node.aversion = node.aversion.wrapping_add(1);
        });
        let Some(node) = set else {
            return Err(TreeRejection::NoZnode { path: path.clone() }.into());
        };
        Ok(OpReply::AclSet { stat: node.stat() })
    }

    /// Rejects a missing node or another version.
    pub(crate) fn check(
        &self,
        path: &ZnodePath,
        version: Option<i32>,
        by: Requester<'_>,
    ) -> Result<OpReply, Rejection> {
        let node = self.allowed(path, Perms::READ, by)?;
        matching(path, version, node.version)?;
        Ok(OpReply::Checked)
    }

    /// Returns the node and its directory, if the caller may delete it and it has this version.
    fn deletable(
        &self,
        path: &ZnodePath,
        version: Option<i32>,
        by: Requester<'_>,
    ) -> Result<(ZnodePath, &Znode), Rejection> {
        let Some(directory) = path.parent().filter(|_| !BUILT_IN.contains(&path.as_str())) else {
            return Err(reserved(path));
        };
        let no_node = || Rejection::Tree(TreeRejection::NoZnode { path: path.clone() });
        if !self.tree.contains(&directory) {
            return Err(no_node());
        }
        self.allowed(&directory, Perms::DELETE, by)?;
        let node = self.tree.get(path).ok_or_else(no_node)?;
        matching(path, version, node.version)?;
        Ok((directory, node))
    }

    /// Returns the node, if its access list allows the caller this.
    pub(crate) fn allowed(
        &self,
        path: &ZnodePath,
        needed: Perms,
        by: Requester<'_>,
    ) -> Result<&Znode, Rejection> {
        let Some(node) = self.tree.get(path) else {
            return Err(TreeRejection::NoZnode { path: path.clone() }.into());
        };
        acl::require(path, node, needed, by.identities)?;
        Ok(node)
    }

    /// Removes a znode without children, and its queue entry. The caller then grants the next waiters.
    fn remove_with_entry(
        &mut self,
        directory: &ZnodePath,
        path: &ZnodePath,
        ctx: &mut ApplyContext<'_>,
    ) {
        // It may already be removed, as part of a multi-lock.
        let Some(node) = self.tree.get(path) else { return };
        let entry = node.entry().cloned();
        match (entry, directory.as_lock()) {
            (Some(entry), Some(lock)) => {
                self.leave(&SessionLockKey::of(&lock, &entry), LossCause::Deleted, ctx);
                // No lease ends this session later.
                if entry.options().durable.is_some() {
                    self.close_if_anonymous_and_idle(entry.session, ctx);
                }
            }
            (Some(_) | None, _) => self.remove_node(directory, path, ctx),
        }
    }

    /// Adds a znode. The caller has done all checks.
    pub(crate) fn add_node(
        &mut self,
        directory: &ZnodePath,
        path: ZnodePath,
        node: Znode,
        ctx: &mut ApplyContext<'_>,
    ) {
        let exceeded = self.tree.insert(directory, path.clone(), node);
        ctx.emit(TreeEvent::Created { path });
        ctx.soft_quota_exceeded(exceeded);
    }

    /// Removes a znode that has no children and is not a queue entry. The directory of a lock also removes the lock.
    pub(crate) fn remove_node(
        &mut self,
        directory: &ZnodePath,
        path: &ZnodePath,
        ctx: &mut ApplyContext<'_>,
    ) {
        let was_lock = self
            .tree
            .get(path)
            .and_then(Znode::lock_directory)
            .is_some_and(LockDirectory::is_of_lock);
        if was_lock && let Some(lock) = path.as_lock() {
            self.locks.forget(&lock);
        }
        let acl = self.tree.remove(directory, path, ctx.revision, ctx.now);
        ctx.emit(TreeEvent::Deleted { path: path.clone(), acl });
        self.note_deleted_znode(path, ctx);
    }
}

/// Rejects a version other than the expected one.
fn matching(path: &ZnodePath, expected: Option<i32>, actual: i32) -> Result<(), Rejection> {
    match expected {
        Some(expected) if expected != actual => {
            Err(Rejection::Tree(TreeRejection::BadVersion { path: path.clone(), actual }))
        }
        Some(_) | None => Ok(()),
    }
}

impl Machine {
    /// Removes expired znodes: first containers that had children, then containers that never had any, then znodes with
    /// a TTL; the longest expired first. Returns their number. A directory that a sweep empties is idle from now.
    pub(crate) fn sweep(
        &mut self,
        empty_before: Stamp,
        count_max: u32,
        ctx: &mut ApplyContext<'_>,
    ) -> u32 {
        let mut swept = 0;
        while swept < count_max.min(SWEEP_MAX)
            && let Some(path) = self.due(empty_before, ctx.now).cloned()
            && let Some(directory) = path.parent()
        {
            self.remove_node(&directory, &path, ctx);
            swept += 1;
        }
        self.grant_stale(ctx);
        swept
    }

    /// True if a sweep at `now` of containers empty since before `empty_before` would remove a znode.
    pub fn anything_to_sweep(&self, empty_before: Stamp, now: Stamp) -> bool {
        self.due(empty_before, now).is_some()
    }

    fn due(&self, empty_before: Stamp, now: Stamp) -> Option<&ZnodePath> {
        let idle = now.0.saturating_sub(empty_before.0);
        let unused_before = empty_before.0.saturating_sub((UNUSED_WAITS - 1).saturating_mul(idle));
        let is_due = |order: &NodeIndexKey| match *order {
            NodeIndexKey::Idle(since) => since < empty_before,
            NodeIndexKey::Unused(since) => since.0 < unused_before,
            NodeIndexKey::Due(end) => end <= now,
            NodeIndexKey::OfSession(_) => false,
        };
        [NodeIndexKey::Idle(Stamp(0)), NodeIndexKey::Unused(Stamp(0)), NodeIndexKey::Due(Stamp(0))]
            .into_iter()
            .filter_map(|order| self.tree.node_indexes.first_from(order))
            .find(|(order, _)| is_due(order))
            .map(|(_, path)| path)
    }
}
