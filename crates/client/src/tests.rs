//! The client against small servers that answer as written here, one connection a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// A node that answers every call with what `answer` makes of its first line; the n-th call from 0.
async fn node(
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
                // None: the connection is dropped without an answer.
                if let Some((status, body)) = answer(call, line) {
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    stream.write_all((head + &body).as_bytes()).await.unwrap();
                }
            });
        }
    });
    (address, calls)
}

/// An address where nobody listens.
async fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string()
}

fn grant(token: u64, waited_ms: u64, expires_in_ms: u64) -> String {
    format!(
        r#"{{"lock":"job","mode":"exclusive","token":{token},"session":"me","expires_in_ms":{expires_in_ms},
        "renewed":false,"waited_ms":{waited_ms},"waiters":0,"entries":1,"revision":1}}"#
    )
}

fn session(holds: &str, expires_in_ms: u64) -> String {
    format!(
        r#"{{"session":"me","ttl_ms":30000,"expires_in_ms":{expires_in_ms},"age_ms":1,"anonymous":false,
        "labels":{{}},"holds":[{holds}],"waits":[],"revision":2}}"#
    )
}

fn problem(code: &str, status: u16, retryable: bool) -> (u16, String) {
    let body = format!(
        r#"{{"type":"/errors/{code}","title":"{code}","status":{status},"code":"{code}","retryable":{retryable},
        "holder":{{"session":"web3","token":9,"since_ms":1,"entries":1,"labels":{{}}}}}}"#
    );
    (status, body)
}

fn client<const N: usize>(endpoints: [String; N]) -> Client {
    Client::new(endpoints).unwrap().patience(Duration::from_millis(500))
}

async fn acquire(client: &Client) -> Result<Guard, Error> {
    client.lock("job").session("me").acquire().await
}

#[tokio::test]
async fn a_grant_carries_its_token() {
    let (address, _) = node(|_, _| Some((200, grant(4812, 0, 30_000)))).await;
    let guard = acquire(&client([address])).await.unwrap();
    assert_eq!(guard.token().0, 4812);
    assert!(guard.remaining() > Duration::from_secs(25));
}

#[tokio::test]
async fn a_node_that_is_down_is_passed_over() {
    let (address, _) = node(|_, _| Some((200, grant(1, 0, 30_000)))).await;
    let guard = acquire(&client([nobody().await, address])).await.unwrap();
    assert_eq!(guard.token().0, 1);
}

#[tokio::test]
async fn an_election_is_waited_out() {
    let (address, calls) = node(|call, _| match call {
        0 | 1 => Some(problem("no-leader", 503, true)),
        _ => Some((200, grant(1, 0, 30_000))),
    })
    .await;
    let _guard = acquire(&client([address])).await.unwrap();
    assert!(calls.load(Ordering::SeqCst) >= 3);
}

#[tokio::test]
async fn a_busy_lock_names_its_holder_and_is_not_hammered() {
    let (address, calls) = node(|_, _| Some(problem("lock-busy", 423, true))).await;
    let error = acquire(&client([address])).await.unwrap_err();
    assert!(matches!(error, Error::Busy(_)), "{error:?}");
    assert_eq!(error.holder().unwrap().session.as_str(), "web3");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_expired_session_is_a_loss() {
    let (address, _) = node(|_, _| Some(problem("session-expired", 410, false))).await;
    assert!(matches!(acquire(&client([address])).await, Err(Error::Lost(_))));
}

#[tokio::test]
async fn a_bad_call_is_not_repeated() {
    let (address, calls) = node(|_, _| Some(problem("bad-duration", 400, false))).await;
    assert!(matches!(acquire(&client([address])).await, Err(Error::Bad(_))));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_call_that_no_node_took_is_a_retry() {
    let error = acquire(&client([nobody().await])).await.unwrap_err();
    assert!(matches!(error, Error::Retry(_)), "{error:?}");
}

#[tokio::test]
async fn a_call_whose_answer_never_came_is_unknown() {
    let (address, calls) = node(|_, _| None).await;
    let error = acquire(&client([address])).await.unwrap_err();
    assert!(matches!(error, Error::Unknown(_)), "{error:?}");
    assert!(calls.load(Ordering::SeqCst) > 1, "it is safe to ask again");
}

#[tokio::test]
async fn something_else_on_the_port_is_said_to_be_foreign() {
    let (address, _) = node(|_, _| Some((200, "<html>".to_owned()))).await;
    assert!(matches!(acquire(&client([address])).await, Err(Error::Foreign(_))));
}

#[tokio::test]
async fn the_deadline_counts_from_the_sending() {
    let before = Instant::now();
    let (address, _) = node(|_, _| Some((200, grant(1, 4_000, 6_000)))).await;
    let guard = acquire(&client([address])).await.unwrap();
    let after = Instant::now();
    // The node counts 4 s of waiting and 6 s left, so at most 10 s from the sending, a little less for the clocks.
    assert!(guard.deadline() <= after + Duration::from_secs(10));
    assert!(guard.deadline() >= before + Duration::from_millis(9_800));
}

#[tokio::test]
async fn a_renewal_moves_the_deadline() {
    let (address, calls) = node(|_, line| {
        if line.starts_with("PUT") {
            Some((200, grant(7, 0, 300)))
        } else {
            Some((200, session(r#"{"lock":"job","token":7}"#, 60_000)))
        }
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    let renewed = async {
        while guard.remaining() < Duration::from_secs(30) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), renewed).await.unwrap();
    assert!(calls.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn a_lock_that_cannot_be_renewed_is_lost_at_its_deadline() {
    let (address, _) =
        node(|_, line| line.starts_with("PUT").then(|| (200, grant(7, 0, 300)))).await;
    let guard = acquire(&client([address])).await.unwrap();
    let deadline = guard.deadline();
    assert!(matches!(guard.lost().await, Loss::NotRenewed { .. }));
    assert!(Instant::now() >= deadline);
    assert_eq!(guard.remaining(), Duration::ZERO);
}

#[tokio::test]
async fn a_session_that_ended_loses_the_lock_before_the_deadline() {
    let (address, _) = node(|_, line| match line.split(' ').next() {
        Some("PUT") => Some((200, grant(7, 0, 3_000))),
        _ => Some(problem("session-expired", 410, false)),
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    assert_eq!(guard.lost().await, Loss::SessionEnded);
}

#[tokio::test]
async fn a_lock_that_the_session_no_longer_holds_is_lost_and_not_taken_anew() {
    let (address, _) = node(|call, line| match (line.split(' ').next(), call) {
        (Some("PUT"), 0) => Some((200, grant(7, 0, 900))),
        (Some("POST"), _) => Some((200, session("", 900))),
        (Some("GET"), _) => Some((
            200,
            r#"{"lock":"job","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":7}"#
                .to_owned(),
        )),
        (method, _) => panic!("unexpected {method:?}"),
    })
    .await;
    let guard = acquire(&client([address])).await.unwrap();
    assert_eq!(guard.lost().await, Loss::TakenAway);
}

#[tokio::test]
async fn names_are_checked_before_anything_is_sent() {
    let client = client([nobody().await]);
    for bad in [
        client.lock("a//b"),
        client.lock("job").session("a b\n"),
        client.lock("job").ttl(Duration::ZERO),
    ] {
        assert!(matches!(bad.acquire().await, Err(Error::Argument(_))));
    }
}

#[test]
fn a_client_needs_an_endpoint() {
    assert!(matches!(Client::new(Vec::<String>::new()), Err(EndpointError::None)));
    assert!(Client::new(["https://a:1"]).is_err());
}
