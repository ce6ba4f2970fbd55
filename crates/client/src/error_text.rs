//! The text of a problem document in an [`Error`](crate::Error).
//!
//! The texts omit the server's hint, because it names HTTP parameters: [`Error::hint`](crate::Error::hint) returns it.

use std::time::Duration;

use holdfast_api::{ErrorCode, HolderBody, Problem};
use holdfast_types::LockName;

/// Names the lock, its holder and its queue, or the event that has not happened.
pub(crate) fn busy_text(problem: &Problem) -> String {
    let facts = &problem.facts;
    let text = match (&facts.lock, &facts.holder) {
        (Some(lock), Some(holder)) => held_text(lock, holder),
        _ => rejection_text(problem),
    };
    let waiters = match facts.waiters {
        None | Some(0) => String::new(),
        Some(1) => ", 1 waiter".to_owned(),
        Some(waiters) => format!(", {waiters} waiters"),
    };
    match (problem.code, facts.waited_ms.map(Duration::from_millis)) {
        (ErrorCode::WaitTimeout, Some(waited)) => {
            format!("timed out after {waited:?}: {text}{waiters}")
        }
        _ => format!("{text}{waiters}"),
    }
}

/// Names the lock, unless the detail does, and the cause.
pub(crate) fn rejection_text(problem: &Problem) -> String {
    let Problem { title, detail, facts, .. } = problem;
    let is_repetition = detail.is_empty() || detail.eq_ignore_ascii_case(title);
    let cause = if is_repetition { title.to_string() } else { format!("{title}: {detail}") };
    match &facts.lock {
        Some(lock) if !detail.contains(lock.as_str()) => format!("lock \"{lock}\": {cause}"),
        _ => cause,
    }
}

/// `lock "orders" is held by session "web3-77" (host=web3) for 2.1s`
fn held_text(lock: &LockName, holder: &HolderBody) -> String {
    let labels: Vec<String> =
        holder.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels =
        if labels.is_empty() { labels.join("") } else { format!(" ({})", labels.join(" ")) };
    let (session, held) = (&holder.session, Duration::from_millis(holder.held_for_ms));
    format!("lock \"{lock}\" is held by session \"{session}\"{labels} for {held:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(rest: &str) -> Problem {
        serde_json::from_str(&format!(r#"{{"type":"/errors/x",{rest}}}"#)).unwrap()
    }

    fn held(code: &str, labels: &str, rest: &str) -> String {
        let busy = problem(&format!(
            r#""title":"The lock is held by another caller","status":423,"code":"{code}","retryable":true,
            "hint":"add the parameter wait=10s to queue","lock":"orders","holder":{{"session":"s1","token":9,
            "held_for_ms":2100,"hold_count":1,"labels":{labels},"mode":"exclusive"}}{rest}"#
        ));
        busy_text(&busy)
    }

    #[test]
    fn a_busy_lock_is_named_with_its_holder_and_its_queue() {
        assert_eq!(
            held("lock-busy", r#"{"host":"web1","pid":"7"}"#, r#","waiters":3"#),
            r#"lock "orders" is held by session "s1" (host=web1 pid=7) for 2.1s, 3 waiters"#
        );
        assert_eq!(
            held("lock-busy", "{}", r#","waiters":0"#),
            r#"lock "orders" is held by session "s1" for 2.1s"#
        );
        assert_eq!(
            held("wait-timeout", "{}", r#","waiters":1,"waited_ms":5000"#),
            r#"timed out after 5s: lock "orders" is held by session "s1" for 2.1s, 1 waiter"#
        );
    }

    #[test]
    fn an_event_that_has_not_happened_is_described_without_the_hint_for_http() {
        let text = busy_text(&problem(
            r#""title":"The condition is not met","status":423,"code":"not-yet","retryable":true,
            "detail":"2 of 3 counts are left","hint":"add ?wait=30s to wait for the latch""#,
        ));
        assert_eq!(text, "The condition is not met: 2 of 3 counts are left");
    }

    #[test]
    fn a_detail_that_repeats_the_title_is_left_out() {
        let expired = r#""title":"The access token has expired","status":401,"code":"token-expired",
            "retryable":false,"detail":"the access token has expired""#;
        assert_eq!(rejection_text(&problem(expired)), "The access token has expired");
    }

    #[test]
    fn a_rejection_names_its_lock_once_and_has_no_hint_for_http() {
        let rejected = |detail: &str| {
            rejection_text(&problem(&format!(
                r#""title":"No","status":409,"code":"limit-mismatch","retryable":false,
                "detail":"{detail}","hint":"change it with PATCH /v1/policies/{{name}}","lock":"pool""#
            )))
        };
        assert_eq!(rejected("the limit is 3"), r#"lock "pool": No: the limit is 3"#);
        assert_eq!(rejected("'pool' is held by 'a'"), "No: 'pool' is held by 'a'");
    }
}
