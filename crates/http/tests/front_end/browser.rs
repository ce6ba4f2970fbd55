//! Calls that a browser sends for the page of another site, and calls for another host: every call is refused.

use holdfast_http::HttpConfig;
use holdfast_service::ServiceConfig;

use crate::authorization::{as_token, example, guard};
use crate::client::{Reply, raw};
use crate::described::operations;
use crate::node::Node;

/// The headers of a call, and whether a node without authorization refuses it.
type Row = (&'static [&'static str], bool);

/// `PORT` is the port of the node.
const ROWS: [Row; 30] = [
    // Programs.
    (&["Host: localhost:PORT"], false),
    (&["Host: LOCALHOST:PORT"], false),
    (&["Host: node.localhost"], false),
    (&["Host: 127.0.0.1:PORT"], false),
    (&["Host: 127.8.0.1"], false),
    (&["Host: [::1]:PORT"], false),
    // The node's own page.
    (&["Host: localhost:PORT", "Sec-Fetch-Site: none"], false),
    (&["Host: localhost:PORT", "Sec-Fetch-Site: same-origin"], false),
    (&["Host: localhost:PORT", "Origin: http://localhost:PORT"], false),
    (
        &["Host: localhost:PORT", "Origin: http://localhost:PORT", "Sec-Fetch-Site: same-origin"],
        false,
    ),
    // The page of a site whose name resolves to the address of the node.
    (&["Host: rebind.evil.example"], true),
    (&["Host: rebind.evil.example:PORT"], true),
    (&["Host: localhost.evil.example"], true),
    (&["Host: 127.0.0.1.evil.example"], true),
    (&["Host: evil.example", "Origin: http://evil.example"], true),
    (&["Host: evil.example", "Origin: http://evil.example", "Sec-Fetch-Site: same-origin"], true),
    (&["Host: 192.0.2.7:PORT"], true),
    (&["Host: 0.0.0.0:PORT"], true),
    (&["Host: user@localhost"], true),
    (&["Host: localhost:x"], true),
    (&["Host:"], true),
    // The page of another site.
    (&["Host: localhost:PORT", "Origin: http://evil.example"], true),
    (&["Host: localhost:PORT", "Origin: null"], true),
    (&["Host: localhost:PORT", "Origin: http://localhost:1"], true),
    (&["Host: localhost:PORT", "Origin: http://127.0.0.1:PORT"], true),
    (&["Host: localhost:PORT", "Origin: file://localhost:PORT"], true),
    (&["Host: localhost:PORT", "Sec-Fetch-Site: cross-site"], true),
    (&["Host: localhost:PORT", "Sec-Fetch-Site: same-site"], true),
    (&["Host: localhost:PORT", "Sec-Fetch-Site: unknown"], true),
    (
        &["Host: localhost:PORT", "Sec-Fetch-Site: cross-site", "Origin: http://localhost:PORT"],
        true,
    ),
];

/// Sends a call with exactly these headers; the target may name a host.
async fn send(node: &Node, (method, target, body): (&str, &str, &str), headers: &[&str]) -> Reply {
    let port = node.address.port().to_string();
    let headers = headers.join("\r\n").replace("PORT", &port);
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\n{headers}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    raw(node.address, request.as_bytes()).await
}

fn is_refused(reply: &Reply) -> bool {
    reply.status == 403 && reply.json()["code"] == "foreign-site"
}

/// The example of every call that the description has, and calls that it does not have.
fn every_call() -> Vec<(String, String, String)> {
    let others =
        [("OPTIONS", "/v1/locks/a"), ("POST", "/nowhere"), ("GET", "/"), ("HEAD", "/docs")];
    let others =
        others.map(|(method, target)| (method.to_owned(), target.to_owned(), String::new()));
    operations().map(|(.., operation)| example(operation)).chain(others).collect()
}

#[tokio::test]
async fn every_call_of_a_page_of_another_site_is_refused_and_does_nothing() {
    let node = Node::start().await;
    let mut wrong = Vec::new();
    for (method, target, body) in every_call() {
        for (headers, refused) in ROWS {
            if refused {
                let reply = send(&node, (&method, &target, &body), headers).await;
                // The answer to HEAD has no body.
                let is_refused =
                    if method == "HEAD" { reply.status == 403 } else { is_refused(&reply) };
                if !is_refused {
                    wrong.push(format!("{method} {target} {headers:?}: {reply:?}"));
                }
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    for (target, items) in [("/v1/sessions", "sessions"), ("/v1/locks", "locks")] {
        assert_eq!(node.call("GET", target).await.json()[items], serde_json::json!([]), "{target}");
    }
    assert_eq!(node.bootstrap("").await.status, 201, "no page has added an administrator");
}

#[tokio::test]
async fn programs_and_the_nodes_own_pages_are_not_refused() {
    let node = Node::start().await;
    for (headers, refused) in ROWS {
        for (method, target) in [
            ("GET", "/docs"),
            ("GET", "/livez"),
            ("PUT", "/v1/locks/a?session=me"),
            ("GET", "/v1/locks/a"),
        ] {
            let reply = send(&node, (method, target, ""), headers).await;
            assert_eq!(is_refused(&reply), refused, "{method} {target} {headers:?}: {reply:?}");
            assert!(refused || reply.status == 200, "{method} {target} {headers:?}: {reply:?}");
        }
    }
    let http_1_0 = raw(node.address, b"GET /livez HTTP/1.0\r\n\r\n").await;
    assert_eq!(http_1_0.status, 200, "HAProxy's health check has no Host");
}

#[tokio::test]
async fn a_host_in_the_target_counts_as_well() {
    let node = Node::start().await;
    let host = &["Host: localhost:PORT"];
    let own = format!("http://127.0.0.1:{}/v1/locks/a", node.address.port());
    assert_eq!(send(&node, ("GET", &own, ""), host).await.status, 200);
    for target in ["http://evil.example/v1/locks/a", "https://evil.example:7400/v1/locks/a"] {
        assert!(is_refused(&send(&node, ("GET", target, ""), host).await), "{target}");
    }
}

#[tokio::test]
async fn a_refusal_names_the_header_and_the_fix() {
    let node = Node::start().await;
    for (headers, detail, hint) in [
        (&["Host: evil.example"][..], "\"evil.example\"", "http.hosts"),
        (&["Host: localhost", "Origin: http://evil.example"], "\"http://evil.example\"", "Origin"),
        (&["Host: localhost", "Sec-Fetch-Site: cross-site"], "Sec-Fetch-Site", "from a program"),
    ] {
        let reply = send(&node, ("POST", "/v1/force-releases/a?reason=x", ""), headers).await;
        let problem = reply.problem(403, "foreign-site");
        assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains(hint), "{problem}");
    }
}

#[tokio::test]
async fn configured_names_are_names_of_the_node() {
    let hosts = vec!["locks.example".to_owned()];
    let config = HttpConfig { hosts, ..HttpConfig::default() };
    let node = Node::start_with(config, ServiceConfig::default()).await;
    let call = ("GET", "/v1/locks/a", "");
    for headers in [
        &["Host: Locks.example:8400"][..],
        &["Host: locks.example", "Origin: https://locks.example"],
        &["Host: 127.0.0.1", "Origin: https://locks.example"],
    ] {
        assert_eq!(send(&node, call, headers).await.status, 200, "{headers:?}");
    }
    for headers in [
        &["Host: evil.example"][..],
        &["Host: locks.example", "Origin: https://evil.example"],
        &["Host: locks.example", "Sec-Fetch-Site: cross-site"],
    ] {
        assert!(is_refused(&send(&node, call, headers).await), "{headers:?}");
    }
    let config = HttpConfig { hosts: vec!["*".to_owned()], ..HttpConfig::default() };
    let node = Node::start_with(config, ServiceConfig::default()).await;
    assert_eq!(send(&node, call, &["Host: any.example"]).await.status, 200);
    let other = &["Host: any.example", "Origin: http://other.example"];
    assert!(is_refused(&send(&node, call, other).await));
}

/// Without TLS and authorization, on an address that other machines reach: names are unknown, addresses are safe.
#[tokio::test]
async fn an_open_node_accepts_addresses_and_names_of_members() {
    let config = HttpConfig { listens_on_loopback: false, ..HttpConfig::default() };
    let node = Node::start_with(config, ServiceConfig::default()).await;
    let call = ("GET", "/v1/locks/a", "");
    for host in
        ["Host: 192.0.2.7:7400", "Host: [2001:db8::7]", "Host: 127.0.0.1", "Host: localhost"]
    {
        assert_eq!(send(&node, call, &[host]).await.status, 200, "{host}");
    }
    assert!(is_refused(&send(&node, call, &["Host: evil.example"]).await));
}

/// A browser sends a client certificate by itself, but no access token.
#[tokio::test]
async fn with_authorization_any_host_names_the_node_and_pages_of_other_sites_are_still_refused() {
    let node = Node::start().await;
    let tokens = guard(&node).await;
    let token = format!("Authorization: Bearer {}", tokens.admin);
    let call = ("GET", "/v1/locks/a", "");
    assert_eq!(send(&node, call, &["Host: lb.example", &token]).await.status, 200);
    for header in ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        let reply = send(&node, call, &["Host: lb.example", &token, header]).await;
        assert!(is_refused(&reply), "{header}: {reply:?}");
    }
    // A page whose site resolves to the node would have the permissions of callers without a credential.
    let role = r#"{"permission":["lock read *"]}"#;
    let set = as_token(&node, &tokens.admin, "PUT", "/v1/auth/roles/anonymous", role).await;
    assert_eq!(set.status, 204, "{set:?}");
    assert!(is_refused(&send(&node, call, &["Host: lb.example"]).await));
    assert_eq!(send(&node, call, &["Host: localhost"]).await.status, 200);
}

#[tokio::test]
async fn no_page_can_show_a_page_of_a_node_and_no_response_is_sniffed() {
    let node = Node::start().await;
    let html = &["Host: localhost", "Accept: text/html"];
    for target in ["/docs", "/errors/forbidden"] {
        let page = send(&node, ("GET", target, ""), html).await;
        assert!(page.header("content-type").unwrap().starts_with("text/html"), "{page:?}");
        let policy = page.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "form-action 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{target}: {policy}");
        }
        assert_eq!(page.header("x-frame-options"), Some("DENY"));
    }
    for (method, target) in
        [("GET", "/docs"), ("GET", "/nowhere"), ("POST", "/v1/txn"), ("GET", "/livez")]
    {
        let reply = send(&node, (method, target, ""), html).await;
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{target}: {reply:?}");
    }
    let refused = send(&node, ("GET", "/docs", ""), &["Host: evil.example"]).await;
    assert_eq!(refused.header("x-content-type-options"), Some("nosniff"));
}
