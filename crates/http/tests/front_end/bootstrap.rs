//! The first administrator of a cluster that already works.

use crate::authorization::as_token;
use crate::node::Node;

#[tokio::test]
async fn the_first_administrator_does_not_end_the_holds_of_callers_without_a_credential() {
    let node = Node::holding("/v1/locks/job?session=worker").await;
    let added = node.bootstrap("").await.json();
    assert_eq!(
        (&added["mode"], &added["sessions_without_credential"]),
        (&"shadow".into(), &1.into())
    );
    assert_eq!(node.call("POST", "/v1/sessions/worker/keepalive").await.status, 200);
    let admin = added["token"].as_str().unwrap();
    let status = as_token(&node, admin, "GET", "/v1/auth", "").await.json();
    assert_eq!(status["sessions_without_credential"], 1);
    // A znode ends with its session, too.
    let znode = Node::start().await;
    znode.call("PUT", "/v1/sessions/worker").await;
    let create = "/v1/tree/member?ephemeral&session=worker";
    assert_eq!(znode.call("PUT", create).await.status, 201);
    let added = znode.bootstrap("").await.json();
    assert_eq!(added["mode"], "shadow");
    // A session that holds nothing has nothing to lose.
    let free = Node::start().await;
    free.call("PUT", "/v1/sessions/idle").await;
    let added = free.bootstrap("").await.json();
    assert_eq!((&added["mode"], &added["sessions_without_credential"]), (&"on".into(), &0.into()));
}

/// Neither a program of another user of the machine nor a web page can read the data directory.
#[tokio::test]
async fn only_the_owner_of_the_data_directory_adds_the_first_administrator() {
    let node = Node::start().await;
    let bootstrap = "/v1/auth/bootstrap";
    let missing = node.call("POST", bootstrap).await.problem(400, "invalid-argument");
    assert!(missing["detail"].as_str().unwrap().contains("proof"), "{missing}");
    let guess = format!("{bootstrap}?proof={}", "0".repeat(64));
    for proof in ["", "short"] {
        std::fs::write(node.data_dir().join("owner-proof"), proof).unwrap();
        let refused = node.call("POST", &guess).await.problem(403, "forbidden");
        assert!(refused["hint"].as_str().unwrap().contains("holdfast auth bootstrap"), "{refused}");
        let short = format!("{bootstrap}?proof=short");
        node.call("POST", &short).await.problem(403, "forbidden");
    }
    node.prove_ownership();
    node.call("POST", &guess).await.problem(403, "forbidden");
    assert_eq!(node.bootstrap("&mode=on").await.status, 201);
    assert!(!node.data_dir().join("owner-proof").exists(), "a proof is used once");
    node.call("POST", &guess).await.problem(409, "has-administrator");
}
