//! The log store across restarts and power cuts: acknowledged writes survive in order.

use holdfast_storage::{FaultyDisk, Log, StoreError};
use holdfast_types::{Command, Entry, SessionName, Stamp};
use openraft::storage::{IOFlushed, RaftLogReader, RaftLogStorage};
use openraft::type_config::TypeConfigExt;

use crate::failure::Failure;
use crate::store::log_store::LogStore;
use crate::type_config::{Batch, LeaderId, LogId, Payload, RaftEntry, TypeConfig, Vote};

fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(LeaderId { term, node_id: 1 }, index)
}

fn entry(term: u64, index: u64) -> RaftEntry {
    let session = SessionName::new(format!("s{index}")).unwrap();
    let commands = vec![Command::CloseSession { session, attachment: None, incarnation: None }];
    let batch = Batch::encode(Entry { stamped_at: Stamp(index), commands }).unwrap();
    RaftEntry { log_id: log_id(term, index), payload: Payload::Normal(batch) }
}

fn vote(term: u64) -> Vote {
    Vote { leader_id: LeaderId { term, node_id: 1 }, committed: false }
}

fn open(disk: &FaultyDisk) -> (LogStore, Failure, Log) {
    let failure = Failure::new();
    let log = Log::with_disk(disk.open()).unwrap();
    (LogStore::open(log.clone(), failure.clone(), 0).unwrap(), failure, log)
}

async fn append(store: &mut LogStore, entries: Vec<RaftEntry>) -> Result<(), String> {
    let (sender, receiver) = TypeConfig::oneshot();
    store.append(entries, IOFlushed::<TypeConfig>::signal(sender)).await.unwrap();
    receiver.await.unwrap().map_err(|error| error.to_string())
}

async fn all(store: &mut LogStore) -> Vec<RaftEntry> {
    store.try_get_log_entries(..).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_power_cut() {
    let disk = FaultyDisk::default();
    let (mut store, _, _) = open(&disk);
    let entries: Vec<_> = (0..5).map(|index| entry(1, index)).collect();
    append(&mut store, entries.clone()).await.unwrap();
    store.save_vote(&vote(3)).await.unwrap();
    disk.crash(0);
    let (mut store, _, _) = open(&disk);
    assert_eq!(all(&mut store).await, entries);
    assert_eq!(store.read_vote().await.unwrap(), Some(vote(3)));
    assert_eq!(store.get_log_state().await.unwrap().last_log_id, Some(log_id(1, 4)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_committed_position_never_names_an_entry_that_a_power_cut_lost() {
    let disk = FaultyDisk::default();
    let (mut store, _, _) = open(&disk);
    for index in 0..20 {
        append(&mut store, vec![entry(1, index)]).await.unwrap();
        store.save_committed(Some(log_id(1, index))).await.unwrap();
        let fork = disk.fork();
        for keep in 0..=fork.unsynced() {
            let fork = disk.fork();
            fork.crash(keep);
            let (mut store, _, _) = open(&fork);
            let committed = store.read_committed().await.unwrap();
            let last = store.get_log_state().await.unwrap().last_log_id;
            assert!(committed <= last, "{committed:?} is beyond {last:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn truncation_and_new_entries_survive_in_their_order() {
    let disk = FaultyDisk::default();
    let (mut store, _, _) = open(&disk);
    append(&mut store, (0..10).map(|index| entry(1, index)).collect()).await.unwrap();
    store.truncate_after(Some(log_id(1, 5))).await.unwrap();
    assert_eq!(all(&mut store).await.len(), 6);
    // A snapshot of the entries that replace the removed ones can be durable before them.
    let fork = disk.fork();
    fork.crash(0);
    let (store_of_fork, _, _) = open(&fork);
    assert_eq!(
        store_of_fork.clone().get_log_state().await.unwrap().last_log_id,
        Some(log_id(1, 5))
    );
    append(&mut store, vec![entry(2, 6)]).await.unwrap();
    disk.crash(0);
    let (mut store, _, _) = open(&disk);
    let ids: Vec<_> = all(&mut store).await.iter().map(|entry| entry.log_id).collect();
    let mut expected: Vec<_> = (0..=5).map(|index| log_id(1, index)).collect();
    expected.push(log_id(2, 6));
    assert_eq!(ids, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_continues_after_a_purge_beyond_its_end() {
    let disk = FaultyDisk::default();
    let (mut store, _, _) = open(&disk);
    append(&mut store, (0..10).map(|index| entry(1, index)).collect()).await.unwrap();
    store.purge(log_id(2, 20)).await.unwrap();
    append(&mut store, vec![entry(2, 21)]).await.unwrap();
    disk.crash(0);
    let (mut store, _, _) = open(&disk);
    let state = store.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id, Some(log_id(2, 20)));
    assert_eq!(state.last_log_id, Some(log_id(2, 21)));
    assert_eq!(all(&mut store).await, [entry(2, 21)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_error_fails_the_node_and_acknowledges_nothing() {
    let disk = FaultyDisk::default();
    let (mut store, failure, _) = open(&disk);
    append(&mut store, vec![entry(1, 0)]).await.unwrap();
    disk.fail_at(0, StoreError::Full { action: "a test".into() });
    assert!(append(&mut store, vec![entry(1, 1)]).await.is_err());
    assert!(store.save_vote(&vote(9)).await.is_err());
    assert!(store.truncate_after(Some(log_id(1, 0))).await.is_err());
    assert!(failure.reason().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_for_replication_is_bounded_but_never_empty() {
    let (mut store, _, _) = open(&FaultyDisk::default());
    append(&mut store, (0..50).map(|index| entry(1, index)).collect()).await.unwrap();
    assert_eq!(store.limited_get_log_entries(3, 4).await.unwrap(), [entry(1, 3)]);
    assert_eq!(store.limited_get_log_entries(0, 50).await.unwrap().len(), 50);
    assert!(store.limited_get_log_entries(50, 60).await.unwrap().is_empty());
}

/// A leader whose majority has lost entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committed_entry_is_never_removed() {
    let open_with = |committed: bool| async move {
        let disk = FaultyDisk::default();
        let (mut store, failure, _) = open(&disk);
        append(&mut store, (0..10).map(|index| entry(1, index)).collect()).await.unwrap();
        if committed {
            store.save_committed(Some(log_id(1, 6))).await.unwrap();
        } else {
            store.protect(Some(log_id(1, 6)));
        }
        (store, failure)
    };
    for committed in [true, false] {
        let (mut store, failure) = open_with(committed).await;
        store.truncate_after(Some(log_id(1, 6))).await.unwrap();
        assert_eq!(all(&mut store).await.len(), 7);
        for last in [Some(log_id(1, 5)), None] {
            let error = store.truncate_after(last).await.unwrap_err().to_string();
            assert!(error.contains("up to 6 are committed"), "{error}");
        }
        assert!(failure.reason().unwrap().to_string().contains("member replace"));
        assert_eq!(all(&mut store).await.len(), 7);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_an_earlier_leader_may_contradict_committed_entries() {
    let disk = FaultyDisk::default();
    let (mut store, failure, _) = open(&disk);
    append(&mut store, (0..10).map(|index| entry(1, index)).collect()).await.unwrap();
    store.save_committed(Some(log_id(1, 6))).await.unwrap();
    store.save_vote(&vote(3)).await.unwrap();
    let same = [entry(1, 5), entry(1, 6), entry(2, 7)];
    store.check_leader(vote(3), Some(log_id(1, 4)), &same).await.unwrap();
    store.check_leader(vote(3), Some(log_id(2, 7)), &[]).await.unwrap();
    store.check_leader(vote(3), None, &[]).await.unwrap();
    store.check_leader(vote(2), Some(log_id(2, 6)), &[]).await.unwrap();
    assert!(!failure.is_set());
    let (at, before) = (Some(log_id(2, 6)), Some(log_id(2, 3)));
    for (previous, entries) in
        [(at, vec![]), (before, vec![]), (None, vec![entry(2, 6), entry(2, 7)])]
    {
        let error = store.check_leader(vote(3), previous, &entries).await.unwrap_err();
        assert!(error.to_string().contains("up to 6 are committed"), "{error}");
    }
    assert!(failure.is_set());
}
