//! Everything that can end a wait at once: the log decides, and everybody hears the same.

use std::time::Duration;

use holdfast_service::{Failure, HistoryRequest, PastHold, Service};
use holdfast_types::{LockView, LossCause};

use crate::nodes::*;

const ROUNDS: u32 = 60;

async fn holds_of(node: &Service, name: &str, who: &str) -> Vec<PastHold> {
    let request = HistoryRequest { lock: lock(name), at: None, limit: 1_000 };
    let history = node.history(request).await.unwrap().value;
    assert_eq!(history.complete_after.0, 0);
    history.holds.into_iter().filter(|hold| hold.session == session(who)).collect()
}

/// "Cancel, timeout, disconnect, session end racing on one waiter: one winner per log entry."
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_ended_in_many_ways_at_once_ends_once() {
    let nodes = Nodes::start(3).await;
    let (mut granted, mut not_granted) = (0, 0);
    for round in 0..ROUNDS {
        let (name, who) = (format!("a{round}"), format!("w{round}"));
        take(&nodes.services[0], acquire(&name, Some("me"), 30_000, Duration::ZERO)).await.unwrap();
        let node = nodes.services[1].clone();
        let wait = Duration::from_millis(100 + u64::from(round % 5));
        let request = acquire(&name, Some(&who), 30_000, wait);
        let waiting = tokio::spawn(async move { take(&node, request).await });
        // It stands in the queue, or its wait is over already.
        let there = |view: &LockView| view.waiters_total == 1 || waiting.is_finished();
        until(&nodes.services[0], &name, there).await;
        let late = Duration::from_millis(60 + 5 * u64::from(round % 12));
        let disconnect = round % 3 == 0;
        let ending = async {
            // Now earlier, now later than the end of the wait.
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
        // Nobody keeps the lock: its session has ended, and so has every wait.
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
                // Or the grant came first, then the end of the session, and the cancel found neither.
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
