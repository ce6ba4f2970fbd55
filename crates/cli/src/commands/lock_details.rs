//! A lock in all its details as text: its holders, the locks that block them, its policy, and its queue.

use holdfast_api::{ExplainedBody, HolderBody, LockBody, PolicyBody, WaitLinkBody};
use holdfast_types::{LockPolicy, Mode, Owner, ZnodePath};

use super::lock_text::{cooldown_text, holder_name, holders_total, labels_text, limit, mode_text};
use crate::output::{cell, more, short_time, table};

pub(super) fn show(body: &ExplainedBody) -> String {
    let lock = &body.lock;
    let mut lines = vec![headline(lock)];
    lines.extend(lease(body));
    lines.extend(lock.policy.as_ref().and_then(policy));
    lines.extend(body.blocked_by.iter().map(blocked));
    lines.extend(lock.foreign_znodes.iter().map(foreign));
    let mut parts = vec![lines.join("\n")];
    if holders_total(lock) > 1 {
        parts.push(holders(lock));
    }
    if !lock.queue.is_empty() {
        parts.push(queue(lock));
    }
    if !lock.shards.is_empty() {
        parts.push(shards(lock));
    }
    parts.join("\n\n")
}

fn headline(lock: &LockBody) -> String {
    let name = &lock.lock;
    if !lock.shards.is_empty() && lock.holders.is_empty() {
        let held = lock.shards.iter().filter(|shard| shard.held).count();
        return format!("{name}: {held} of {} shards are held", lock.shards.len());
    }
    match (lock.holders.as_slice(), holders_total(lock), limit(lock)) {
        ([], ..) => {
            format!("{name} is {}", cooldown_text(lock).unwrap_or_else(|| "free".to_owned()))
        }
        ([holder, ..], 1, _) => one_holder(lock, holder),
        (_, total, Some(limit)) => format!(
            "{name}: {} of {limit} permits are held, by {total}",
            lock.permits_held.unwrap_or_default()
        ),
        (_, total, None) => format!("{name} is held by {total}, shared"),
    }
}

fn one_holder(lock: &LockBody, holder: &HolderBody) -> String {
    let (name, since) = (holder_name(holder), short_time(holder.held_for_ms));
    let mode = match limit(lock) {
        Some(limit) => Some(format!("{} of {limit} permits, {}", holder.permits, slots(holder))),
        None => (holder.mode != Mode::Exclusive).then(|| holder.mode.as_str().to_owned()),
    };
    let facts = [Some(format!("token {}", holder.token)), mode, until(holder)];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    format!("{} is held by {name} for {since}, {}", lock.lock, facts.join(", "))
}

/// `slot 3`, `slots 0,1`
fn slots(holder: &HolderBody) -> String {
    let slots: Vec<String> = holder.slots.iter().map(u32::to_string).collect();
    let word = if slots.len() == 1 { "slot" } else { "slots" };
    format!("{word} {}", slots.join(","))
}

/// Returns the end of the hold, or the change that its holder waits for.
fn until(holder: &HolderBody) -> Option<String> {
    let ends = holder.ends_in_ms.map(|ms| format!("ends in {}", short_time(ms)));
    let upgrading = holder.upgrading.then(|| "waits to upgrade".to_owned());
    let facts: Vec<String> = ends.into_iter().chain(upgrading).collect();
    (!facts.is_empty()).then(|| facts.join(", "))
}

/// Returns the age of the last renewal; `None` if the reply of the leader lacks it.
fn lease(body: &ExplainedBody) -> Option<String> {
    let free = short_time(body.free_at_latest_in_ms?);
    match body.lock.holders.as_slice() {
        [holder] => {
            let renewed = short_time(holder.since_renewal_ms?);
            Some(format!("last renewed {renewed} ago; free in {free} unless renewed"))
        }
        _ => Some(format!("free in {free} unless a holder renews")),
    }
}

/// A ZooKeeper client that HTTP callers cannot share the lock with.
fn foreign(path: &ZnodePath) -> String {
    format!("{path}: this ZooKeeper client does not see HTTP callers, which are rejected meanwhile")
}

/// Returns the settings that differ from the default. Another line shows the limit.
fn policy(policy: &PolicyBody) -> Option<String> {
    let default = LockPolicy::DEFAULT;
    let time = |name: &str, ms: u64, usual: u64| {
        (ms != usual).then(|| format!("{name} {}", short_time(ms)))
    };
    let settings = [
        (policy.order != default.order).then(|| policy.order.as_str().to_owned()),
        time("ageing", policy.ageing_ms, default.ageing_ms),
        time("lock delay", policy.lock_delay_ms, default.lock_delay_ms),
        time("cooldown", policy.cooldown_ms, default.cooldown_ms),
        policy.wait_alarm_ms.map(|ms| format!("alarm after a wait of {}", short_time(ms))),
        policy.hold_alarm_ms.map(|ms| format!("alarm after a hold of {}", short_time(ms))),
        (!policy.detect_deadlocks).then(|| "deadlocks are not detected".to_owned()),
    ];
    let settings: Vec<String> = settings.into_iter().flatten().collect();
    (!settings.is_empty()).then(|| format!("policy: {}", settings.join(", ")))
}

fn holders(lock: &LockBody) -> String {
    let is_semaphore = limit(lock).is_some();
    let header = ["holder", "how", "token", "for", "renewed", "until", "labels"];
    let rows = lock.holders.iter().map(|holder| {
        [
            session_and_owner(holder.session.as_str(), holder.owner.as_ref()),
            if is_semaphore {
                format!("{}, {}", mode_text(holder.mode, holder.permits, true), slots(holder))
            } else {
                mode_text(holder.mode, holder.permits, false)
            },
            holder.token.to_string(),
            short_time(holder.held_for_ms),
            cell(holder.since_renewal_ms.map(|ms| format!("{} ago", short_time(ms)))),
            cell(until(holder)),
            cell(Some(labels_text(&holder.session, &holder.labels))),
        ]
    });
    table(header, rows) + &more(holders_total(lock), lock.holders.len())
}

fn queue(lock: &LockBody) -> String {
    let is_semaphore = limit(lock).is_some();
    let rows = lock.queue.iter().zip(1_u32..).map(|(waiter, position)| {
        [
            position.to_string(),
            session_and_owner(waiter.session.as_str(), waiter.owner.as_ref()),
            mode_text(waiter.mode, waiter.permits, is_semaphore),
            waiter.priority.to_string(),
            short_time(waiter.waiting_for_ms),
            cell(Some(labels_text(&waiter.session, &waiter.labels))),
        ]
    });
    let header = ["position", "session", "wants", "priority", "waiting for", "labels"];
    format!("{} waiting:\n{}", lock.waiters, table(header, rows))
}

fn shards(lock: &LockBody) -> String {
    let rows = lock.shards.iter().map(|shard| {
        [
            format!("{}/{}", lock.lock, shard.shard),
            cell(shard.session.as_ref()),
            cell(shard.token),
            shard.waiters.to_string(),
        ]
    });
    table(["shard", "held by", "token", "waiting"], rows)
}

/// `web-3`, or `web-3/importer` with the owner within the session.
fn session_and_owner(session: &str, owner: Option<&Owner>) -> String {
    owner.map_or_else(|| session.to_owned(), |owner| format!("{session}/{owner}"))
}

fn blocked(link: &WaitLinkBody) -> String {
    let since = short_time(link.waiting_for_ms);
    let state = match &link.held_by {
        Some(holder) => format!("held by {holder}"),
        None => "free".to_owned(),
    };
    let deadlock = if link.deadlock { ": a deadlock" } else { "" };
    format!("{} itself waits for {} ({state}) for {since}{deadlock}", link.session, link.waits_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        show(&serde_json::from_str(json).unwrap())
    }

    fn words(line: &str) -> String {
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn all_shared_holders_and_the_queue_are_shown() {
        let shown = shown(
            r#"{"lock":"a","mode":"shared","held":true,"holders":[
            {"session":"s1","token":4,"held_for_ms":252000,"hold_count":1,"labels":{"host":"web1"},"mode":"shared","since_renewal_ms":900},
            {"session":"s2","owner":"t","token":5,"held_for_ms":1000,"hold_count":1,"labels":{},"mode":"upgradable","upgrading":true}],
            "holders_total":3,"waiters":1,
            "queue":[{"session":"w","waiting_for_ms":3000,"labels":{"pid":"7"},"mode":"exclusive","priority":5}],
            "last_token":5,"free_at_latest_in_ms":30000}"#,
        );
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "a is held by 3, shared");
        assert_eq!(lines[1], "free in 30s unless a holder renews");
        assert_eq!(words(lines[4]), "s1 shared 4 4m12s 900ms ago - host=web1");
        assert_eq!(words(lines[5]), "s2/t upgradable 5 1s - waits to upgrade -");
        assert_eq!(lines[6], "and 1 more");
        assert_eq!(lines[8], "1 waiting:");
        assert_eq!(words(lines[10]), "1 w exclusive 5 3s pid=7");
    }

    #[test]
    fn znodes_of_clients_that_do_not_see_http_callers_are_lines() {
        let shown = shown(
            r#"{"lock":"a","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":null,"foreign_znodes":["/locks/a/x-1"]}"#,
        );
        assert_eq!(
            shown,
            "a is free\n/locks/a/x-1: this ZooKeeper client does not see HTTP callers, which are rejected meanwhile"
        );
    }

    #[test]
    fn every_shard_is_a_line() {
        let shown = shown(
            r#"{"lock":"stock","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":null,
            "shards":[{"shard":0,"held":true,"session":"web-3","token":7,"waiters":2},{"shard":1,"held":false,"waiters":0}]}"#,
        );
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "stock: 1 of 2 shards are held");
        assert_eq!(words(lines[3]), "stock/0 web-3 7 2");
        assert_eq!(words(lines[4]), "stock/1 - - 0");
    }

    #[test]
    fn permits_policy_and_cooldown_are_shown() {
        let policy = r#""policy":{"limit":8,"order":"writer-first","ageing_ms":10000,"lock_delay_ms":5000,"cooldown_ms":0,"detect_deadlocks":true,"wait_alarm_ms":30000}"#;
        let one = shown(&format!(
            r#"{{"lock":"a","mode":"exclusive","held":true,"holders":[{{"session":"s1","token":4,"held_for_ms":1000,"hold_count":1,"labels":{{}},"permits":2,"slots":[0,1],"ends_in_ms":9000}}],"holders_total":1,"permits_held":2,"waiters":0,"queue":[],"last_token":5,{policy}}}"#
        ));
        assert_eq!(
            one,
            "a is held by s1 for 1s, token 4, 2 of 8 permits, slots 0,1, ends in 9s\npolicy: writer-first, lock delay 5s, alarm after a wait of 30s"
        );
        let unavailable = shown(
            r#"{"lock":"a","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":5,"cooldown":{"cause":"min-hold","ends_in_ms":9000}}"#,
        );
        assert_eq!(unavailable, "a is unavailable for 9s (minimum hold of the last holder)");
    }
}
