//! Invalid input: rejected with an error code, the parameter and the fix, and without any effect. The tests of `http` have
//! every kind of invalid name, duration, method and body.

use holdfast_lab::{Cluster, DEADLINE, Http};

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
