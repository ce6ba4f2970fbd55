//! Leaders that change more often than the TTL of a session: the lock of a dead client becomes free, and no live client
//! loses its session.

use std::time::{Duration, Instant};

use holdfast_lab::{Actor, Attempt, Cluster, DEADLINE, History, judge, until};

const TTL: Duration = Duration::from_secs(8);
/// How long each leader leads.
const REIGN: Duration = Duration::from_millis(2_500);
/// Each leader but the first uses up at least 1 s of the TTL.
const CHANGES_MAX: usize = 12;

/// Renews all sessions once in `pause`. Returns when a session has expired.
async fn renew(mut actors: Vec<Actor>, pause: Duration) {
    let mut beats = tokio::time::interval(pause);
    loop {
        beats.tick().await;
        for actor in &mut actors {
            let deadline = Instant::now() + TTL;
            while Instant::now() < deadline {
                match actor.keep_alive().await {
                    Attempt::Retry(_) => actor.next_endpoint(),
                    Attempt::Expired => return,
                    Attempt::Granted(_) | Attempt::Done | Attempt::Busy | Attempt::Refused(_) => {
                        break;
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_that_change_more_often_than_the_ttl_end_a_dead_session_and_no_live_one() {
    let cluster = Cluster::three().await;
    let history = History::default();
    let actor = |name: &str, ttl| Actor::new(name, cluster.endpoints(), ttl, &history);
    assert!(matches!(
        actor("dead", TTL).acquire("orders", Duration::ZERO).await,
        Attempt::Granted(_)
    ));
    let (mut live, mut tokens) = (vec![actor("often", TTL), actor("seldom", TTL)], Vec::new());
    for (index, actor) in live.iter_mut().enumerate() {
        tokens.push(actor.take(&format!("own/{index}"), Duration::ZERO, DEADLINE).await);
    }
    // The second is silent for long enough to get records.
    let pauses = [Duration::from_millis(300), Duration::from_secs(3)];
    let renewing: Vec<_> = live
        .iter()
        .zip(pauses)
        .map(|(actor, pause)| tokio::spawn(renew(vec![actor.clone()], pause)))
        .collect();
    let mut heir = actor("heir", Duration::from_mins(5));
    let waiting =
        tokio::spawn(
            async move { heir.take("orders", Duration::from_secs(2), 4 * DEADLINE).await },
        );
    let began = Instant::now();
    let mut changes = 0;
    while !waiting.is_finished() {
        assert!(changes < CHANGES_MAX, "the dead session lives after {:?}", began.elapsed());
        let leader = cluster.wait_ready().await;
        let end = Instant::now() + REIGN;
        until("the leader to lead", DEADLINE, || async {
            waiting.is_finished() || Instant::now() >= end
        })
        .await;
        // A transfer and a death by turns.
        if changes % 2 == 0 {
            cluster.node(leader).stop().await;
        } else {
            cluster.node(leader).kill();
        }
        cluster.node(leader).start();
        changes += 1;
    }
    println!("a ttl of {TTL:?} was over after {changes} leaders, {:?}", began.elapsed());
    assert!(matches!(waiting.await.expect("the heir"), Attempt::Granted(_)));
    assert!(changes >= 3, "only {changes} changes");
    cluster.wait_ready().await;
    for (index, (actor, token)) in live.iter_mut().zip(tokens).enumerate() {
        let still = actor.take(&format!("own/{index}"), Duration::ZERO, DEADLINE).await;
        assert_eq!(still, token, "the same hold, the same token");
    }
    assert!(renewing.iter().all(|task| !task.is_finished()), "a live session has expired");
    renewing.iter().for_each(tokio::task::JoinHandle::abort);
    judge::check_lock_history(&history);
}
