//! Quotas: limits on the znodes and bytes of a subtree, and its usage.
//!
//! The limits have the format of ZooKeeper: they are the data of `/zookeeper/quota<path>/zookeeper_limits`, and
//! `zookeeper_stats` beside it shows the usage. The index updates with each change, so a write reads only the quotas on
//! its own path. The root of a subtree counts. Nodes below `/zookeeper` count for no quota. A hard limit rejects
//! growth; an exceeded soft limit emits an event. Bounds: one quota for each `zookeeper_limits` node; a new quota
//! counts at most [`COUNTED_MAX`] znodes in one command.

use holdfast_types::{Rejection, TreeRejection, ZnodePath};
use imbl::OrdMap;

use crate::tree::{QUOTA, ZOOKEEPER};

/// The largest number of znodes that one command counts for new quotas.
pub(crate) const COUNTED_MAX: u64 = 1_000_000;

const LIMITS: &str = "/zookeeper_limits";
const STATS: &str = "/zookeeper_stats";

/// The limits of a subtree; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    soft: Usage<Option<u64>>,
    hard: Usage<Option<u64>>,
}

/// Znodes and bytes of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage<T = u64> {
    pub(crate) count: T,
    pub(crate) bytes: T,
}

/// One quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quota {
    limit: Limit,
    /// Invariant: the usage of the subtree.
    used: Usage,
}

/// All quotas, by the path of the subtree, which need not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubtreeQuotas(OrdMap<ZnodePath, Quota>);

impl Limit {
    /// Parses `count=N,bytes=N[;byteHardLimit=N][;countHardLimit=N]`. An unreadable or negative value is unlimited.
    pub(crate) fn parse(data: &[u8]) -> Self {
        let mut limit = Self::default();
        for pair in String::from_utf8_lossy(data).split([',', ';']) {
            let mut words = pair.split('=');
            let (key, value) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let value = value.trim().parse().ok();
            match key.trim() {
                "count" => limit.soft.count = value,
                "bytes" => limit.soft.bytes = value,
                "countHardLimit" => limit.hard.count = value,
                "byteHardLimit" => limit.hard.bytes = value,
                _ => {}
            }
        }
        limit
    }
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

    fn exceeds(limit: Option<u64>, used: u64, more: u64) -> Option<u64> {
        limit.filter(|limit| more > 0 && used.saturating_add(more) > *limit)
    }
}

impl SubtreeQuotas {
    /// True without any quota; each write checks this first.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets a quota on a path with the current usage of its subtree. Replaces an existing quota.
    pub(crate) fn set(&mut self, path: ZnodePath, limit: Limit, used: Usage) {
        self.0.insert(path, Quota { limit, used });
    }

    /// Changes the limits of an existing quota.
    pub(crate) fn change(&mut self, path: &ZnodePath, limit: Limit) {
        if let Some(quota) = self.0.get_mut(path) {
            quota.limit = limit;
        }
    }

    /// Removes a quota.
    pub(crate) fn lift(&mut self, path: &ZnodePath) {
        self.0.remove(path);
    }

    /// The usage of the subtree of a quota; `None` without a quota on the path.
    pub(crate) fn used(&self, path: &ZnodePath) -> Option<Usage> {
        self.0.get(path).map(|quota| quota.used)
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
            let Some(Quota { limit, used }) = self.0.get(at) else { continue };
            let count = new.clone().filter(|new| is_at_or_below(new.as_str(), at)).count() as u64;
            let limit = Quota::exceeds(limit.hard.count, used.count, count)
                .or_else(|| Quota::exceeds(limit.hard.bytes, used.bytes, bytes));
            if let (Some(limit), Ok(path)) = (limit, ZnodePath::new(at)) {
                return Err(TreeRejection::QuotaExceeded { path, limit }.into());
            }
        }
        Ok(())
    }

    /// Counts a change at a path. Returns the quotas whose soft limit it exceeds.
    pub(crate) fn count(&mut self, path: &ZnodePath, change: Usage<i64>) -> Vec<ZnodePath> {
        let mut exceeded = Vec::new();
        if self.0.is_empty() {
            return exceeded;
        }
        let counted_paths: Vec<&str> = self.counted_paths(path).collect();
        for at in counted_paths {
            let Some(quota) = self.0.get_mut(at) else { continue };
            let before = quota.used;
            quota.used.count = before.count.saturating_add_signed(change.count);
            quota.used.bytes = before.bytes.saturating_add_signed(change.bytes);
            let soft = quota.limit.soft;
            if Quota::crosses(soft.count, before.count, quota.used.count)
                || Quota::crosses(soft.bytes, before.bytes, quota.used.bytes)
            {
                exceeded.extend(ZnodePath::new(at).ok());
            }
        }
        exceeded
    }

    /// The paths whose quotas a znode counts for: the root, its directories and itself. Empty without quotas and below
    /// `/zookeeper`.
    fn counted_paths<'a>(&self, path: &'a ZnodePath) -> impl Iterator<Item = &'a str> + use<'a> {
        let path = path.as_str();
        let counts = !self.0.is_empty() && !is_at_or_below(path, ZOOKEEPER);
        let ends = path.bytes().enumerate().filter(|(at, byte)| *at > 0 && *byte == b'/');
        let ends = ends.map(|(at, _)| at).chain((path.len() > 1).then_some(path.len()));
        let ways = std::iter::once("/").chain(ends.filter_map(|end| path.get(..end)));
        ways.take(if counts { usize::MAX } else { 0 })
    }
}

/// The path of the quota that a `zookeeper_limits` node sets; `None` for other nodes.
pub(crate) fn limited_by(path: &ZnodePath) -> Option<ZnodePath> {
    target(path.as_str().strip_suffix(LIMITS)?)
}

/// The path of the quota whose usage a `zookeeper_stats` node shows; `None` for other nodes.
pub(crate) fn shown_by(path: &ZnodePath) -> Option<ZnodePath> {
    target(path.as_str().strip_suffix(STATS)?)
}

fn target(directory: &str) -> Option<ZnodePath> {
    match directory.strip_prefix(QUOTA)? {
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
    fn limits_are_read_as_zookeeper_writes_them() {
        let limit = Limit::parse(b"count=5,bytes=-1=;byteHardLimit=60;countHardLimit=7");
        assert_eq!(limit.soft, Usage { count: Some(5), bytes: None });
        assert_eq!(limit.hard, Usage { count: Some(7), bytes: Some(60) });
        assert_eq!(Limit::parse(b"nonsense,count=x"), Limit::default());
        assert_eq!(Limit::parse(&[0xff, b'=']), Limit::default());
    }

    #[test]
    fn a_znode_counts_for_itself_and_its_directories() {
        let mut quotas = SubtreeQuotas::default();
        quotas.set(path("/a"), Limit::default(), Usage::default());
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
