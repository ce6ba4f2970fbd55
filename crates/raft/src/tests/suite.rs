//! openraft's own test suite on the log store and the state machine, on every disk.

use std::sync::Arc;

use holdfast_storage::{FaultyDisk, Log, LogOptions};
use holdfast_types::NodeId;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use crate::failure::Failure;
use crate::state_machine::{LocalMachine, StateMachine};
use crate::store::disk::DiskGauge;
use crate::store::log_store::LogStore;
use crate::store::snapshot::SnapshotStore;
use crate::type_config::TypeConfig;

#[derive(Clone, Copy)]
enum Kind {
    Directory,
    Memory,
    FaultyWithoutFaults,
}

/// Builds stores on a disk, with a cache of `cache_bytes`; without a cache every read goes to the log.
struct Builder {
    kind: Kind,
    cache_bytes: usize,
}

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let log = match self.kind {
            Kind::Directory => Log::open(&dir.path().join("log"), LogOptions::default()),
            Kind::Memory => Log::in_memory(),
            Kind::FaultyWithoutFaults => Log::with_disk(FaultyDisk::default().open()),
        };
        let store = LogStore::open(log.unwrap(), Failure::new(), self.cache_bytes).unwrap();
        let local = Arc::new(LocalMachine::new(NodeId(1), u64::MAX, Arc::default()));
        let snapshots = SnapshotStore::open(&dir.path().join("snapshots"), Failure::new()).unwrap();
        Ok((dir, store, StateMachine::new(local, snapshots, Arc::new(DiskGauge::new(0)))))
    }
}

async fn run(kind: Kind, cache_bytes: usize) {
    Suite::test_all(Builder { kind, cache_bytes }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openrafts_suite_holds_in_a_directory() {
    run(Kind::Directory, 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openrafts_suite_holds_in_a_directory_without_a_cache() {
    run(Kind::Directory, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openrafts_suite_holds_in_memory() {
    run(Kind::Memory, 1 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openrafts_suite_holds_in_memory_without_a_cache() {
    run(Kind::Memory, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openrafts_suite_holds_on_the_faulty_disk_without_faults() {
    run(Kind::FaultyWithoutFaults, 0).await;
}
