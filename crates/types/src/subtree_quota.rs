//! The quota of a subtree of znodes, in the form in which ZooKeeper stores it.
//!
//! The quota of `/a` is the data of `/zookeeper/quota/a/zookeeper_limits`; `zookeeper_stats` beside it shows the use.
//! Source: ZooKeeper 3.9.3, `StatsTrack` and `SetQuotaCommand`.

use serde::{Deserialize, Serialize};

use crate::name::check_len;
use crate::{Data, NameError, ZnodePath};

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
