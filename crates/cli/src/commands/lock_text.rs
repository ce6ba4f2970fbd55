//! The holders and the state of a lock as short text for people.

use holdfast_api::{HolderBody, LockBody};
use holdfast_types::{CooldownCause, Labels, Mode, SessionName};

use crate::output::short_time;

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
}
