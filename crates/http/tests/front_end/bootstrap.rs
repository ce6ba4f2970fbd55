//! The first administrator of a cluster that already works.

use crate::authorization::as_token;
use crate::node::Node;

#[tokio::test]
async fn the_first_administrator_does_not_end_the_holds_of_callers_without_a_credential() {
    let node = Node::start().await;
    node.take("/v1/locks/job?session=worker").await;
    let added = node.call("POST", "/v1/auth/bootstrap").await.json();
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
    let added = znode.call("POST", "/v1/auth/bootstrap").await.json();
    assert_eq!(added["mode"], "shadow");
    // A session that holds nothing has nothing to lose.
    let free = Node::start().await;
    free.call("PUT", "/v1/sessions/idle").await;
    let added = free.call("POST", "/v1/auth/bootstrap").await.json();
    assert_eq!((&added["mode"], &added["sessions_without_credential"]), (&"on".into(), &0.into()));
}
