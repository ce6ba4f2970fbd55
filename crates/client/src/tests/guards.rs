//! All the ways in which a guard ends.

use super::*;

/// A client of a node that grants every acquire, and the request lines that the node received.
async fn granting(holds: &'static str) -> (Client, Arc<std::sync::Mutex<Vec<String>>>) {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        if is_acquire(line) {
            Some((200, grant(7, 0, 30_000)))
        } else {
            default_answer(line, holds)
        }
    })
    .await;
    (client([address]), lines)
}

fn released(lines: &std::sync::Mutex<Vec<String>>) -> usize {
    let lines = lines.lock().unwrap();
    lines.iter().filter(|line| line.starts_with("DELETE /v1/locks/job")).count()
}

#[tokio::test]
async fn a_dropped_guard_is_released_in_the_background() {
    let (client, lines) = granting("").await;
    let guard = acquire(&client).await.unwrap();
    let cancelled = guard.cancel_token();
    drop(guard);
    assert!(cancelled.is_cancelled());
    until("it is released", || released(&lines) == 1).await;
}

/// A program that prints a guard or returns an error from `main` shows one readable line.
#[tokio::test]
async fn guards_clients_and_errors_are_printed_on_one_short_line() {
    let (granting, _) = granting("").await;
    let guard = acquire(&granting).await.unwrap();
    let shown = format!("{guard:?}");
    assert!(shown.starts_with("Guard { lock: \"job\", token: 7, session: \""), "{shown}");
    assert!(shown.contains("held for") && shown.len() < 200, "{shown}");
    let both = MultiGuard::from(guard);
    assert!(format!("{both:?}").starts_with("MultiGuard [Hold { lock"), "{both:?}");
    assert!(format!("{granting:?}").len() < 100, "{granting:?}");
    let text = r#"{"type":"/errors/lock-busy","title":"The lock is held by another caller","status":423,"code":"lock-busy","retryable":true,"lock":"orders","waiters":2}"#;
    let error = Error::Busy(serde_json::from_str(text).unwrap());
    let expected = "Busy(lock \"orders\": The lock is held by another caller, 2 waiters)";
    assert_eq!(format!("{error:?}"), expected);
}

#[tokio::test]
async fn a_guard_may_be_dropped_on_a_thread_without_a_runtime() {
    let (client, lines) = granting("").await;
    let guard = acquire(&client).await.unwrap();
    tokio::task::spawn_blocking(|| std::thread::spawn(move || drop(guard)).join().unwrap())
        .await
        .unwrap();
    until("it is released", || released(&lines) == 1).await;
}

#[tokio::test]
async fn a_guard_becomes_a_multi_lock_on_a_thread_without_a_runtime() {
    let (client, lines) = granting("").await;
    let guard = acquire(&client).await.unwrap();
    let cancelled = guard.cancel_token();
    let wrap = || std::thread::spawn(move || MultiGuard::from(guard)).join().unwrap();
    let mut guard = tokio::task::spawn_blocking(wrap).await.unwrap();
    assert!(guard.is_held() && !cancelled.is_cancelled());
    guard.release_one("job").await.unwrap();
    cancelled.cancelled().await;
    drop(guard);
    assert_eq!(released(&lines), 1);
}

#[tokio::test]
async fn a_released_guard_is_released_once() {
    let (client, lines) = granting("").await;
    acquire(&client).await.unwrap().release().await.unwrap();
    assert_eq!(released(&lines), 1);
}

/// A client of two nodes that grant every acquire, and of which the first one answers each `DELETE` with this; and the number of
/// releases at the second one.
async fn releasing(status: u16, body: &str) -> (Client, Arc<AtomicUsize>) {
    let body = body.to_owned();
    let releases = Arc::new(AtomicUsize::new(0));
    let counter = releases.clone();
    let granted = |line: &str| is_acquire(line).then(|| (200, grant(7, 0, 30_000)));
    let (first, _) = node(move |_, line| {
        if line.starts_with("DELETE ") {
            return Some((status, body.clone()));
        }
        granted(line).or_else(|| default_answer(line, ""))
    })
    .await;
    let (second, _) = node(move |_, line| {
        counter.fetch_add(usize::from(line.starts_with("DELETE /v1/locks/")), Ordering::SeqCst);
        granted(line).or_else(|| default_answer(line, ""))
    })
    .await;
    let client = Client::builder([first, second]).named_session("me").build().unwrap();
    client.prefer(0);
    (client, releases)
}

/// Answers of another server.
const PAGES: [(u16, &str); 7] = [
    (200, "<html>Welcome</html>"),
    (404, "<html>Not found</html>"),
    (200, ""),
    (200, "{}"),
    (200, "[7]"),
    (200, "null"),
    (200, r#"{"status":"ok"}"#),
];

#[tokio::test]
async fn a_release_and_a_close_that_another_server_answers_continue_at_another_node() {
    for (status, page) in PAGES {
        let (client, releases) = releasing(status, page).await;
        acquire(&client).await.unwrap().release().await.unwrap();
        assert_eq!(releases.load(Ordering::SeqCst), 1, "{status}: {page}");

        let (client, releases) = releasing(status, page).await;
        drop(acquire(&client).await.unwrap());
        until("the dropped one is released", || releases.load(Ordering::SeqCst) == 1).await;

        let (client, _) = releasing(status, page).await;
        client.close_session(&SessionName::new("me").unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_leave_that_another_server_answers_continues_in_the_background() {
    for (status, page) in PAGES {
        let left = Arc::new(AtomicUsize::new(0));
        let counter = left.clone();
        let (address, _) = node(move |_, line| {
            let tripped = r#"{"barrier":"b","generation":4,"index":0,"parties":1,"revision":1}"#;
            Some(match line {
                line if line.starts_with("PUT /v1/double-barriers/") => (200, tripped.to_owned()),
                line if !line.starts_with("DELETE /v1/double-") => return default_answer(line, ""),
                line if line.contains("wait=") => (status, page.to_owned()),
                _ => {
                    counter.fetch_add(1, Ordering::SeqCst);
                    (200, r#"{"left":true}"#.to_owned())
                }
            })
        })
        .await;
        let inside = client([address]).double_barrier("b", 1).enter(Duration::from_secs(1)).await;
        let left_at_once = inside.unwrap().leave(Duration::from_mins(1)).await;
        let is_foreign = matches!(left_at_once, Err(Error::UnexpectedResponse(_)));
        assert!(is_foreign, "{status}: {left_at_once:?}");
        until("the place is free", || left.load(Ordering::SeqCst) == 1).await;
    }
}

#[tokio::test]
async fn a_page_of_another_server_confirms_no_end() {
    for (status, page) in PAGES {
        let (address, _) = node(move |_, line| {
            if line.starts_with("DELETE ") {
                return Some((status, page.to_owned()));
            }
            default_answer(line, "")
        })
        .await;
        let client = client([address]);
        let _open = client.session().await.unwrap();
        let (job, me) = (LockName::new("job").unwrap(), SessionName::new("me").unwrap());
        let foreign = |result: Result<(), Error>| {
            assert!(matches!(result, Err(Error::UnexpectedResponse(_))), "{status}: {result:?}");
        };
        foreign(client.release(&job, &me).await);
        foreign(client.release_permits(&job, &me, 1).await);
        foreign(client.counter("c").delete().await);
        foreign(client.latch("l").delete().await);
        foreign(client.close_session(&me).await);
        foreign(client.close().await);
    }
}

#[tokio::test]
async fn a_release_that_the_cluster_rejects_is_no_loss() {
    let (client, _) = releasing(403, &problem("forbidden", 403, false).1).await;
    let released = acquire(&client).await.unwrap().release().await;
    assert!(matches!(released, Err(Error::Rejected(_))), "{released:?}");

    let (client, _) = releasing(409, &problem("not-holder", 409, false).1).await;
    let released = acquire(&client).await.unwrap().release().await;
    assert!(matches!(released, Err(Error::Lost(Loss::ReleasedElsewhere))), "{released:?}");
}

#[tokio::test]
async fn dropping_a_release_future_releases_the_lock_in_the_background() {
    let (client, lines) = granting("").await;
    let release = acquire(&client).await.unwrap().release();
    tokio::select! {
        biased;
        result = release => panic!("released without a wait: {result:?}"),
        () = std::future::ready(()) => {}
    }
    until("it is released", || released(&lines) == 1).await;
}

#[tokio::test]
async fn dropping_an_acquire_future_leaves_the_queue() {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        if is_acquire(line) {
            Some(problem("no-leader", 503, true))
        } else {
            default_answer(line, "")
        }
    })
    .await;
    let client = client([address]);
    let pending = client.lock("job").acquire();
    assert!(tokio::time::timeout(Duration::from_millis(200), pending).await.is_err());
    until("the queue entry is released", || released(&lines) == 1).await;
}

#[tokio::test]
async fn a_missed_progress_report_releases_the_lock() {
    let (client, lines) = granting("").await;
    let every = Duration::from_secs(1);
    let guard = client.lock("job").progress_timeout(every).acquire().await.unwrap();
    let cancelled = guard.cancel_token();
    let begun = Instant::now();
    while begun.elapsed() < every * 2 {
        guard.report_progress().unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(guard.lost().await, Loss::Stalled { timeout: every });
    assert_eq!(
        guard.report_progress(),
        Err(Loss::Stalled { timeout: every }),
        "a late report is no renewal"
    );
    cancelled.cancelled().await;
    until("it is released while the guard still lives", || released(&lines) == 1).await;
    assert!(matches!(guard.release().await, Err(Error::Lost(Loss::Stalled { .. }))));
}

#[tokio::test]
async fn a_lock_is_released_when_max_hold_has_passed() {
    let (client, lines) = granting("").await;
    let max = Duration::from_millis(150);
    let guard = client.lock("job").max_hold(max).acquire().await.unwrap();
    assert!(guard.remaining() <= max);
    assert_eq!(guard.lost().await, Loss::MaxHoldExceeded { max });
    until("it is released", || released(&lines) >= 1).await;
    assert!(!guard.is_held());
}

#[tokio::test]
async fn a_reentry_has_the_same_owner_and_token() {
    let (client, lines) = granting("").await;
    let guard = acquire(&client).await.unwrap();
    let again = guard.reenter().await.unwrap();
    assert_eq!(again.token(), guard.token());
    let acquires: Vec<String> =
        lines.lock().unwrap().iter().filter(|line| is_acquire(line)).cloned().collect();
    let part = |line: &str, key: &str| {
        line.split(&['?', '&', ' ']).find(|part| part.starts_with(key)).unwrap().to_owned()
    };
    assert_eq!(part(&acquires[0], "owner="), part(&acquires[1], "owner="));
    assert_ne!(part(&acquires[0], "attempt="), part(&acquires[1], "attempt="));
    again.release().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(released(&lines), 2);
}

#[tokio::test]
async fn a_lost_lock_is_not_reentered() {
    let (address, _) = lock_node(|call| {
        let later = grant(8, 0, 30_000).replace(r#""ticket":5"#, r#""ticket":6"#);
        Some((200, if call == 0 { grant(7, 0, 30_000) } else { later }))
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    assert!(matches!(guard.reenter().await, Err(Error::Lost(Loss::ReleasedElsewhere))));
    assert_eq!(guard.ensure(), Err(Loss::ReleasedElsewhere));
}

#[tokio::test]
async fn a_lock_that_the_session_no_longer_holds_is_lost_and_not_acquired_again() {
    let (address, acquires) = {
        let acquires = Arc::new(AtomicUsize::new(0));
        let counter = acquires.clone();
        let (address, _) = node(move |_, line| match line.split(' ').next() {
            Some("PUT") if is_acquire(line) => {
                counter.fetch_add(1, Ordering::SeqCst);
                Some((200, grant(7, 0, 900)))
            }
            Some("PUT" | "POST") => Some((200, session("", 900))),
            _ => default_answer(line, ""),
        })
        .await;
        (address, acquires)
    };
    let guard = acquire(&client([address])).await.unwrap();
    assert_eq!(guard.lost().await, Loss::ReleasedElsewhere);
    assert_eq!(acquires.load(Ordering::SeqCst), 1);
}

/// Counts its drops.
struct DropCount(Arc<AtomicUsize>);

impl Drop for DropCount {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn work_under_a_lock_is_cancelled_by_its_loss() {
    let (client, lines) = granting("").await;
    let dropped = Arc::new(AtomicUsize::new(0));
    let drop_count = DropCount(dropped.clone());
    let lock = client.lock("job").max_hold(Duration::from_millis(100));
    let done = lock
        .with_lock(async |hold| {
            let _drop_count = drop_count;
            assert_eq!(hold.token().0, 7);
            std::future::pending::<()>().await;
        })
        .await;
    assert!(matches!(done, Err(Error::Lost(Loss::MaxHoldExceeded { .. }))), "{done:?}");
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    until("it is released", || released(&lines) >= 1).await;
}

#[tokio::test]
async fn work_under_a_lock_returns_its_result_and_releases_the_lock() {
    let (client, lines) = granting("").await;
    let task =
        tokio::spawn(async move { client.with_lock("job", async |hold| hold.token()).await });
    assert_eq!(task.await.unwrap().unwrap().0, 7);
    assert_eq!(released(&lines), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocking_client_holds_renews_and_releases() {
    let (address, acquires) = lock_node(|_| Some((200, grant(7, 0, 30_000)))).await;
    let work = move || {
        let client = blocking::Client::new([address]).unwrap();
        let guard = client.lock("job").timeout(Duration::from_secs(1)).acquire().unwrap();
        assert_eq!((guard.token().0, guard.is_held()), (7, true));
        assert_eq!(guard.lost_within(Duration::from_millis(10)), None);
        guard.release().unwrap();
        client.lock("job").with_lock(Hold::ensure).unwrap().unwrap();
    };
    // The blocking client rejects calls on a thread of a runtime.
    tokio::task::spawn_blocking(|| std::thread::spawn(work).join().unwrap()).await.unwrap();
    assert_eq!(acquires.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_blocking_client_rejects_calls_inside_a_runtime() {
    let client = blocking::Client::new([unused_address().await]).unwrap();
    assert!(matches!(client.lock("job").acquire(), Err(Error::InvalidArgument(_))));
}
