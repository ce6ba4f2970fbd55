//! Watching the tree and the locks without a session: changes in log order, since a revision.
//!
//! A watcher that requests discarded changes, or falls behind the change log, receives the revision to restart from.
//! Watches of sessions are in `stream`.
//!
//! Bounds: `ServiceConfig::history_events_max` changes and `history_bytes_max` bytes; `watch_streams_max` watchers,
//! each with at most [`BATCH_MAX`] copied changes.

mod change_log;
mod filter;
mod reader;
mod watchers;

use holdfast_machine::Machine;
use holdfast_types::{Identity, Rejection, Revision, TreeRejection, ZnodePath};

use crate::history::hold_notice::HoldNotice;

pub use filter::WatchFilter;
pub use reader::WatchStream;

pub(crate) use change_log::ChangeLog;

/// The maximum number of changes copied for a watcher at once.
pub(crate) const BATCH_MAX: usize = 256;

#[derive(Clone, Debug)]
pub struct WatchRequest {
    pub filter: WatchFilter,
    /// The watch has the changes after this revision; `None` selects changes from now on.
    pub since: Option<Revision>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZnodeChangeKind {
    Created,
    Deleted,
    /// The data of the node was replaced.
    Changed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    Change {
        revision: Revision,
        kind: ZnodeChangeKind,
        path: ZnodePath,
    },
    /// A hold changed.
    Hold(HoldNotice),
    /// All changes up to this revision were sent: a watch can resume here.
    Bookmark {
        revision: Revision,
    },
    /// Earlier changes were discarded: read the state, then resume from `restart_from`.
    Compacted {
        restart_from: Revision,
    },
    /// The caller's access token was deleted or has expired.
    Denied(Rejection),
    /// The node is shutting down: resume at another node.
    ShuttingDown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedItem {
    /// The `since` to resume after this item. Between two items of one revision it is the revision before.
    pub resume: Revision,
    pub item: WatchItem,
}

/// Returns whether the identities may see that a path exists or existed: they may read the node, or the nearest
/// existing directory above it.
pub(crate) fn is_visible(machine: &Machine, path: &ZnodePath, identities: &[Identity]) -> bool {
    if machine.get(path, identities).is_ok() {
        return true;
    }
    let mut above = path.parent();
    while let Some(directory) = above {
        match machine.get(&directory, identities) {
            Ok(_) => return true,
            Err(Rejection::Tree(TreeRejection::NoZnode { .. })) => above = directory.parent(),
            Err(_) => return false,
        }
    }
    false
}
