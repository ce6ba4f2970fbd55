//! Runs every decoder over the same bytes and checks the invariants that hold for any bytes.
//!
//! No decoder panics. Memory is at most a multiple of the frame. A decoded value encodes and decodes to the same value.
//! The property tests, the corpus tests and the fuzzer share this module.

use bytes::Bytes;
use holdfast_zkwire::{
    ConnectRequest, ConnectResponse, FRAME_MAX_DEFAULT, FourLetterWord, LENGTH_LEN, MEMORY_FACTOR,
    ReplyKind, decode_event, decode_reply, decode_reply_header, decode_request, encode_event,
    encode_reply, encode_request, frame_len,
};

use crate::footprint;

/// The bytes that the smallest vector may reserve beyond its items.
const SLACK: usize = 1024;

/// Runs all decoders; returns how many decoded the bytes.
pub(crate) fn every_decoder(frame: &Bytes) -> usize {
    let replies = ReplyKind::ALL.iter().filter(|kind| reply(**kind, frame));
    let others = [request(frame), event(frame), connects(frame), lengths(frame)];
    replies.count() + others.into_iter().filter(|read| *read).count()
}

fn bounded(held: usize, frame: &Bytes) {
    let max = frame.len() * MEMORY_FACTOR + SLACK;
    assert!(held <= max, "{held} bytes for a frame of {}", frame.len());
}

fn request(frame: &Bytes) -> bool {
    let Ok((header, Ok(request))) = decode_request(frame.clone()) else { return false };
    bounded(footprint::of_request(&request), frame);
    let again = encode_request(header.xid, &request)
        .map(|written| decode_request(written.slice(LENGTH_LEN..)));
    assert!(
        matches!(&again, Ok(Ok((again, Ok(read)))) if again.xid == header.xid && *read == request),
        "{request:?} decodes to {again:?} after its encoding"
    );
    true
}

fn reply(kind: ReplyKind, frame: &Bytes) -> bool {
    let Ok((header, body)) = decode_reply(kind, frame.clone()) else { return false };
    assert_eq!(decode_reply_header(frame), Ok(header));
    let Some(response) = body else { return header.err != 0 };
    bounded(footprint::of_response(&response), frame);
    let written = encode_reply(header.xid, header.zxid, Ok(&response));
    assert_eq!(written.len(), LENGTH_LEN + 16 + response.body_len());
    assert_eq!(decode_reply(kind, written.slice(LENGTH_LEN..)), Ok((header, Some(response))));
    true
}

fn event(frame: &Bytes) -> bool {
    let Ok((header, event)) = decode_event(frame.clone()) else { return false };
    bounded(event.path.capacity(), frame);
    let written = encode_event(header.zxid, &event);
    let again = decode_event(written.slice(LENGTH_LEN..));
    assert_eq!(again.map(|(_, event)| event), Ok(event));
    true
}

fn connects(frame: &Bytes) -> bool {
    let request = ConnectRequest::decode(frame.clone());
    if let Ok(request) = request {
        assert_eq!(ConnectRequest::decode(request.encode().slice(LENGTH_LEN..)), Ok(request));
    }
    let response = ConnectResponse::decode(frame.clone());
    if let Ok(response) = response {
        assert_eq!(ConnectResponse::decode(response.encode().slice(LENGTH_LEN..)), Ok(response));
    }
    request.is_ok() || response.is_ok()
}

fn lengths(frame: &Bytes) -> bool {
    let Some(first) = frame.first_chunk() else { return false };
    let len = frame_len(*first, FRAME_MAX_DEFAULT);
    assert!(len.is_err() || len.is_ok_and(|len| len <= FRAME_MAX_DEFAULT));
    FourLetterWord::parse(*first).is_some() || len.is_ok()
}
