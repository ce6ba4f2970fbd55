//! `holdfast who`: who holds a lock, since when, what they wait for themselves, and who waits for it.

use holdfast_api::{
    ExplainedBody, HolderBody, LinkBody, LockBody, PolicyBody, SegmentBody, WaiterBody, lock_path,
};
use holdfast_types::{LockPolicy, Mode, Owner};
use serde::Serialize;

use super::asking::{Ask, Asking};
use super::naming::{dashed, holders_total, labels_of, way, why_closed};
use super::{for_people, labels_beside, lock_name, name_of};
use crate::cli::{Format, WhoArgs};
use crate::exit::Stop;
use crate::output::{print, print_json, table};

/// One line of `-o jsonl`.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Row<'a> {
    Holder(&'a HolderBody),
    Waiter(&'a WaiterBody),
    Segment(&'a SegmentBody),
}

pub(super) async fn run(args: &WhoArgs) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let mut asking = Asking::new(&args.target, None)?;
    let body: ExplainedBody = asking.json(&Ask::get(lock_path(&lock))).await?;
    let holders = &body.lock.holders;
    match args.target.output {
        Format::Jsonl => {
            let rows = holders.iter().map(Row::Holder);
            let rows = rows.chain(body.lock.queue.iter().map(Row::Waiter));
            let rows = rows.chain(body.lock.segments.iter().map(Row::Segment));
            rows.for_each(|row| print_json(&row));
        }
        // Nothing at all if nobody holds it, not an empty line.
        Format::Value => {
            let segments = body.lock.segments.iter().filter_map(|one| one.session.as_ref());
            let all = holders.iter().map(|holder| &holder.session).chain(segments);
            all.for_each(|session| print(session.as_str()));
        }
        Format::Json => print_json(&body),
        Format::Table => print(&show(&body)),
    }
    Ok(())
}

fn show(body: &ExplainedBody) -> String {
    let lock = &body.lock;
    let mut lines = vec![headline(lock)];
    lines.extend(lease(body));
    lines.extend(lock.policy.as_ref().and_then(rules));
    lines.extend(body.blocked_by.iter().map(blocked));
    let mut parts = vec![lines.join("\n")];
    if holders_total(lock) > 1 {
        parts.push(holders(lock));
    }
    if !lock.queue.is_empty() {
        parts.push(queue(lock));
    }
    if !lock.segments.is_empty() {
        parts.push(segments(lock));
    }
    parts.join("\n\n")
}

fn headline(lock: &LockBody) -> String {
    let name = &lock.lock;
    let limit = limit_of(lock);
    if !lock.segments.is_empty() && lock.holders.is_empty() {
        let held = lock.segments.iter().filter(|segment| segment.held).count();
        return format!("{name} is cut: {held} of {} segments are held", lock.segments.len());
    }
    match (lock.holders.as_slice(), holders_total(lock), limit) {
        ([], ..) => match &lock.closed {
            Some(closed) => format!(
                "{name} is closed for {} more: {}",
                for_people(closed.opens_in_ms),
                why_closed(closed.why)
            ),
            None => format!("{name} is free"),
        },
        ([holder, ..], 1, _) => one_holder(lock, holder),
        (_, total, Some(limit)) => format!(
            "{name}: {} of {limit} permits are held, by {total}",
            lock.permits_held.unwrap_or_default()
        ),
        (_, total, None) => format!("{name} is held by {total}, shared"),
    }
}

fn one_holder(lock: &LockBody, holder: &HolderBody) -> String {
    let (name, since) = (name_of(holder), for_people(holder.since_ms));
    let way = match limit_of(lock) {
        Some(limit) => Some(format!("{} of {limit} permits", holder.permits)),
        None => (holder.mode != Mode::Exclusive).then(|| holder.mode.as_str().to_owned()),
    };
    let more: Vec<String> = way.into_iter().chain(until(holder)).collect();
    let more = if more.is_empty() { String::new() } else { format!(", {}", more.join(", ")) };
    format!("{} is held by {name} for {since}, token {}{more}", lock.lock, holder.token)
}

fn limit_of(lock: &LockBody) -> Option<u32> {
    lock.policy.and_then(|policy| policy.limit)
}

/// What will end the hold, or wants to change it.
fn until(holder: &HolderBody) -> Option<String> {
    let ends = holder.ends_in_ms.map(|ms| format!("ends in {}", for_people(ms)));
    let upgrading = holder.upgrading.then(|| "waits to be alone".to_owned());
    let both: Vec<String> = ends.into_iter().chain(upgrading).collect();
    (!both.is_empty()).then(|| both.join(", "))
}

/// How long the holders live, as far as the leader could be asked.
fn lease(body: &ExplainedBody) -> Option<String> {
    let free = for_people(body.free_if_dead_in_ms?);
    match body.lock.holders.as_slice() {
        [holder] => {
            let renewed = for_people(holder.renewed_ms_ago?);
            Some(format!(
                "renewed {renewed} ago; if its holder died now, it would be free in {free}"
            ))
        }
        _ => Some(format!("if all its holders died now, it would be free in {free}")),
    }
}

/// What is not as by default; the limit is said elsewhere.
fn rules(policy: &PolicyBody) -> Option<String> {
    let default = LockPolicy::DEFAULT;
    let time = |what: &str, ms: u64, usual: u64| {
        (ms != usual).then(|| format!("{what} {}", for_people(ms)))
    };
    let order = (policy.order != default.order).then(|| policy.order.as_str().to_owned());
    let rules = [
        order,
        time("ageing", policy.ageing_ms, default.ageing_ms),
        time("lock delay", policy.lock_delay_ms, default.lock_delay_ms),
        time("cooldown", policy.cooldown_ms, default.cooldown_ms),
        (!policy.detect_deadlocks).then(|| "deadlocks are not looked for".to_owned()),
    ];
    let rules: Vec<String> = rules.into_iter().flatten().collect();
    (!rules.is_empty()).then(|| format!("rules: {}", rules.join(", ")))
}

fn holders(lock: &LockBody) -> String {
    let semaphore = limit_of(lock).is_some();
    let header = ["holder", "how", "token", "for", "renewed", "until", "labels"];
    let rows = lock.holders.iter().map(|holder| {
        let renewed = holder.renewed_ms_ago.map(|ms| format!("{} ago", for_people(ms)));
        [
            within(holder.session.as_str(), holder.owner.as_ref()),
            way(holder.mode, holder.permits, semaphore),
            holder.token.to_string(),
            for_people(holder.since_ms),
            dashed(renewed.unwrap_or_default()),
            dashed(until(holder).unwrap_or_default()),
            labels_of(holder),
        ]
    });
    let shown = table(header, rows);
    match holders_total(lock).saturating_sub(lock.holders.len()) {
        0 => shown,
        more => format!("{shown}\nand {more} more"),
    }
}

fn queue(lock: &LockBody) -> String {
    let semaphore = limit_of(lock).is_some();
    let rows = lock.queue.iter().zip(1_u32..).map(|(waiter, place)| {
        [
            place.to_string(),
            within(waiter.session.as_str(), waiter.owner.as_ref()),
            way(waiter.mode, waiter.permits, semaphore),
            waiter.priority.to_string(),
            for_people(waiter.since_ms),
            dashed(labels_beside(&waiter.session, &waiter.labels)),
        ]
    });
    let header = ["place", "session", "wants", "priority", "waiting for", "labels"];
    format!("{} waiting:\n{}", lock.waiters, table(header, rows))
}

fn segments(lock: &LockBody) -> String {
    let rows = lock.segments.iter().map(|one| {
        let token = one.token.map(|token| token.to_string());
        [
            format!("{}/{}", lock.lock, one.segment),
            dashed(one.session.as_ref().map(ToString::to_string).unwrap_or_default()),
            dashed(token.unwrap_or_default()),
            one.waiters.to_string(),
        ]
    });
    table(["segment", "held by", "token", "waiting"], rows)
}

/// `web-3`, or `web-3/importer` if an owner within the session was named.
fn within(session: &str, owner: Option<&Owner>) -> String {
    owner.map_or_else(|| session.to_owned(), |owner| format!("{session}/{owner}"))
}

fn blocked(link: &LinkBody) -> String {
    let since = for_people(link.since_ms);
    let held = match &link.held_by {
        Some(holder) => format!("held by {holder}"),
        None => "free".to_owned(),
    };
    let mut text =
        format!("{} itself waits for {} ({held}) for {since}", link.session, link.waits_for);
    if link.deadlock {
        text.push_str(": they wait for each other");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        show(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn all_shared_holders_and_the_queue_are_shown() {
        let shown = shown(
            r#"{"lock":"a","mode":"shared","held":true,"holders":[
            {"session":"s1","token":4,"since_ms":252000,"entries":1,"labels":{"host":"web1"},"mode":"shared","renewed_ms_ago":900},
            {"session":"s2","owner":"t","token":5,"since_ms":1000,"entries":1,"labels":{},"mode":"upgradable","upgrading":true}],
            "holders_total":3,"waiters":1,
            "queue":[{"session":"w","since_ms":3000,"labels":{"pid":"7"},"mode":"exclusive","priority":5}],
            "last_token":5,"free_if_dead_in_ms":30000}"#,
        );
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "a is held by 3, shared");
        assert_eq!(lines[1], "if all its holders died now, it would be free in 30s");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(lines[4]), "s1 shared 4 4m12s 900ms ago - host=web1");
        assert_eq!(words(lines[5]), "s2/t upgradable 5 1s - waits to be alone -");
        assert_eq!(lines[6], "and 1 more");
        assert_eq!(lines[8], "1 waiting:");
        assert_eq!(words(lines[10]), "1 w exclusive 5 3s pid=7");
    }

    #[test]
    fn every_segment_is_a_line() {
        let shown = shown(
            r#"{"lock":"stock","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":null,
            "segments":[{"segment":0,"held":true,"session":"web-3","token":7,"waiters":2},{"segment":1,"held":false,"waiters":0}]}"#,
        );
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "stock is cut: 1 of 2 segments are held");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(lines[3]), "stock/0 web-3 7 2");
        assert_eq!(words(lines[4]), "stock/1 - - 0");
    }

    #[test]
    fn permits_rules_and_closings_are_said() {
        let policy = r#""policy":{"limit":8,"order":"writer-first","ageing_ms":10000,"lock_delay_ms":5000,"cooldown_ms":0,"detect_deadlocks":true}"#;
        let one = shown(&format!(
            r#"{{"lock":"a","mode":"exclusive","held":true,"holders":[{{"session":"s1","token":4,"since_ms":1000,"entries":1,"labels":{{}},"permits":2,"slots":[0,1],"ends_in_ms":9000}}],"holders_total":1,"permits_held":2,"waiters":0,"queue":[],"last_token":5,{policy}}}"#
        ));
        assert_eq!(
            one,
            "a is held by s1 for 1s, token 4, 2 of 8 permits, ends in 9s\nrules: writer-first, lock delay 5s"
        );
        let closed = shown(
            r#"{"lock":"a","mode":"exclusive","held":false,"holders":[],"waiters":0,"queue":[],"last_token":5,"closed":{"why":"min-hold","opens_in_ms":9000}}"#,
        );
        assert_eq!(closed, "a is closed for 9s more: its last holder asked for so long");
    }
}
