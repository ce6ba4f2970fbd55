//! Multi-locks, hand-overs, elections and deadlines.

use std::sync::Mutex;

use super::*;

fn requests(lines: &Mutex<Vec<String>>, what: &str) -> usize {
    lines.lock().unwrap().iter().filter(|line| line.contains(what)).count()
}

fn grants(tokens: &[(&str, u64)]) -> String {
    let one = |(lock, token): &(&str, u64)| grant(*token, 0, 30_000).replace("job", lock);
    let all: Vec<String> = tokens.iter().map(one).collect();
    format!(r#"{{"grants":[{}],"revision":1}}"#, all.join(","))
}

fn both() -> String {
    grants(&[("a", 7), ("b", 8)])
}

/// A client of a node that grants `a` and `b` and lists `holds` in renewals, and the request lines of the node.
async fn granting(holds: &'static str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        Some(match line {
            line if line.starts_with("POST /v1/locks?") => (200, both()),
            line if line.starts_with("DELETE") => (204, String::new()),
            line if line.starts_with("GET /v1/locks/") => (200, free()),
            _ => (200, session(holds, 900)),
        })
    })
    .await;
    (client([address]), lines)
}

fn free() -> String {
    r#"{"lock":"a","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":9}"#.to_owned()
}

#[tokio::test]
async fn all_locks_are_acquired_by_one_call_and_released_by_one() {
    let (client, lines) = granting(r#"{"lock":"a","token":7},{"lock":"b","token":8}"#).await;
    let mut both = client.lock_many(["a", "b"]).acquire().await.unwrap();
    let tokens: Vec<u64> = both.tokens().values().map(|token| token.0).collect();
    assert_eq!(tokens, [7, 8]);
    assert_eq!(both.hold("b").unwrap().token().0, 8);
    assert!(both.hold("c").is_none() && both.is_held());
    assert_eq!(requests(&lines, "POST /v1/locks?name=a&name=b&session="), 1);
    assert!(matches!(both.release_one("c").await, Err(Error::InvalidArgument(_))));
    both.release_one("a").await.unwrap();
    assert_eq!(requests(&lines, "DELETE /v1/locks/a?"), 1);
    both.release().await.unwrap();
    assert_eq!(requests(&lines, "DELETE /v1/locks/b?"), 1);
    drop(client.lock_many(["a", "b"]).acquire().await.unwrap());
    until("one call releases both", || requests(&lines, "DELETE /v1/locks?name=a&name=b&") == 1)
        .await;
}

#[tokio::test]
async fn the_loss_of_one_lock_is_reported_and_the_other_stays_held() {
    let (client, _) = granting(r#"{"lock":"a","token":7}"#).await;
    let both = client.lock_many(["a", "b"]).acquire().await.unwrap();
    let cancelled = both.cancel_token();
    let (lock, loss) = tokio::time::timeout(Duration::from_secs(10), both.lost()).await.unwrap();
    assert_eq!((lock.as_str(), &loss), ("b", &Loss::ReleasedElsewhere));
    assert_eq!(both.ensure(), Err(Loss::ReleasedElsewhere));
    assert!(both.hold("a").unwrap().is_held());
    cancelled.cancelled().await;
    assert!(matches!(both.release().await, Err(Error::Lost(Loss::ReleasedElsewhere))));
}

#[tokio::test]
async fn an_acquire_with_an_unknown_outcome_is_released() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        match line {
            // The outcome is unknown: the connection is dropped.
            line if line.starts_with("POST /v1/locks?") => None,
            line if line.starts_with("DELETE") => Some((204, String::new())),
            _ => Some((200, session("", 30_000))),
        }
    })
    .await;
    let doubt = client([address]).lock_many(["a", "b"]).try_acquire().await.unwrap_err();
    assert!(matches!(doubt, Error::OutcomeUnknown(_)), "{doubt:?}");
    until("it is released", || requests(&lines, "DELETE /v1/locks?name=a&name=b&") == 1).await;
}

/// The cluster releases several locks in one call only by their common attempt.
#[tokio::test]
async fn transferred_locks_are_released_by_one_call_each() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        let (lock, token) = if line.contains("/v1/locks/a") { ("a", 7) } else { ("b", 8) };
        let held = format!(
            r#"{{"lock":"{lock}","mode":"exclusive","held":true,"holders":[{{"session":"me","token":{token},"held_for_ms":1,
            "hold_count":1,"labels":{{}}}}],"holders_total":1,"waiters":0,"queue":[],"last_token":{token}}}"#
        );
        Some(match line {
            line if is_acquire(line) => (200, grant(token, 0, 30_000).replace("job", lock)),
            line if line.starts_with("GET /v1/locks/") => (200, held),
            line if line.starts_with("DELETE /v1/locks?") => problem("invalid-argument", 400, false),
            line if line.starts_with("DELETE") => (204, String::new()),
            _ => (200, session("", 30_000)),
        })
    })
    .await;
    let client = Client::builder([address]).named_session("me").build().unwrap();
    let received = async |lock| client.lock(lock).receive_transfer().await.unwrap().unwrap();
    let released = |count| {
        let calls = ["a?session=me&token=7 ", "b?session=me&token=8 "];
        calls.iter().all(|call| requests(&lines, &format!("DELETE /v1/locks/{call}")) == count)
    };
    let both = MultiGuard::from(received("a").await).join(received("b").await.into());
    both.release().await.unwrap();
    assert!(released(1), "{lines:?}");
    drop(MultiGuard::from(received("a").await).join(received("b").await.into()));
    until("the dropped locks are released", || released(2)).await;
}

/// A client of a node that grants token 7 and answers the n-th hand-over with `answer`; and the request lines.
async fn handing(
    answer: impl Fn(usize) -> Option<(u16, String)> + Send + Sync + 'static,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let (recorded, count) = (lines.clone(), AtomicUsize::new(0));
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        match line {
            line if line.starts_with("PUT /v1/locks/") => Some((200, grant(7, 0, 30_000))),
            line if line.contains("&to=") => answer(count.fetch_add(1, Ordering::SeqCst)),
            line if line.starts_with("DELETE") => Some((204, String::new())),
            _ => Some((200, session(r#"{"lock":"job","token":7}"#, 30_000))),
        }
    })
    .await;
    (client([address]), lines)
}

fn to() -> SessionName {
    SessionName::new("you").unwrap()
}

#[tokio::test]
async fn every_view_reports_the_hand_over_before_the_call() {
    let handed = r#"{"lock":"job","to":"you","token":9,"revision":3}"#;
    let views: Arc<Mutex<Option<Hold>>> = Arc::default();
    let (current, at_the_call) = (views.clone(), Arc::new(Mutex::new(None)));
    let noted = at_the_call.clone();
    let (client, lines) = handing(move |_| {
        let held = current.lock().unwrap().as_ref().map(|hold: &Hold| hold.ensure());
        *noted.lock().unwrap() = held;
        Some((200, handed.to_owned()))
    })
    .await;
    let guard = client.lock("job").acquire().await.unwrap();
    let view = guard.hold();
    *views.lock().unwrap() = Some(view.clone());
    let cancelled = guard.cancel_token();
    assert_eq!(guard.transfer(&to(), Some("worker")).await.unwrap().0, 9);
    assert_eq!(
        *at_the_call.lock().unwrap(),
        Some(Err(Loss::Transferred)),
        "the sender ends its hold first"
    );
    assert!(cancelled.is_cancelled());
    assert_eq!(view.lost().await, Loss::Transferred);
    assert_eq!(requests(&lines, "&to=you&to_owner=worker"), 1);
    assert_eq!(requests(&lines, "POST /v1/transfers/job?"), 1);
    assert_eq!(requests(&lines, "DELETE"), 0, "nothing is released");
}

#[tokio::test]
async fn a_rejected_hand_over_returns_a_guard_of_the_same_hold() {
    let (client, _) = handing(|_| Some(problem("in-use", 409, false))).await;
    let guard = client.lock("job").acquire().await.unwrap();
    let view = guard.hold();
    let failure = guard.transfer(&to(), None).await.unwrap_err();
    assert!(matches!(failure.error, Error::Rejected(_)), "{failure:?}");
    let guard = failure.guard.expect("a guard of the same hold");
    assert_eq!((guard.token().0, guard.is_held()), (7, true));
    assert_eq!(view.ensure(), Err(Loss::Transferred), "a lost view stays lost");
}

#[tokio::test]
async fn a_hand_over_whose_answer_was_lost_is_sent_again_and_gets_its_first_answer() {
    let handed = r#"{"lock":"job","to":"you","token":9,"revision":3}"#;
    let (client, lines) = handing(move |call| (call > 0).then(|| (200, handed.to_owned()))).await;
    let guard = client.lock("job").acquire().await.unwrap();
    assert_eq!(guard.transfer(&to(), None).await.unwrap().0, 9);
    assert_eq!(requests(&lines, "&token=7&to=you"), 2, "both copies name the token of the hold");
}

#[tokio::test]
async fn a_hand_over_with_an_unknown_outcome_is_released() {
    let (client, lines) = handing(|_| None).await;
    let client = client.request_timeout(Duration::from_millis(300));
    let guard = client.lock("job").acquire().await.unwrap();
    let failure = guard.transfer(&to(), None).await.unwrap_err();
    assert!(
        matches!(failure.error, Error::OutcomeUnknown(_)) && failure.guard.is_none(),
        "{failure:?}"
    );
    until("it is released", || requests(&lines, "&attempt=") >= 2).await;
}

/// The hold may have a newer token, by an upgrade of another program.
#[tokio::test]
async fn a_hand_over_of_a_token_that_is_not_the_present_one_releases_the_hold() {
    let (client, lines) = handing(|_| Some(problem("not-holder", 409, false))).await;
    let guard = client.lock("job").acquire().await.unwrap();
    let failure = guard.transfer(&to(), None).await.unwrap_err();
    let is_lost = matches!(failure.error, Error::Lost(Loss::ReleasedElsewhere));
    assert!(is_lost && failure.guard.is_none(), "{failure:?}");
    until("it is released", || requests(&lines, "&attempt=") >= 2).await;
}

#[tokio::test]
async fn a_leader_replaces_its_value_and_never_acquires_the_leadership_again() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        Some(match line {
            line if line.contains("value=c") => {
                (200, grant(9, 0, 30_000).replace(r#""ticket":5"#, r#""ticket":6"#))
            }
            line if line.starts_with("PUT /v1/locks/") => (200, grant(7, 0, 30_000)),
            line if line.starts_with("DELETE") => (204, String::new()),
            _ => (200, session(r#"{"lock":"job","token":7}"#, 30_000)),
        })
    })
    .await;
    let mut leadership = client([address]).election("db").campaign("a").await.unwrap();
    assert_eq!(requests(&lines, "PUT /v1/locks/elections/db?"), 1);
    leadership.proclaim("b").await.unwrap();
    assert_eq!((leadership.value(), leadership.token().0), ("b", 7));
    let lost = leadership.proclaim("c").await.unwrap_err();
    assert!(matches!(lost, Error::Lost(Loss::ReleasedElsewhere)), "{lost:?}");
    assert!(!leadership.is_held());
    drop(leadership);
    until("the new hold is released", || requests(&lines, "DELETE /v1/locks/elections/db?") == 1)
        .await;
}

fn request_release(hold: &Hold, request: ReleaseRequest) {
    hold.session.entries.request_release(&hold.entry, request);
}

/// A release request that revokes the hold at its deadline.
fn revoking(after: Duration) -> ReleaseRequest {
    ReleaseRequest { reason: None, deadline: Moment::now().plus(after), revoke: true }
}

#[tokio::test]
async fn the_deadline_of_a_multi_lock_is_the_earliest_and_moves_both_ways() {
    let (client, _) = granting(r#"{"lock":"a","token":7},{"lock":"b","token":8}"#).await;
    let both = client.lock_many(["a", "b"]).acquire().await.unwrap();
    let first = both.deadline_moment().unwrap();
    let renewed = both.deadline_after(first).await.unwrap();
    assert!(renewed > first, "a renewal moves the deadline");
    // The request is for the second lock alone: the first lock keeps its deadline.
    let request = revoking(Duration::from_secs(1));
    request_release(both.hold("b").unwrap(), request.clone());
    let mut known = renewed;
    while known != request.deadline {
        known = both.deadline_after(known).await.unwrap();
    }
    assert!(both.hold("a").unwrap().deadline_moment().unwrap() > request.deadline);
    assert_eq!(both.deadline_after(known).await, Err(Loss::Revoked { reason: None }));
    assert!(both.hold("a").unwrap().is_held());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_blocking_client_reports_the_loss_of_a_multi_lock_inside_a_runtime() {
    let (address, _) = node(|_, line| match line {
        line if line.starts_with("POST /v1/locks?") => Some((200, both())),
        line => default_answer(line, ""),
    })
    .await;
    let (max, long) = (Duration::from_millis(100), Duration::from_secs(10));
    let work = move || {
        let client = blocking::Client::new([address]).unwrap();
        let both = client.lock_many(["a", "b"]).max_hold(max).acquire().unwrap();
        both.lost_within(long).unwrap();
        both
    };
    let both = tokio::task::spawn_blocking(|| std::thread::spawn(work).join().unwrap()).await;
    let (lock, loss) = both.unwrap().lost_within(long).unwrap();
    assert_eq!((lock.as_str(), loss), ("a", Loss::MaxHoldExceeded { max }));
}

#[tokio::test]
async fn the_token_of_a_multi_lock_ignores_a_lock_that_was_released_alone() {
    let (client, lines) = granting(r#"{"lock":"a","token":7},{"lock":"b","token":8}"#).await;
    let mut both = client.lock_many(["a", "b"]).acquire().await.unwrap();
    let cancelled = both.cancel_token();
    let released = both.hold("a").unwrap().clone();
    request_release(&released, revoking(Duration::from_secs(1)));
    both.release_one("a").await.unwrap();
    assert_eq!(released.lost().await, Loss::Revoked { reason: None });
    let early = tokio::time::timeout(Duration::from_millis(50), cancelled.cancelled()).await;
    assert!(early.is_err(), "the deadline of a released lock cancels the token");
    assert_eq!((both.ensure(), requests(&lines, "DELETE /v1/locks/a?")), (Ok(()), 1));
    both.hold("b").unwrap().entry.lose(Loss::ReleasedElsewhere);
    cancelled.cancelled().await;
}

#[tokio::test]
async fn each_lock_that_the_client_gives_up_is_released_once_while_the_guard_lives() {
    let (client, lines) = granting(r#"{"lock":"a","token":7},{"lock":"b","token":8}"#).await;
    let both = client.lock_many(["a", "b"]).acquire().await.unwrap();
    for (lock, after) in [("a", 50), ("b", 100)] {
        let request = revoking(Duration::from_millis(after));
        request_release(both.hold(lock).unwrap(), request);
    }
    for lock in ["a", "b"] {
        let call = format!("DELETE /v1/locks/{lock}?");
        until("it is released", || requests(&lines, &call) == 1).await;
    }
    assert!(both.cancel_token().is_cancelled());
}

#[tokio::test]
async fn a_progress_report_moves_the_deadline_of_a_guard() {
    let (address, _) = lock_node(|_| Some((200, grant(7, 0, 30_000)))).await;
    let timeout = Duration::from_secs(10);
    let guard = client([address]).lock("job").progress_timeout(timeout).acquire().await.unwrap();
    let first = guard.deadline_moment().unwrap();
    let moved = guard.deadline_after(first);
    let reported = async { guard.report_progress() };
    let (moved, reported) = tokio::join!(moved, reported);
    reported.unwrap();
    assert!(moved.unwrap() > first);
}
