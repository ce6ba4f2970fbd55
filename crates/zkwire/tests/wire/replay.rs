//! Decodes every frame of the corpus by its kind, and encodes it to the same bytes.

use std::collections::BTreeSet;

use bytes::Bytes;
use holdfast_zkwire::{
    ConnectRequest, ConnectResponse, ErrorCode, ReplyKind, decode_event, decode_reply,
    decode_request, encode_event, encode_reply, encode_request, op,
};

use crate::corpus::{self, Frame, What};
use crate::exercise::every_decoder;

/// Encodes the decoded frame; `None` if it does not decode.
fn rewritten(frame: &Frame) -> Option<Bytes> {
    let bytes = frame.bytes.clone();
    match frame.what {
        What::ConnectRequest => ConnectRequest::decode(bytes).ok().map(|request| request.encode()),
        What::ConnectResponse => ConnectResponse::decode(bytes).ok().map(|reply| reply.encode()),
        What::Request | What::BadRequest => {
            let (header, request) = decode_request(bytes).ok()?;
            encode_request(header.xid, &request.ok()?).ok()
        }
        What::Reply(kind) => {
            let (header, response) = decode_reply(kind, bytes).ok()?;
            let result = response.as_ref().ok_or_else(|| ErrorCode::from_code(header.err).unwrap());
            Some(encode_reply(header.xid, header.zxid, result))
        }
        What::Event => {
            let (header, event) = decode_event(bytes).ok()?;
            Some(encode_event(header.zxid, &event))
        }
    }
}

#[test]
fn every_valid_frame_of_the_corpus_decodes_and_encodes_to_the_same_bytes() {
    for frame in corpus::frames().unwrap() {
        let written = rewritten(&frame);
        if frame.what == What::BadRequest {
            assert_eq!(written, None, "{}", frame.name);
            continue;
        }
        assert!(written.is_some(), "{} does not decode", frame.name);
        assert_eq!(written.unwrap()[4..], frame.bytes[..], "{}", frame.name);
    }
}

#[test]
fn every_decoder_keeps_its_invariants_for_the_corpus() {
    for frame in corpus::frames().unwrap() {
        every_decoder(&frame.bytes);
    }
}

#[test]
fn the_corpus_contains_every_operation_and_every_kind_of_reply() {
    let frames = corpus::frames().unwrap();
    let requests = frames.iter().filter(|frame| frame.what == What::Request);
    let seen: BTreeSet<i32> =
        requests.map(|frame| decode_request(frame.bytes.clone()).unwrap().0.op).collect();
    let all = (op::CREATE..=op::SYNC)
        .chain(op::PING..=op::MULTI_READ)
        .chain(op::AUTH..=op::WHO_AM_I)
        .chain([op::CLOSE_SESSION]);
    let missing: Vec<i32> = all.filter(|op| !seen.contains(op)).collect();
    assert_eq!(missing, [], "operations without a frame");
    let has = |kind: &ReplyKind| frames.iter().any(|frame| frame.what == What::Reply(*kind));
    let missing: Vec<_> = ReplyKind::ALL.iter().filter(|kind| !has(kind)).collect();
    assert!(missing.is_empty(), "replies without a frame: {missing:?}");
}
