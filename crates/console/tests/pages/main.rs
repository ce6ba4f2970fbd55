//! Pages and actions of the console before a stub of the API.

mod live;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    AUTHORIZATION, CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE,
};
use axum::http::{Extensions, Method, Response, StatusCode};
use holdfast_console::{ConsoleSettings, router};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::Service as _;

/// Calls that the stub received: method, path with query, and `Authorization`.
type Calls = Arc<Mutex<Vec<(Method, String, Option<String>)>>>;

/// A console before an API that gives fixed replies, and none about the lock `slow`.
struct Stub {
    router: Router,
    calls: Calls,
    /// The leader that each reply names; none if 0.
    leader: Arc<AtomicU64>,
    _stop: tokio::sync::watch::Sender<bool>,
}

impl Stub {
    fn new(reply: impl Fn(&Method, &str) -> (u16, Value) + Clone + Send + Sync + 'static) -> Self {
        let calls = Calls::default();
        let leader = Arc::new(AtomicU64::new(2));
        let (seen, named) = (calls.clone(), leader.clone());
        let api = Router::new().fallback(move |request: Request| {
            let target = request.uri().path_and_query().expect("a path").to_string();
            let credential = request.headers().get(AUTHORIZATION);
            let credential = credential.map(|value| value.to_str().expect("text").to_owned());
            seen.lock().push((request.method().clone(), target.clone(), credential));
            let (status, body) = reply(request.method(), &target);
            let response = Response::builder().status(status);
            let response = response.header("holdfast-node", "1").header("holdfast-revision", "77");
            let leader = Some(named.load(Ordering::SeqCst)).filter(|leader| *leader > 0);
            let response =
                leader.into_iter().fold(response, |r, id| r.header("holdfast-leader", id));
            let response = response.body(Body::from(body.to_string())).expect("a response");
            async move {
                if target.contains("/slow") {
                    std::future::pending::<()>().await;
                }
                response
            }
        });
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let address = |extensions: &Extensions| extensions.get().copied();
        let router = router(api, ConsoleSettings { has_tls: |_| false, address, stopping });
        Self { router, calls, leader, _stop: stop }
    }

    async fn send(&self, request: Request) -> Response<Body> {
        self.router.clone().call(request).await.unwrap()
    }

    async fn get(&self, target: &str) -> (StatusCode, String) {
        self.get_as(target, "").await
    }

    async fn get_as(&self, target: &str, cookies: &str) -> (StatusCode, String) {
        let request = Request::get(target).header(HOST, "node1:7400").header(COOKIE, cookies);
        let response = self.send(request.body(Body::empty()).expect("a request")).await;
        (response.status(), text(response).await)
    }

    /// The changes that the API received.
    fn changes(&self) -> Vec<String> {
        let calls = self.calls.lock();
        let changes = calls.iter().filter(|(method, ..)| *method != Method::GET);
        changes.map(|(method, target, _)| format!("{method} {target}")).collect()
    }
}

async fn text(response: Response<Body>) -> String {
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

const SECRET: &str = "00112233445566778899aabbccddeeff";

/// A form of the console, with the secret of its cookie.
fn form(target: &str, fields: &str) -> Request {
    Request::post(target)
        .header(HOST, "node1:7400")
        .header(ORIGIN, "http://node1:7400")
        .header(COOKIE, format!("holdfast-form={SECRET}; holdfast=given.hf_token"))
        .body(Body::from(format!("form={SECRET}&{fields}")))
        .expect("a request")
}

fn caller(mode: &str, credential: &str) -> Value {
    json!({ "subject": "ops", "credential": credential, "token": "0123456789abc", "roles": [], "mode": mode })
}

fn problem(code: &str, status: u16) -> (u16, Value) {
    let body = json!({ "type": "/errors/x", "title": "Refused", "status": status, "code": code,
        "retryable": true, "detail": "<because>", "hint": "do that" });
    (status, body)
}

fn one_lock() -> Value {
    json!({ "lock": "a/b", "mode": "exclusive", "held": true, "holders_total": 1, "waiters": 1,
        "holders": [{ "session": "<imgsrc=x>", "token": 7, "held_for_ms": 65000, "hold_count": 1, "labels": {} }],
        "queue": [{ "session": "web1", "ticket": 9, "waiting_for_ms": 3000, "labels": {} }],
        "last_token": 7, "blocked_by": [], "revision": 77 })
}

/// The API of a reader with a mode; `may` says which permissions it has.
fn api(
    mode: &'static str,
    may: fn(&str) -> bool,
) -> impl Fn(&Method, &str) -> (u16, Value) + Clone + Send + Sync {
    move |method, target| match (method.as_str(), target.split('?').next().unwrap_or_default()) {
        ("GET", "/v1/auth/me") => {
            let credential = if mode == "on" { "access-token" } else { "none" };
            (200, caller(mode, credential))
        }
        ("GET", "/v1/auth/can") => (200, json!({ "allowed": may(target), "asked": "x" })),
        ("GET", "/v1/locks") => (200, json!({ "locks": [], "revision": 77 })),
        ("GET", "/v1/locks/a/b") => (200, one_lock()),
        ("GET", "/v1/history/a/b") => (
            200,
            json!({ "lock": "a/b", "holds": [], "complete_since_revision": 0, "revision": 77 }),
        ),
        ("GET", "/v1/cluster") => problem("forbidden", 403),
        ("GET", "/v1/alarms") => (200, json!({ "alarms": [], "unreachable": [] })),
        ("POST", "/v1/force-releases/a/b") => {
            (200, json!({ "lock": "a/b", "ended": 1, "revision": 77 }))
        }
        _ => problem("not-found", 404),
    }
}

#[tokio::test]
async fn a_browser_is_led_to_the_console_and_a_program_to_the_api() {
    let stub = Stub::new(api("off", |_| false));
    let browser = Request::get("/").header("accept", "text/html,*/*").body(Body::empty()).unwrap();
    let response = stub.send(browser).await;
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    assert_eq!(response.headers()[LOCATION], "ui/");
    let program = Request::get("/").header("accept", "*/*").body(Body::empty()).unwrap();
    assert_eq!(stub.send(program).await.status(), StatusCode::NOT_FOUND);
    let other = Request::get("/v1/alarms").body(Body::empty()).unwrap();
    assert_eq!(stub.send(other).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_page_has_a_strict_policy_only_relative_links_and_no_inline_script_or_style() {
    let stub = Stub::new(api("off", |_| false));
    for target in ["/ui/", "/ui/locks", "/ui/lock?name=a/b", "/ui/login", "/ui/none"] {
        let request = Request::get(target).header(HOST, "node1:7400").body(Body::empty()).unwrap();
        let response = stub.send(request).await;
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        let page = text(response).await;
        for outside in ["href=\"/", "action=\"/", "src=\"/", "href=\"http", "style=", "onclick"] {
            assert!(!page.contains(outside), "{target} has {outside}");
        }
        assert_eq!(page.matches("<script").count(), 1, "{target}");
        assert_eq!(page.matches("<h1>").count(), 1, "{target}");
        assert_eq!(page.matches("<main").count(), 1, "{target}");
    }
}

#[tokio::test]
async fn without_authorization_a_page_warns_and_needs_no_login() {
    let stub = Stub::new(api("off", |_| false));
    let (status, page) = stub.get("/ui/").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("role=\"alert\"") && page.contains("Authorization is off"), "{page}");
    assert!(page.contains("curl -sS -X PUT 'http://node1:7400/v1/locks/hello?ttl=10m'"), "{page}");
    let (_, page) = Stub::new(api("on", |_| false)).get("/ui/").await;
    assert!(!page.contains("Authorization is off") && page.contains("Log out"), "{page}");
}

#[tokio::test]
async fn a_reader_without_a_credential_is_led_to_the_login_and_back() {
    let stub = Stub::new(|_, _| problem("unauthenticated", 401));
    let request = Request::get("/ui/lock?name=a%2Fb").body(Body::empty()).unwrap();
    let response = stub.send(request).await;
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    assert_eq!(response.headers()[LOCATION], "login?next=lock%3Fname%3Da%252Fb");
    let (_, page) = stub.get("/ui/login?next=lock%3Fname%3Da%252Fb").await;
    assert!(page.contains("value=\"lock?name=a%2Fb\""), "{page}");
    let (_, page) = stub.get("/ui/login?next=%2F%2Fevil.example%2F").await;
    assert!(!page.contains("evil"), "{page}");
}

#[tokio::test]
async fn a_login_keeps_a_derived_token_where_the_api_creates_one() {
    for (creates, expected) in
        [(true, "holdfast=derived.hf_new; "), (false, "holdfast=given.hf_old; ")]
    {
        let stub = Stub::new(move |method, target| match (method.as_str(), target) {
            ("GET", _) => (200, caller("on", "access-token")),
            ("POST", target) if creates => {
                assert_eq!(target, "/v1/auth/tokens?subject=ops&ttl=8h");
                (201, json!({ "token": "hf_new", "id": "0123456789abc", "subject": "ops" }))
            }
            _ => problem("forbidden", 403),
        });
        let response = stub.send(form("/ui/login", "token=hf_old&next=locks")).await;
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        assert_eq!(response.headers()[LOCATION], "locks");
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap();
        assert!(cookie.starts_with(expected), "{cookie}");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        assert_eq!(stub.calls.lock()[0].2.as_deref(), Some("Bearer hf_old"));
    }
    let stub = Stub::new(|_, _| problem("unauthenticated", 401));
    let response = stub.send(form("/ui/login", "token=wrong")).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert!(!response.headers().contains_key(SET_COOKIE));
    assert!(text(response).await.contains("&lt;because&gt;"));
}

#[tokio::test]
async fn a_logout_deletes_only_a_derived_token() {
    let stub = Stub::new(|method, _| {
        if *method == Method::GET { (200, caller("on", "access-token")) } else { (200, json!({})) }
    });
    let response = stub.send(form("/ui/logout", "")).await;
    assert!(response.headers()[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(stub.changes(), [""; 0]);
    let mut request = form("/ui/logout", "");
    let cookies = format!("holdfast-form={SECRET}; holdfast=derived.hf_token");
    request.headers_mut().insert(COOKIE, cookies.parse().unwrap());
    stub.send(request).await;
    assert_eq!(stub.changes(), ["DELETE /v1/auth/tokens/0123456789abc"]);
}

#[tokio::test]
async fn a_logout_removes_the_cookie_also_if_the_token_cannot_be_deleted() {
    for (code, status) in [("forbidden", 403), ("no-leader", 503)] {
        let stub = Stub::new(move |method, _| {
            let reads = *method == Method::GET;
            if reads { (200, caller("on", "access-token")) } else { problem(code, status) }
        });
        let mut request = form("/ui/logout", "");
        let cookies = format!("holdfast-form={SECRET}; holdfast=derived.hf_token");
        request.headers_mut().insert(COOKIE, cookies.parse().unwrap());
        let response = stub.send(request).await;
        let cookie = response.headers().get(SET_COOKIE).expect("a cookie").to_str().unwrap();
        assert!(cookie.starts_with("holdfast=;") && cookie.contains("Max-Age=0"), "{cookie}");
        let page = text(response).await;
        assert!(page.contains(code) && page.contains("valid until it expires"), "{page}");
    }
}

#[tokio::test]
async fn a_viewer_sees_no_action_and_an_operator_does() {
    let (_, page) = Stub::new(api("on", |_| false)).get("/ui/lock?name=a/b").await;
    assert!(page.contains("&lt;imgsrc=x&gt;") && !page.contains("<img"), "{page}");
    assert!(!page.contains("act?") && !page.contains("action=\"act\""), "{page}");
    let operator = Stub::new(api("on", |asked| asked.contains("force-release")));
    let (_, page) = operator.get("/ui/lock?name=a/b").await;
    assert!(page.contains("act?do=force-release&amp;name=a%2Fb&amp;token=7"), "{page}");
    assert!(!page.contains("do=request-release") && !page.contains("policy-form"), "{page}");
    let asked = operator.calls.lock();
    assert!(asked.iter().any(|(_, target, _)| target.contains("lock%20force-release%20a%2Fb")));
}

#[tokio::test]
async fn an_action_shows_its_effect_then_sends_one_call_with_the_reason() {
    let stub = Stub::new(api("off", |_| true));
    let (status, page) = stub.get("/ui/act?do=force-release&name=a/b&token=7").await;
    assert_eq!(status, StatusCode::OK);
    let effect = page.find("loses the lock").unwrap();
    assert!(
        page.contains("Next holder: <bdi>web1</bdi>")
            && effect < page.find("<button type=\"submit\" class=\"danger\"").unwrap()
    );
    assert!(
        page.contains(
            "curl -sS -X POST 'http://node1:7400/v1/force-releases/a/b?token=7&amp;reason=WHY'"
        ),
        "{page}"
    );
    assert_eq!(stub.changes(), [""; 0], "nothing is changed by the first page");

    let response = stub.send(form("/ui/act", "do=force-release&name=a/b&token=7&reason=")).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert!(text(response).await.contains("the reason is missing"));
    assert_eq!(stub.changes(), [""; 0]);

    let fields = "do=force-release&name=a/b&token=7&reason=host+is+down";
    let response = stub.send(form("/ui/act", fields)).await;
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    assert_eq!(response.headers()[LOCATION], "lock?name=a%2Fb&done=force-release&at=77");
    assert_eq!(stub.changes(), ["POST /v1/force-releases/a/b?token=7&reason=host%20is%20down"]);
    let (_, page) = stub.get("/ui/lock?name=a%2Fb&done=force-release&at=77").await;
    assert!(page.contains("Done: force release") && page.contains("audit?revision=77"), "{page}");
}

#[tokio::test]
async fn a_token_that_the_page_showed_and_that_is_gone_ends_no_later_hold() {
    let stub = Stub::new(api("off", |_| true));
    let fields = "do=force-release&name=a/b&token=6&reason=x";
    let response = stub.send(form("/ui/act", fields)).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(stub.changes(), [""; 0]);
}

#[tokio::test]
async fn a_name_that_ends_with_a_space_is_another_lock_and_another_znode() {
    let stub = Stub::new(api("off", |_| true));
    stub.get("/ui/lock?name=a/b%20").await;
    stub.get("/ui/act?do=force-release&name=%20a&token=7").await;
    stub.get("/ui/tree?path=/a%20").await;
    let calls = stub.calls.lock();
    let read = |wanted: &str| calls.iter().any(|(_, target, _)| target.starts_with(wanted));
    for wanted in ["/v1/locks/a/b%20", "/v1/locks/%20a", "/v1/tree/a%20"] {
        assert!(read(wanted), "{wanted} in {calls:?}");
    }
}

/// The hidden fields of a form, beside its secret.
fn hidden(page: &str) -> String {
    let fields = page.split("<input type=\"hidden\" name=\"").skip(1).filter_map(|field| {
        let (name, rest) = field.split_once("\" value=\"")?;
        Some(format!("{name}={}", rest.split('"').next()?))
    });
    fields.filter(|field| !field.starts_with("form=")).collect::<Vec<_>>().join("&")
}

#[tokio::test]
async fn a_confirmed_change_has_only_the_values_that_its_page_showed_as_changed() {
    let changed = Arc::new(AtomicBool::new(false));
    let (by_other, others) = (changed.clone(), api("off", |_| true));
    let stub = Stub::new(move |method, target| match (method.as_str(), target) {
        ("GET", "/v1/policies/a/b") => {
            let delay = if by_other.load(Ordering::SeqCst) { 30_000 } else { 0 };
            let policy = json!({ "limit": 1, "order": "fifo", "ageing_ms": 0, "lock_delay_ms": delay,
                "cooldown_ms": 0, "detect_deadlocks": true });
            (200, policy)
        }
        ("GET", "/v1/cluster") => {
            let zone = if by_other.load(Ordering::SeqCst) { "b" } else { "a" };
            let node = json!({ "id": 2, "role": "follower", "votes": true, "http": "h2:1", "peer": "h2:2",
                "zookeeper": "h2:3", "zone": zone, "applied_revision": 9, "healthy": true });
            (200, json!({ "cluster": "c", "level": 1, "term": 3, "leader": 1, "nodes": [node] }))
        }
        ("PATCH", _) => (200, json!({})),
        _ => others(method, target),
    });
    let policy = "do=change-policy&name=a/b&limit=3&lock_delay=0s&cooldown=0s&order=fifo";
    let member = "do=set-member&id=2&role=&peer=h9:2&http=h2:1&zookeeper=h2:3&zone=a";
    for (asked, sent) in
        [(policy, "PATCH /v1/policies/a/b?limit=3"), (member, "PATCH /v1/members/2?peer=h9%3A2")]
    {
        changed.store(false, Ordering::SeqCst);
        let (status, page) = stub.get(&format!("/ui/act?{asked}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        changed.store(true, Ordering::SeqCst);
        stub.send(form("/ui/act", &hidden(&page))).await;
        assert_eq!(stub.changes().last().map(String::as_str), Some(sent));
    }
}

#[tokio::test]
async fn a_form_of_another_site_or_without_the_secret_changes_nothing() {
    let stub = Stub::new(api("off", |_| true));
    let fields = "do=force-release&name=a/b&token=7&reason=x";
    let mut without_origin = form("/ui/act", fields);
    without_origin.headers_mut().remove(ORIGIN);
    let mut without_cookie = form("/ui/act", fields);
    without_cookie.headers_mut().remove(COOKIE);
    for request in [without_origin, without_cookie] {
        let response = stub.send(request).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        assert!(text(response).await.contains("foreign-site"));
    }
    assert_eq!(stub.changes(), [""; 0]);
    let long = form("/ui/act", &format!("do={}", "x".repeat(20_000)));
    assert_eq!(stub.send(long).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_search_that_ends_early_says_how_far_it_has_read_and_continues() {
    let others = api("off", |_| true);
    let stub = Stub::new(move |method, target| {
        let named = |name: &str| json!({ "lock": name, "mode": "exclusive", "held": false, "holders": [], "waiters": 0, "queue": [] });
        match target.split_once("/v1/locks?") {
            // The API ends its scan early: a page can be empty before the last one.
            Some((_, query)) if query.contains("waiting") && !query.contains("page_token") => {
                (200, json!({ "locks": [], "next_page_token": "m", "revision": 77 }))
            }
            Some((_, query)) if query.contains("page_token=z") => {
                (200, json!({ "locks": [named("zz-rare")], "revision": 77 }))
            }
            Some(_) => {
                let locks: Vec<_> = (0..1_000).map(|_| named("z")).collect();
                (200, json!({ "locks": locks, "next_page_token": "y z", "revision": 77 }))
            }
            None => others(method, target),
        }
    });
    let (_, page) = stub.get("/ui/locks?state=waiting").await;
    assert!(
        page.contains("locks?state=waiting&amp;after=m") && !page.contains("No lock"),
        "{page}"
    );
    for (asked, link) in [
        ("q=rare", "locks?q=rare&amp;after=y%20z"),
        ("q=rare&sort=age", "locks?q=rare&amp;sort=age&amp;after=y%20z"),
    ] {
        let (_, page) = stub.get(&format!("/ui/locks?{asked}")).await;
        let read = page.contains("has read the locks up to <bdi>y z</bdi>");
        assert!(read && page.contains(link) && !page.contains("No lock matches"), "{page}");
    }
    let (_, page) = stub.get("/ui/locks?q=rare&after=z").await;
    assert!(page.contains("data-lock=\"zz-rare\"") && !page.contains("Next locks"), "{page}");
    let (_, page) = stub.get("/ui/locks?q=other&after=z").await;
    assert!(page.contains("No lock after <bdi>z</bdi> matches."), "{page}");
}

#[tokio::test]
async fn a_sharded_lock_is_no_election_but_its_shards_are() {
    let others = api("off", |_| true);
    let stub = Stub::new(move |method, target| {
        let named = |name: &str, shards: Option<u32>| {
            let policy = json!({ "shards": shards, "order": "fifo", "ageing_ms": 0, "lock_delay_ms": 0,
                "cooldown_ms": 0, "detect_deadlocks": true });
            json!({ "lock": name, "mode": "exclusive", "held": true, "holders": [], "waiters": 0, "queue": [],
                "policy": policy })
        };
        match target.split('?').next() {
            Some("/v1/locks") => {
                let locks = [named("elections/db", Some(2)), named("elections/db/0", None)];
                (200, json!({ "locks": locks, "revision": 77 }))
            }
            Some("/v1/elections/db/0") => (
                200,
                json!({ "election": "db/0", "leader": null, "candidates": [], "candidates_total": 0, "revision": 77 }),
            ),
            Some("/v1/elections/db") => problem("shards-mismatch", 409),
            Some("/v1/recipes") => (200, json!({ "recipes": [], "revision": 77 })),
            _ => others(method, target),
        }
    });
    let (status, page) = stub.get("/ui/recipes").await;
    assert!(status == 200 && page.contains("db/0"), "{page}");
}

#[tokio::test]
async fn a_search_of_the_audit_trail_that_ends_early_continues_with_older_records() {
    let others = api("off", |_| true);
    let stub = Stub::new(move |method, target| {
        if !target.starts_with("/v1/audit") {
            return others(method, target);
        }
        (200, json!({ "records": [], "next_after": 9_000, "oldest": 1, "newest": 9_000 }))
    });
    for asked in ["target=rare", "revision=12"] {
        let (_, page) = stub.get(&format!("/ui/audit?{asked}")).await;
        assert!(page.contains("back to number 7001") && !page.contains("No record"), "{page}");
        assert!(page.contains(&format!("audit?{asked}&amp;before=7001")), "{page}");
    }
    let (_, page) = stub.get("/ui/audit?target=rare&before=1500").await;
    assert!(page.contains("No record matches") && !page.contains("Older records"), "{page}");
}

/// A node that has started from the snapshot of revision 1040.
fn started_at_1040(head: u64) -> Stub {
    let others = api("off", |_| true);
    Stub::new(move |method, target| {
        if !target.starts_with("/v1/watch") {
            return others(method, target);
        }
        let since = target
            .split_once("since=")
            .map_or(head, |(_, since)| since.parse().expect("a revision"));
        if since < 1_040 {
            return problem("revision-compacted", 410);
        }
        let change = |revision| json!({ "revision": revision, "kind": "created", "path": "/new" });
        let events: Vec<_> = (since + 1..=head).map(change).collect();
        (200, json!({ "events": events, "revision": head }))
    })
}

#[tokio::test]
async fn the_live_events_begin_with_the_oldest_change_that_the_node_knows() {
    let (status, page) = started_at_1040(1_100).get("/ui/events").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(page.matches("data-kind=\"created\"").count(), 60, "{page}");
    assert!(page.contains("Changes up to revision 1040 are not shown."), "{page}");
    let (_, page) = started_at_1040(1_040).get("/ui/events").await;
    assert!(page.contains("Nothing has changed after revision 1040."), "{page}");
    let (_, paused) = started_at_1040(1_100).get("/ui/events?pause=900").await;
    assert!(paused.contains("has forgotten these changes"), "{paused}");
}

#[tokio::test]
async fn a_failure_shows_its_code_its_hint_and_a_retry() {
    let (status, page) = Stub::new(api("off", |_| true)).get("/ui/lock?name=other").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(page.contains("../errors/not-found") && page.contains("do that"), "{page}");
    assert!(page.contains("Try again") && page.contains("&lt;because&gt;"), "{page}");
}
