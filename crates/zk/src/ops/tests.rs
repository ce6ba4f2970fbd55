//! Requests as a client sends them, and the call of the service for each.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use holdfast_types::Revision;
use holdfast_zkwire::{AddWatchMode, ReadOp, SetWatches, WatcherType};

use super::operation::{MultiReadItem, ReadFormat};
use super::*;
use crate::identity::Identities;

fn translated(request: Request) -> ZkOperation {
    let identities = Identities::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
    translate(request, &ConnectionContext { identities, members: Some("members".into()) })
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

/// Every kind of read of the node shows the members; other nodes show their own data.
#[test]
fn the_members_are_shown_at_zookeepers_path() {
    let text: Arc<str> = "members".into();
    let get = |path: &str| translated(Request::GetData { path: at(path), watch: true }).format;
    let members = |format| ReplyFormat::Read(ReadFormat::WithData(text.clone(), Box::new(format)));
    assert_eq!(get("/zookeeper/config"), members(ReadFormat::Data));
    assert_eq!(get("/zookeeper/config2"), ReplyFormat::Read(ReadFormat::Data));
    let exists = translated(Request::Exists { path: at("/zookeeper/config"), watch: false });
    assert_eq!(exists.format, members(ReadFormat::Exists));
    let reads = vec![ReadOp::GetData { path: at("/zookeeper/config"), watch: false }];
    let multi_read = translated(Request::MultiRead(reads)).format;
    assert_eq!(multi_read, ReplyFormat::MultiRead(vec![MultiReadItem::WithData(text)]));
}
