//! A disk in memory that fails and loses power on demand.
//!
//! A [`FaultyDisk`] outlives the logs opened on it. It holds, for each segment, what is durable and what readers see, and
//! the planned faults. As on Linux, bytes of a failed sync are still shown, and no later sync makes them durable.
//! Memory: every segment twice.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Disk, SegmentFile};
use crate::error::StoreError;

/// A disk writes sectors whole.
const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug, Default)]
struct SegmentContent {
    /// What a power cut leaves; `None` for a segment that was never durable.
    durable: Option<Vec<u8>>,
    /// What readers see.
    visible: Vec<u8>,
    /// Written since the last sync, in order.
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct FaultyState {
    segments: BTreeMap<u32, Arc<Mutex<SegmentContent>>>,
    watermark: u64,
    /// Goes up with every crash; a disk opened before is dead.
    generation: u64,
    /// Writes, syncs, creations and removals since the disk was opened last.
    steps: u64,
    fail: Option<(u64, StoreError)>,
    lies: bool,
}

/// A disk that can be told when to fail, and crashed. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<FaultyState>>,
}

/// A [`Disk`] on a [`FaultyDisk`]; it returns errors once the disk has crashed or failed.
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
    /// Opens what the disk holds now. Disks opened earlier go on only if there was no crash in between.
    pub fn open(&self) -> OpenFaultyDisk {
        let mut state = self.state.lock();
        state.steps = 0;
        OpenFaultyDisk { disk: self.clone(), generation: state.generation }
    }

    /// Lets the `step`-th write, sync, creation or removal from now on (0 is the next), and each one after it, fail.
    pub fn fail_at(&self, step: u64, error: StoreError) {
        let mut state = self.state.lock();
        let at = state.steps + step;
        state.fail = Some((at, error));
    }

    /// From now on nothing becomes durable, and syncs return `Ok`: a fault that a test must detect.
    pub fn lie_about_sync(&self) {
        self.state.lock().lies = true;
    }

    /// Another disk with the same content, durable and not; it is not open and no fault is planned.
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

    /// Writes, syncs, creations and removals since the disk was opened last.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// Writes that are not synced: the number of crash points that [`crash`](Self::crash) can choose from.
    pub fn unsynced(&self) -> usize {
        let state = self.state.lock();
        state.segments.values().map(|content| content.lock().unsynced.len()).sum()
    }

    /// Cuts the power: of what was not synced, only the first `keep` writes are still there.
    pub fn crash(&self, keep: usize) {
        self.crash_torn(keep, |_| false);
    }

    /// As [`crash`](Self::crash), and of the writes behind those `keep`, the sectors that `survives` chooses by number.
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

    /// Kills the process: everything written is still there, synced or not, and still not durable.
    pub fn kill(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.fail = None;
    }

    /// What readers see of each segment, and the watermark, to go back to with [`restore`](Self::restore).
    pub fn image(&self) -> (BTreeMap<u32, Vec<u8>>, u64) {
        let state = self.state.lock();
        let visible = |(number, content): (&u32, &Arc<Mutex<SegmentContent>>)| {
            (*number, content.lock().visible.clone())
        };
        (state.segments.iter().map(visible).collect(), state.watermark)
    }

    /// Makes the disk hold these segments and this watermark, durably; kills the logs that are open.
    pub fn restore(&self, (segments, watermark): &(BTreeMap<u32, Vec<u8>>, u64)) {
        let mut state = self.state.lock();
        let content = |(number, bytes): (&u32, &Vec<u8>)| (*number, SegmentContent::durable(bytes));
        state.segments = segments.iter().map(content).collect();
        state.watermark = *watermark;
        state.generation += 1;
        state.fail = None;
    }

    /// Flips bits of a byte of a segment, durably and under the logs that are open. Returns whether there is such a byte.
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

/// Splits a write at the borders of sectors.
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
    /// Counts a step, fails it if that is planned, and runs it.
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
        let mut state = self.disk.state.lock();
        self.alive(&state)?;
        if !state.lies {
            state.watermark = frames;
        }
        Ok(())
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
