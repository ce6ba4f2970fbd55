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
