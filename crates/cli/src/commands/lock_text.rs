//! The holders and the state of a lock as short text for people, and the progress of a wait for a lock.
//!
//! The progress is a line on stderr for each change of the holders or the queue, after the first second.

use std::convert::Infallible;
use std::time::Duration;

use holdfast_api::{HolderBody, LockBody};
use holdfast_client::{Client, Error};
use holdfast_types::{CooldownCause, Labels, LockName, Mode, SessionName};

use crate::output::{short_time, write_stderr};

/// A text names at most this many holders and gives the number of the others.
const NAMED_MAX: usize = 3;

/// `web-3 (host=web-3 pid=812)`, or with a generated session name `web-3-812-fbe3 (user=alice)`. A durable hold has an
/// owner and a reason: `carol (durable: moving the database)`.
pub fn holder_name(holder: &HolderBody) -> String {
    if let (Some(reason), Some(owner)) = (&holder.durable_reason, &holder.owner) {
        return format!("{owner} (durable: {reason})");
    }
    match labels_text(&holder.session, &holder.labels) {
        labels if labels.is_empty() => holder.session.to_string(),
        labels => format!("{} ({labels})", holder.session),
    }
}

/// The labels of a session, without the host and the process that a generated session name already contains.
pub(super) fn labels_text(session: &SessionName, labels: &Labels) -> String {
    let label =
        |wanted: &str| labels.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value);
    let in_name = label("host")
        .zip(label("pid"))
        .is_some_and(|(host, pid)| session.as_str().starts_with(&format!("{host}-{pid}-")));
    let shown = labels.iter().filter(|(key, _)| !in_name || !matches!(*key, "host" | "pid"));
    let pairs: Vec<String> = shown.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(" ")
}

/// One holder with its labels, or the sessions of several holders; `None` if the lock is not held.
pub(super) fn holders_text(lock: &LockBody) -> Option<String> {
    match lock.holders.as_slice() {
        [one] if holders_total(lock) == 1 => Some(holder_name(one)),
        _ => sessions_text(lock),
    }
}

/// `a, b, c and 4 others`; `None` if the lock is not held.
pub(super) fn sessions_text(lock: &LockBody) -> Option<String> {
    let named: Vec<&str> =
        lock.holders.iter().take(NAMED_MAX).map(|holder| holder.session.as_str()).collect();
    let (last, first) = named.split_last()?;
    Some(match holders_total(lock).saturating_sub(named.len()) {
        0 if first.is_empty() => (*last).to_owned(),
        0 => format!("{} and {last}", first.join(", ")),
        1 => format!("{} and 1 other", named.join(", ")),
        others => format!("{} and {others} others", named.join(", ")),
    })
}

/// The number of holders; the reply lists only the first ones.
pub(super) fn holders_total(lock: &LockBody) -> usize {
    usize::try_from(lock.holders_total).unwrap_or(usize::MAX).max(lock.holders.len())
}

/// The limit of a semaphore; `None` for other locks.
pub(super) fn limit(lock: &LockBody) -> Option<u32> {
    lock.policy.and_then(|policy| policy.limit)
}

/// `held by web-3 for 4m12s`, `unavailable for 3s (cooldown)`, `free`.
pub(super) fn state_text(lock: &LockBody) -> String {
    let Some(holders) = holders_text(lock) else {
        return cooldown_text(lock).unwrap_or_else(|| "free".to_owned());
    };
    let since = short_time(lock.oldest_hold_ms.unwrap_or_default());
    let up_to = if holders_total(lock) == 1 { "" } else { "up to " };
    format!("held by {holders} for {up_to}{since}")
}

/// `unavailable for 3s (cooldown)`, for a free lock that cannot be granted yet.
pub(super) fn cooldown_text(lock: &LockBody) -> Option<String> {
    let cooldown = lock.cooldown.as_ref().filter(|_| lock.holders.is_empty())?;
    let reason = match cooldown.cause {
        CooldownCause::MinHold => "minimum hold of the last holder",
        CooldownCause::Cooldown => "cooldown",
        CooldownCause::LockDelay => "lock delay after a lost holder",
    };
    Some(format!("unavailable for {} ({reason})", short_time(cooldown.ends_in_ms)))
}

/// `shared`, or for a semaphore `2 permits`.
pub(super) fn mode_text(mode: Mode, permits: u32, is_semaphore: bool) -> String {
    match (is_semaphore, permits) {
        (false, _) => mode.as_str().to_owned(),
        (true, 1) => "1 permit".to_owned(),
        (true, _) => format!("{permits} permits"),
    }
}

/// The initial delay; a shorter wait prints no line.
const SILENCE: Duration = Duration::from_secs(1);
/// The time between two reads of the queue. Only a change prints a line.
const INTERVAL: Duration = Duration::from_secs(5);

/// Prints the progress until the caller drops the future. For a multi-lock it shows the first lock that is not free.
pub(super) async fn report_waiting(
    client: &Client,
    locks: &[LockName],
    own: &OwnSession,
) -> Infallible {
    let client = client.clone().request_timeout(INTERVAL);
    let mut printed = None;
    tokio::time::sleep(SILENCE).await;
    loop {
        match first_busy(&client, locks).await {
            Ok(Some(body)) => {
                let holders = body.holders.iter().map(|holder| holder.session.clone());
                let position = position(&body, own);
                let shown =
                    (body.lock.clone(), holders.collect::<Vec<_>>(), shards(&body), position);
                if printed.as_ref() != Some(&shown) {
                    write_stderr(&describe(&body, position));
                    printed = Some(shown);
                }
            }
            Ok(None) => {}
            Err((lock, error)) => {
                write_stderr(&format!("waiting for {lock}: {error}"));
                printed = None;
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns the first lock that is held or in cooldown, or else the first lock.
async fn first_busy<'l>(
    client: &Client,
    locks: &'l [LockName],
) -> Result<Option<LockBody>, (&'l LockName, Error)> {
    let mut first = None;
    for lock in locks {
        let body = client.lock_state(lock).await.map_err(|error| (lock, error))?;
        if body.held || body.cooldown.is_some() {
            return Ok(Some(body));
        }
        first = first.or(Some(body));
    }
    Ok(first)
}

/// The session of a command that waits.
#[derive(Debug)]
pub(super) enum OwnSession {
    Named(String),
    /// The prefix of its name.
    Generated(String),
}

impl OwnSession {
    fn is(&self, session: &SessionName) -> bool {
        let session = session.as_str();
        match self {
            Self::Named(name) => session == name,
            Self::Generated(prefix) => {
                session.strip_prefix(&**prefix).is_some_and(|rest| rest.starts_with('-'))
            }
        }
    }
}

/// Returns the queue position of a session, from 1.
fn position(body: &LockBody, own: &OwnSession) -> Option<u32> {
    let mut positions = body.queue.iter().zip(1..);
    positions.find(|(waiter, _)| own.is(&waiter.session)).map(|(_, position)| position)
}

/// For a lock with shards, the number of held shards and the number of waiters.
fn shards(body: &LockBody) -> Option<(usize, u32)> {
    let held = body.shards.iter().filter(|shard| shard.held).count();
    let waiting = body.shards.iter().map(|shard| shard.waiters).sum();
    (!body.shards.is_empty()).then_some((held, waiting))
}

fn describe(body: &LockBody, position: Option<u32>) -> String {
    if let Some((held, waiting)) = shards(body) {
        let (lock, all) = (&body.lock, body.shards.len());
        return format!("waiting for {lock}: {held} of {all} shards held, {waiting} waiting");
    }
    let queue = match position {
        Some(position) => format!("you are {} of {}", ordinal(position), body.waiters),
        None => format!("{} waiting", body.waiters),
    };
    if !body.held && body.cooldown.is_none() && body.waiters == 0 {
        let lock = &body.lock;
        return format!("waiting for {lock}: it is free, but the cluster has not granted it yet");
    }
    format!("waiting for {}: {}, {queue}", body.lock, state_text(body))
}

fn ordinal(number: u32) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(holders_given: &[(&str, u64)], total: u32) -> LockBody {
        let holders: Vec<String> = holders_given
            .iter()
            .map(|(session, since)| {
                format!(r#"{{"session":"{session}","token":1,"held_for_ms":{since},"hold_count":1,"labels":{{}},"mode":"shared"}}"#)
            })
            .collect();
        let oldest = holders_given.iter().map(|(_, since)| *since).max().unwrap_or(0);
        let json = format!(
            r#"{{"lock":"a","mode":"shared","held":true,"holders":[{}],"holders_total":{total},"waiters":0,"queue":[],"last_token":9,"oldest_hold_ms":{oldest}}}"#,
            holders.join(",")
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn the_first_holders_are_named_and_the_others_are_counted() {
        assert_eq!(state_text(&lock(&[("a", 5_000)], 1)), "held by a for 5s");
        let two = lock(&[("a", 5_000), ("b", 252_000)], 2);
        assert_eq!(state_text(&two), "held by a and b for up to 4m12s");
        let four = lock(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)], 4);
        assert_eq!(state_text(&four), "held by a, b, c and 1 other for up to 4ms");
        let many = lock(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)], 120);
        assert_eq!(holders_text(&many).unwrap(), "a, b, c and 117 others");
    }

    #[test]
    fn a_lock_without_holders_is_free_or_unavailable() {
        let mut free = lock(&[], 0);
        assert_eq!(state_text(&free), "free");
        free.cooldown = serde_json::from_str(r#"{"cause":"cooldown","ends_in_ms":3000}"#).unwrap();
        assert_eq!(state_text(&free), "unavailable for 3s (cooldown)");
    }

    #[test]
    fn permits_are_counted_only_for_a_semaphore() {
        assert_eq!(mode_text(Mode::Shared, 1, false), "shared");
        assert_eq!(mode_text(Mode::Exclusive, 1, true), "1 permit");
        assert_eq!(mode_text(Mode::Exclusive, 3, true), "3 permits");
    }

    #[test]
    fn labels_that_are_part_of_the_session_name_are_not_repeated() {
        let labels = r#"{"host":"vm","pid":"812","user":"alice"}"#;
        let text = |session: &str| {
            let session = SessionName::new(session).unwrap();
            labels_text(&session, &serde_json::from_str(labels).unwrap())
        };
        assert_eq!(text("vm-812-fbe32011e05eb6e7"), "user=alice");
        assert_eq!(text("vm-8123-fbe32011e05eb6e7"), "host=vm pid=812 user=alice");
        assert_eq!(text("me"), "host=vm pid=812 user=alice");
    }

    #[test]
    fn positions_are_ordinal_numbers() {
        let shown: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal).into();
        assert_eq!(
            shown,
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]
        );
    }

    #[test]
    fn the_line_shows_the_holder_the_time_and_the_position() {
        let body: LockBody = serde_json::from_str(
            r#"{"lock":"nightly","mode":"exclusive","held":true,
            "holders":[{"session":"web-3","token":1,"held_for_ms":252000,"hold_count":1,"labels":{"pid":"812"}}],
            "waiters":3,"queue":[{"session":"me-2","waiting_for_ms":0,"labels":{}},{"session":"me","waiting_for_ms":0,"labels":{}}],
            "last_token":1,"oldest_hold_ms":252000}"#,
        )
        .unwrap();
        assert_eq!(
            describe(&body, position(&body, &OwnSession::Named("me".to_owned()))),
            "waiting for nightly: held by web-3 (pid=812) for 4m12s, you are 2nd of 3"
        );
    }

    #[test]
    fn for_a_lock_with_shards_the_line_counts_the_held_ones() {
        let body: LockBody = serde_json::from_str(
            r#"{"lock":"stock","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":null,
            "shards":[{"shard":0,"held":true,"session":"a","token":7,"waiters":2},{"shard":1,"held":true,"waiters":1}]}"#,
        )
        .unwrap();
        assert_eq!(describe(&body, None), "waiting for stock: 2 of 2 shards held, 3 waiting");
    }

    #[test]
    fn the_line_names_all_shared_holders() {
        let holder = |session: &str, ms: u32| {
            format!(
                r#"{{"session":"{session}","token":1,"held_for_ms":{ms},"hold_count":1,"labels":{{}},"mode":"shared"}}"#
            )
        };
        let json = format!(
            r#"{{"lock":"nightly","mode":"shared","held":true,"holders":[{},{}],"holders_total":2,"waiters":1,
            "queue":[{{"session":"me-812-ab","waiting_for_ms":0,"labels":{{}}}}],"last_token":1,"oldest_hold_ms":252000}}"#,
            holder("web-3", 1_000),
            holder("web-4", 252_000)
        );
        let body: LockBody = serde_json::from_str(&json).unwrap();
        assert_eq!(
            describe(&body, position(&body, &OwnSession::Generated("me-812".to_owned()))),
            "waiting for nightly: held by web-3 and web-4 for up to 4m12s, you are 1st of 1"
        );
    }
}
