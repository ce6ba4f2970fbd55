//! The client against small servers with scripted answers, one connection for each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

mod backoff;
mod changes;
mod frozen;
mod guards;
mod kinds;
mod multi_lock;
mod numbered;
mod renewal;
mod spans;

/// The status of a call that gets no answer while its connection stays open.
const HANG: u16 = 0;

/// Waits for a condition, with a deadline.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out waiting: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A node that answers every call with the result of `answer`, which gets the call's number from 0 and its first line.
async fn node(
    answer: impl Fn(usize, &str) -> Option<(u16, String)> + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    node_after(Duration::ZERO, answer).await
}

/// A [`node`] that answers each call after this time.
async fn node_after(
    delay: Duration,
    answer: impl Fn(usize, &str) -> Option<(u16, String)> + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (answer, counter) = (answer.clone(), counter.clone());
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                let read = stream.read(&mut bytes).await.unwrap();
                let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                let line = text.lines().next().unwrap_or_default();
                let call = counter.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(parked(line).unwrap_or(delay)).await;
                // `None` drops the connection without an answer.
                if let Some((status, body)) = answer(call, line) {
                    if status == HANG {
                        std::future::pending::<()>().await;
                    }
                    let head = format!(
                        "HTTP/1.1 {status} X\r\n{}{}content-length: {}\r\nconnection: close\r\n\r\n",
                        retry_after(&body),
                        if body.starts_with('<') { "content-type: text/html\r\n" } else { "" },
                        body.len()
                    );
                    stream.write_all((head + &body).as_bytes()).await.unwrap();
                }
            });
        }
    });
    (address, calls)
}

/// An address without a listener.
async fn unused_address() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

/// The grant of a hold, whose ticket is 5.
fn grant(token: u64, waited_ms: u64, expires_in_ms: u64) -> String {
    format!(
        r#"{{"lock":"job","mode":"exclusive","token":{token},"ticket":5,"session":"me","expires_in_ms":{expires_in_ms},
        "renewed":false,"waited_ms":{waited_ms},"waiters":0,"hold_count":1,"revision":1}}"#
    )
}

fn session(holds: &str, expires_in_ms: u64) -> String {
    format!(
        r#"{{"session":"me","incarnation":3,"ttl_ms":30000,"expires_in_ms":{expires_in_ms},"open_for_ms":1,"anonymous":false,
        "labels":{{}},"holds":[{holds}],"waits":[],"revision":2,"waited_ms":0,"events":[]}}"#
    )
}

/// Returns the requested wait of a parked keepalive.
fn parked(line: &str) -> Option<Duration> {
    let wait = line.split_once("/keepalive?wait=")?.1.split(['&', ' ']).next()?;
    Some(holdfast_api::parse_duration(wait).unwrap())
}

fn problem(code: &str, status: u16, retryable: bool) -> (u16, String) {
    let body = format!(
        r#"{{"type":"/errors/{code}","title":"{code}","status":{status},"code":"{code}","retryable":{retryable},
        "holder":{{"session":"web3","token":9,"held_for_ms":1,"hold_count":1,"labels":{{}}}}}}"#
    );
    (status, body)
}

/// The header of an answer whose body has `retry_after_ms`, in whole seconds as a node sends it.
fn retry_after(body: &str) -> String {
    let Some((_, ms)) = body.split_once("\"retry_after_ms\":") else { return String::new() };
    let ms: u64 = ms.split([',', '}']).next().unwrap().parse().unwrap();
    format!("retry-after: {}\r\n", ms.div_ceil(1_000))
}

/// A problem with more facts.
fn problem_with(code: &str, status: u16, facts: &str) -> (u16, String) {
    let (status, body) = problem(code, status, true);
    (status, body.replace(r#""retryable":true"#, &format!(r#""retryable":true,{facts}"#)))
}

fn client<const N: usize>(endpoints: [String; N]) -> Client {
    Client::builder(endpoints).request_timeout(Duration::from_secs(2)).build().unwrap()
}

async fn acquire(client: &Client) -> Result<Guard, Error> {
    client.lock("job").try_acquire().await
}

/// The answer to every call except an acquire: the session lives for 30 s and holds these locks.
#[expect(
    clippy::unnecessary_wraps,
    reason = "the type of every answer: `None` drops the connection"
)]
fn default_answer(line: &str, holds: &str) -> Option<(u16, String)> {
    let free = r#"{"lock":"job","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":7}"#;
    Some(match line.split(' ').next() {
        Some("PUT" | "POST") => (200, session(holds, 30_000)),
        Some("DELETE") => (204, String::new()),
        Some("GET") if line.starts_with("GET /v1/sessions/") => (200, session(holds, 30_000)),
        _ => (200, free.to_owned()),
    })
}

/// Whether a call is an acquire.
fn is_acquire(line: &str) -> bool {
    line.starts_with("PUT /v1/locks/")
}

/// A node that answers an acquire with `answer`, and other calls with the default answer.
async fn lock_node(
    answer: impl Fn(usize) -> Option<(u16, String)> + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>) {
    let acquires = Arc::new(AtomicUsize::new(0));
    let counter = acquires.clone();
    let (address, _) = node(move |_, line| {
        if is_acquire(line) {
            answer(counter.fetch_add(1, Ordering::SeqCst))
        } else {
            default_answer(line, "")
        }
    })
    .await;
    (address, acquires)
}

#[tokio::test]
async fn a_grant_carries_its_token() {
    let (address, _) = lock_node(|_| Some((200, grant(4812, 0, 30_000)))).await;
    let guard = acquire(&client([address])).await.unwrap();
    assert_eq!(guard.token().0, 4812);
    assert!(guard.remaining() > Duration::from_secs(25));
}

#[tokio::test]
async fn a_node_that_is_down_is_skipped() {
    let (address, _) = lock_node(|_| Some((200, grant(1, 0, 30_000)))).await;
    let guard = acquire(&client([unused_address().await, address])).await.unwrap();
    assert_eq!(guard.token().0, 1);
}

#[tokio::test]
async fn an_acquire_is_repeated_while_there_is_no_leader() {
    let (address, acquires) = lock_node(|call| match call {
        0 | 1 => Some(problem("no-leader", 503, true)),
        _ => Some((200, grant(1, 0, 30_000))),
    })
    .await;
    let _guard = acquire(&client([address])).await.unwrap();
    assert_eq!(acquires.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_busy_lock_names_its_holder_and_the_call_is_not_repeated() {
    let (address, acquires) = lock_node(|_| Some(problem("lock-busy", 423, true))).await;
    let error = acquire(&client([address])).await.unwrap_err();
    assert!(matches!(error, Error::Busy(_)), "{error:?}");
    assert_eq!(error.holder().unwrap().session.as_str(), "web3");
    assert_eq!(acquires.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_named_session_that_expired_is_a_loss() {
    let (address, _) = node(|_, _| Some(problem("session-expired", 410, false))).await;
    let client = Client::builder([address]).named_session("me").build().unwrap();
    assert!(matches!(acquire(&client).await, Err(Error::Lost(Loss::SessionEnded))));
}

#[tokio::test]
async fn the_close_of_a_session_that_has_ended_is_no_error() {
    let (address, _) = node(|_, line| match line {
        line if line.starts_with("DELETE ") => Some(problem("session-expired", 410, false)),
        line => default_answer(line, ""),
    })
    .await;
    let client = client([address]);
    let _open = client.session().await.unwrap();
    client.close().await.unwrap();
}

/// Another client of the named session acknowledged its end, and opened it again as incarnation 4.
#[tokio::test]
async fn the_close_of_a_session_that_has_ended_leaves_a_later_one_of_its_name() {
    let lines: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        let later = || session("", 30_000).replace(r#""incarnation":3"#, r#""incarnation":4"#);
        match line.split(' ').next() {
            Some("POST") => Some(problem("session-expired", 410, false)),
            Some("GET") => Some((200, later())),
            _ => default_answer(line, ""),
        }
    })
    .await;
    let client = Client::builder([address]).named_session("me").build().unwrap();
    client.session().await.unwrap().lost().await;
    client.close_session(&SessionName::new("me").unwrap()).await.unwrap();
    let _opened = client.session().await.unwrap();
    let lines = lines.lock().unwrap();
    let calls =
        |start: &str| -> Vec<_> { lines.iter().filter(|line| line.starts_with(start)).collect() };
    let closes = calls("DELETE ");
    assert!(closes.len() == 1 && closes[0].contains("/me?incarnation=3 "), "{lines:?}");
    assert!(!calls("PUT ")[1].contains("incarnation="), "{lines:?}");
}

/// A copy of a close without an incarnation could close a later session of the same name.
#[tokio::test]
async fn a_session_whose_incarnation_is_unknown_is_closed_by_one_call() {
    for (status, code, closes) in [(410, "session-expired", 1), (503, "no-leader", 0)] {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let (address, _) = node(move |_, line| {
            if line.starts_with("GET ") {
                return Some(problem(code, status, status == 503));
            }
            counter.fetch_add(1, Ordering::SeqCst);
            None
        })
        .await;
        let client = client([address]).request_timeout(Duration::from_millis(500));
        let error = client.close_session(&SessionName::new("me").unwrap()).await.unwrap_err();
        assert_eq!(matches!(error, Error::OutcomeUnknown(_)), closes > 0, "{error:?}");
        assert_eq!(count.load(Ordering::SeqCst), closes, "{code}");
    }
}

#[tokio::test]
async fn a_generated_session_that_ended_while_idle_is_replaced() {
    let (address, acquires) = lock_node(|call| match call {
        0 => Some(problem("session-expired", 410, false)),
        _ => Some((200, grant(1, 0, 30_000))),
    })
    .await;
    let _guard = acquire(&client([address])).await.unwrap();
    assert_eq!(acquires.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_refused_call_is_not_repeated() {
    let (address, acquires) = lock_node(|_| Some(problem("bad-duration", 400, false))).await;
    let error = acquire(&client([address])).await.unwrap_err();
    assert!(matches!(error, Error::Rejected(_)) && !error.is_retryable(), "{error:?}");
    assert_eq!(acquires.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_no_node_received_is_a_retry() {
    let error = acquire(&client([unused_address().await])).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)) && error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn a_call_without_an_answer_is_unknown_and_its_entry_is_released() {
    let releases = Arc::new(AtomicUsize::new(0));
    let counter = releases.clone();
    let (address, calls) = node(move |_, line| {
        if line.starts_with("DELETE /v1/locks/job?session=sdk-") {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        if is_acquire(line) { None } else { default_answer(line, "") }
    })
    .await;
    let client = client([address]);
    let error = acquire(&client).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert!(calls.load(Ordering::SeqCst) > 2, "the client repeats the call");
    until("the entry is released", || releases.load(Ordering::SeqCst) > 0).await;
}

#[tokio::test]
async fn a_waiter_that_reaches_no_node_stops_when_its_session_is_over() {
    let (address, _) = node(|_, line| match line.split(' ').next() {
        Some("PUT") if !is_acquire(line) => Some((200, session("", 400))),
        _ => None,
    })
    .await;
    let client = Client::builder([address]).named_session("me").build().unwrap();
    let error = client.lock("job").acquire().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn an_answer_of_another_program_is_foreign() {
    let (address, _) = node(|_, _| Some((200, "<html>".to_owned()))).await;
    assert!(matches!(acquire(&client([address])).await, Err(Error::UnexpectedResponse(_))));
}

/// The first of two addresses is that of another server.
#[tokio::test]
async fn a_call_that_another_server_answers_continues_at_the_next_address() {
    for (status, page) in [(200, "<html>"), (404, "<html>"), (200, ""), (200, "{}")] {
        let (foreign, pages) = node(move |_, _| Some((status, page.to_owned()))).await;
        let (address, _) = lock_node(|_| Some((200, grant(1, 0, 30_000)))).await;
        let client = client([foreign, address]);
        client.prefer(0);
        let guard = acquire(&client).await.unwrap();
        client.prefer(0);
        assert!(client.lock_state(&LockName::new("job").unwrap()).await.is_ok(), "{status} {page}");
        assert!(guard.is_held() && pages.load(Ordering::SeqCst) > 0, "{status} {page}");
    }
}

#[tokio::test]
async fn a_download_that_another_server_answers_continues_at_the_next_address() {
    let (foreign, pages) = node(|_, _| Some((200, "<html>".to_owned()))).await;
    let (address, _) = node(|_, _| Some((200, "backup".to_owned()))).await;
    let client = client([foreign, address]);
    client.prefer(0);
    let mut download = client.download("/v1/cluster/backup").await.unwrap();
    assert_eq!(download.next().await.unwrap().unwrap(), b"backup");
    assert_eq!(pages.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_error_names_each_address_of_another_server() {
    let mut addresses = Vec::new();
    for _ in 0..2 {
        addresses.push(node(|_, _| Some((200, "<html>".to_owned()))).await.0);
    }
    let client = Client::new(addresses.clone()).unwrap();
    let Err(Error::UnexpectedResponse(reason)) = acquire(&client).await else { panic!() };
    let names_each = addresses.iter().all(|address| reason.contains(address.as_str()));
    assert!(names_each && reason.contains("answered 200"), "{reason}");
}

#[tokio::test]
async fn the_deadline_counts_from_the_sending() {
    let (address, _) = node(|_, line| {
        Some((200, if is_acquire(line) { grant(1, 4_000, 6_000) } else { session("", 1_000) }))
    })
    .await;
    let client = client([address]);
    // The session is already open, so the deadline in the grant is the one that counts.
    let _open = client.session().await.unwrap();
    let before = Instant::now();
    let guard = acquire(&client).await.unwrap();
    let after = Instant::now();
    // The node reports 4 s of waiting and 6 s left. The deadline is at most 10 s after the sending, minus the clock
    // margin.
    assert!(guard.deadline() <= after + Duration::from_secs(10));
    assert!(guard.deadline() >= before + Duration::from_millis(9_800));
}

#[tokio::test]
async fn a_lock_that_cannot_be_renewed_is_lost_at_its_deadline() {
    let (address, _) = node(|_, line| match line.split(' ').next() {
        Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 1_000))),
        Some("PUT") => Some((200, session("", 1_000))),
        _ => None,
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    let deadline = guard.deadline();
    assert!(matches!(guard.lost().await, Loss::NotRenewed { .. }));
    assert!(Instant::now() + Duration::from_millis(1) >= deadline);
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(!guard.is_held());
}

#[tokio::test]
async fn a_session_that_ended_loses_the_lock_before_the_deadline() {
    let (address, _) = node(|_, line| match line.split(' ').next() {
        Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 3_000))),
        Some("PUT") => Some((200, session("", 3_000))),
        _ => Some(problem("session-expired", 410, false)),
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    assert_eq!(guard.lost().await, Loss::SessionEnded);
}

#[tokio::test]
async fn names_are_checked_before_anything_is_sent() {
    let client = client([unused_address().await]);
    for bad in [
        client.lock("a//b"),
        client.lock("job").owner("a b\n"),
        client.lock("job").ttl(Duration::ZERO),
        client.lock("job").label("", "x"),
    ] {
        assert!(matches!(bad.acquire().await, Err(Error::InvalidArgument(_))));
    }
}

#[tokio::test]
async fn the_longest_duration_is_no_limit() {
    const BODY: &str = r#"{"latch":"x","left":true,"barrier":"x","generation":1,"index":0,"parties":1,"revision":1}"#;
    let latch = BODY.replace("true", "0,\"count\":1,\"open\":true,\"promised\":0");
    let (address, _) = node(move |_, line| match line {
        line if is_acquire(line) => Some((200, grant(7, 0, 30_000))),
        line if line.starts_with("GET /v1/latches/") => Some((200, latch.clone())),
        line if line.contains("barriers/") => Some((200, BODY.to_owned())),
        line if line.starts_with("GET /v1/elections/") => Some(problem("forbidden", 403, false)),
        line => default_answer(line, ""),
    })
    .await;
    let client = client([address.clone()]).request_timeout(Duration::MAX);
    acquire(&client).await.unwrap().release().await.unwrap();
    client.call_raw(&Call::get("/v1/locks/job").wait(Duration::MAX)).await.unwrap();
    let _download = client.download("/v1/cluster/backup").await.unwrap();
    let (job, owner) =
        (LockName::new("job").unwrap(), holdfast_types::Owner::new("carol").unwrap());
    client.hold_durably(&job, &owner, &Reason::new("x").unwrap(), Duration::MAX).await.unwrap();
    client.latch("x").wait(Duration::MAX).await.unwrap();
    client.barrier("x", 1).arrive(Duration::MAX).await.unwrap();
    let inside = client.double_barrier("x", 1).enter(Duration::MAX).await.unwrap();
    inside.leave(Duration::MAX).await.unwrap();
    assert!(client.election("x").observe().unwrap().next_change().await.is_err());

    let http = http::HttpClient::new(Duration::MAX);
    let url = format!("http://{address}/v1/locks/job");
    let request = || http::HttpRequest::new(http::Method::GET, url.clone(), Duration::MAX);
    assert!(http.send(request()).await.unwrap().status.is_success());
    assert!(http.open_stream(request()).await.unwrap().status.is_success());
}

#[test]
fn a_client_needs_an_endpoint() {
    assert!(matches!(Client::new(Vec::<String>::new()), Err(EndpointError::None)));
    assert!(Client::new(["ftp://a:1"]).is_err());
    assert!(Client::new(["https://a:1"]).is_ok());
}
