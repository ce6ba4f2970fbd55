//! Requests as a client sends them, and what is asked for each.

use std::net::{IpAddr, Ipv4Addr};

use super::*;

fn planned(request: Request) -> Plan {
    let identities = Identities::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
    plan(request, &Known { identities, members: Some("members".into()) })
}

fn refused(request: Request) -> Option<i32> {
    let Shape::Fixed(Err(code)) = planned(request).shape else { return None };
    Some(code.code())
}

fn at(path: &str) -> String {
    path.to_owned()
}

#[test]
fn nothing_can_be_read_where_no_node_can_be() {
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
fn what_is_not_done_here_is_refused_by_name() {
    assert_eq!(planned(Request::Unknown(99)).shape, Shape::Parting(ErrorCode::Unimplemented));
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
fn reads_of_several_leave_out_what_no_node_can_be_and_keep_its_place() {
    let read = |path| ReadOp::GetData { path: at(path), watch: false };
    let plan = planned(Request::MultiRead(vec![read("/a"), read("x"), read("/b")]));
    let Question::ReadMany(reads) = plan.question else { panic!("{:?}", plan.question) };
    assert_eq!(reads.len(), 2);
    let items = vec![ReadItem::Data, ReadItem::Nowhere, ReadItem::Data];
    assert_eq!(plan.shape, Shape::MultiRead(items));
}

#[test]
fn a_watch_where_no_node_can_be_is_taken_and_never_there() {
    let plan = planned(Request::AddWatch { path: at("x"), mode: AddWatchMode::Persistent });
    assert_eq!(plan, Plan::known(Ok(Response::AddWatch)));
    let kind = WatcherType::Any;
    assert_eq!(refused(Request::CheckWatches { path: at("x"), kind }), Some(-121));
    let watches = SetWatches { data: vec![at("/a"), at("x")], ..SetWatches::default() };
    let plan = planned(Request::SetWatches(watches));
    let Question::SetWatches(revision, set) = plan.question else { panic!("{:?}", plan.question) };
    assert_eq!((revision, set.data.len()), (Revision(0), 1));
}

/// Every way to read the node shows the members; other nodes are read as they are.
#[test]
fn the_members_are_shown_where_zookeeper_shows_them() {
    let text: Arc<str> = "members".into();
    let get = |path: &str| planned(Request::GetData { path: at(path), watch: true }).shape;
    let members = |shape| Shape::Members(text.clone(), Box::new(shape));
    assert_eq!(get("/zookeeper/config"), members(Shape::Data));
    assert_eq!(get("/zookeeper/config2"), Shape::Data);
    let exists = planned(Request::Exists { path: at("/zookeeper/config"), watch: false });
    assert_eq!(exists.shape, members(Shape::Exists));
    let reads = vec![ReadOp::GetData { path: at("/zookeeper/config"), watch: false }];
    let several = planned(Request::MultiRead(reads)).shape;
    assert_eq!(several, Shape::MultiRead(vec![ReadItem::Members(text)]));
}
