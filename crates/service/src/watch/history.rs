//! What changed on this node lately, in the order of the log.
//!
//! Written inside the apply step, read by followers in small copies. What is older than the bound is forgotten, and
//! so is everything when entries were skipped: from where the memory is whole is always known.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_types::{
    Applied, Event, LockEvent, Reason, Revision, SessionName, TreeEvent, ZnodePath,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::filter::WatchFilter;
use super::followers::{Follower, Followers};
use super::{BATCH_MAX, ChangeKind, WatchItem, Watched};
use crate::failure::Failure;
use crate::notices::{HoldNotice, broken_because};

/// What an item costs beside its path, bytes.
const ITEM_BYTES: usize = 160;
/// Changes that are looked through for one session.
const LOOK_BACK_MAX: usize = 16_384;

#[derive(Clone, Debug)]
struct Noted {
    revision: Revision,
    /// Of the node, or of the lock's directory.
    path: ZnodePath,
    item: WatchItem,
    /// Of a hold that an operator broke: why.
    broken: Option<Reason>,
}

#[derive(Debug, Default)]
struct Past {
    noted: VecDeque<Noted>,
    /// The place of the first one.
    first: u64,
    bytes: usize,
    /// Everything after this is remembered.
    compacted: Revision,
    /// Everything up to this is here.
    head: Revision,
    followers: Followers,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct History {
    past: Mutex<Past>,
    events_max: usize,
    bytes_max: usize,
    followers_max: usize,
}

/// A follower's place.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) number: u64,
    pub(crate) woken: Arc<Notify>,
    /// It is told what comes after this.
    pub(crate) after: Revision,
}

/// What a follower finds.
#[derive(Debug)]
pub(crate) enum Found {
    /// Changes that concern it, oldest first.
    Changes(Vec<Watched>),
    /// Nothing up to here.
    Nothing(Revision),
    /// Some of what may have concerned it is forgotten.
    Compacted(Revision),
}

impl History {
    pub(crate) fn new(events_max: usize, bytes_max: usize, followers_max: usize) -> Self {
        Self { past: Mutex::default(), events_max, bytes_max, followers_max }
    }

    /// Notes what an entry changed. Inside the apply step.
    pub(crate) fn see(&self, applied: &Applied) {
        let mut past = self.past.lock();
        for (revision, event) in &applied.events {
            if let Some((path, item)) = note(*revision, event) {
                let broken = broken_because(&applied.events, event);
                past.push(Noted { revision: *revision, path, item, broken });
            }
        }
        past.head = applied.revision;
        while past.noted.len() > self.events_max || past.bytes > self.bytes_max {
            past.forget_oldest();
        }
    }

    /// Entries were skipped: nothing before this revision is known.
    pub(crate) fn restart(&self, revision: Revision) {
        let mut past = self.past.lock();
        past.first += past.noted.len() as u64;
        past.noted.clear();
        past.bytes = 0;
        (past.compacted, past.head) = (revision, revision);
        past.followers.miss();
    }

    /// A new follower of everything after `since`, or after now.
    ///
    /// # Errors
    /// [`Failure::Compacted`] if some of that is forgotten, and [`Failure::TooManyStreams`].
    pub(crate) fn follow(
        &self,
        filter: WatchFilter,
        since: Option<Revision>,
    ) -> Result<Seat, Failure> {
        let mut past = self.past.lock();
        let after = since.unwrap_or(past.head);
        if after < past.compacted {
            return Err(Failure::Compacted { restart_from: past.head });
        }
        if past.followers.len() >= self.followers_max {
            return Err(Failure::TooManyStreams { limit: self.followers_max });
        }
        let woken = Arc::new(Notify::new());
        let unread = Some(past.place_after(after));
        let follower = Follower { filter, after, unread, missed: false, woken: woken.clone() };
        Ok(Seat { number: past.followers.enter(follower), woken, after })
    }

    /// How many follow.
    pub(crate) fn followers(&self) -> usize {
        self.past.lock().followers.len()
    }

    pub(crate) fn leave(&self, number: u64) {
        self.past.lock().followers.leave(number);
    }

    /// What happened to a session's locks after a revision. None if some of it is forgotten, or if it is among so much
    /// else that looking for it would hold up others.
    pub(crate) fn of_session(
        &self,
        session: &SessionName,
        since: Revision,
    ) -> Option<Vec<HoldNotice>> {
        let past = self.past.lock();
        let skip = usize::try_from(past.place_after(since) - past.first).unwrap_or(usize::MAX);
        if since < past.compacted || past.noted.len().saturating_sub(skip) > LOOK_BACK_MAX {
            return None;
        }
        let later = past.noted.iter().skip(skip);
        Some(later.filter_map(|noted| of_session(noted, session)).collect())
    }

    /// The next changes for a follower.
    pub(crate) fn read(&self, number: u64) -> Found {
        self.past.lock().read(number)
    }
}

impl Past {
    fn push(&mut self, noted: Noted) {
        let place = self.first + self.noted.len() as u64;
        self.followers.wake(place, &noted.path);
        self.bytes += cost(&noted);
        self.noted.push_back(noted);
    }

    fn forget_oldest(&mut self) {
        if let Some(noted) = self.noted.pop_front() {
            self.first += 1;
            self.bytes -= cost(&noted);
            self.compacted = noted.revision;
        }
    }

    /// The place of the first change after a revision.
    fn place_after(&self, revision: Revision) -> u64 {
        self.first + self.noted.partition_point(|noted| noted.revision <= revision) as u64
    }

    fn read(&mut self, number: u64) -> Found {
        let Self { noted, first, head, compacted, followers, .. } = self;
        let Some(follower) = followers.get_mut(number) else { return Found::Nothing(*head) };
        let from = follower.unread.unwrap_or(*first);
        if std::mem::take(&mut follower.missed) || from < *first {
            (follower.after, follower.unread) = (*head, None);
            return Found::Compacted(*head);
        }
        let Some(from) = follower.unread else { return Found::Nothing((*head).max(*compacted)) };
        let skip = usize::try_from(from - *first).unwrap_or(usize::MAX);
        let (mut changes, mut looked): (Vec<Watched>, u64) = (Vec::new(), 0);
        let mut more = false;
        for noted in noted.iter().skip(skip) {
            let concerned = noted.revision > follower.after && follower.filter.matches(&noted.path);
            // The last of the batch must know whether another one of its revision follows.
            if concerned && changes.len() == BATCH_MAX {
                more = true;
                break;
            }
            looked += 1;
            if concerned {
                let resume = noted.revision;
                changes.push(Watched { resume, item: noted.item.clone() });
            }
        }
        follower.unread = more.then_some(from + looked);
        let next = noted.get(skip + usize::try_from(looked).unwrap_or(usize::MAX));
        mark_resumption(&mut changes, next.filter(|_| more).map(|noted| noted.revision));
        if changes.is_empty() { Found::Nothing(*head) } else { Found::Changes(changes) }
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

fn cost(noted: &Noted) -> usize {
    let value = match &noted.item {
        WatchItem::Granted { value, .. } | WatchItem::ValueSet { value, .. } => value.as_deref(),
        WatchItem::Change { .. }
        | WatchItem::Lost { .. }
        | WatchItem::ReleaseRequested { .. }
        | WatchItem::Bookmark { .. }
        | WatchItem::Compacted { .. }
        | WatchItem::ShuttingDown => None,
    };
    let reason = noted.broken.as_ref().map_or(0, |reason| reason.as_str().len());
    ITEM_BYTES + noted.path.as_str().len() + value.map_or(0, <[u8]>::len) + reason
}

/// What a change means to a session, if it is about one of its locks.
fn of_session(noted: &Noted, wanted: &SessionName) -> Option<HoldNotice> {
    let (lock, session, owner, token, lost, asked) = match &noted.item {
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
        revision: noted.revision,
        lock: lock.clone(),
        owner: owner.clone(),
        token: *token,
        lost,
        broken: noted.broken.clone(),
        asked,
    };
    (session == wanted).then(event)
}

/// What of an event followers are told.
fn note(revision: Revision, event: &Event) -> Option<(ZnodePath, WatchItem)> {
    let change = |kind, path: &ZnodePath| {
        Some((path.clone(), WatchItem::Change { revision, kind, path: path.clone() }))
    };
    match event {
        Event::Tree(TreeEvent::Created { path }) => change(ChangeKind::Created, path),
        Event::Tree(TreeEvent::Deleted { path }) => change(ChangeKind::Deleted, path),
        Event::Tree(TreeEvent::DataChanged { path }) => change(ChangeKind::Changed, path),
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
