//! Rows 63 and 65: clean-up at the end of a session, and locks that outlast their process.

use holdfast_lab::{DEADLINE, Http, until};

use crate::lab::{changes, now, one, revisions};

/// Creates one of each: a held lock, a queue entry of another lock, and an ephemeral node.
async fn have_everything(http: &Http, session: &str) {
    http.put("/v1/locks/other?session=other&ttl=5m").await.assert_status(200);
    http.take(&format!("a?session={session}")).await;
    let node = format!("/v1/tree/mine?ephemeral&session={session}");
    http.put(&node).await.assert_status(201);
}

/// Asserts that one log entry removed everything of the session and granted the lock to the next waiter.
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
    http.get("/v1/tree/mine").await.assert_status(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_63_a_clean_close_cleans_up_at_once_and_a_crash_when_the_time_is_over() {
    let (_cluster, http) = one().await;
    http.put("/v1/sessions/clean?ttl=24h").await.assert_status(201);
    have_everything(&http, "clean").await;
    let next = http.queue_up("a?session=next");
    http.until_waiters("a", 1).await;
    let since = now(&http).await;
    http.delete("/v1/sessions/clean").await.assert_status(204);
    // A day of TTL is left, and the reply to the close comes after the clean-up.
    all_went_together(&http, since).await;
    next.await.expect("a task").assert_status(200);
    http.delete("/v1/sessions/next").await.assert_status(204);

    http.put("/v1/sessions/crashed?ttl=1s").await.assert_status(201);
    have_everything(&http, "crashed").await;
    let next = http.queue_up("a?session=heir");
    http.until_waiters("a", 1).await;
    let since = now(&http).await;
    next.await.expect("a task").assert_status(200);
    all_went_together(&http, since).await;
}

/// Every lock has a session, so no lock leaks forever. A lock that outlasts its process belongs to a named session with a
/// long TTL and labels for owner and reason. The API shows its age, and an operator can break it with a reason.
#[tokio::test(flavor = "multi_thread")]
async fn row_65_a_lock_that_outlasts_its_process_has_an_owner_a_reason_an_age_and_an_audited_end() {
    let (cluster, http) = one().await;
    http.put("/v1/locks/migration?session=dba&ttl=25h")
        .await
        .assert_status(400)
        .assert_body_contains("24h");
    let asked = "/v1/locks/migration?session=dba&ttl=24h&label.by=carol&value=moving+to+v2";
    let token = http.put(asked).await.assert_status(200).token();
    // The hold is independent of connection and process: without renewals it stays, even after a kill of the node.
    cluster.node(1).kill();
    cluster.node(1).start();
    cluster.wait_ready().await;
    let lock = http.lock("migration").await;
    let holder = &lock["holders"][0];
    assert_eq!((&holder["token"], &holder["labels"]["by"]), (&token.into(), &"carol".into()));
    assert_eq!(holder["value"], "moving to v2");
    assert!(
        holder["held_for_ms"].is_u64() && holder["expires_in_ms"].as_u64() > Some(3_600_000),
        "{lock}"
    );
    // The metric for alerts: the age of the oldest hold of all locks.
    let listed = http.get("/v1/locks?held").await.assert_status(200).json();
    assert!(listed["locks"][0]["holders"][0]["held_for_ms"].is_u64(), "{listed}");
    let break_it = "/v1/force-releases/migration?reason=carol+has+left";
    assert_eq!(http.post(break_it).await.assert_status(200).json()["ended"], 1);
    let node = cluster.node(1);
    until("the audit line", DEADLINE, || async { node.log_lines_with("carol has left") == 1 })
        .await;
    http.get(&format!("/v1/fence/migration?token={token}")).await.assert_code(412, "stale-token");
    let history = http.get("/v1/history/migration").await.json();
    assert_eq!(history["holds"][0]["cause"], "force-released", "{history}");
}
