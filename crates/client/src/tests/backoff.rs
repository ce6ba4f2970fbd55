//! Background tasks and streams at nodes that fail each time.

use std::sync::Mutex;

use super::*;
use crate::calls::retry::RETRY_PAUSE;

/// An observer at a node that answers the n-th call with `events` and ends the stream; and the number of calls.
async fn observing(
    events: impl Fn(usize) -> String + Send + Sync + 'static,
) -> (Observer, Arc<AtomicUsize>) {
    let (address, calls) = node(move |call, _| Some((200, events(call)))).await;
    (client([address]).election("db").observe().unwrap(), calls)
}

#[tokio::test]
async fn an_observer_pauses_and_gives_up_if_every_stream_ends_at_once() {
    for events in ["", "event: reconnect\ndata: {}\n\n", "id: 3\nevent: bookmark\ndata: {}\n\n"] {
        let (mut observer, calls) = observing(|_| events.to_owned()).await;
        let change = tokio::time::timeout(Duration::from_secs(10), observer.next_change()).await;
        assert!(matches!(change, Ok(Err(Error::Unavailable(_)))), "{events:?}: {change:?}");
        assert!(calls.load(Ordering::SeqCst) <= 5, "{events:?}: {calls:?}");
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
