//! An engine that fails on demand, for crash tests.
//!
//! A [`FaultyDisk`] outlives the engines opened on it. It holds the durable state, the written state, and the planned
//! faults. A crash drops the batches that were not synced, except a prefix that the test chooses: a real disk may have
//! written some of them. Memory: all written and not deleted values, twice.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::memory::{Map, apply, scan};
use super::{Engine, Order, Visit, WriteBatch};
use crate::error::StoreError;

#[derive(Debug, Default)]
struct State {
    /// What a power cut leaves.
    durable: Map,
    /// What readers see: `durable` and every batch of `unsynced`.
    visible: Map,
    /// Written since the last sync, in order.
    unsynced: Vec<WriteBatch>,
    /// Goes up with every crash; engines of an older generation are dead.
    generation: u64,
    /// Writes and syncs called on the current generation.
    steps: u64,
    fail: Option<(u64, StoreError)>,
    lie: bool,
}

/// A disk that can be told when to fail, and crashed. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

/// An [`Engine`] on a [`FaultyDisk`]; it answers errors once the disk has crashed or failed.
#[derive(Debug)]
pub struct FaultyEngine {
    disk: FaultyDisk,
    generation: u64,
}

impl FaultyDisk {
    /// An engine on what the disk holds now. Engines opened earlier go on only if there was no crash in between.
    pub fn engine(&self) -> FaultyEngine {
        let mut state = self.state.lock();
        state.steps = 0;
        FaultyEngine { disk: self.clone(), generation: state.generation }
    }

    /// Lets the `step`-th write or sync from now on (0 is the next), and each one after it, fail with `error`.
    pub fn fail_at(&self, step: u64, error: StoreError) {
        let mut state = self.state.lock();
        let at = state.steps + step;
        state.fail = Some((at, error));
    }

    /// From now on a sync answers `Ok` and makes nothing durable: the planted bug that a test must catch.
    pub fn lie_about_sync(&self) {
        self.state.lock().lie = true;
    }

    /// Another disk with the same content, durable and not; no engine is open on it and no fault is planned.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state.lock();
        let copy = State {
            durable: state.durable.clone(),
            visible: state.visible.clone(),
            unsynced: state.unsynced.clone(),
            ..State::default()
        };
        Self { state: Arc::new(Mutex::new(copy)) }
    }

    /// Writes and syncs since the last engine was opened.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// Batches written and not synced: the number of crash points that [`crash`](Self::crash) can choose from.
    pub fn unsynced(&self) -> usize {
        self.state.lock().unsynced.len()
    }

    /// Cuts the power: of what was not synced, only the first `keep` batches are still there.
    pub fn crash(&self, keep: usize) {
        self.crash_torn(keep, 0);
    }

    /// As [`crash`](Self::crash), and of the next batch only its first `writes`: what no atomic engine does.
    pub fn crash_torn(&self, keep: usize, writes: usize) {
        let mut state = self.state.lock();
        let unsynced = std::mem::take(&mut state.unsynced);
        for batch in unsynced.iter().take(keep) {
            apply(&mut state.durable, batch);
        }
        if let Some(torn) = unsynced.get(keep) {
            let kept = torn.writes.iter().take(writes).cloned().collect();
            apply(&mut state.durable, &WriteBatch { writes: kept });
        }
        state.visible = state.durable.clone();
        state.generation += 1;
        state.fail = None;
    }

    /// Kills the process: everything written is still there, synced or not, and still not durable.
    pub fn kill(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.fail = None;
    }

    /// The keys on the disk, as readers see them.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.state.lock().visible.keys().cloned().collect()
    }

    /// Flips bits of the byte at `offset` of a key's value, durably. Answers whether there is such a byte.
    pub fn damage(&self, key: &[u8], offset: usize, bits: u8) -> bool {
        let mut state = self.state.lock();
        let Some(value) = state.visible.get(key) else { return false };
        let mut bytes = value.to_vec();
        let Some(byte) = bytes.get_mut(offset) else { return false };
        *byte ^= bits;
        let bytes = Bytes::from(bytes);
        state.durable.insert(key.to_vec(), bytes.clone());
        state.visible.insert(key.to_vec(), bytes);
        true
    }

    /// Loses a key, durably. Answers whether it was there.
    pub fn lose(&self, key: &[u8]) -> bool {
        let mut state = self.state.lock();
        state.durable.remove(key);
        state.visible.remove(key).is_some()
    }

    /// What the disk holds for readers, as a value to go back to with [`restore`](Self::restore).
    pub fn image(&self) -> Vec<(Vec<u8>, Bytes)> {
        self.state.lock().visible.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Puts an older image back, durably, as a bad backup would; kills the engines that are open.
    pub fn restore(&self, image: &[(Vec<u8>, Bytes)]) {
        let mut state = self.state.lock();
        state.durable = image.iter().cloned().collect();
        state.visible = state.durable.clone();
        state.unsynced.clear();
        state.generation += 1;
        state.fail = None;
    }
}

impl State {
    fn step(&mut self, generation: u64) -> Result<(), StoreError> {
        self.alive(generation)?;
        let step = self.steps;
        self.steps += 1;
        match &self.fail {
            Some((at, error)) if step >= *at => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn alive(&self, generation: u64) -> Result<(), StoreError> {
        if generation == self.generation {
            return Ok(());
        }
        Err(StoreError::io("using a crashed disk", &io::Error::other("the power was cut")))
    }
}

impl Engine for FaultyEngine {
    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let mut state = self.disk.state.lock();
        state.step(self.generation)?;
        apply(&mut state.visible, batch);
        state.unsynced.push(batch.clone());
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut state = self.disk.state.lock();
        state.step(self.generation)?;
        if !state.lie {
            for batch in std::mem::take(&mut state.unsynced) {
                apply(&mut state.durable, &batch);
            }
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let state = self.disk.state.lock();
        state.alive(self.generation)?;
        Ok(state.visible.get(key).cloned())
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        order: Order,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let state = self.disk.state.lock();
        state.alive(self.generation)?;
        scan(&state.visible, from, to, order, visit)
    }
}
