//! The session of a client: its users, its renewal and its end.

use super::*;

/// The request lines of a node.
#[derive(Clone, Default)]
struct Counts(Arc<std::sync::Mutex<Vec<String>>>);

impl Counts {
    fn note(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }

    fn of(&self, begin: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.starts_with(begin)).count()
    }
}

/// A node whose sessions live for `ms` milliseconds and list these holds.
async fn counting(ms: u64, holds: &'static str) -> (String, Counts) {
    let counts = Counts::default();
    let recorded = counts.clone();
    let (address, _) = node(move |_, line| {
        recorded.note(line);
        match line.split(' ').next() {
            Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, ms))),
            Some("PUT" | "POST") => Some((200, session(holds, ms))),
            _ => default_answer(line, holds),
        }
    })
    .await;
    (address, counts)
}

const MINE: &str = r#"{"lock":"job","token":7}"#;

#[tokio::test]
async fn a_renewal_moves_the_deadline() {
    let (address, counts) = counting(1_500, MINE).await;
    let guard = acquire(&client([address])).await.unwrap();
    let first = guard.deadline();
    until("the deadline has moved", || guard.deadline() > first + Duration::from_millis(100)).await;
    assert!(guard.is_held() && counts.of("POST") >= 1);
}

#[tokio::test]
async fn guards_share_one_session_and_exclude_each_other_by_owner() {
    let (address, counts) = counting(30_000, MINE).await;
    let client = client([address]);
    let (first, second) = (acquire(&client).await.unwrap(), acquire(&client).await.unwrap());
    assert_eq!(counts.of("PUT /v1/sessions/"), 1);
    let owners: Vec<String> =
        counts.0.lock().unwrap().iter().filter(|line| is_acquire(line)).cloned().collect();
    let owner =
        |line: &String| line.split("owner=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    assert_ne!(owner(&owners[0]), owner(&owners[1]), "{owners:?}");
    drop((first, second));
}

#[tokio::test]
async fn locks_with_another_ttl_use_another_session() {
    let (address, counts) = counting(30_000, MINE).await;
    let client = client([address]);
    let ttl = Duration::from_secs(5);
    let first = client.lock("a").ttl(ttl).acquire().await.unwrap();
    let second = client.lock("b").ttl(ttl).acquire().await.unwrap();
    let third = client.lock("c").acquire().await.unwrap();
    assert_eq!(counts.of("PUT /v1/sessions/"), 2);
    drop((first, second, third));
}

#[tokio::test]
async fn renewal_ends_with_the_last_guard_and_the_session_is_not_used_beyond_its_deadline() {
    let (address, counts) = counting(1_500, MINE).await;
    let client = client([address]);
    let guard = acquire(&client).await.unwrap();
    until("a renewal", || counts.of("POST") >= 1).await;
    guard.release().await.unwrap();
    let after = counts.of("POST");
    // The session ends by itself, which takes several times as long as a renewal would.
    let session = client.open_session().await;
    until("the session is over", || !session.is_alive()).await;
    assert!(counts.of("POST") <= after + 1, "one renewal may have been in flight");
    let _again = acquire(&client).await.unwrap();
    assert_eq!(counts.of("PUT /v1/sessions/"), 2);
}

#[tokio::test]
async fn a_handle_keeps_the_session_alive_without_a_lock() {
    let (address, counts) = counting(1_500, "").await;
    let client = client([address]);
    let handle = client.session().await.unwrap();
    until("renewals", || counts.of("POST") >= 4).await;
    assert!(handle.remaining() > Duration::ZERO);
    assert!(handle.name().as_str().starts_with("sdk-"));
}

#[tokio::test]
async fn the_session_is_closed_when_client_and_guards_are_gone() {
    let (address, counts) = counting(30_000, MINE).await;
    let client = client([address]);
    let guard = acquire(&client).await.unwrap();
    drop(client);
    tokio::task::yield_now().await;
    assert_eq!(counts.of("DELETE"), 0, "a guard still uses the session");
    drop(guard);
    until("it is closed", || counts.of("DELETE /v1/sessions/sdk-") == 1).await;
}

#[tokio::test]
async fn a_named_session_is_left_open() {
    let (address, counts) = counting(30_000, MINE).await;
    let client = Client::builder([address]).named_session("me").build().unwrap();
    let guard = acquire(&client).await.unwrap();
    guard.release().await.unwrap();
    client.close().await.unwrap();
    drop(client);
    assert_eq!((counts.of("DELETE /v1/locks/"), counts.of("DELETE /v1/sessions/")), (1, 0));
}

#[tokio::test]
async fn a_hold_without_a_guard_is_released() {
    let counts = Counts::default();
    let recorded = counts.clone();
    let name = Arc::new(std::sync::Mutex::new(String::new()));
    let (address, _) = node(move |_, line| {
        recorded.note(line);
        if let Some(rest) = line.strip_prefix("PUT /v1/sessions/") {
            *name.lock().unwrap() = rest.split(['?', ' ']).next().unwrap().to_owned();
        }
        let look = format!(
            r#"{{"lock":"stray","mode":"exclusive","held":true,"holders":[{{"session":"{}","owner":"g-1","token":9,
            "held_for_ms":1,"hold_count":1,"labels":{{}}}}],"waiters":0,"queue":[],"last_token":9}}"#,
            name.lock().unwrap()
        );
        match line.split(' ').next() {
            Some("GET") => Some((200, look)),
            Some("PUT" | "POST") => Some((200, session(r#"{"lock":"stray","token":9}"#, 1_500))),
            _ => default_answer(line, ""),
        }
    })
    .await;
    let client = client([address]);
    let _handle = client.session().await.unwrap();
    until("it is released", || counts.of("DELETE /v1/locks/stray?session=sdk-") > 0).await;
}

#[tokio::test]
async fn a_grant_whose_answer_is_delayed_is_requested_again() {
    let acquires = Arc::new(AtomicUsize::new(0));
    let counter = acquires.clone();
    // The first node never answers, although the cluster has granted the lock.
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stuck = slow.local_addr().unwrap().to_string();
    let (address, _) = node(move |_, line| match line.split(' ').next() {
        Some("PUT") if is_acquire(line) => {
            counter.fetch_add(1, Ordering::SeqCst);
            Some((200, grant(7, 0, 3_000)))
        }
        Some("PUT" | "POST") => Some((200, session(MINE, 3_000))),
        _ => default_answer(line, MINE),
    })
    .await;
    let client = Client::builder([address, stuck]).build().unwrap();
    let _handle = client.session().await.unwrap();
    client.prefer(1);
    let guard = client.lock("job").timeout(Duration::from_secs(30));
    let guard = tokio::time::timeout(Duration::from_secs(10), guard.acquire()).await;
    assert_eq!(guard.unwrap().unwrap().token().0, 7);
    // On a slow machine, the other node gets a second copy.
    assert!(matches!(acquires.load(Ordering::SeqCst), 1 | 2));
    drop(slow);
}

/// The answer to a parked keepalive of the session `me`; `more` follows the events.
fn poll_answer(holds: &str, events: &str, more: &str) -> String {
    let body = session(holds, 1_500);
    body.replace(r#""events":[]"#, &format!(r#""events":[{events}]{more}"#))
}

const BROKEN: &str = r#"{"revision":9,"kind":"lost","lock":"job","token":7,"cause":"force-released","reason":"stuck"}"#;

#[tokio::test]
async fn a_session_without_room_for_a_parked_keepalive_is_renewed_and_tries_again() {
    let has_room = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (refused, renewed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (room, rejections, plain) = (has_room.clone(), refused.clone(), renewed.clone());
    let (address, _) = node(move |_, line| match line.split(' ').next() {
        Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 1_500))),
        Some("POST") if parked(line).is_some() && room.load(Ordering::SeqCst) => {
            Some((200, poll_answer("", BROKEN, "")))
        }
        Some("POST") if parked(line).is_some() => {
            rejections.fetch_add(1, Ordering::SeqCst);
            Some(problem("too-many-waiters", 429, true))
        }
        Some("POST") => {
            plain.fetch_add(1, Ordering::SeqCst);
            Some((200, session(MINE, 1_500)))
        }
        _ => Some((200, session(MINE, 1_500))),
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    let first = guard.deadline();
    until("the session is renewed and tries again", || {
        renewed.load(Ordering::SeqCst) >= 3 && refused.load(Ordering::SeqCst) >= 3
    })
    .await;
    assert!(guard.is_held() && guard.deadline() > first);
    has_room.store(true, Ordering::SeqCst);
    assert_eq!(guard.lost().await, Loss::ForceReleased { reason: Some("stuck".to_owned()) });
}

#[tokio::test]
async fn a_release_request_in_a_gap_of_events_is_read_from_the_lock() {
    let (address, _) = node(move |_, line| {
        let look = r#"{"lock":"job","mode":"exclusive","held":true,"holders":[{"session":"me","token":7,"held_for_ms":1,
            "hold_count":1,"labels":{},"release_request":{"reason":"patch day","wanted_in_ms":60000,"revoke":false}}],
            "holders_total":1,"waiters":0,"queue":[],"last_token":7}"#;
        match line.split(' ').next() {
            Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 1_500))),
            Some("POST") => Some((200, poll_answer(MINE, "", r#","gap":{"until":5}"#))),
            Some("GET") => Some((200, look.to_owned())),
            _ => Some((200, session(MINE, 1_500))),
        }
    })
    .await;
    let client = Client::builder([address]).named_session("me").build().unwrap();
    let guard = acquire(&client).await.unwrap();
    let request = guard.release_requested().await;
    assert_eq!((request.reason.as_deref(), request.revoke), (Some("patch day"), false));
    let again = guard.release_requested_after(Some(&request));
    let again = tokio::time::timeout(Duration::from_secs(1), again).await;
    assert!(again.is_err() && guard.is_held(), "the second delivery is the same request");
}

#[tokio::test]
async fn a_session_is_renewed_while_a_read_after_a_gap_has_no_answer() {
    let (renewals, reads) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (renewed, read) = (renewals.clone(), reads.clone());
    let (address, _) = node(move |_, line| match line.split(' ').next() {
        Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 1_500))),
        Some("POST") => {
            renewed.fetch_add(1, Ordering::SeqCst);
            Some((200, poll_answer(MINE, "", r#","gap":{"until":5}"#)))
        }
        Some("GET") => {
            read.fetch_add(1, Ordering::SeqCst);
            Some((HANG, String::new()))
        }
        _ => Some((200, session(MINE, 1_500))),
    })
    .await;
    let client = Client::builder([address]).named_session("me").build().unwrap();
    let guard = acquire(&client).await.unwrap();
    until("many renewals", || renewals.load(Ordering::SeqCst) >= 10).await;
    assert!(guard.is_held());
    // One read, and perhaps its copy.
    assert!(reads.load(Ordering::SeqCst) <= 2);
}

/// Another program of the owner upgrades the hold from token 7 to token 9. The request may name either.
#[tokio::test]
async fn a_release_request_beside_an_upgrade_reaches_the_guard() {
    const UPGRADED: &str = r#"{"lock":"job","ticket":5,"token":9}"#;
    for token in [7, 9] {
        let request = format!(
            r#"{{"revision":9,"kind":"release-requested","lock":"job","token":{token},"reason":"patch day","wanted_in_ms":60000}}"#
        );
        let (address, _) = node(move |_, line| match line.split(' ').next() {
            Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 1_500))),
            Some("POST") => Some((200, poll_answer(UPGRADED, &request, ""))),
            _ => Some((200, session(UPGRADED, 1_500))),
        })
        .await;
        let guard = acquire(&client([address])).await.unwrap();
        assert_eq!(guard.release_requested().await.reason.as_deref(), Some("patch day"));
        assert_eq!(guard.token().0, 9);
    }
}

/// Another program upgrades the hold from token 7 to token 9, and an operator ends it, before the next keepalive.
#[tokio::test]
async fn a_loss_under_the_token_of_an_upgrade_has_its_cause() {
    const EVENTS: &str = r#"{"revision":8,"kind":"granted","lock":"job","ticket":5,"token":9},
        {"revision":9,"kind":"lost","lock":"job","ticket":5,"token":9,"cause":"force-released","reason":"stuck"}"#;
    let (address, _) = node(|_, line| match line.split(' ').next() {
        Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 1_500))),
        Some("POST") if parked(line).is_some() => Some((200, poll_answer("", EVENTS, ""))),
        Some("DELETE") => default_answer(line, ""),
        _ => Some((200, session("", 1_500))),
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    assert_eq!(guard.lost().await, Loss::ForceReleased { reason: Some("stuck".to_owned()) });
    assert_eq!(guard.token().0, 9);
}

/// The cluster has executed the upgrade from token 7 to token 9, whose answer is late.
#[tokio::test]
async fn a_guard_that_upgrades_its_hold_gets_a_release_request_under_the_new_token() {
    const UPGRADED: &str = r#"{"lock":"job","ticket":5,"token":9}"#;
    const REQUEST: &str = r#"{"revision":9,"kind":"release-requested","lock":"job","ticket":5,"token":9,
        "reason":"patch day","wanted_in_ms":60000}"#;
    let (address, _) = node(|_, line| match line.split(' ').next() {
        Some("PUT") if line.contains("mode=exclusive") => Some((HANG, String::new())),
        Some("PUT") if is_acquire(line) => {
            let grant = grant(7, 0, 1_500);
            Some((200, grant.replace(r#""mode":"exclusive""#, r#""mode":"upgradable""#)))
        }
        Some("POST") => Some((200, poll_answer(UPGRADED, REQUEST, ""))),
        Some("DELETE") => default_answer(line, ""),
        _ => Some((200, session(UPGRADED, 1_500))),
    })
    .await;
    let mut guard = client([address]).lock("job").upgradable().acquire().await.unwrap();
    let view = guard.hold();
    tokio::select! {
        upgraded = guard.upgrade(Duration::from_mins(1)) => panic!("{upgraded:?}"),
        request = view.release_requested() => assert_eq!(request.reason.as_deref(), Some("patch day")),
    }
}

/// The keepalive that lists token 11 also has a request of the time of token 9. The guard has token 7.
#[tokio::test]
async fn an_event_between_two_upgrades_reaches_the_guard_by_the_ticket() {
    const UPGRADED: &str = r#"{"lock":"job","ticket":5,"token":11}"#;
    const REQUEST: &str = r#"{"revision":9,"kind":"release-requested","lock":"job","ticket":5,"token":9,
        "reason":"patch day","wanted_in_ms":60000}"#;
    let (address, _) = node(|_, line| match line.split(' ').next() {
        Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 1_500))),
        Some("POST") => Some((200, poll_answer(UPGRADED, REQUEST, ""))),
        Some("DELETE") => default_answer(line, ""),
        _ => Some((200, session(UPGRADED, 1_500))),
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    let request = guard.hold().release_requested().await;
    assert_eq!(request.reason.as_deref(), Some("patch day"));
    assert_eq!(guard.token().0, 11);
}
