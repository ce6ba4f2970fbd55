//! Durable bytes for one node: a log of records with Raft metadata, snapshot files, and small checksummed files.
//!
//! This crate writes everything that the project keeps on a disk, and is the only one that names sled (`docs/adr/0002`,
//! `docs/formats/storage.md`). It uses no async runtime and does not interpret the bytes.
//!
//! - After `Ok` to a durable request, a power cut does not undo it.
//! - After any crash the log is the result of a prefix of the requests, which includes all that were acknowledged.
//! - A store that cannot verify this does not open, or stops permanently ([`StoreError::Corrupt`]).
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
pub use keys::RaftMeta;
pub use log::{Done, Log, LogOptions, META_BYTES_MAX, RECORD_BYTES_MAX, Record, Refused, WhenRoom};
pub use rebuildable::open_rebuildable;
pub use snapshot::{
    PART_BYTES_MAX, Parts, RawSnapshot, SnapshotReader, SnapshotReceiver, SnapshotWriter,
    Snapshots, VerifiedSnapshot,
};
pub use space::free_bytes;
