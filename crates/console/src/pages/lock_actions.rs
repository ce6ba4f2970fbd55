//! Actions on one lock: ask for its release, force-release one holder or one waiter, change the policy.
//!
//! Each names the token or the ticket that the page showed, so that a later holder keeps the lock.

use axum::http::{Method, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::{
    ErrorCode, ExplainedBody, HolderBody, LockBody, PolicyBody, WaiterBody, force_release_path,
    format_duration, lock_path, policy_path, release_request_path,
};
use holdfast_types::{LockName, LockPolicy, Right};
use maud::{Markup, html};

use crate::call::{ApiCall, ApiResult, problem};
use crate::form::link;
use crate::page::{ConsoleAction, PageRequest, PlannedChange};
use crate::text::{count, measured, name, span, visible};

pub(super) static FORCE_RELEASE: ConsoleAction =
    ConsoleAction { name: "force-release", plan: |request| force_release(request).boxed() };

pub(super) static REQUEST_RELEASE: ConsoleAction =
    ConsoleAction { name: "request-release", plan: |request| request_release(request).boxed() };

pub(super) static SET_POLICY: ConsoleAction =
    ConsoleAction { name: "change-policy", plan: |request| set_policy(request).boxed() };

/// Parameters of a policy that the form has.
const POLICY_FIELDS: [&str; 7] =
    ["limit", "order", "ageing", "lock_delay", "cooldown", "detect_deadlocks", "shards"];

async fn read(request: &PageRequest) -> ApiResult<(LockName, LockBody)> {
    let lock = request.lock()?;
    let explained: ExplainedBody = request.api.read(&lock_path(&lock)).await?;
    Ok((lock, explained.lock))
}

/// The holder with the token of the page.
fn holder<'l>(lock: &'l LockBody, token: Option<&str>) -> ApiResult<&'l HolderBody> {
    let shown = token.unwrap_or_default();
    let found = lock.holders.iter().find(|holder| holder.token.to_string() == shown);
    found.ok_or_else(|| {
        let code = (ErrorCode::NotHolder, StatusCode::CONFLICT);
        let present = lock.holder().map_or_else(
            || "no session holds it now".to_owned(),
            |now| format!("session {} holds it now, with the token {}", now.session, now.token),
        );
        let name = &lock.lock;
        let detail = format!("no holder of {name} has the token '{shown}' any more; {present}");
        problem(code, detail, "open the lock again: it shows the present holders")
    })
}

fn back(lock: &LockName) -> String {
    link("lock", &[("name", lock.as_str())])
}

async fn force_release(request: &PageRequest) -> ApiResult<PlannedChange> {
    let (lock, body) = read(request).await?;
    let (effect, ended) = if let Some(ticket) = request.fields.get("ticket") {
        let (position, waiter) = waiter(&body, ticket)?;
        (leave(&body, position, waiter), ("ticket", waiter.ticket.to_string()))
    } else {
        let holder = holder(&body, request.fields.get("token"))?;
        (loss(&body, holder), ("token", holder.token.to_string()))
    };
    let path = force_release_path(&lock);
    let title = format!("Force-release {lock}");
    let call = ApiCall { method: Method::POST, path, query: vec![ended] };
    let change = PlannedChange::new(title, "Force-release", effect, call, back(&lock));
    Ok(PlannedChange { takes_reason: true, ..change })
}

/// The waiter with the ticket of the page, and its position.
fn waiter<'l>(lock: &'l LockBody, ticket: &str) -> ApiResult<(usize, &'l WaiterBody)> {
    let mut queue = lock.queue.iter().enumerate();
    let found = queue.find(|(_, waiter)| waiter.ticket.to_string() == ticket);
    found.map(|(at, waiter)| (at + 1, waiter)).ok_or_else(|| {
        let code = (ErrorCode::NotFound, StatusCode::NOT_FOUND);
        let detail = format!("no waiter of {} has the ticket '{ticket}' any more", lock.lock);
        problem(code, detail, "open the lock again: it shows the present queue")
    })
}

/// Who leaves the queue.
fn leave(lock: &LockBody, position: usize, waiter: &WaiterBody) -> Markup {
    let behind = u64::from(lock.waiters).saturating_sub(position as u64);
    html! {
        ul {
            li { "Session " (name(waiter.session.as_str())) " leaves the queue of " (name(lock.lock.as_str()))
                ", where it has waited for " (span(waiter.waiting_for_ms)) " at position " (position) "." }
            li { "If it holds the lock when the call arrives, it loses the lock." }
            li { (count(behind, "waiter")) " behind it move up. The holders keep the lock." }
        }
    }
}

/// Who loses the lock, and who holds it next.
fn loss(lock: &LockBody, holder: &HolderBody) -> Markup {
    let delay = lock.policy.as_ref().map_or(0, |policy| policy.lock_delay_ms);
    html! {
        ul {
            li { "Session " (name(holder.session.as_str())) " loses the lock " (name(lock.lock.as_str()))
                ", which it has held for " (span(holder.held_for_ms)) ", with the token " (holder.token) "." }
            li { "It may still write until it notices the loss: only stores that check the token reject its writes." }
            @match lock.queue.first() {
                _ if holders_after(lock) > 0 => li { (count(holders_after(lock), "other holder")) " keep the lock." },
                Some(next) => li { "Next holder: " (name(next.session.as_str()))
                    @if delay > 0 { ", after the lock delay of " (measured(delay)) } ". It gets a larger token." },
                None => li { "No session waits: the lock is free afterwards." },
            }
        }
    }
}

fn holders_after(lock: &LockBody) -> u64 {
    u64::from(lock.holders_total).saturating_sub(1)
}

async fn request_release(request: &PageRequest) -> ApiResult<PlannedChange> {
    let (lock, body) = read(request).await?;
    let holder = holder(&body, request.fields.get("token"))?;
    let deadline = request.fields.typed("deadline").unwrap_or("30s").to_owned();
    let effect = html! {
        ul {
            li { "Session " (name(holder.session.as_str())) " is asked to release the lock within " (visible(&deadline)) "." }
            li { "It keeps the lock if it does not: this call ends no hold." }
        }
    };
    let call = ApiCall {
        method: Method::POST,
        path: release_request_path(&lock),
        query: vec![("token", holder.token.to_string()), ("deadline", deadline)],
    };
    let title = format!("Ask for the release of {lock}");
    let change = PlannedChange::new(title, "Ask for release", effect, call, back(&lock));
    Ok(PlannedChange { takes_reason: true, ..change })
}

async fn set_policy(request: &PageRequest) -> ApiResult<PlannedChange> {
    let lock = request.lock()?;
    let policy: PolicyBody = request.api.read(&policy_path(&lock)).await?;
    let present = values(&policy);
    let wanted = POLICY_FIELDS.iter().filter_map(|field| {
        let value = request.fields.typed(field)?.to_owned();
        let is = present.iter().find(|(name, _)| name == field).map(|(_, value)| value)?;
        (*is != value).then_some((*field, is, value))
    });
    let wanted: Vec<_> = wanted.collect();
    if wanted.is_empty() {
        let code = (ErrorCode::InvalidArgument, StatusCode::BAD_REQUEST);
        let hint = "go back, and change at least one value";
        return Err(problem(code, "every value is the present one", hint));
    }
    let effect = html! {
        table {
            thead { tr { th scope="col" { "Value" } th scope="col" { "Now" } th scope="col" { "Then" } } }
            tbody {
                @for (field, is, value) in &wanted {
                    tr { th scope="row" { (field.replace('_', " ")) } td { (is) } td { (visible(value)) } }
                }
            }
        }
        p { "No holder loses the lock. Later grants follow the new policy." }
    };
    let query = wanted.iter().map(|(field, _, value)| (*field, value.clone())).collect();
    let call = ApiCall { method: Method::PATCH, path: policy_path(&lock), query };
    let title = format!("Change the policy of {lock}");
    Ok(PlannedChange::new(title, "Change policy", effect, call, back(&lock)))
}

/// The policy as values of the parameters.
fn values(policy: &PolicyBody) -> Vec<(&'static str, String)> {
    let duration = |ms| format_duration(std::time::Duration::from_millis(ms));
    let number = |number: Option<u32>| number.map_or_else(|| "none".to_owned(), |n| n.to_string());
    vec![
        ("limit", number(policy.limit)),
        ("order", policy.order.as_str().to_owned()),
        ("ageing", duration(policy.ageing_ms)),
        ("lock_delay", duration(policy.lock_delay_ms)),
        ("cooldown", duration(policy.cooldown_ms)),
        ("detect_deadlocks", policy.detect_deadlocks.to_string()),
        ("shards", number(policy.shards)),
    ]
}

/// Links to the actions on one holder.
pub(super) fn of_holder(lock: &LockName, holder: &HolderBody, may: LockRights) -> Markup {
    let token = holder.token.to_string();
    let act =
        |action: &str| link("act", &[("do", action), ("name", lock.as_str()), ("token", &token)]);
    html! {
        @if may.request_release { a href=(act(REQUEST_RELEASE.name)) data-action="request-release" { "Ask for release" } " " }
        @if may.force_release { a href=(act(FORCE_RELEASE.name)) data-action="force-release" { "Force-release" } }
    }
}

/// Links to the actions on one waiter.
pub(super) fn of_waiter(lock: &LockName, waiter: &WaiterBody, may: LockRights) -> Markup {
    let ticket = waiter.ticket.to_string();
    let fields = [("do", FORCE_RELEASE.name), ("name", lock.as_str()), ("ticket", &ticket)];
    html! { @if may.force_release { a href=(link("act", &fields)) data-action="force-release" { "Force-release" } } }
}

/// The form with the values of the policy.
pub(super) fn policy_form(lock: &LockName, policy: Option<PolicyBody>) -> Markup {
    let policy = policy.unwrap_or_else(|| PolicyBody::new(LockPolicy::DEFAULT));
    html! {
        details id="policy-form" {
            summary { "Change the policy" }
            form method="get" action="act" class="panel" {
                input type="hidden" name="do" value=(SET_POLICY.name);
                input type="hidden" name="name" value=(lock.as_str());
                @for (field, value) in values(&policy) {
                    label for={ "policy-" (field) } { (field.replace('_', " ")) }
                    @let choices: &[&str] = match field {
                        "order" => &["fifo", "writer-first", "reader-first"],
                        "detect_deadlocks" => &["true", "false"],
                        _ => &[],
                    };
                    @if choices.is_empty() {
                        input id={ "policy-" (field) } name=(field) value=(value) autocomplete="off";
                    } @else {
                        select id={ "policy-" (field) } name=(field) {
                            @for choice in choices { option selected[*choice == value] { (choice) } }
                        }
                    }
                }
                div class="buttons" { button type="submit" { "Show the effect" } }
            }
        }
    }
}

/// What the reader may do with one lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LockRights {
    pub(super) request_release: bool,
    pub(super) force_release: bool,
    pub(super) policy: bool,
}

impl LockRights {
    /// Whether there is an action on a holder.
    pub(super) fn any_of_holders(self) -> bool {
        self.request_release || self.force_release
    }

    pub(super) async fn of(request: &PageRequest, lock: &LockName) -> Self {
        let lock = lock.as_str();
        Self {
            request_release: request.may(Right::LockRequestRelease, lock).await,
            force_release: request.may(Right::LockForceRelease, lock).await,
            policy: request.may(Right::LockPolicy, lock).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> LockBody {
        serde_json::from_str(
            r#"{"lock":"a","mode":"exclusive","held":true,"holders_total":1,"waiters":1,"last_token":7,
                "holders":[{"session":"web3","token":7,"held_for_ms":65000,"hold_count":1,"labels":{}}],
                "queue":[{"session":"web1","ticket":9,"waiting_for_ms":3000,"labels":{}}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn the_effect_names_the_session_that_loses_the_lock_and_the_next_holder() {
        let mut lock = lock();
        let text = loss(&lock, &lock.holders[0]).into_string();
        assert!(text.contains("<bdi>web3</bdi> loses the lock"), "{text}");
        assert!(
            text.contains("1 min 5 s") && text.contains("Next holder: <bdi>web1</bdi>"),
            "{text}"
        );
        lock.queue.clear();
        assert!(loss(&lock, &lock.holders[0]).into_string().contains("No session waits"));
        lock.holders_total = 3;
        assert!(loss(&lock, &lock.holders[0]).into_string().contains("2 other holders keep"));
    }

    #[test]
    fn a_token_that_is_no_longer_held_is_a_conflict() {
        let lock = lock();
        assert!(holder(&lock, Some("7")).is_ok());
        for token in [Some("8"), Some(""), None] {
            let gone = holder(&lock, token).unwrap_err();
            assert_eq!((gone.code, gone.status), (ErrorCode::NotHolder, 409), "{token:?}");
            assert!(
                gone.detail.contains("session web3 holds it now, with the token 7"),
                "{gone:?}"
            );
        }
    }
}
