//! Changes of a hold: one at a time, each with a number of its own.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::Mode;

type Lines = Arc<Mutex<Vec<String>>>;

/// A grant in a mode.
fn granted(token: u64, mode: &str) -> String {
    grant(token, 0, 30_000).replace(r#""mode":"exclusive""#, &format!(r#""mode":"{mode}""#))
}

/// A client of a node that grants every acquire with token 7, and the changes that the node received. `change` answers
/// the n-th change, from 0.
async fn changing(
    mode: &'static str,
    change: impl Fn(usize, &str) -> (u16, String) + Send + Sync + 'static,
) -> (Client, Lines) {
    let lines = Lines::default();
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        if !is_acquire(line) {
            return default_answer(line, "");
        }
        if !line.contains("change=") {
            return Some((200, granted(7, mode)));
        }
        let number = {
            let mut lines = recorded.lock().unwrap();
            lines.push(line.to_owned());
            lines.len() - 1
        };
        Some(change(number, line))
    })
    .await;
    (client([address]), lines)
}

fn changes(lines: &Lines, what: &str) -> usize {
    lines.lock().unwrap().iter().filter(|line| line.contains(what)).count()
}

#[tokio::test]
async fn an_upgrade_waits_for_the_fallback_of_a_dropped_upgrade() {
    let has_leader = Arc::new(AtomicBool::new(false));
    let is_answered = has_leader.clone();
    let (client, lines) = changing("upgradable", move |number, line| match line {
        _ if number == 0 => (HANG, String::new()),
        line if line.contains("mode=exclusive") => (200, granted(8, "exclusive")),
        _ if is_answered.load(Ordering::SeqCst) => (200, granted(7, "upgradable")),
        _ => problem("no-leader", 503, true),
    })
    .await;
    let mut guard = client.lock("job").upgradable().acquire().await.unwrap();
    let dropped = guard.upgrade(Duration::from_mins(1));
    assert!(tokio::time::timeout(Duration::from_millis(100), dropped).await.is_err());
    let elect = async {
        until("the fallback is repeated", || changes(&lines, "mode=upgradable") >= 3).await;
        assert_eq!(changes(&lines, "mode=exclusive"), 1, "{lines:?}");
        has_leader.store(true, Ordering::SeqCst);
    };
    let (upgraded, ()) = tokio::join!(guard.upgrade(Duration::from_secs(10)), elect);
    assert_eq!(upgraded.unwrap().0, 8);
    assert_eq!((guard.mode(), guard.token().0), (Mode::Exclusive, 8));
    let lines = lines.lock().unwrap();
    assert!(lines.last().unwrap().contains("mode=exclusive"), "{lines:?}");
}

#[tokio::test]
async fn an_upgrade_does_not_trust_the_mode_before_a_dropped_downgrade() {
    let has_leader = Arc::new(AtomicBool::new(false));
    let is_answered = has_leader.clone();
    let (client, lines) = changing("exclusive", move |_, line| {
        if !is_answered.load(Ordering::SeqCst) {
            return problem("no-leader", 503, true);
        }
        let is_shared = line.contains("mode=shared");
        if is_shared { (200, granted(7, "shared")) } else { problem("mode-conflict", 409, false) }
    })
    .await;
    let mut guard = acquire(&client).await.unwrap();
    let dropped = guard.downgrade(Mode::Shared);
    assert!(tokio::time::timeout(Duration::from_millis(50), dropped).await.is_err());
    let elect = async {
        until("the downgrade is repeated", || changes(&lines, "mode=shared") >= 3).await;
        has_leader.store(true, Ordering::SeqCst);
    };
    let (upgraded, ()) = tokio::join!(guard.upgrade(Duration::from_secs(10)), elect);
    assert!(matches!(upgraded, Err(Error::Rejected(_))), "{upgraded:?}");
    assert_eq!((guard.mode(), guard.is_held()), (Mode::Shared, true));
}

#[tokio::test]
async fn an_upgrade_waits_for_an_earlier_change_within_its_timeout() {
    let (client, lines) = changing("upgradable", |_, _| problem("no-leader", 503, true)).await;
    let mut guard = client.lock("job").upgradable().acquire().await.unwrap();
    let dropped = guard.upgrade(Duration::from_mins(1));
    assert!(tokio::time::timeout(Duration::from_millis(50), dropped).await.is_err());
    until("the fallback begins", || changes(&lines, "mode=upgradable") >= 1).await;
    let before = changes(&lines, "mode=exclusive");
    let error = guard.upgrade(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)) && error.is_retryable(), "{error:?}");
    assert_eq!(changes(&lines, "mode=exclusive"), before);
    assert!(guard.is_held());
}

#[tokio::test]
async fn an_answer_in_the_old_mode_is_no_upgrade() {
    for (noops, is_upgraded) in [(1, true), (usize::MAX, false)] {
        let (client, _) = changing("upgradable", move |number, line| {
            let is_upgrade = line.contains("mode=exclusive") && number >= noops;
            (200, if is_upgrade { granted(8, "exclusive") } else { granted(7, "upgradable") })
        })
        .await;
        let mut guard = client.lock("job").upgradable().acquire().await.unwrap();
        let upgraded = guard.upgrade(Duration::ZERO).await;
        assert_eq!(upgraded.is_ok(), is_upgraded, "{upgraded:?}");
        let mode = if is_upgraded { Mode::Exclusive } else { Mode::Upgradable };
        assert_eq!((guard.mode(), guard.is_held()), (mode, true));
    }
}

/// The answer has the strongest mode of all guards of the owner.
#[tokio::test]
async fn a_guard_is_downgraded_below_a_stronger_guard_of_its_owner() {
    let (client, lines) = changing("exclusive", |_, _| (200, granted(7, "exclusive"))).await;
    let outer = acquire(&client).await.unwrap();
    let mut inner = outer.reenter().await.unwrap();
    inner.downgrade(Mode::Shared).await.unwrap();
    assert_eq!((inner.mode(), outer.mode()), (Mode::Shared, Mode::Exclusive));
    assert_eq!(lines.lock().unwrap().len(), 1);
}

fn number(line: &str) -> u64 {
    let (_, number) = line.split_once("attempt=").unwrap();
    number.split(['&', ' ']).next().unwrap().parse().unwrap()
}

/// How far the clock of another program of the session is ahead.
const AHEAD: u64 = 1_000_000_000;

#[tokio::test]
async fn every_change_replaces_a_number_that_is_over_once() {
    let (client, lines) = changing("exclusive", |count, line| {
        if count % 2 == 1 {
            return (200, granted(7, "exclusive"));
        }
        let (status, body) = problem("attempt-over", 409, false);
        let newest = format!(r#""newest_attempt":{},"retryable""#, number(line) + AHEAD);
        (status, body.replace(r#""retryable""#, &newest))
    })
    .await;
    let check = |what: &str| {
        let lines = std::mem::take(&mut *lines.lock().unwrap());
        let [first, second] = lines.as_slice() else { panic!("{what}: {lines:?}") };
        assert!(number(second) > number(first) + AHEAD, "{what}: {lines:?}");
    };
    let mut leadership = client.election("db").campaign("old").await.unwrap();
    leadership.proclaim("new").await.unwrap();
    assert!(leadership.value() == "new" && leadership.is_held());
    check("value");
    let guard = client.lock("job").min_hold(Duration::from_mins(1)).acquire().await.unwrap();
    MultiGuard::from(guard).release_unused().await.unwrap();
    check("min_hold");
}

/// The first upgrade gets no answer, and so may have a grant.
#[tokio::test]
async fn a_fallback_that_the_cluster_rejects_is_no_loss() {
    for (status, code) in [(403, "forbidden"), (401, "unauthenticated"), (409, "mode-conflict")] {
        let (client, _) = changing("upgradable", move |_, line| match line {
            line if line.contains("mode=exclusive") => problem("outcome-unknown", 503, true),
            _ => problem(code, status, false),
        })
        .await;
        let mut guard = client.lock("job").upgradable().acquire().await.unwrap();
        let upgraded = guard.upgrade(Duration::ZERO).await;
        assert!(matches!(upgraded, Err(Error::Rejected(_))), "{upgraded:?}");
        assert_eq!((guard.mode(), guard.ensure()), (Mode::Upgradable, Ok(())), "{code}");
    }
}

/// The cluster may have executed an earlier call. A repeated downgrade is a call again.
#[tokio::test]
async fn a_rejected_downgrade_is_no_loss_and_trusts_the_weaker_mode() {
    let (client, lines) = changing("exclusive", |number, _| match number {
        0 => problem("forbidden", 403, false),
        _ => (200, granted(7, "shared")),
    })
    .await;
    let mut guard = acquire(&client).await.unwrap();
    let downgraded = guard.downgrade(Mode::Shared).await;
    assert!(matches!(downgraded, Err(Error::Rejected(_))), "{downgraded:?}");
    assert_eq!((guard.mode(), guard.ensure()), (Mode::Shared, Ok(())));
    guard.downgrade(Mode::Shared).await.unwrap();
    assert_eq!(changes(&lines, "mode=shared"), 2);
}

/// The first call of the dropped downgrade has no answer, and the cluster rejects the next one.
#[tokio::test]
async fn a_dropped_downgrade_that_is_rejected_trusts_the_weaker_mode() {
    let (client, lines) = changing("exclusive", |number, _| match number {
        0 => (HANG, String::new()),
        _ => problem("forbidden", 403, false),
    })
    .await;
    let mut guard = acquire(&client).await.unwrap();
    let dropped = guard.downgrade(Mode::Shared);
    assert!(tokio::time::timeout(Duration::from_millis(100), dropped).await.is_err());
    until("the downgrade is repeated", || changes(&lines, "mode=shared") >= 2).await;
    until("the downgrade is over", || guard.mode() == Mode::Shared).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn every_guard_of_a_hold_has_the_token_of_an_upgrade() {
    let (client, _) = changing("upgradable", |_, _| (200, granted(9, "exclusive"))).await;
    let outer = client.lock("job").upgradable().acquire().await.unwrap();
    let mut inner = outer.reenter().await.unwrap();
    let view = outer.hold();
    inner.upgrade(Duration::ZERO).await.unwrap();
    assert_eq!((inner.token().0, inner.mode()), (9, Mode::Exclusive));
    assert_eq!((outer.token().0, outer.mode(), outer.ensure()), (9, Mode::Upgradable, Ok(())));
    assert_eq!(view.headers(), [("Fencing-Token", r#"9; resource="job"; floor=0"#.to_owned())]);
}

/// A nested acquire of a write in a read upgrades the hold.
#[tokio::test]
async fn a_guard_has_the_token_of_a_stronger_guard_of_its_owner() {
    let (address, _) = lock_node(|call| {
        let mode = if call == 0 { "shared" } else { "exclusive" };
        Some((200, granted(if call == 0 { 7 } else { 8 }, mode)))
    })
    .await;
    let client = client([address]);
    let lock = || client.lock("job").owner("me");
    let read = lock().shared().acquire().await.unwrap();
    let write = lock().acquire().await.unwrap();
    assert_eq!((read.token().0, write.token().0, read.mode()), (8, 8, Mode::Shared));
    assert!(read.is_held() && write.is_held());
}

/// A keepalive lists the hold of token 7 under token 9. The ticket decides whether it is the same hold.
#[tokio::test]
async fn a_guard_follows_an_upgrade_by_another_program_and_no_later_hold() {
    for (ticket, is_held) in [(5, true), (6, false)] {
        let listed = format!(r#"{{"lock":"job","ticket":{ticket},"token":9}}"#);
        let (address, _) = node(move |_, line| match line.split(' ').next() {
            Some("PUT") if is_acquire(line) => Some((200, grant(7, 0, 900))),
            Some("PUT" | "POST") => Some((200, session(&listed, 900))),
            _ => default_answer(line, ""),
        })
        .await;
        let guard = acquire(&client([address])).await.unwrap();
        if is_held {
            until("the token is known", || guard.token().0 == 9).await;
            let deadline = guard.deadline();
            until("the hold is renewed", || guard.deadline() > deadline).await;
            assert_eq!(guard.ensure(), Ok(()));
        } else {
            assert_eq!(guard.lost().await, Loss::ReleasedElsewhere);
            assert_eq!(guard.token().0, 7);
        }
    }
}

/// The dropped upgrade was granted, so its fallback returns another token.
#[tokio::test]
async fn a_transfer_waits_for_an_earlier_change_and_names_the_token_after_it() {
    let transfers = Lines::default();
    let recorded = transfers.clone();
    let (address, _) = node(move |_, line| {
        if line.starts_with("POST /v1/transfers/") {
            recorded.lock().unwrap().push(line.to_owned());
            let handed = r#"{"lock":"job","to":"you","token":9,"revision":3}"#;
            return Some((200, handed.to_owned()));
        }
        match line {
            line if !is_acquire(line) => default_answer(line, ""),
            line if line.contains("mode=exclusive") => Some((HANG, String::new())),
            line if line.contains("change=") => Some((200, granted(8, "upgradable"))),
            _ => Some((200, granted(7, "upgradable"))),
        }
    })
    .await;
    let client = client([address]);
    let mut guard = client.lock("job").upgradable().acquire().await.unwrap();
    let dropped = guard.upgrade(Duration::from_mins(1));
    assert!(tokio::time::timeout(Duration::from_millis(100), dropped).await.is_err());
    let to = SessionName::new("you").unwrap();
    assert_eq!(guard.transfer(&to, None).await.unwrap().0, 9);
    assert_eq!((changes(&transfers, "POST"), changes(&transfers, "token=8&")), (1, 1));
}
