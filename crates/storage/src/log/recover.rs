//! Opens the log: reads every segment, verifies it, and computes the state.
//!
//! In the newest segment only the valid frames at the front count; a crash may leave any bytes after them. Each older
//! segment was synced before the creation of the next segment, so its frames must all be valid. The log must reach the
//! watermark, and every record must exist. Otherwise the open fails without changing a file.
//!
//! Only the newest segment can hold bytes that exist only in the page cache, after `kill -9` or a failed sync. Another
//! sync does not help: after a failed sync Linux marks the bytes clean. The open therefore writes the newest segment
//! again, as a new file, before readers see its content.

use std::sync::Arc;

use bytes::Bytes;

use super::change::LogChange;
use super::frame::{HEADER_BYTES, Position, START, Summary};
use super::state::{Location, LogState};
use crate::disk::{Disk, SegmentFile};
use crate::error::StoreError;

/// The newest segment, to which the log appends.
pub(super) struct NewestSegment {
    pub(super) segment: u32,
    pub(super) file: Arc<dyn SegmentFile>,
    /// The offset of the next frame in the file.
    pub(super) end: usize,
    /// The position of the next frame in the log.
    pub(super) position: Position,
}

/// Verifies the log on a disk, or creates an empty log on a new disk.
pub(super) fn open(disk: &dyn Disk) -> Result<(LogState, NewestSegment), StoreError> {
    let present = disk.segments()?;
    if present.is_empty() {
        let mut state = LogState::default();
        let tail = create(disk, &state)?;
        state.segments.insert(tail.segment, Arc::clone(&tail.file));
        return Ok((state, tail));
    }
    let Replayed { mut state, mut tail, newest } = replay(disk, continuous(&present))?;
    check(disk, &state, tail.position)?;
    tail.file = disk.create(tail.segment, newest.get(..tail.end).unwrap_or(&newest))?;
    state.segments.insert(tail.segment, Arc::clone(&tail.file));
    disk.raise_watermark(tail.position.frames)?;
    // After a power cut, removed segments may exist again.
    while let Some(number) = state.purged_segment() {
        state.segments.remove(&number);
    }
    let oldest = state.segments.keys().next().copied();
    for number in present.into_iter().filter(|number| Some(*number) < oldest) {
        disk.remove(number)?;
    }
    Ok((state, tail))
}

fn create(disk: &dyn Disk, state: &LogState) -> Result<NewestSegment, StoreError> {
    match disk.watermark() {
        0 => start_segment(disk, state, Position::default(), 1),
        frames => {
            let detail =
                format!("the log has no segment, {frames} of its frames were acknowledged");
            Err(StoreError::corrupt(detail))
        }
    }
}

/// Creates a segment that continues the log at a position.
pub(super) fn start_segment(
    disk: &dyn Disk,
    state: &LogState,
    position: Position,
    segment: u32,
) -> Result<NewestSegment, StoreError> {
    let (content, position) = state.summary(position).new_segment();
    let file = disk.create(segment, &content)?;
    disk.raise_watermark(position.frames)?;
    Ok(NewestSegment { segment, file, end: content.len(), position })
}

/// Returns the contiguous segments that end with the newest. Segments before a gap were purged.
fn continuous(present: &[u32]) -> &[u32] {
    let gap = present.windows(2).rposition(|pair| pair[1] - pair[0] != 1);
    &present[gap.map_or(0, |gap| gap + 1)..]
}

struct Replayed {
    state: LogState,
    tail: NewestSegment,
    /// The bytes of the newest segment.
    newest: Bytes,
}

fn replay(disk: &dyn Disk, segments: &[u32]) -> Result<Replayed, StoreError> {
    let mut before: Option<Replayed> = None;
    for &segment in segments {
        let file = disk.open(segment)?;
        let content = file.read_all()?;
        let mut rest = content.clone();
        let (summary, position) = Summary::read(&mut rest).ok_or_else(|| bad(segment, &content))?;
        let mut state = match before {
            None => LogState::of(summary),
            Some(before) if before.state.summary(before.tail.position) == summary => before.state,
            Some(_) => {
                return Err(StoreError::corrupt(format!(
                    "segment {segment} of the log does not continue the segment before it"
                )));
            }
        };
        state.segments.insert(segment, Arc::clone(&file));
        let end = content.len() - rest.len();
        let mut tail = NewestSegment { segment, file, end, position };
        replay_frames(&mut state, &mut tail, rest)?;
        before = Some(Replayed { state, tail, newest: content });
    }
    before.ok_or(StoreError::Closed)
}

fn replay_frames(
    state: &mut LogState,
    tail: &mut NewestSegment,
    mut rest: Bytes,
) -> Result<(), StoreError> {
    loop {
        let before = tail.position;
        let Some(content) = tail.position.read(&mut rest) else { return Ok(()) };
        let len = content.len();
        let change = LogChange::decode(content).ok_or_else(|| {
            // The checksum is valid, so the log wrote these bytes.
            StoreError::newer_format(format!("segment {} has an unknown frame", tail.segment))
        })?;
        let location = Location::new(tail.segment, tail.end, &change, before);
        state.apply(change, location).map_err(StoreError::corrupt)?;
        tail.end += HEADER_BYTES + len;
    }
}

fn check(disk: &dyn Disk, state: &LogState, end: Position) -> Result<(), StoreError> {
    let (found, acknowledged) = (end.frames, disk.watermark());
    if found < acknowledged {
        return Err(StoreError::corrupt(format!(
            "the log ends at frame {found}, frame {acknowledged} was acknowledged"
        )));
    }
    if !state.is_complete() {
        let (first, next) = (state.bounds.first, state.bounds.next);
        return Err(StoreError::corrupt(format!(
            "a segment with some of the records {first} to {} of the log is missing",
            next.saturating_sub(1)
        )));
    }
    Ok(())
}

/// Returns the error for a segment without a readable summary.
fn bad(segment: u32, content: &Bytes) -> StoreError {
    match content.first_chunk::<8>() {
        Some(start) if start[..5] == START[..5] && *start != START => {
            StoreError::newer_format(format!("segment {segment} of the log has an unknown version"))
        }
        _ => StoreError::corrupt(format!("the start of segment {segment} fails its checksum")),
    }
}
