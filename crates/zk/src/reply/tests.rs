//! Answers of the service, and what a client is told.

use holdfast_types::{Data, SessionName, Stat, ZnodePath};

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
    Failure::Rejected(Rejection::OpRefused { at, why: Box::new(why) })
}

#[test]
fn one_operation_is_told_as_it_was_asked() {
    let one = |item, result| told(Shape::Write(item), Ok(multi(vec![result])));
    assert_eq!(
        one(Item::Created, created()),
        Told::Done(Response::Created { path: "/a".to_owned() })
    );
    assert!(matches!(one(Item::Created2, created()), Told::Done(Response::Created2 { .. })));
    assert_eq!(one(Item::Deleted, OpReply::Deleted { count: 1 }), Told::Done(Response::Empty));
    assert_eq!(one(Item::Checked, OpReply::Checked), Told::Done(Response::Empty));
    for result in
        [OpReply::DataSet { stat: Stat::default() }, OpReply::AclSet { stat: Stat::default() }]
    {
        assert!(matches!(one(Item::Stat, result), Told::Done(Response::Stat(_))));
    }
}

#[test]
fn a_failed_multi_is_no_error_but_says_of_every_operation_what_became_of_it() {
    let items = vec![Item::Created, Item::Deleted, Item::Checked];
    let told = told(Shape::Multi(items), Err(refused_at(1, Rejection::NotEmpty { path: path() })));
    assert_eq!(
        told,
        Told::Done(Response::Multi(vec![
            MultiResult::RolledBack,
            MultiResult::Failed(ErrorCode::NotEmpty),
            MultiResult::Failed(ErrorCode::RuntimeInconsistency),
        ]))
    );
}

#[test]
fn what_cannot_be_read_spoils_the_whole_multi_unless_something_before_it_fails() {
    let shape = || Shape::Multi(vec![Item::Deleted, Item::Refused(ErrorCode::MarshallingError)]);
    let stand_in = || Rejection::BadVersion { path: path(), actual: 0 };
    let spoilt = told(shape(), Err(refused_at(1, stand_in())));
    assert_eq!(spoilt, Told::Failed(ErrorCode::MarshallingError));
    let before = told(shape(), Err(refused_at(0, stand_in())));
    assert!(matches!(before, Told::Done(Response::Multi(_))), "{before:?}");
}

#[test]
fn a_multi_of_a_session_that_moved_is_an_error() {
    let session = SessionName::new("s").unwrap();
    let moved = Err(Failure::Rejected(Rejection::SessionMoved { session }));
    let told = told(Shape::Multi(vec![Item::Checked]), moved);
    assert_eq!(told, Told::Parting(ErrorCode::SessionMoved));
}

#[test]
fn what_cannot_be_done_fails_with_its_own_error_unless_the_node_that_decides_is_missing() {
    let shape = || Shape::Write(Item::Refused(ErrorCode::BadArguments));
    let stand_in = Rejection::BadVersion { path: path(), actual: 0 };
    assert_eq!(told(shape(), Err(refused_at(0, stand_in))), Told::Failed(ErrorCode::BadArguments));
    let missing = Rejection::NoNode { path: path() };
    assert_eq!(told(shape(), Err(refused_at(0, missing))), Told::Failed(ErrorCode::NoNode));
}

#[test]
fn reads_of_several_fail_each_for_itself() {
    let items = vec![ReadItem::Nowhere, ReadItem::Data, ReadItem::Children];
    let data = StreamAnswer::Data { data: Data::from(&b"x"[..]), stat: Stat::default() };
    let missing = Rejection::NoNode { path: path() };
    let answer = Ok(StreamAnswer::Many(vec![Ok(data), Err(missing)]));
    let Told::Done(Response::MultiRead(results)) = told(Shape::MultiRead(items), answer) else {
        panic!("no reads");
    };
    assert_eq!(results[0], ReadResult::Failed(ErrorCode::NoNode));
    assert!(matches!(&results[1], ReadResult::Data { data: Some(data), .. } if data == "x"));
    assert_eq!(results[2], ReadResult::Failed(ErrorCode::NoNode));
}

#[test]
fn an_answer_of_another_kind_is_a_fault_of_the_server_and_not_a_panic() {
    assert_eq!(told(Shape::Data, Ok(StreamAnswer::Done)), Told::Failed(ErrorCode::SystemError));
}
