//! Golden bytes of every request except multis.

use bytes::Bytes;
use holdfast_zkwire::{
    Acl, AddWatchMode, Create, CreateMode, CreateOp, DecodeError, Reconfig, Request, RequestHeader,
    SetWatches, WatcherType, decode_request, encode_request, op, perms, xid,
};

use crate::bytes::{bytes, framed};

/// Checks that the request encodes to these bytes, and that the bytes decode to the request and its xid.
fn golden(xid: i32, request: &Request, notation: &str) {
    assert_eq!(encode_request(xid, request), Ok(framed(notation)), "{request:?}");
    let header = RequestHeader { xid, op: request.op() };
    assert_eq!(decode_request(bytes(notation)), Ok((header, Ok(request.clone()))));
}

fn path() -> String {
    "/a".to_owned()
}

fn data(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn create(op: CreateOp, mode: CreateMode) -> Request {
    Request::Create(Create {
        op,
        path: path(),
        data: Some(data("xyz")),
        acl: vec![Acl::open()],
        mode,
    })
}

const OPEN: &str = "00000001 0000001f 00000005 'world' 00000006 'anyone'";

#[test]
fn create_requests_match_their_golden_bytes() {
    let body = format!("00000002 '/a' 00000003 'xyz' {OPEN}");
    let head = |op: &str| format!("00000005 {op} {body}");
    golden(
        5,
        &create(CreateOp::Create, CreateMode::Persistent),
        &format!("{} 00000000", head("00000001")),
    );
    golden(
        5,
        &create(CreateOp::Create, CreateMode::Ephemeral),
        &format!("{} 00000001", head("00000001")),
    );
    golden(
        5,
        &create(CreateOp::Create2, CreateMode::PersistentSequential),
        &format!("{} 00000002", head("0000000f")),
    );
    golden(
        5,
        &create(CreateOp::Create2, CreateMode::EphemeralSequential),
        &format!("{} 00000003", head("0000000f")),
    );
    golden(
        5,
        &create(CreateOp::Container, CreateMode::Container),
        &format!("{} 00000004", head("00000013")),
    );
    golden(
        5,
        &create(CreateOp::Ttl, CreateMode::Ttl(60_000)),
        &format!("{} 00000005 000000000000ea60", head("00000015")),
    );
    golden(
        5,
        &create(CreateOp::Ttl, CreateMode::TtlSequential(1)),
        &format!("{} 00000006 0000000000000001", head("00000015")),
    );
    golden(
        5,
        &create(CreateOp::Create, CreateMode::Unknown(77)),
        &format!("{} 0000004d", head("00000001")),
    );
}

#[test]
fn a_create_accepts_null_data_and_an_empty_access_list() {
    let bare = |acl| Create {
        op: CreateOp::Create,
        path: path(),
        data: None,
        acl,
        mode: CreateMode::Persistent,
    };
    golden(
        1,
        &Request::Create(bare(Vec::new())),
        "00000001 00000001 00000002 '/a' ffffffff 00000000 00000000",
    );
    for count in ["ffffffff", "fffffff0"] {
        let frame = format!("00000001 00000001 00000002 '/a' ffffffff {count} 00000000");
        let (_, request) = decode_request(bytes(&frame)).unwrap();
        assert_eq!(
            request,
            Ok(Request::Create(bare(Vec::new()))),
            "a count of {count} is an empty list"
        );
    }
}

#[test]
fn only_the_operation_create_ttl_carries_a_time_to_live() {
    let frame = format!("00000001 00000001 00000002 '/a' 00000003 'xyz' {OPEN} 00000005");
    let (_, request) = decode_request(bytes(&frame)).unwrap();
    assert_eq!(request, Ok(create(CreateOp::Create, CreateMode::Ttl(-1))));

    let frame =
        format!("00000001 00000015 00000002 '/a' 00000003 'xyz' {OPEN} 00000000 0000000000000000");
    golden(1, &create(CreateOp::Ttl, CreateMode::Persistent), &frame);
}

#[test]
fn requests_on_one_node_match_their_golden_bytes() {
    golden(
        1,
        &Request::Delete { path: path(), version: -1 },
        "00000001 00000002 00000002 '/a' ffffffff",
    );
    golden(2, &Request::Exists { path: path(), watch: true }, "00000002 00000003 00000002 '/a' 01");
    golden(
        3,
        &Request::GetData { path: path(), watch: false },
        "00000003 00000004 00000002 '/a' 00",
    );
    golden(
        4,
        &Request::SetData { path: path(), data: Some(data("xyz")), version: 7 },
        "00000004 00000005 00000002 '/a' 00000003 'xyz' 00000007",
    );
    golden(
        4,
        &Request::SetData { path: path(), data: None, version: 7 },
        "00000004 00000005 00000002 '/a' ffffffff 00000007",
    );
    golden(5, &Request::GetAcl { path: path() }, "00000005 00000006 00000002 '/a'");
    let acl = Acl { perms: perms::READ | perms::ADMIN, scheme: "ip".into(), id: "10.0.0.1".into() };
    golden(
        6,
        &Request::SetAcl { path: path(), acl: vec![Acl::open(), acl], version: 2 },
        "00000006 00000007 00000002 '/a'
         00000002 0000001f 00000005 'world' 00000006 'anyone' 00000011 00000002 'ip' 00000008 '10.0.0.1'
         00000002",
    );
    golden(
        7,
        &Request::GetChildren { path: path(), watch: true },
        "00000007 00000008 00000002 '/a' 01",
    );
    golden(
        8,
        &Request::GetChildren2 { path: path(), watch: false },
        "00000008 0000000c 00000002 '/a' 00",
    );
    golden(9, &Request::Sync { path: path() }, "00000009 00000009 00000002 '/a'");
    golden(
        10,
        &Request::Check { path: path(), version: 3 },
        "0000000a 0000000d 00000002 '/a' 00000003",
    );
    golden(11, &Request::GetEphemerals { prefix: path() }, "0000000b 00000067 00000002 '/a'");
    golden(12, &Request::GetAllChildrenNumber { path: path() }, "0000000c 00000068 00000002 '/a'");
}

#[test]
fn session_identity_and_reconfig_requests_match_their_golden_bytes() {
    golden(xid::PING, &Request::Ping, "fffffffe 0000000b");
    golden(
        xid::AUTH,
        &Request::Auth { kind: 0, scheme: "digest".into(), auth: Some(data("u:p")) },
        "fffffffc 00000064 00000000 00000006 'digest' 00000003 'u:p'",
    );
    golden(1, &Request::Sasl { token: Some(data("t")) }, "00000001 00000066 00000001 't'");
    golden(1, &Request::WhoAmI, "00000001 0000006b");
    golden(1, &Request::CloseSession, "00000001 fffffff5");
    golden(1, &Request::DeleteContainer, "00000001 00000014");
    golden(
        1,
        &Request::Reconfig(Reconfig {
            joining: Some("server.4=h:1:2;3".into()),
            leaving: Some("1".into()),
            members: None,
            config_id: -1,
        }),
        "00000001 00000010 00000010 'server.4=h:1:2;3' 00000001 '1' ffffffff ffffffffffffffff",
    );
}

#[test]
fn watch_requests_match_their_golden_bytes() {
    let add = |mode| Request::AddWatch { path: path(), mode };
    golden(1, &add(AddWatchMode::Persistent), "00000001 0000006a 00000002 '/a' 00000000");
    golden(1, &add(AddWatchMode::PersistentRecursive), "00000001 0000006a 00000002 '/a' 00000001");
    golden(1, &add(AddWatchMode::Unknown(2)), "00000001 0000006a 00000002 '/a' 00000002");
    let check = |kind| Request::CheckWatches { path: path(), kind };
    golden(1, &check(WatcherType::Children), "00000001 00000011 00000002 '/a' 00000001");
    golden(1, &check(WatcherType::Data), "00000001 00000011 00000002 '/a' 00000002");
    let remove = |kind| Request::RemoveWatches { path: path(), kind };
    golden(1, &remove(WatcherType::Any), "00000001 00000012 00000002 '/a' 00000003");
    golden(1, &remove(WatcherType::Unknown(0)), "00000001 00000012 00000002 '/a' 00000000");
}

#[test]
fn set_watches_uses_the_newer_operation_only_for_persistent_watches() {
    let one_shot = SetWatches {
        relative_zxid: 0x55,
        data: vec!["/a".into(), "/b".into()],
        exist: Vec::new(),
        child: vec!["/".into()],
        ..SetWatches::default()
    };
    let lists =
        "0000000000000055 00000002 00000002 '/a' 00000002 '/b' 00000000 00000001 00000001 '/'";
    golden(
        xid::SET_WATCHES,
        &Request::SetWatches(one_shot.clone()),
        &format!("fffffff8 00000065 {lists}"),
    );
    let all = SetWatches {
        persistent: vec!["/p".into()],
        recursive: vec!["/r".into()],
        ..one_shot.clone()
    };
    golden(
        xid::SET_WATCHES,
        &Request::SetWatches(all),
        &format!("fffffff8 00000069 {lists} 00000001 00000002 '/p' 00000001 00000002 '/r'"),
    );
    let empty = bytes(&format!("fffffff8 00000069 {lists} 00000000 00000000"));
    let (header, request) = decode_request(empty).unwrap();
    assert_eq!(header.op, op::SET_WATCHES2);
    assert_eq!(request, Ok(Request::SetWatches(one_shot)));
}

#[test]
fn an_unknown_operation_decodes_to_its_number() {
    golden(1, &Request::Unknown(10), "00000001 0000000a");
    golden(1, &Request::Unknown(-10), "00000001 fffffff6");
    let (_, request) = decode_request(bytes("00000001 000003e7 'anything'")).unwrap();
    assert_eq!(request, Ok(Request::Unknown(999)));
}

#[test]
fn an_invalid_body_keeps_its_header_and_an_invalid_header_is_an_error() {
    let (header, body) = decode_request(bytes("00000005 00000003 00000009 '/a' 01")).unwrap();
    assert_eq!(header, RequestHeader { xid: 5, op: op::EXISTS });
    assert_eq!(body, Err(DecodeError::Short { field: "path", have: 3, need: 9 }));
    assert_eq!(
        decode_request(bytes("00000005 0000")),
        Err(DecodeError::Short { field: "op", have: 2, need: 4 })
    );
}

#[test]
fn bytes_after_the_last_field_are_ignored() {
    let (_, request) = decode_request(bytes("00000001 00000003 00000002 '/a' 01 'more'")).unwrap();
    assert_eq!(request, Ok(Request::Exists { path: path(), watch: true }));
}

/// The decoder rejects a null where ZooKeeper 3.8.0 replies −5. Elsewhere both decode a null as empty.
#[test]
fn a_null_is_rejected_where_zookeeper_rejects_it() {
    for refused in [
        "00000001 00000002 ffffffff 00000000",
        "00000001 00000003 ffffffff 00",
        "00000001 00000004 ffffffff 00",
        "00000001 00000006 ffffffff",
        "00000001 00000008 ffffffff 00",
        "00000001 0000000c ffffffff 00",
        "00000001 00000012 ffffffff 00000003",
        "00000001 00000065 0000000000000000 ffffffff 00000000 00000000",
        "00000001 00000065 0000000000000000 00000001 ffffffff 00000000 00000000",
        "00000001 00000068 ffffffff",
    ] {
        let (_, request) = decode_request(bytes(refused)).unwrap();
        assert!(matches!(request, Err(DecodeError::Null { .. })), "{refused}: {request:?}");
    }
    for (taken, request) in [
        ("00000001 00000009 ffffffff", Request::Sync { path: String::new() }),
        ("00000001 00000067 ffffffff", Request::GetEphemerals { prefix: String::new() }),
        (
            "00000001 00000005 ffffffff ffffffff 00000000",
            Request::SetData { path: String::new(), data: None, version: 0 },
        ),
        (
            "fffffffc 00000064 00000000 ffffffff ffffffff",
            Request::Auth { kind: 0, scheme: String::new(), auth: None },
        ),
    ] {
        assert_eq!(decode_request(bytes(taken)).unwrap().1, Ok(request));
    }
}

#[test]
fn decoded_data_shares_the_memory_of_its_frame() {
    let frame = bytes("00000004 00000005 00000002 '/a' 00000003 'xyz' 00000007");
    let Ok(Request::SetData { data, .. }) = decode_request(frame.clone()).unwrap().1 else {
        panic!("the frame does not decode to a SetData request");
    };
    assert_eq!(data.unwrap().as_ptr(), frame[18..].as_ptr());
}
