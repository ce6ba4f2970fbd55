//! The recent changes of this node, in log order.
//!
//! `apply` appends changes; watchers copy them in batches. The oldest changes are discarded when a bound is reached, all of
//! them when entries were skipped. The log knows the revision after which it is complete.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_types::{
    Applied, Event, LockEvent, Reason, Revision, SessionName, TreeEvent, ZnodePath,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::filter::WatchFilter;
use super::watchers::{Watcher, Watchers};
use super::{BATCH_MAX, WatchItem, Watched, ZnodeChangeKind};
use crate::failure::Failure;
use crate::session_events::{HoldNotice, broken_because};

/// What an item costs beside its path, bytes.
const ITEM_BYTES: usize = 160;
/// Changes that are looked through for one session.
const LOOK_BACK_MAX: usize = 16_384;

#[derive(Clone, Debug)]
struct LoggedChange {
    revision: Revision,
    /// Of the node, or of the lock's directory.
    path: ZnodePath,
    item: WatchItem,
    /// Of a hold that an operator broke: why.
    broken: Option<Reason>,
}

#[derive(Debug, Default)]
struct ChangeLogState {
    changes: VecDeque<LoggedChange>,
    /// The place of the first one.
    first: u64,
    bytes: usize,
    /// Everything after this is remembered.
    compacted: Revision,
    /// Everything up to this is here.
    head: Revision,
    watchers: Watchers,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ChangeLog {
    state: Mutex<ChangeLogState>,
    events_max: usize,
    bytes_max: usize,
    watchers_max: usize,
}

/// A watcher's place.
#[derive(Debug)]
pub(crate) struct WatcherHandle {
    pub(crate) number: u64,
    pub(crate) woken: Arc<Notify>,
    /// It is told what comes after this.
    pub(crate) after: Revision,
}

/// What a watcher finds.
#[derive(Debug)]
pub(crate) enum ReadChanges {
    /// Changes that concern it, oldest first.
    Changes(Vec<Watched>),
    /// Nothing up to here.
    Nothing(Revision),
    /// Some of what may have concerned it is forgotten.
    Compacted(Revision),
}

impl ChangeLog {
    pub(crate) fn new(events_max: usize, bytes_max: usize, watchers_max: usize) -> Self {
        Self { state: Mutex::default(), events_max, bytes_max, watchers_max }
    }

    /// Notes what an entry changed. Inside the apply step.
    pub(crate) fn on_applied(&self, applied: &Applied) {
        let mut state = self.state.lock();
        for (revision, event) in &applied.events {
            if let Some((path, item)) = note(*revision, event) {
                let broken = broken_because(&applied.events, event);
                state.push(LoggedChange { revision: *revision, path, item, broken });
            }
        }
        state.head = applied.revision;
        while state.changes.len() > self.events_max || state.bytes > self.bytes_max {
            state.forget_oldest();
        }
    }

    /// Entries were skipped: nothing before this revision is known.
    pub(crate) fn restart(&self, revision: Revision) {
        let mut state = self.state.lock();
        state.first += state.changes.len() as u64;
        state.changes.clear();
        state.bytes = 0;
        (state.compacted, state.head) = (revision, revision);
        state.watchers.miss();
    }

    /// A new watcher of everything after `since`, or after now.
    ///
    /// # Errors
    /// [`Failure::Compacted`] if some of that is forgotten, and [`Failure::TooManyStreams`].
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

    /// How many follow.
    pub(crate) fn watchers(&self) -> usize {
        self.state.lock().watchers.len()
    }

    pub(crate) fn leave(&self, number: u64) {
        self.state.lock().watchers.leave(number);
    }

    /// What happened to a session's locks after a revision. None if some of it is forgotten, or if it is among so much
    /// else that looking for it would hold up others.
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
        Some(later.filter_map(|change| of_session(change, session)).collect())
    }

    /// The next changes for a watcher.
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

    fn forget_oldest(&mut self) {
        if let Some(change) = self.changes.pop_front() {
            self.first += 1;
            self.bytes -= cost(&change);
            self.compacted = change.revision;
        }
    }

    /// The place of the first change after a revision.
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
        let (mut found, mut looked): (Vec<Watched>, u64) = (Vec::new(), 0);
        let mut more = false;
        for change in log.iter().skip(skip) {
            let concerned = change.revision > watcher.after && watcher.filter.matches(&change.path);
            // The last of the batch must know whether another one of its revision follows.
            if concerned && found.len() == BATCH_MAX {
                more = true;
                break;
            }
            looked += 1;
            if concerned {
                let resume = change.revision;
                found.push(Watched { resume, item: change.item.clone() });
            }
        }
        watcher.unread = more.then_some(from + looked);
        let next = log.get(skip + usize::try_from(looked).unwrap_or(usize::MAX));
        mark_resumption(&mut found, next.filter(|_| more).map(|change| change.revision));
        if found.is_empty() { ReadChanges::Nothing(*head) } else { ReadChanges::Changes(found) }
    }
}

/// Where to go on from after each change: its own revision only if no other change of that revision follows.
fn mark_resumption(changes: &mut [Watched], mut following: Option<Revision>) {
    for change in changes.iter_mut().rev() {
        let revision = change.resume;
        if following == Some(revision) {
            change.resume = Revision(revision.0 - 1);
        }
        following = Some(revision);
    }
}

fn cost(change: &LoggedChange) -> usize {
    let value = match &change.item {
        WatchItem::Granted { value, .. } | WatchItem::ValueSet { value, .. } => value.as_deref(),
        WatchItem::Change { .. }
        | WatchItem::Lost { .. }
        | WatchItem::ReleaseRequested { .. }
        | WatchItem::Bookmark { .. }
        | WatchItem::Compacted { .. }
        | WatchItem::ShuttingDown => None,
    };
    let reason = change.broken.as_ref().map_or(0, |reason| reason.as_str().len());
    ITEM_BYTES + change.path.as_str().len() + value.map_or(0, <[u8]>::len) + reason
}

/// What a change means to a session, if it is about one of its locks.
fn of_session(change: &LoggedChange, wanted: &SessionName) -> Option<HoldNotice> {
    let (lock, session, owner, token, lost, asked) = match &change.item {
        WatchItem::Granted { lock, token, session, owner, .. } => {
            (lock, session, owner, token, None, None)
        }
        WatchItem::Lost { lock, session, owner, token, cause, .. } => {
            (lock, session, owner, token, Some(*cause), None)
        }
        WatchItem::ReleaseRequested { lock, session, owner, token, request, .. } => {
            (lock, session, owner, token, None, Some(request.clone()))
        }
        WatchItem::Change { .. }
        | WatchItem::ValueSet { .. }
        | WatchItem::Bookmark { .. }
        | WatchItem::Compacted { .. }
        | WatchItem::ShuttingDown => return None,
    };
    let event = || HoldNotice {
        revision: change.revision,
        lock: lock.clone(),
        owner: owner.clone(),
        token: *token,
        lost,
        broken: change.broken.clone(),
        asked,
    };
    (session == wanted).then(event)
}

/// What of an event watchers are told.
fn note(revision: Revision, event: &Event) -> Option<(ZnodePath, WatchItem)> {
    let change = |kind, path: &ZnodePath| {
        Some((path.clone(), WatchItem::Change { revision, kind, path: path.clone() }))
    };
    match event {
        Event::Tree(TreeEvent::Created { path }) => change(ZnodeChangeKind::Created, path),
        Event::Tree(TreeEvent::Deleted { path }) => change(ZnodeChangeKind::Deleted, path),
        Event::Tree(TreeEvent::DataChanged { path }) => change(ZnodeChangeKind::Changed, path),
        Event::Lock(LockEvent::Granted(grant)) => {
            let (lock, session) = (grant.lock.clone(), grant.session.clone());
            let (token, owner, value) = (grant.token, grant.owner.clone(), grant.value.clone());
            let path = ZnodePath::of_lock(&grant.lock);
            Some((path, WatchItem::Granted { revision, lock, token, session, owner, value }))
        }
        Event::Lock(LockEvent::ValueChanged(grant)) => {
            let (lock, session) = (grant.lock.clone(), grant.session.clone());
            let (token, owner, value) = (grant.token, grant.owner.clone(), grant.value.clone());
            let path = ZnodePath::of_lock(&grant.lock);
            Some((path, WatchItem::ValueSet { revision, lock, session, owner, token, value }))
        }
        Event::Lock(LockEvent::HoldEnded { lock, session, owner, token, cause, .. }) => {
            let (lock, session, owner) = (lock.clone(), session.clone(), owner.clone());
            let (path, token, cause) = (ZnodePath::of_lock(&lock), *token, *cause);
            Some((path, WatchItem::Lost { revision, lock, session, owner, token, cause }))
        }
        Event::Lock(LockEvent::ReleaseRequested {
            lock, session, owner, token, request, ..
        }) => {
            let (lock, session, owner) = (lock.clone(), session.clone(), owner.clone());
            let (path, token, request) = (ZnodePath::of_lock(&lock), *token, request.clone());
            Some((
                path,
                WatchItem::ReleaseRequested { revision, lock, session, owner, token, request },
            ))
        }
        Event::Lock(
            LockEvent::WaitEnded { .. }
            | LockEvent::ModeChanged(_)
            | LockEvent::PolicyChanged { .. }
            | LockEvent::CooldownStarted { .. }
            | LockEvent::CooldownEnded { .. }
            | LockEvent::BrokenByOperator { .. },
        )
        | Event::Tree(TreeEvent::SoftQuotaExceeded { .. })
        | Event::Session(_)
        | Event::Recipe(_)
        | Event::NodeRegistered { .. } => None,
    }
}

#[cfg(test)]
mod tests;
