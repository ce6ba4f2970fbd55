//! Durable bytes for one node: a log of records with its marks, snapshot files, and small checksummed files.
//!
//! Owns everything this project ever writes to a disk, and the only code that names sled (`docs/adr/0002`,
//! `docs/formats/storage.md`). Refuses to know Raft, async runtimes and what the bytes mean.
//!
//! What it promises: an answer `Ok` to a durable request means that a power cut does not undo it; after any crash
//! the log is what some prefix of the requests made of it, never less than what was answered; a store that cannot
//! show this about itself does not open, or stops for good ([`StoreError::Corrupt`]).
//!
//! Bounds: the log's queue by bytes ([`LogOptions::queue_bytes_max`]), its memory by the engine's cache
//! ([`LogOptions::cache_bytes`]) and one batch; snapshots are written and read part by part.

mod chunk;
mod engine;
mod error;
mod file;
mod head;
mod keys;
mod log;
mod rebuildable;
mod snapshot;
mod space;
mod watermark;

pub use engine::{
    Engine, FaultyDisk, FaultyEngine, JournaledEngine, MemoryEngine, Order, SledEngine, Visit,
    Write, WriteBatch,
};
pub use error::StoreError;
pub use file::{read_file, write_file};
pub use keys::Mark;
pub use log::{Done, Log, LogOptions, MARK_BYTES_MAX, RECORD_BYTES_MAX, Record, Refused, WhenRoom};
pub use rebuildable::open_rebuildable;
pub use snapshot::{
    PART_BYTES_MAX, Parts, RawSnapshot, SnapshotReader, SnapshotReceiver, SnapshotWriter,
    Snapshots, VerifiedSnapshot,
};
pub use space::free_bytes;
