//! `holdfast sem`: locks of several permits; and `holdfast rules`, which every lock has.
//!
//! Owns what of a semaphore is shown. To take permits is to take a lock, and is done there.

use holdfast_api::parameters::lock::{
    AGEING, COOLDOWN, DETECT_DEADLOCKS, LOCK_DELAY, ORDER, POLICY_LIMIT,
};
use holdfast_api::{CountOrNone, HolderBody, LockBody, PolicyBody, Query, lock_path};
use holdfast_types::{LockPolicy, QueueOrder};
use reqwest::Method;

use super::asking::{Ask, Asking};
use super::naming::{dashed, holders_total, labels_of};
use super::{connect, for_people, lock, lock_name, stop};
use crate::cli::{Order, Permits, RulesArgs, SemCommand, SemSetArgs, WhoArgs};
use crate::exit::Stop;
use crate::output::{answer, answer_rows, table};

pub(super) async fn run(command: SemCommand) -> Result<(), Stop> {
    match command {
        SemCommand::Take(mut args) => {
            if let Some(other) = args.take.also.first() {
                return Err(Stop::usage(format!(
                    "permits are of one semaphore: leave {other} out"
                )));
            }
            let one = Permits { count: 1, limit: None };
            args.take.permits.get_or_insert(one);
            lock::run(args).await
        }
        SemCommand::Ls(args) => ls(&args).await,
        SemCommand::Set(args) => set(&args).await,
    }
}

async fn ls(args: &WhoArgs) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let looked = connect(&args.target)?.look(&lock).await;
    let body = looked.map_err(|error| stop(&args.target, &error))?;
    if limit_of(&body).is_none() {
        return Err(Stop::failed(format!(
            "{lock} is no semaphore: holdfast sem set {lock} N makes it one while nobody uses it"
        )));
    }
    let session = |holder: &HolderBody| holder.session.to_string();
    answer_rows(args.target.output, &body, &body.holders, session, || show(&body));
    Ok(())
}

fn limit_of(body: &LockBody) -> Option<u32> {
    body.policy.and_then(|policy| policy.limit)
}

fn show(body: &LockBody) -> String {
    let held = body.permits_held.unwrap_or_default();
    let limit = limit_of(body).unwrap_or_default();
    let line = format!("{}: {held} of {limit} permits held, {} waiting", body.lock, body.waiters);
    if body.holders.is_empty() {
        return line;
    }
    let rows = body.holders.iter().map(|holder| {
        let slots: Vec<String> = holder.slots.iter().map(u32::to_string).collect();
        [
            holder.session.to_string(),
            holder.permits.to_string(),
            dashed(slots.join(",")),
            holder.token.to_string(),
            for_people(holder.since_ms),
            labels_of(holder),
        ]
    });
    let header = ["holder", "permits", "slots", "token", "for", "labels"];
    let shown = format!("{line}\n\n{}", table(header, rows));
    match holders_total(body).saturating_sub(body.holders.len()) {
        0 => shown,
        more => format!("{shown}\nand {more} more"),
    }
}

async fn set(args: &SemSetArgs) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let limit = CountOrNone(Some(args.limit));
    let target = Query::default().with(&POLICY_LIMIT, &limit).target(&lock_path(&lock));
    let ask = Ask { method: Method::PATCH, ..Ask::get(target) };
    let body: PolicyBody = Asking::new(&args.target, None)?.json(&ask).await?;
    let limit = || body.limit.unwrap_or_default().to_string();
    answer(args.target.output, &body, limit, || format!("{lock} has {} permits", limit()));
    Ok(())
}

/// Shows the rules after the change, if one was asked for.
pub(super) async fn rules(args: &RulesArgs) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let order = args.order.map(|order| match order {
        Order::Fifo => QueueOrder::Fifo,
        Order::WriterFirst => QueueOrder::WriterFirst,
        Order::ReaderFirst => QueueOrder::ReaderFirst,
    });
    let mut query = Query::default()
        .with_some(&ORDER, order.as_ref())
        .with_some(&AGEING, args.ageing.as_ref())
        .with_some(&LOCK_DELAY, args.lock_delay.as_ref())
        .with_some(&COOLDOWN, args.cooldown.as_ref());
    if let Some(detect) = args.detect_deadlocks {
        query = query.with_flag(&DETECT_DEADLOCKS, detect);
    }
    let (path, target) = (lock_path(&lock), query.target(&lock_path(&lock)));
    let mut asking = Asking::new(&args.target, None)?;
    let body = if target == path {
        // To look must not make a lock of it.
        let body: LockBody = asking.json(&Ask::get(path)).await?;
        body.policy.unwrap_or_else(|| PolicyBody::new(LockPolicy::DEFAULT))
    } else {
        asking.json(&Ask { method: Method::PATCH, ..Ask::get(target) }).await?
    };
    let order = || body.order.as_str().to_owned();
    answer(args.target.output, &body, order, || table(["rule", "value"], facts(&body)));
    Ok(())
}

fn facts(body: &PolicyBody) -> [[String; 2]; 6] {
    let time = |ms: u64| if ms == 0 { "off".to_owned() } else { for_people(ms) };
    let limit = body.limit.map_or_else(|| "none: a lock".to_owned(), |limit| limit.to_string());
    let detects = if body.detect_deadlocks { "refused" } else { "not looked for" };
    [
        ("permits", limit),
        ("order", body.order.as_str().to_owned()),
        ("ageing", time(body.ageing_ms)),
        ("lock delay", time(body.lock_delay_ms)),
        ("cooldown", time(body.cooldown_ms)),
        ("deadlocks", detects.to_owned()),
    ]
    .map(|(rule, value)| [rule.to_owned(), value])
}
