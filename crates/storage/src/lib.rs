//! Durable storage for one node: a log of records with Raft metadata, snapshot files, small checksummed files, and
//! rebuildable databases.
//!
//! This crate writes all files of a node, and is the only crate that uses sled (`docs/contributing/adr/0002`, `docs/contributing/adr/0008`,
//! `docs/contributing/formats/storage.md`). It uses no async runtime and does not interpret the bytes.
//!
//! - After `Ok` to a durable request, a power cut does not undo the request.
//! - After any crash the log equals a prefix of the requests, which includes all acknowledged requests.
//! - A store that cannot verify this does not open, or stops permanently ([`StoreError::Corrupt`]).
//!
//! Bounds: [`LogOptions::queue_bytes_max`] limits the queue of the log; the log's memory grows with the number of
//! records; snapshots are written and read in parts.

mod disk;
mod error;
mod file;
mod log;
mod rebuildable;
mod snapshot;

pub use disk::{
    DirectoryDisk, Disk, FaultyDisk, LATENCY_BUCKETS, OpenFaultyDisk, RecentSyncs, SLOW_SYNC,
    SegmentFile, free_bytes, has_log,
};
pub use error::StoreError;
pub use file::{create_dir, read_file, write_file};
pub use log::{
    CompletionCallback, Log, LogOptions, META_BYTES_MAX, QueueFull, QueueRoomCallback,
    RECORD_BYTES_MAX, RaftMeta, Record,
};
pub use rebuildable::{RebuildableDatabase, WriteBatch};
pub use snapshot::{
    PART_BYTES_MAX, Parts, RawSnapshot, SnapshotReader, SnapshotReceiver, SnapshotWriter,
    Snapshots, VerifiedSnapshot,
};
