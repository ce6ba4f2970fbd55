//! Watching the tree and the locks without a session: changes in log order, since a revision.
//!
//! A watcher that asks for discarded changes, or falls behind the log of changes, is told so, with the revision to restart
//! from. Watches of sessions are in `stream`.
//!
//! Bounds: `ServiceConfig::history_events_max` changes and `history_bytes_max` bytes; `watch_streams_max` watchers, each with
//! at most [`BATCH_MAX`] copied changes.

mod change_log;
mod filter;
mod reader;
mod watchers;

use holdfast_machine::Machine;
use holdfast_types::{
    Data, FencingToken, Identity, LockName, LossCause, Owner, Rejection, ReleaseRequest, Revision,
    SessionName, TreeRejection, ZnodePath,
};

pub use filter::WatchFilter;
pub use reader::WatchStream;

pub(crate) use change_log::ChangeLog;

/// Changes copied for a follower at once.
pub(crate) const BATCH_MAX: usize = 256;

/// What to watch.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// Which nodes and locks.
    pub filter: WatchFilter,
    /// Only what changed after this revision; none: from now on.
    pub since: Option<Revision>,
    /// Whom the caller has proved to be: names it may not list are left out.
    pub identities: Vec<Identity>,
}

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZnodeChangeKind {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its data was replaced.
    Changed,
}

/// One thing told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchItem {
    /// A node changed.
    Change {
        /// When.
        revision: Revision,
        /// What happened.
        kind: ZnodeChangeKind,
        /// Where.
        path: ZnodePath,
    },
    /// A lock was granted.
    Granted {
        /// When.
        revision: Revision,
        /// Which lock.
        lock: LockName,
        /// Under which token.
        token: FencingToken,
        /// To whom.
        session: SessionName,
        /// Who within the session.
        owner: Owner,
        /// What it shows beside its place.
        value: Option<Data>,
    },
    /// A lock's holder shows another value.
    ValueSet {
        /// When.
        revision: Revision,
        /// Which lock.
        lock: LockName,
        /// Whose hold.
        session: SessionName,
        /// Who within the session.
        owner: Owner,
        /// The token it is held under.
        token: FencingToken,
        /// The new value.
        value: Option<Data>,
    },
    /// A lock's holder no longer holds it.
    Lost {
        /// When.
        revision: Revision,
        /// Which lock.
        lock: LockName,
        /// Whose hold.
        session: SessionName,
        /// Who within the session.
        owner: Owner,
        /// The token it was held under.
        token: FencingToken,
        /// Why.
        cause: LossCause,
    },
    /// A holder is asked to give a lock back.
    ReleaseRequested {
        /// When.
        revision: Revision,
        /// Which lock.
        lock: LockName,
        /// Whose hold.
        session: SessionName,
        /// Who within the session.
        owner: Owner,
        /// The token it is held under.
        token: FencingToken,
        /// By when, and why.
        request: ReleaseRequest,
    },
    /// Everything up to here was told: a place to go on from, even if nothing happens for long.
    Bookmark {
        /// Up to where.
        revision: Revision,
    },
    /// What happened before is forgotten: look at the state anew, then go on from here.
    Compacted {
        /// From where to go on.
        restart_from: Revision,
    },
    /// The node is about to stop: go on at another one.
    ShuttingDown,
}

/// An item, and where to go on from if it is the last one seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The `since` with which nothing after this item is missed. Between two items of one revision it is still the
    /// revision before.
    pub resume: Revision,
    /// The item.
    pub item: WatchItem,
}

/// Whether somebody may know that there is, or was, such a path: who may read the node, or list the directory it lies
/// in. Of a directory that has gone too, the next one above is asked.
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
