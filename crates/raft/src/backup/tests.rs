//! Golden bytes, and errors for damaged backups.

use std::fmt::Write as _;

use holdfast_codec::Kind;
use holdfast_types::{
    Acquire, Command, Entry, Incarnation, LockName, OpenSession, Owner, SessionName,
};
use serde::Serialize;

use super::*;

/// A machine with `sessions` sessions that each hold a lock.
fn machine(sessions: u64) -> Machine {
    let mut machine = Machine::new();
    let bootstrap = Command::Bootstrap {
        cluster_id: ClusterId(9),
        level: FeatureLevel::NEWEST,
        members: [NodeId(1)].into(),
    };
    let register = Command::RegisterNode { node: NodeId(1), incarnation: Incarnation(7) };
    let acquires = (1..=sessions).map(|number| {
        let lock = LockName::new(format!("lock{number}")).unwrap();
        let open = OpenSession::of(SessionName::new(format!("s{number}")).unwrap());
        Command::Acquire(Acquire::new(lock, open, Owner::unnamed()))
    });
    let commands = [bootstrap, register].into_iter().chain(acquires).collect();
    drop(machine.apply(Entry { stamped_at: Stamp(1_000), commands }));
    machine
}

fn backup(machine: &Machine) -> Vec<Vec<u8>> {
    let chunks = write(machine, "c".to_owned(), NodeId(2), Stamp(5_000));
    chunks.map(|bytes| bytes.unwrap().to_vec()).collect()
}

fn error(bytes: &[u8]) -> BackupError {
    Backup::read(bytes).err().unwrap_or_else(|| panic!("a damaged backup was read"))
}

fn hex(kind: Kind, value: &impl Serialize) -> String {
    let bytes = holdfast_codec::encode(kind, value).unwrap();
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// All later versions must read these bytes.
#[test]
fn heads_and_ends_keep_their_bytes() {
    let head = BackupHead {
        format: FORMAT,
        cluster: "c".to_owned(),
        cluster_id: Some(ClusterId(0xC1)),
        level: FeatureLevel(1),
        revision: Revision(2),
        last_token: 3,
        sessions: 4,
        locks_held: 5,
        znodes: 6,
        made_at: Stamp(7),
        node: NodeId(8),
        build: "b".to_owned(),
        digest_schema: 9,
        state_digest: 10,
    };
    let end = BackupEnd { bytes: 11, sha256: [12; 32] };
    assert_eq!(
        hex(Kind::BackupHead, &head),
        "4846011669000000d2275a56010001000000000000006301c100000000000000000000000000000001000200\
         0000000000000300000000000000040000000000000005000000000000000600000000000000070000000000\
         00000800000000000000010000000000000062090\
         00a00000000000000"
    );
    assert_eq!(
        hex(Kind::BackupEnd, &end),
        "4846011728000000c3ddbc7e0b000000000000000c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c\
         0c0c0c0c0c0c0c0c"
    );
}

#[test]
fn a_backup_is_read_back_with_its_head_and_its_end() {
    let machine = machine(3_000);
    let chunks = backup(&machine);
    assert!(chunks.len() > 5, "the state has several parts: {}", chunks.len());
    let bytes = chunks.concat();
    let Backup { head, machine: loaded, end } = Backup::read(&bytes[..]).unwrap();
    assert_eq!(loaded.state_digest(), machine.state_digest());
    assert_eq!(loaded.digest(), machine.digest());
    loaded.check_invariants().unwrap();
    let facts = (head.sessions, head.locks_held, head.last_token, head.revision);
    assert_eq!(facts, (3_000, 3_000, 3_000, machine.revision()));
    assert_eq!((head.cluster_id, head.made_at), (Some(ClusterId(9)), Stamp(5_000)));
    let last = chunks.last().unwrap().len();
    assert_eq!(end.bytes, (bytes.len() - last) as u64);
    assert_eq!(end.sha256_hex().len(), 64);
}

#[test]
fn a_backup_without_its_last_bytes_is_rejected_with_the_part_and_the_offset() {
    let chunks = backup(&machine(3));
    let bytes = chunks.concat();
    for len in 0..bytes.len() {
        let error = error(&bytes[..len]);
        assert!(error.reason.contains(&format!("cut short after {len} bytes")), "{error}");
    }
    let third: usize = chunks[..3].iter().map(Vec::len).sum();
    let error = error(&bytes[..=third]);
    assert_eq!((error.part, error.offset), (BackupPart::State(3), third as u64));
}

#[test]
fn every_flipped_byte_is_found_in_its_part() {
    let chunks = backup(&machine(3));
    let bytes = chunks.concat();
    let last = bytes.len() - chunks.last().unwrap().len();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        let error = error(&flipped);
        assert!(error.offset <= at as u64, "{error}");
        assert_eq!(error.part == BackupPart::Head, at < chunks[0].len(), "byte {at}: {error}");
        if at >= last + holdfast_codec::HEADER_LEN {
            assert_eq!(error.part, BackupPart::End, "byte {at}: {error}");
        }
    }
}

#[test]
fn parts_of_another_backup_and_missing_parts_are_rejected() {
    let chunks = backup(&machine(3));
    let mut mixed = chunks.clone();
    mixed[2] = backup(&machine(4))[2].clone();
    error(&mixed.concat());
    for missing in 1..chunks.len() - 1 {
        let mut fewer = chunks.clone();
        fewer.remove(missing);
        error(&fewer.concat());
    }
    let more = error(&[chunks.concat(), vec![0]].concat());
    assert_eq!((more.part, more.reason.as_str()), (BackupPart::End, "more bytes follow the end"));
}

#[test]
fn a_later_format_and_a_foreign_file_are_named() {
    let bytes = backup(&machine(1)).concat();
    let head: BackupHead = Backup::read(&bytes[..]).unwrap().head;
    // A later format may have other fields.
    let later = holdfast_codec::encode(Kind::BackupHead, &(FORMAT + 1, head, 5_u64)).unwrap();
    let later = error(&later);
    assert_eq!(later.part, BackupPart::Head);
    assert!(later.reason.contains("format 2") && later.reason.contains("newer"), "{later}");
    let foreign = error(b"PK\x03\x04 this is another kind of file");
    assert!(foreign.to_string().contains("not the bytes of a backup"), "{foreign}");
    let identity = holdfast_codec::encode(Kind::Identity, &7_u64).unwrap();
    assert!(error(&identity).reason.contains("kind 24"), "{}", error(&identity));
}

#[test]
fn a_state_that_differs_from_its_digest_is_rejected() {
    let (one, mut other) = (machine(3), machine(3));
    // The time of the log is a part of the state.
    drop(other.apply(Entry { stamped_at: Stamp(2_000), commands: Vec::new() }));
    let head = Backup::read(&backup(&one).concat()[..]).unwrap().head;
    let refused = read::check_state(&head, &other).unwrap_err();
    assert!(refused.contains("its digest is"), "{refused}");
}
