//! Golden bytes of multis, of their results, and of multi-reads.

use bytes::Bytes;
use holdfast_zkwire::{
    Acl, Create, CreateMode, CreateOp, DecodeError, ErrorCode, MultiOp, MultiResult, ReadOp,
    ReadResult, ReplyHeader, ReplyKind, Request, Response, Stat, decode_reply, decode_request,
    encode_reply, encode_request,
};

use crate::bytes::{bytes, framed};
use crate::golden_replies::{STAT, stat};

const END: &str = "ffffffff 01 ffffffff";

fn golden(request: &Request, notation: &str) {
    let notation = format!("00000001 {notation}");
    assert_eq!(encode_request(1, request), Ok(framed(&notation)));
    assert_eq!(decode_request(bytes(&notation)).unwrap().1.as_ref(), Ok(request));
}

fn golden_reply(kind: ReplyKind, response: &Response, notation: &str) {
    let notation = format!("00000001 0000000000000009 00000000 {notation}");
    assert_eq!(encode_reply(1, 9, Ok(response)), framed(&notation));
    let header = ReplyHeader { xid: 1, zxid: 9, err: 0 };
    assert_eq!(decode_reply(kind, bytes(&notation)), Ok((header, Some(response.clone()))));
}

fn create(op: CreateOp, mode: CreateMode) -> MultiOp {
    let data = Some(Bytes::from_static(b"x"));
    MultiOp::Create(Create { op, path: "/a".into(), data, acl: vec![Acl::open()], mode })
}

#[test]
fn a_multi_is_a_list_of_items_with_headers_and_an_end_marker() {
    let body = "00000002 '/a' 00000001 'x' 00000001 0000001f 00000005 'world' 00000006 'anyone'";
    golden(
        &Request::Multi(vec![
            create(CreateOp::Create, CreateMode::Persistent),
            create(CreateOp::Create2, CreateMode::EphemeralSequential),
            create(CreateOp::Container, CreateMode::Container),
            create(CreateOp::Ttl, CreateMode::Ttl(1_000)),
            MultiOp::Delete { path: "/b".into(), version: 3 },
            MultiOp::SetData { path: "/c".into(), data: None, version: -1 },
            MultiOp::Check { path: "/d".into(), version: 4 },
        ]),
        &format!(
            "0000000e
             00000001 00 ffffffff {body} 00000000
             0000000f 00 ffffffff {body} 00000003
             00000013 00 ffffffff {body} 00000004
             00000015 00 ffffffff {body} 00000005 00000000000003e8
             00000002 00 ffffffff 00000002 '/b' 00000003
             00000005 00 ffffffff 00000002 '/c' ffffffff ffffffff
             0000000d 00 ffffffff 00000002 '/d' 00000004
             {END}"
        ),
    );
    golden(&Request::Multi(Vec::new()), &format!("0000000e {END}"));
}

#[test]
fn a_successful_multi_has_a_result_for_each_item() {
    golden_reply(
        ReplyKind::Multi,
        &Response::Multi(vec![
            MultiResult::Created { path: "/a".into() },
            MultiResult::Created2 { path: "/c".into(), stat: stat() },
            MultiResult::Deleted,
            MultiResult::DataSet { stat: stat() },
            MultiResult::Checked,
        ]),
        &format!(
            "00000001 00 00000000 00000002 '/a'
             0000000f 00 00000000 00000002 '/c' {STAT}
             00000002 00 00000000
             00000005 00 00000000 {STAT}
             0000000d 00 00000000
             {END}"
        ),
    );
    golden_reply(ReplyKind::Multi, &Response::Multi(Vec::new()), END);
}

#[test]
fn a_failed_multi_has_the_error_in_its_item_and_none_in_its_header() {
    golden_reply(
        ReplyKind::Multi,
        &Response::Multi(MultiResult::failed(4, 1, ErrorCode::NoNode)),
        &format!(
            "ffffffff 00 00000000 00000000
             ffffffff 00 ffffff9b ffffff9b
             ffffffff 00 fffffffe fffffffe
             ffffffff 00 fffffffe fffffffe
             {END}"
        ),
    );
    assert_eq!(
        MultiResult::failed(1, 0, ErrorCode::BadVersion),
        [MultiResult::Failed(ErrorCode::BadVersion)]
    );
    assert_eq!(MultiResult::failed(0, 0, ErrorCode::BadVersion), []);
}

#[test]
fn a_create_in_a_multi_returns_a_stat_only_for_container_and_ttl_nodes() {
    for mode in [CreateMode::Container, CreateMode::Ttl(1), CreateMode::TtlSequential(1)] {
        let told = MultiResult::created(mode, "/a".into(), stat());
        assert_eq!(told, MultiResult::Created2 { path: "/a".into(), stat: stat() });
    }
    for mode in [CreateMode::Persistent, CreateMode::Ephemeral, CreateMode::EphemeralSequential] {
        let told = MultiResult::created(mode, "/a".into(), stat());
        assert_eq!(told, MultiResult::Created { path: "/a".into() });
    }
}

#[test]
fn multi_reads_match_their_golden_bytes() {
    let (path, watch) = (|| "/a".to_owned(), false);
    golden(
        &Request::MultiRead(vec![
            ReadOp::GetData { path: path(), watch },
            ReadOp::GetChildren { path: path(), watch },
        ]),
        &format!(
            "00000016
             00000004 00 ffffffff 00000002 '/a' 00
             00000008 00 ffffffff 00000002 '/a' 00
             {END}"
        ),
    );
    golden_reply(
        ReplyKind::MultiRead,
        &Response::MultiRead(vec![
            ReadResult::Data { data: Some(Bytes::from_static(b"xyz")), stat: stat() },
            ReadResult::Failed(ErrorCode::NoAuth),
            ReadResult::Children(vec!["b".into(), "c".into()]),
            ReadResult::Data { data: None, stat: Stat::default() },
        ]),
        &format!(
            "00000004 00 00000000 00000003 'xyz' {STAT}
             ffffffff 00 ffffff9a ffffff9a
             00000008 00 00000000 00000002 00000001 'b' 00000001 'c'
             00000004 00 00000000 ffffffff {zeros}
             {END}",
            zeros = "00".repeat(68)
        ),
    );
}

#[test]
fn a_multi_accepts_only_writes_and_a_multi_read_accepts_only_reads() {
    let item = |op: &str, item: &str| {
        let frame = format!("00000001 {op} {item} 00 ffffffff 00000002 '/a' 00000000 {END}");
        decode_request(bytes(&frame)).unwrap().1
    };
    let refused = |field, op| Err(DecodeError::Operation { field, op });
    assert_eq!(item("0000000e", "00000004"), refused("multi", 4));
    assert_eq!(item("0000000e", "0000000e"), refused("multi", 14), "multis do not nest");
    assert_eq!(item("0000000e", "0000004d"), refused("multi", 77));
    assert_eq!(item("00000016", "00000003"), refused("multiRead", 3));
    assert_eq!(item("00000016", "00000016"), refused("multiRead", 22));
}

#[test]
fn a_multi_without_an_end_marker_is_rejected() {
    let frame = bytes("00000001 0000000e 0000000d 00 ffffffff 00000002 '/d' 00000004");
    assert_eq!(
        decode_request(frame).unwrap().1,
        Err(DecodeError::Short { field: "type", have: 0, need: 4 })
    );
}
