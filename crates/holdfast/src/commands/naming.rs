//! How those who hold a lock are named to people: one in full, several in short.
//!
//! Owns the words, nothing else. Bounds: [`NAMED_MAX`] names, the rest is counted.

use holdfast_api::{HolderBody, LockBody};
use holdfast_types::{CooldownCause, Mode};

use super::{for_people, labels_beside, name_of};

/// So many holders are named.
const NAMED_MAX: usize = 3;

/// `web-3 (host=web-3 pid=812)`, or of several `a, b and 4 others`; none if nobody holds it.
pub(super) fn holders_in_short(lock: &LockBody) -> Option<String> {
    let total = holders_total(lock);
    match lock.holders.as_slice() {
        [] => None,
        [one] if total == 1 => Some(name_of(one)),
        _ => sessions_in_short(lock),
    }
}

/// The sessions that hold it, without their labels; none if nobody holds it.
pub(super) fn sessions_in_short(lock: &LockBody) -> Option<String> {
    let named: Vec<&str> =
        lock.holders.iter().take(NAMED_MAX).map(|holder| holder.session.as_str()).collect();
    let others = holders_total(lock).saturating_sub(named.len());
    (!named.is_empty()).then(|| listed(&named, others))
}

/// How many hold it: the list has only the first.
pub(super) fn holders_total(lock: &LockBody) -> usize {
    usize::try_from(lock.holders_total).unwrap_or(usize::MAX).max(lock.holders.len())
}

/// How long it has been held by the one that holds it longest, milliseconds.
pub(super) fn longest_held(lock: &LockBody) -> Option<u64> {
    lock.holders.iter().map(|holder| holder.since_ms).max()
}

/// `held by web-3 for 4m12s`, `closed for 3s more (cooldown)`, `free`.
pub(super) fn state_of(lock: &LockBody) -> String {
    let Some(holders) = holders_in_short(lock) else {
        return match &lock.closed {
            Some(closed) => format!(
                "closed for {} more ({})",
                for_people(closed.opens_in_ms),
                why_closed(closed.why)
            ),
            None => "free".to_owned(),
        };
    };
    let since = for_people(longest_held(lock).unwrap_or_default());
    match holders_total(lock) {
        1 => format!("held by {holders} for {since}"),
        _ => format!("held by {holders} for up to {since}"),
    }
}

/// Why a lock that nobody holds is granted to nobody.
pub(super) fn why_closed(why: CooldownCause) -> &'static str {
    match why {
        CooldownCause::MinHold => "its last holder asked for so long",
        CooldownCause::Cooldown => "cooldown",
        CooldownCause::LockDelay => "a holder was lost, and may not know it yet",
    }
}

/// `shared`, or of a semaphore `2 permits`.
pub(super) fn way(mode: Mode, permits: u32, semaphore: bool) -> String {
    match (semaphore, permits) {
        (false, _) => mode.as_str().to_owned(),
        (true, 1) => "1 permit".to_owned(),
        (true, _) => format!("{permits} permits"),
    }
}

/// The labels of a holder, or a dash.
pub(super) fn labels_of(holder: &HolderBody) -> String {
    dashed(labels_beside(&holder.session, &holder.labels))
}

/// A dash stands for nothing.
pub(super) fn dashed(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

fn listed(named: &[&str], others: usize) -> String {
    match (named, others) {
        ([all @ .., last], 0) if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        (_, 0) => named.join(", "),
        (_, 1) => format!("{} and 1 other", named.join(", ")),
        (_, others) => format!("{} and {others} others", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(holders: &[(&str, u64)], total: u32) -> LockBody {
        let holders: Vec<String> = holders
            .iter()
            .map(|(session, since)| {
                format!(r#"{{"session":"{session}","token":1,"since_ms":{since},"entries":1,"labels":{{}},"mode":"shared"}}"#)
            })
            .collect();
        let json = format!(
            r#"{{"lock":"a","mode":"shared","held":true,"holders":[{}],"holders_total":{total},"waiters":0,"queue":[],"last_token":9}}"#,
            holders.join(",")
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn several_holders_are_named_and_the_rest_is_counted() {
        assert_eq!(state_of(&lock(&[("a", 5_000)], 1)), "held by a for 5s");
        let two = lock(&[("a", 5_000), ("b", 252_000)], 2);
        assert_eq!(state_of(&two), "held by a and b for up to 4m12s");
        let four = lock(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)], 4);
        assert_eq!(state_of(&four), "held by a, b, c and 1 other for up to 4ms");
        let many = lock(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)], 120);
        assert_eq!(holders_in_short(&many).unwrap(), "a, b, c and 117 others");
    }

    #[test]
    fn a_lock_that_nobody_holds_is_free_or_closed() {
        let mut nobodys = lock(&[], 0);
        assert_eq!(state_of(&nobodys), "free");
        nobodys.closed = serde_json::from_str(r#"{"why":"cooldown","opens_in_ms":3000}"#).unwrap();
        assert_eq!(state_of(&nobodys), "closed for 3s more (cooldown)");
    }

    #[test]
    fn permits_are_counted_only_on_a_semaphore() {
        assert_eq!(way(Mode::Shared, 1, false), "shared");
        assert_eq!(way(Mode::Exclusive, 1, true), "1 permit");
        assert_eq!(way(Mode::Exclusive, 3, true), "3 permits");
    }
}
