//! Invalid names, and valid names that look invalid.

use crate::node::Node;

async fn assert_rejected(words: &str, targets: &[&str]) {
    let node = Node::start().await;
    for target in targets {
        for (method, query) in [("PUT", ""), ("GET", ""), ("DELETE", "?session=me")] {
            let problem =
                node.call(method, &format!("{target}{query}")).await.problem(400, "bad-name");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(words), "{method} {target}: {problem}");
        }
    }
    let listed = node.call("GET", "/v1/locks").await.json();
    assert_eq!(listed["locks"].as_array().unwrap().len(), 0, "{listed}");
}

#[tokio::test]
async fn an_empty_lock_name_is_rejected() {
    assert_rejected("empty", &["/v1/locks/", "/v1/locks//"]).await;
}

#[tokio::test]
async fn a_lock_name_that_is_too_long_is_rejected() {
    let long = format!("/v1/locks/{}", "a".repeat(513));
    assert_rejected("512", &[&long]).await;
    let node = Node::start().await;
    node.take(&format!("/v1/locks/{}?session=me", "a".repeat(512))).await;
}

#[tokio::test]
async fn control_characters_in_a_lock_name_are_rejected() {
    let names = ["/v1/locks/a%00b", "/v1/locks/a%0ab", "/v1/locks/a%7f", "/v1/locks/%C2%85"];
    assert_rejected("control", &names).await;
}

#[tokio::test]
async fn dot_components_of_a_lock_name_are_rejected_and_never_normalised() {
    let names = [
        "/v1/locks/..",
        "/v1/locks/../cluster",
        "/v1/locks/a/../b",
        "/v1/locks/a/..",
        "/v1/locks/./a",
        "/v1/locks/%2e%2e/a",
        "/v1/locks/a%2f..%2fb",
        "/v1/locks/a/%2E/b",
    ];
    assert_rejected("'.' or '..'", &names).await;
}

#[tokio::test]
async fn empty_components_of_a_lock_name_are_rejected() {
    assert_rejected("empty", &["/v1/locks/a//b", "/v1/locks//a", "/v1/locks/a/", "/v1/locks/%2fa"])
        .await;
}

#[tokio::test]
async fn invalid_escapes_and_names_that_are_not_utf8_are_rejected() {
    assert_rejected("%", &["/v1/locks/a%", "/v1/locks/%zz"]).await;
    let names = ["/v1/locks/%ff", "/v1/locks/%c3%28", "/v1/locks/%ed%a0%80"];
    assert_rejected("UTF-8", &names).await;
}

#[tokio::test]
async fn lock_names_are_decoded_exactly_once_and_an_encoded_slash_is_a_slash() {
    let node = Node::start().await;
    let token = node.take("/v1/locks/shop%2Forders?session=me").await;
    let read = node.call("GET", "/v1/locks/shop/orders").await.json();
    assert_eq!(read["lock"], "shop/orders");
    assert_eq!(read["last_token"], token);
    node.take("/v1/locks/a%252e%252e?session=me").await;
    assert_eq!(node.call("GET", "/v1/locks/a%252e%252e").await.json()["lock"], "a%2e%2e");
    node.take("/v1/locks/caf%C3%A9%20%E6%BC%A2?session=me").await;
    assert_eq!(
        node.call("GET", "/v1/locks?prefix=caf").await.json()["locks"][0]["lock"],
        "café 漢"
    );
    node.take("/v1/locks/a+b?session=me").await;
    assert_eq!(node.call("GET", "/v1/locks/a%2Bb").await.json()["held"], true);
}

#[tokio::test]
async fn invalid_sessions_owners_attempts_and_label_keys_are_rejected() {
    let node = Node::start().await;
    let long = "a".repeat(257);
    for (id, words) in
        [("a%2Fb", "'/'"), ("a%20b", "white space"), ("%00", "control"), (long.as_str(), "256")]
    {
        node.call("PUT", &format!("/v1/sessions/{id}")).await.problem(400, "bad-name");
        let problem = node.call("PUT", &format!("/v1/locks/a?session={id}")).await;
        let problem = problem.problem(400, "bad-name");
        assert_eq!(problem["parameter"], "session");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{id}: {problem}");
    }
    node.call("PUT", "/v1/sessions/").await.problem(400, "bad-name");
    node.call("PUT", "/v1/locks/a?session=me&owner=a%20b").await.problem(400, "bad-name");
    node.call("GET", "/v1/fence/..?token=1").await.problem(400, "bad-name");
    let labels = (0..17).map(|i| format!("label.k{i}=v")).collect::<Vec<_>>().join("&");
    let many = node.call("PUT", &format!("/v1/locks/a?session=me&{labels}")).await;
    assert!(many.problem(400, "bad-name")["detail"].as_str().unwrap().contains("16"));
    let attempt = node.call("PUT", "/v1/locks/a?session=me&attempt=a%2Fb").await;
    attempt.problem(400, "invalid-argument");
    node.call("PUT", "/v1/locks/a?session=me&label.a%20b=c").await.problem(400, "bad-name");
}

#[tokio::test]
async fn a_lock_name_below_a_held_lock_does_not_affect_that_lock() {
    let node = Node::holding("/v1/locks/a?session=me").await;
    let below = node.call("PUT", "/v1/locks/a/b?session=me").await;
    assert_eq!(below.status, 200, "{below:?}");
    assert_eq!(node.call("GET", "/v1/locks/a").await.json()["waiters"], 0);
}
