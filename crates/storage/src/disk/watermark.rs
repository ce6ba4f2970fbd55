//! The watermark: the number of frames of the log that are certainly durable, in the file `<dir>/synced` beside the
//! segments.
//!
//! After each sync of the log the log thread writes the number of frames here, without another sync. The file may lag
//! behind the log, but never leads it. A log with fewer frames has lost acknowledged data, even if all its checksums
//! are valid.
//!
//! The file has two slots, a page apart. Writes alternate between them, so a torn write damages at most one slot:
//!
//! ```text
//! 0..4   magic "HFSY"
//! 4..12  number of frames, little endian
//! 12..16 CRC-32C of bytes 0..12, little endian
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::error::{At, StoreError};
use crate::file::replace;

const MAGIC: [u8; 4] = *b"HFSY";
const SLOT_LEN: usize = 16;
const SLOT_OFFSETS: [u64; 2] = [0, 4096];
/// The distance between the slots, bytes.
const SLOT_GAP_LEN: usize = 4096 - SLOT_LEN;
pub(crate) const FILE: &str = "synced";

/// The open watermark file.
#[derive(Debug)]
pub(crate) struct Watermark {
    file: File,
    path: PathBuf,
    /// The number in the newer slot.
    frames: u64,
    /// The index of the slot for the next write.
    turn: usize,
}

impl Watermark {
    /// Creates the file in `dir` with the value 0, durably.
    pub(crate) fn create(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        let gap = [0; SLOT_GAP_LEN];
        let file = replace(&path, &[&slot(0), &gap, &slot(0)])?;
        Ok(Self { file, path, frames: 0, turn: 0 })
    }

    /// Opens the file in `dir`; [`StoreError::Corrupt`] if both slots are damaged.
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(FILE);
        let file = File::options().read(true).write(true).open(&path).at("opening", &path)?;
        let slots = SLOT_OFFSETS.map(|offset| {
            let mut bytes = [0; SLOT_LEN];
            file.read_exact_at(&mut bytes, offset).ok().and_then(|()| parse(&bytes))
        });
        let frames = slots.iter().flatten().max().copied().ok_or_else(|| {
            StoreError::corrupt(format!("both slots of {} fail their checksum", path.display()))
        })?;
        let turn = usize::from(slots[0] == Some(frames));
        Ok(Self { file, path, frames, turn })
    }

    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Records that `frames` frames are durable. The caller has synced them before.
    pub(crate) fn raise(&mut self, frames: u64) -> Result<(), StoreError> {
        let offset = SLOT_OFFSETS[self.turn];
        self.file.write_all_at(&slot(frames), offset).at("writing", &self.path)?;
        self.frames = frames;
        self.turn = 1 - self.turn;
        Ok(())
    }
}

fn slot(frames: u64) -> [u8; SLOT_LEN] {
    let mut bytes = [0; SLOT_LEN];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..12].copy_from_slice(&frames.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..12]);
    bytes[12..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn parse(bytes: &[u8; SLOT_LEN]) -> Option<u64> {
    let (_, rest) = bytes.split_first_chunk::<4>()?;
    let (frames, _) = rest.split_first_chunk::<8>()?;
    let frames = u64::from_le_bytes(*frames);
    (slot(frames) == *bytes).then_some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reopening_returns_the_highest_written_number() {
        let dir = tempfile::tempdir().unwrap();
        let mut watermark = Watermark::create(dir.path()).unwrap();
        for frames in [2, 3, 9, 10] {
            watermark.raise(frames).unwrap();
            assert_eq!(Watermark::open(dir.path()).unwrap().frames(), frames);
        }
    }

    #[test]
    fn one_torn_slot_falls_back_to_the_other_and_two_are_damage() {
        let dir = tempfile::tempdir().unwrap();
        let mut watermark = Watermark::create(dir.path()).unwrap();
        watermark.raise(5).unwrap();
        watermark.raise(6).unwrap();
        watermark.file.write_all_at(b"torn", SLOT_OFFSETS[1]).unwrap();
        let mut again = Watermark::open(dir.path()).unwrap();
        assert_eq!(again.frames(), 5);
        again.raise(7).unwrap();
        assert_eq!(
            Watermark::open(dir.path()).unwrap().frames(),
            7,
            "the write replaces the torn slot"
        );
        again.file.set_len(0).unwrap();
        assert!(matches!(Watermark::open(dir.path()), Err(StoreError::Corrupt { .. })));
    }
}
