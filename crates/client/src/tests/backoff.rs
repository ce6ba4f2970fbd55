//! Background tasks and streams at nodes that fail each time, and nodes with `Retry-After` in their answers.

use std::sync::Mutex;

use super::*;
use crate::calls::retry::RETRY_PAUSE;

/// An observer at a node that answers the n-th call with `events` and ends the stream; and the number of calls.
async fn observing(
    events: impl Fn(usize) -> String + Send + Sync + 'static,
) -> (Observer, Arc<AtomicUsize>) {
    let (address, calls) = node(move |call, _| Some((200, events(call)))).await;
    let client = client([address]).request_timeout(Duration::from_millis(500));
    (client.election("db").observe().unwrap(), calls)
}

#[tokio::test]
async fn an_observer_pauses_and_gives_up_if_every_stream_ends_at_once() {
    for events in ["", "event: reconnect\ndata: {}\n\n", "id: 3\nevent: bookmark\ndata: {}\n\n"] {
        let (mut observer, calls) = observing(|_| events.to_owned()).await;
        let change = tokio::time::timeout(Duration::from_secs(10), observer.next_change()).await;
        assert!(matches!(change, Ok(Err(Error::Unavailable(_)))), "{events:?}: {change:?}");
        assert!(calls.load(Ordering::SeqCst) <= 6, "{events:?}: {calls:?}");
    }
}

#[tokio::test]
async fn an_undecodable_event_is_an_error_and_the_observer_continues_after_it() {
    let vacant = r#"{"election":"db","leader":null,"revision":4}"#;
    let (mut observer, _) = observing(move |_| {
        format!("id: 3\nevent: leader\ndata: {{}}\n\nid: 4\nevent: vacant\ndata: {vacant}\n\n")
    })
    .await;
    let error = observer.next_change().await.unwrap_err();
    assert!(error.to_string().contains("undecodable leader event"), "{error}");
    let revision = Revision(4);
    assert_eq!(observer.next_change().await.unwrap(), ElectionChange::Vacant { revision });
}

#[tokio::test]
async fn a_membership_whose_watch_is_rejected_pauses_between_two_restorations() {
    let writes: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let recorded = writes.clone();
    let (address, _) = node(move |_, line| {
        if line.starts_with("POST /v1/txn") {
            recorded.lock().unwrap().push(Instant::now());
            return Some((200, r#"{"succeeded":true,"results":[],"revision":4}"#.to_owned()));
        }
        if line.starts_with("GET /v1/watch") {
            return Some(problem("bad-duration", 400, false));
        }
        default_answer(line, "")
    })
    .await;
    let member = client([address]).group("web").join("a").await.unwrap();
    until("it is restored twice", || writes.lock().unwrap().len() >= 3).await;
    let times = writes.lock().unwrap().clone();
    assert!(times[2] - times[1] >= RETRY_PAUSE / 2, "{times:?}");
    drop(member);
}

/// The watch reports the deletion once.
#[tokio::test]
async fn a_membership_is_restored_although_the_first_restoration_fails() {
    let (writes, watches) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let counted = writes.clone();
    let (address, _) = node(move |_, line| {
        if line.starts_with("POST /v1/txn") {
            return Some(match counted.fetch_add(1, Ordering::SeqCst) {
                1 => problem_with("no-leader", 503, r#""retry_after_ms":5000"#),
                _ => (200, r#"{"succeeded":true,"results":[],"revision":4}"#.to_owned()),
            });
        }
        if line.starts_with("GET /v1/watch") {
            let deleted = r#"{"events":[{"revision":5,"kind":"deleted","path":"/groups/web/a"}],"revision":5}"#;
            let is_first = watches.fetch_add(1, Ordering::SeqCst) == 0;
            return Some((if is_first { 200 } else { HANG }, deleted.to_owned()));
        }
        default_answer(line, "")
    })
    .await;
    let _member = client([address]).group("web").join("a").await.unwrap();
    until("it is restored", || writes.load(Ordering::SeqCst) == 3).await;
}

/// Nodes that answer a read with `busy` for the first `failures` times in total, and the time and the node of each read.
async fn busy_nodes<const N: usize>(
    busy: (u16, String),
    failures: usize,
) -> ([String; N], Arc<Mutex<Vec<(Instant, usize)>>>) {
    let reads: Arc<Mutex<Vec<(Instant, usize)>>> = Arc::default();
    let mut addresses = [const { String::new() }; N];
    for (index, address) in addresses.iter_mut().enumerate() {
        let (busy, reads) = (busy.clone(), reads.clone());
        (*address, _) = node(move |_, line| {
            let mut reads = reads.lock().unwrap();
            reads.push((Instant::now(), index));
            if reads.len() > failures { default_answer(line, "") } else { Some(busy.clone()) }
        })
        .await;
    }
    (addresses, reads)
}

/// Reads a lock within `timeout`, first at node 0. Returns the result and the reads that the nodes received.
async fn read_at<const N: usize>(
    timeout: Duration,
    busy: (u16, String),
    failures: usize,
) -> (Result<(), Error>, Vec<(Instant, usize)>) {
    let (addresses, reads) = busy_nodes::<N>(busy, failures).await;
    let client = Client::builder(addresses).request_timeout(timeout).build().unwrap();
    client.prefer(0);
    let result = client.lock_state(&LockName::new("job").unwrap()).await.map(drop);
    let reads = reads.lock().unwrap().clone();
    (result, reads)
}

const LONG: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_node_gets_a_call_again_only_after_its_retry_after() {
    for (code, status) in [("no-leader", 503), ("outcome-unknown", 503), ("rate-limited", 429)] {
        let busy = problem_with(code, status, r#""retry_after_ms":300"#);
        let (result, reads) = read_at::<1>(LONG, busy, 1).await;
        result.unwrap();
        let [(first, _), (second, _)] = reads[..] else { panic!("{code}: {reads:?}") };
        assert!(second - first >= Duration::from_secs(1), "{code}: {reads:?}");
    }
}

#[tokio::test]
async fn another_node_gets_the_call_at_once() {
    for (code, status) in [("shutting-down", 503), ("rate-limited", 429)] {
        let busy = problem_with(code, status, r#""retry_after_ms":60000"#);
        let (result, reads) = read_at::<3>(LONG, busy, 2).await;
        result.unwrap();
        let nodes: Vec<usize> = reads.iter().map(|(_, node)| *node).collect();
        assert_eq!(nodes, [0, 1, 2], "{code}");
        assert!(reads[2].0 - reads[0].0 < Duration::from_secs(5), "{code}: {reads:?}");
    }
}

#[tokio::test]
async fn a_node_with_a_retry_after_comes_last_in_the_next_calls() {
    let busy = problem_with("shutting-down", 503, r#""retry_after_ms":60000"#);
    let (addresses, reads) = busy_nodes::<2>(busy, 1).await;
    let client = client(addresses);
    for _ in 0..2 {
        client.prefer(0);
        client.lock_state(&LockName::new("job").unwrap()).await.unwrap();
    }
    let nodes: Vec<usize> = reads.lock().unwrap().iter().map(|(_, node)| *node).collect();
    assert_eq!(nodes, [0, 1, 1]);
}

#[tokio::test]
async fn a_quota_of_calls_counts_at_every_node() {
    for owner in ["namespace", "subject"] {
        let facts = format!(r#""bound":"calls_per_second of the {owner}","retry_after_ms":20"#);
        let busy = problem_with("rate-limited", 429, &facts);
        let (result, reads) = read_at::<3>(LONG, busy, 1).await;
        result.unwrap();
        let [(first, _), (second, _)] = reads[..] else { panic!("{owner}: {reads:?}") };
        assert!(second - first >= Duration::from_secs(1), "{owner}: {reads:?}");
    }
}

#[tokio::test]
async fn a_call_ends_at_once_if_its_time_is_shorter_than_retry_after() {
    for (timeout, ms) in [(Duration::from_millis(500), 5_000), (LONG, 60_000)] {
        let busy = problem_with("disk-full", 503, &format!(r#""retry_after_ms":{ms}"#));
        let (result, reads) = read_at::<1>(timeout, busy, usize::MAX).await;
        let Err(Error::Unavailable(reason)) = result else { panic!("{result:?}") };
        assert!(reason.contains("disk-full"), "{reason}");
        assert_eq!(reads.len(), 1);
        assert!(reads[0].0.elapsed() < LONG / 2, "{reads:?}");
    }
}

/// A client with a short timeout of its calls, whose node answers the first call with this text by a `Retry-After` of a
/// second; and the moments of these calls.
async fn client_of_busy_node(
    call: &'static str,
    answer: impl Fn() -> String + Send + Sync + 'static,
) -> (Client, Arc<Mutex<Vec<Instant>>>) {
    let calls: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let recorded = calls.clone();
    let (address, _) = node(move |_, line| {
        if !line.contains(call) {
            return if is_acquire(line) {
                let upgradable = r#""mode":"upgradable""#;
                Some((200, grant(7, 0, 30_000).replace(r#""mode":"exclusive""#, upgradable)))
            } else {
                default_answer(line, "")
            };
        }
        let mut calls = recorded.lock().unwrap();
        calls.push(Instant::now());
        let is_first = calls.len() == 1;
        let busy = || problem_with("no-leader", 503, r#""retry_after_ms":1000"#);
        Some(if is_first { busy() } else { (200, answer()) })
    })
    .await;
    let client = Client::builder([address]).request_timeout(Duration::from_millis(500));
    (client.build().unwrap(), calls)
}

/// Asserts that the second call came after the `Retry-After` of the first one, and that there is no third one.
fn assert_paused(calls: &Mutex<Vec<Instant>>) {
    let calls = calls.lock().unwrap();
    assert!(calls.len() == 2 && calls[1] - calls[0] >= Duration::from_secs(1), "{calls:?}");
}

#[tokio::test]
async fn an_operation_that_outlasts_its_calls_waits_for_the_retry_after() {
    let granted = || grant(8, 0, 30_000);
    let (client, acquires) = client_of_busy_node("PUT /v1/locks/", granted).await;
    drop(client.lock("job").timeout(LONG).acquire().await.unwrap());
    assert_paused(&acquires);

    let open = r#"{"latch":"l","count":1,"left":0,"open":true,"promised":0,"revision":3}"#;
    let (client, waits) = client_of_busy_node("GET /v1/latches/", || open.to_owned()).await;
    client.latch("l").wait(LONG).await.unwrap();
    assert_paused(&waits);

    let (client, upgrades) = client_of_busy_node("mode=exclusive", granted).await;
    let mut guard = client.lock("job").upgradable().acquire().await.unwrap();
    guard.upgrade(LONG).await.unwrap();
    assert_paused(&upgrades);

    let (client, releases) = client_of_busy_node("DELETE /v1/locks/", String::new).await;
    drop(client.lock("job").try_acquire().await.unwrap());
    until("the release is repeated", || releases.lock().unwrap().len() > 1).await;
    assert_paused(&releases);
}

#[tokio::test]
async fn a_wait_that_is_shorter_than_the_retry_after_ends_at_once() {
    let (client, acquires) = client_of_busy_node("PUT /v1/locks/", || grant(8, 0, 30_000)).await;
    let wait = Duration::from_millis(900);
    let error = client.lock("job").timeout(wait).acquire().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    assert!(acquires.lock().unwrap()[0].elapsed() < wait, "{acquires:?}");
}

#[tokio::test]
async fn a_stream_is_opened_again_after_the_retry_after() {
    let opens: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let recorded = opens.clone();
    let (address, _) = node(move |call, _| {
        recorded.lock().unwrap().push(Instant::now());
        let leader = r#"{"election":"db","leader":null,"revision":4}"#;
        Some(match call {
            0 => problem_with("no-leader", 503, r#""retry_after_ms":1000"#),
            _ => (200, format!("id: 4\nevent: vacant\ndata: {leader}\n\n")),
        })
    })
    .await;
    let client = Client::builder([address]).request_timeout(LONG).build().unwrap();
    let change = client.election("db").observe().unwrap().next_change().await.unwrap();
    assert_eq!(change, ElectionChange::Vacant { revision: Revision(4) });
    let opens = opens.lock().unwrap().clone();
    assert!(opens[1] - opens[0] >= Duration::from_secs(1), "{opens:?}");
}

/// A renewal does not wait for a node that would accept it only after the end of the lease.
#[tokio::test]
async fn a_lease_that_ends_before_the_retry_after_is_renewed_earlier() {
    let renewals = AtomicUsize::new(0);
    let (address, _) = node(move |_, line| match line.split(' ').next() {
        Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 3_000))),
        Some("POST") if parked(line).is_some() => Some(problem("too-many-waiters", 429, true)),
        Some("POST") if renewals.fetch_add(1, Ordering::SeqCst) == 0 => {
            Some(problem_with("starting", 503, r#""retry_after_ms":5000"#))
        }
        _ => Some((200, session(r#"{"lock":"job","token":7}"#, 3_000))),
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    let first = guard.deadline_moment();
    until("the lease is renewed", || guard.deadline_moment() > first).await;
    assert!(guard.is_held());
}
