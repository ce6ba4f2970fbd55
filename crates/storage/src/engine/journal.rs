//! The engine of the log: a journal in front of sled (`docs/adr/0004`).
//!
//! A sync of sled costs several thread switches and two passes to the disk. A sync of the journal is one write into
//! existing blocks of a file, and one `fdatasync`. So a batch is durable once it is in the journal; a thread folds it into
//! sled later, with thousands of others. sled holds everything older.
//!
//! Two journal files alternate. When one is full, the other starts the next generation. The content of the full file is
//! folded into sled and synced before that file is written again. An open folds both files into sled again, the older
//! generation first: folding a generation twice changes nothing. The header of a generation reaches the disk before its
//! first batch, so a file never shows a part of an older generation.
//!
//! Bounds: changes outside sled are those of two journal files ([`file::CAPACITY`] each). A writer that is faster than
//! sled waits for it at the end of the second file. An error of any part is final.

mod file;
mod fold;
mod layers;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use self::file::{JournalFile, Recovered, Turn};
use self::fold::{Folder, Folding};
use self::layers::Layers;
use super::sled::SledEngine;
use super::{Engine, Order, Visit, WriteBatch};
use crate::error::StoreError;

pub(crate) use self::file::NAMES;

/// An [`Engine`] on a journal and a sled database.
pub struct JournaledEngine {
    sled: Arc<SledEngine>,
    layers: Arc<Layers>,
    writer: Mutex<Writer>,
}

/// What only the writing thread touches.
struct Writer {
    files: [JournalFile; 2],
    /// Which file is written.
    active: usize,
    /// Of the active file.
    turn: Turn,
    /// Encoded batches that are not in the file yet.
    pending: Vec<u8>,
    folder: Folder,
}

impl JournaledEngine {
    /// Opens or creates both in `dir`, which exists. `cache_bytes` bounds sled's page cache.
    ///
    /// # Errors
    /// As [`SledEngine::open`]; [`StoreError::Corrupt`] if one of the two journal files is missing.
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let sled = Arc::new(SledEngine::open(dir, cache_bytes)?);
        let files = JournalFile::open_both(dir)?;
        let turn = Turn::new(replay(&files, &sled)? + 1)?;
        let layers = Arc::new(Layers::default());
        let folder = Folder::start(Arc::clone(&sled), Arc::clone(&layers))?;
        let mut writer = Writer { files, active: 0, turn, pending: Vec::new(), folder };
        writer.begin(turn);
        Ok(Self { sled, layers, writer: Mutex::new(writer) })
    }

    /// Hands everything written to the operating system. It is not durable then: this is half of a
    /// [`sync`](Engine::sync), public so that a test can show what the other half is for.
    ///
    /// # Errors
    /// As [`Engine::sync`].
    pub fn flush(&self) -> Result<(), StoreError> {
        self.writer.lock().flush().map(drop)
    }
}

/// Folds what the journal files hold into sled, and answers the newest generation among them.
fn replay(files: &[JournalFile; 2], sled: &SledEngine) -> Result<u64, StoreError> {
    let mut found: Vec<Recovered> =
        files.iter().map(JournalFile::recover).collect::<Result<_, _>>()?;
    found.sort_by_key(|recovered| recovered.turn.generation);
    let mut into = Folding::into(sled);
    for recovered in &found {
        for batch in &recovered.batches {
            into.write(batch)?;
        }
    }
    sled.sync()?;
    Ok(found.last().map_or(0, |newest| newest.turn.generation))
}

impl Writer {
    fn write(&mut self, batch: &WriteBatch, layers: &Layers) -> Result<(), StoreError> {
        self.folder.check()?;
        let begin = self.pending.len();
        file::encode(batch, self.turn, &mut self.pending)?;
        if !self.files[self.active].has_room(self.pending.len()) {
            self.pending.truncate(begin);
            self.turn_over(layers)?;
            file::encode(batch, self.turn, &mut self.pending)?;
        }
        layers.put(batch);
        Ok(())
    }

    /// Makes the full file's batches durable, leaves them to the folder, and goes on in the other file.
    fn turn_over(&mut self, layers: &Layers) -> Result<(), StoreError> {
        self.sync()?;
        self.folder.wait()?;
        layers.freeze();
        self.folder.fold();
        self.begin(Turn::new(self.turn.generation + 1)?);
        Ok(())
    }

    /// Generations take turns in the files: the file of the one before is left alone until it is folded in. The
    /// header goes out, with a barrier of its own, before the first batch.
    fn begin(&mut self, turn: Turn) {
        self.active = usize::from(!turn.generation.is_multiple_of(2));
        self.turn = turn;
        self.files[self.active].rewind(turn);
    }

    fn flush(&mut self) -> Result<&JournalFile, StoreError> {
        self.folder.check()?;
        let file = &mut self.files[self.active];
        file.append(&self.pending)?;
        self.pending.clear();
        Ok(file)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?.sync()
    }
}

impl Engine for JournaledEngine {
    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.writer.lock().write(batch, &self.layers)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.writer.lock().sync()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.layers.get(key, || self.sled.get(key))
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        order: Order,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        layers::merged(self.layers.range(from, to, order), from, to, order, &*self.sled, visit)
    }
}

#[cfg(test)]
mod tests;
