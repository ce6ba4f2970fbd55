//! The progress of a wait for a lock: its holders and the queue, as lines on stderr after the first second.

use std::convert::Infallible;
use std::time::Duration;

use holdfast_api::LockBody;
use holdfast_client::{Client, Error};
use holdfast_types::LockName;

use super::lock_text::state_text;
use crate::output::write_stderr;

/// The initial delay; a shorter wait prints no line.
const SILENCE: Duration = Duration::from_secs(1);
/// The time between two reads of the queue. Only a change prints a line.
const INTERVAL: Duration = Duration::from_secs(5);

/// Prints the progress until the caller drops the future. For a multi-lock it shows the first lock that is not free.
pub(super) async fn report_waiting(
    client: &Client,
    locks: &[LockName],
    session: &str,
) -> Infallible {
    let client = client.clone().request_timeout(INTERVAL);
    let mut printed = None;
    tokio::time::sleep(SILENCE).await;
    loop {
        match first_busy(&client, locks).await {
            Ok(Some(body)) => {
                let holders = body.holders.iter().map(|holder| holder.session.clone());
                let position = position(&body, session);
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

/// Returns the queue position of a session, from 1. `session` is a full name, or the prefix of a generated name.
fn position(body: &LockBody, session: &str) -> Option<u32> {
    let mut positions = body.queue.iter().zip(1..);
    let is_own = |name: &str| {
        name.strip_prefix(session).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    positions.find(|(waiter, _)| is_own(waiter.session.as_str())).map(|(_, position)| position)
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
            "waiters":3,"queue":[{"session":"a","waiting_for_ms":0,"labels":{}},{"session":"me","waiting_for_ms":0,"labels":{}}],
            "last_token":1,"oldest_hold_ms":252000}"#,
        )
        .unwrap();
        assert_eq!(
            describe(&body, position(&body, "me")),
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
            describe(&body, position(&body, "me-812")),
            "waiting for nightly: held by web-3 and web-4 for up to 4m12s, you are 1st of 1"
        );
    }
}
