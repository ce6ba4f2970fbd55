//! What somebody who waits for a lock is told: who has it, and how long the queue is. On stderr, after a second.

use std::convert::Infallible;
use std::time::Duration;

use holdfast_api::LockBody;
use holdfast_client::Client;
use holdfast_types::LockName;

use super::naming::state_of;
use crate::output::complain;

/// A wait shorter than this is not worth a word.
const SILENCE: Duration = Duration::from_secs(1);
/// How often the queue is looked at. A line is written only if holders or place have changed.
const AGAIN: Duration = Duration::from_secs(5);

/// Reports until dropped.
pub(super) async fn report_waiting(client: &Client, lock: &str, session: &str) -> Infallible {
    let client = client.clone().request_timeout(AGAIN);
    let mut said = None;
    tokio::time::sleep(SILENCE).await;
    loop {
        if let Ok(name) = LockName::new(lock) {
            match client.look(&name).await {
                Ok(body) => {
                    let holders = body.holders.iter().map(|holder| holder.session.clone());
                    let now =
                        (holders.collect::<Vec<_>>(), segments_of(&body), place_of(&body, session));
                    if said.as_ref() != Some(&now) {
                        complain(&describe(&body, now.2));
                        said = Some(now);
                    }
                }
                Err(error) => {
                    complain(&format!("waiting for {lock}: {error}"));
                    said = None;
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Where a session stands in the queue, from 1. Of one that was made up, only the beginning of the name is known.
fn place_of(body: &LockBody, session: &str) -> Option<u32> {
    let mut places = body.queue.iter().zip(1..);
    let is_ours = |name: &str| {
        name.strip_prefix(session).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    places.find(|(waiter, _)| is_ours(waiter.session.as_str())).map(|(_, place)| place)
}

/// Of something that is cut: how many of its segments are held, and how many wait for them.
fn segments_of(body: &LockBody) -> Option<(usize, u32)> {
    let held = body.segments.iter().filter(|segment| segment.held).count();
    let waiting = body.segments.iter().map(|segment| segment.waiters).sum();
    (!body.segments.is_empty()).then_some((held, waiting))
}

fn describe(body: &LockBody, place: Option<u32>) -> String {
    if let Some((held, waiting)) = segments_of(body) {
        let (lock, all) = (&body.lock, body.segments.len());
        return format!("waiting for {lock}: {held} of {all} segments held, {waiting} waiting");
    }
    let queue = match place {
        Some(place) => format!("you are {} of {}", ordinal(place), body.waiters),
        None => format!("{} waiting", body.waiters),
    };
    format!("waiting for {}: {}, {queue}", body.lock, state_of(body))
}

fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_as_people_do() {
        let said: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal).into();
        assert_eq!(
            said,
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]
        );
    }

    #[test]
    fn the_line_names_holder_time_and_place() {
        let body: LockBody = serde_json::from_str(
            r#"{"lock":"nightly","mode":"exclusive","held":true,
            "holders":[{"session":"web-3","token":1,"since_ms":252000,"entries":1,"labels":{"pid":"812"}}],
            "waiters":3,"queue":[{"session":"a","since_ms":0,"labels":{}},{"session":"me","since_ms":0,"labels":{}}],
            "last_token":1}"#,
        )
        .unwrap();
        assert_eq!(
            describe(&body, place_of(&body, "me")),
            "waiting for nightly: held by web-3 (pid=812) for 4m12s, you are 2nd of 3"
        );
    }

    #[test]
    fn of_segments_the_line_counts_those_that_are_held() {
        let body: LockBody = serde_json::from_str(
            r#"{"lock":"stock","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":null,
            "segments":[{"segment":0,"held":true,"session":"a","token":7,"waiters":2},{"segment":1,"held":true,"waiters":1}]}"#,
        )
        .unwrap();
        assert_eq!(describe(&body, None), "waiting for stock: 2 of 2 segments held, 3 waiting");
    }

    #[test]
    fn several_holders_are_all_in_the_line() {
        let holder = |session: &str, ms: u32| {
            format!(
                r#"{{"session":"{session}","token":1,"since_ms":{ms},"entries":1,"labels":{{}},"mode":"shared"}}"#
            )
        };
        let json = format!(
            r#"{{"lock":"nightly","mode":"shared","held":true,"holders":[{},{}],"holders_total":2,"waiters":1,
            "queue":[{{"session":"me-812-ab","since_ms":0,"labels":{{}}}}],"last_token":1}}"#,
            holder("web-3", 1_000),
            holder("web-4", 252_000)
        );
        let body: LockBody = serde_json::from_str(&json).unwrap();
        assert_eq!(
            describe(&body, place_of(&body, "me-812")),
            "waiting for nightly: held by web-3 and web-4 for up to 4m12s, you are 1st of 1"
        );
    }
}
