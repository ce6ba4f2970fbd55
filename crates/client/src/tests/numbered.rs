//! Calls with a request number, which the cluster executes once.

use holdfast_types::RequestRelease;

use super::*;
use crate::http::Method;

/// The rejection of a number that is not above `newest`.
fn over(newest: u64) -> (u16, String) {
    let (status, body) = problem("request-over", 409, false);
    let newest = format!(r#""newest_request":{newest},"retryable""#);
    (status, body.replace(r#""retryable""#, &newest))
}

/// The request number of a call, in the query.
fn number(line: &str) -> Option<u64> {
    let (_, number) = line.split_once("request=")?;
    number.split(['&', ' ']).next()?.parse().ok()
}

#[tokio::test]
async fn a_call_whose_copy_has_no_secret_is_not_copied() {
    let is_call = |line: &str| line.starts_with("POST /v1/auth/tokens");
    let silent = move |_: usize, line: &str| {
        if is_call(line) { Some((HANG, String::new())) } else { default_answer(line, "") }
    };
    let (first, _) = node(silent).await;
    let copies = Arc::new(AtomicUsize::new(0));
    let counter = copies.clone();
    let (second, _) = node(move |_, line| {
        if is_call(line) {
            counter.fetch_add(1, Ordering::SeqCst);
            return Some(over(1));
        }
        default_answer(line, "")
    })
    .await;
    let client = client([first, second]);
    let _open = client.session().await.unwrap();
    client.prefer(0);
    let call = Call::new(Method::POST, "/v1/auth/tokens?subject=ci").copies(Copies::Never);
    let error = client.call_once_raw(call).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(copies.load(Ordering::SeqCst), 0);
}

/// A copy of a call that names no hold could end that of the next holder.
#[tokio::test]
async fn a_forced_release_without_a_token_is_not_repeated() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let (address, _) = node(move |_, line| {
        if !line.starts_with("POST /v1/") {
            return default_answer(line, "");
        }
        counter.fetch_add(1, Ordering::SeqCst);
        None
    })
    .await;
    let client = client([address]);
    let (lock, reason) = (LockName::new("job").unwrap(), Reason::new("a test").unwrap());
    let error = client.force_release(&lock, None, &reason).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    let request = RequestRelease {
        lock: lock.clone(),
        holder: None,
        token: None,
        reason: None,
        deadline_ms: 30_000,
        revoke: true,
    };
    let error = client.request_release(&request).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(calls.swap(0, Ordering::SeqCst), 2);
    drop(client.force_release(&lock, Some(FencingToken(7)), &reason).await.unwrap_err());
    assert!(calls.load(Ordering::SeqCst) > 1, "with a token a copy is harmless");
}

/// The body of every answer here.
const BODY: &str = r#"{"latch":"x","left":0,"count":1,"open":true,"promised":0,"key":"k","counted":true,"counter":"x",
    "value":1,"version":1,"index":0,"parties":1,"generation":1,"barrier":"x","revision":1,"succeeded":true,"results":[]}"#;
/// How far the clock of another program of the session is ahead.
const AHEAD: u64 = 1_000_000_000;

/// Whether a call has a request number. A transaction has it in its body.
fn is_numbered(line: &str) -> bool {
    number(line).is_some() || line.starts_with("POST /v1/txn")
}

/// A client of a node that rejects the first copy of each numbered call, and the numbered calls that the node received.
async fn client_behind() -> (Client, Arc<std::sync::Mutex<Vec<String>>>) {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        if line.starts_with("GET /v1/watch") {
            return Some((HANG, String::new()));
        }
        if !is_numbered(line) {
            return default_answer(line, "");
        }
        let mut lines = recorded.lock().unwrap();
        lines.push(line.to_owned());
        let is_first = lines.len() % 2 == 1;
        Some(if is_first {
            over(number(line).unwrap_or(1) + AHEAD)
        } else if line.starts_with("DELETE") {
            (204, String::new())
        } else {
            (200, BODY.to_owned())
        })
    })
    .await;
    (client([address]), lines)
}

#[tokio::test]
async fn every_numbered_call_replaces_a_number_that_is_over_once() {
    let (client, lines) = client_behind().await;
    let check = |what: &str| {
        let lines = std::mem::take(&mut *lines.lock().unwrap());
        let [first, second] = lines.as_slice() else { panic!("{what}: {lines:?}") };
        let Some(first) = number(first) else { return };
        assert!(number(second).is_some_and(|second| second > first + AHEAD), "{what}: {lines:?}");
    };
    client.counter("x").add(1).await.unwrap();
    check("counter");
    client.counter("x").delete().await.unwrap();
    check("an answer that is not parsed");
    client.latch("x").count_down("k").await.unwrap();
    check("latch");
    let _counted = client.latch("x").count_down_on_session_end("k").await.unwrap();
    check("latch at the end of the session");
    client.barrier("x", 1).arrive(Duration::from_secs(5)).await.unwrap();
    check("barrier");
    let inside = client.double_barrier("x", 1).enter(Duration::from_secs(5)).await.unwrap();
    check("double barrier");
    drop(inside);
    let member = client.group("x").join("here").await.unwrap();
    check("group");
    member.leave().await.unwrap();
    check("leaving the group");
    let call = || Call::new(Method::PUT, "/v1/tree/a?session=other");
    let send = |request: holdfast_types::RequestNumber| {
        let target = format!("/v1/tree/a?session=other&request={}", request.0);
        let (client, call) = (&client, Call { target, ..call() });
        async move { client.call_raw(&call).await }
    };
    with_request_number(send).await.unwrap();
    check("a session that the caller selects");
}

#[tokio::test]
async fn a_number_that_is_over_after_a_lost_answer_is_an_unknown_outcome() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let (address, _) = node(move |_, line| {
        if !is_numbered(line) {
            return default_answer(line, "");
        }
        let is_first = counter.fetch_add(1, Ordering::SeqCst) == 0;
        (!is_first).then(|| over(u64::MAX >> 2))
    })
    .await;
    let error = client([address]).counter("x").add(1).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown(_)), "{error:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_end_of_the_session_after_a_lost_answer_is_an_unknown_outcome() {
    for in_doubt in [true, false] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = calls.clone();
        let (address, _) = node(move |_, line| {
            if !is_numbered(line) {
                return default_answer(line, "");
            }
            let loses_answer = in_doubt && counter.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
            (!loses_answer).then(|| problem("session-expired", 410, false))
        })
        .await;
        let client = client([address]);
        let session = client.open_session().await;
        let target = format!("/v1/tree/a?session={}&request=7", session.name);
        let errors = [
            client.counter("x").add(1).await.unwrap_err(),
            client.latch("x").count_down_on_session_end("k").await.unwrap_err(),
            client.group("x").join("here").await.unwrap_err(),
            client.call_raw(&Call::new(Method::PUT, target)).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(matches!(error, Error::OutcomeUnknown(_)), in_doubt, "{error:?}");
            assert_eq!(matches!(error, Error::Lost(_)), !in_doubt, "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_number_is_replaced_only_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let (address, _) = node(move |_, line| {
        let number = number(line)?;
        counter.fetch_add(1, Ordering::SeqCst);
        Some(over(number + 1))
    })
    .await;
    let send = |request: holdfast_types::RequestNumber| {
        let call = Call::get(format!("/v1/tree/a?request={}", request.0));
        let client = client([address.clone()]);
        async move { client.call_raw(&call).await.map(drop) }
    };
    let error = with_request_number(send).await.unwrap_err();
    assert!(matches!(error, Error::Rejected(_)), "{error:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}
