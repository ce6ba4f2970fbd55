//! For arbitrary bytes, no decoder panics or uses more memory than a fixed multiple of the frame.

use bytes::Bytes;
use holdfast_zkwire::{
    DecodeError, FRAME_MAX_DEFAULT, MEMORY_FACTOR, ReplyKind, decode_reply, decode_request,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::bytes::bytes;
use crate::exercise::every_decoder;
use crate::footprint;

/// Valid and invalid lengths, counts and operations among random bytes.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![
        -2..24_i32,
        100..108_i32,
        Just(-11),
        Just(i32::MAX),
        Just(i32::MIN),
        Just(0x00ff_ffff),
    ];
    let piece = prop_oneof![
        4 => number.prop_map(|number| number.to_be_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
        1 => Just(vec![0]),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_decoder_keeps_its_invariants_for_random_bytes(frame in vec(any::<u8>(), 0..300)) {
        every_decoder(&frame.into());
    }

    #[test]
    fn every_decoder_keeps_its_invariants_for_plausible_bytes(frame in plausible()) {
        every_decoder(&frame.into());
    }

    #[test]
    fn every_decoder_keeps_its_invariants_for_plausible_bodies(op in -12..110_i32, body in plausible()) {
        let frame = [&1_i32.to_be_bytes()[..], &op.to_be_bytes(), &body].concat();
        every_decoder(&frame.into());
    }
}

/// Each frame has the maximum size and a vector with a count of 2,147,483,647.
#[test]
fn a_count_that_exceeds_the_frame_is_rejected() {
    let count = "7fffffff";
    for refused in [
        format!("00000001 00000001 00000002 '/a' ffffffff {count}"),
        format!("00000001 00000007 00000002 '/a' {count}"),
        format!("00000001 00000065 0000000000000000 {count}"),
        format!("00000001 00000069 0000000000000000 00000000 00000000 00000000 00000000 {count}"),
        format!("00000001 0000000e 00000001 00 ffffffff 00000002 '/a' ffffffff {count}"),
    ] {
        let mut frame = bytes(&refused).to_vec();
        frame.resize(FRAME_MAX_DEFAULT, 0);
        let (_, body) = decode_request(frame.into()).unwrap();
        assert!(matches!(body, Err(DecodeError::Count { .. })), "{refused}: {body:?}");
    }
    for kind in [
        ReplyKind::Acl,
        ReplyKind::Children,
        ReplyKind::Children2,
        ReplyKind::Ephemerals,
        ReplyKind::WhoAmI,
    ] {
        let mut frame = bytes(&format!("00000001 0000000000000001 00000000 {count}")).to_vec();
        frame.resize(FRAME_MAX_DEFAULT, 0);
        let body = decode_reply(kind, frame.into());
        assert!(matches!(body, Err(DecodeError::Count { .. })), "{kind:?}: {body:?}");
    }
}

/// Returns a frame of the maximum size: `start`, as many copies of `item` as fit, and `end`. With `counted`, their
/// count precedes the items.
fn filled(start: &str, counted: bool, item: &str, end: &str) -> Bytes {
    let (mut frame, item, end) = (bytes(start).to_vec(), bytes(item), bytes(end));
    let room = FRAME_MAX_DEFAULT - frame.len() - end.len() - 4;
    let count = room / item.len();
    if counted {
        frame.extend(i32::try_from(count).unwrap().to_be_bytes());
    }
    frame.extend(item.repeat(count));
    frame.extend(end);
    frame.into()
}

const END: &str = "ffffffff 01 ffffffff";

#[test]
fn the_largest_decoded_requests_stay_within_the_memory_factor() {
    for frame in [
        filled("00000001 0000000e", false, "00000002 00 ffffffff 00000000 00000000", END),
        filled("00000001 00000016", false, "00000004 00 ffffffff 00000000 00", END),
        filled("00000001 00000007 00000000", true, "00000000 00000000 00000000", "00000000"),
        filled("00000001 00000065 0000000000000000", true, "00000000", "00000000 00000000"),
        filled("00000001 00000065 0000000000000000", true, "00000001 ff", "00000000 00000000"),
        filled("00000001 00000067", true, "ff", ""),
    ] {
        let request = decode_request(frame.clone()).unwrap().1.unwrap();
        let held = footprint::of_request(&request);
        assert!(held > frame.len() / 2, "{held} bytes: the frame is not a worst case");
        assert!(held <= frame.len() * MEMORY_FACTOR, "{held} bytes for a frame of {}", frame.len());
    }
}

#[test]
fn the_largest_decoded_replies_stay_within_the_memory_factor() {
    let start = "00000001 0000000000000001 00000000";
    for (kind, frame) in [
        (ReplyKind::Multi, filled(start, false, "00000002 00 00000000", END)),
        (ReplyKind::MultiRead, filled(start, false, "00000008 00 00000000 00000000", END)),
        (ReplyKind::Children, filled(start, true, "00000000", "")),
        (ReplyKind::WhoAmI, filled(start, true, "00000001 ff 00000001 ff", "")),
    ] {
        let response = decode_reply(kind, frame.clone()).unwrap().1.unwrap();
        let held = footprint::of_response(&response);
        assert!(held > frame.len(), "{held} bytes: the frame is not a worst case");
        assert!(held <= frame.len() * MEMORY_FACTOR, "{held} bytes for a frame of {}", frame.len());
    }
}
