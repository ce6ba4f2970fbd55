//! Quotas: what the clients of a namespace, one subject, or a subtree of znodes may use.
//!
//! A namespace without a quota is unlimited. A subject has a default for each of its quotas except the calls a second, so
//! that nobody with one access token can fill the cluster. The quota of the subtree `/a` has the form in which ZooKeeper stores
//! it: the data of `/zookeeper/quota/a/zookeeper_limits`; `zookeeper_stats` beside it shows the use. Source: ZooKeeper 3.9.3,
//! `StatsTrack` and `SetQuotaCommand`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::name::check_len;
use crate::{Data, NameError, NamespaceName, SubjectName, ZnodePath};

/// What a quota bounds. Append-only: the order of the variants is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QuotaKind {
    /// Locks with a holder or a waiter.
    Locks,
    /// Holders and waiters of all locks.
    QueueEntries,
    WaitersPerLock,
    /// Live sessions.
    Sessions,
    Znodes,
    /// Of a namespace, bytes of znodes: their paths, data, access lists and queue entries. Of a subject, bytes of
    /// sessions: their names, labels and remembered replies.
    Bytes,
    /// Latches, barriers and counters.
    Recipes,
    /// Calls to one node.
    CallsPerSecond,
    /// Event streams of one node.
    Streams,
    /// Connections to one node.
    Connections,
}

/// Percent of a limit from which on it is nearly reached.
const NEARLY_FULL_PERCENT: u128 = 90;

/// Whether the use of a quota raises the alarm `quota-near`.
pub fn is_nearly_full(used: u64, limit: u64) -> bool {
    limit > 0 && u128::from(used) * 100 >= u128::from(limit) * NEARLY_FULL_PERCENT
}

/// Limits by what they bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quotas(pub BTreeMap<QuotaKind, u64>);

/// Whose use a quota bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QuotaOwner {
    Namespace(NamespaceName),
    Subject(SubjectName),
}

/// An owner has no room for what a command adds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QuotaFull {
    pub owner: QuotaOwner,
    pub quota: QuotaKind,
    pub limit: u64,
    /// What the owner uses now, before the rejected command.
    pub used: u64,
}

impl QuotaKind {
    /// The quotas of a namespace.
    pub const OF_NAMESPACE: [Self; 8] = [
        Self::Locks,
        Self::QueueEntries,
        Self::WaitersPerLock,
        Self::Sessions,
        Self::Znodes,
        Self::Bytes,
        Self::Recipes,
        Self::CallsPerSecond,
    ];
    /// The quotas of a subject.
    pub const OF_SUBJECT: [Self; 6] = [
        Self::Sessions,
        Self::QueueEntries,
        Self::Bytes,
        Self::Streams,
        Self::Connections,
        Self::CallsPerSecond,
    ];

    /// The limit of a subject for which neither it nor the cluster has a quota. A small part of the limits of the cluster,
    /// and more than a program needs.
    pub const fn default_of_subject(self) -> Option<u64> {
        match self {
            Self::Sessions => Some(10_000),
            Self::QueueEntries => Some(100_000),
            Self::Bytes => Some(64 << 20),
            Self::Streams | Self::Connections => Some(4_000),
            Self::Locks
            | Self::WaitersPerLock
            | Self::Znodes
            | Self::Recipes
            | Self::CallsPerSecond => None,
        }
    }

    /// The name in replies and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Locks => "locks",
            Self::QueueEntries => "queue_entries",
            Self::WaitersPerLock => "waiters_per_lock",
            Self::Sessions => "sessions",
            Self::Znodes => "znodes",
            Self::Bytes => "bytes",
            Self::Recipes => "recipes",
            Self::CallsPerSecond => "calls_per_second",
            Self::Streams => "streams",
            Self::Connections => "connections",
        }
    }

    /// The values that it can have.
    pub const fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Recipes => 0..=Self::RECIPES_MAX,
            Self::CallsPerSecond => 1..=1_000_000,
            Self::Locks
            | Self::QueueEntries
            | Self::WaitersPerLock
            | Self::Sessions
            | Self::Znodes
            | Self::Bytes
            | Self::Streams
            | Self::Connections => 0..=(1 << 53) - 1,
        }
    }

    /// The greatest quota of recipes. It is low because a new recipe counts all recipes of its namespace.
    pub const RECIPES_MAX: u64 = 10_000;
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Quotas {
    pub fn get(&self, quota: QuotaKind) -> Option<u64> {
        self.0.get(&quota).copied()
    }

    /// Whether each quota is one of `kinds`, with a value that it can have.
    pub fn are_of(&self, kinds: &[QuotaKind]) -> bool {
        self.0.iter().all(|(quota, limit)| kinds.contains(quota) && quota.range().contains(limit))
    }
}

/// `the namespace 'team-a'`.
impl fmt::Display for QuotaOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(namespace) => write!(f, "the namespace '{namespace}'"),
            Self::Subject(subject) => write!(f, "the subject '{subject}'"),
        }
    }
}

/// The limits of a subtree of znodes; `None` is unlimited. A hard limit rejects growth. A subtree above a soft limit raises
/// an alarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubtreeLimits {
    pub znodes: Option<u64>,
    /// Bytes of data.
    pub bytes: Option<u64>,
    pub soft_znodes: Option<u64>,
    /// Bytes of data.
    pub soft_bytes: Option<u64>,
}

/// The quota of a subtree of znodes, and what the subtree uses of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtreeQuotaView {
    /// The root of the subtree, which need not exist.
    pub path: ZnodePath,
    pub limits: SubtreeLimits,
    pub used_znodes: u64,
    /// Bytes of data.
    pub used_bytes: u64,
}

/// The znodes that a quota consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaZnodes {
    pub directory: ZnodePath,
    pub limits: ZnodePath,
    pub stats: ZnodePath,
}

impl SubtreeLimits {
    /// The data of a new `zookeeper_stats` znode. A read shows the present use instead.
    pub const NEW_STATS: &[u8] = b"count=0,bytes=0";

    /// Reads the data of a `zookeeper_limits` znode. An unreadable or negative value is unlimited.
    pub fn from_data(data: &[u8]) -> Self {
        let mut limits = Self::default();
        for pair in String::from_utf8_lossy(data).split([',', ';']) {
            let mut words = pair.split('=');
            let (key, value) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let value = value.trim().parse().ok();
            match key.trim() {
                "count" => limits.soft_znodes = value,
                "bytes" => limits.soft_bytes = value,
                "countHardLimit" => limits.znodes = value,
                "byteHardLimit" => limits.bytes = value,
                _ => {}
            }
        }
        limits
    }

    /// The data of a `zookeeper_limits` znode, byte for byte as a client of ZooKeeper writes it.
    pub fn to_data(&self) -> Data {
        let soft = |limit: Option<u64>| limit.map_or("-1".to_owned(), |limit| limit.to_string());
        let mut text = format!("count={},bytes={}", soft(self.soft_znodes), soft(self.soft_bytes));
        let hard = [("byteHardLimit", self.bytes), ("countHardLimit", self.znodes)];
        if self.bytes.or(self.znodes).is_some() {
            // Hides the hard limits from the parser of ZooKeeper 3.4.
            text.push('=');
        }
        for (name, limit) in hard.iter().filter_map(|(name, limit)| Some((name, (*limit)?))) {
            text.extend([";", name, "=", &limit.to_string()]);
        }
        Data::from(text.into_bytes())
    }
}

impl QuotaZnodes {
    /// The znode that has all quotas, which always exists.
    pub const TOP: &str = "/zookeeper/quota";
    /// The name of the znode with the limits, after its directory.
    pub const LIMITS: &str = "/zookeeper_limits";
    /// The name of the znode that shows the use, after its directory.
    pub const STATS: &str = "/zookeeper_stats";

    /// The longest path of a subtree with a quota, bytes.
    pub const PATH_MAX_LEN: usize = ZnodePath::MAX_LEN - Self::TOP.len() - Self::LIMITS.len();

    /// The znodes of the quota of a subtree.
    ///
    /// # Errors
    /// [`NameError`] if the path is longer than [`Self::PATH_MAX_LEN`].
    pub fn of(path: &ZnodePath) -> Result<Self, NameError> {
        check_len("the path of a quota", path.as_str(), Self::PATH_MAX_LEN)?;
        let directory = format!("{}{}", Self::TOP, path.as_str().trim_end_matches('/'));
        Ok(Self {
            limits: ZnodePath::new(format!("{directory}{}", Self::LIMITS))?,
            stats: ZnodePath::new(format!("{directory}{}", Self::STATS))?,
            directory: ZnodePath::new(directory)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_zookeeper_writes_them() {
        let read = SubtreeLimits::from_data;
        let limits = read(b"count=5,bytes=-1=;byteHardLimit=60;countHardLimit=7");
        let expected = SubtreeLimits {
            znodes: Some(7),
            bytes: Some(60),
            soft_znodes: Some(5),
            soft_bytes: None,
        };
        assert_eq!(limits, expected);
        assert_eq!(read(b"nonsense,count=x"), SubtreeLimits::default());
        assert_eq!(read(&[0xff, b'=']), SubtreeLimits::default());
    }

    #[test]
    fn limits_are_written_as_zookeeper_writes_them_and_read_back() {
        let none = SubtreeLimits::default();
        for (limits, text) in [
            (none, "count=-1,bytes=-1"),
            (SubtreeLimits { soft_znodes: Some(5), ..none }, "count=5,bytes=-1"),
            (SubtreeLimits { bytes: Some(60), ..none }, "count=-1,bytes=-1=;byteHardLimit=60"),
            (SubtreeLimits { znodes: Some(0), ..none }, "count=-1,bytes=-1=;countHardLimit=0"),
            (
                SubtreeLimits { znodes: Some(7), bytes: Some(60), soft_bytes: Some(9), ..none },
                "count=-1,bytes=9=;byteHardLimit=60;countHardLimit=7",
            ),
        ] {
            assert_eq!(&*limits.to_data(), text.as_bytes());
            assert_eq!(SubtreeLimits::from_data(text.as_bytes()), limits, "{text}");
        }
    }

    #[test]
    fn the_root_has_a_quota_too_and_a_long_path_has_none() {
        let of = |path: &str| QuotaZnodes::of(&ZnodePath::new(path).unwrap());
        let znodes = of("/a/b").unwrap();
        assert_eq!(znodes.limits.as_str(), "/zookeeper/quota/a/b/zookeeper_limits");
        assert_eq!(znodes.stats.as_str(), "/zookeeper/quota/a/b/zookeeper_stats");
        assert_eq!(of("/").unwrap().directory.as_str(), QuotaZnodes::TOP);
        assert_eq!(of("/").unwrap().limits.as_str(), "/zookeeper/quota/zookeeper_limits");
        let of_length = |len: usize| of(&format!("/{}", "a".repeat(len - 1)));
        let longest = of_length(QuotaZnodes::PATH_MAX_LEN).unwrap();
        assert_eq!(longest.limits.as_str().len(), ZnodePath::MAX_LEN);
        assert!(of_length(QuotaZnodes::PATH_MAX_LEN + 1).is_err());
    }
}
