//! The options of an acquire, and the change of a mode.

use super::*;
use crate::Mode;

/// A grant in a mode.
fn granted(token: u64, mode: &str) -> String {
    grant(token, 0, 30_000).replace(r#""mode":"exclusive""#, &format!(r#""mode":"{mode}""#))
}

/// A client of a node that grants every acquire, and the request lines that the node received. `upgrade` answers the
/// n-th upgrade.
async fn upgrading(
    upgrade: impl Fn(usize) -> Option<(u16, String)> + Send + Sync + 'static,
) -> (Client, Arc<std::sync::Mutex<Vec<String>>>) {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (recorded, upgrades) = (lines.clone(), AtomicUsize::new(0));
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        match line {
            line if !is_acquire(line) => default_answer(line, ""),
            line if line.contains("mode=exclusive") => {
                upgrade(upgrades.fetch_add(1, Ordering::SeqCst))
            }
            line if line.contains("mode=shared") => Some((200, granted(8, "shared"))),
            _ => Some((200, granted(7, "upgradable"))),
        }
    })
    .await;
    (client([address]), lines)
}

fn requests(lines: &std::sync::Mutex<Vec<String>>, what: &str) -> usize {
    let lines = lines.lock().unwrap();
    lines.iter().filter(|line| is_acquire(line) && line.contains(what)).count()
}

#[tokio::test]
async fn every_option_is_sent() {
    let (client, lines) = upgrading(|_| None).await;
    let lock = client.lock("job").permits(2).limit(8).priority(5).value("10.0.0.7");
    let minute = Duration::from_mins(1);
    let _guard = lock.max_hold(minute).min_hold(minute).not_reentrant().acquire().await.unwrap();
    for what in [
        "permits=2",
        "limit=8",
        "priority=5",
        "value=10.0.0.7",
        "max_hold=1m",
        "min_hold=1m",
        "reentrant=false",
    ] {
        assert_eq!(requests(&lines, what), 1, "{what}: {lines:?}");
    }
    let _shared = client.lock("job").shared().acquire().await.unwrap();
    assert_eq!(requests(&lines, "mode=shared"), 1);
    assert_eq!(requests(&lines, "mode="), 1, "a plain lock names no mode: {lines:?}");
}

#[tokio::test]
async fn a_shard_is_requested_by_the_name_of_the_sharded_lock_and_released_by_its_own() {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let recorded = lines.clone();
    let (address, _) = node(move |_, line| {
        recorded.lock().unwrap().push(line.to_owned());
        if is_acquire(line) {
            let granted = grant(7, 0, 30_000).replace(r#""lock":"job""#, r#""lock":"job/3""#);
            return Some((
                200,
                granted.replace(r#""revision""#, r#""shard":3,"min_valid_token":5,"revision""#),
            ));
        }
        default_answer(line, "")
    })
    .await;
    let client = client([address]);
    let guard = client.lock("job").shards(8).acquire().await.unwrap();
    assert_eq!((guard.shard(), guard.lock().as_str()), (Some(3), "job/3"));
    assert_eq!(guard.min_valid_token().0, 5);
    let other = client.lock("job").shard(3).shards(8).acquire().await.unwrap();
    assert_eq!(requests(&lines, "shards=8"), 2, "{lines:?}");
    assert_eq!(requests(&lines, "shard=3"), 1, "{lines:?}");
    guard.release().await.unwrap();
    other.release().await.unwrap();
    let lines = lines.lock().unwrap();
    let released = lines.iter().filter(|line| line.starts_with("DELETE /v1/locks/job/3?"));
    assert_eq!(released.count(), 2, "{lines:?}");
}

#[tokio::test]
async fn an_upgrade_shows_its_new_token_in_every_view_and_a_downgrade_keeps_it() {
    let (client, lines) = upgrading(|_| Some((200, granted(8, "exclusive")))).await;
    let mut guard = client.lock("job").upgradable().acquire().await.unwrap();
    let view = guard.hold();
    assert_eq!(guard.upgrade(Duration::ZERO).await.unwrap().0, 8);
    assert_eq!((view.token().0, view.mode()), (8, Mode::Exclusive));
    guard.downgrade(Mode::Shared).await.unwrap();
    assert_eq!((view.token().0, view.mode()), (8, Mode::Shared));
    // Each change names the attempt of the guard, and has a larger number of its own.
    let lines = lines.lock().unwrap();
    let number = |line: &String, name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split(['&', ' ']).next()?.parse::<u64>().ok()
    };
    let acquired = lines.iter().find(|line| line.contains("mode=upgradable")).unwrap();
    let acquired = number(acquired, "attempt=").unwrap();
    let changes =
        lines.iter().filter_map(|line| Some((number(line, "change=")?, number(line, "attempt=")?)));
    let changes: Vec<_> = changes.collect();
    assert_eq!(changes.len(), 2, "{lines:?}");
    assert!(changes.iter().all(|(changed, _)| *changed == acquired), "{changes:?}");
    assert!(acquired < changes[0].1 && changes[0].1 < changes[1].1, "{changes:?}");
}

/// The cluster grants the highest slots to others as soon as it executes the call.
#[tokio::test]
async fn slots_that_may_be_given_back_are_no_longer_listed() {
    let hanging = Some((HANG, String::new()));
    let forbidden = Some(problem("forbidden", 403, false));
    let done = Some((204, String::new()));
    let cases = [(hanging, false, 1), (None, false, 1), (forbidden, false, 3), (done, true, 1)];
    for (answer, is_given, left) in cases {
        let (address, _) = node(move |_, line| match line {
            line if is_acquire(line) => {
                let granted = grant(7, 0, 30_000);
                let slots = r#""permits":3,"slots":[0,2,5],"revision""#;
                Some((200, granted.replace(r#""revision""#, slots)))
            }
            line if line.starts_with("DELETE ") => answer.clone(),
            line => default_answer(line, ""),
        })
        .await;
        let client = client([address]).request_timeout(Duration::from_millis(300));
        let mut guard = client.lock("job").permits(3).limit(8).acquire().await.unwrap();
        let giving = guard.release_permits(2);
        let limit = if is_given { Duration::from_secs(20) } else { Duration::from_millis(200) };
        let given = tokio::time::timeout(limit, giving).await;
        assert_eq!(given.is_ok_and(|given| given.is_ok()), is_given);
        assert_eq!((guard.permits(), guard.slots()), (left, [0, 2, 5][..left as usize].to_vec()));
    }
}

#[tokio::test]
async fn a_reentry_names_the_mode_of_its_guard() {
    let (client, lines) = upgrading(|_| Some((200, granted(7, "exclusive")))).await;
    let guard = client.lock("job").upgradable().acquire().await.unwrap();
    let _again = guard.reenter().await.unwrap();
    assert_eq!(requests(&lines, "mode=upgradable"), 2, "{lines:?}");
}

#[tokio::test]
async fn a_rejected_upgrade_changes_nothing_and_an_uncertain_one_is_reverted() {
    let (client, lines) = upgrading(|call| match call {
        0 => Some(problem("lock-busy", 423, true)),
        // The outcome is unknown: the connection is dropped.
        _ => None,
    })
    .await;
    let mut guard = client.lock("job").upgradable().acquire().await.unwrap();
    let busy = guard.upgrade(Duration::ZERO).await.unwrap_err();
    assert!(matches!(busy, Error::Busy(_)), "{busy:?}");
    assert_eq!(requests(&lines, "mode=upgradable"), 1);
    let doubt = guard.upgrade(Duration::ZERO).await.unwrap_err();
    assert!(matches!(doubt, Error::OutcomeUnknown(_)), "{doubt:?}");
    assert_eq!(requests(&lines, "mode=upgradable"), 2, "the old mode is restored: {lines:?}");
    assert_eq!((guard.mode(), guard.is_held()), (Mode::Upgradable, true));
}

#[tokio::test]
async fn dropping_an_upgrade_future_reverts_the_upgrade_in_the_background() {
    let (client, lines) = upgrading(|_| Some(problem("no-leader", 503, true))).await;
    let mut guard = client.lock("job").upgradable().acquire().await.unwrap();
    let upgrade = guard.upgrade(Duration::from_mins(1));
    assert!(tokio::time::timeout(Duration::from_millis(100), upgrade).await.is_err());
    until("the upgrade is reverted", || requests(&lines, "mode=upgradable") == 2).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_downgrade_detects_that_the_cluster_no_longer_has_the_hold() {
    let (address, _) = node(|_, line| match line {
        line if !is_acquire(line) => default_answer(line, ""),
        line if line.contains("mode=shared") => Some(problem("not-holder", 409, false)),
        _ => Some((200, granted(7, "exclusive"))),
    })
    .await;
    let mut guard = acquire(&client([address])).await.unwrap();
    let refused = guard.downgrade(Mode::Shared).await.unwrap_err();
    assert!(matches!(refused, Error::Lost(Loss::ReleasedElsewhere)), "{refused:?}");
    assert_eq!(guard.ensure(), Err(Loss::ReleasedElsewhere));
}

#[tokio::test]
async fn max_hold_counts_from_the_sending_and_not_from_a_clock_that_is_behind() {
    let ends = |ms: u64| {
        grant(7, 0, 60_000).replace(r#""revision""#, &format!(r#""ends_in_ms":{ms},"revision""#))
    };
    for reported in [4_000, 90_000] {
        let answer = ends(reported);
        let (address, _) = lock_node(move |_| Some((200, answer.clone()))).await;
        let before = Instant::now();
        let max = Duration::from_secs(10);
        let guard = client([address]).lock("job").max_hold(max).acquire().await.unwrap();
        let left = Duration::from_millis(reported).min(max);
        assert!(guard.deadline() < Instant::now() + left, "{reported}");
        assert!(guard.deadline() > before + left * 49 / 50, "{reported}");
    }
}

/// A guard of a node that is behind, so its renewals list no holds; and the number of renewals. A read of the lock
/// returns another holder, then this one if `listed`, out of `total`. `refusal` is the answer to a check of the token, unless it is valid.
async fn lagging(
    listed: bool,
    total: u32,
    refusal: Option<(&'static str, u16)>,
) -> (Guard, Arc<AtomicUsize>) {
    let renewals = Arc::new(AtomicUsize::new(0));
    let counter = renewals.clone();
    let holder = |session: &str, token: u64| {
        format!(
            r#"{{"session":"{session}","token":{token},"held_for_ms":1,"hold_count":1,"labels":{{}},"mode":"shared"}}"#
        )
    };
    let ours = if listed { format!(",{}", holder("me", 7)) } else { String::new() };
    let lock = format!(
        r#"{{"lock":"job","mode":"shared","held":true,"holders":[{}{ours}],"holders_total":{total},"waiters":0,"queue":[],"last_token":9}}"#,
        holder("other", 5)
    );
    let fence = r#"{"lock":"job","token":7,"valid":true,"current":9,"highest":9,"revision":9}"#;
    let (address, _) = node(move |_, line| {
        Some(match line {
            line if is_acquire(line) => (200, granted(7, "shared").replace("30000", "900")),
            line if line.starts_with("GET /v1/fence/job?token=7") => match refusal {
                Some((code, status)) => problem(code, status, false),
                None => (200, fence.to_owned()),
            },
            line if line.starts_with("GET /v1/locks/") => (200, lock.clone()),
            line if line.starts_with("DELETE") => (204, String::new()),
            line => {
                counter.fetch_add(usize::from(line.starts_with("POST")), Ordering::SeqCst);
                (200, session("", 900))
            }
        })
    })
    .await;
    let client = Client::builder([address]).named_session("me").build().unwrap();
    (client.lock("job").shared().acquire().await.unwrap(), renewals)
}

#[tokio::test]
async fn a_holder_that_is_not_the_first_is_still_a_holder() {
    let forbidden = Some(("forbidden", 403));
    for (listed, total, refusal) in [(true, 2, None), (false, 300, None), (false, 300, forbidden)] {
        let (guard, renewals) = lagging(listed, total, refusal).await;
        until("renewals", || renewals.load(Ordering::SeqCst) >= 3).await;
        assert_eq!(guard.ensure(), Ok(()), "listed: {listed}, {refusal:?}");
    }
}

#[tokio::test]
async fn a_hold_that_is_neither_listed_nor_valid_is_lost() {
    for (total, refusal) in [(1, None), (300, Some(("stale-token", 412)))] {
        let (guard, _) = lagging(false, total, refusal).await;
        let lost = tokio::time::timeout(Duration::from_secs(10), guard.lost()).await;
        assert_eq!(lost.unwrap(), Loss::ReleasedElsewhere, "of {total}");
    }
}
