//! Invalid input: rejected with an error code, the parameter and the fix, and without any effect.

use holdfast_lab::{Cluster, DEADLINE, Http, Method, Request};

/// A table row: method, target, expected status and code, and words of the hint.
type Line<'a> = (&'a str, &'a str, u16, &'a str, &'a str);

/// Sends each target as raw bytes, because clients normalise paths.
async fn refused(http: &Http, lines: &[Line<'_>]) {
    for (method, target, status, code, words) in lines {
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        let (answer, _) = http.raw(request.as_bytes(), DEADLINE).await;
        let shown = format!("{method} {}: {answer}", &target[..target.len().min(100)]);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "expected {status}: {shown}");
        assert!(answer.contains(&format!("\"code\":\"{code}\"")), "expected {code}: {shown}");
        assert!(answer.contains(words), "expected {words:?}: {shown}");
    }
}

async fn nothing_was_done(http: &Http) {
    let locks = http.get("/v1/locks").await.assert_status(200).json();
    assert_eq!(locks["locks"].as_array().map(Vec::len), Some(0), "{locks}");
    let sessions = http.get("/v1/sessions").await.assert_status(200).json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(0), "{sessions}");
    http.put("/v1/locks/good?session=me&ttl=5s").await.assert_status(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn durations_need_a_unit_and_have_bounds() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    let endless = format!("/v1/locks/a?session=s&ttl={}h", "9".repeat(40));
    refused(
        http,
        &[
            ("PUT", "/v1/locks/a?session=s&ttl=30", 400, "bad-duration", "30s"),
            ("PUT", "/v1/locks/a?session=s&wait=10", 400, "bad-duration", "10s"),
            ("PUT", "/v1/sessions/s?ttl=30", 400, "bad-duration", "30s"),
            ("PUT", "/v1/locks/a?session=s&ttl=999ms", 400, "bad-duration", "1s"),
            ("PUT", "/v1/locks/a?session=s&ttl=0s", 400, "bad-duration", "1s"),
            ("PUT", "/v1/locks/a?session=s&ttl=25h", 400, "bad-duration", "24h"),
            ("PUT", "/v1/locks/a?session=s&wait=301s", 400, "bad-duration", "5m"),
            ("PUT", "/v1/locks/a?session=s&ttl=-5s", 400, "bad-duration", "ttl"),
            ("PUT", "/v1/locks/a?session=s&ttl=1.5s", 400, "bad-duration", "ttl"),
            ("PUT", "/v1/locks/a?session=s&ttl=5parsecs", 400, "bad-duration", "ttl"),
            ("PUT", "/v1/locks/a?session=s&ttl=s", 400, "bad-duration", "ttl"),
            ("PUT", "/v1/locks/a?session=s&ttl=1s1h", 400, "bad-duration", "ttl"),
            ("PUT", "/v1/locks/a?session=s&ttl=NaN", 400, "bad-duration", "ttl"),
            ("PUT", &endless, 400, "bad-duration", "ttl"),
        ],
    )
    .await;
    nothing_was_done(http).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_checked_once_and_decoded_once() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    let too_long = format!("/v1/locks/{}?session=s", "a".repeat(513));
    let long_session = format!("/v1/locks/a?session={}", "s".repeat(257));
    let labels: Vec<String> = (0..17).map(|i| format!("label.k{i}=v")).collect();
    let too_many_labels = format!("/v1/locks/a?session=s&{}", labels.join("&"));
    refused(
        http,
        &[
            ("PUT", "/v1/locks/?session=s", 400, "bad-name", "empty"),
            ("PUT", "/v1/locks//a?session=s", 400, "bad-name", "empty"),
            ("PUT", "/v1/locks/a//b?session=s", 400, "bad-name", "empty"),
            ("PUT", "/v1/locks/a/?session=s", 400, "bad-name", "empty"),
            ("PUT", "/v1/locks/..?session=s", 400, "bad-name", ".."),
            ("PUT", "/v1/locks/a/../b?session=s", 400, "bad-name", ".."),
            ("PUT", "/v1/locks/a/%2e%2e/b?session=s", 400, "bad-name", ".."),
            ("PUT", "/v1/locks/a/%2E/b?session=s", 400, "bad-name", "'.'"),
            ("PUT", "/v1/locks/a%00b?session=s", 400, "bad-name", "control"),
            ("PUT", "/v1/locks/a%0Ab?session=s", 400, "bad-name", "control"),
            ("PUT", "/v1/locks/a%7Fb?session=s", 400, "bad-name", "control"),
            ("PUT", "/v1/locks/a%ffb?session=s", 400, "bad-name", "UTF-8"),
            ("PUT", "/v1/locks/a%zzb?session=s", 400, "bad-name", "%"),
            ("PUT", &too_long, 400, "bad-name", "512"),
            ("PUT", &long_session, 400, "bad-name", "256"),
            ("PUT", "/v1/locks/a?session=", 400, "invalid-argument", "session"),
            ("PUT", "/v1/locks/a?session=a%2Fb", 400, "bad-name", "/"),
            ("PUT", "/v1/locks/a?session=a%20b", 400, "bad-name", "white space"),
            ("PUT", "/v1/locks/a?session=s&owner=%01", 400, "bad-name", "control"),
            ("PUT", &too_many_labels, 400, "bad-name", "16"),
            ("GET", "/v1/locks/a/../b", 400, "bad-name", ".."),
            ("DELETE", "/v1/locks/a%00b?session=s", 400, "bad-name", "control"),
            ("GET", "/v1/fence/..?token=1", 400, "bad-name", ".."),
            ("PUT", "/v1/sessions/a%20b", 400, "bad-name", "white space"),
        ],
    )
    .await;
    nothing_was_done(http).await;
    // Names are decoded once: an escaped percent sign is a percent sign, and an escaped slash is a separator.
    let put = http.put("/v1/locks/a%252eb?session=me").await;
    assert_eq!(put.assert_status(200).json()["lock"], "a%2eb");
    let longest = format!("/v1/locks/{}?session=me", "a".repeat(512));
    http.put(&longest).await.assert_status(200);
    let unicode = http.put("/v1/locks/h%C3%A9?session=me").await;
    assert_eq!(unicode.assert_status(200).json()["lock"], "hé");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_keys_and_what_does_not_exist_yet_are_refused_with_the_way_out() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    refused(
        http,
        &[
            ("PUT", "/v1/locks/a?sesion=me", 400, "invalid-argument", "session"),
            ("PUT", "/v1/locks/a?session=me&tll=30s", 400, "invalid-argument", "ttl"),
            ("PUT", "/v1/locks/a?session=me&session=you", 400, "invalid-argument", "session"),
            ("PUT", "/v1/locks/a?session=me&%zz=1", 400, "invalid-argument", ""),
            ("PUT", "/v1/locks/a?session=me&shards=0", 400, "invalid-argument", "shards"),
            ("PUT", "/v1/locks/a?session=me&shard=best", 400, "invalid-argument", "shard"),
            ("PUT", "/v1/locks/a?session=me&shard=any", 409, "shards-mismatch", ""),
            ("DELETE", "/v1/locks/a?session=me&permits=0", 400, "invalid-argument", "permits"),
            ("PUT", "/v1/locks/a?session=me&mode=odd", 400, "invalid-argument", "mode"),
            ("PUT", "/v1/locks/a?session=me&permits=0", 400, "invalid-argument", "permits"),
            ("PUT", "/v1/locks/a?session=me&permits=2", 409, "limit-mismatch", ""),
            ("PUT", "/v1/locks/a?session=me&limit=0", 400, "invalid-argument", "limit"),
            ("PUT", "/v1/locks/a?session=me&priority=10", 400, "invalid-argument", "priority"),
            ("PUT", "/v1/locks/a?session=me&max_hold=1", 400, "bad-duration", "max_hold"),
            ("PATCH", "/v1/policies/a?lock_delay=61s", 400, "bad-duration", "lock_delay"),
            ("POST", "/v1/locks?session=me", 400, "invalid-argument", "name"),
            ("POST", "/v1/force-releases/a", 400, "invalid-argument", "reason"),
            ("PUT", "/v1/locks/a?session=me&hold=conection", 400, "invalid-argument", "hold"),
            ("DELETE", "/v1/locks/a", 400, "invalid-argument", "session"),
            ("GET", "/v1/locks?limit=0", 400, "invalid-argument", "limit"),
            ("GET", "/v1/locks?limit=1000000", 400, "invalid-argument", "limit"),
            ("GET", "/v1/locks?prefx=a", 400, "invalid-argument", "prefix"),
            ("GET", "/v1/fence/a", 400, "invalid-argument", "token"),
            ("GET", "/v1/fence/a?token=-1", 400, "invalid-argument", "token"),
            ("GET", "/v1/fence/a?token=9007199254740993", 400, "invalid-argument", "token"),
            ("GET", "/v1/lock/a", 404, "not-found", "/v1/locks"),
            ("GET", "/v2/locks/a", 404, "not-found", ""),
            ("GET", "/errors/no-such-code", 404, "not-found", ""),
        ],
    )
    .await;
    nothing_was_done(http).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_405_and_names_the_right_ones() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    for (method, target, allowed) in [
        (Method::PATCH, "/v1/sessions/me", "DELETE"),
        (Method::PUT, "/v1/locks", "GET"),
        (Method::PUT, "/v1/cluster", "GET"),
        (Method::GET, "/v1/sessions/me/keepalive", "POST"),
        (Method::DELETE, "/readyz", "GET"),
    ] {
        let reply = http.call(method.clone(), target).await;
        reply.assert_code(405, "method-not-allowed");
        let allow = reply.header("allow").unwrap_or_default();
        assert!(allow.contains(allowed), "{method} {target}: Allow: {allow}");
    }
    nothing_was_done(http).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_json_of_known_keys_and_bounded() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    let json = [("content-type", "application/json")];
    let put = async |body: &str| {
        let request = Request::new(Method::PUT, "/v1/locks/a").headers(&json).body(body);
        http.send(request).await.expect("an answer")
    };
    for (body, code, words) in [
        ("{", "invalid-argument", "JSON"),
        ("[]", "invalid-argument", "object"),
        (r#"{"sesion":"me"}"#, "invalid-argument", "session"),
        (r#"{"session":["me"]}"#, "invalid-argument", "session"),
        (r#"{"session":{"id":"me"}}"#, "invalid-argument", "session"),
        (r#"{"session":"me","ttl":30}"#, "bad-duration", "30s"),
        (r#"{"session":"me","session":"you"}"#, "invalid-argument", "session"),
        (r#"{"session":"a/b"}"#, "bad-name", "/"),
    ] {
        put(body).await.assert_code(400, code).assert_body_contains(words);
    }
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    put(&deep).await.assert_code(400, "invalid-argument");
    nothing_was_done(http).await;
    let good = put(r#"{"session":"you","ttl":"30s","wait":"0s"}"#).await;
    assert_eq!(good.assert_status(200).session(), "you", "the same fields are accepted as a body");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_413_before_it_is_read() {
    let cluster = Cluster::of(1).start().await;
    let http = &cluster.node(1).http;
    let before_kib = cluster.node(1).resident_kib();
    let announced = "PUT /v1/locks/a?session=me HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                     content-type: application/json\r\ncontent-length: 1073741824\r\n\r\n{";
    let (answer, _) = http.raw(announced.as_bytes(), DEADLINE).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("payload-too-large"), "{answer}");
    // A body without a length is rejected when it exceeds the limit.
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    let chunked = format!(
        "PUT /v1/locks/a?session=me HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
        chunk.repeat(8)
    );
    let (answer, _) = http.raw(chunked.as_bytes(), DEADLINE).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let grown_kib = cluster.node(1).resident_kib().saturating_sub(before_kib);
    assert!(grown_kib < 64 * 1024, "a refused body costs no memory: {grown_kib} KiB");
    nothing_was_done(http).await;
}
