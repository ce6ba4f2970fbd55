//! Concurrent ends of one wait: the log decides, and all nodes agree.

use std::time::Duration;

use holdfast_service::{Failure, HistoryRequest, PastHold, ReadMode, Service};
use holdfast_types::{LockView, LossCause};

use crate::nodes::*;

const ROUNDS: u32 = 60;

async fn holds_of(node: &Service, name: &str, who: &str) -> Vec<PastHold> {
    let request = HistoryRequest { lock: lock(name), at: None, limit: 1_000 };
    let history = node.history(request, ReadMode::Linearizable).await.unwrap().value;
    assert_eq!(history.complete_after.0, 0);
    history.holds.into_iter().filter(|hold| hold.session == session(who)).collect()
}

/// A timeout, a disconnect, a grant and the end of the session race on one waiter: the wait ends once.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_several_events_end_concurrently_ends_once() {
    let nodes = Nodes::start(3).await;
    let (mut granted, mut not_granted) = (0, 0);
    for round in 0..ROUNDS {
        let (name, who) = (format!("a{round}"), format!("w{round}"));
        take(&nodes.services[0], acquire(&name, Some("me"), 30_000, Duration::ZERO)).await.unwrap();
        let wait = Duration::from_millis(100 + u64::from(round % 5));
        let request = acquire(&name, Some(&who), 30_000, wait);
        let waiting = spawn_take(&nodes.services[1], request);
        // The waiter is in the queue, or its wait has already ended.
        let queued = |view: &LockView| view.waiters_total == 1 || waiting.is_finished();
        until(&nodes.services[0], &name, queued).await;
        let late = Duration::from_millis(60 + 5 * u64::from(round % 12));
        let disconnect = round % 3 == 0;
        let ending = async {
            // The moment varies from before to after the end of the wait.
            let moment = tokio::time::Instant::now() + late;
            let _never = tokio::time::timeout_at(moment, std::future::pending::<()>()).await;
            let close = close_session(&nodes.services[2], &who);
            let (released, closed) = tokio::join!(release(&nodes.services[0], &name, "me"), close);
            released.unwrap();
            closed.unwrap();
        };
        if disconnect {
            waiting.abort();
        }
        ending.await;
        let answer = waiting.await;
        // The next acquire succeeds: the session and its wait have ended.
        let after = format!("after{round}");
        let next = acquire(&name, Some(&after), 30_000, DEADLINE);
        let next = take(&nodes.services[2], next).await.unwrap();
        let holds = holds_of(&nodes.services[0], &name, &who).await;
        assert!(holds.len() <= 1, "{holds:?}");
        assert!(holds.iter().all(|hold| hold.token < next.token), "{holds:?}");
        match answer {
            Ok(Ok(grant)) => {
                assert_eq!(holds[0].token, grant.token);
                granted += 1;
            }
            Ok(Err(Failure::WaitTimeout { .. })) => {
                // A hold is possible: granted, then ended with the session, before the cancel was applied.
                let ended = |hold: &PastHold| hold.cause == LossCause::SessionClosed;
                assert!(holds.iter().all(ended), "{holds:?}");
                not_granted += 1;
            }
            Ok(Err(Failure::Rejected(_))) | Err(_) => not_granted += 1,
            Ok(Err(other)) => panic!("{other:?}"),
        }
    }
    assert!(not_granted > 0, "{granted} granted, {not_granted} not");
}
