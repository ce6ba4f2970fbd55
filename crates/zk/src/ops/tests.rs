//! Requests as a client sends them with the call of the service for each, and results of the service with the replies.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use holdfast_types::{
    Address, Data, MemberAddresses, NodeId, OpReply, SessionName, SessionRejection, Stat,
};
use holdfast_zkwire::{AddWatchMode, ReadOp, ReadResult, SetWatches, WatcherType};

use super::*;
use crate::context::members_text;

fn translated(request: Request) -> ZkOperation {
    let identities = Identities::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
    translate(request, &identities)
}

fn refused(request: Request) -> Option<i32> {
    let ReplyFormat::Fixed(Err(code)) = translated(request).format else { return None };
    Some(code.code())
}

fn at(path: &str) -> String {
    path.to_owned()
}

#[test]
fn a_path_that_no_node_can_have_cannot_be_read() {
    for bad in ["a", "/a/", "//", "/a\0"] {
        assert_eq!(refused(Request::GetData { path: at(bad), watch: true }), Some(-101));
        assert_eq!(refused(Request::GetChildren { path: at(bad), watch: true }), Some(-101));
        assert_eq!(refused(Request::GetChildren2 { path: at(bad), watch: true }), Some(-101));
        assert_eq!(refused(Request::GetAcl { path: at(bad) }), Some(-101));
        assert_eq!(refused(Request::GetAllChildrenNumber { path: at(bad) }), Some(-101));
    }
    assert_eq!(refused(Request::Exists { path: at("/a/"), watch: true }), Some(-101));
    assert_eq!(refused(Request::Exists { path: at("/a\0"), watch: true }), Some(-8));
}

#[test]
fn unsupported_operations_are_refused_with_their_errors() {
    let unknown = translated(Request::Unknown(99)).format;
    assert_eq!(unknown, ReplyFormat::Disconnect(ErrorCode::Unimplemented));
    assert_eq!(refused(Request::DeleteContainer), Some(-6));
    assert_eq!(refused(Request::Sasl { token: None }), Some(-6));
    let reconfig = Request::Reconfig(holdfast_zkwire::Reconfig::default());
    assert_eq!(refused(reconfig), Some(-123));
    let mode = AddWatchMode::Unknown(2);
    assert_eq!(refused(Request::AddWatch { path: at("/a"), mode }), Some(-5));
    let kind = WatcherType::Unknown(0);
    assert_eq!(refused(Request::CheckWatches { path: at("/a"), kind }), Some(-5));
    assert_eq!(refused(Request::RemoveWatches { path: at("/a"), kind }), Some(-5));
}

#[test]
fn a_multi_read_skips_a_path_that_no_node_can_have_and_keeps_its_position() {
    let read = |path| ReadOp::GetData { path: at(path), watch: false };
    let operation = translated(Request::MultiRead(vec![read("/a"), read("x"), read("/b")]));
    let StreamCall::ReadMany(reads) = operation.call else { panic!("{:?}", operation.call) };
    assert_eq!(reads.len(), 2);
    let items = vec![MultiReadItem::Data, MultiReadItem::NoNode, MultiReadItem::Data];
    assert_eq!(operation.format, ReplyFormat::MultiRead(items));
}

#[test]
fn a_watch_at_a_path_that_no_node_can_have_is_accepted_and_never_exists() {
    let added = translated(Request::AddWatch { path: at("x"), mode: AddWatchMode::Persistent });
    assert_eq!(added, ZkOperation::fixed(Ok(Response::AddWatch)));
    let kind = WatcherType::Any;
    assert_eq!(refused(Request::CheckWatches { path: at("x"), kind }), Some(-121));
    let watches = SetWatches { data: vec![at("/a"), at("x")], ..SetWatches::default() };
    let set = translated(Request::SetWatches(watches));
    let StreamCall::SetWatches(revision, set) = set.call else { panic!("{:?}", set.call) };
    assert_eq!((revision, set.data.len()), (Revision(0), 1));
}

/// Every kind of read of the node shows the members.
#[test]
fn the_members_are_the_data_of_their_node() {
    let member = |n: u64| {
        let address = |port: u16| Address::parse(&format!("h{n}:{port}")).unwrap();
        MemberAddresses { http: address(7400), peer: address(7401), zookeeper: address(7402) }
    };
    let members: BTreeMap<_, _> = [1, 2].map(|n| (NodeId(n), member(n))).into();
    let text = members_text(&members).unwrap();
    let length = i32::try_from(text.len()).unwrap();
    let of_members = |answer: StreamAnswer| StreamAnswer::OfMembers {
        answer: Box::new(answer),
        members: members.clone(),
    };
    let data = of_members(StreamAnswer::Data { data: Data::default(), stat: Stat::default() });
    let many = ReplyFormat::MultiRead(vec![MultiReadItem::Data]);
    let Ok(Response::MultiRead(read)) = reply(many, Ok(StreamAnswer::Many(vec![Ok(data.clone())])))
    else {
        panic!("no result")
    };
    assert!(matches!(&read[..], [ReadResult::Data { stat, .. }] if stat.data_length == length));
    let Ok(Response::Data { data, stat }) = reply(ReplyFormat::Read(ReadFormat::Data), Ok(data))
    else {
        panic!("no data")
    };
    assert_eq!((data.as_deref(), stat.data_length), (Some(text.as_bytes()), length));
    let exists = of_members(StreamAnswer::Exists(Stat::default()));
    let exists = reply(ReplyFormat::Read(ReadFormat::Exists), Ok(exists));
    assert!(matches!(exists, Ok(Response::Stat(stat)) if stat.data_length == length));
}

fn path() -> ZnodePath {
    ZnodePath::new("/a").unwrap()
}

fn created() -> OpReply {
    OpReply::Created { path: path(), stat: Stat::default() }
}

fn multi(results: Vec<OpReply>) -> StreamAnswer {
    StreamAnswer::Multi { succeeded: true, results }
}

fn refused_at(at: u32, why: Rejection) -> Failure {
    Failure::Rejected(Rejection::Tree(TreeRejection::OfOperation { at, why: Box::new(why) }))
}

#[test]
fn the_reply_to_one_write_has_the_format_of_its_request() {
    let one = |item, result| reply(ReplyFormat::Write(item), Ok(multi(vec![result])));
    assert_eq!(
        one(WriteFormat::Created, created()),
        Ok(Response::Created { path: "/a".to_owned() })
    );
    assert!(matches!(one(WriteFormat::Created2, created()), Ok(Response::Created2 { .. })));
    assert_eq!(one(WriteFormat::Deleted, OpReply::Deleted { count: 1 }), Ok(Response::Empty));
    assert_eq!(one(WriteFormat::Checked, OpReply::Checked), Ok(Response::Empty));
    for result in
        [OpReply::DataSet { stat: Stat::default() }, OpReply::AclSet { stat: Stat::default() }]
    {
        assert!(matches!(one(WriteFormat::Stat, result), Ok(Response::Stat(_))));
    }
}

#[test]
fn a_failed_multi_is_no_error_but_has_the_result_of_every_operation() {
    let items = vec![WriteFormat::Created, WriteFormat::Deleted, WriteFormat::Checked];
    let reply = reply(
        ReplyFormat::Multi(items),
        Err(refused_at(1, Rejection::Tree(TreeRejection::NotEmpty { path: path() }))),
    );
    assert_eq!(
        reply,
        Ok(Response::Multi(vec![
            MultiResult::RolledBack,
            MultiResult::Failed(ErrorCode::NotEmpty),
            MultiResult::Failed(ErrorCode::RuntimeInconsistency),
        ]))
    );
}

#[test]
fn an_undecodable_operation_fails_the_whole_multi_unless_an_operation_before_it_fails() {
    let format = || {
        let undecodable = WriteFormat::Refused(ErrorCode::MarshallingError);
        ReplyFormat::Multi(vec![WriteFormat::Deleted, undecodable])
    };
    let stand_in = || Rejection::Tree(TreeRejection::BadVersion { path: path(), actual: 0 });
    let failed = reply(format(), Err(refused_at(1, stand_in())));
    assert_eq!(failed, Err(ErrorReply::Reply(ErrorCode::MarshallingError)));
    let before = reply(format(), Err(refused_at(0, stand_in())));
    assert!(matches!(before, Ok(Response::Multi(_))), "{before:?}");
}

#[test]
fn a_multi_of_a_session_that_moved_closes_the_connection() {
    let session = SessionName::new("s").unwrap();
    let moved = Err(Failure::Rejected(Rejection::Session(SessionRejection::Moved { session })));
    let reply = reply(ReplyFormat::Multi(vec![WriteFormat::Checked]), moved);
    assert_eq!(reply, Err(ErrorReply::Disconnect));
}

#[test]
fn a_placeholder_fails_with_its_own_error_unless_the_node_that_decides_is_missing() {
    let format = || ReplyFormat::Write(WriteFormat::Refused(ErrorCode::BadArguments));
    let stand_in = Rejection::Tree(TreeRejection::BadVersion { path: path(), actual: 0 });
    assert_eq!(
        reply(format(), Err(refused_at(0, stand_in))),
        Err(ErrorReply::Reply(ErrorCode::BadArguments))
    );
    let missing = Rejection::Tree(TreeRejection::NoZnode { path: path() });
    assert_eq!(
        reply(format(), Err(refused_at(0, missing))),
        Err(ErrorReply::Reply(ErrorCode::NoNode))
    );
}

#[test]
fn the_reads_of_a_multi_read_fail_independently() {
    let items = vec![MultiReadItem::NoNode, MultiReadItem::Data, MultiReadItem::Children];
    let data = StreamAnswer::Data { data: Data::from(&b"x"[..]), stat: Stat::default() };
    let missing = Rejection::Tree(TreeRejection::NoZnode { path: path() });
    let answer = Ok(StreamAnswer::Many(vec![Ok(data), Err(missing)]));
    let reply = reply(ReplyFormat::MultiRead(items), answer);
    let Ok(Response::MultiRead(results)) = reply else { panic!("{reply:?}") };
    assert_eq!(results[0], ReadResult::Failed(ErrorCode::NoNode));
    assert!(matches!(&results[1], ReadResult::Data { data: Some(data), .. } if data == "x"));
    assert_eq!(results[2], ReadResult::Failed(ErrorCode::NoNode));
}

#[test]
fn a_result_of_another_kind_is_a_system_error_and_not_a_panic() {
    let reply = reply(ReplyFormat::Read(ReadFormat::Data), Ok(StreamAnswer::Done));
    assert_eq!(reply, Err(ErrorReply::Reply(ErrorCode::SystemError)));
}
