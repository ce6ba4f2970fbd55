//! `multi` and `multiRead`: many operations in one request.

use holdfast_lab::zk::ZkClient;
use holdfast_zkwire::{
    Acl, Create, CreateMode, CreateOp, ErrorCode, MultiOp, MultiResult, ReadOp, ReadResult,
    Request, Response,
};

use crate::node::Node;

fn make(op: CreateOp, path: &str, flags: i32) -> MultiOp {
    MultiOp::Create(Create {
        op,
        path: path.to_owned(),
        data: None,
        acl: vec![Acl::open()],
        mode: CreateMode::from_flags(flags, 60_000),
    })
}

fn check(path: &str, version: i32) -> MultiOp {
    MultiOp::Check { path: path.to_owned(), version }
}

fn remove(path: &str) -> MultiOp {
    MultiOp::Delete { path: path.to_owned(), version: -1 }
}

fn put(path: &str) -> MultiOp {
    MultiOp::SetData { path: path.to_owned(), data: Some("x".into()), version: -1 }
}

async fn multi(client: &mut ZkClient, ops: Vec<MultiOp>) -> (i64, Vec<MultiResult>) {
    match client.call(Request::Multi(ops)).await {
        (header, Some(Response::Multi(results))) if header.err == 0 => (header.zxid, results),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_multi_is_applied_in_order_with_one_zxid() {
    let (_node, mut client) = Node::with_client().await;
    let ops = vec![
        make(CreateOp::Create, "/m", 0),
        make(CreateOp::Create2, "/m/a", 2),
        make(CreateOp::Container, "/m/c", 4),
        make(CreateOp::Ttl, "/m/t", 5),
        put("/m"),
        check("/m", 1),
        remove("/m/t"),
    ];
    let (zxid, results) = multi(&mut client, ops).await;
    assert_eq!(results[0], MultiResult::Created { path: "/m".to_owned() });
    // As ZooKeeper 3.8.0 on the wire: only the kinds of nodes that it added later have a stat in the result.
    assert_eq!(results[1], MultiResult::Created { path: "/m/a0000000000".to_owned() });
    let MultiResult::Created2 { path, stat } = &results[2] else { panic!("{results:?}") };
    assert_eq!((path.as_str(), stat.czxid), ("/m/c", zxid));
    assert!(matches!(results[3], MultiResult::Created2 { .. }));
    let MultiResult::DataSet { stat } = results[4] else { panic!("{results:?}") };
    assert_eq!((stat.version, stat.czxid, stat.mzxid), (1, zxid, zxid));
    assert_eq!(results[5..], [MultiResult::Checked, MultiResult::Deleted]);
    assert_eq!(client.children("/m").await, ["a0000000000", "c"]);
}

#[tokio::test]
async fn one_failure_undoes_the_multi_and_is_reported_at_its_position() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/there", 0).await;
    for (bad, code) in [
        (make(CreateOp::Create, "/there", 0), ErrorCode::NodeExists),
        (make(CreateOp::Create, "/there/", 0), ErrorCode::BadArguments),
        (make(CreateOp::Create, "/no/x", 0), ErrorCode::NoNode),
        (make(CreateOp::Create, "/x", 9), ErrorCode::BadArguments),
        (remove("/"), ErrorCode::BadArguments),
        (remove("/no"), ErrorCode::NoNode),
        (remove("/no/"), ErrorCode::NoNode),
        (put("x"), ErrorCode::BadArguments),
        (check("/there", 4), ErrorCode::BadVersion),
    ] {
        let ops = vec![make(CreateOp::Create, "/new", 0), bad.clone(), check("/", -1)];
        let (_, results) = multi(&mut client, ops).await;
        let expected = [
            MultiResult::RolledBack,
            MultiResult::Failed(code),
            MultiResult::Failed(ErrorCode::RuntimeInconsistency),
        ];
        assert_eq!(results, expected, "{bad:?}");
        assert_eq!(client.stat("/new").await, None);
    }
}

#[tokio::test]
async fn of_two_failures_the_first_is_reported() {
    let (_node, mut client) = Node::with_client().await;
    let (_, results) = multi(&mut client, vec![check("/no", -1), check("x", -1)]).await;
    assert_eq!(results[0], MultiResult::Failed(ErrorCode::NoNode));
}

#[tokio::test]
async fn a_multi_may_be_empty() {
    let (_node, mut client) = Node::with_client().await;
    assert_eq!(multi(&mut client, Vec::new()).await.1, []);
    let Response::MultiRead(results) = client.done(Request::MultiRead(Vec::new())).await else {
        panic!("no reads")
    };
    assert_eq!(results, []);
}

#[tokio::test]
async fn the_reads_of_a_multi_read_have_independent_results() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/r", 0).await;
    client.create("/r/c", 0).await;
    let data = |path: &str| ReadOp::GetData { path: path.to_owned(), watch: false };
    let names = |path: &str| ReadOp::GetChildren { path: path.to_owned(), watch: false };
    let reads = vec![data("/r"), data("/no"), names("/r"), names("x")];
    let Response::MultiRead(results) = client.done(Request::MultiRead(reads)).await else {
        panic!("no reads")
    };
    assert!(matches!(results[0], ReadResult::Data { .. }));
    assert_eq!(results[1], ReadResult::Failed(ErrorCode::NoNode));
    assert_eq!(results[2], ReadResult::Children(vec!["c".to_owned()]));
    assert_eq!(results[3], ReadResult::Failed(ErrorCode::NoNode));
}

/// ZooKeeper bounds a multi by the bytes of its request alone. Curator's own test creates 10,001 znodes.
#[tokio::test]
async fn a_multi_has_as_many_operations_as_fit_into_a_request() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/many", 0).await;
    let path = |n: usize| format!("/many/{n}");
    let creates = (0..10_001).map(|n| make(CreateOp::Create, &path(n), 0)).collect();
    let (_, results) = multi(&mut client, creates).await;
    assert_eq!(
        (results.len(), results[10_000].clone()),
        (10_001, MultiResult::Created { path: path(10_000) })
    );
    let mut again: Vec<_> = (0..10_001).map(|n| remove(&path(n))).collect();
    again.push(check("/many/none", -1));
    let (_, results) = multi(&mut client, again).await;
    assert_eq!(results[10_001], MultiResult::Failed(ErrorCode::NoNode));
    assert_eq!(client.children("/many").await.len(), 10_001, "all or none");
    let (_, results) = multi(&mut client, (0..10_001).map(|n| remove(&path(n))).collect()).await;
    assert!(results.iter().all(|result| *result == MultiResult::Deleted));
    // A request with more operations than any other: the shortest one, as often as it fits.
    let (_, results) = multi(&mut client, (0..58_000).map(|_| check("/", -1)).collect()).await;
    assert_eq!(results, vec![MultiResult::Checked; 58_000]);
}

/// A small request cannot make the node send more than the bound: the reads after it fail.
#[tokio::test]
async fn the_reads_of_a_multi_read_return_a_bounded_number_of_bytes() {
    let (_node, mut client) = Node::with_client().await;
    client.create("/large", 0).await;
    let data = Some(vec![b'x'; 1_000_000].into());
    client.done(Request::SetData { path: "/large".to_owned(), data, version: -1 }).await;
    let read = ReadOp::GetData { path: "/large".to_owned(), watch: false };
    let Response::MultiRead(results) = client.done(Request::MultiRead(vec![read; 5_000])).await
    else {
        panic!("no reads")
    };
    let refused = ReadResult::Failed(ErrorCode::BadArguments);
    assert_eq!(results.iter().position(|result| *result == refused), Some(17));
    assert_eq!((results.len(), results[4_999].clone()), (5_000, refused));
}
