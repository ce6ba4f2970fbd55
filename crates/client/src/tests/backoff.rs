//! Background tasks and streams at nodes that fail each time.

use std::sync::Mutex;

use super::*;
use crate::retry::RETRY_PAUSE;

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
        usual(line, "")
    })
    .await;
    let member = client([address]).group("web").join("a").await.unwrap();
    until("it is restored twice", || writes.lock().unwrap().len() >= 3).await;
    let times = writes.lock().unwrap().clone();
    assert!(times[2] - times[1] >= RETRY_PAUSE / 2, "{times:?}");
    drop(member);
}
