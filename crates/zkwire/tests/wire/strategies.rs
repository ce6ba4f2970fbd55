//! Random values of every kind that survive a round trip.
//!
//! Only operations with a field for a time-to-live have one. An `Unknown` variant never has the number of a known one.

use bytes::Bytes;
use holdfast_zkwire::{
    Acl, AddWatchMode, AuthId, ConnectRequest, ConnectResponse, Create, CreateMode, CreateOp,
    ErrorCode, MultiOp, MultiResult, ReadOp, ReadResult, Reconfig, ReplyKind, Request, Response,
    SessionState, SetWatches, Stat, WatchEventType, WatchedEvent, WatcherType,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["/[a-z/]{0,12}", "\\PC{0,8}", Just(String::new())]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4)
}

fn data() -> impl Strategy<Value = Option<Bytes>> {
    option::of(vec(any::<u8>(), 0..24).prop_map(Bytes::from))
}

fn acls() -> impl Strategy<Value = Vec<Acl>> {
    let acl = (any::<i32>(), text(), text());
    vec(acl.prop_map(|(perms, scheme, id)| Acl { perms, scheme, id }), 0..3)
}

fn error() -> impl Strategy<Value = ErrorCode> {
    proptest::sample::select(ErrorCode::ALL)
}

fn stat() -> impl Strategy<Value = Stat> {
    let longs = any::<[i64; 6]>();
    let ints = any::<[i32; 5]>();
    (longs, ints).prop_map(|(longs, ints)| Stat {
        czxid: longs[0],
        mzxid: longs[1],
        ctime: longs[2],
        mtime: longs[3],
        version: ints[0],
        cversion: ints[1],
        aversion: ints[2],
        ephemeral_owner: longs[4],
        data_length: ints[3],
        num_children: ints[4],
        pzxid: longs[5],
    })
}

fn create() -> impl Strategy<Value = Create> {
    let op = proptest::sample::select(&[1, 15, 19, 21][..]);
    (op, text(), data(), acls(), 0..9_i32, any::<i64>()).prop_map(
        |(op, path, data, acl, flags, ttl_ms)| {
            let op = CreateOp::from_op(op).unwrap();
            let ttl_ms = if op == CreateOp::Ttl { ttl_ms } else { -1 };
            Create { op, path, data, acl, mode: CreateMode::from_flags(flags, ttl_ms) }
        },
    )
}

fn multi_op() -> impl Strategy<Value = MultiOp> {
    prop_oneof![
        create().prop_map(MultiOp::Create),
        (text(), any::<i32>()).prop_map(|(path, version)| MultiOp::Delete { path, version }),
        (text(), any::<i32>()).prop_map(|(path, version)| MultiOp::Check { path, version }),
        (text(), data(), any::<i32>()).prop_map(|(path, data, version)| MultiOp::SetData {
            path,
            data,
            version
        }),
    ]
}

fn read_op() -> impl Strategy<Value = ReadOp> {
    (text(), any::<bool>(), any::<bool>()).prop_map(|(path, watch, data)| {
        if data { ReadOp::GetData { path, watch } } else { ReadOp::GetChildren { path, watch } }
    })
}

fn set_watches() -> impl Strategy<Value = SetWatches> {
    (any::<i64>(), texts(), texts(), texts(), texts(), texts()).prop_map(
        |(relative_zxid, data, exist, child, persistent, recursive)| SetWatches {
            relative_zxid,
            data,
            exist,
            child,
            persistent,
            recursive,
        },
    )
}

fn of_a_path() -> impl Strategy<Value = Request> {
    (text(), any::<bool>(), any::<i32>(), 0..11_u8, 0..5_i32).prop_map(
        |(path, watch, version, which, code)| match which {
            0 => Request::Delete { path, version },
            1 => Request::Exists { path, watch },
            2 => Request::GetData { path, watch },
            3 => Request::GetAcl { path },
            4 => Request::GetChildren { path, watch },
            5 => Request::GetChildren2 { path, watch },
            6 => Request::Sync { path },
            7 => Request::Check { path, version },
            8 => Request::CheckWatches { path, kind: WatcherType::from_code(code) },
            9 => Request::RemoveWatches { path, kind: WatcherType::from_code(code) },
            _ => Request::AddWatch { path, mode: AddWatchMode::from_code(code) },
        },
    )
}

/// Any request.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        create().prop_map(Request::Create),
        of_a_path(),
        (text(), data(), any::<i32>()).prop_map(|(path, data, version)| Request::SetData {
            path,
            data,
            version
        }),
        (text(), acls(), any::<i32>()).prop_map(|(path, acl, version)| Request::SetAcl {
            path,
            acl,
            version
        }),
        vec(multi_op(), 0..5).prop_map(Request::Multi),
        vec(read_op(), 0..5).prop_map(Request::MultiRead),
        (option::of(text()), option::of(text()), option::of(text()), any::<i64>()).prop_map(
            |(joining, leaving, members, config_id)| {
                Request::Reconfig(Reconfig { joining, leaving, members, config_id })
            }
        ),
        (any::<i32>(), text(), data()).prop_map(|(kind, scheme, auth)| Request::Auth {
            kind,
            scheme,
            auth
        }),
        set_watches().prop_map(Request::SetWatches),
        data().prop_map(|token| Request::Sasl { token }),
        text().prop_map(|prefix| Request::GetEphemerals { prefix }),
        text().prop_map(|path| Request::GetAllChildrenNumber { path }),
        proptest::sample::select(vec![
            Request::Ping,
            Request::DeleteContainer,
            Request::WhoAmI,
            Request::CloseSession,
            Request::Unknown(0),
            Request::Unknown(10),
            Request::Unknown(i32::MIN),
        ]),
    ]
}

fn multi_result() -> impl Strategy<Value = MultiResult> {
    prop_oneof![
        text().prop_map(|path| MultiResult::Created { path }),
        (text(), stat()).prop_map(|(path, stat)| MultiResult::Created2 { path, stat }),
        stat().prop_map(|stat| MultiResult::DataSet { stat }),
        error().prop_map(MultiResult::Failed),
        Just(MultiResult::Deleted),
        Just(MultiResult::Checked),
        Just(MultiResult::RolledBack),
    ]
}

fn read_result() -> impl Strategy<Value = ReadResult> {
    prop_oneof![
        (data(), stat()).prop_map(|(data, stat)| ReadResult::Data { data, stat }),
        texts().prop_map(ReadResult::Children),
        error().prop_map(ReadResult::Failed),
    ]
}

/// Any reply, with its kind.
pub(crate) fn response() -> impl Strategy<Value = (ReplyKind, Response)> {
    let id = (text(), text()).prop_map(|(scheme, id)| AuthId { scheme, id });
    prop_oneof![
        text().prop_map(|path| (ReplyKind::Created, Response::Created { path })),
        (text(), stat())
            .prop_map(|(path, stat)| (ReplyKind::Created2, Response::Created2 { path, stat })),
        stat().prop_map(|stat| (ReplyKind::Stat, Response::Stat(stat))),
        (data(), stat()).prop_map(|(data, stat)| (ReplyKind::Data, Response::Data { data, stat })),
        (acls(), stat()).prop_map(|(acl, stat)| (ReplyKind::Acl, Response::Acl { acl, stat })),
        texts().prop_map(|names| (ReplyKind::Children, Response::Children(names))),
        (texts(), stat()).prop_map(|(children, stat)| {
            (ReplyKind::Children2, Response::Children2 { children, stat })
        }),
        text().prop_map(|path| (ReplyKind::Sync, Response::Sync { path })),
        vec(multi_result(), 0..5).prop_map(|all| (ReplyKind::Multi, Response::Multi(all))),
        vec(read_result(), 0..5).prop_map(|all| (ReplyKind::MultiRead, Response::MultiRead(all))),
        texts().prop_map(|paths| (ReplyKind::Ephemerals, Response::Ephemerals(paths))),
        any::<i32>().prop_map(|count| (ReplyKind::ChildrenCount, Response::ChildrenCount(count))),
        vec(id, 0..4).prop_map(|ids| (ReplyKind::WhoAmI, Response::WhoAmI(ids))),
        data().prop_map(|token| (ReplyKind::Sasl, Response::Sasl { token })),
        Just((ReplyKind::AddWatch, Response::AddWatch)),
        Just((ReplyKind::Empty, Response::Empty)),
    ]
}

/// Any event.
pub(crate) fn event() -> impl Strategy<Value = WatchedEvent> {
    (-2..10_i32, 0..8_i32, text()).prop_map(|(kind, state, path)| WatchedEvent {
        kind: WatchEventType::from_code(kind),
        state: SessionState::from_code(state),
        path,
    })
}

/// Any connect request.
pub(crate) fn connect_request() -> impl Strategy<Value = ConnectRequest> {
    let numbers = any::<(i32, i64, i32, i64)>();
    (numbers, any::<Option<[u8; 16]>>(), any::<Option<bool>>()).prop_map(
        |((protocol_version, last_zxid_seen, timeout_ms, session_id), password, read_only)| {
            ConnectRequest {
                protocol_version,
                last_zxid_seen,
                timeout_ms,
                session_id,
                password,
                read_only,
            }
        },
    )
}

/// Any connect response.
pub(crate) fn connect_response() -> impl Strategy<Value = ConnectResponse> {
    (any::<(i32, i32, i64)>(), any::<[u8; 16]>(), any::<Option<bool>>()).prop_map(
        |((protocol_version, timeout_ms, session_id), password, read_only)| ConnectResponse {
            protocol_version,
            timeout_ms,
            session_id,
            password,
            read_only,
        },
    )
}
