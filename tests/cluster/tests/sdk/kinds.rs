//! Shared and upgradable locks, semaphores, and holds with bounds, of the Rust client on real nodes.

use std::time::Duration;

use holdfast_client::api::GrantBody;
use holdfast_client::http::Method;
use holdfast_client::{Call, Client, Error, LockName, Loss, Mode, blocking};
use holdfast_lab::{Cluster, DEADLINE, until};

use crate::program::addresses;

fn client(cluster: &Cluster) -> Client {
    Client::new(addresses(cluster)).expect("a client")
}

/// Waits until `waiters` sessions wait for a lock.
pub(crate) async fn queued(client: &Client, lock: &str, waiters: u32) {
    let name = LockName::new(lock).expect("a name");
    until("the queue", DEADLINE, || async {
        client.lock_state(&name).await.is_ok_and(|body| body.waiters == waiters)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_and_outlive_renewals_and_a_writer_comes_after_the_last_of_them() {
    let cluster = Cluster::three().await;
    let (one, other) = (client(&cluster), client(&cluster));
    let ttl = Duration::from_secs(1);
    let read = |client: &Client| client.lock("page").shared().ttl(ttl).acquire();
    let (a, b, c) = tokio::join!(read(&one), read(&one), read(&other));
    let (a, b, c) = (a.expect("held"), b.expect("held"), c.expect("held"));
    assert_eq!((a.mode(), b.mode()), (Mode::Shared, Mode::Shared));
    let writer = tokio::spawn(other.lock("page").acquire());
    queued(&one, "page", 1).await;
    drop(a);
    // Two whole leases: every renewal finds b and c among the holders, although neither is the first.
    let lost = tokio::time::timeout(ttl * 2, async { tokio::join!(b.lost(), c.lost()) }).await;
    assert!(lost.is_err(), "{lost:?}");
    assert!(!writer.is_finished());
    let newest = b.token().max(c.token());
    b.release().await.expect("released");
    c.release().await.expect("released");
    let writer = writer.await.expect("a task").expect("the last reader has left");
    assert!(writer.token() > newest && writer.mode() == Mode::Exclusive);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_waits_for_the_readers_and_brings_a_new_token_and_a_downgrade_keeps_it() {
    let cluster = Cluster::three().await;
    let (one, other) = (client(&cluster), client(&cluster));
    let mut editor = one.lock("page").upgradable().acquire().await.expect("held");
    let reader = other.lock("page").shared().acquire().await.expect("beside it");
    assert!(matches!(other.lock("page").upgradable().try_acquire().await, Err(Error::Busy(_))));
    let before = editor.token();
    let short = editor.upgrade(Duration::ZERO).await.expect_err("a reader is there");
    assert!(matches!(short, Error::Busy(_)), "{short}");
    let short = editor.upgrade(Duration::from_millis(100)).await.expect_err("still there");
    assert!(matches!(short, Error::Busy(_)), "{short}");
    assert_eq!((editor.mode(), editor.token(), editor.is_held()), (Mode::Upgradable, before, true));
    let another = other.lock("page").shared().try_acquire().await;
    drop(another.expect("the upgrade was given up, so readers come in"));

    let view = editor.hold();
    let leaving = tokio::spawn(reader.release());
    let token = editor.upgrade(DEADLINE).await.expect("alone");
    leaving.await.expect("a task").expect("released");
    assert!(token > before && view.token() == token && view.mode() == Mode::Exclusive);
    assert_eq!(editor.upgrade(Duration::ZERO).await.expect("it is"), token);
    assert!(matches!(other.lock("page").shared().try_acquire().await, Err(Error::Busy(_))));

    editor.downgrade(Mode::Shared).await.expect("at once");
    assert_eq!((editor.mode(), editor.token()), (Mode::Shared, token));
    let beside = other.lock("page").shared().try_acquire().await.expect("beside it");
    let refused = editor.upgrade(Duration::ZERO).await.expect_err("it is shared for good");
    assert!(matches!(refused, Error::Rejected(_)), "{refused}");
    assert!(matches!(editor.downgrade(Mode::Upgradable).await, Err(Error::InvalidArgument(_))));
    assert!(editor.is_held() && beside.is_held());
    editor.release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_dropped_leaves_the_hold_as_it_was() {
    let cluster = Cluster::three().await;
    let (one, other) = (client(&cluster), client(&cluster));
    let ttl = Duration::from_secs(1);
    let mut editor = one.lock("page").upgradable().ttl(ttl).acquire().await.expect("held");
    let reader = other.lock("page").shared().acquire().await.expect("beside it");
    let dropped = tokio::time::timeout(Duration::from_millis(300), editor.upgrade(DEADLINE)).await;
    assert!(dropped.is_err());
    until("readers to be let in again", DEADLINE, || async {
        other.lock("page").shared().try_acquire().await.is_ok()
    })
    .await;
    let lost = tokio::time::timeout(ttl * 2, editor.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    drop(reader);
    editor.upgrade(DEADLINE).await.expect("alone");
    let token = editor.token();
    // The renewals use the new token.
    let lost = tokio::time::timeout(ttl * 2, editor.lost()).await;
    assert!(lost.is_err() && editor.token() == token, "{lost:?}");
    drop(editor);
    let free = other.lock("page").timeout(DEADLINE).acquire().await;
    free.expect("given back").release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guard_of_a_hold_continues_under_the_token_of_an_upgrade() {
    let cluster = Cluster::three().await;
    let client = client(&cluster);
    let ttl = Duration::from_secs(1);
    let outer = client.lock("page").upgradable().ttl(ttl).acquire().await.expect("held");
    let mut inner = outer.reenter().await.expect("the same hold");
    let token = inner.upgrade(DEADLINE).await.expect("alone");
    assert_eq!((outer.token(), outer.mode()), (token, Mode::Upgradable));
    let lost = tokio::time::timeout(ttl * 2, async { tokio::join!(outer.lost(), inner.lost()) });
    let lost = lost.await;
    assert!(lost.is_err(), "{lost:?}");
    inner.release().await.expect("released");
    outer.ensure().expect("the hold continues");
    outer.release().await.expect("released");
    client.lock("page").try_acquire().await.expect("free").release().await.expect("released");
}

/// Another program of the session upgrades a hold that was transferred: the guard knows the token, and no attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_received_guard_follows_an_upgrade_of_another_program_and_releases_the_hold_at_once() {
    let cluster = Cluster::three().await;
    let (giver, receiver) = (client(&cluster), client(&cluster));
    let session = receiver.session().await.expect("open");
    let upgrade = async |attempt: u64| {
        let name = session.name();
        let target =
            format!("/v1/locks/page?session={name}&change=0&attempt={attempt}&mode=exclusive");
        let grant: GrantBody = giver.call(&Call::new(Method::PUT, target)).await.expect("upgraded");
        grant.token
    };
    for (round, waits) in [(1, true), (2, false)] {
        let held = giver.lock("page").upgradable().acquire().await.expect("held");
        held.transfer(session.name(), None).await.expect("transferred");
        let answer = receiver.lock("page").timeout(DEADLINE).receive_transfer().await;
        let guard = answer.expect("asked").expect("given");
        let token = upgrade(u64::MAX / 4 + 1_000 * round).await;
        if waits {
            until("the token", DEADLINE, || async { guard.token() == token }).await;
            guard.ensure().expect("it continues");
        }
        guard.release().await.expect("released");
    }
    giver.lock("page").try_acquire().await.expect("free").release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_gives_out_its_permits_and_no_more_and_its_limit_is_live() {
    let cluster = Cluster::three().await;
    let (one, other) = (client(&cluster), client(&cluster));
    let pool = |client: &Client| client.semaphore("pool", 3);
    let two = pool(&one).permits(2).acquire().await.expect("two");
    let third = pool(&one).acquire().await.expect("the third, of the same client");
    assert_eq!((two.permits(), two.slots(), third.slots()), (2, vec![0, 1], vec![2]));
    assert_eq!(two.fence_resources(), ["pool#0", "pool#1"]);
    assert!(matches!(pool(&other).try_acquire().await, Err(Error::Busy(_))));
    let other_limit = other.semaphore("pool", 4).try_acquire().await.expect_err("it has 3");
    assert!(matches!(other_limit, Error::Rejected(_)), "{other_limit}");
    let waiting = tokio::spawn(pool(&other).permits(2).acquire());
    queued(&one, "pool", 1).await;
    pool(&one).set_limit(5).await.expect("live");
    let more = waiting.await.expect("a task").expect("two more");
    assert_eq!(more.slots(), [3, 4]);
    pool(&one).set_limit(1).await.expect("nobody is revoked");
    assert!([&two, &third, &more].iter().all(|permit| permit.is_held()));
    assert_eq!(
        one.lock_state(&LockName::new("pool").expect("a name")).await.expect("read").permits_held,
        Some(5)
    );
    for permit in [two, third, more] {
        permit.release().await.expect("released");
    }
    let last = other.semaphore("pool", 1).acquire().await.expect("one is left");
    assert_eq!(last.slots(), [0]);
    other.close().await.expect("closed");
    assert!(
        one.semaphore("pool", 1).timeout(DEADLINE).acquire().await.is_ok(),
        "it goes with its session"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_without_async_have_the_same_kinds() {
    let cluster = Cluster::three().await;
    let nodes = addresses(&cluster);
    let work = move || -> Result<(), Error> {
        let client = blocking::Client::new(nodes)?;
        let reader = client.lock("page").shared().acquire()?;
        let mut editor = client.lock("page").upgradable().acquire()?;
        assert!(matches!(editor.upgrade(Duration::ZERO), Err(Error::Busy(_))));
        reader.release()?;
        let token = editor.upgrade(DEADLINE)?;
        editor.downgrade(Mode::Shared)?;
        assert_eq!((editor.token(), editor.mode()), (token, Mode::Shared));
        let pool = client.semaphore("pool", 2);
        let permit = pool.clone().permits(2).acquire()?;
        assert_eq!((permit.permits(), permit.slots()), (2, vec![0, 1]));
        assert!(matches!(pool.clone().try_acquire(), Err(Error::Busy(_))));
        pool.set_limit(3)?;
        let third = client.semaphore("pool", 3).timeout(DEADLINE).acquire()?;
        assert_eq!(third.fence_resources(), ["pool#2"]);
        third.release()?;
        permit.release()?;
        editor.release()
    };
    // On a separate thread, because the blocking client rejects use inside a runtime.
    let thread = std::thread::spawn(work);
    let done = tokio::task::spawn_blocking(move || thread.join()).await.expect("a thread");
    done.expect("no panic").expect("all of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_permits_of_one_session_stay_held_through_renewals() {
    let cluster = Cluster::three().await;
    let one = client(&cluster);
    let ttl = Duration::from_secs(1);
    let mut permits = Vec::new();
    // More than a read of the lock returns.
    for _ in 0..120 {
        let lock = one.semaphore("pool", 200).ttl(ttl);
        permits.push(lock.acquire().await.expect("a permit"));
    }
    let (first, last) = (permits[0].lost(), permits[119].lost());
    let ended = tokio::time::timeout(ttl * 3, async {
        tokio::select! { end = first => end, end = last => end }
    });
    assert!(ended.await.is_err(), "one of them was lost");
    assert!(permits.iter().all(|permit| permit.is_held()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longest_hold_ends_here_before_it_ends_there() {
    let cluster = Cluster::three().await;
    let (one, other) = (client(&cluster), client(&cluster));
    let max = Duration::from_secs(1);
    let guard = one.lock("report").max_hold(max).acquire().await.expect("held");
    let waiting = tokio::spawn(other.lock("report").acquire());
    // When the other client holds the lock, the guard must have reported the loss.
    let next = waiting.await.expect("a task").expect("its turn");
    assert_eq!(guard.ensure(), Err(Loss::MaxHoldExceeded { max }));
    assert!(next.token() > guard.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shortest_hold_keeps_others_out_and_the_urgent_go_first() {
    let cluster = Cluster::three().await;
    let (one, other) = (client(&cluster), client(&cluster));
    let min = Duration::from_mins(1);
    let cron = one.lock("cron").min_hold(min).value("job 7").acquire().await.expect("held");
    let seen = other.lock_state(cron.lock()).await.expect("read");
    assert_eq!(seen.holders[0].value.as_deref(), Some("job 7"));
    cron.release().await.expect("released");
    let again = other.lock("cron").try_acquire().await.expect_err("once in a minute");
    assert!(matches!(again, Error::Busy(_)), "{again:?}");

    let holder = one.lock("line").acquire().await.expect("held");
    let patient = tokio::spawn(other.lock("line").acquire());
    queued(&one, "line", 1).await;
    let urgent = tokio::spawn(other.lock("line").priority(9).acquire());
    queued(&one, "line", 2).await;
    drop(holder);
    let urgent = urgent.await.expect("a task").expect("first");
    assert!(!patient.is_finished());
    drop(urgent);
    patient.await.expect("a task").expect("then the other").release().await.expect("released");
    let strict = one.lock("once").owner("me").not_reentrant();
    let held = strict.clone().acquire().await.expect("held");
    assert!(matches!(strict.try_acquire().await, Err(Error::Rejected(_))));
    drop(held);
}
