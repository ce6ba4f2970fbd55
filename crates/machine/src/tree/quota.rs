//! Quotas: limits on the znodes and bytes of a subtree, and its usage.
//!
//! The limits have the format of ZooKeeper: they are the data of `/zookeeper/quota<path>/zookeeper_limits`, and
//! `zookeeper_stats` beside it shows the usage. The index updates with each change, so a write reads only the quotas on
//! its own path. The root of a subtree counts. Nodes below `/zookeeper` count for no quota. A hard limit rejects
//! growth; an exceeded soft limit emits an event. Bounds: one quota for each `zookeeper_limits` node; a new quota
//! counts at most [`COUNTED_MAX`] znodes in one command.

use std::ops::Bound;

use holdfast_types::{
    QuotaKind, QuotaZnodes, Rejection, SubtreeLimits, SubtreeQuotaView, TreeRejection, ZnodePath,
    is_nearly_full,
};
use imbl::{OrdMap, OrdSet};

use crate::tree::ZOOKEEPER;

/// The largest number of znodes that one command counts for new quotas.
pub(crate) const COUNTED_MAX: u64 = 1_000_000;

/// Znodes and bytes of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage<T = u64> {
    pub(crate) count: T,
    pub(crate) bytes: T,
}

/// One quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quota {
    limits: SubtreeLimits,
    /// Invariant: the usage of the subtree.
    used: Usage,
}

/// All quotas, by the path of the subtree, which need not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubtreeQuotas {
    quotas: OrdMap<ZnodePath, Quota>,
    /// Invariant: the quotas of which a soft limit is exceeded.
    above_soft: OrdSet<ZnodePath>,
    /// Invariant: the quotas of which a hard limit is nearly reached.
    near_hard: OrdSet<ZnodePath>,
}

impl Usage {
    /// Adds a znode with this number of bytes.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }
}

impl Quota {
    fn crosses(limit: Option<u64>, before: u64, after: u64) -> bool {
        limit.is_some_and(|limit| before <= limit && limit < after)
    }

    /// The limit, if `more` would exceed it.
    fn exceeds(limit: Option<u64>, used: u64, more: u64) -> Option<u64> {
        limit.filter(|limit| more > 0 && used.saturating_add(more) > *limit)
    }

    fn is_above_soft(&self) -> bool {
        let Self { limits, used } = self;
        limits.soft_znodes.is_some_and(|limit| used.count > limit)
            || limits.soft_bytes.is_some_and(|limit| used.bytes > limit)
    }

    fn is_near_hard(&self) -> bool {
        let Self { limits, used } = self;
        limits.znodes.is_some_and(|limit| is_nearly_full(used.count, limit))
            || limits.bytes.is_some_and(|limit| is_nearly_full(used.bytes, limit))
    }

    fn view(&self, path: &ZnodePath) -> SubtreeQuotaView {
        let Self { limits, used } = *self;
        let path = path.clone();
        SubtreeQuotaView { path, limits, used_znodes: used.count, used_bytes: used.bytes }
    }
}

impl SubtreeQuotas {
    /// True without any quota; each write checks this first.
    pub(crate) fn is_empty(&self) -> bool {
        self.quotas.is_empty()
    }

    /// Sets a quota on a path with the current usage of its subtree. Replaces an existing quota.
    pub(crate) fn set(&mut self, path: &ZnodePath, limits: SubtreeLimits, used: Usage) {
        self.quotas.insert(path.clone(), Quota { limits, used });
        self.sort_in(path);
    }

    /// Changes the limits of an existing quota.
    pub(crate) fn change(&mut self, path: &ZnodePath, limits: SubtreeLimits) {
        if let Some(quota) = self.quotas.get_mut(path) {
            quota.limits = limits;
        }
        self.sort_in(path);
    }

    /// Removes a quota.
    pub(crate) fn lift(&mut self, path: &ZnodePath) {
        self.quotas.remove(path);
        self.sort_in(path);
    }

    /// Restores the invariants of the sets for one quota.
    fn sort_in(&mut self, path: &ZnodePath) {
        let quota = self.quotas.get(path);
        for (set, belongs) in [
            (&mut self.above_soft, quota.is_some_and(Quota::is_above_soft)),
            (&mut self.near_hard, quota.is_some_and(Quota::is_near_hard)),
        ] {
            if belongs {
                set.insert(path.clone());
            } else {
                set.remove(path);
            }
        }
    }

    /// The usage of the subtree of a quota; `None` without a quota on the path.
    pub(crate) fn used(&self, path: &ZnodePath) -> Option<Usage> {
        self.quotas.get(path).map(|quota| quota.used)
    }

    /// A quota; `None` without a quota on the path.
    pub(crate) fn get(&self, path: &ZnodePath) -> Option<SubtreeQuotaView> {
        self.quotas.get(path).map(|quota| quota.view(path))
    }

    /// The quotas after a path, by path; all quotas without a path.
    pub(crate) fn after(
        &self,
        path: Option<&ZnodePath>,
    ) -> impl Iterator<Item = SubtreeQuotaView> + use<'_> {
        let start = path.cloned().map_or(Bound::Unbounded, Bound::Excluded);
        self.quotas.range((start, Bound::Unbounded)).map(|(path, quota)| quota.view(path))
    }

    /// The quotas of which a soft limit is exceeded, by path.
    pub(crate) fn above_soft(&self) -> impl Iterator<Item = SubtreeQuotaView> + use<'_> {
        self.above_soft.iter().filter_map(|path| self.get(path))
    }

    /// The quotas of which a hard limit is nearly reached, by path.
    pub(crate) fn near_hard(&self) -> impl Iterator<Item = SubtreeQuotaView> + use<'_> {
        self.near_hard.iter().filter_map(|path| self.get(path))
    }

    /// Rejects new znodes, parents first and the last one at `path`, and more bytes at `path`, if they exceed a hard
    /// limit.
    pub(crate) fn room_for<'a>(
        &self,
        path: &ZnodePath,
        new: &(impl Iterator<Item = &'a ZnodePath> + Clone),
        bytes: u64,
    ) -> Result<(), Rejection> {
        for at in self.counted_paths(path) {
            let Some(Quota { limits, used }) = self.quotas.get(at) else { continue };
            let count = new.clone().filter(|new| is_at_or_below(new.as_str(), at)).count() as u64;
            for (quota, limit, used, more) in [
                (QuotaKind::Znodes, limits.znodes, used.count, count),
                (QuotaKind::Bytes, limits.bytes, used.bytes, bytes),
            ] {
                if let (Some(limit), Ok(path)) =
                    (Quota::exceeds(limit, used, more), ZnodePath::new(at))
                {
                    return Err(TreeRejection::QuotaExceeded { path, quota, limit, used }.into());
                }
            }
        }
        Ok(())
    }

    /// Counts a change at a path. Returns the quotas whose soft limit it exceeds.
    pub(crate) fn count(&mut self, path: &ZnodePath, change: Usage<i64>) -> Vec<ZnodePath> {
        let mut exceeded = Vec::new();
        if self.quotas.is_empty() {
            return exceeded;
        }
        let counted_paths: Vec<&str> = self.counted_paths(path).collect();
        for at in counted_paths {
            let Some(quota) = self.quotas.get_mut(at) else { continue };
            let before = quota.used;
            quota.used.count = before.count.saturating_add_signed(change.count);
            quota.used.bytes = before.bytes.saturating_add_signed(change.bytes);
            let limits = quota.limits;
            let crosses = Quota::crosses(limits.soft_znodes, before.count, quota.used.count)
                || Quota::crosses(limits.soft_bytes, before.bytes, quota.used.bytes);
            let Ok(at) = ZnodePath::new(at) else { continue };
            self.sort_in(&at);
            if crosses {
                exceeded.push(at);
            }
        }
        exceeded
    }

    /// The paths whose quotas a znode counts for: the root, its directories and itself. Empty without quotas and below
    /// `/zookeeper`.
    fn counted_paths<'a>(&self, path: &'a ZnodePath) -> impl Iterator<Item = &'a str> + use<'a> {
        let path = path.as_str();
        let counts = !self.quotas.is_empty() && !is_at_or_below(path, ZOOKEEPER);
        let ends = path.bytes().enumerate().filter(|(at, byte)| *at > 0 && *byte == b'/');
        let ends = ends.map(|(at, _)| at).chain((path.len() > 1).then_some(path.len()));
        let ways = std::iter::once("/").chain(ends.filter_map(|end| path.get(..end)));
        ways.take(if counts { usize::MAX } else { 0 })
    }
}

/// The path of the quota that a `zookeeper_limits` node sets; `None` for other nodes.
pub(crate) fn limited_by(path: &ZnodePath) -> Option<ZnodePath> {
    target(path.as_str().strip_suffix(QuotaZnodes::LIMITS)?)
}

/// The path of the quota whose usage a `zookeeper_stats` node shows; `None` for other nodes.
pub(crate) fn shown_by(path: &ZnodePath) -> Option<ZnodePath> {
    target(path.as_str().strip_suffix(QuotaZnodes::STATS)?)
}

fn target(directory: &str) -> Option<ZnodePath> {
    match directory.strip_prefix(QuotaZnodes::TOP)? {
        "" => Some(ZnodePath::root()),
        path => ZnodePath::new(path).ok(),
    }
}

/// True if `path` is `top` or below it.
pub(crate) fn is_at_or_below(path: &str, top: &str) -> bool {
    match path.strip_prefix(top) {
        Some(rest) => top.len() == 1 || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> ZnodePath {
        ZnodePath::new(path).unwrap()
    }

    #[test]
    fn the_quotas_above_a_soft_limit_and_near_a_hard_one_are_known_after_each_change() {
        let at = path("/a");
        let mut quotas = SubtreeQuotas::default();
        let limits = SubtreeLimits {
            znodes: Some(10),
            bytes: Some(100),
            soft_znodes: Some(8),
            soft_bytes: Some(50),
        };
        let raised = |quotas: &SubtreeQuotas| {
            (quotas.above_soft().count() == 1, quotas.near_hard().count() == 1)
        };
        quotas.set(&at, limits, Usage { count: 8, bytes: 50 });
        assert_eq!(raised(&quotas), (false, false));
        for (change, expected) in [
            (Usage { count: 1, bytes: 0 }, (true, true)),
            (Usage { count: -1, bytes: 1 }, (true, false)),
            (Usage { count: 0, bytes: -1 }, (false, false)),
            (Usage { count: 0, bytes: 40 }, (true, true)),
        ] {
            quotas.count(&at, change);
            assert_eq!(raised(&quotas), expected, "{change:?}");
        }
        quotas.change(&at, SubtreeLimits { bytes: Some(101), soft_bytes: None, ..limits });
        assert_eq!(raised(&quotas), (false, false));
        quotas.change(&at, limits);
        assert_eq!(raised(&quotas), (true, true));
        quotas.lift(&at);
        assert_eq!((raised(&quotas), quotas.get(&at)), ((false, false), None));
    }

    #[test]
    fn a_znode_counts_for_itself_and_its_directories() {
        let mut quotas = SubtreeQuotas::default();
        quotas.set(&path("/a"), SubtreeLimits::default(), Usage::default());
        let way = |at: &str| quotas.counted_paths(&path(at)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(way("/"), ["/"]);
        assert_eq!(way("/a"), ["/", "/a"]);
        assert_eq!(way("/a/b/c"), ["/", "/a", "/a/b", "/a/b/c"]);
        assert!(way("/zookeeper/quota").is_empty() && way("/zookeeper").is_empty());
        assert_eq!(way("/zookeepers"), ["/", "/zookeepers"]);
    }

    #[test]
    fn a_limits_node_is_recognised() {
        let target = |at: &str| limited_by(&path(at)).map(|path| path.to_string());
        assert_eq!(target("/zookeeper/quota/a/b/zookeeper_limits"), Some("/a/b".to_owned()));
        assert_eq!(target("/zookeeper/quota/zookeeper_limits"), Some("/".to_owned()));
        for other in
            ["/zookeeper/quota/a/zookeeper_stats", "/a/zookeeper_limits", "/zookeeper_limits"]
        {
            assert_eq!(target(other), None, "{other}");
        }
        assert_eq!(target("/zookeeper/quotas/zookeeper_limits"), None);
    }
}
