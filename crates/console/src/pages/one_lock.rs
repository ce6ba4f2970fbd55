//! One lock: its holders and its queue, why it is not free, its past holds, and how to call it.

use futures_util::FutureExt as _;
use holdfast_api::{
    DurationStatsBody, ExplainedBody, HolderBody, LockBody, WaitLinkBody, WaiterBody, lock_path,
};
use holdfast_types::{LockName, Stamp};
use maud::{Markup, html};

use super::lock_actions::{self, LockRights};
use super::locks::labels;
use super::{lock_history, lock_snippets};
use crate::call::ApiResult;
use crate::form::link;
use crate::page::{ConsolePage, PageContent, PageRequest};
use crate::text::{after, before, count, grouped, measured, name, since, until, visible};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "lock",
    title: "Lock",
    in_navigation: false,
    render: |request| render(request).boxed(),
};

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let lock = request.lock()?;
    let explained: ExplainedBody = request.api.read(&lock_path(&lock)).await?;
    let history = lock_history::section(request, &explained.lock).await;
    let may = LockRights::of(request, &lock).await;
    let now = request.now;
    let live = html! {
        (summary(&explained.lock, now))
        (holders(&explained.lock, may, now))
        (chain(&lock, &explained.blocked_by, now))
        (queue(&explained.lock, may, now))
        (durations(&explained))
        (policy(&explained.lock))
        (history)
    };
    let below = html! {
        @if !request.is_update {
            @if may.policy { (lock_actions::policy_form(&lock, explained.lock.policy)) }
            (lock_history::fence_check(request, &lock).await) (lock_snippets::section(request, &lock))
        }
    };
    Ok(PageContent {
        title: format!("Lock {lock}"),
        above: html! { (path(&lock)) },
        live,
        below,
        revision: explained.lock.revision,
    })
}

/// Links to the folders of the lock.
fn path(lock: &LockName) -> Markup {
    let text = lock.as_str();
    html! {
        nav class="folders" aria-label="Folders" {
            a href="locks" { "all locks" }
            @for (end, _) in text.match_indices('/') {
                a href=(link("locks", &[("below", &text[..=end])])) { (name(&text[..=end])) }
            }
        }
    }
}

/// The state in one sentence.
fn summary(lock: &LockBody, now: Stamp) -> Markup {
    let oldest = lock.holders.iter().map(|holder| holder.held_for_ms).max();
    let first = lock.queue.first();
    html! {
        p id="summary" class="summary" data-held=(lock.held) {
            @match lock.holder() {
                None => { strong { "Free" } }
                Some(holder) if lock.holders_total < 2 => { strong { "Held" } " by " (name(holder.session.as_str())) }
                Some(_) => { strong { "Held" } " by " (lock.holders_total) " callers" }
            }
            @if let Some(age) = oldest { " for " (since(before(now, age), now)) }
            ". " (count(lock.waiters.into(), "waiter"))
            @if let Some(first) = first { "; the first has waited for " (since(before(now, first.waiting_for_ms), now)) }
            "."
            @if let Some(permits) = lock.permits_held { " " (permits) " permits are held." }
        }
        @if let Some(cooldown) = &lock.cooldown {
            p { "The lock is free, but is not granted for another " (until(after(now, cooldown.ends_in_ms), now)) "." }
        }
        @if !lock.foreign_znodes.is_empty() {
            p class="problem" { "Znodes of ZooKeeper clients that do not see HTTP callers: "
                @for znode in &lock.foreign_znodes { code { (visible(znode.as_str())) } " " } }
        }
    }
}

fn holders(lock: &LockBody, may: LockRights, now: Stamp) -> Markup {
    let more = u64::from(lock.holders_total).saturating_sub(lock.holders.len() as u64);
    html! {
        section aria-labelledby="holders-title" {
            h2 id="holders-title" { "Holders" }
            @if lock.holders.is_empty() { p { "No session holds the lock." } } @else {
                div class="scroll" {
                    table id="holders" class="rows" {
                        thead { tr {
                            th scope="col" { "Session" } th scope="col" { "Mode" } th scope="col" { "Held for" }
                            th scope="col" class="number" { "Token" } th scope="col" { "Expires in" }
                            @if may.any_of_holders() { th scope="col" { "Actions" } }
                        } }
                        tbody { @for holder in &lock.holders { (holder_row(&lock.lock, holder, may, now)) } }
                    }
                }
                @if more > 0 { p.quiet { "and " (grouped(more)) " more" } }
            }
        }
    }
}

fn holder_row(lock: &LockName, holder: &HolderBody, may: LockRights, now: Stamp) -> Markup {
    let session = holder.session.as_str();
    html! {
        tr id={ "holder-" (holder.token) } data-holder=(session) data-token=(holder.token) {
            th scope="row" {
                a href=(link("session", &[("id", session)])) { (name(session)) }
                @if let Some(owner) = &holder.owner { " " span.tag { (visible(owner.as_str())) } }
                (labels(holder.labels.iter()))
                @if let Some(value) = &holder.value { p.quiet { (visible(value)) } }
                @if let Some(reason) = &holder.durable_reason { p.quiet { "Durable hold: " (visible(reason)) } }
                @if let Some(asked) = &holder.release_request {
                    p.quiet { "Asked to release in " (until(after(now, asked.wanted_in_ms), now))
                        @if let Some(reason) = &asked.reason { ": " (visible(reason)) }
                        @if asked.revoke { "; then the hold ends" } }
                }
            }
            td { (holder.mode.as_str()) @if holder.permits > 1 { ", " (holder.permits) " permits" } @if holder.upgrading { ", upgrading" } }
            td data-field="since" { (since(before(now, holder.held_for_ms), now)) }
            td class="number" data-field="token" { (holder.token) }
            td {
                @match holder.expires_in_ms {
                    Some(left) => { (until(after(now, left), now)) span.quiet { " without a renewal" } }
                    None => span.quiet { "never" },
                }
                @if let Some(left) = holder.ends_in_ms { " ends in " (until(after(now, left), now)) }
            }
            @if may.any_of_holders() { td { (lock_actions::of_holder(lock, holder, may)) } }
        }
    }
}

fn queue(lock: &LockBody, may: LockRights, now: Stamp) -> Markup {
    let more = u64::from(lock.waiters).saturating_sub(lock.queue.len() as u64);
    html! {
        section aria-labelledby="queue-title" {
            h2 id="queue-title" { "Queue" }
            @if lock.queue.is_empty() { p { "No caller waits." } } @else {
                div class="scroll" {
                    table id="queue" class="rows" {
                        thead { tr {
                            th scope="col" class="number" { "Position" } th scope="col" { "Session" } th scope="col" { "Wants" }
                            th scope="col" { "Waits for" } th scope="col" class="number" { "Ticket" }
                            @if may.force_release { th scope="col" { "Actions" } }
                        } }
                        tbody { @for (at, waiter) in lock.queue.iter().enumerate() { (waiter_row(&lock.lock, (at + 1, waiter), may, now)) } }
                    }
                }
                @if more > 0 { p.quiet { "and " (grouped(more)) " more" } }
            }
        }
    }
}

fn waiter_row(
    lock: &LockName,
    (position, waiter): (usize, &WaiterBody),
    may: LockRights,
    now: Stamp,
) -> Markup {
    let session = waiter.session.as_str();
    html! {
        tr id={ "waiter-" (waiter.ticket) } data-waiter=(session) data-ticket=(waiter.ticket) {
            td class="number" { (position) }
            th scope="row" {
                a href=(link("session", &[("id", session)])) { (name(session)) }
                @if let Some(owner) = &waiter.owner { " " span.tag { (visible(owner.as_str())) } }
                (labels(waiter.labels.iter()))
                @if let Some(value) = &waiter.value { p.quiet { (visible(value)) } }
            }
            td { (waiter.mode.as_str()) @if waiter.permits > 1 { ", " (waiter.permits) " permits" } @if waiter.priority > 0 { ", priority " (waiter.priority) } }
            td data-field="since" { (since(before(now, waiter.waiting_for_ms), now)) }
            td class="number" { (waiter.ticket) }
            @if may.force_release { td { (lock_actions::of_waiter(lock, waiter, may)) } }
        }
    }
}

/// The chain of waits that keeps the lock from its waiters, from left to right.
fn chain(lock: &LockName, links: &[WaitLinkBody], now: Stamp) -> Markup {
    if links.is_empty() {
        return html! {};
    }
    let has_cycle = links.iter().any(|link| link.deadlock);
    let of_lock = |lock: &LockName| {
        html! { a class="lock" href=(link("lock", &[("name", lock.as_str())])) { (name(lock.as_str())) } }
    };
    html! {
        section aria-labelledby="chain-title" {
            h2 id="chain-title" { @if has_cycle { "Deadlock" } @else { "Why it is held" } }
            @if has_cycle {
                p class="problem" { strong { "Deadlock cycle: " } "the holders wait for each other. End one hold or one wait." }
            }
            ol id="chain" class={ "chain" @if has_cycle { " cycle" } } {
                li { (of_lock(lock)) }
                @for wait in links {
                    li data-deadlock=[wait.deadlock.then_some("true")] {
                        span.arrow { "is held by" }
                        a class="session" href=(link("session", &[("id", wait.session.as_str())])) { (name(wait.session.as_str())) }
                        span.arrow { "which waits (" (since(before(now, wait.waiting_for_ms), now)) ") for" }
                        (of_lock(&wait.waits_for))
                        @if wait.deadlock { strong class="mark" { " ↺ the cycle closes here" } }
                    }
                }
                @if let Some(last) = links.last().filter(|_| !has_cycle).and_then(|link| link.held_by.as_ref()) {
                    li { span.arrow { "is held by" } a class="session" href=(link("session", &[("id", last.as_str())])) { (name(last.as_str())) } }
                }
            }
        }
    }
}

fn durations(explained: &ExplainedBody) -> Markup {
    let row = |label: &str, stats: &Option<DurationStatsBody>| {
        html! {
            @if let Some(stats) = stats {
                tr { th scope="row" { (label) } td class="number" { (grouped(stats.count)) }
                    td class="number" { (measured(stats.p50_ms)) } td class="number" { (measured(stats.p99_ms)) }
                    td class="number" { (measured(stats.max_ms)) } }
            }
        }
    };
    html! {
        @if explained.wait.is_some() || explained.hold.is_some() {
            section aria-labelledby="durations-title" {
                h2 id="durations-title" { "Recent durations" }
                div class="scroll" {
                    table id="durations" {
                        thead { tr { th scope="col" { "of" } th scope="col" class="number" { "Number" } th scope="col" class="number" { "Median" }
                            th scope="col" class="number" { "99th percentile" } th scope="col" class="number" { "Longest" } } }
                        tbody { (row("waits", &explained.wait)) (row("holds", &explained.hold)) }
                    }
                }
                p.quiet { "Measured by this node since its start." }
            }
        }
    }
}

fn policy(lock: &LockBody) -> Markup {
    html! {
        section aria-labelledby="policy-title" {
            h2 id="policy-title" { "Policy" }
            @match &lock.policy {
                None => p id="policy" { "The default policy: a plain lock, first come, first served." },
                Some(policy) => dl id="policy" {
                    @if let Some(limit) = policy.limit { dt { "permits" } dd { (limit) } }
                    dt { "order" } dd { (policy.order.as_str()) }
                    dt { "ageing" } dd { (measured(policy.ageing_ms)) }
                    dt { "lock delay" } dd { (measured(policy.lock_delay_ms)) }
                    dt { "cooldown" } dd { (measured(policy.cooldown_ms)) }
                    dt { "deadlock detection" } dd { (if policy.detect_deadlocks { "on" } else { "off" }) }
                    @if let Some(shards) = policy.shards { dt { "shards" } dd { (shards) } }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Stamp = Stamp(1_772_373_909_000);

    fn lock(more: &str) -> LockBody {
        let text = format!(
            r#"{{"lock":"a","mode":"exclusive","held":true,"holders_total":1,"waiters":12,"last_token":7,
                "holders":[{{"session":"<script>","token":7,"held_for_ms":65000,"hold_count":1,"labels":{{}},"value":"\u202eevil"}}],
                "queue":[{{"session":"w1","ticket":9,"waiting_for_ms":3000,"labels":{{}}}}]{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn holders_and_the_queue_are_shown_in_order_and_escaped() {
        let lock = lock("");
        let text = html! { (summary(&lock, NOW)) (holders(&lock, LockRights::default(), NOW)) (queue(&lock, LockRights::default(), NOW)) }.into_string();
        assert!(text.contains("<strong>Held</strong> by <bdi>&lt;script&gt;</bdi> for"), "{text}");
        assert!(text.contains("1 min 5 s") && text.contains("\\u{202e}evil"), "{text}");
        assert!(text.contains(r#"data-waiter="w1""#) && text.contains("and 11 more"), "{text}");
        assert!(!text.contains("<script>") && !text.contains('\u{202e}'), "{text}");
        assert!(!text.contains("act?"), "a reader without a right sees no action: {text}");
        let may = LockRights { force_release: true, ..LockRights::default() };
        let text = html! { (holders(&lock, may, NOW)) (queue(&lock, may, NOW)) }.into_string();
        assert!(text.contains("act?do=force-release&amp;name=a&amp;token=7"), "{text}");
        assert!(text.contains("act?do=force-release&amp;name=a&amp;ticket=9"), "{text}");
    }

    #[test]
    fn a_deadlock_cycle_is_marked_by_words_and_not_only_by_colour() {
        let wait = |deadlock| -> WaitLinkBody {
            serde_json::from_value(serde_json::json!({
                "session": "s1", "waits_for": "b", "waiting_for_ms": 10, "held_by": "s2", "deadlock": deadlock
            }))
            .unwrap()
        };
        let a = LockName::new("a").unwrap();
        let cycle = chain(&a, &[wait(true)], NOW).into_string();
        assert!(
            cycle.contains("Deadlock cycle") && cycle.contains("the cycle closes here"),
            "{cycle}"
        );
        let line = chain(&a, &[wait(false)], NOW).into_string();
        assert!(!line.contains("ycle") && line.contains("s2"), "{line}");
        assert_eq!(chain(&a, &[], NOW).into_string(), "");
    }

    #[test]
    fn the_policy_is_shown_as_values() {
        assert!(policy(&lock("")).into_string().contains("default policy"));
        let limited = lock(
            r#","policy":{"limit":3,"order":"fifo","ageing_ms":10000,"lock_delay_ms":0,"cooldown_ms":0,"detect_deadlocks":true}"#,
        );
        let text = policy(&limited).into_string();
        assert!(text.contains("<dt>permits</dt><dd>3</dd>"), "{text}");
    }
}
