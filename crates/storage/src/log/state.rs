//! The state that results from the frames of the log: the records, their locations, and the Raft metadata.
//!
//! The log thread changes the state after it has written a frame; an open computes the state again from the frames.
//! Memory: 16 bytes for each record, and the metadata.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;

use super::change::{Bounds, LogChange, RaftMeta, Record};
use super::frame::{HEADER_BYTES, Position, Summary};
use crate::disk::SegmentFile;
use crate::error::StoreError;

/// The location of a record's frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    pub(super) segment: u32,
    pub(super) offset: u32,
    /// The length of the record.
    pub(super) len: u32,
    /// The checksum of the frame before it.
    pub(super) checksum_before: u32,
}

impl Location {
    /// The location of the frame written to `segment` at `offset`, at a position of the log.
    pub(super) fn new(segment: u32, offset: usize, change: &LogChange, at: Position) -> Self {
        let len = if let LogChange::Append(record) = change { record.bytes.len() } else { 0 };
        // A segment and a record are far below 4 GiB, so both numbers fit.
        let [offset, len] = [offset, len].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        Self { segment, offset, len, checksum_before: at.checksum }
    }
}

#[derive(Default)]
pub(super) struct LogState {
    pub(super) bounds: Bounds,
    pub(super) metas: [Option<Bytes>; RaftMeta::ALL.len()],
    /// The locations of the last records; of all records after the open.
    locations: VecDeque<Location>,
    pub(super) segments: BTreeMap<u32, Arc<dyn SegmentFile>>,
}

/// A record that a reader fetches without holding the state lock.
pub(super) struct FoundRecord {
    index: u64,
    location: Location,
    file: Arc<dyn SegmentFile>,
}

impl LogState {
    /// Creates the state at the start of the oldest segment. Its records have no location yet.
    pub(super) fn of(summary: Summary) -> Self {
        Self { bounds: summary.bounds, metas: summary.metas, ..Self::default() }
    }

    pub(super) fn summary(&self, position: Position) -> Summary {
        Summary { position, bounds: self.bounds, metas: self.metas.clone() }
    }

    /// Applies a change; `location` is the location of its frame, used for a record.
    pub(super) fn apply(&mut self, change: LogChange, location: Location) -> Result<(), String> {
        let before = self.bounds;
        self.bounds = before.after(&change)?;
        match change {
            LogChange::Append(_) => self.locations.push_back(location),
            LogChange::SetMeta { meta, bytes } => self.set_meta(meta, bytes),
            LogChange::Purge { meta, .. } => self.set_meta(RaftMeta::Purged, meta),
            LogChange::Truncate { .. } => {
                let removed = before.next.saturating_sub(self.bounds.next);
                let removed = usize::try_from(removed).unwrap_or(usize::MAX);
                self.locations.truncate(self.locations.len().saturating_sub(removed));
            }
        }
        while self.locations.len() as u64 > self.bounds.len() {
            self.locations.pop_front();
        }
        Ok(())
    }

    fn set_meta(&mut self, meta: RaftMeta, bytes: Bytes) {
        self.metas[usize::from(meta.number())] = Some(bytes);
    }

    /// Returns `true` if every record has a location.
    pub(super) fn is_complete(&self) -> bool {
        self.locations.len() as u64 == self.bounds.len()
    }

    /// Returns a segment without records, except the newest segment.
    pub(super) fn purged_segment(&self) -> Option<u32> {
        let (newest, _) = self.segments.last_key_value()?;
        let oldest_used = self.locations.front().map_or(*newest, |location| location.segment);
        self.segments.keys().next().copied().filter(|oldest| *oldest < oldest_used)
    }

    /// Returns the records of `range` up to about `bytes_max` bytes, but at least one record if one exists.
    pub(super) fn find(&self, range: &RangeInclusive<u64>, bytes_max: usize) -> Vec<FoundRecord> {
        let Bounds { first, next, .. } = self.bounds;
        let (start, end) = (first.max(*range.start()), next.min(range.end().saturating_add(1)));
        let mut found = Vec::new();
        let mut bytes = 0;
        let skipped = usize::try_from(start - first).unwrap_or(usize::MAX);
        for (index, location) in (start..end).zip(self.locations.iter().skip(skipped)) {
            if !found.is_empty() && bytes >= bytes_max {
                break;
            }
            let Some(file) = self.segments.get(&location.segment) else { break };
            found.push(FoundRecord { index, location: *location, file: Arc::clone(file) });
            bytes += location.len as usize;
        }
        found
    }
}

impl FoundRecord {
    /// Reads the record from its segment, and verifies it.
    pub(super) fn read(&self) -> Result<Record, StoreError> {
        let Location { segment, offset, len, checksum_before } = self.location;
        // The kind and the index precede the record.
        let len = HEADER_BYTES + 9 + len as usize;
        let mut bytes = self.file.read_at(u64::from(offset), len)?;
        let mut position = Position { frames: 0, checksum: checksum_before };
        match position.read(&mut bytes).and_then(LogChange::decode) {
            Some(LogChange::Append(record)) if record.index == self.index => Ok(record),
            _ => Err(StoreError::corrupt(format!(
                "record {} of the log, in segment {segment}, fails its checksum",
                self.index
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(index: u64) -> LogChange {
        LogChange::Append(Record { index, bytes: Bytes::new() })
    }

    fn purge(through: u64) -> LogChange {
        LogChange::Purge { through, meta: Bytes::new() }
    }

    fn bounds(purged: Option<u64>, first: u64, next: u64) -> Bounds {
        Bounds { purged, first, next }
    }

    /// A state with records `first..=last`, each in its own segment, numbered by its index.
    fn state(first: u32, last: u32) -> LogState {
        let mut state = LogState::default();
        for segment in first..=last {
            let change = record(u64::from(segment));
            let location = Location::new(segment, 0, &change, Position::default());
            state.apply(change, location).unwrap();
        }
        state
    }

    fn apply(state: &mut LogState, change: LogChange) {
        let location = Location::new(0, 0, &change, Position::default());
        state.apply(change, location).unwrap();
        assert!(state.bounds.are_valid() && state.is_complete(), "{:?}", state.bounds);
    }

    fn segments(state: &LogState) -> Vec<u32> {
        state.locations.iter().map(|location| location.segment).collect()
    }

    #[test]
    fn truncations_and_purges_remove_the_locations_of_their_records() {
        let mut state = state(3, 9);
        apply(&mut state, LogChange::Truncate { next: 8 });
        assert_eq!(segments(&state), [3, 4, 5, 6, 7]);
        apply(&mut state, purge(4));
        assert_eq!(segments(&state), [5, 6, 7]);
        apply(&mut state, LogChange::Truncate { next: 0 });
        assert_eq!((state.bounds, segments(&state)), (bounds(Some(4), 5, 5), vec![]));
        assert_eq!(state.bounds.next_index(), Some(5));
        apply(&mut state, purge(20));
        assert_eq!(state.bounds, bounds(Some(20), 21, 21));
    }

    #[test]
    fn a_log_that_was_never_purged_starts_at_any_index() {
        let mut state = state(50, 60);
        apply(&mut state, LogChange::Truncate { next: 10 });
        assert_eq!(state.bounds.next_index(), None);
        apply(&mut state, record(7));
        assert_eq!(state.bounds, bounds(None, 7, 8));
        apply(&mut state, purge(3));
        assert_eq!(state.bounds, bounds(Some(3), 7, 8));
        apply(&mut state, LogChange::Truncate { next: 7 });
        assert_eq!(state.bounds.next_index(), Some(4), "the log continues after the purge");
    }

    #[test]
    fn records_of_missing_segments_are_detected_until_they_are_purged() {
        let summary = Summary { bounds: bounds(None, 1, 100), ..Summary::default() };
        let mut state = LogState::of(summary);
        let location = Location::new(1, 0, &record(100), Position::default());
        state.apply(record(100), location).unwrap();
        assert!(!state.is_complete());
        state.apply(purge(50), location).unwrap();
        assert!(!state.is_complete());
        apply(&mut state, purge(99));
        assert_eq!(segments(&state), [1]);
    }
}
