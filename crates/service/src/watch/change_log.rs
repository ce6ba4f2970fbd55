//! The recent changes of this node, in log order.
//!
//! `apply` appends changes; watchers copy them in batches. The log discards the oldest changes when a bound is reached,
//! and all changes when entries were skipped. It keeps the revision after which it is complete.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_types::{
    AccessList, Applied, Event, Rejection, Revision, SessionName, TreeEvent, ZnodePath,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::watchers::{WatchFilter, Watcher, Watchers};
use crate::history::hold_notice::{BreakReasons, HoldChange, HoldNotice};
use crate::request::Failure;

/// The maximum number of changes copied for a watcher at once.
const BATCH_MAX: usize = 256;
/// The bytes of an item besides its path.
const ITEM_BYTES: usize = 160;
/// The maximum number of changes that one search reads, because `apply` waits for it.
const LOOK_BACK_MAX: usize = 16_384;

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
        /// The access list of a deleted znode; `None` allowed every client everything.
        deleted_acl: Option<Arc<AccessList>>,
    },
    /// A hold changed.
    Hold(HoldNotice),
    /// All changes up to this revision were sent: a watch can resume here.
    Bookmark { revision: Revision },
    /// Earlier changes were discarded: read the state, then resume from `restart_from`.
    Compacted { restart_from: Revision },
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

#[derive(Clone, Debug)]
struct LoggedChange {
    revision: Revision,
    /// The path of the node, or of the lock's directory.
    path: ZnodePath,
    item: WatchItem,
}

#[derive(Debug, Default)]
struct ChangeLogState {
    changes: VecDeque<LoggedChange>,
    /// The number of the first change.
    first: u64,
    bytes: usize,
    /// The log has all changes after this revision, up to `head`.
    compacted: Revision,
    /// The last applied revision.
    head: Revision,
    watchers: Watchers,
}

#[derive(Debug)]
pub(crate) struct ChangeLog {
    state: Mutex<ChangeLogState>,
    events_max: usize,
    bytes_max: usize,
    watchers_max: usize,
}

#[derive(Debug)]
pub(crate) struct WatcherHandle {
    pub(crate) number: u64,
    pub(crate) woken: Arc<Notify>,
    /// The watcher receives changes after this revision.
    pub(crate) after: Revision,
}

#[derive(Debug)]
pub(crate) enum ReadChanges {
    /// Changes for the watcher, oldest first; none if the search has to go on.
    Changes(Vec<WatchedItem>),
    /// No change up to this revision.
    Nothing(Revision),
    /// Changes for the watcher may have been discarded.
    Compacted(Revision),
}

impl ChangeLog {
    pub(crate) fn new(events_max: usize, bytes_max: usize, watchers_max: usize) -> Self {
        Self { state: Mutex::default(), events_max, bytes_max, watchers_max }
    }

    /// Runs inside the apply step.
    pub(crate) fn on_applied(&self, applied: &Applied) {
        let reasons = BreakReasons::of(&applied.events);
        let mut state = self.state.lock();
        for (revision, event) in &applied.events {
            if let Some(change) = logged(*revision, event, &reasons) {
                state.push(change);
            }
        }
        state.head = applied.revision;
        while state.changes.len() > self.events_max || state.bytes > self.bytes_max {
            state.discard_oldest();
        }
    }

    /// Entries were skipped: discards all changes.
    pub(crate) fn restart(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.first += state.changes.len() as u64;
        state.changes.clear();
        state.bytes = 0;
        (state.compacted, state.head) = (revision, revision);
        state.watchers.miss();
    }

    /// Adds a watcher of the changes after `since`, or from now on.
    ///
    /// # Errors
    /// [`Failure::Compacted`] if some of these changes were discarded, and [`Failure::TooManyStreams`].
    pub(crate) fn add_watcher(
        &self,
        filter: WatchFilter,
        since: Option<Revision>,
    ) -> Result<WatcherHandle, Failure> {
        let mut state = self.state.lock();
        let after = since.unwrap_or(state.head);
        if after < state.compacted {
            return Err(Failure::Compacted { restart_from: state.head });
        }
        if state.watchers.len() >= self.watchers_max {
            return Err(Failure::TooManyStreams { limit: self.watchers_max });
        }
        let woken = Arc::new(Notify::new());
        let unread = Some(state.number_after(after));
        let watcher = Watcher { filter, after, unread, missed: false, woken: woken.clone() };
        Ok(WatcherHandle { number: state.watchers.enter(watcher), woken, after })
    }

    pub(crate) fn watchers(&self) -> usize {
        self.state.lock().watchers.len()
    }

    pub(crate) fn leave(&self, number: u64) {
        self.state.lock().watchers.leave(number);
    }

    /// Returns the events of a session after a revision. `None` if some were discarded, or if the search would read
    /// more than [`LOOK_BACK_MAX`] changes while the log is locked.
    pub(crate) fn of_session(
        &self,
        session: &SessionName,
        since: Revision,
    ) -> Option<Vec<HoldNotice>> {
        let state = self.state.lock();
        let skip = usize::try_from(state.number_after(since) - state.first).unwrap_or(usize::MAX);
        if since < state.compacted || state.changes.len().saturating_sub(skip) > LOOK_BACK_MAX {
            return None;
        }
        let later = state.changes.iter().skip(skip);
        let notices = later.filter_map(|change| {
            if let WatchItem::Hold(notice) = &change.item { Some(notice) } else { None }
        });
        let of_session =
            notices.filter(|notice| notice.session == *session && notice.is_session_event());
        Some(of_session.cloned().collect())
    }

    pub(crate) fn read(&self, number: u64) -> ReadChanges {
        self.state.lock().read(number)
    }
}

impl ChangeLogState {
    fn push(&mut self, change: LoggedChange) {
        let number = self.first + self.changes.len() as u64;
        self.watchers.wake(number, &change.path);
        self.bytes += cost(&change);
        self.changes.push_back(change);
    }

    fn discard_oldest(&mut self) {
        if let Some(change) = self.changes.pop_front() {
            self.first += 1;
            self.bytes -= cost(&change);
            self.compacted = change.revision;
        }
    }

    /// Returns the number of the first change after a revision.
    fn number_after(&self, revision: Revision) -> u64 {
        self.first + self.changes.partition_point(|change| change.revision <= revision) as u64
    }

    fn read(&mut self, number: u64) -> ReadChanges {
        let Self { changes: log, first, head, compacted, watchers, .. } = self;
        let Some(watcher) = watchers.get_mut(number) else { return ReadChanges::Nothing(*head) };
        let from = watcher.unread.unwrap_or(*first);
        if std::mem::take(&mut watcher.missed) || from < *first {
            (watcher.after, watcher.unread) = (*head, None);
            return ReadChanges::Compacted(*head);
        }
        let Some(from) = watcher.unread else {
            return ReadChanges::Nothing((*head).max(*compacted));
        };
        let skip = usize::try_from(from - *first).unwrap_or(usize::MAX);
        let (mut found, mut looked): (Vec<WatchedItem>, u64) = (Vec::new(), 0);
        let mut more = false;
        for change in log.iter().skip(skip) {
            let concerned = change.revision > watcher.after && watcher.filter.matches(&change.path);
            // The `resume` of the batch's last change depends on the revision of the next change.
            if concerned && found.len() == BATCH_MAX || looked == LOOK_BACK_MAX as u64 {
                more = true;
                break;
            }
            looked += 1;
            if concerned {
                let resume = change.revision;
                found.push(WatchedItem { resume, item: change.item.clone() });
            }
        }
        watcher.unread = more.then_some(from + looked);
        let next = log.get(skip + usize::try_from(looked).unwrap_or(usize::MAX));
        mark_resumption(&mut found, next.filter(|_| more).map(|change| change.revision));
        if found.is_empty() && !more {
            ReadChanges::Nothing(*head)
        } else {
            ReadChanges::Changes(found)
        }
    }
}

/// Sets `resume` of each change: its own revision if no other change of the revision follows, else the revision before.
fn mark_resumption(changes: &mut [WatchedItem], mut following: Option<Revision>) {
    for change in changes.iter_mut().rev() {
        let revision = change.resume;
        if following == Some(revision) {
            change.resume = Revision(revision.0 - 1);
        }
        following = Some(revision);
    }
}

fn cost(change: &LoggedChange) -> usize {
    let data = match &change.item {
        WatchItem::Hold(HoldNotice { change, .. }) => match change {
            HoldChange::Granted { value } | HoldChange::ValueChanged { value } => {
                value.as_deref().map_or(0, <[u8]>::len)
            }
            HoldChange::Lost { broken, .. } => broken.as_ref().map_or(0, |why| why.as_str().len()),
            HoldChange::ReleaseRequested(_) => 0,
        },
        WatchItem::Change { .. }
        | WatchItem::Bookmark { .. }
        | WatchItem::Compacted { .. }
        | WatchItem::Denied(_)
        | WatchItem::ShuttingDown => 0,
    };
    ITEM_BYTES + change.path.as_str().len() + data
}

/// Returns the change that watchers receive for an event.
fn logged(revision: Revision, event: &Event, reasons: &BreakReasons<'_>) -> Option<LoggedChange> {
    let Event::Tree(event) = event else {
        let notice = HoldNotice::of(revision, event, reasons)?;
        let path = ZnodePath::of_lock(&notice.lock);
        return Some(LoggedChange { revision, path, item: WatchItem::Hold(notice) });
    };
    let (kind, path, deleted_acl) = match event {
        TreeEvent::Created { path } => (ZnodeChangeKind::Created, path, None),
        TreeEvent::Deleted { path, acl } => (ZnodeChangeKind::Deleted, path, acl.clone()),
        TreeEvent::DataChanged { path } => (ZnodeChangeKind::Changed, path, None),
        TreeEvent::SoftQuotaExceeded { .. } => return None,
    };
    let item = WatchItem::Change { revision, kind, path: path.clone(), deleted_acl };
    Some(LoggedChange { revision, path: path.clone(), item })
}

#[cfg(test)]
mod tests;
