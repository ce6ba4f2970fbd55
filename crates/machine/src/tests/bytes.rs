//! Golden bytes of each part of a snapshot inside the codec's envelope. If this test fails, older snapshots cannot be
//! read, and the change needs a new version (`docs/contributing/formats/README.md`). `UPDATE_GOLDEN=1` rewrites the file.
#![expect(clippy::disallowed_methods, reason = "the golden bytes are a file")]

use std::fmt::Write as _;
use std::path::Path;

use holdfast_codec::{Kind, decode, encode};
use holdfast_types::{Reason, Revision, Seal, Stamp, SubjectName};

use super::snapshots::machine;
use crate::snapshot::part::Part;
use crate::{Machine, SnapshotPart};

#[test]
fn the_bytes_of_a_snapshot_do_not_change() {
    let mut text = String::new();
    for part in machine().dump() {
        let bytes = encode(Kind::SnapshotPart, &part).unwrap();
        for line in bytes.chunks(32) {
            line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
        text.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/snapshot.hex");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "the snapshot's bytes changed");
}

#[test]
fn the_bytes_of_a_seal_do_not_change() {
    let (by, reason) = (SubjectName::new("eva").unwrap(), Reason::new("move").unwrap());
    let seal = Part::Seal(
        Seal { revision: Revision(3), since: Stamp(5), by: Some(by), reason },
        vec![holdfast_types::SessionId(7)],
    );
    let bytes = encode(Kind::SnapshotPart, &SnapshotPart(seal)).unwrap();
    let mut hex = String::new();
    bytes.iter().for_each(|byte| write!(hex, "{byte:02x}").unwrap());
    let expected = "484601153c000000c8e0449d0a0000000300000000000000050000000000000001030000000000000065766104000000000000006d6f766501000000000000000700000000000000";
    assert_eq!(hex, expected);
}

/// The golden bytes of the first version load.
#[test]
fn the_golden_bytes_load() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/snapshot.hex");
    let golden = std::fs::read_to_string(path).unwrap();
    let parts = golden.split_terminator("\n\n").map(|part| {
        let digits: Vec<u8> = part.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        let bytes: Vec<u8> = digits.chunks(2).map(byte).collect();
        decode::<SnapshotPart>(Kind::SnapshotPart, &bytes).unwrap()
    });
    let loaded = Machine::load(parts).unwrap();
    assert_eq!(loaded.state_digest(), machine().state_digest());
}
