//! The thread that folds a full journal file into sled.
//!
//! It works on at most one layer: the writer waits for it before it starts the next one. After an error every call
//! returns that error.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use super::layers::{Layer, Layers};
use crate::engine::sled::SledEngine;
use crate::engine::{Engine as _, Write, WriteBatch};
use crate::error::StoreError;

/// Bytes given to sled in one batch, unless a single change is larger.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes given to sled between two barriers: sled may write into a segment again whose content moved elsewhere before
/// that is durable, so the window must stay well below a segment (ADR 0002).
const WINDOW_BYTES: usize = 1 << 20;

/// The handle of the thread; dropping it waits for the work under way.
pub(super) struct Folder {
    work: Option<SyncSender<()>>,
    done: Receiver<Result<(), StoreError>>,
    busy: bool,
    failed: Option<StoreError>,
    thread: Option<JoinHandle<()>>,
}

impl Folder {
    pub(super) fn start(sled: Arc<SledEngine>, layers: Arc<Layers>) -> Result<Self, StoreError> {
        let (work, orders) = sync_channel(1);
        let (report, done) = channel();
        let thread = thread::Builder::new()
            .name("holdfast-fold".to_owned())
            .spawn(move || run(&orders, &report, &sled, &layers))
            .map_err(|error| StoreError::io("starting the folding thread", &error))?;
        Ok(Self { work: Some(work), done, busy: false, failed: None, thread: Some(thread) })
    }

    /// Has the frozen layer folded in; the one before is done.
    pub(super) fn fold(&mut self) {
        self.busy = self.work.as_ref().is_some_and(|work| work.send(()).is_ok());
        if !self.busy {
            self.failed = Some(StoreError::Closed);
        }
    }

    /// Waits until nothing is being folded.
    pub(super) fn wait(&mut self) -> Result<(), StoreError> {
        if self.busy {
            let gone = || Err(StoreError::Closed);
            let result = self.done.recv().unwrap_or_else(|_| gone());
            self.settle(result);
        }
        self.check()
    }

    /// The error that ended it all, if any.
    pub(super) fn check(&mut self) -> Result<(), StoreError> {
        if self.busy
            && let Ok(result) = self.done.try_recv()
        {
            self.settle(result);
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn settle(&mut self, result: Result<(), StoreError>) {
        self.busy = false;
        self.failed = result.err();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the folding thread of the log did not end cleanly");
        }
    }
}

fn run(
    orders: &Receiver<()>,
    report: &Sender<Result<(), StoreError>>,
    sled: &SledEngine,
    layers: &Layers,
) {
    while orders.recv().is_ok() {
        let result = layers.frozen().map_or(Ok(()), |layer| fold(&layer, sled));
        if result.is_ok() {
            layers.thaw();
        }
        if report.send(result).is_err() {
            return;
        }
    }
}

fn fold(layer: &Layer, sled: &SledEngine) -> Result<(), StoreError> {
    let mut into = Folding::into(sled);
    let (mut batch, mut bytes) = (WriteBatch::default(), 0);
    for (key, value) in layer {
        bytes += key.len() + value.as_ref().map_or(0, bytes::Bytes::len);
        batch.writes.push(match value {
            Some(value) => Write::Put(key.clone(), value.clone()),
            None => Write::Delete(key.clone()),
        });
        if bytes >= BATCH_BYTES {
            into.write(&std::mem::take(&mut batch))?;
            bytes = 0;
        }
    }
    into.write(&batch)?;
    sled.sync()
}

/// Writes into sled with a barrier after every [`WINDOW_BYTES`].
pub(super) struct Folding<'a> {
    sled: &'a SledEngine,
    since_barrier: usize,
}

impl<'a> Folding<'a> {
    pub(super) fn into(sled: &'a SledEngine) -> Self {
        Self { sled, since_barrier: 0 }
    }

    pub(super) fn write(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.sled.write(batch)?;
        self.since_barrier += batch.bytes();
        if self.since_barrier >= WINDOW_BYTES {
            self.sled.sync()?;
            self.since_barrier = 0;
        }
        Ok(())
    }
}
