//! Nodes of the tree: raw bodies, conditional writes, kinds, lists, paths.

use serde_json::Value;

use crate::client::{Reply, call_with};
use crate::node::Node;

/// Sends a body that is a node's data.
async fn send(
    node: &Node,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    call_with(node.address, method, target, headers, body).await
}

async fn put(node: &Node, target: &str, body: &str) -> Reply {
    send(node, "PUT", target, &[], body).await
}

#[track_caller]
fn names(list: &Value, key: &str, name: &str) -> Vec<String> {
    let items = list[key].as_array().unwrap_or_else(|| panic!("no {key}: {list}"));
    items.iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_put_creates_or_replaces_a_node_and_a_get_returns_its_bytes() {
    let node = Node::start().await;
    let created = put(&node, "/v1/tree/cfg", r#"{"not":"looked at"}"#).await;
    assert_eq!((created.status, created.header("etag")), (201, Some("\"0\"")), "{created:?}");
    assert_eq!(created.header("location"), Some("/v1/tree/cfg"));
    let replaced = put(&node, "/v1/tree/cfg", "new").await;
    assert_eq!((replaced.status, replaced.header("etag")), (200, Some("\"1\"")), "{replaced:?}");
    let read = node.call("GET", "/v1/tree/cfg").await;
    assert_eq!((read.status, read.body.as_str()), (200, "new"));
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("etag", "\"1\""),
        ("holdfast-kind", "persistent"),
        ("holdfast-version", "1"),
        ("holdfast-children-version", "0"),
        ("holdfast-acl-version", "0"),
        ("holdfast-children", "0"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(read.header(name), Some(value), "{name} in {read:?}");
    }
    let stat = node.call("GET", "/v1/tree/cfg?stat").await.json();
    let number = |name: &str| read.header(name).unwrap().parse::<u64>().unwrap();
    assert_eq!(stat["created_revision"], number("holdfast-created-revision"));
    assert_eq!(stat["modified_revision"], number("holdfast-modified-revision"));
    assert!(number("holdfast-created-revision") < number("holdfast-modified-revision"));
    assert_eq!((&stat["path"], &stat["data_length"]), (&"/cfg".into(), &3.into()));
    let head = node.call("HEAD", "/v1/tree/cfg").await;
    assert_eq!(
        (head.status, head.body.as_str(), head.header("content-length")),
        (200, "", Some("3"))
    );
    assert_eq!(head.header("etag"), Some("\"1\""));
    let emptied = put(&node, "/v1/tree/cfg", "").await;
    assert_eq!((emptied.status, node.call("GET", "/v1/tree/cfg").await.body.as_str()), (200, ""));
}

#[tokio::test]
async fn a_change_can_depend_on_the_version() {
    let node = Node::start().await;
    let absent = [("If-None-Match", "*")];
    assert_eq!(send(&node, "PUT", "/v1/tree/a", &absent, "1").await.status, 201);
    let problem = send(&node, "PUT", "/v1/tree/a", &absent, "2").await.problem(409, "znode-exists");
    assert_eq!(problem["path"], "/a");
    let matching = [("If-Match", "\"0\"")];
    assert_eq!(send(&node, "PUT", "/v1/tree/a", &matching, "2").await.status, 200);
    let problem = send(&node, "PUT", "/v1/tree/a", &matching, "3").await;
    assert_eq!(problem.problem(412, "version-mismatch")["version"], 1);
    assert!(problem.json()["at"].is_null(), "a single operation has no index: {problem:?}");
    send(&node, "DELETE", "/v1/tree/a", &matching, "").await.problem(412, "version-mismatch");
    send(&node, "PUT", "/v1/tree/b", &matching, "x").await.problem(404, "not-found");
    send(&node, "PUT", "/v1/tree/b", &[("If-Match", "*")], "x").await.problem(404, "not-found");
    assert_eq!(send(&node, "PUT", "/v1/tree/a", &[("If-Match", "*")], "4").await.status, 200);
    assert_eq!(node.call("GET", "/v1/tree/a").await.body, "4");
    let gone = send(&node, "DELETE", "/v1/tree/a", &[("If-Match", "\"2\"")], "").await;
    assert_eq!((gone.status, gone.header("holdfast-deleted")), (204, Some("1")));
    node.call("GET", "/v1/tree/a").await.problem(404, "not-found");
    node.call("DELETE", "/v1/tree/a").await.problem(404, "not-found");
    for (headers, target) in [
        ([("If-Match", "7")], "/v1/tree/a"),
        ([("If-Match", "W/\"7\"")], "/v1/tree/a"),
        ([("If-None-Match", "\"7\"")], "/v1/tree/a"),
        ([("If-Match", "\"7\"")], "/v1/tree/a?container"),
    ] {
        send(&node, "PUT", target, &headers, "x").await.problem(400, "invalid-argument");
    }
    send(&node, "DELETE", "/v1/tree/a", &absent, "").await.problem(400, "invalid-argument");
}

#[tokio::test]
async fn exactly_one_of_many_concurrent_conditional_writes_succeeds() {
    let node = Node::start().await;
    for (headers, loser) in [(("If-None-Match", "*"), 409), (("If-Match", "\"0\""), 412)] {
        let address = node.address;
        let racers = (0..12).map(|n| {
            tokio::spawn(async move {
                call_with(address, "PUT", "/v1/tree/race", &[headers], &n.to_string()).await
            })
        });
        let mut won = Vec::new();
        for (n, racer) in racers.collect::<Vec<_>>().into_iter().enumerate() {
            match racer.await.unwrap() {
                reply if reply.status < 300 => won.push(n.to_string()),
                reply => assert_eq!(reply.status, loser, "{reply:?}"),
            }
        }
        assert_eq!(won, [node.call("GET", "/v1/tree/race").await.body]);
    }
}

#[tokio::test]
async fn sequential_names_increase_and_are_returned() {
    let node = Node::start().await;
    put(&node, "/v1/tree/q", "").await;
    let mut paths = Vec::new();
    for query in ["sequential&name=job-", "sequential", "sequential&name=job-"] {
        let created = send(&node, "POST", &format!("/v1/tree/q?{query}"), &[], "data").await;
        assert_eq!(created.status, 201, "{created:?}");
        let path = created.json()["path"].as_str().unwrap().to_owned();
        assert_eq!(created.header("location"), Some(format!("/v1/tree{path}").as_str()));
        paths.push(path);
    }
    assert_eq!(paths, ["/q/job-0000000000", "/q/0000000001", "/q/job-0000000002"]);
    assert_eq!(node.call("GET", "/v1/tree/q/job-0000000002").await.body, "data");
    let rooted = send(&node, "POST", "/v1/tree/?sequential&name=r", &[], "").await;
    assert!(rooted.json()["path"].as_str().unwrap().starts_with("/r00"), "{rooted:?}");
    let problem = send(&node, "POST", "/v1/tree/q", &[], "").await.problem(400, "invalid-argument");
    assert!(problem["hint"].as_str().unwrap().contains("?sequential"), "{problem}");
    send(&node, "POST", "/v1/tree/q?sequential&name=a/b", &[], "").await.problem(400, "bad-name");
    send(&node, "POST", "/v1/tree/none?sequential", &[], "").await.problem(404, "not-found");
    let made = send(&node, "POST", "/v1/tree/new/q?sequential&parents", &[], "").await;
    assert_eq!(made.status, 201, "{made:?}");
}

#[tokio::test]
async fn ephemerals_are_deleted_with_their_session_and_have_no_children() {
    let node = Node::start().await;
    let target = "/v1/tree/worker?ephemeral&session=me";
    put(&node, target, "").await.problem(410, "session-expired");
    node.call("PUT", "/v1/sessions/me").await;
    assert_eq!(put(&node, target, "here").await.status, 201);
    put(&node, target, "again").await.problem(409, "znode-exists");
    let stat = node.call("GET", "/v1/tree/worker?stat").await.json();
    assert_eq!(stat["kind"], "ephemeral");
    assert!(stat["session_number"].as_u64().is_some_and(|number| number > 0), "{stat}");
    put(&node, "/v1/tree/worker/x", "").await.problem(409, "ephemeral-parent");
    put(&node, "/v1/tree/w2?ephemeral", "").await.problem(400, "invalid-argument");
    let queued = send(&node, "POST", "/v1/tree/?sequential&ephemeral&session=me", &[], "").await;
    let queued = queued.header("location").unwrap().to_owned();
    node.call("DELETE", "/v1/sessions/me").await;
    node.call("GET", "/v1/tree/worker").await.problem(404, "not-found");
    node.call("GET", &queued).await.problem(404, "not-found");
}

#[tokio::test]
async fn the_kind_of_a_node_is_returned_and_can_be_set_only_at_its_creation() {
    let node = Node::start().await;
    assert_eq!(put(&node, "/v1/tree/c?container", "").await.status, 201);
    assert_eq!(put(&node, "/v1/tree/t?ttl=1h", "").await.status, 201);
    assert_eq!(node.call("GET", "/v1/tree/c").await.header("holdfast-kind"), Some("container"));
    let stat = node.call("GET", "/v1/tree/t?stat").await.json();
    assert_eq!((&stat["kind"], &stat["ttl_ms"]), (&"ttl".into(), &3_600_000.into()));
    put(&node, "/v1/tree/t?ttl=1h", "").await.problem(409, "znode-exists");
    put(&node, "/v1/tree/t?ttl=3600", "").await.problem(400, "bad-duration");
    put(&node, "/v1/tree/t2?ttl=1h&container", "").await.problem(400, "invalid-argument");
    assert_eq!(put(&node, "/v1/tree/t", "data").await.status, 200, "a plain PUT replaces");
}

#[tokio::test]
async fn lists_of_nodes_have_stats_and_are_returned_in_pages() {
    let node = Node::start().await;
    for path in ["d", "d/a", "d/b", "d/c", "d/b/x"] {
        assert_eq!(put(&node, &format!("/v1/tree/{path}"), path).await.status, 201);
    }
    let page = node.call("GET", "/v1/tree/d?children&limit=2").await.json();
    assert_eq!(names(&page, "children", "name"), ["a", "b"]);
    assert_eq!(page["children"][1]["children"], 1, "{page}");
    let next = page["next_page_token"].as_str().unwrap();
    let rest = node.call("GET", &format!("/v1/tree/d?children&limit=2&page_token={next}")).await;
    assert_eq!(names(&rest.json(), "children", "name"), ["c"]);
    assert!(rest.json()["next_page_token"].is_null());
    let page = node.call("GET", "/v1/tree/d?recursive&limit=3").await.json();
    let mut found = names(&page, "znodes", "path");
    let next = page["next_page_token"].as_str().unwrap();
    let rest = node.call("GET", &format!("/v1/tree/d?recursive&page_token={next}")).await.json();
    found.extend(names(&rest, "znodes", "path"));
    found.sort();
    assert_eq!(found, ["/d", "/d/a", "/d/b", "/d/b/x", "/d/c"]);
    let root = node.call("GET", "/v1/tree/?children").await.json();
    assert!(names(&root, "children", "name").contains(&"d".to_owned()), "{root}");
    assert_eq!(node.call("GET", "/v1/tree?children").await.json()["path"], "/");
    node.call("GET", "/v1/tree/none?children").await.problem(404, "not-found");
    node.call("GET", "/v1/tree/none?recursive").await.problem(404, "not-found");
    for query in
        ["stat&children", "limit=2", "children&limit=0", "cildren", "recursive&page_token=x"]
    {
        let reply = node.call("GET", &format!("/v1/tree/d?{query}")).await;
        assert_eq!(reply.status, 400, "{query}: {reply:?}");
    }
}

#[tokio::test]
async fn a_node_with_children_is_deleted_only_with_recursive() {
    let node = Node::start().await;
    for path in ["d", "d/a", "d/a/b"] {
        put(&node, &format!("/v1/tree/{path}"), "").await;
    }
    assert_eq!(node.call("DELETE", "/v1/tree/d").await.problem(409, "not-empty")["path"], "/d");
    let gone = node.call("DELETE", "/v1/tree/d?recursive").await;
    assert_eq!((gone.status, gone.header("holdfast-deleted")), (204, Some("3")), "{gone:?}");
    node.call("GET", "/v1/tree/d/a/b").await.problem(404, "not-found");
    node.call("DELETE", "/v1/tree/").await.problem(400, "bad-name");
    put(&node, "/v1/tree/x/y", "").await.problem(404, "not-found");
    assert_eq!(put(&node, "/v1/tree/x/y?parents", "").await.status, 201);
    assert_eq!(node.call("GET", "/v1/tree/x").await.status, 200);
}

#[tokio::test]
async fn paths_are_decoded_once_and_never_normalised() {
    let node = Node::start().await;
    for (target, path) in [
        ("/v1/tree/a%20b", "/a b"),
        ("/v1/tree/caf%C3%A9", "/café"),
        ("/v1/tree/a%2fx?parents", "/a/x"),
        ("/v1/tree/%252e%252e", "/%2e%2e"),
        ("/v1/tree/a+b", "/a+b"),
        ("/v1/tree/q%3F%23", "/q?#"),
    ] {
        let created = put(&node, target, "").await;
        assert_eq!((created.status, &created.json()["path"]), (201, &path.into()), "{target}");
        let location = created.header("location").unwrap().to_owned();
        assert_eq!(node.call("GET", &location).await.status, 200, "{location}");
    }
    let long = format!("/v1/tree/{}", "a".repeat(1_024));
    for target in [
        "/v1/tree/a/",
        "/v1/tree//a",
        "/v1/tree/a//b",
        "/v1/tree/..",
        "/v1/tree/a/../b",
        "/v1/tree/%2e%2e/a",
        "/v1/tree/./a",
        "/v1/tree/a%00",
        "/v1/tree/a%zz",
        "/v1/tree/%ff",
        &long,
    ] {
        for method in ["PUT", "GET", "DELETE"] {
            node.call(method, target).await.problem(400, "bad-name");
        }
    }
    assert_eq!(node.call("GET", "/v1/tree/").await.status, 200);
    assert_eq!(put(&node, "/v1/tree/", "root").await.status, 200);
    assert_eq!(node.call("GET", "/v1/tree").await.body, "root");
}

#[tokio::test]
async fn a_retry_with_the_same_request_id_gets_the_first_reply() {
    let node = Node::start().await;
    node.call("PUT", "/v1/sessions/me").await;
    put(&node, "/v1/tree/q", "").await;
    let post = "/v1/tree/q?sequential&session=me&request=1";
    let first = send(&node, "POST", post, &[], "x").await;
    let again = send(&node, "POST", post, &[], "x").await;
    assert_eq!(first.header("location"), again.header("location"), "{again:?}");
    let by_header = [("Idempotency-Key", "\"2\"")];
    for _ in 0..2 {
        let put = send(&node, "PUT", "/v1/tree/c?session=me", &by_header, "x").await;
        assert_eq!((put.status, put.header("etag")), (201, Some("\"0\"")), "{put:?}");
    }
    let large = "x".repeat(100_000);
    let key = [("Idempotency-Key", "3")];
    for turn in 0..2 {
        let put = send(&node, "PUT", "/v1/tree/large?session=me", &key, &large).await;
        assert_eq!((put.status, put.header("etag")), (201, Some("\"0\"")), "{turn}: {put:?}");
    }
    let key = [("Idempotency-Key", "4")];
    for turn in 0..2 {
        let put = send(&node, "PUT", "/v1/tree/large?session=me", &key, &large).await;
        assert_eq!((put.status, put.header("etag")), (200, Some("\"1\"")), "{turn}: {put:?}");
    }
    let anonymous =
        send(&node, "PUT", "/v1/tree/c", &key, "x").await.problem(400, "invalid-argument");
    assert_eq!(anonymous["parameter"], "session");
}

#[tokio::test]
async fn the_largest_node_is_accepted_and_one_byte_more_is_rejected() {
    let node = Node::start().await;
    let largest = "x".repeat(1_048_575);
    let created = put(&node, "/v1/tree/large", &largest).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(put(&node, "/v1/tree/large", &largest).await.status, 200);
    assert_eq!(node.call("GET", "/v1/tree/large").await.body.len(), 1_048_575);
    let problem = put(&node, "/v1/tree/large", &format!("{largest}x")).await;
    assert_eq!(problem.problem(413, "payload-too-large")["limit"], 1_048_575);
    assert_eq!(node.call("GET", "/v1/tree/large").await.header("etag"), Some("\"1\""));
}

#[tokio::test]
async fn a_stale_read_is_labelled_and_the_leader_serves_a_call_with_redirect() {
    let node = Node::start().await;
    put(&node, "/v1/tree/a", "x").await;
    let stale = node.call("GET", "/v1/tree/a?stale").await;
    assert!(stale.header("holdfast-applied-revision").is_some(), "{stale:?}");
    assert_eq!(node.call("GET", "/v1/tree/a?redirect").await.body, "x");
}
