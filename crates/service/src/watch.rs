//! Watching the tree and the locks without a session: changes in log order, since a revision, with bookmarks while there are none.
//!
//! A watcher that requests discarded changes, or falls behind the change log, receives the revision to restart from.
//! Watches of sessions are in `stream`.
//!
//! Bounds: `ServiceConfig::history_events_max` changes and `history_bytes_max` bytes; `watch_streams_max` watchers,
//! each with at most [`change_log::BATCH_MAX`] copied changes.

mod change_log;
mod watchers;

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use futures_util::FutureExt as _;
use holdfast_machine::{ActorRights, Machine};
use holdfast_types::{Perms, Rejection, Revision, Right};

use self::change_log::{ReadChanges, WatcherHandle};
use self::watchers::may_be_listed;
use crate::auth::authorization::{CredentialWatch, allows, credential_ended};
use crate::request::Failure;
use crate::service::Service;

pub(crate) use change_log::ChangeLog;
pub use change_log::{WatchItem, WatchedItem, ZnodeChangeKind};
pub use watchers::WatchFilter;
pub(crate) use watchers::{ancestors, is_visible};

#[derive(Clone, Debug)]
pub struct WatchRequest {
    pub filter: WatchFilter,
    /// The watch has the changes after this revision; `None` selects changes from now on.
    pub since: Option<Revision>,
}

/// A stream of changes. Dropping it ends the watch.
pub struct WatchStream {
    service: Service,
    handle: WatcherHandle,
    credential: Option<CredentialWatch>,
    /// Changes copied from the log and not yet returned.
    batch: VecDeque<WatchedItem>,
    /// The time of the next bookmark. The first bookmark follows the existing changes immediately.
    bookmark_at: Instant,
    /// The last returned revision to resume from.
    resume: Revision,
}

impl Service {
    /// Watches the changes of this node. The watch omits changes of nodes and locks that the caller may not read. `since` may be a later revision, from another node: the watch then begins when
    /// this node has applied it.
    ///
    /// # Errors
    /// A rejection without the right to read what the filter matches; [`Failure::Compacted`] if some changes were discarded; [`Failure::TooManyStreams`];
    /// [`Failure::ShuttingDown`].
    pub fn watch(&self, request: WatchRequest) -> Result<WatchStream, Failure> {
        if self.is_draining() {
            return Err(Failure::ShuttingDown);
        }
        let WatchRequest { filter, since } = request;
        let checked = self.raft().read(|machine| self.check_watch(machine, &filter));
        checked.map_err(Failure::Rejected)?;
        let handle = self.observer().change_log.add_watcher(filter, since)?;
        Ok(WatchStream {
            service: self.clone(),
            resume: handle.after,
            handle,
            credential: self.watch_credential(),
            batch: VecDeque::new(),
            bookmark_at: Instant::now(),
        })
    }

    /// Checks the right to read every znode or lock that a filter may match. The watch omits the changes of others.
    fn check_watch(&self, machine: &Machine, filter: &WatchFilter) -> Result<(), Rejection> {
        if let WatchFilter::Node(path) = filter {
            return match path.as_lock() {
                Some(lock) => self.check(machine, Right::LockRead, lock.as_str()),
                None => self.check(machine, Right::TreeRead, path.as_str()),
            };
        }
        let prefix = filter.prefix();
        match prefix.strip_prefix("/locks/") {
            Some(locks) => self.check_below(machine, Right::LockRead, locks),
            None => self.check_below(machine, Right::TreeRead, &prefix),
        }
    }

    /// Whether the caller may see an item.
    fn shows(&self, machine: &Machine, rights: Option<ActorRights<'_>>, item: &WatchItem) -> bool {
        match item {
            WatchItem::Change { path, kind, deleted_acl, .. } => {
                let identities = self.identities_on(machine, path);
                let was_readable = *kind == ZnodeChangeKind::Deleted
                    && deleted_acl.as_ref().is_none_or(|acl| acl.allows(Perms::READ, &identities));
                allows(rights, Right::TreeRead, path.as_str())
                    && (was_readable || may_be_listed(machine, path, &identities))
            }
            WatchItem::Hold(notice) => allows(rights, Right::LockRead, notice.lock.as_str()),
            WatchItem::Bookmark { .. }
            | WatchItem::Compacted { .. }
            | WatchItem::Denied(_)
            | WatchItem::ShuttingDown => true,
        }
    }
}

impl WatchStream {
    /// Returns the next item. After [`WatchItem::Compacted`] the watch continues from there, and [`resume`](Self::resume)
    /// stays before the discarded changes until the item after it;
    /// [`WatchItem::Denied`] and [`WatchItem::ShuttingDown`] are repeated. Dropping the future loses no item.
    pub async fn next(&mut self) -> WatchedItem {
        loop {
            if let Some(denied) = self.denied_since() {
                self.batch.clear();
                let item = WatchItem::Denied(denied);
                return WatchedItem { resume: self.resume, item };
            }
            if let Some(watched) = self.batch.pop_front() {
                self.bookmark_at = Instant::now() + self.service.config().bookmark_every;
                return self.returned(watched);
            }
            match self.service.observer().change_log.read(self.handle.number) {
                ReadChanges::Changes(changes) => self.take_visible(changes),
                ReadChanges::Compacted(restart_from) => {
                    let item = WatchItem::Compacted { restart_from };
                    return WatchedItem { resume: self.resume, item };
                }
                ReadChanges::Nothing(head) => {
                    if let Some(watched) = self.wait(head).await {
                        return self.returned(watched);
                    }
                }
            }
        }
    }

    /// The rejection of a caller whose credential has ended while changes for it were kept.
    fn denied_since(&mut self) -> Option<Rejection> {
        let has_changed = self.credential.as_ref().is_some_and(CredentialWatch::has_changed);
        has_changed.then(|| credential_ended(&mut self.credential).now_or_never())?
    }

    /// Waits for a change, a due bookmark or a shutdown.
    async fn wait(&mut self, head: Revision) -> Option<WatchedItem> {
        let now = Instant::now();
        let every = self.service.config().bookmark_every;
        if now >= self.bookmark_at {
            self.bookmark_at = now + every;
            if head >= self.resume {
                return Some(WatchedItem {
                    resume: head,
                    item: WatchItem::Bookmark { revision: head },
                });
            }
        }
        tokio::select! {
            () = self.handle.woken.notified() => None,
            () = tokio::time::sleep_until(self.bookmark_at.into()) => None,
            denied = credential_ended(&mut self.credential) => {
                Some(WatchedItem { resume: self.resume, item: WatchItem::Denied(denied) })
            }
            () = self.service.draining().cancelled() => {
                Some(WatchedItem { resume: self.resume, item: WatchItem::ShuttingDown })
            }
        }
    }

    fn returned(&mut self, watched: WatchedItem) -> WatchedItem {
        self.resume = self.resume.max(watched.resume);
        WatchedItem { resume: self.resume, ..watched }
    }

    /// Takes the changes that the caller may see. A watch can resume after the others as well: otherwise it would read the
    /// last visible change of their revision again, endlessly.
    fn take_visible(&mut self, changes: Vec<WatchedItem>) {
        let Self { service, batch, resume, .. } = self;
        service.raft().read(|machine| {
            let rights = match service.enforced_rights(machine) {
                Ok(rights) => rights,
                // The changes are not lost: the client resumes before them.
                Err(denied) => {
                    let item = WatchItem::Denied(denied);
                    batch.push_back(WatchedItem { resume: *resume, item });
                    return;
                }
            };
            for watched in changes {
                if service.shows(machine, rights, &watched.item) {
                    batch.push_back(watched);
                } else {
                    let last = batch.back_mut().map_or(&mut *resume, |last| &mut last.resume);
                    *last = watched.resume.max(*last);
                }
            }
        });
    }

    /// The revision to resume from: the caller may not see the changes between it and that of the last item.
    pub fn resume(&self) -> Revision {
        self.resume
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.service.observer().change_log.leave(self.handle.number);
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").field("handle", &self.handle).finish_non_exhaustive()
    }
}
