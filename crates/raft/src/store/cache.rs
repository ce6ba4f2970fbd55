//! The newest entries of the log, in memory.
//!
//! The cache holds one contiguous run of entries up to the end of the log. Each follower and `apply` read every entry
//! once, so reads of the tail avoid the disk. Bound: `bytes_max`. The cache never evicts entries that are not yet
//! readable from the log; the number of entries in flight limits those.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::type_config::RaftEntry;

/// The approximate memory of an entry in addition to its bytes.
const ENTRY_OVERHEAD: usize = 256;

struct Cached {
    entry: RaftEntry,
    /// The length of the entry's record.
    len: usize,
}

pub(crate) struct Cache {
    entries: VecDeque<Cached>,
    /// The index of the first entry; meaningless if the cache is empty.
    first: u64,
    /// The sum of `len` over the entries.
    bytes: usize,
    bytes_max: usize,
    /// Entries below this index are readable from the log.
    readable_end: u64,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { entries: VecDeque::new(), first: 0, bytes: 0, bytes_max, readable_end: 0 }
    }

    /// Adds the next entry. An entry that does not follow the last one replaces all cached entries.
    pub(crate) fn push(&mut self, entry: RaftEntry, record: &Bytes) {
        let index = entry.log_id.index;
        if self.end() != Some(index) {
            self.clear();
            self.first = index;
        }
        let len = record.len() + ENTRY_OVERHEAD;
        self.bytes += len;
        self.entries.push_back(Cached { entry, len });
    }

    /// Records that the log can read everything below `end`.
    pub(crate) fn readable(&mut self, end: u64) {
        self.readable_end = self.readable_end.max(end);
        while self.bytes > self.bytes_max && self.first < self.readable_end {
            let Some(cached) = self.entries.pop_front() else { break };
            self.bytes -= cached.len;
            self.first += 1;
        }
    }

    /// Removes the entries from `end` on.
    pub(crate) fn truncate(&mut self, end: u64) {
        self.readable_end = self.readable_end.min(end);
        while self.end().is_some_and(|own| own > end) {
            let Some(cached) = self.entries.pop_back() else { break };
            self.bytes -= cached.len;
        }
    }

    /// Removes the entries through `index`.
    pub(crate) fn purge(&mut self, index: u64) {
        while self.first <= index {
            let Some(cached) = self.entries.pop_front() else { break };
            self.bytes -= cached.len;
            self.first += 1;
        }
    }

    /// The memory of the entries that are not yet readable from the log.
    pub(crate) fn unreadable_bytes(&self) -> usize {
        let newest = self.entries.iter().rev();
        let unreadable = newest.take_while(|it| it.entry.log_id.index >= self.readable_end);
        unreadable.map(|it| it.len).sum()
    }

    pub(crate) fn first(&self) -> Option<u64> {
        (!self.entries.is_empty()).then_some(self.first)
    }

    /// Returns entries from `start` to below `end` until their bytes reach `bytes_max`; at least one entry if one
    /// exists. `start` must not be below [`Self::first`].
    pub(crate) fn read(&self, start: u64, end: u64, bytes_max: usize) -> Vec<RaftEntry> {
        let Some(skip) = start.checked_sub(self.first) else { return Vec::new() };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let mut bytes = 0_usize;
        let mut entries = Vec::new();
        for cached in self.entries.iter().skip(skip) {
            let over = bytes.saturating_add(cached.len) > bytes_max && !entries.is_empty();
            if cached.entry.log_id.index >= end || over {
                break;
            }
            bytes += cached.len;
            entries.push(cached.entry.clone());
        }
        entries
    }

    fn end(&self) -> Option<u64> {
        (!self.entries.is_empty()).then(|| self.first + self.entries.len() as u64)
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use openraft::LogId;

    use super::*;
    use crate::type_config::{LeaderId, Payload};

    fn cache(bytes_max: usize, indexes: std::ops::Range<u64>) -> Cache {
        let mut cache = Cache::new(bytes_max);
        for index in indexes {
            let log_id = LogId::new(LeaderId { term: 1, node_id: 1 }, index);
            cache.push(RaftEntry { log_id, payload: Payload::Blank }, &Bytes::from_static(b"x"));
        }
        cache
    }

    fn indexes(entries: &[RaftEntry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.log_id.index).collect()
    }

    #[test]
    fn entries_not_yet_readable_from_the_log_are_never_evicted() {
        let mut cache = cache(0, 3..8);
        assert_eq!(cache.first(), Some(3));
        cache.readable(5);
        assert_eq!(cache.first(), Some(5));
        assert_eq!(cache.unreadable_bytes(), 3 * (1 + ENTRY_OVERHEAD));
        cache.readable(8);
        assert_eq!((cache.first(), cache.unreadable_bytes()), (None, 0));
    }

    #[test]
    fn truncation_removes_the_tail_and_lowers_the_readable_end() {
        let mut cache = cache(usize::MAX, 0..10);
        cache.readable(10);
        cache.truncate(4);
        assert_eq!(indexes(&cache.read(0, 100, usize::MAX)), [0, 1, 2, 3]);
        assert_eq!(cache.readable_end, 4);
    }

    #[test]
    fn purging_removes_the_head_and_a_gap_clears_the_cache() {
        let mut cache = cache(usize::MAX, 0..10);
        cache.purge(6);
        assert_eq!(indexes(&cache.read(7, 100, usize::MAX)), [7, 8, 9]);
        cache.purge(20);
        assert_eq!(cache.first(), None);
        let log_id = LogId::new(LeaderId { term: 1, node_id: 1 }, 21);
        cache.push(RaftEntry { log_id, payload: Payload::Blank }, &Bytes::new());
        assert_eq!(cache.first(), Some(21));
    }

    #[test]
    fn a_read_is_bounded_by_bytes_but_never_empty() {
        let cache = cache(usize::MAX, 0..10);
        assert_eq!(indexes(&cache.read(2, 100, 1)), [2]);
        assert_eq!(indexes(&cache.read(2, 100, 2 * (1 + ENTRY_OVERHEAD))), [2, 3]);
        assert_eq!(indexes(&cache.read(2, 4, usize::MAX)), [2, 3]);
    }
}
