//! The watchers of the change log: which changes each receives, and the first change that it has not read.
//!
//! A watcher receives the changes that its filter selects, of paths that it may see. A change wakes only the watchers whose filters
//! match it, and a watcher reads only from its first unread change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use holdfast_machine::Machine;
use holdfast_types::{Identity, Rejection, Revision, TreeRejection, ZnodePath};
use tokio::sync::Notify;

/// The watched nodes. The path of a lock is its directory, `/locks/<name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchFilter {
    /// This node.
    Node(ZnodePath),
    /// This node and its children.
    Children(ZnodePath),
    /// This node and everything below it.
    Subtree(ZnodePath),
    /// Every path that begins with this text: `/locks/ord` is the beginning of `/locks/orders`.
    Prefix(String),
}

impl WatchFilter {
    pub fn matches(&self, path: &ZnodePath) -> bool {
        let text = path.as_str();
        match self {
            Self::Node(node) => path == node,
            Self::Children(node) => {
                path == node || below(text, node).is_some_and(|rest| !rest.contains('/'))
            }
            Self::Subtree(node) => path == node || below(text, node).is_some(),
            Self::Prefix(prefix) => text.starts_with(prefix.as_str()),
        }
    }

    /// Returns the beginning of every matching path.
    pub(crate) fn prefix(&self) -> String {
        match self {
            Self::Node(node) => node.to_string(),
            Self::Children(node) | Self::Subtree(node) => {
                format!("{}/", node.as_str().trim_end_matches('/'))
            }
            Self::Prefix(prefix) => prefix.clone(),
        }
    }

    /// Returns the node at or above every matching path.
    pub(crate) fn anchor(&self) -> ZnodePath {
        match self {
            Self::Node(node) | Self::Children(node) | Self::Subtree(node) => node.clone(),
            Self::Prefix(prefix) => {
                let directory = prefix.rsplit_once('/').map_or("", |(directory, _)| directory);
                ZnodePath::new(directory).unwrap_or_else(|_| ZnodePath::root())
            }
        }
    }
}

/// Returns the part of a path below a node; `None` for a path that does not lie below it.
fn below<'a>(path: &'a str, node: &ZnodePath) -> Option<&'a str> {
    let rest = path.strip_prefix(node.as_str())?;
    let relative = if node.as_str() == "/" { rest } else { rest.strip_prefix('/')? };
    Some(relative).filter(|relative| !relative.is_empty())
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

/// Returns whether the identities may see that a path exists now or existed: they may read the znode, or its directory.
pub(super) fn may_be_listed(machine: &Machine, path: &ZnodePath, identities: &[Identity]) -> bool {
    let may_read = |path: &ZnodePath| machine.get(path, identities).is_ok();
    may_read(path) || path.parent().is_some_and(|directory| may_read(&directory))
}

/// Returns the directories above a path, from the nearest to the root.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let (above, name) = rest.rsplit_once('/')?;
        if name.is_empty() {
            return None;
        }
        rest = if above.is_empty() { "/" } else { above };
        Some(rest)
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ZnodePath {
        ZnodePath::new(text).unwrap()
    }

    #[test]
    fn filters_match_their_paths_at_or_below_their_anchors() {
        let all = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/b"];
        let cases = [
            (WatchFilter::Node(path("/a")), "/a", vec!["/a"]),
            (WatchFilter::Children(path("/a")), "/a", vec!["/a", "/a/b"]),
            (WatchFilter::Children(path("/")), "/", vec!["/", "/a", "/ab", "/b"]),
            (WatchFilter::Subtree(path("/a")), "/a", vec!["/a", "/a/b", "/a/b/c"]),
            (WatchFilter::Subtree(path("/")), "/", all.to_vec()),
            (WatchFilter::Prefix("/a".to_owned()), "/", vec!["/a", "/a/b", "/a/b/c", "/ab"]),
            (WatchFilter::Prefix("/a/".to_owned()), "/a", vec!["/a/b", "/a/b/c"]),
            (WatchFilter::Prefix(String::new()), "/", all.to_vec()),
        ];
        for (filter, anchor, expected) in cases {
            let found: Vec<_> =
                all.into_iter().filter(|text| filter.matches(&path(text))).collect();
            assert_eq!(found, expected, "{filter:?}");
            assert_eq!(filter.anchor(), path(anchor), "{filter:?}");
        }
    }
}
