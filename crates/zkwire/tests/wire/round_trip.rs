//! Every encoded value decodes to the same value and has the computed length.

use bytes::Bytes;
use holdfast_zkwire::{
    ConnectRequest, ConnectResponse, ErrorCode, FRAME_MAX_DEFAULT, decode_event, decode_reply,
    decode_request, encode_event, encode_reply, encode_request, frame_len,
};
use proptest::prelude::*;

use crate::strategies::{connect_request, connect_response, event, request, response};

/// Checks the length of a frame and returns the body.
fn unframed(frame: &Bytes) -> Bytes {
    let header = *frame.first_chunk().unwrap();
    assert_eq!(frame_len(header, FRAME_MAX_DEFAULT), Ok(frame.len() - 4));
    frame.slice(4..)
}

proptest! {
    #[test]
    fn requests_decode_to_the_encoded_value(xid in any::<i32>(), request in request()) {
        let body = unframed(&encode_request(xid, &request).unwrap());
        let (header, read) = decode_request(body).unwrap();
        prop_assert_eq!((header.xid, header.op), (xid, request.op()));
        prop_assert_eq!(read, Ok(request));
    }

    #[test]
    fn replies_decode_to_the_encoded_value(xid in any::<i32>(), zxid in any::<i64>(), (kind, response) in response()) {
        let body = unframed(&encode_reply(xid, zxid, Ok(&response)));
        prop_assert_eq!(body.len(), 16 + response.body_len());
        let (header, read) = decode_reply(kind, body).unwrap();
        prop_assert_eq!((header.xid, header.zxid, header.err), (xid, zxid, 0));
        prop_assert_eq!(read, Some(response));
    }

    #[test]
    fn error_replies_decode_to_the_encoded_error(
        error in proptest::sample::select(ErrorCode::ALL),
        (kind, _) in response(),
    ) {
        let body = unframed(&encode_reply(1, 2, Err(error)));
        let (header, read) = decode_reply(kind, body).unwrap();
        prop_assert_eq!((header.error(), read), (Some(error), None));
    }

    #[test]
    fn events_decode_to_the_encoded_value(zxid in any::<i64>(), event in event()) {
        let (header, read) = decode_event(unframed(&encode_event(zxid, &event))).unwrap();
        prop_assert_eq!((header.zxid, read), (zxid, event));
    }

    #[test]
    fn connect_requests_and_responses_decode_to_the_encoded_value(
        request in connect_request(),
        response in connect_response(),
    ) {
        prop_assert_eq!(ConnectRequest::decode(unframed(&request.encode())), Ok(request));
        prop_assert_eq!(ConnectResponse::decode(unframed(&response.encode())), Ok(response));
    }

    /// A truncated frame is rejected, or decodes to another request if its last field is optional.
    #[test]
    fn a_truncated_request_never_decodes_to_the_whole_request(
        request in request(),
        cut in any::<prop::sample::Index>(),
    ) {
        let body = unframed(&encode_request(1, &request).unwrap());
        let cut = cut.index(body.len());
        let whole = decode_request(body.slice(..cut)).is_ok_and(|(_, read)| read == Ok(request));
        prop_assert!(!whole, "{} of {} bytes decode to the whole request", cut, body.len());
    }
}
