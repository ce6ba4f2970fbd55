//! Rows 1 to 9: the basic properties of a distributed lock.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use holdfast_api::Rfc3339Time;
use holdfast_client::Error;
use holdfast_lab::{
    Cluster, DEADLINE, History, Http, Load, Method, binary, raise_descriptor_limit, until,
};
use nix::sys::signal::Signal;
use tokio::task::JoinSet;

use crate::lab::{GRANTED, WOKEN, client, one};
use crate::program::{addresses, start_example};

/// Checks the history of a load during pauses of the leader: one owner at every point of the log, and each store accepts
/// writes of the owner and rejects those of stale holders.
#[tokio::test(flavor = "multi_thread")]
async fn row_01_a_lock_has_one_owner_at_every_point_whatever_others_believe() {
    let cluster = Cluster::three().await;
    let history = History::default();
    let load = Load { holders: 2, competing_clients: 12, hot_locks: 3 };
    let load = load.start(&cluster.endpoints(), &history);
    load.wait_for_grants(40).await;
    let leader = cluster.wait_ready().await;
    cluster.node(leader).pause().await;
    load.wait_for_grants(40).await;
    cluster.node(leader).resume();
    load.wait_for_grants(40).await;
    load.finish().await;
}

/// The milliseconds of the Unix epoch at a time of the API.
fn moment_ms(time: &serde_json::Value) -> u64 {
    let moment: Rfc3339Time = serde_json::from_value(time.clone()).expect("a time as of RFC 3339");
    moment.0.0
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_millis()).expect("a time of today")
}

/// The holds of a lock from its history, newest first.
async fn past(http: &Http, lock: &str) -> serde_json::Value {
    let target = format!("/v1/history/{lock}");
    until("the history", DEADLINE, || async {
        http.get(&target).await.json()["holds"].as_array().is_some_and(|holds| holds.len() == 2)
    })
    .await;
    http.get(&target).await.assert_status(200).json()["holds"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_02_the_lock_of_a_killed_process_goes_to_the_next_when_its_time_is_over() {
    const TTL_MS: u64 = 1_500;
    let (cluster, http) = one().await;
    let file = cluster.dir().join("journal");
    let (nodes, file) = (addresses(&cluster).join(","), file.to_str().expect("a path").to_owned());
    let ttl = TTL_MS.to_string();
    let mut program = start_example("journal", &[&nodes, "crash", &ttl, &file]);
    assert!(program.line().await.is_some_and(|line| line.starts_with("held ")));
    assert_eq!(program.line().await.as_deref(), Some("writing"));
    let next = http.queue_up("crash?session=next");
    http.until_waiters("crash", 1).await;
    let killed_ms = now_ms();
    program.signal(Signal::SIGKILL);
    assert!(!program.end().await.success());
    next.await.expect("a task").assert_status(200);
    let holds = past(&http, "crash").await;
    assert_eq!(holds[1]["cause"], "session-expired", "{holds}");
    assert_eq!(holds[0]["granted_at"], holds[1]["ended_at"], "in the same entry: {holds}");
    let lost_ms = moment_ms(&holds[1]["ended_at"]);
    // The last renewal was at most a third of the TTL before the kill; the expiry tick may be late on a busy machine.
    assert!(lost_ms + TTL_MS / 3 + 50 >= killed_ms + TTL_MS, "{lost_ms} after {killed_ms}");
    assert!(lost_ms <= killed_ms + TTL_MS + 10_000, "{lost_ms} after {killed_ms}");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_02_nobody_gets_a_crashed_holders_lock_before_the_delay_that_was_asked_for() {
    let (_cluster, http) = one().await;
    http.call(Method::PATCH, "/v1/policies/crash?lock_delay=1s").await.assert_status(200);
    http.take("crash?session=dead&ttl=1s").await;
    http.queue_up("crash?session=next").await.expect("a task").assert_status(200);
    let holds = past(&http, "crash").await;
    let (lost, next) = (moment_ms(&holds[1]["ended_at"]), moment_ms(&holds[0]["granted_at"]));
    assert!(next >= lost + 1_000, "{holds}");
}

/// Kills `may_die` of `size` nodes, which leaves a majority, and then one more node.
async fn grants_with_a_majority_and_refuses_without(size: u64, may_die: usize) {
    let cluster = Cluster::of(size).start().await;
    let ids: Vec<u64> = cluster.nodes().iter().map(|node| node.id).collect();
    let (dead, rest) = ids.split_at(may_die);
    for id in dead {
        cluster.node(*id).kill();
    }
    cluster.wait_leader_among(rest).await;
    let http = &cluster.node(rest[0]).http;
    until("grants without the dead", DEADLINE, || async {
        http.put("/v1/locks/a?session=me&ttl=5m").await.status == 200
    })
    .await;
    let mut left = rest.to_vec();
    cluster.node(left.pop().expect("one too many")).kill();
    until("a refusal that may be asked again", DEADLINE, || async {
        let refused = http.put("/v1/locks/b?session=me").await;
        assert_ne!(refused.status, 200, "{refused}");
        refused.code() == "no-leader" && refused.retryable()
    })
    .await;
    let reads = left.iter().map(|id| cluster.node(*id).http.get("/v1/locks/a"));
    for read in join_all(reads).await {
        read.assert_code(503, "no-leader");
    }
    // A command that reads says the same as the API, or more: which nodes do not answer.
    let mut who = Command::new(binary());
    who.args(["who", "a", "--addr", &addresses(&cluster).join(",")]);
    let output = tokio::task::spawn_blocking(move || who.output()).await;
    let output = output.expect("a task").expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let names_cause = ["no-leader", "no majority"].iter().any(|cause| told.contains(cause));
    assert!(names_cause && told.contains("nothing was done"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_03_a_majority_grants_and_a_minority_grants_nothing_and_says_so() {
    tokio::join!(
        grants_with_a_majority_and_refuses_without(3, 1),
        grants_with_a_majority_and_refuses_without(5, 2),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn row_04_reentrancy_is_counted_by_the_server_and_ends_with_the_session() {
    let (cluster, http) = one().await;
    let token = http.take("a?session=me&ttl=1m&attempt=1").await;
    for (attempt, entries) in [(2, 2), (3, 3), (3, 3)] {
        let again = http.put(&format!("/v1/locks/a?session=me&attempt={attempt}")).await;
        assert_eq!(
            (again.assert_status(200).token(), &again.json()["hold_count"]),
            (token, &entries.into())
        );
    }
    for (attempt, left) in [(2, "2"), (1, "1"), (3, "0")] {
        assert_eq!(http.holders("a").await, ["me"]);
        let leaving = http.delete(&format!("/v1/locks/a?session=me&attempt={attempt}")).await;
        assert_eq!(leaving.assert_status(204).header("holdfast-hold-count"), Some(left));
    }
    assert_eq!(http.lock("a").await["held"], false, "n attempts, n releases");
    // After the loss of the session, an acquire creates no new hold silently.
    http.take("a?session=brief&ttl=1s&attempt=1").await;
    http.until_held_by("a", &[]).await;
    http.put("/v1/locks/a?session=brief&attempt=2").await.assert_code(410, "session-expired");
    let guard = client(&cluster).lock("b").acquire().await.expect("the lock");
    http.delete(&format!("/v1/sessions/{}?force&reason=test", guard.session()))
        .await
        .assert_status(204);
    assert!(matches!(guard.reenter().await, Err(Error::Lost(_))));
}

const TRIED: &str =
    r#"holdfast_http_requests_total{route="/v1/locks/{name}",method="PUT",code="423"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn row_06_a_try_is_one_round_trip_and_a_wait_that_ends_leaves_nothing_behind() {
    let (cluster, http) = one().await;
    let client = client(&cluster);
    let _session = client.session().await.expect("open");
    http.take("a?session=me&ttl=5m").await;
    assert!(matches!(client.lock("a").try_acquire().await, Err(Error::Busy(_))));
    assert_eq!(http.metric_value(TRIED).await, 1, "one call, one answer");
    assert_eq!(http.lock("a").await["waiters"], 0);
    let told = http.put("/v1/locks/a?session=you&ttl=5m&wait=300ms").await;
    let waited = told.assert_code(423, "wait-timeout").json()["waited_ms"].as_u64();
    let budget = Duration::from_millis(300)..DEADLINE;
    assert!(waited.is_some_and(|ms| budget.contains(&Duration::from_millis(ms))), "{told}");
    assert_eq!(http.lock("a").await["waiters"], 0, "no queue entry is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_07_a_thousand_waiters_never_poll_and_each_release_wakes_one_of_them() {
    const WAITERS: u64 = 1_000;
    raise_descriptor_limit(3_000);
    let (_cluster, http) = one().await;
    http.take("hot?session=first&ttl=5m").await;
    let mut waiting = JoinSet::new();
    for number in 0..WAITERS {
        let call = http.queue_up(&format!("hot?session=w{number}"));
        waiting.spawn(async move { call.await.expect("a task") });
        // Limits concurrent connects to the number that a node accepts on a busy machine.
        if number % 50 == 49 {
            http.until_waiters("hot", number + 1).await;
        }
    }
    assert_eq!((http.metric_value(WOKEN).await, http.metric_value(GRANTED).await), (0, 1));
    let mut holder = "first".to_owned();
    for released in 1..=WAITERS {
        http.release(&format!("hot?session={holder}")).await;
        let granted = waiting.join_next().await.expect("a waiter").expect("a task");
        holder = granted.assert_status(200).session();
        if released <= 3 || released.is_multiple_of(100) {
            assert_eq!(http.metric_value(WOKEN).await, released, "one wake-up a release");
        }
    }
    // No caller polls: there is exactly one call per caller, and every call is granted.
    assert_eq!(http.metric_value(WOKEN).await, WAITERS);
    assert_eq!(
        (http.metric_value(GRANTED).await, http.metric_value(TRIED).await),
        (WAITERS + 1, 0)
    );
}

/// Releases the lock for each holder in turn and returns the order of the grants.
async fn drain(http: &Http, lock: &str, first: &str, count: usize) -> Vec<String> {
    let mut order = Vec::new();
    let mut holder = first.to_owned();
    for _ in 0..count {
        http.release(&format!("{lock}?session={holder}")).await;
        let held = http.holders(lock).await;
        holder.clone_from(held.first().expect("a lock with waiters is never free"));
        order.push(holder.clone());
    }
    order
}

#[tokio::test(flavor = "multi_thread")]
async fn row_08_grants_follow_the_order_of_the_queue_unless_priority_says_otherwise() {
    let (_cluster, http) = one().await;
    for (lock, urgent) in [("fifo", None), ("urgent", Some(5))] {
        http.take(&format!("{lock}?session=first&ttl=5m")).await;
        let mut calls = Vec::new();
        for number in 0..8 {
            let priority = if urgent == Some(number) { "&priority=9" } else { "" };
            calls.push(http.queue_up(&format!("{lock}?session=w{number}{priority}")));
            http.until_waiters(lock, number + 1).await;
        }
        let asked: Vec<String> = (0..8).map(|number| format!("w{number}")).collect();
        let granted = drain(&http, lock, "first", asked.len()).await;
        println!("{lock}: asked {asked:?}, granted {granted:?}");
        let mut expected = asked.clone();
        if let Some(number) = urgent {
            let place = usize::try_from(number).expect("a place");
            let first = expected.remove(place);
            expected.insert(0, first);
        }
        assert_eq!(granted, expected, "{lock}");
        assert_eq!(http.queue(lock).await, [""; 0]);
    }
}

/// The session stays open for minutes, so only the guard can release the lock.
#[tokio::test(flavor = "multi_thread")]
async fn row_09_a_guard_gives_its_lock_back_however_the_work_ends() {
    let (cluster, http) = one().await;
    let (client, other) = (client(&cluster), client(&cluster));
    for how in ["drop", "panic", "cancel"] {
        let (lock, (held, is_held)) = (format!("ended/{how}"), tokio::sync::oneshot::channel());
        let taking = client.lock(&lock);
        let work = tokio::spawn(async move {
            let _guard = taking.acquire().await.expect("the lock");
            held.send(()).expect("somebody listens");
            match how {
                "panic" => panic!("this is how the work ends"),
                "cancel" => std::future::pending().await,
                _ => {}
            }
        });
        is_held.await.expect("held");
        if how == "cancel" {
            work.abort();
        }
        let next = other.lock(&lock).timeout(DEADLINE).acquire().await;
        next.unwrap_or_else(|error| panic!("{how}: {error}")).release().await.expect("released");
        drop(work.await);
    }
    // A session that never releases the lock loses it at its TTL.
    let forgotten = http.begin(Method::PUT, "/v1/locks/forgotten?session=gone&ttl=1s");
    forgotten.await.expect("a task").assert_status(200);
    let next = other.lock("forgotten").timeout(DEADLINE).acquire().await.expect("after its time");
    next.release().await.expect("released");
}
