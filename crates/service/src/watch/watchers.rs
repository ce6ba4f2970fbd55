//! The watchers of the change log, and the first change that each has not read.
//!
//! A change wakes only the watchers whose filters match it. A watcher reads only from its first unread change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_types::{Revision, ZnodePath};
use tokio::sync::Notify;

use super::filter::WatchFilter;
use crate::stream::ancestors;

#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) filter: WatchFilter,
    /// The watcher receives changes after this revision.
    pub(crate) after: Revision,
    /// The number of the first unread change; `None` if the log has none for this watcher.
    pub(crate) unread: Option<u64>,
    /// Changes for this watcher may have been discarded.
    pub(crate) missed: bool,
    pub(crate) woken: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    by_number: BTreeMap<u64, Watcher>,
    /// Invariant: each watcher under the anchor of its filter.
    by_anchor: HashMap<ZnodePath, BTreeSet<u64>>,
    last: u64,
}

impl Watchers {
    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(crate) fn enter(&mut self, watcher: Watcher) -> u64 {
        self.last += 1;
        self.by_anchor.entry(watcher.filter.anchor()).or_default().insert(self.last);
        self.by_number.insert(self.last, watcher);
        self.last
    }

    pub(crate) fn leave(&mut self, number: u64) {
        let Some(watcher) = self.by_number.remove(&number) else { return };
        let anchor = watcher.filter.anchor();
        if let Some(numbers) = self.by_anchor.get_mut(&anchor) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_anchor.remove(&anchor);
            }
        }
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Watcher> {
        self.by_number.get_mut(&number)
    }

    /// Wakes the watchers whose filters match a change.
    pub(crate) fn wake(&mut self, change: u64, path: &ZnodePath) {
        if self.by_number.is_empty() {
            return;
        }
        let mut concerned = Vec::new();
        for anchor in std::iter::once(path.as_str()).chain(ancestors(path.as_str())) {
            concerned.extend(self.by_anchor.get(anchor).into_iter().flatten());
        }
        for number in concerned {
            if let Some(watcher) = self.by_number.get_mut(&number)
                && watcher.unread.is_none()
                && watcher.filter.matches(path)
            {
                watcher.unread = Some(change);
                watcher.woken.notify_one();
            }
        }
    }

    /// Marks that every watcher may have missed changes, after all changes were discarded.
    pub(crate) fn miss(&mut self) {
        for watcher in self.by_number.values_mut() {
            watcher.missed = true;
            watcher.woken.notify_one();
        }
    }
}
