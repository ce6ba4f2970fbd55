//! Durable bytes for one node: a log of records with Raft metadata, snapshot files, small checksummed files, and databases
//! that can be rebuilt.
//!
//! This crate writes everything that the project keeps on a disk, and is the only one that names sled (`docs/adr/0002`,
//! `docs/adr/0008`, `docs/formats/storage.md`). It uses no async runtime and does not interpret the bytes.
//!
//! - After `Ok` to a durable request, a power cut does not undo it.
//! - After any crash the log is the result of a prefix of the requests, which includes all that were acknowledged.
//! - A store that cannot verify this does not open, or stops permanently ([`StoreError::Corrupt`]).
//!
//! Bounds: the log's queue by bytes ([`LogOptions::queue_bytes_max`]), its memory by the number of records; snapshots are
//! written and read part by part.

mod disk;
mod error;
mod file;
mod log;
mod rebuildable;
mod record;
mod snapshot;
mod space;

pub use disk::{DirectoryDisk, Disk, FaultyDisk, OpenFaultyDisk, SegmentFile};
pub use error::StoreError;
pub use file::{read_file, write_file};
pub use log::{Done, Log, LogOptions, Refused, WhenRoom};
pub use rebuildable::{RebuildableDatabase, WriteBatch};
pub use record::{META_BYTES_MAX, RECORD_BYTES_MAX, RaftMeta, Record};
pub use snapshot::{
    PART_BYTES_MAX, Parts, RawSnapshot, SnapshotReader, SnapshotReceiver, SnapshotWriter,
    Snapshots, VerifiedSnapshot,
};
pub use space::free_bytes;
