//! A disk in memory that simulates failures and power cuts.
//!
//! A [`FaultyDisk`] outlives the logs opened on it. For each segment it holds the durable content, the visible
//! content, and the planned faults. As on Linux, bytes of a failed sync stay visible, and no later sync makes them
//! durable. Memory: two copies of every segment.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Disk, SegmentFile};
use crate::error::StoreError;

/// The sector size; the disk writes a sector atomically.
const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug, Default)]
struct SegmentContent {
    /// The content after a power cut; `None` for a segment that was never durable.
    durable: Option<Vec<u8>>,
    /// The content that readers see.
    visible: Vec<u8>,
    /// Writes since the last sync, in order.
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct FaultyState {
    segments: BTreeMap<u32, Arc<Mutex<SegmentContent>>>,
    watermark: u64,
    /// Increases with every crash; a disk opened under an earlier generation returns errors.
    generation: u64,
    /// The number of writes, syncs, creations, removals and raised watermarks since the last open.
    steps: u64,
    fail: Option<(u64, StoreError)>,
    lies: bool,
}

/// A disk whose failures and crashes a test controls. Clones share one disk.
#[derive(Clone, Debug, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<FaultyState>>,
}

/// A [`Disk`] on a [`FaultyDisk`]; it returns errors after the disk has crashed or failed.
#[derive(Clone, Debug)]
pub struct OpenFaultyDisk {
    disk: FaultyDisk,
    generation: u64,
}

struct OpenFaultySegment {
    disk: OpenFaultyDisk,
    content: Arc<Mutex<SegmentContent>>,
}

impl FaultyDisk {
    /// Opens the current content. Disks opened earlier keep working if no crash occurred in between.
    pub fn open(&self) -> OpenFaultyDisk {
        let mut state = self.state.lock();
        state.steps = 0;
        OpenFaultyDisk { disk: self.clone(), generation: state.generation }
    }

    /// Makes the `step`-th write, sync, creation, removal or raised watermark from now on (0 is the next), and every
    /// later one, fail with `error`.
    pub fn fail_at(&self, step: u64, error: StoreError) {
        let mut state = self.state.lock();
        let at = state.steps + step;
        state.fail = Some((at, error));
    }

    /// From now on syncs return `Ok` without making data durable: a fault that a test must detect.
    pub fn ignore_syncs(&self) {
        self.state.lock().lies = true;
    }

    /// Returns a copy of the disk with the same durable and visible content, closed and without planned faults.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state.lock();
        let copied = |(number, content): (&u32, &Arc<Mutex<SegmentContent>>)| {
            (*number, Arc::new(Mutex::new(content.lock().clone())))
        };
        let segments = state.segments.iter().map(copied).collect();
        let copy = FaultyState { segments, watermark: state.watermark, ..FaultyState::default() };
        Self { state: Arc::new(Mutex::new(copy)) }
    }

    /// Returns the number of writes, syncs, creations, removals and raised watermarks since the last open.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// Returns the number of unsynced writes, which is the number of crash points for [`crash`](Self::crash).
    pub fn unsynced(&self) -> usize {
        let state = self.state.lock();
        state.segments.values().map(|content| content.lock().unsynced.len()).sum()
    }

    /// Cuts the power; of the unsynced writes only the first `keep` survive.
    pub fn crash(&self, keep: usize) {
        self.crash_torn(keep, |_| false);
    }

    /// Like [`crash`](Self::crash); of the writes after the first `keep`, the sectors that `survives` selects by
    /// number survive too.
    pub fn crash_torn(&self, keep: usize, mut survives: impl FnMut(usize) -> bool) {
        let mut state = self.state.lock();
        let (mut writes, mut sectors) = (0, 0);
        state.segments.retain(|_, content| {
            let mut content = content.lock();
            let unsynced = std::mem::take(&mut content.unsynced);
            let Some(mut durable) = content.durable.take() else { return false };
            for (offset, bytes) in unsynced {
                writes += 1;
                for (offset, sector) in split(offset, &bytes) {
                    sectors += 1;
                    if writes <= keep || survives(sectors) {
                        put(&mut durable, offset, sector);
                    }
                }
            }
            content.visible.clone_from(&durable);
            content.durable = Some(durable);
            true
        });
        state.generation += 1;
        state.fail = None;
    }

    /// Kills the process: all written bytes stay visible, but unsynced bytes are still not durable.
    pub fn kill(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.fail = None;
    }

    /// Returns the visible content of each segment, and the watermark, for [`restore`](Self::restore).
    pub fn image(&self) -> (BTreeMap<u32, Vec<u8>>, u64) {
        let state = self.state.lock();
        let visible = |(number, content): (&u32, &Arc<Mutex<SegmentContent>>)| {
            (*number, content.lock().visible.clone())
        };
        (state.segments.iter().map(visible).collect(), state.watermark)
    }

    /// Replaces the content of the disk by these segments and this watermark, durably; kills the open logs.
    pub fn restore(&self, (segments, watermark): &(BTreeMap<u32, Vec<u8>>, u64)) {
        let mut state = self.state.lock();
        let content = |(number, bytes): (&u32, &Vec<u8>)| (*number, SegmentContent::durable(bytes));
        state.segments = segments.iter().map(content).collect();
        state.watermark = *watermark;
        state.generation += 1;
        state.fail = None;
    }

    /// Flips bits of a byte of a segment, durably and visibly for open logs. Returns `false` if the byte does not
    /// exist.
    pub fn damage(&self, number: u32, offset: usize, bits: u8) -> bool {
        let state = self.state.lock();
        let Some(content) = state.segments.get(&number) else { return false };
        let mut content = content.lock();
        let Some(byte) = content.visible.get_mut(offset) else { return false };
        *byte ^= bits;
        content.durable = Some(content.visible.clone());
        true
    }
}

impl SegmentContent {
    fn durable(bytes: &[u8]) -> Arc<Mutex<Self>> {
        let (durable, visible) = (Some(bytes.to_vec()), bytes.to_vec());
        Arc::new(Mutex::new(Self { durable, visible, unsynced: Vec::new() }))
    }
}

/// Splits a write at sector boundaries.
fn split(offset: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let head = (offset.next_multiple_of(SECTOR_BYTES) - offset).min(bytes.len());
    let (first, rest) = bytes.split_at(head);
    let rest = rest.chunks(SECTOR_BYTES).enumerate();
    let rest = rest.map(move |(at, sector)| (offset + head + at * SECTOR_BYTES, sector));
    Some((offset, first)).filter(|_| head > 0).into_iter().chain(rest)
}

fn put(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

impl OpenFaultyDisk {
    /// Counts a step; fails it if a fault is planned, otherwise runs it.
    fn step<T>(&self, run: impl FnOnce(&mut FaultyState) -> T) -> Result<T, StoreError> {
        let mut state = self.disk.state.lock();
        self.alive(&state)?;
        let step = state.steps;
        state.steps += 1;
        match &state.fail {
            Some((at, error)) if step >= *at => Err(error.clone()),
            _ => Ok(run(&mut state)),
        }
    }

    fn alive(&self, state: &FaultyState) -> Result<(), StoreError> {
        if self.generation == state.generation {
            return Ok(());
        }
        Err(StoreError::io("using a crashed disk", &io::Error::other("the power was cut")))
    }

    fn opened(&self, content: &Arc<Mutex<SegmentContent>>) -> Arc<dyn SegmentFile> {
        Arc::new(OpenFaultySegment { disk: self.clone(), content: Arc::clone(content) })
    }
}

impl Disk for OpenFaultyDisk {
    fn segments(&self) -> Result<Vec<u32>, StoreError> {
        let state = self.disk.state.lock();
        self.alive(&state)?;
        Ok(state.segments.keys().copied().collect())
    }

    fn open(&self, number: u32) -> Result<Arc<dyn SegmentFile>, StoreError> {
        let state = self.disk.state.lock();
        self.alive(&state)?;
        let missing = || StoreError::io("opening a segment", &io::ErrorKind::NotFound.into());
        state.segments.get(&number).map(|content| self.opened(content)).ok_or_else(missing)
    }

    fn create(&self, number: u32, content: &[u8]) -> Result<Arc<dyn SegmentFile>, StoreError> {
        let created = SegmentContent::durable(content);
        self.step(|state| {
            let before = state.segments.insert(number, Arc::clone(&created));
            if state.lies {
                created.lock().durable = before.and_then(|before| before.lock().durable.clone());
            }
        })?;
        Ok(self.opened(&created))
    }

    fn remove(&self, number: u32) -> Result<(), StoreError> {
        self.step(|state| drop(state.segments.remove(&number)))
    }

    fn watermark(&self) -> u64 {
        self.disk.state.lock().watermark
    }

    fn raise_watermark(&self, frames: u64) -> Result<(), StoreError> {
        self.step(|state| {
            if !state.lies {
                state.watermark = frames;
            }
        })
    }
}

impl SegmentFile for OpenFaultySegment {
    fn read_all(&self) -> Result<Bytes, StoreError> {
        self.read_at(0, usize::MAX)
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, StoreError> {
        self.disk.alive(&self.disk.disk.state.lock())?;
        let content = self.content.lock();
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = content.visible.get(offset..).unwrap_or_default();
        Ok(Bytes::copy_from_slice(&rest[..len.min(rest.len())]))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.disk.step(|_| {
            let mut content = self.content.lock();
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            put(&mut content.visible, offset, bytes);
            content.unsynced.push((offset, bytes.to_vec()));
        })
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.disk.alive(&self.disk.disk.state.lock())?;
        let synced = self.disk.step(|state| state.lies);
        let mut content = self.content.lock();
        if synced == Ok(true) {
            return Ok(());
        }
        let unsynced = std::mem::take(&mut content.unsynced);
        if synced.is_ok() {
            let mut durable = content.durable.take().unwrap_or_default();
            for (offset, bytes) in unsynced {
                put(&mut durable, offset, &bytes);
            }
            content.durable = Some(durable);
        }
        synced.map(drop)
    }
}
