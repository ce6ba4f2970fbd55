//! Golden bytes of connect requests and responses.

use holdfast_zkwire::{ConnectRequest, ConnectResponse, DecodeError};

use crate::bytes::{bytes, framed};

const PASSWORD: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

fn request() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0x1_0000_0002,
        timeout_ms: 10_000,
        session_id: 0x0100_0000_0000_0007,
        password: Some(PASSWORD),
        read_only: Some(true),
    }
}

const REQUEST: &str = "00000000 0000000100000002 00002710 0100000000000007
                       00000010 0102030405060708090a0b0c0d0e0f10";

fn response() -> ConnectResponse {
    ConnectResponse {
        protocol_version: 0,
        timeout_ms: 10_000,
        session_id: 0x0100_0000_0000_0007,
        password: PASSWORD,
        read_only: Some(false),
    }
}

const RESPONSE: &str = "00000000 00002710 0100000000000007
                        00000010 0102030405060708090a0b0c0d0e0f10";

#[test]
fn a_connect_request_is_45_bytes_and_44_without_the_read_only_flag() {
    let new = framed(&format!("{REQUEST} 01"));
    assert_eq!(new.len(), 4 + 45);
    assert_eq!(request().encode(), new);
    assert_eq!(ConnectRequest::decode(new.slice(4..)), Ok(request()));

    let old = ConnectRequest { read_only: None, ..request() };
    assert_eq!(old.encode(), framed(REQUEST));
    assert_eq!(ConnectRequest::decode(bytes(REQUEST)), Ok(old));
}

#[test]
fn a_connect_response_is_37_bytes_and_36_without_the_read_only_flag() {
    let new = framed(&format!("{RESPONSE} 00"));
    assert_eq!(new.len(), 4 + 37);
    assert_eq!(response().encode(), new);
    assert_eq!(ConnectResponse::decode(new.slice(4..)), Ok(response()));

    let old = ConnectResponse { read_only: None, ..response() };
    assert_eq!(old.encode(), framed(RESPONSE));
    assert_eq!(ConnectResponse::decode(bytes(RESPONSE)), Ok(old));
}

#[test]
fn a_refusal_has_zeros_as_session_timeout_and_password() {
    let zeros = "00000000 00000000 0000000000000000 00000010 00000000000000000000000000000000";
    assert_eq!(ConnectResponse::refusal(Some(false)).encode(), framed(&format!("{zeros} 00")));
    assert_eq!(ConnectResponse::refusal(None).encode(), framed(zeros));
}

#[test]
fn a_request_password_of_another_length_decodes_as_none() {
    let head = "00000000 0000000000000000 00002710 0000000000000007";
    for password in
        ["ffffffff", "00000000", "00000003 010203", "00000011 0102030405060708090a0b0c0d0e0f1011"]
    {
        let request = ConnectRequest::decode(bytes(&format!("{head} {password} 00")));
        assert_eq!(request.map(|request| request.password), Ok(None), "{password}");
    }
    let null = ConnectResponse::decode(bytes("00000000 00002710 0100000000000007 ffffffff 00"));
    assert!(null.is_err());
}

#[test]
fn an_invalid_password_length_or_a_truncated_request_is_rejected() {
    let head = "00000000 0000000000000000 00002710 0000000000000007";
    assert_eq!(
        ConnectRequest::decode(bytes(&format!("{head} fffffffe 00"))),
        Err(DecodeError::Length { field: "passwd", len: -2 })
    );
    assert_eq!(
        ConnectRequest::decode(bytes(&format!("{head} 7fffffff 00"))),
        Err(DecodeError::Short { field: "passwd", have: 1, need: 0x7fff_ffff })
    );
    for len in 0..bytes(REQUEST).len() {
        assert!(ConnectRequest::decode(bytes(REQUEST).slice(..len)).is_err(), "{len} bytes");
    }
}

#[test]
fn bytes_after_the_last_field_are_ignored() {
    let longer = bytes(&format!("{REQUEST} 01 'more'"));
    assert_eq!(ConnectRequest::decode(longer), Ok(request()));
}
