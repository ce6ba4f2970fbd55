//! Which changes a stream shows to its client: those of znodes that the client may read, as in ZooKeeper from 3.9.2 on.
//!
//! The access list of the time of the change counts, and not the one of the time at which the watch was armed.

use holdfast_machine::Machine;
use holdfast_types::{AccessList, Identity, Perms, Rejection, TreeRejection, ZnodePath};

use super::message::NoticeKind;
use crate::watch::is_visible;

/// A change that fires a watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FiredChange<'a> {
    pub(crate) kind: NoticeKind,
    pub(crate) path: &'a ZnodePath,
    /// The access list of a deleted znode; `None` is the open list.
    pub(crate) deleted_acl: Option<&'a AccessList>,
    /// No read of the znode armed the watch.
    pub(crate) unread: bool,
}

impl FiredChange<'_> {
    /// Whether a client with these identities may see the change.
    pub(crate) fn is_shown(&self, machine: &Machine, identities: &[Identity]) -> bool {
        if self.kind == NoticeKind::Deleted {
            return self.deleted_acl.is_none_or(|acl| acl.allows(Perms::READ, identities));
        }
        match machine.exists(self.path, identities) {
            Ok(_) => true,
            // A later command of the same log entry deleted the znode. Its deletion does not fire the watch again.
            Err(Rejection::Tree(TreeRejection::NoZnode { .. })) => {
                !self.unread || is_visible(machine, self.path, identities)
            }
            Err(_) => false,
        }
    }
}
