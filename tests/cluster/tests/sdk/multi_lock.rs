//! Multi-locks and hand-overs on real nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_client::{Client, Error, Loss, SessionName};
use holdfast_lab::{Cluster, DEADLINE};

use crate::kinds::queued;
use crate::program::addresses;

fn client(cluster: &Cluster) -> Client {
    Client::builder(addresses(cluster)).ttl(Duration::from_secs(3)).build().expect("a client")
}

/// Clients request the same locks in different orders, and the leader is killed meanwhile: every client gets its grant,
/// holders exclude each other, and the tokens of each lock grow.
#[tokio::test(flavor = "multi_thread")]
async fn transfers_in_every_direction_exclude_each_other_and_all_come_to_an_end() {
    let cluster = Cluster::three().await;
    let inside: Arc<[AtomicU64; 3]> = Arc::default();
    let last: Arc<[AtomicU64; 3]> = Arc::default();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6_usize {
        let (client, inside, last) = (client(&cluster), inside.clone(), last.clone());
        tasks.spawn(async move {
            for round in 0..8 {
                let (from, to) = ((task + round) % 3, (task + round * 2 + 1) % 3);
                let to = if to == from { (to + 1) % 3 } else { to };
                let both = client.lock_many([from, to].map(|at| format!("account/{at}")));
                let both = both.acquire().await.expect("both");
                for at in [from, to] {
                    assert_eq!(inside[at].fetch_add(1, Ordering::SeqCst), 0, "alone at {at}");
                    let hold = both.hold(&format!("account/{at}")).expect("a member");
                    assert!(last[at].swap(hold.token().0, Ordering::SeqCst) < hold.token().0);
                }
                tokio::task::yield_now().await;
                for at in [from, to] {
                    inside[at].fetch_sub(1, Ordering::SeqCst);
                }
                both.ensure().expect("held to the end");
                both.release().await.expect("released");
            }
        });
    }
    let leader = cluster.wait_ready().await;
    cluster.node(leader).kill();
    let all = async {
        while let Some(task) = tasks.join_next().await {
            task.expect("no task panics");
        }
    };
    tokio::time::timeout(3 * DEADLINE, all).await.expect("nobody waits for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_member_that_is_taken_away_is_told_and_the_others_are_held_until_given_back() {
    let cluster = Cluster::three().await;
    let (one, other) = (client(&cluster), client(&cluster));
    let both = one.lock_many(["a", "b"]).acquire().await.expect("both");
    let waiting = tokio::spawn(other.lock("a").acquire());
    queued(&other, "a", 1).await;
    let broken = cluster.node(1).http.post("/v1/force-releases/b?reason=maintenance").await;
    assert_eq!(broken.status, 200);
    let (lock, loss) = tokio::time::timeout(DEADLINE, both.lost()).await.expect("in time");
    let reason = Some("maintenance".to_owned());
    assert_eq!((lock.as_str(), loss), ("b", Loss::ForceReleased { reason }));
    assert!(both.hold("a").expect("a member").is_held() && !both.is_held());
    assert!(!waiting.is_finished());
    drop(both);
    let next = tokio::time::timeout(DEADLINE, waiting).await.expect("in time");
    drop(next.expect("no panic").expect("it was given back"));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_or_none_and_one_by_one() {
    let cluster = Cluster::three().await;
    let (one, other) = (client(&cluster), client(&cluster));
    let held = other.lock("b").acquire().await.expect("held");
    let busy = one.lock_many(["a", "b"]).try_acquire().await.expect_err("one of them is held");
    assert!(matches!(busy, Error::Busy(_)), "{busy}");
    drop(other.lock("a").try_acquire().await.expect("and the other was not taken"));
    let waiting = tokio::spawn(one.lock_many(["b", "a"]).acquire());
    queued(&other, "b", 1).await;
    held.release().await.expect("released");
    let mut both = waiting.await.expect("a task").expect("both");
    assert!(matches!(other.lock("a").try_acquire().await, Err(Error::Busy(_))));
    both.release_one("a").await.expect("released");
    drop(other.lock("a").try_acquire().await.expect("it is free"));
    assert!(matches!(other.lock("b").try_acquire().await, Err(Error::Busy(_))));
    assert!(both.is_held() && both.hold("a").is_none());
    both.release().await.expect("released");
    drop(other.lock("b").try_acquire().await.expect("it is free"));
    let twice = one.lock_many(["a", "a"]).acquire().await.expect_err("named twice");
    assert!(matches!(twice, Error::Rejected(_)), "{twice}");
    let dropped = one.lock_many(["a", "b"]).timeout(DEADLINE);
    let blocker = other.lock("a").acquire().await.expect("held");
    let given_up = tokio::time::timeout(Duration::from_millis(200), dropped.acquire()).await;
    assert!(given_up.is_err());
    queued(&other, "a", 0).await;
    queued(&other, "b", 0).await;
    blocker.release().await.expect("released");
}

/// A hand-over has no gap: waiters stay queued, the old token is stale, and only the receiver gets the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_handed_to_a_session_that_receives_it() {
    let cluster = Cluster::three().await;
    let (giver, receiver, third) = (client(&cluster), client(&cluster), client(&cluster));
    let session = receiver.session().await.expect("open");
    let guard = giver.lock("orders").acquire().await.expect("held");
    let (view, first) = (guard.hold(), guard.token());
    let waiting = tokio::spawn(third.lock("orders").acquire());
    queued(&giver, "orders", 1).await;
    assert!(
        receiver
            .lock("orders")
            .timeout(Duration::ZERO)
            .receive_transfer()
            .await
            .expect("asked")
            .is_none(),
        "nothing was given"
    );
    let asking = tokio::spawn(receiver.lock("orders").timeout(DEADLINE).receive_transfer());
    let handed = guard.transfer(session.name(), None).await.expect("handed on");
    assert!(handed > first);
    assert_eq!(view.ensure(), Err(Loss::Transferred));
    let theirs = tokio::time::timeout(DEADLINE, asking).await.expect("in time");
    let theirs = theirs.expect("no panic").expect("asked").expect("it was given");
    assert_eq!(theirs.token(), handed);
    assert!(!waiting.is_finished());
    // The received guard is renewed and released once, like any other.
    let lost = tokio::time::timeout(Duration::from_secs(4), theirs.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    let second =
        receiver.lock("orders").receive_transfer().await.expect_err("there is a guard of it");
    assert!(matches!(second, Error::InvalidArgument(_)), "{second}");
    theirs.release().await.expect("released");
    let next = tokio::time::timeout(DEADLINE, waiting).await.expect("in time");
    assert!(next.expect("no panic").expect("held").token() > handed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_handed_to_one_who_waits_and_not_to_one_who_is_gone() {
    let cluster = Cluster::three().await;
    let (giver, receiver) = (client(&cluster), client(&cluster));
    let guard = giver.lock("orders").acquire().await.expect("held");
    let nobody = SessionName::new("nobody").expect("a name");
    let token = guard.token();
    let not = guard.transfer(&nobody, None).await.expect_err("it is not open");
    assert!(matches!(not.error, Error::InvalidArgument(_)), "{not:?}");
    let guard = not.guard.expect("it goes on");
    assert_eq!((guard.token(), guard.is_held()), (token, true));
    let session = receiver.session().await.expect("open").name().clone();
    let waiting = tokio::spawn(receiver.lock("orders").owner("worker").acquire());
    queued(&giver, "orders", 1).await;
    let handed = guard.transfer(&session, Some("worker")).await.expect("handed on");
    let theirs = tokio::time::timeout(DEADLINE, waiting).await.expect("in time");
    let theirs = theirs.expect("no panic").expect("held");
    assert_eq!(theirs.token(), handed);
    let again = theirs.reenter().await.expect("once more");
    let not = again.transfer(giver.session().await.expect("open").name(), None).await;
    let not = not.expect_err("entered twice");
    assert!(matches!(not.error, Error::InvalidArgument(_)), "{not:?}");
    drop(not);
    theirs.release().await.expect("released");
}
