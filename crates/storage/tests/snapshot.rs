//! Snapshots: complete or absent, replaced only by a durable one, every damage detected, raw transfers verified.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use holdfast_storage::{PART_BYTES_MAX, SnapshotReader, Snapshots, StoreError};

fn open(dir: &Path) -> Snapshots {
    Snapshots::open(dir).expect("open")
}

fn write(snapshots: &Snapshots, name: &str, parts: &[&[u8]]) -> SnapshotReader {
    let mut writer = snapshots.begin(name).expect("begin");
    for part in parts {
        writer.write_part(part).expect("part");
    }
    writer.finish(format!("meta of {name}").as_bytes()).expect("finish")
}

fn parts(reader: &SnapshotReader) -> Vec<Vec<u8>> {
    reader.parts().map(|part| part.expect("part").to_vec()).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").path()).collect();
    files.sort();
    files
}

#[test]
fn a_snapshot_exists_after_finish_and_after_a_restart() {
    let dir = tempfile::tempdir().expect("directory");
    assert!(open(dir.path()).latest().expect("latest").is_none());
    let long = vec![7; 3_000_000];
    for (number, name) in ["1-1-10", "1-1-20", "2-3-30"].into_iter().enumerate() {
        let snapshots = open(dir.path());
        write(&snapshots, name, &[b"one", b"", &long, name.as_bytes()]);
        for snapshots in [snapshots, open(dir.path())] {
            let latest = snapshots.latest().expect("latest").expect("there");
            assert_eq!((latest.name(), latest.bytes()), (name, 3_000_003 + name.len() as u64));
            assert_eq!(latest.meta(), format!("meta of {name}").as_bytes());
            assert_eq!(parts(&latest), [b"one".to_vec(), vec![], long.clone(), name.into()]);
        }
        assert_eq!(files(dir.path()).len(), 1, "round {number}: the previous snapshot is removed");
    }
}

#[test]
fn only_the_owner_can_read_a_snapshot() {
    let dir = tempfile::tempdir().expect("directory");
    let mode = |path: &Path| path.metadata().expect("metadata").permissions().mode() & 0o777;
    let snapshots = open(&dir.path().join("snapshots"));
    write(&snapshots, "1-1-10", &[b"one"]);
    assert_eq!(mode(&dir.path().join("snapshots")), 0o700);
    assert_eq!(mode(&files(&dir.path().join("snapshots"))[0]), 0o600);
}

#[test]
fn an_unfinished_snapshot_is_never_visible_and_is_removed() {
    let dir = tempfile::tempdir().expect("directory");
    let snapshots = open(dir.path());
    write(&snapshots, "good", &[b"good"]);
    let mut dropped = snapshots.begin("dropped").expect("begin");
    dropped.write_part(b"half").expect("part");
    drop(dropped);
    assert_eq!(files(dir.path()).len(), 1);
    let mut killed = snapshots.begin("killed").expect("begin");
    killed.write_part(b"half").expect("part");
    std::mem::forget(killed);
    assert_eq!(files(dir.path()).len(), 2);
    let again = open(dir.path());
    assert_eq!(again.latest().expect("latest").expect("there").name(), "good");
    assert_eq!(files(dir.path()).len(), 1, "the next start removes it");
}

#[test]
fn a_crash_between_the_rename_and_the_removal_leaves_the_newer_one() {
    let dir = tempfile::tempdir().expect("directory");
    let snapshots = open(dir.path());
    write(&snapshots, "older", &[b"older"]);
    let kept = fs::read(&files(dir.path())[0]).expect("read");
    let path = files(dir.path())[0].clone();
    write(&snapshots, "newer", &[b"newer"]);
    fs::write(&path, kept).expect("write");
    let again = open(dir.path());
    assert_eq!(again.latest().expect("latest").expect("there").name(), "newer");
    assert_eq!(files(dir.path()).len(), 1);
}

#[test]
fn a_reader_outlives_the_snapshot_it_reads() {
    let dir = tempfile::tempdir().expect("directory");
    let snapshots = open(dir.path());
    let old = write(&snapshots, "old", &[b"a", b"b"]);
    write(&snapshots, "new", &[b"c"]);
    assert_eq!(parts(&old), [b"a", b"b"]);
    old.verify().expect("whole");
}

#[test]
fn of_two_concurrent_snapshots_the_last_to_finish_is_the_latest() {
    let dir = tempfile::tempdir().expect("directory");
    let snapshots = open(dir.path());
    let slow = snapshots.begin("slow").expect("begin");
    write(&snapshots, "quick", &[b"q"]);
    slow.finish(b"m").expect("finish");
    assert_eq!(snapshots.latest().expect("latest").expect("there").name(), "slow");
    assert_eq!(open(dir.path()).latest().expect("latest").expect("there").name(), "slow");
}

#[test]
fn every_flipped_byte_and_every_truncation_is_detected_and_names_the_file() {
    let dir = tempfile::tempdir().expect("directory");
    let snapshots = open(dir.path());
    write(&snapshots, "s", &[b"first part", b"second part"]);
    let path = files(dir.path())[0].clone();
    let good = fs::read(&path).expect("read");
    let refuse = |bytes: &[u8], how: &str| {
        fs::write(&path, bytes).expect("write");
        let (detail, fix, advice) = match Snapshots::open(dir.path()) {
            Err(StoreError::Corrupt { detail, fix }) => (detail, fix, "holdfast member replace"),
            // The version can only be that of a later holdfast.
            Err(StoreError::UnknownFormat { detail, fix }) if bytes[6] > good[6] => {
                (detail, fix, "start this node with the version that wrote it")
            }
            other => panic!("{how}: {other:?}"),
        };
        assert!(detail.contains(path.to_str().expect("path")), "{how}: {detail}");
        assert!(fix.contains(advice), "{how}: {fix}");
    };
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x04;
        refuse(&bad, &format!("byte {at} flipped"));
        refuse(&good[..at], &format!("cut at {at}"));
    }
    let mut longer = good.clone();
    longer.push(0);
    refuse(&longer, "one byte more");
    fs::write(&path, &good).expect("write");
    open(dir.path());
}

#[test]
fn a_later_format_is_not_damage_and_stays() {
    let dir = tempfile::tempdir().expect("directory");
    write(&open(dir.path()), "s", &[b"part"]);
    let path = files(dir.path())[0].clone();
    let mut bytes = fs::read(&path).expect("read");
    bytes[6] = 2;
    fs::write(&path, &bytes).expect("write");
    let refused = Snapshots::open(dir.path());
    assert!(matches!(refused, Err(StoreError::UnknownFormat { .. })), "{refused:?}");
    assert_eq!(fs::read(&path).expect("read"), bytes);
}

#[test]
fn rearranged_valid_sections_are_detected() {
    let dir = tempfile::tempdir().expect("directory");
    write(&open(dir.path()), "s", &[b"aaaa", b"bbbb"]);
    let path = files(dir.path())[0].clone();
    let mut bytes = fs::read(&path).expect("read");
    let (first, second) = bytes[8..34].split_at_mut(13);
    first.swap_with_slice(second);
    fs::write(&path, bytes).expect("write");
    assert!(matches!(Snapshots::open(dir.path()), Err(StoreError::Corrupt { .. })));
}

#[test]
fn a_snapshot_is_received_in_pieces_and_verified_before_publication() {
    let (here, there) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let sent = write(&open(here.path()), "s", &[&vec![1; 100_000], &vec![2; 50_000]]);
    let snapshots = open(there.path());
    write(&snapshots, "mine", &[b"mine"]);
    let raw = sent.raw();
    let receive = |damage: Option<u64>, upto: u64| {
        let mut receiver = snapshots.receive("s").expect("receive");
        while receiver.received() < upto {
            let mut piece = raw.read_at(receiver.received(), 7_777).expect("read").to_vec();
            if damage.is_some_and(|at| at / 7_777 == receiver.received() / 7_777) {
                piece[5] ^= 1;
            }
            receiver.append(&piece).expect("append");
        }
        receiver.verify()
    };
    let whole = raw.len();
    for (damage, upto) in
        [(Some(20_000), whole), (Some(0), whole), (None, whole - 7_777), (None, 0)]
    {
        match receive(damage, upto) {
            Err(StoreError::Corrupt { fix, .. }) => assert!(fix.contains("again")),
            other => panic!("{damage:?} {upto}: {other:?}"),
        }
        assert_eq!(snapshots.latest().expect("latest").expect("there").name(), "mine");
        assert_eq!(files(there.path()).len(), 1);
    }
    let verified = receive(None, whole).expect("whole");
    assert_eq!(parts(verified.reader()), parts(&sent));
    assert_eq!(snapshots.latest().expect("latest").expect("there").name(), "mine");
    drop(verified);
    assert_eq!(files(there.path()).len(), 1, "it was not published");
    let received = receive(None, whole).expect("whole").publish().expect("published");
    assert_eq!(parts(&received), parts(&sent));
    assert_eq!(open(there.path()).latest().expect("latest").expect("there").meta(), sent.meta());
    assert!(raw.read_at(whole, 10).expect("read").is_empty() && !raw.is_empty());
}

#[test]
fn names_and_parts_are_checked() {
    let dir = tempfile::tempdir().expect("directory");
    let snapshots = open(dir.path());
    for name in ["", "a/b", "..", ".hidden", "ä", &"x".repeat(101)] {
        assert!(matches!(snapshots.begin(name), Err(StoreError::Misuse { .. })), "{name:?}");
    }
    let mut writer = snapshots.begin("T1-N2.x_9").expect("begin");
    let long = vec![0; PART_BYTES_MAX + 1];
    assert!(matches!(writer.write_part(&long), Err(StoreError::TooLarge { .. })));
}

#[test]
fn the_bytes_of_format_version_1_are_stable() {
    let dir = tempfile::tempdir().expect("directory");
    write(&open(dir.path()), "golden", &[b"part"]);
    let bytes = fs::read(&files(dir.path())[0]).expect("read");
    let golden = [
        &b"HFSNAP\x01\x00"[..],
        b"\x01\x04\x00\x00\x00\x1f\x08_Vpart",
        b"\x02\x0e\x00\x00\x00\xd5\xfd\x0f#meta of golden",
        b"\x03\x1c\x00\x00\x00`\x9d\xd7\xc7",
        b"\x01\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00",
        b"\x15\x00\x00\x00\x00\x00\x00\x00,\xb44Z",
    ];
    assert_eq!(bytes.escape_ascii().to_string(), golden.concat().escape_ascii().to_string());
}
