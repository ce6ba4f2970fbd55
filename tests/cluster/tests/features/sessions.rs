//! Rows 63 and 65: what ends with a session, and a lock that is meant to outlast its process.

use holdfast_lab::{DEADLINE, Http, until};

use crate::lab::{changes, now, one, revisions};

/// Everything of a session: a lock, a place in another queue, a node.
async fn have_everything(http: &Http, session: &str) {
    http.put("/v1/locks/other?session=other&ttl=5m").await.has(200);
    http.take(&format!("a?session={session}")).await;
    let node = format!("/v1/tree/mine?ephemeral&session={session}");
    http.put(&node).await.has(201);
}

/// All of it went in one entry, and the next was granted in it.
async fn all_went_together(http: &Http, since: u64) {
    let told = changes(http, "/", since).await;
    let at = |kind: &str, path: &str| {
        let of_path: Vec<_> =
            told.iter().filter(|change| change["path"] == path).cloned().collect();
        revisions(&of_path, kind)
    };
    let lost = at("lost", "/locks/a");
    assert_eq!((lost.len(), at("deleted", "/mine")), (1, lost.clone()), "{told:?}");
    assert_eq!(at("granted", "/locks/a"), lost, "{told:?}");
    http.get("/v1/tree/mine").await.has(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_63_a_clean_close_cleans_up_at_once_and_a_crash_when_the_time_is_over() {
    let (_cluster, http) = one().await;
    http.put("/v1/sessions/clean?ttl=24h").await.has(201);
    have_everything(&http, "clean").await;
    let next = http.queue_up("a?session=next");
    http.until_waiters("a", 1).await;
    let since = now(&http).await;
    http.delete("/v1/sessions/clean").await.has(204);
    // A day of time-to-live is left, and all is gone when the call is answered.
    all_went_together(&http, since).await;
    next.await.expect("a task").has(200);
    http.delete("/v1/sessions/next").await.has(204);

    http.put("/v1/sessions/crashed?ttl=1s").await.has(201);
    have_everything(&http, "crashed").await;
    let next = http.queue_up("a?session=heir");
    http.until_waiters("a", 1).await;
    let since = now(&http).await;
    next.await.expect("a task").has(200);
    all_went_together(&http, since).await;
}

/// There is no lock without a session, so none can be leaked for ever. What is to outlast its process is held by a named session
/// with a long life, which says whose it is and why, whose age is shown, and which an operator breaks with a reason.
#[tokio::test(flavor = "multi_thread")]
async fn row_65_a_lock_that_outlasts_its_process_has_an_owner_a_reason_an_age_and_an_audited_end() {
    let (cluster, http) = one().await;
    http.put("/v1/locks/migration?session=dba&ttl=25h").await.has(400).says("24h");
    let asked = "/v1/locks/migration?session=dba&ttl=24h&label.by=carol&value=moving+to+v2";
    let token = http.put(asked).await.has(200).token();
    // The connection and the process behind it mean nothing: nobody renews it, and it stays, even when the node dies.
    cluster.node(1).kill();
    cluster.node(1).start();
    cluster.wait_ready().await;
    let lock = http.lock("migration").await;
    let holder = &lock["holders"][0];
    assert_eq!((&holder["token"], &holder["labels"]["by"]), (&token.into(), &"carol".into()));
    assert_eq!(holder["value"], "moving to v2");
    assert!(
        holder["since_ms"].is_u64() && holder["expires_in_ms"].as_u64() > Some(3_600_000),
        "{lock}"
    );
    // The alarm: how long what is held has been held, for all locks.
    let listed = http.get("/v1/locks?held").await.has(200).json();
    assert!(listed["locks"][0]["holders"][0]["since_ms"].is_u64(), "{listed}");
    let break_it = "/v1/locks/migration?force&reason=carol+has+left";
    assert_eq!(http.delete(break_it).await.has(200).json()["broken"], 1);
    let node = cluster.node(1);
    until("the audit line", DEADLINE, || async { node.log_lines_with("carol has left") == 1 })
        .await;
    http.get(&format!("/v1/fence/migration?token={token}")).await.has_code(412, "stale-token");
    let history = http.get("/v1/history/migration").await.json();
    assert_eq!(history["holds"][0]["cause"], "broken", "{history}");
}
