//! Results of the service, and the replies to the client.

use holdfast_types::{
    Data, OpReply, SessionName, SessionRejection, Stat, TreeRejection, ZnodePath,
};
use holdfast_zkwire::ReadResult;

use super::super::operation::{MultiReadItem, ReadFormat};
use super::*;

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
        Reply::Done(Response::Created { path: "/a".to_owned() })
    );
    assert!(matches!(
        one(WriteFormat::Created2, created()),
        Reply::Done(Response::Created2 { .. })
    ));
    assert_eq!(
        one(WriteFormat::Deleted, OpReply::Deleted { count: 1 }),
        Reply::Done(Response::Empty)
    );
    assert_eq!(one(WriteFormat::Checked, OpReply::Checked), Reply::Done(Response::Empty));
    for result in
        [OpReply::DataSet { stat: Stat::default() }, OpReply::AclSet { stat: Stat::default() }]
    {
        assert!(matches!(one(WriteFormat::Stat, result), Reply::Done(Response::Stat(_))));
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
        Reply::Done(Response::Multi(vec![
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
    assert_eq!(failed, Reply::Failed(ErrorCode::MarshallingError));
    let before = reply(format(), Err(refused_at(0, stand_in())));
    assert!(matches!(before, Reply::Done(Response::Multi(_))), "{before:?}");
}

#[test]
fn a_multi_of_a_session_that_moved_is_an_error() {
    let session = SessionName::new("s").unwrap();
    let moved = Err(Failure::Rejected(Rejection::Session(SessionRejection::Moved { session })));
    let reply = reply(ReplyFormat::Multi(vec![WriteFormat::Checked]), moved);
    assert_eq!(reply, Reply::FailedAndDisconnect(ErrorCode::SessionMoved));
}

#[test]
fn a_placeholder_fails_with_its_own_error_unless_the_node_that_decides_is_missing() {
    let format = || ReplyFormat::Write(WriteFormat::Refused(ErrorCode::BadArguments));
    let stand_in = Rejection::Tree(TreeRejection::BadVersion { path: path(), actual: 0 });
    assert_eq!(
        reply(format(), Err(refused_at(0, stand_in))),
        Reply::Failed(ErrorCode::BadArguments)
    );
    let missing = Rejection::Tree(TreeRejection::NoZnode { path: path() });
    assert_eq!(reply(format(), Err(refused_at(0, missing))), Reply::Failed(ErrorCode::NoNode));
}

#[test]
fn the_reads_of_a_multi_read_fail_independently() {
    let items = vec![MultiReadItem::NoNode, MultiReadItem::Data, MultiReadItem::Children];
    let data = StreamAnswer::Data { data: Data::from(&b"x"[..]), stat: Stat::default() };
    let missing = Rejection::Tree(TreeRejection::NoZnode { path: path() });
    let answer = Ok(StreamAnswer::Many(vec![Ok(data), Err(missing)]));
    let reply = reply(ReplyFormat::MultiRead(items), answer);
    let Reply::Done(Response::MultiRead(results)) = reply else { panic!("{reply:?}") };
    assert_eq!(results[0], ReadResult::Failed(ErrorCode::NoNode));
    assert!(matches!(&results[1], ReadResult::Data { data: Some(data), .. } if data == "x"));
    assert_eq!(results[2], ReadResult::Failed(ErrorCode::NoNode));
}

#[test]
fn a_result_of_another_kind_is_a_system_error_and_not_a_panic() {
    let reply = reply(ReplyFormat::Read(ReadFormat::Data), Ok(StreamAnswer::Done));
    assert_eq!(reply, Reply::Failed(ErrorCode::SystemError));
}
