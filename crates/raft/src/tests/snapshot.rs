//! An unloadable snapshot of a peer, or one without space, never replaces the current snapshot.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use holdfast_codec::Kind;
use holdfast_lab::{Tmpfs, is_root};
use holdfast_machine::Machine;
use holdfast_storage::Snapshots;
use holdfast_types::{Command, Entry, Incarnation, NodeId, Stamp};
use openraft::storage::{RaftSnapshotBuilder as _, RaftStateMachine as _};

use crate::failure::{Failure, StopReason};
use crate::state_machine::{LocalMachine, StateMachine};
use crate::store::disk::DiskGauge;
use crate::store::snapshot::SnapshotStore;
use crate::type_config::{LogId, SnapshotMeta, StoredMembership, Vote};
use crate::wire::SnapshotMetaDto;

fn machine(stamp: u64) -> Machine {
    let mut machine = Machine::new();
    let command = Command::RegisterNode { node: NodeId(stamp), incarnation: Incarnation(1) };
    drop(machine.apply(Entry { stamped_at: Stamp(stamp), commands: vec![command] }));
    machine
}

fn meta(index: u64) -> SnapshotMeta {
    let leader_id = Vote::new(1, 1).leader_id;
    let last_log_id = Some(LogId { leader_id, index });
    SnapshotMeta { last_log_id, last_membership: StoredMembership::default() }
}

/// The file of a snapshot with these parts, with valid checksums.
fn file(parts: &[Vec<u8>], meta: &SnapshotMeta) -> Bytes {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Snapshots::open(dir.path()).unwrap().begin("peer").unwrap();
    for part in parts {
        writer.write_part(part).unwrap();
    }
    let meta = holdfast_codec::encode(Kind::SnapshotMeta, &SnapshotMetaDto::from(meta)).unwrap();
    let raw = writer.finish(&meta).unwrap().raw();
    raw.read_at(0, usize::MAX).unwrap()
}

fn parts(machine: &Machine) -> Vec<Vec<u8>> {
    let encode = |part| holdfast_codec::encode(Kind::SnapshotPart, &part).unwrap();
    machine.dump().map(encode).collect()
}

/// Receives a file and installs it, like a peer's connection and openraft.
async fn take(store: &SnapshotStore, file: Bytes, announced: &SnapshotMeta) -> Option<Machine> {
    let arrival = store.receive(Vote::new(1, 1), SnapshotMetaDto::from(announced)).unwrap();
    let (_, snapshot) = arrival.add(file).await.unwrap().finish().await.ok()?;
    store.install(snapshot.snapshot, announced).ok()
}

#[tokio::test]
async fn an_unloadable_received_snapshot_keeps_the_current_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = SnapshotStore::open(dir.path(), Failure::new()).unwrap();
    store.build(&machine(5), meta(10), &DiskGauge::new(0)).unwrap();
    let good = parts(&machine(9));
    let mut short = good.clone();
    short.pop();
    let bad = [
        ("a part of no known form", file(&[b"garbage".to_vec()], &meta(20)), meta(20)),
        ("a part is missing", file(&short, &meta(20)), meta(20)),
        ("it covers something else", file(&good, &meta(30)), meta(20)),
    ];
    for (what, file, announced) in bad {
        assert!(take(&store, file, &announced).await.is_none(), "{what}");
        for store in [&store, &SnapshotStore::open(dir.path(), Failure::new()).unwrap()] {
            let current = store.current().unwrap().unwrap();
            assert_eq!(current.meta, meta(10), "{what}");
            let loaded = store.install(current.snapshot, &meta(10)).unwrap();
            assert_eq!(loaded.state_digest(), machine(5).state_digest(), "{what}");
        }
    }
    let loaded = take(&store, file(&good, &meta(20)), &meta(20)).await.unwrap();
    assert_eq!(loaded.state_digest(), machine(9).state_digest());
    assert_eq!(store.current().unwrap().unwrap().meta, meta(20));
}

#[tokio::test]
async fn a_snapshot_of_a_newer_holdfast_is_not_damage() {
    let dir = tempfile::tempdir().unwrap();
    let failure = Failure::new();
    let unknown_part = holdfast_codec::encode(Kind::SnapshotPart, &99_u32).unwrap();
    let mut writer = Snapshots::open(dir.path()).unwrap().begin("newer").unwrap();
    writer.write_part(&unknown_part).unwrap();
    let covers = SnapshotMetaDto::from(&meta(10));
    writer.finish(&holdfast_codec::encode(Kind::SnapshotMeta, &covers).unwrap()).unwrap();
    let store = SnapshotStore::open(dir.path(), failure.clone()).unwrap();
    let current = store.current().unwrap().unwrap();
    assert!(store.install(current.snapshot, &meta(10)).is_err());
    let Some(StopReason::OldProgram(why)) = failure.reason() else { panic!() };
    assert!(why.contains("cannot read the snapshot"), "{why}");
}

#[tokio::test]
async fn a_snapshot_uses_half_of_the_reserve_and_without_space_is_due_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = SnapshotStore::open(dir.path(), Failure::new()).unwrap();
    let disk = Arc::new(DiskGauge::new(2 << 20));
    let local = Arc::new(LocalMachine::new(NodeId(4), 1 << 20, Arc::default()));
    let mut machine = StateMachine::new(local.clone(), store.clone(), disk.clone());
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    let before = files();

    disk.update(1 << 20);
    let mut builder = machine.get_snapshot_builder().await;
    let abandoned = builder.build_snapshot().await.unwrap();
    assert_eq!(abandoned.meta, SnapshotMeta::default(), "not newer than any other");
    assert_eq!((files(), local.metrics().snapshots_built.get()), (before, 0));
    assert!(local.snapshot_due().now_or_never().is_some());
    assert!(store.bytes_expected() > 0);
    drop(builder);

    disk.update(2 << 20);
    disk.count(1 << 19);
    assert!(disk.is_low());
    machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    assert!(store.current().unwrap().is_some());
    assert_eq!(local.metrics().snapshots_built.get(), 1);
}

#[tokio::test]
async fn a_build_ends_when_a_snapshot_of_a_peer_waits_for_its_installation() {
    let dir = tempfile::tempdir().unwrap();
    let store = SnapshotStore::open(dir.path(), Failure::new()).unwrap();
    let local = Arc::new(LocalMachine::new(NodeId(4), 1 << 20, Arc::default()));
    let disk = Arc::new(DiskGauge::new(0));
    let mut state_machine = StateMachine::new(local.clone(), store.clone(), disk);
    let arrival = store.receive(Vote::new(1, 1), SnapshotMetaDto::from(&meta(20))).unwrap();
    let arrival = arrival.add(file(&parts(&machine(9)), &meta(20))).await.unwrap();
    let (_, snapshot) = arrival.finish().await.unwrap();

    let mut builder = state_machine.get_snapshot_builder().await;
    let covers = meta(20);
    let mut installing = Box::pin(state_machine.install_snapshot(&covers, snapshot.snapshot));
    assert!(installing.as_mut().now_or_never().is_none(), "waits for the end of the build");
    let built = builder.build_snapshot().await.unwrap();
    assert_eq!(built.meta, SnapshotMeta::default(), "not newer than any other");
    drop(builder);
    installing.await.unwrap();
    assert_eq!(local.read(Machine::state_digest), machine(9).state_digest());
    assert!(local.snapshot_due().now_or_never().is_none(), "the installed snapshot is enough");

    state_machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    assert_eq!(local.metrics().snapshots_built.get(), 1);
}

#[tokio::test]
async fn a_disk_error_during_a_transfer_stops_the_node_and_damaged_bytes_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let failure = Failure::new();
    let store = SnapshotStore::open(dir.path(), failure.clone()).unwrap();
    assert!(take(&store, Bytes::from_static(b"garbage"), &meta(20)).await.is_none());
    assert_eq!(failure.reason(), None);

    store.build(&machine(5), meta(10), &DiskGauge::new(0)).unwrap();
    let current = store.current().unwrap().unwrap().snapshot;
    let mut pieces = current.into_pieces(1 << 20, failure.clone()).unwrap();
    let whole = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    std::fs::File::options().write(true).open(whole).unwrap().set_len(1).unwrap();
    assert!(pieces.next().await.is_err());
    assert!(matches!(failure.reason(), Some(StopReason::Failed(_))));

    let failure = Failure::new();
    let gone = dir.path().join("gone");
    let store = SnapshotStore::open(&gone, failure.clone()).unwrap();
    std::fs::remove_dir(&gone).unwrap();
    assert!(store.receive(Vote::new(1, 1), SnapshotMetaDto::from(&meta(20))).is_err());
    assert!(matches!(failure.reason(), Some(StopReason::Failed(_))));
}

/// Another program can fill the disk between two checks of its space.
#[tokio::test]
async fn a_full_disk_ends_a_build_and_not_the_node() {
    if !is_root("a build on a full disk") {
        return;
    }
    let disk = Tmpfs::mount(1);
    let store = SnapshotStore::open(disk.path(), Failure::new()).unwrap();
    let other = disk.path().join("other");
    assert!(std::fs::write(&other, vec![0; 2 << 20]).is_err(), "fills the disk");
    let built = store.build(&machine(5), meta(10), &DiskGauge::new(0)).unwrap();
    assert_eq!(built.meta, SnapshotMeta::default(), "not newer than any other");
    assert!(store.was_abandoned() && store.current().unwrap().is_none());
    std::fs::remove_file(other).unwrap();
    store.build(&machine(5), meta(10), &DiskGauge::new(0)).unwrap();
    assert!(!store.was_abandoned() && store.current().unwrap().is_some());
}
