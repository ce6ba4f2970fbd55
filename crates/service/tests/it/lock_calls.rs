//! Multi-locks, deadlocks, broken holds, hand-overs and release requests, on any node; pages of lists.

use std::time::Duration;

use holdfast_machine::SCAN_MAX;
use holdfast_service::{Failure, Granted, HoldChange, ListenRequest, ReadMode, Service};
use holdfast_types::{
    AclEntry, Acquire, Create, ForceRelease, ForceReleaseTarget, Grant, HandOver, Identity,
    LockRejection, LockSet, LossCause, Op, Owner, Perms, Reason, Rejection, Release, ReleaseTarget,
    RequestRelease,
};

use crate::client::{multi, node, path};
use crate::nodes::*;

fn lock_set(names: &[&str]) -> LockSet {
    LockSet::new(names.iter().map(|name| lock(name)).collect()).unwrap()
}

fn acquire_all(names: &[&str], who: Option<&str>, wait: Duration) -> Acquire {
    Acquire::new(lock_set(names), open(who, None), Owner::unnamed()).waiting(wait)
}

async fn take_all(service: &Service, acquire: Acquire) -> Result<Vec<Grant>, Failure> {
    let Granted { grant, others, .. } = service.acquire(acquire).await?.value;
    Ok(std::iter::once(grant).chain(others).collect())
}

fn owner(who: &str) -> (holdfast_types::SessionName, Owner) {
    (session(who), Owner::unnamed())
}

fn reason() -> Reason {
    Reason::new("maintenance").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_lock_is_granted_when_its_last_lock_becomes_free() {
    let nodes = Nodes::start(3).await;
    let [one, two, three] = &nodes.services[..] else { panic!() };
    hold(one, "a", "me").await;
    hold(two, "c", "me").await;
    let node = three.clone();
    let waiting = tokio::spawn(async move {
        take_all(&node, acquire_all(&["c", "a", "b"], Some("you"), LONG)).await
    });
    until_waiting(one, "b", 1).await;
    // A free lock is reserved for the waiting multi-lock.
    let busy = rejection(take(two, acquire("b", Some("she"), 30_000, NO_WAIT)).await);
    assert!(matches!(busy, Rejection::Lock(LockRejection::Reserved { waiters: 1 })), "{busy:?}");
    release(one, "a", "me").await.unwrap();
    release(one, "c", "me").await.unwrap();
    let grants = waiting.await.unwrap().unwrap();
    let names: Vec<_> = grants.iter().map(|grant| grant.lock.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(grants.iter().is_sorted_by(|a, b| a.token < b.token && a.ticket == b.ticket));
    // A repeated call renews the holds.
    let again = take_all(one, acquire_all(&["a", "b", "c"], Some("you"), NO_WAIT)).await.unwrap();
    assert!(again.iter().zip(&grants).all(|(a, b)| a.token == b.token && a.renewed));
    let (locks, session) = (lock_set(&["b", "a"]), session("you"));
    let (owner, target) = (Owner::unnamed(), ReleaseTarget::AnyEntry);
    let release = Release { locks, session, owner, target };
    assert!(two.release(release).await.unwrap().value.changed);
    assert_eq!(view(one, "c").await.holders_total, 1);
    assert_eq!(view(one, "b").await.holders_total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_lock_wait_that_ends_leaves_no_queue_entry() {
    let nodes = Nodes::start(3).await;
    let [one, two, _] = &nodes.services[..] else { panic!() };
    hold(one, "b", "me").await;
    let refused =
        take_all(two, acquire_all(&["a", "b"], Some("you"), Duration::from_millis(200))).await;
    let Err(Failure::WaitTimeout { lock, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(lock.lock.as_str(), "b");
    for name in ["a", "b"] {
        assert_eq!(view(one, name).await.waiters_total, 0, "{name}");
    }
    let refused = rejection(take_all(two, acquire_all(&["a", "b"], Some("you"), NO_WAIT)).await);
    let Rejection::Lock(LockRejection::OfMultiLock { lock, why }) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        lock.as_str() == "b" && matches!(*why, Rejection::Lock(LockRejection::Busy { .. })),
        "{why:?}"
    );
    // An anonymous caller that disconnects leaves no queue entry either.
    let node = two.clone();
    let waiting =
        tokio::spawn(async move { take_all(&node, acquire_all(&["a", "b"], None, LONG)).await });
    until_waiting(one, "a", 1).await;
    waiting.abort();
    for name in ["a", "b"] {
        until_waiting(one, name, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_is_rejected_with_the_wait_cycle() {
    let nodes = Nodes::start(3).await;
    let [one, two, _] = &nodes.services[..] else { panic!() };
    hold(one, "a", "me").await;
    hold(two, "b", "you").await;
    let waiting = spawn_take(one, acquire("b", Some("me"), 30_000, LONG));
    until_waiting(one, "b", 1).await;
    let refused = rejection(take(two, acquire("a", Some("you"), 30_000, LONG)).await);
    let Rejection::Lock(LockRejection::Deadlock { cycle }) = refused else { panic!("{refused:?}") };
    let cycle: Vec<_> = cycle.iter().map(|(who, _, lock)| format!("{who} {lock}")).collect();
    assert_eq!(cycle, ["you a", "me b"]);
    release(two, "b", "you").await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_hold_goes_to_the_next_waiter_and_a_hand_over_wakes_its_receiver() {
    let nodes = Nodes::start(3).await;
    let [one, two, three] = &nodes.services[..] else { panic!() };
    let held = hold(one, "a", "me").await;
    let mut waiting = Vec::new();
    for (number, (node, who)) in [(two, "you"), (three, "she"), (one, "he")].into_iter().enumerate()
    {
        waiting.push(spawn_take(node, acquire("a", Some(who), 30_000, LONG)));
        until(one, "a", |view| view.waiters_total as usize == number + 1).await;
    }
    let breaking = ForceRelease {
        lock: lock("a"),
        what: ForceReleaseTarget::Ticket(held.ticket),
        reason: reason(),
    };
    assert_eq!(two.force_release(breaking).await.unwrap().value, 1);
    let next = waiting.remove(0).await.unwrap().unwrap();
    assert!(next.token > held.token && next.session == session("you"));
    // The hand-over skips the waiter `she`.
    let hand_over = HandOver { lock: lock("a"), from: owner("you"), to: owner("he"), token: None };
    let grant = three.hand_over(hand_over).await.unwrap().value;
    let taken = waiting.remove(1).await.unwrap().unwrap();
    assert_eq!((taken.token, taken.session.as_str()), (grant.token, "he"));
    assert!(grant.token > next.token);
    release(one, "a", "he").await.unwrap();
    waiting.remove(0).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_receives_a_release_request_and_loses_the_lock_at_its_deadline() {
    let nodes = Nodes::start(3).await;
    let [one, two, three] = &nodes.services[..] else { panic!() };
    let held = take(one, acquire("a", Some("me"), 3_600_000, NO_WAIT)).await.unwrap();
    let (lock, deadline_ms) = (lock("a"), 1_500);
    let holder = Some(owner("me"));
    let ask = RequestRelease {
        lock,
        holder,
        token: None,
        reason: Some(reason()),
        deadline_ms,
        revoke: true,
    };
    assert_eq!(two.request_release(ask).await.unwrap().value, 1);
    let shown = view(three, "a").await;
    let note = shown.note(shown.holder().unwrap()).unwrap().release_request.clone().unwrap();
    assert!(note.revoke && note.reason == Some(reason()), "{note:?}");
    // Another node returns the events too, although the session did not listen there before.
    let mut since = held.granted_in;
    let mut events = Vec::new();
    while events.len() < 2 {
        let (session, incarnation) = (session("me"), None);
        let listen = ListenRequest { session, incarnation, since: Some(since), wait: DEADLINE };
        let reply = three.listen(listen).await.unwrap();
        assert_eq!(reply.value.gap, None);
        since = reply.revision;
        events.extend(reply.value.events);
    }
    let HoldChange::ReleaseRequested(request) = &events[0].change else {
        panic!("{:?}", events[0])
    };
    assert_eq!((request.deadline, events[0].token), (note.deadline, held.token));
    let revoked = HoldChange::Lost { cause: LossCause::Revoked, broken: None };
    assert_eq!(events[1].change, revoked);
}

/// A page is read in steps, and a step may end at a name that the caller may not see.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_page_names_nothing_that_the_caller_may_not_see() {
    let nodes = Nodes::start(1).await;
    let service = &nodes.services[0];
    let who = Identity { scheme: "digest".into(), id: "other:hash".into() };
    let acl = Some(vec![AclEntry { perms: Perms::ALL, who }]);
    let hidden = (0..=SCAN_MAX).map(|n| {
        let Op::Create(create) = node(&format!("/a/{n:06}")) else { panic!() };
        Op::Create(Create { acl: acl.clone(), ..create })
    });
    let all = [node("/a"), node("/a/z"), node("/a/zz")].into_iter().chain(hidden);
    for some in all.collect::<Vec<_>>().chunks(5_000) {
        service.multi(multi(some.to_vec())).await.unwrap();
    }
    let (top, mut after, mut seen) = (path("/a"), None, Vec::new());
    loop {
        let read = service.subtree(&top, after, 1, ReadMode::Linearizable);
        let page = read.await.unwrap().value;
        seen.extend(page.items.iter().map(|view| view.path.to_string()));
        let Some(next) = page.next else { break };
        assert_eq!(Some(&next), seen.last());
        after = Some(path(&next));
    }
    assert_eq!(seen, ["/a", "/a/z", "/a/zz"]);
}
