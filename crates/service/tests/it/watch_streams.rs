//! Watch streams without a session: from a revision, with bookmarks, and without silent gaps.

use std::time::Duration;

use holdfast_service::{
    Failure, HoldChange, HoldNotice, Principal, ReadMode, RequestContext, Response, Service,
    ServiceConfig, WatchFilter, WatchItem, WatchRequest, WatchStream, WatchedItem, ZnodeChangeKind,
    ZnodeContents,
};
use holdfast_types::{
    AclEntry, Actor, AuthChange, AuthMode, Bound, CallScope, Caller, CertificateName, CreateKind,
    Identity, LossCause, NumberedCall, Op, OpReply, Perms, Rejection, RequestNumber, Revision,
    RoleName, SubjectName, TreeRejection,
};

use crate::client::*;
use crate::nodes::*;

fn watch(service: &Service, filter: WatchFilter, since: Option<Revision>) -> WatchStream {
    service.watch(WatchRequest { filter, since }).unwrap()
}

async fn next(stream: &mut WatchStream) -> WatchedItem {
    tokio::time::timeout(DEADLINE, stream.next()).await.unwrap()
}

/// The next item that is not a bookmark.
async fn item(stream: &mut WatchStream) -> WatchItem {
    loop {
        match next(stream).await.item {
            WatchItem::Bookmark { .. } => {}
            item => return item,
        }
    }
}

async fn change(stream: &mut WatchStream) -> (ZnodeChangeKind, String) {
    match item(stream).await {
        WatchItem::Change { kind, path, .. } => (kind, path.to_string()),
        other => panic!("not a change: {other:?}"),
    }
}

async fn does(service: &Service, op: Op) -> Result<Response<OpReply>, Failure> {
    service.change(Caller::default(), op).await
}

async fn read(service: &Service, at: &str) -> Result<Response<ZnodeContents>, Failure> {
    service.znode(&path(at), ReadMode::Linearizable).await
}

/// A list and a watch from its revision miss nothing and repeat nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_continues_from_the_revision_of_a_list() {
    let nodes = Nodes::start(3).await;
    let service = &nodes.services[0];
    does(service, node("/dir")).await.unwrap();
    does(service, node("/dir/a")).await.unwrap();
    let dir = path("/dir");
    let list = nodes.services[1].children(&dir, None, 10, ReadMode::Linearizable);
    let response = list.await.unwrap();
    assert_eq!(response.value.items.len(), 1);
    does(service, node("/dir/b")).await.unwrap();
    does(service, node("/other")).await.unwrap();
    does(service, set("/dir/a", b"x")).await.unwrap();
    does(service, delete("/dir/b")).await.unwrap();
    for service in &nodes.services {
        let filter = WatchFilter::Children(path("/dir"));
        let mut watching = watch(service, filter, Some(response.revision));
        assert_eq!(change(&mut watching).await, (ZnodeChangeKind::Created, "/dir/b".to_owned()));
        assert_eq!(change(&mut watching).await, (ZnodeChangeKind::Changed, "/dir/a".to_owned()));
        assert_eq!(change(&mut watching).await, (ZnodeChangeKind::Deleted, "/dir/b".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_receives_grants_with_their_tokens_and_losses() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let mut watching = watch(service, WatchFilter::Prefix("/locks/or".to_owned()), None);
    take(service, acquire("job", Some("me"), 30_000, Duration::ZERO)).await.unwrap();
    let grant = take(service, acquire("orders", Some("me"), 30_000, Duration::ZERO)).await.unwrap();
    release(service, "orders", "me").await.unwrap();
    let (mut granted, mut lost) = (None, None);
    while lost.is_none() {
        match item(&mut watching).await {
            WatchItem::Hold(HoldNotice {
                lock, token, change: HoldChange::Granted { .. }, ..
            }) => granted = Some((lock, token)),
            WatchItem::Hold(HoldNotice {
                lock, change: HoldChange::Lost { cause, .. }, ..
            }) => {
                lost = Some((lock, cause));
            }
            WatchItem::Change { path, .. } => assert!(path.as_str().starts_with("/locks/or")),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(granted, Some((lock("orders"), grant.token)));
    assert_eq!(lost, Some((lock("orders"), LossCause::Released)));
}

#[tokio::test(flavor = "multi_thread")]
async fn bookmarks_keep_a_quiet_watch_resumable() {
    let bookmark_every = Duration::from_millis(50);
    let config =
        ServiceConfig { bookmark_every, history_events_max: 2, ..ServiceConfig::default() };
    let nodes = Nodes::start_with(1, config).await;
    let service = &nodes.services[0];
    let mut quiet = watch(service, WatchFilter::Node(path("/quiet")), None);
    assert!(matches!(next(&mut quiet).await.item, WatchItem::Bookmark { .. }));
    for number in 0..5 {
        does(service, node(&format!("/n{number}"))).await.unwrap();
    }
    let newest = service.revision();
    let resume = loop {
        let WatchedItem { resume, item } = next(&mut quiet).await;
        assert!(matches!(item, WatchItem::Bookmark { .. }), "{item:?}");
        if resume >= newest {
            break resume;
        }
    };
    does(service, node("/quiet")).await.unwrap();
    let mut resumed = watch(service, WatchFilter::Node(path("/quiet")), Some(resume));
    assert_eq!(change(&mut resumed).await, (ZnodeChangeKind::Created, "/quiet".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn discarded_changes_are_reported_as_compacted() {
    let config = ServiceConfig { history_events_max: 2, ..ServiceConfig::default() };
    let nodes = Nodes::start_with(1, config).await;
    let service = &nodes.services[0];
    let mut slow = watch(service, WatchFilter::Subtree(path("/")), None);
    assert!(matches!(next(&mut slow).await.item, WatchItem::Bookmark { .. }));
    let before = service.revision();
    for number in 0..5 {
        does(service, node(&format!("/n{number}"))).await.unwrap();
    }
    let filter = WatchFilter::Subtree(path("/"));
    let request = WatchRequest { filter, since: Some(before) };
    let Err(Failure::Compacted { restart_from }) = service.watch(request) else { panic!() };
    assert!(restart_from >= service.revision());
    assert!(matches!(item(&mut slow).await, WatchItem::Compacted { .. }));
    assert!(slow.resume() <= before, "a caller that resumes there would miss discarded changes");
    does(service, node("/after")).await.unwrap();
    assert_eq!(change(&mut slow).await, (ZnodeChangeKind::Created, "/after".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_receive_the_shutdown_of_the_node() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let mut watching = watch(service, WatchFilter::Subtree(path("/")), None);
    service.drain().await;
    assert_eq!(item(&mut watching).await, WatchItem::ShuttingDown);
    assert_eq!(item(&mut watching).await, WatchItem::ShuttingDown);
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_receive_no_change_that_they_may_not_list() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let me = Identity { scheme: "digest".into(), id: "me:hash".into() };
    let mut closed = create("/closed", b"", CreateKind::Persistent);
    let mut inside = create("/closed/inside", b"", CreateKind::Persistent);
    for op in [&mut closed, &mut inside] {
        let Op::Create(create) = op else { panic!() };
        create.acl = Some(vec![AclEntry { perms: Perms::ALL, who: me.clone() }]);
    }
    let mut anonymous_watch = watch(service, WatchFilter::Subtree(path("/")), None);
    let principal = Principal { identities: vec![me.clone()], ..Principal::anonymous() };
    let known = RequestContext { principal, request_id: "test".to_owned() };
    let known = service.for_call(known);
    let mut owner = watch(&known, WatchFilter::Subtree(path("/")), None);
    for op in [closed, inside, node("/open")] {
        known.change(Caller::default(), op).await.unwrap();
    }
    for at in ["/closed", "/open"] {
        assert_eq!(change(&mut anonymous_watch).await, (ZnodeChangeKind::Created, at.to_owned()));
    }
    for at in ["/closed", "/closed/inside", "/open"] {
        assert_eq!(change(&mut owner).await, (ZnodeChangeKind::Created, at.to_owned()));
    }
    let refused = read(service, "/closed").await;
    assert!(matches!(rejection(refused), Rejection::Tree(TreeRejection::NotAllowed { .. })));
    assert!(read(&known, "/closed").await.is_ok());
    // The names below a directory stay hidden when it is gone.
    let before = service.revision();
    for op in [delete("/closed/inside"), delete("/closed"), node("/later")] {
        known.change(Caller::default(), op).await.unwrap();
    }
    for mut watch in
        [anonymous_watch, watch(service, WatchFilter::Subtree(path("/")), Some(before))]
    {
        for (kind, at) in
            [(ZnodeChangeKind::Deleted, "/closed"), (ZnodeChangeKind::Created, "/later")]
        {
            assert_eq!(change(&mut watch).await, (kind, at.to_owned()));
        }
    }
    let below = WatchFilter::Prefix("/closed/".to_owned());
    let WatchedItem { item, .. } = next(&mut watch(service, below, Some(Revision(0)))).await;
    assert!(matches!(item, WatchItem::Bookmark { .. }), "{item:?}");
}

/// A caller that may not see the last change of a revision receives the others once.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_resumes_after_the_hidden_changes_of_a_revision() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let me = Identity { scheme: "digest".into(), id: "me:hash".into() };
    let mut secret = create("/closed/secret", b"", CreateKind::Persistent);
    let mut closed = create("/closed", b"", CreateKind::Persistent);
    for op in [&mut closed, &mut secret] {
        let Op::Create(create) = op else { panic!() };
        create.acl = Some(vec![AclEntry { perms: Perms::ALL, who: me.clone() }]);
    }
    let principal = Principal { identities: vec![me], ..Principal::anonymous() };
    let known = RequestContext { principal, request_id: "test".to_owned() };
    let known = service.for_call(known);
    known.change(Caller::default(), closed).await.unwrap();
    let mut watcher = watch(service, WatchFilter::Subtree(path("/")), None);
    let changed = known.multi(multi(vec![node("/open"), secret])).await.unwrap().revision;
    assert_eq!(change(&mut watcher).await, (ZnodeChangeKind::Created, "/open".to_owned()));
    assert_eq!(watcher.resume(), changed);
}

/// The rejection of a single change is plain; the rejection of a multi has the index of the operation.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_of_a_multi_has_the_index_of_the_operation() {
    let nodes = Nodes::start(3).await;
    let service = nodes.follower().await;
    let refused = rejection(does(&service, delete("/none")).await);
    assert!(matches!(refused, Rejection::Tree(TreeRejection::NoZnode { .. })), "{refused:?}");
    let multi = multi(vec![node("/a"), delete("/none")]);
    let refused = rejection(service.multi(multi).await);
    let Rejection::Tree(TreeRejection::OfOperation { at: 1, why }) = refused else {
        panic!("{refused:?}")
    };
    assert!(matches!(*why, Rejection::Tree(TreeRejection::NoZnode { .. })));
    let refused = rejection(read(&service, "/a").await);
    assert!(matches!(refused, Rejection::Tree(TreeRejection::NoZnode { .. })));
}

/// A retried call has one effect and gets the reply of the first call.
#[tokio::test(flavor = "multi_thread")]
async fn a_retried_change_with_a_request_number_gets_the_first_reply() {
    let nodes = Nodes::start(3).await;
    nodes.services[0].open_session(open(Some("me"), None), None).await.unwrap();
    let mut answers = Vec::new();
    for service in &nodes.services {
        let call =
            NumberedCall { session: session("me"), request: RequestNumber(1), scope: CallScope(0) };
        let change = service.once(call).change(Caller::default(), node("/once")).await.unwrap();
        match change.value {
            OpReply::Created { path, stat } => answers.push((path, stat, change.revision)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
}

/// Every node accepts the largest znode, also concurrently, and rejects a larger one before it is proposed.
#[tokio::test(flavor = "multi_thread")]
async fn every_node_accepts_the_largest_znode_and_rejects_a_larger_one() {
    const LARGEST: usize = 1_048_575;
    // The test does not measure how fast an unoptimised build moves so many bytes.
    let config = ServiceConfig { request_timeout: 3 * DEADLINE, ..ServiceConfig::default() };
    let nodes = Nodes::start_with(3, config).await;
    for (number, service) in nodes.services.iter().enumerate() {
        let at = format!("/large-{number}");
        let data = vec![u8::try_from(number).unwrap(); LARGEST];
        does(service, create(&at, &data, CreateKind::Persistent)).await.unwrap();
        does(service, set(&at, &data)).await.unwrap();
        for reader in &nodes.services {
            let ZnodeContents { data: found, stat } = read(reader, &at).await.unwrap().value;
            assert!(*found == *data, "{at} differs from the written data");
            assert_eq!(usize::try_from(stat.data_length).unwrap(), LARGEST);
        }
        let refused = rejection(does(service, set(&at, &vec![0; LARGEST + 1])).await);
        assert!(matches!(refused, Rejection::LimitReached { bound: Bound::DataBytes, .. }));
    }
    let many = (0..3).map(|number| {
        let service = nodes.services[number].clone();
        let op = create(&format!("/many-{number}"), &vec![7; LARGEST], CreateKind::Persistent);
        tokio::spawn(async move { does(&service, op).await.map(drop) })
    });
    for written in futures_util::future::join_all(many).await {
        written.unwrap().unwrap();
    }
}

/// The changes that a caller without a valid credential does not get are not behind it.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_without_a_valid_credential_resumes_before_what_it_did_not_show() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let subject = |name| SubjectName::new(name).unwrap();
    let added = service.add_first_administrator(subject("root"), Some(AuthMode::On)).await.unwrap();
    let of =
        |principal| service.for_call(RequestContext { principal, ..RequestContext::anonymous() });
    let token = added.value.issued.token.id;
    let root = of(Principal::of(Actor::Token(token)));
    let certificate = CertificateName::new("CN=ci,O=prod").unwrap();
    let (subject_ci, roles) = (subject("ci"), vec![RoleName::admin()]);
    let certificates = vec![certificate.clone()];
    let set = AuthChange::SetSubject { subject: subject_ci, roles, certificates };
    root.change_auth(set).await.unwrap();
    let ci = of(service.principal_of_certificate(&[certificate]));
    let mut watching = watch(&root, WatchFilter::Subtree(path("/")), Some(service.revision()));
    ci.change_auth(AuthChange::DeleteToken { token }).await.unwrap();
    let made = does(&ci, node("/missed")).await.unwrap();
    let ended = next(&mut watching).await;
    assert!(matches!(ended.item, WatchItem::Denied(_)), "{ended:?}");
    assert!(ended.resume < made.revision, "{ended:?}");
}
