//! Rows 38, 40, 44d, 77 and 78: shared and exclusive modes, and multi-locks.

use holdfast_client::{Error, Mode};
use holdfast_lab::{Cluster, DEADLINE, Http, Method, until};
use serde_json::{Value, json};

use crate::lab::{changes, client, now, one, revisions};

/// Enqueues an acquire behind all current waiters.
async fn behind(
    http: &Http,
    lock: &str,
    place: u64,
) -> tokio::task::JoinHandle<holdfast_lab::Reply> {
    let call = http.queue_up(lock);
    let name = lock.split('?').next().expect("a name");
    http.until_waiters(name, place).await;
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn row_40_many_readers_or_one_writer_by_the_policy_and_a_downgrade_keeps_its_place() {
    let (_cluster, http) = one().await;
    let writer = http.take("fifo?session=w1&ttl=5m").await;
    let readers = [
        behind(&http, "fifo?session=r1&mode=shared", 1).await,
        behind(&http, "fifo?session=r2&mode=shared", 2).await,
    ];
    let second = behind(&http, "fifo?session=w2", 3).await;
    let late = behind(&http, "fifo?session=r3&mode=shared", 4).await;
    // A downgrade to shared keeps the token and grants only the readers at the front of the queue.
    let kept = http.put("/v1/locks/fifo?session=w1&mode=shared&attempt=1&change=0").await;
    assert_eq!((kept.assert_status(200).token(), &kept.json()["mode"]), (writer, &json!("shared")));
    for reader in readers {
        reader.await.expect("a task").assert_status(200);
    }
    assert_eq!(http.holders("fifo").await, ["w1", "r1", "r2"]);
    assert!(!second.is_finished() && !late.is_finished(), "no reader overtakes the writer");
    for session in ["w1", "r1", "r2"] {
        http.release(&format!("fifo?session={session}")).await;
    }
    second.await.expect("a task").assert_status(200);
    assert_eq!(http.holders("fifo").await, ["w2"], "one writer, alone");
    http.release("fifo?session=w2").await;
    late.await.expect("a task").assert_status(200);

    http.call(Method::PATCH, "/v1/policies/writers?order=writer-first").await.assert_status(200);
    http.take("writers?session=me&ttl=5m").await;
    let reader = behind(&http, "writers?session=r&mode=shared", 1).await;
    let writer = behind(&http, "writers?session=w", 2).await;
    http.release("writers?session=me").await;
    writer.await.expect("a task").assert_status(200);
    assert!(!reader.is_finished());

    http.call(Method::PATCH, "/v1/policies/readers?order=reader-first").await.assert_status(200);
    http.take("readers?session=r1&mode=shared&ttl=5m").await;
    let writer = behind(&http, "readers?session=w", 1).await;
    http.take("readers?session=r2&mode=shared&ttl=5m").await;
    assert!(!writer.is_finished(), "readers join readers while a writer waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn row_77_a_writer_may_take_the_read_lock_and_a_reader_writes_only_if_it_is_upgradable() {
    let (cluster, http) = one().await;
    let (client, other) = (client(&cluster), client(&cluster));
    let mut writer = client.lock("page").acquire().await.expect("held");
    writer.downgrade(Mode::Shared).await.expect("a writer may read");
    let beside = other.lock("page").shared().try_acquire().await.expect("beside it");
    let never = writer.upgrade(DEADLINE).await.expect_err("a reader stays one");
    assert_eq!(never.problem().expect("a problem").code.as_str(), "mode-conflict");
    writer.release().await.expect("released");
    beside.release().await.expect("released");
    let mut editor = client.lock("page").upgradable().acquire().await.expect("held");
    let reader = other.lock("page").shared().acquire().await.expect("beside it");
    // At most one upgradable holder: two upgrades could wait for each other.
    assert!(matches!(other.lock("page").upgradable().try_acquire().await, Err(Error::Busy(_))));
    let before = editor.token();
    reader.release().await.expect("released");
    assert!(editor.upgrade(DEADLINE).await.expect("alone") > before, "with a new token");
    assert_eq!(http.lock("page").await["holders"][0]["mode"], "exclusive");
}

/// A follower may get the leader's reply before it applies the command, and then still has the hold before the upgrade.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_through_any_node_waits_for_the_readers() {
    let cluster = Cluster::three().await;
    for (node, http) in (1..).zip(cluster.endpoints()) {
        for round in 1..=20 {
            let lock = format!("page-{node}-{round}");
            http.take(&format!("{lock}?session=e{node}&mode=upgradable&attempt=1")).await;
            http.take(&format!("{lock}?session=r{node}&mode=shared")).await;
            let upgrade =
                format!("/v1/locks/{lock}?session=e{node}&mode=exclusive&change=1&attempt=2");
            http.put(&format!("{upgrade}&wait=20ms")).await.assert_code(423, "wait-timeout");
        }
    }
}

fn grants(answer: &Value) -> Vec<(String, u64)> {
    let grants = answer["grants"].as_array().expect("grants");
    let of = |grant: &Value| {
        (
            grant["lock"].as_str().expect("a lock").to_owned(),
            grant["token"].as_u64().expect("a token"),
        )
    };
    grants.iter().map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_38_a_set_of_locks_is_granted_as_a_whole_in_one_entry_with_a_token_to_each() {
    let (_cluster, http) = one().await;
    http.take("b?session=other&ttl=5m").await;
    let both = "/v1/locks?name=a&name=b&session=me&ttl=5m";
    http.post(both).await.assert_code(423, "lock-busy");
    assert_eq!(http.lock("a").await["held"], false, "nothing is held in part");
    let waiting = http.begin(Method::POST, &format!("{both}&wait=3m"));
    http.until_waiters("b", 1).await;
    assert_eq!(http.lock("a").await["held"], false, "nor while it waits");
    let since = now(&http).await;
    http.release("b?session=other").await;
    let answer = waiting.await.expect("a task").assert_status(200).json();
    let [(first, one), (second, two)] = grants(&answer).try_into().expect("two grants");
    assert_eq!((first.as_str(), second.as_str()), ("a", "b"));
    assert_ne!(one, two);
    // Each lock shows the other locks of the multi-lock; one revision granted both.
    assert_eq!(http.lock("a").await["holders"][0]["multi_lock"], json!(["a", "b"]));
    let told = changes(&http, "/locks/", since).await;
    let granted = revisions(&told, "granted");
    assert!(granted.len() == 2 && granted[0] == granted[1], "{told:?}");
    for (lock, token) in grants(&answer) {
        http.get(&format!("/v1/fence/{lock}?token={token}")).await.assert_status(200);
    }
}

/// Locks are queued in one log entry whatever their order, so two callers never wait for each other. The release is
/// also one step.
#[tokio::test(flavor = "multi_thread")]
async fn row_78_several_locks_in_any_order_cannot_wait_for_each_other_and_are_given_back_at_once() {
    let (_cluster, http) = one().await;
    for round in 0..5 {
        let one = format!("/v1/locks?name=a&name=b&session=s1-{round}&ttl=1m&wait=1m");
        let two = format!("/v1/locks?name=b&name=a&session=s2-{round}&ttl=1m&wait=1m");
        let calls = [http.begin(Method::POST, &one), http.begin(Method::POST, &two)];
        until("one of both to hold both", DEADLINE, || async {
            let (a, b) = (http.holders("a").await, http.holders("b").await);
            a.len() == 1 && a == b
        })
        .await;
        for _ in 0..2 {
            let holder = http.holders("a").await.remove(0);
            assert_eq!(http.holders("b").await, [holder.as_str()], "no partial hold is visible");
            http.delete(&format!("/v1/locks?name=a&name=b&session={holder}"))
                .await
                .assert_status(204);
            // A repeated release, or one of a released lock, also succeeds.
            http.delete(&format!("/v1/locks?name=a&name=b&session={holder}"))
                .await
                .assert_status(204);
        }
        for call in calls {
            call.await.expect("a task").assert_status(200);
        }
    }
    // One lock can be released alone; the others stay held.
    http.post("/v1/locks?name=a&name=b&session=me&ttl=1m").await.assert_status(200);
    http.release("a?session=me").await;
    assert_eq!(
        (http.holders("a").await.len(), http.holders("b").await),
        (0, vec!["me".to_owned()])
    );
    http.delete("/v1/locks?name=a&name=b&session=me").await.assert_status(204);
    http.until_held_by("b", &[]).await;
}

/// The maximum number of locks in one call. The request has no timestamp: the server measures the hold time.
#[tokio::test(flavor = "multi_thread")]
async fn row_44d_many_locks_are_taken_by_one_call_without_the_callers_clock() {
    let (_cluster, http) = one().await;
    let names: Vec<String> = (0..16).map(|number| format!("seat/{number:02}")).collect();
    let query: Vec<String> = names.iter().map(|name| format!("name={name}")).collect();
    let all = format!("/v1/locks?{}", query.join("&"));
    let since = now(&http).await;
    let answer = http.post(&format!("{all}&session=me&ttl=1m")).await.assert_status(200).json();
    let grants = grants(&answer);
    assert_eq!(grants.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), names);
    let mut tokens: Vec<u64> = grants.iter().map(|(_, token)| *token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), names.len(), "a token of its own for each");
    let told = changes(&http, "/locks/seat", since).await;
    let mut granted = revisions(&told, "granted");
    granted.dedup();
    assert_eq!(granted.len(), 1, "in one entry");
    // One busy lock is enough to reject the whole call, which then holds nothing.
    let other = format!("/v1/locks?name=stage&name={}&session=you&ttl=1m", names[9]);
    http.post(&other).await.assert_code(423, "lock-busy");
    assert_eq!(http.lock("stage").await["held"], false);
    http.post(&format!("{all}&name=seat/99&session=you")).await.assert_status(400);
}
