//! Arbitrary bytes: no decoder panics, or uses more memory than a fixed multiple of the frame.

use bytes::Bytes;
use holdfast_zkwire::{
    DecodeError, FRAME_MAX_DEFAULT, MEMORY_FACTOR, ReplyKind, decode_reply, decode_request,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::bytes::bytes;
use crate::exercise::every_decoder;
use crate::footprint;

/// Valid and absurd lengths, counts and operations among random bytes.
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
    fn any_bytes(frame in vec(any::<u8>(), 0..300)) {
        every_decoder(&frame.into());
    }

    #[test]
    fn plausible_bytes(frame in plausible()) {
        every_decoder(&frame.into());
    }

    #[test]
    fn plausible_bodies_of_every_operation(op in -12..110_i32, body in plausible()) {
        let frame = [&1_i32.to_be_bytes()[..], &op.to_be_bytes(), &body].concat();
        every_decoder(&frame.into());
    }
}

/// A frame as large as the front-end accepts, in which every vector has a count of two thousand million.
#[test]
fn absurd_counts_reserve_nothing() {
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

/// As large a frame as the front-end accepts: `start`, as many of `item` as fit, `end`; a count is put in front of the
/// items if there has to be one.
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

/// The maximum memory of a decoded request.
#[test]
fn the_requests_that_take_the_most_memory_stay_within_the_factor() {
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
        assert!(held > frame.len() / 2, "{held} bytes: not the frame that was meant");
        assert!(held <= frame.len() * MEMORY_FACTOR, "{held} bytes held for {}", frame.len());
    }
}

/// The maximum memory of a decoded reply.
#[test]
fn the_replies_that_take_the_most_memory_stay_within_the_factor() {
    let start = "00000001 0000000000000001 00000000";
    for (kind, frame) in [
        (ReplyKind::Multi, filled(start, false, "00000002 00 00000000", END)),
        (ReplyKind::MultiRead, filled(start, false, "00000008 00 00000000 00000000", END)),
        (ReplyKind::Children, filled(start, true, "00000000", "")),
        (ReplyKind::WhoAmI, filled(start, true, "00000001 ff 00000001 ff", "")),
    ] {
        let response = decode_reply(kind, frame.clone()).unwrap().1.unwrap();
        let held = footprint::of_response(&response);
        assert!(held > frame.len(), "{held} bytes: not the frame that was meant");
        assert!(held <= frame.len() * MEMORY_FACTOR, "{held} bytes held for {}", frame.len());
    }
}
