//! `holdfast who`: who holds a lock, since when, what it waits for itself, and who waits for it.

use holdfast_api::{ExplainedBody, HolderBody, LinkBody, lock_path};

use super::asking::{Ask, Asking};
use super::{for_people, lock_name, name_of};
use crate::cli::{Format, WhoArgs};
use crate::exit::Stop;
use crate::output::{print, print_json, table};

pub(super) async fn run(args: &WhoArgs) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let mut asking = Asking::new(&args.target, None)?;
    let body: ExplainedBody = asking.json(&Ask::get(lock_path(&lock))).await?;
    match args.target.output {
        Format::Json => print_json(&body),
        Format::Value => {
            if let Some(holder) = body.lock.holder() {
                print(holder.session.as_str());
            }
        }
        Format::Table => print(&show(&body)),
    }
    Ok(())
}

fn show(body: &ExplainedBody) -> String {
    let lock = &body.lock;
    let mut lines = match lock.holder() {
        None => vec![format!("{} is free", lock.lock)],
        Some(holder) => {
            let since = for_people(holder.since_ms);
            let head = format!(
                "{} is held by {} for {since}, token {}",
                lock.lock,
                name_of(holder),
                holder.token
            );
            std::iter::once(head).chain(lease(body, holder)).collect()
        }
    };
    lines.extend(body.blocked_by.iter().map(blocked));
    if lock.queue.is_empty() {
        return lines.join("\n");
    }
    let rows = lock.queue.iter().zip(1_u32..).map(|(waiter, place)| {
        [place.to_string(), waiter.session.to_string(), for_people(waiter.since_ms)]
    });
    let queue = table(["place", "session", "waiting for"], rows);
    format!("{}\n\n{} waiting:\n{queue}", lines.join("\n"), lock.waiters)
}

/// How long the holder lives, as far as the leader could be asked.
fn lease(body: &ExplainedBody, holder: &HolderBody) -> Option<String> {
    let renewed = for_people(holder.renewed_ms_ago?);
    let free = for_people(body.free_if_dead_in_ms?);
    Some(format!("renewed {renewed} ago; if its holder died now, it would be free in {free}"))
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
