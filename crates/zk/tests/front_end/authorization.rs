//! Authorization: access tokens of connections, and what a connection without a permission cannot do.

use std::time::{Duration, Instant};

use bytes::Bytes;
use holdfast_lab::zk::{ZkClient, children, create, delete, exists, get, set};
use holdfast_service::{AccessTokenSecret, Principal, RequestContext, Service};
use holdfast_types::{
    Actor, AuthChange, AuthMode, NamespaceName, QuotaKind, Quotas, RoleName, SessionId,
    SubjectName, TokenLifetime,
};
use holdfast_zk::ZkConfig;
use holdfast_zkwire::{
    Acl, AddWatchMode, Create, CreateMode, CreateOp, ErrorCode, MultiOp, ReadOp, ReadResult,
    Request, Response, SetWatches, WatchEventType, WatcherType,
};

use crate::node::{Node, config};

pub(crate) fn subject(name: &str) -> SubjectName {
    SubjectName::new(name).unwrap()
}

/// A node on which a connection has a session before it proves a subject.
async fn optional() -> Node {
    Node::start_with(ZkConfig { requires_credential: false, ..config() }).await
}

/// A cluster in the mode `on`, its administrator, and the token of `ci`, which may write `/app` and below it.
pub(crate) async fn guarded(node: &Node) -> (Service, AccessTokenSecret) {
    let added =
        node.service.add_first_administrator(subject("root"), Some(AuthMode::On)).await.unwrap();
    let actor = Actor::Token(added.value.issued.token.id);
    let principal = Principal::of(actor);
    let request_id = "test".to_owned();
    let admin = node.service.for_call(RequestContext { principal, request_id });
    let role = RoleName::new("app").unwrap();
    let permissions = ["tree write /app", "tree write /app/*"];
    let permissions = permissions.map(|text| text.parse().unwrap()).to_vec();
    let set = AuthChange::SetRole { role: role.clone(), permissions };
    admin.change_auth(set).await.unwrap();
    let (roles, certificates) = (vec![role], Vec::new());
    let ci = AuthChange::SetSubject { subject: subject("ci"), roles, certificates };
    admin.change_auth(ci).await.unwrap();
    let token = admin.issue_token(subject("ci"), TokenLifetime::Default).await.unwrap().value.token;
    (admin, token)
}

pub(crate) fn auth(credentials: &str) -> Request {
    let auth = Some(Bytes::copy_from_slice(credentials.as_bytes()));
    Request::Auth { kind: 0, scheme: "digest".to_owned(), auth }
}

pub(crate) async fn authenticate(client: &mut ZkClient, credentials: &str) -> i32 {
    client.error(auth(credentials)).await
}

#[tokio::test]
async fn a_connection_has_the_permissions_of_its_access_token() {
    let node = optional().await;
    let (_, token) = guarded(&node).await;
    let (mut ci, mut anonymous) = (node.client().await, node.client().await);
    assert_eq!(authenticate(&mut ci, &format!("ci:{}", token.reveal())).await, 0);
    ci.done(create("/app", 0)).await;
    ci.done(create("/app/a", 1)).await;
    assert_eq!(ci.data("/app").await, b"");
    for request in [
        create("/other", 0),
        set("/", b"", -1),
        get("/zookeeper", false),
        children("/", true),
        exists("/other", true),
        delete("/locks", -1),
        Request::GetAcl { path: "/".to_owned() },
        Request::SetAcl { path: "/".to_owned(), acl: vec![Acl::open()], version: -1 },
    ] {
        assert_eq!(ci.error(request.clone()).await, -102, "{request:?}");
    }
    for request in [create("/app/b", 0), get("/app", false), children("/app", false)] {
        assert_eq!(anonymous.error(request.clone()).await, -102, "{request:?}");
    }
}

#[tokio::test]
async fn a_returning_client_keeps_its_watches_beside_one_that_its_role_forbids_now() {
    let node = Node::start().await;
    let (admin, token) = guarded(&node).await;
    let credentials = format!("ci:{}", token.reveal());
    let (mut watcher, mut writer) = (node.client().await, node.client().await);
    for client in [&mut watcher, &mut writer] {
        authenticate(client, &credentials).await;
    }
    for path in ["/app", "/app/b", "/app/c"] {
        writer.done(create(path, 0)).await;
    }
    let (seen, _) = watcher.call(get("/app", true)).await;
    let session = watcher.resumption();
    drop(watcher);
    let permissions = vec!["tree write /app".parse().unwrap()];
    let role = AuthChange::SetRole { role: RoleName::new("app").unwrap(), permissions };
    admin.change_auth(role).await.unwrap();
    writer.done(set("/app", b"1", -1)).await;
    let mut watcher = ZkClient::resume(node.address, &session).await;
    authenticate(&mut watcher, &credentials).await;
    let data = ["/app", "/app/b"].map(str::to_owned).to_vec();
    let (relative_zxid, exist, child, persistent, recursive) =
        (seen.zxid, Vec::new(), Vec::new(), vec!["/app/c".to_owned()], Vec::new());
    let kept = SetWatches { relative_zxid, data, exist, child, persistent, recursive };
    watcher.done(Request::SetWatches(kept)).await;
    assert_eq!(watcher.events().await, [(WatchEventType::DataChanged, "/app".to_owned())]);
}

#[tokio::test]
async fn a_multi_with_one_forbidden_operation_does_nothing() {
    let node = Node::start().await;
    let (_, token) = guarded(&node).await;
    let mut ci = node.client().await;
    authenticate(&mut ci, &format!("ci:{}", token.reveal())).await;
    ci.done(create("/app", 0)).await;
    let Request::Create(inside) = create("/app/x", 0) else { panic!() };
    let Request::Create(outside) = create("/other", 0) else { panic!() };
    let ops = vec![MultiOp::Create(inside), MultiOp::Create(outside)];
    assert_eq!(ci.error(Request::Multi(ops)).await, -102);
    assert_eq!(ci.error(get("/app/x", false)).await, -101);
}

#[tokio::test]
async fn a_wrong_access_token_ends_the_connection() {
    let node = Node::start().await;
    let (_, token) = guarded(&node).await;
    let text = token.reveal();
    let unknown = AccessTokenSecret::generate().unwrap().reveal();
    for credentials in [
        format!("ci:{}", &text[..text.len() - 1]),
        format!("ci:{unknown}"),
        format!("root:{text}"),
        format!(":{text}"),
    ] {
        let mut client = node.client().await;
        assert_eq!(authenticate(&mut client, &credentials).await, -115, "{credentials}");
        client.closed().await;
    }
    // Another password is an identity for access lists, as always.
    let mut client = node.client().await;
    assert_eq!(authenticate(&mut client, "ci:hf").await, 0);
}

#[tokio::test]
async fn a_subject_that_may_open_no_session_gets_none() {
    let node = Node::start().await;
    let (admin, _) = guarded(&node).await;
    for (role, opens) in [("metrics", false), ("viewer", false), ("operator", true)] {
        let (roles, certificates) = (vec![RoleName::new(role).unwrap()], Vec::new());
        let set = AuthChange::SetSubject { subject: subject(role), roles, certificates };
        admin.change_auth(set).await.unwrap();
        let token =
            admin.issue_token(subject(role), TokenLifetime::Never).await.unwrap().value.token;
        let mut client = node.client().await;
        let answer = authenticate(&mut client, &format!("{role}:{}", token.reveal())).await;
        assert_eq!(answer, if opens { 0 } else { -115 }, "{role}");
    }
}

#[tokio::test]
async fn a_deleted_access_token_ends_its_connections() {
    let node = optional().await;
    let (admin, token) = guarded(&node).await;
    let (mut ci, mut anonymous) = (node.client().await, node.client().await);
    authenticate(&mut ci, &format!("ci:{}", token.reveal())).await;
    ci.done(create("/app", 0)).await;
    admin.change_auth(AuthChange::DeleteToken { token: token.id }).await.unwrap();
    ci.closed().await;
    assert_eq!(anonymous.error(get("/app", false)).await, -102);
}

#[tokio::test]
async fn a_connection_of_a_namespace_has_its_quotas_and_its_rate() {
    let node = Node::start().await;
    let (admin, _) = guarded(&node).await;
    let namespace = NamespaceName::new("team").unwrap();
    let quotas = [(QuotaKind::Znodes, 5), (QuotaKind::CallsPerSecond, 20)];
    let quotas = Quotas(quotas.into_iter().collect());
    let (roles, certificates) = (vec![RoleName::admin()], Vec::new());
    for change in [
        AuthChange::SetNamespace { namespace, quotas },
        AuthChange::SetSubject { subject: subject("team/ci"), roles, certificates },
    ] {
        admin.change_auth(change).await.unwrap();
    }
    let token =
        admin.issue_token(subject("team/ci"), TokenLifetime::Default).await.unwrap().value.token;
    let mut team = node.client().await;
    assert_eq!(authenticate(&mut team, &format!("team/ci:{}", token.reveal())).await, 0);
    team.done(create("/team", 0)).await;
    for name in ["a", "b", "c", "d"] {
        team.done(create(&format!("/team/{name}"), 0)).await;
    }
    assert_eq!(team.error(create("/team/e", 0)).await, -125);
    assert_eq!(team.error(create("/other", 0)).await, -102);
    assert_eq!(team.error(children("/", false)).await, -102);
    // Above the rate, answers come later. No request fails and none is lost.
    let began = Instant::now();
    for _ in 0..60 {
        assert_eq!(team.data("/team").await, b"");
    }
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    // Pings renew the session, so no rate delays them: at 20 calls a second, these would take 9 s.
    let began = Instant::now();
    for _ in 0..200 {
        team.done(Request::Ping).await;
    }
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: it is about the connection itself, or no server executes it.
    Nothing,
    /// A permission on the path.
    Permission,
    /// As `Permission`, and the reply has the error of each path.
    PermissionInReply,
}

/// One request of each kind, on paths outside of the namespace `team`.
pub(crate) fn requests_of_every_kind() -> Vec<(Request, Needs)> {
    use Needs::{Nothing, Permission, PermissionInReply};
    let path = || "/app".to_owned();
    let created = |op, mode| {
        let acl = vec![Acl::open()];
        Request::Create(Create { op, path: "/app/new".to_owned(), data: None, acl, mode })
    };
    let multi = || {
        let Request::Create(create) = create("/app/new", 0) else { panic!() };
        Request::Multi(vec![MultiOp::Create(create)])
    };
    let watches = |data: Vec<String>| {
        let (none, relative_zxid) = (Vec::new, 0);
        let (exist, child, persistent, recursive) = (none(), none(), none(), none());
        Request::SetWatches(SetWatches { relative_zxid, data, exist, child, persistent, recursive })
    };
    let data = ReadOp::GetData { path: path(), watch: false };
    let kind = WatcherType::Any;
    vec![
        (created(CreateOp::Create, CreateMode::Persistent), Permission),
        (created(CreateOp::Create2, CreateMode::EphemeralSequential), Permission),
        (created(CreateOp::Container, CreateMode::Container), Permission),
        (created(CreateOp::Ttl, CreateMode::Ttl(1_000)), Permission),
        (delete("/app", -1), Permission),
        (exists("/app", true), Permission),
        (exists("/app/missing", true), Permission),
        (get("/app", true), Permission),
        (set("/app", b"x", -1), Permission),
        (Request::GetAcl { path: path() }, Permission),
        (Request::SetAcl { path: path(), acl: vec![Acl::open()], version: -1 }, Permission),
        (Request::GetChildren { path: path(), watch: true }, Permission),
        (Request::GetChildren2 { path: path(), watch: true }, Permission),
        (Request::Check { path: path(), version: -1 }, Permission),
        (multi(), Permission),
        (Request::MultiRead(vec![data]), PermissionInReply),
        (Request::GetAllChildrenNumber { path: path() }, Permission),
        (Request::AddWatch { path: path(), mode: AddWatchMode::Persistent }, Permission),
        (Request::AddWatch { path: path(), mode: AddWatchMode::PersistentRecursive }, Permission),
        // Armed, and shows nothing that the client may not read: the client may not lose its other watches.
        (watches(vec![path()]), Nothing),
        (Request::CheckWatches { path: path(), kind }, Nothing),
        (Request::RemoveWatches { path: path(), kind }, Nothing),
        (Request::GetEphemerals { prefix: "/app".to_owned() }, Nothing),
        (Request::Sync { path: path() }, Nothing),
        (Request::Ping, Nothing),
        (Request::WhoAmI, Nothing),
        (Request::DeleteContainer, Nothing),
        (Request::Sasl { token: None }, Nothing),
    ]
}

/// On the leader and on a follower.
#[tokio::test]
async fn every_request_is_refused_or_not_as_documented() {
    let config = ZkConfig { requires_credential: false, ..config() };
    let nodes = Node::cluster(3, config).await;
    let (admin, ci) = guarded(&nodes[0]).await;
    let namespace = NamespaceName::new("team").unwrap();
    let set = |name, roles| AuthChange::SetSubject {
        subject: subject(name),
        roles,
        certificates: Vec::new(),
    };
    for change in [
        AuthChange::SetNamespace { namespace, quotas: Quotas::default() },
        set("team/ci", vec![RoleName::admin()]),
        AuthChange::SetRole {
            role: RoleName::new("elsewhere").unwrap(),
            permissions: vec!["tree read /elsewhere".parse().unwrap()],
        },
        set("powerless", vec![RoleName::new("elsewhere").unwrap()]),
    ] {
        admin.change_auth(change).await.unwrap();
    }
    let token = async |name| {
        let token =
            admin.issue_token(subject(name), TokenLifetime::Default).await.unwrap().value.token;
        format!("{name}:{}", token.reveal())
    };
    let (team, powerless) = (token("team/ci").await, token("powerless").await);
    let mut allowed = nodes[0].client().await;
    authenticate(&mut allowed, &format!("ci:{}", ci.reveal())).await;
    allowed.done(create("/app", 0)).await;
    for node in &nodes[..2] {
        node.service.catch_up(nodes[0].service.revision()).await.unwrap();
        requests_are_refused_or_not(node, &[None, Some(&powerless), Some(&team)], &mut allowed)
            .await;
    }
}

async fn requests_are_refused_or_not(
    node: &Node,
    credentials: &[Option<&String>],
    allowed: &mut ZkClient,
) {
    let before = allowed.done(get("/app", false)).await;
    for (request, needs) in requests_of_every_kind() {
        for credentials in credentials {
            let mut client = node.client().await;
            if let Some(credentials) = credentials {
                assert_eq!(authenticate(&mut client, credentials).await, 0);
            }
            let (header, body) = client.call(request.clone()).await;
            let refused = match (needs, body) {
                (Needs::PermissionInReply, Some(Response::MultiRead(results))) => {
                    matches!(results[..], [ReadResult::Failed(ErrorCode::NoAuth)])
                }
                (_, _) => header.err == -102,
            };
            let expected = needs != Needs::Nothing;
            assert_eq!(refused, expected, "{credentials:?}: {request:?}: {}", header.err);
        }
        // The read also renews the session.
        let now = allowed.done(get("/app", false)).await;
        assert_eq!(now, before, "{request:?} was refused and changed /app");
    }
}

#[tokio::test]
async fn a_session_opened_before_its_access_token_belongs_to_the_subject() {
    let node = optional().await;
    let (admin, token) = guarded(&node).await;
    let (mut ci, mut other) = (node.client().await, node.client().await);
    assert_eq!(authenticate(&mut ci, &format!("ci:{}", token.reveal())).await, 0);
    // Another access token of the same connection changes nothing.
    let root =
        admin.issue_token(subject("root"), TokenLifetime::Default).await.unwrap().value.token;
    assert_eq!(authenticate(&mut ci, &format!("root:{}", root.reveal())).await, 0);
    assert_eq!(authenticate(&mut ci, &format!("ci:{}", token.reveal())).await, 0);
    ci.done(create("/app", 0)).await;
    assert_eq!(admin.close_sessions_of(&subject("root"), SessionId(u64::MAX)).await.unwrap(), 0);
    assert_eq!(admin.close_sessions_of(&subject("ci"), SessionId(u64::MAX)).await.unwrap(), 1);
    ci.closed().await;
    assert_eq!(other.error(get("/app", false)).await, -102);
}

#[tokio::test]
async fn only_the_permission_tree_admin_passes_access_lists() {
    let node = Node::start().await;
    let (admin, token) = guarded(&node).await;
    let root =
        admin.issue_token(subject("root"), TokenLifetime::Default).await.unwrap().value.token;
    let (mut ci, mut fixer) = (node.client().await, node.client().await);
    authenticate(&mut ci, &format!("ci:{}", token.reveal())).await;
    authenticate(&mut ci, "alice:secret").await;
    authenticate(&mut fixer, &format!("root:{}", root.reveal())).await;
    let Request::Create(app) = create("/app", 0) else { panic!() };
    let acl = vec![Acl { perms: 31, scheme: "auth".to_owned(), id: String::new() }];
    ci.done(Request::Create(Create { acl, ..app })).await;
    let mut without = node.client().await;
    authenticate(&mut without, &format!("ci:{}", token.reveal())).await;
    for request in [get("/app", false), set("/app", b"x", -1), create("/app/a", 0)] {
        assert_eq!(without.error(request).await, -102);
    }
    assert_eq!(fixer.data("/app").await, b"");
    fixer.done(set("/app", b"fixed", -1)).await;
    fixer.done(create("/app/a", 0)).await;
    let acl = vec![Acl::open()];
    fixer.done(Request::SetAcl { path: "/app".to_owned(), acl, version: -1 }).await;
    assert_eq!(without.data("/app").await, b"fixed");
}

#[tokio::test]
async fn a_client_deletes_only_its_own_queue_entry_without_the_right_of_the_lock() {
    let node = Node::start().await;
    let (admin, token) = guarded(&node).await;
    let role = RoleName::new("app").unwrap();
    let permissions = vec!["tree write *".parse().unwrap()];
    admin.change_auth(AuthChange::SetRole { role: role.clone(), permissions }).await.unwrap();
    let web = AuthChange::SetSubject {
        subject: subject("web"),
        roles: vec![role],
        certificates: Vec::new(),
    };
    admin.change_auth(web).await.unwrap();
    let web = admin.issue_token(subject("web"), TokenLifetime::Default).await.unwrap().value.token;
    let (mut holder, mut other) = (node.client().await, node.client().await);
    assert_eq!(authenticate(&mut holder, &format!("ci:{}", token.reveal())).await, 0);
    assert_eq!(authenticate(&mut other, &format!("web:{}", web.reveal())).await, 0);
    holder.done(create("/locks/x", 0)).await;
    holder.done(create("/locks/x/lock-", 3)).await;
    let entry = "/locks/x/lock-0000000000";
    let acl = vec![Acl::open()];
    for request in [
        delete(entry, -1),
        set(entry, b"__REVOKE__", -1),
        Request::SetAcl { path: entry.to_owned(), acl: acl.clone(), version: -1 },
        Request::SetAcl { path: "/locks/x".to_owned(), acl, version: -1 },
    ] {
        assert_eq!(other.error(request.clone()).await, -102, "{request:?}");
    }
    holder.done(set(entry, b"mine", -1)).await;
    holder.done(delete(entry, -1)).await;
    other.done(delete("/locks/x", -1)).await;
}
