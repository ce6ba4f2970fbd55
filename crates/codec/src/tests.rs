//! Golden bytes of format version 1, and errors for damaged bytes.

use proptest::prelude::*;

use super::*;

fn sample() -> (u64, String, Option<u8>) {
    (7, "orders".to_owned(), Some(3))
}

/// If this test fails, the node cannot read old disks and peers: add a new format version instead.
#[test]
fn version_1_encodes_to_fixed_bytes() {
    let bytes = encode(Kind::Record, &sample()).unwrap();
    let payload =
        [7, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, b'o', b'r', b'd', b'e', b'r', b's', 1, 3];
    assert_eq!(bytes[..8], [b'H', b'F', 1, 1, 24, 0, 0, 0]);
    assert_eq!(bytes[8..12], crc32c::crc32c(&[&bytes[..8], &payload[..]].concat()).to_le_bytes());
    assert_eq!(bytes[12..], payload);
}

#[test]
fn an_encoded_value_is_decoded() {
    let bytes = encode(Kind::Vote, &sample()).unwrap();
    assert_eq!(decode::<(u64, String, Option<u8>)>(Kind::Vote, &bytes), Ok(sample()));
}

#[test]
fn every_flipped_bit_is_an_error() {
    let bytes = encode(Kind::Record, &sample()).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode::<(u64, String, Option<u8>)>(Kind::Record, &damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn every_missing_and_every_extra_byte_is_an_error() {
    let bytes = encode(Kind::Record, &sample()).unwrap();
    for len in 0..bytes.len() {
        assert!(decode::<(u64, String, Option<u8>)>(Kind::Record, &bytes[..len]).is_err());
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(decode::<(u64, String, Option<u8>)>(Kind::Record, &longer).is_err());
}

#[test]
fn a_payload_with_trailing_bytes_is_an_error() {
    let bytes = encode(Kind::Record, &(1_u8, 2_u8)).unwrap();
    assert!(matches!(decode::<u8>(Kind::Record, &bytes), Err(DecodeError::Payload { .. })));
}

#[test]
fn decode_prefix_rejects_an_incomplete_envelope() {
    let bytes = encode(Kind::Record, &(1_u64, "rest".to_owned())).unwrap();
    assert_eq!(decode_prefix::<u64>(Kind::Record, &bytes), Ok(1));
    assert!(decode_prefix::<u64>(Kind::Record, &bytes[..bytes.len() - 1]).is_err());
    assert!(decode_prefix::<u64>(Kind::Vote, &bytes).is_err());
}

#[test]
fn another_kind_and_a_newer_version_are_errors() {
    let mut bytes = encode(Kind::Vote, &1_u8).unwrap();
    assert_eq!(
        decode::<u8>(Kind::Record, &bytes),
        Err(DecodeError::Kind { found: 2, expected: Kind::Record })
    );
    bytes[2] = 9;
    assert_eq!(decode::<u8>(Kind::Vote, &bytes), Err(DecodeError::Version { found: 9 }));
}

#[test]
fn a_payload_over_the_limit_is_not_encoded() {
    // bincode writes the length of a sequence in 8 bytes.
    let longest = vec![0_u8; PAYLOAD_MAX - 8];
    assert_eq!(encode(Kind::Record, &longest).unwrap().len(), HEADER_LEN + PAYLOAD_MAX);
    let longer = vec![0_u8; PAYLOAD_MAX - 7];
    assert!(encode(Kind::Record, &longer).is_err());
}

#[test]
fn a_length_over_the_limit_is_an_error_before_allocation() {
    let header = [b'H', b'F', 1, 1, 255, 255, 255, 255, 0, 0, 0, 0];
    assert!(matches!(frame_len(&header), Err(DecodeError::TooLong { .. })));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _result = decode::<Vec<(String, u64)>>(Kind::Record, &bytes);
        let framed = encode(Kind::Record, &bytes).unwrap();
        let mut wrong = framed.clone();
        wrong.truncate(12);
        wrong.extend_from_slice(&bytes);
        let _result = decode::<Vec<holdfast_types::Command>>(Kind::Record, &wrong);
    }
}
