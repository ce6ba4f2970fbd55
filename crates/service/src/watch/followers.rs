//! Who follows the history, and from where each has something to read: so that nobody wakes for what does not concern
//! it, and nobody reads more of the history than what came since it was woken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_types::{Revision, ZnodePath};
use tokio::sync::Notify;

use super::filter::WatchFilter;
use crate::stream::ancestors;

/// One follower.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) filter: WatchFilter,
    /// Nothing up to here is wanted.
    pub(crate) after: Revision,
    /// The first place of the history that may concern it; none: nothing that is there does.
    pub(crate) unread: Option<u64>,
    /// Something that may have concerned it is gone.
    pub(crate) missed: bool,
    pub(crate) woken: Arc<Notify>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    by_number: BTreeMap<u64, Follower>,
    /// Invariant: each follower under the anchor of its filter.
    by_anchor: HashMap<ZnodePath, BTreeSet<u64>>,
    last: u64,
}

impl Followers {
    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(crate) fn enter(&mut self, follower: Follower) -> u64 {
        self.last += 1;
        self.by_anchor.entry(follower.filter.anchor()).or_default().insert(self.last);
        self.by_number.insert(self.last, follower);
        self.last
    }

    pub(crate) fn leave(&mut self, number: u64) {
        let Some(follower) = self.by_number.remove(&number) else { return };
        let anchor = follower.filter.anchor();
        if let Some(numbers) = self.by_anchor.get_mut(&anchor) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_anchor.remove(&anchor);
            }
        }
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Follower> {
        self.by_number.get_mut(&number)
    }

    /// Wakes whom a change at a place of the history concerns.
    pub(crate) fn wake(&mut self, place: u64, path: &ZnodePath) {
        if self.by_number.is_empty() {
            return;
        }
        let mut concerned = Vec::new();
        for anchor in std::iter::once(path.as_str()).chain(ancestors(path.as_str())) {
            concerned.extend(self.by_anchor.get(anchor).into_iter().flatten());
        }
        for number in concerned {
            if let Some(follower) = self.by_number.get_mut(&number)
                && follower.unread.is_none()
                && follower.filter.matches(path)
            {
                follower.unread = Some(place);
                follower.woken.notify_one();
            }
        }
    }

    /// Everything so far is gone: everybody has missed something.
    pub(crate) fn miss(&mut self) {
        for follower in self.by_number.values_mut() {
            follower.missed = true;
            follower.woken.notify_one();
        }
    }
}
