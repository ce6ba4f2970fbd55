//! Golden bytes of every reply except multi replies, and of events.

use bytes::{Bytes, BytesMut};
use holdfast_zkwire::{
    Acl, AuthId, DecodeError, ErrorCode, ReplyHeader, ReplyKind, Response, STAT_LEN, SessionState,
    Stat, WatchEventType, WatchedEvent, append_reply, decode_event, decode_reply,
    decode_reply_header, encode_event, encode_reply, xid,
};

use crate::bytes::{bytes, framed};

/// A stat with a different number in each field.
pub(crate) fn stat() -> Stat {
    Stat {
        czxid: 1,
        mzxid: 2,
        ctime: 3,
        mtime: 4,
        version: 5,
        cversion: 6,
        aversion: 7,
        ephemeral_owner: i64::MIN,
        data_length: 9,
        num_children: 10,
        pzxid: 11,
    }
}

pub(crate) const STAT: &str = "0000000000000001 0000000000000002 0000000000000003 0000000000000004
                               00000005 00000006 00000007 8000000000000000 00000009 0000000a 000000000000000b";

fn golden(kind: ReplyKind, response: &Response, notation: &str) {
    let whole = format!("00000007 0000000200000001 00000000 {notation}");
    assert_eq!(encode_reply(7, 0x2_0000_0001, Ok(response)), framed(&whole), "{response:?}");
    assert_eq!(response.body_len(), bytes(notation).len());
    let header = ReplyHeader { xid: 7, zxid: 0x2_0000_0001, err: 0 };
    assert_eq!(decode_reply(kind, bytes(&whole)), Ok((header, Some(response.clone()))));
}

fn names() -> Vec<String> {
    vec!["b".into(), "lock-0000000001".into()]
}

const NAMES: &str = "00000002 00000001 'b' 0000000f 'lock-0000000001'";

#[test]
fn a_stat_is_68_bytes() {
    assert_eq!(bytes(STAT).len(), STAT_LEN);
    golden(ReplyKind::Stat, &Response::Stat(stat()), STAT);
}

#[test]
fn replies_to_requests_on_one_node_match_their_golden_bytes() {
    golden(ReplyKind::Created, &Response::Created { path: "/a".into() }, "00000002 '/a'");
    golden(
        ReplyKind::Created2,
        &Response::Created2 { path: "/a".into(), stat: stat() },
        &format!("00000002 '/a' {STAT}"),
    );
    let data = Some(Bytes::from_static(b"xyz"));
    golden(
        ReplyKind::Data,
        &Response::Data { data, stat: stat() },
        &format!("00000003 'xyz' {STAT}"),
    );
    golden(
        ReplyKind::Data,
        &Response::Data { data: None, stat: stat() },
        &format!("ffffffff {STAT}"),
    );
    golden(
        ReplyKind::Acl,
        &Response::Acl { acl: vec![Acl::open()], stat: stat() },
        &format!("00000001 0000001f 00000005 'world' 00000006 'anyone' {STAT}"),
    );
    golden(ReplyKind::Children, &Response::Children(names()), NAMES);
    golden(ReplyKind::Children, &Response::Children(Vec::new()), "00000000");
    golden(
        ReplyKind::Children2,
        &Response::Children2 { children: names(), stat: stat() },
        &format!("{NAMES} {STAT}"),
    );
}

#[test]
fn replies_to_other_requests_match_their_golden_bytes() {
    golden(ReplyKind::Sync, &Response::Sync { path: "/a".into() }, "00000002 '/a'");
    golden(ReplyKind::Ephemerals, &Response::Ephemerals(names()), NAMES);
    golden(ReplyKind::ChildrenCount, &Response::ChildrenCount(8), "00000008");
    golden(ReplyKind::AddWatch, &Response::AddWatch, "00000000");
    let id = |scheme: &str, id: &str| AuthId { scheme: scheme.into(), id: id.into() };
    golden(
        ReplyKind::WhoAmI,
        &Response::WhoAmI(vec![id("ip", "127.0.0.1"), id("digest", "u")]),
        "00000002 00000002 'ip' 00000009 '127.0.0.1' 00000006 'digest' 00000001 'u'",
    );
    golden(ReplyKind::Sasl, &Response::Sasl { token: None }, "ffffffff");
    golden(ReplyKind::Empty, &Response::Empty, "");
}

#[test]
fn an_error_reply_has_no_body() {
    let frame = encode_reply(7, 8, Err(ErrorCode::NoNode));
    assert_eq!(frame, framed("00000007 0000000000000008 ffffff9b"));
    for kind in ReplyKind::ALL {
        let (header, body) = decode_reply(*kind, frame.slice(4..)).unwrap();
        assert_eq!((header.error(), body), (Some(ErrorCode::NoNode), None));
    }
    let foreign = decode_reply_header(&bytes("00000007 0000000000000008 fffffc18")).unwrap();
    assert_eq!((foreign.err, foreign.error()), (-1000, None));
}

#[test]
fn append_reply_keeps_the_earlier_replies() {
    let mut out = BytesMut::new();
    append_reply(&mut out, 1, 2, Ok(&Response::ChildrenCount(3)));
    append_reply(&mut out, 4, 5, Err(ErrorCode::NoAuth));
    let both = "00000014 00000001 0000000000000002 00000000 00000003
                00000010 00000004 0000000000000005 ffffff9a";
    assert_eq!(out, bytes(both));
}

#[test]
fn events_match_their_golden_bytes() {
    let event = WatchedEvent::of(WatchEventType::Created, "/a");
    let notation = "ffffffff ffffffffffffffff 00000000 00000001 00000003 00000002 '/a'";
    assert_eq!(encode_event(-1, &event), framed(notation));
    let header = ReplyHeader { xid: xid::EVENT, zxid: -1, err: 0 };
    assert_eq!(decode_event(bytes(notation)), Ok((header, event)));

    let newer = "ffffffff 0000000000000009 00000000 00000002 00000003 00000002 '/a'";
    assert_eq!(encode_event(9, &WatchedEvent::of(WatchEventType::Deleted, "/a")), framed(newer));

    let reply = bytes("00000007 0000000000000008 00000000");
    assert_eq!(decode_event(reply), Err(DecodeError::NotAnEvent { xid: 7 }));
}

#[test]
fn event_types_and_session_states_match_their_numbers() {
    for (code, kind) in [
        (-1, WatchEventType::None),
        (1, WatchEventType::Created),
        (2, WatchEventType::Deleted),
        (3, WatchEventType::DataChanged),
        (4, WatchEventType::ChildrenChanged),
        (5, WatchEventType::DataWatchRemoved),
        (6, WatchEventType::ChildWatchRemoved),
        (7, WatchEventType::PersistentWatchRemoved),
        (8, WatchEventType::Unknown(8)),
    ] {
        assert_eq!((kind.code(), WatchEventType::from_code(code)), (code, kind));
    }
    for (code, state) in [
        (3, SessionState::SyncConnected),
        (5, SessionState::ConnectedReadOnly),
        (-112, SessionState::Unknown(-112)),
    ] {
        assert_eq!((state.code(), SessionState::from_code(code)), (code, state));
    }
}
