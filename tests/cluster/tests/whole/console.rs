//! The console of a real node: the login, the actions with and without the right, and calls of other sites.

use holdfast_lab::{Cluster, DEADLINE, Http, Method, Reply, Request};
use serde_json::Value;

/// A browser at one node.
struct Browser<'h> {
    http: &'h Http,
    /// `name=value`, separated by semicolons.
    cookies: String,
}

impl<'h> Browser<'h> {
    /// Opens the login, which gives the browser the secret of the forms.
    async fn open(http: &'h Http) -> Self {
        let mut browser = Self { http, cookies: String::new() };
        let page = browser.get("/ui/login").await;
        cookie(&page).clone_into(&mut browser.cookies);
        browser
    }

    async fn get(&self, target: &str) -> Reply {
        let headers = [("cookie", self.cookies.as_str()), ("accept", "text/html")];
        let request = Request::new(Method::GET, target).headers(&headers);
        self.http.send(request).await.expect("a reply")
    }

    async fn post(&self, target: &str, fields: &str, origin: &str) -> Reply {
        let secret =
            self.cookies.split(';').find_map(|pair| pair.trim().strip_prefix("holdfast-form="));
        let body = format!("form={}&{fields}", secret.unwrap_or_default());
        let headers = [
            ("cookie", self.cookies.as_str()),
            ("origin", origin),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let request = Request::new(Method::POST, target).headers(&headers).body(&body);
        self.http.send(request).await.expect("a reply")
    }

    async fn log_in(&mut self, token: &str) {
        let reply = self.post("/ui/login", &format!("token={token}"), self.http.base()).await;
        reply.assert_status(303);
        self.cookies = format!("{}; {}", self.cookies, cookie(&reply));
    }
}

/// The cookie that a reply sets, without its attributes.
fn cookie(reply: &Reply) -> &str {
    let set = reply.header("set-cookie").unwrap_or_else(|| panic!("no cookie: {reply}"));
    set.split(';').next().unwrap_or_default()
}

async fn call(http: &Http, method: Method, target: &str, token: &str) -> Reply {
    let credential = format!("Bearer {token}");
    let headers = [("authorization", credential.as_str())];
    http.send(Request::new(method, target).headers(&headers)).await.expect("a reply")
}

/// A cluster with the authorization on, the token of its administrator, and that of a reader of locks.
async fn with_authorization() -> (Cluster, String, String) {
    let cluster = Cluster::of(1).start().await;
    let node = cluster.node(1);
    let proof = node.prove_ownership();
    let target = format!("/v1/auth/bootstrap?subject=admin&mode=on&proof={proof}");
    let issued = node.http.post(&target).await.assert_status(201).json();
    let admin = issued["token"].as_str().expect("a token").to_owned();
    let set = |method, target: &'static str| call(&node.http, method, target, &admin);
    set(Method::PUT, "/v1/auth/subjects/eve?role=viewer").await.assert_status(204);
    let issued = set(Method::POST, "/v1/auth/tokens?subject=eve").await.assert_status(201).json();
    let viewer = issued["token"].as_str().expect("a token").to_owned();
    set(Method::PUT, "/v1/locks/orders?session=web3&ttl=10m").await.assert_status(200);
    (cluster, admin, viewer)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_logs_in_and_force_releases_a_lock_with_a_reason_in_the_audit_trail() {
    let (cluster, admin, _) = with_authorization().await;
    let http = &cluster.node(1).http;
    let mut browser = Browser::open(http).await;
    let page = browser.get("/ui/lock?name=orders").await;
    assert_eq!(page.assert_status(303).header("location"), Some("login?next=lock%3Fname%3Dorders"));

    let login = browser.post("/ui/login", &format!("token={admin}"), http.base()).await;
    let set = login.assert_status(303).header("set-cookie").expect("a cookie");
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    assert!(set.contains("Max-Age=28800") && !set.contains(&admin), "a derived token: {set}");
    browser.cookies = format!("{}; {}", browser.cookies, cookie(&login));

    let page = browser.get("/ui/lock?name=orders").await;
    page.assert_status(200).assert_body_contains("data-holder=\"web3\"");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    let token = http_token(http, &admin).await;
    let action = format!("do=force-release&name=orders&token={token}");
    browser
        .get(&format!("/ui/act?{action}"))
        .await
        .assert_status(200)
        .assert_body_contains("loses the lock");
    let done = browser.post("/ui/act", &format!("{action}&reason=host+is+down"), http.base()).await;
    let back = done.assert_status(303).header("location").expect("a link").to_owned();
    browser
        .get(&format!("/ui/{back}"))
        .await
        .assert_status(200)
        .assert_body_contains("Audit record");
    let trail = call(http, Method::GET, "/v1/audit?action=force-release", &admin).await.json();
    let record = &trail["records"][0];
    assert_eq!(
        (record["reason"].as_str(), record["subject"].as_str()),
        (Some("host is down"), Some("admin"))
    );
    assert!(back.ends_with(&format!("at={}", record["revision"])), "{back} {record}");

    let tokens = call(http, Method::GET, "/v1/auth/tokens", &admin).await.json();
    browser.post("/ui/logout", "", http.base()).await.assert_status(303);
    let left = call(http, Method::GET, "/v1/auth/tokens", &admin).await.json();
    assert_eq!(number(&left) + 1, number(&tokens), "the logout deletes the derived token");
    browser.get("/ui/").await.assert_status(303);
}

fn number(tokens: &Value) -> usize {
    tokens["tokens"].as_array().map_or(0, Vec::len)
}

/// The token of the present holder of `orders`.
async fn http_token(http: &Http, admin: &str) -> u64 {
    let lock = call(http, Method::GET, "/v1/locks/orders", admin).await.json();
    lock["holders"][0]["token"].as_u64().expect("a holder")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_sees_no_action_and_its_forged_form_is_refused() {
    let (cluster, admin, viewer) = with_authorization().await;
    let http = &cluster.node(1).http;
    let mut browser = Browser::open(http).await;
    browser.log_in(&viewer).await;
    let page = browser.get("/ui/lock?name=orders").await;
    page.assert_status(200).assert_body_contains("web3");
    assert!(!page.body.contains("act?") && !page.body.contains("policy-form"), "{page}");
    let fields =
        format!("do=force-release&name=orders&token={}&reason=x", http_token(http, &admin).await);
    let refused = browser.post("/ui/act", &fields, http.base()).await;
    refused.assert_status(403).assert_body_contains("data-code=\"forbidden\"");
    let lock = call(http, Method::GET, "/v1/locks/orders", &admin).await.json();
    assert_eq!(lock["held"], true, "{lock}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_of_other_sites_and_without_the_secret_change_nothing() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    let token = http.put("/v1/locks/orders?session=web3&ttl=10m").await.token();
    let fields = format!("do=force-release&name=orders&token={token}&reason=x");
    let browser = Browser::open(http).await;
    let foreign = browser.post("/ui/act", &fields, "http://evil.example").await;
    foreign.assert_status(403).assert_body_contains("foreign-site");
    let other =
        Browser { http, cookies: "holdfast-form=00112233445566778899aabbccddee00".to_owned() };
    let without = Browser { http, cookies: String::new() };
    without.post("/ui/act", &fields, http.base()).await.assert_status(403);
    http.get("/v1/locks/orders").await.assert_body_contains("web3");
    // The secret of the form and that of the cookie are the same, and the site is the node's.
    other.post("/ui/act", &fields, http.base()).await.assert_status(303);
    http.get("/v1/locks/orders").await.assert_body_contains("\"held\":false");
}

/// A waiter appears in the stream of an open page, and the API is as it is without a console.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_page_shows_a_new_waiter() {
    let cluster = Cluster::three().await;
    let http = &cluster.node(1).http;
    http.put("/v1/locks/orders?session=web1&ttl=10m").await.assert_status(200);
    let mut page =
        http.stream(Method::GET, "/ui/updates?page=lock&name=orders").await.expect("a stream");
    let waiter = cluster.node(2).http.clone();
    let waiting =
        tokio::spawn(
            async move { waiter.put("/v1/locks/orders?session=web2&ttl=10m&wait=60s").await },
        );
    let shown = async {
        while let Some(event) = page.next().await {
            if event.data.as_str().is_some_and(|html| html.contains("data-waiter=\"web2\"")) {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(DEADLINE, shown).await.expect("an event in time"));
    http.delete("/v1/locks/orders?session=web1").await.assert_status(204);
    waiting.await.expect("the waiter").assert_status(200);
    let root = http.get("/").await;
    assert_eq!((root.status, root.header("location")), (307, Some("/docs")));
}

/// `console.enabled = false` leaves only the API.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_console_has_no_pages() {
    let cluster = Cluster::of(1).extra("[console]\nenabled = false\n").start().await;
    let http = &cluster.node(1).http;
    http.get("/ui/").await.assert_code(404, "not-found");
}
