//! `holdfast who`: who holds a lock, since when, and who waits for it.

use holdfast_api::LockBody;

use super::{LOOK_MAX, connect, for_people, lock_name, name_of, stop};
use crate::cli::{Format, WhoArgs};
use crate::exit::Stop;
use crate::output::{print, print_json, table};

pub(super) async fn run(args: &WhoArgs) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let looked = connect(&args.target)?.patience(LOOK_MAX).look(&lock).await;
    let body = looked.map_err(|error| stop(&args.target, &error))?;
    match args.target.output {
        Format::Json => print_json(&body),
        Format::Value => {
            if let Some(holder) = body.holder() {
                print(holder.session.as_str());
            }
        }
        Format::Table => print(&show(&body)),
    }
    Ok(())
}

fn show(body: &LockBody) -> String {
    let head = match body.holder() {
        Some(holder) => format!(
            "{} is held by {} for {}, token {}",
            body.lock,
            name_of(holder),
            for_people(holder.since_ms),
            holder.token
        ),
        None => format!("{} is free", body.lock),
    };
    if body.queue.is_empty() {
        return head;
    }
    let rows = body.queue.iter().zip(1_u32..).map(|(waiter, place)| {
        [place.to_string(), waiter.session.to_string(), for_people(waiter.since_ms)]
    });
    let queue = table(["place", "session", "waiting for"], rows);
    format!("{head}\n\n{} waiting:\n{queue}", body.waiters)
}
