//! `holdfast ls`: the locks that are held or waited for, page by page.

use holdfast_api::{LIST_LIMIT_MAX, ListParams, LockBody};

use super::{LOOK_MAX, connect, for_people, name_of, stop};
use crate::cli::{Format, LsArgs};
use crate::exit::Stop;
use crate::output::{print, print_json, table};

pub(super) async fn run(args: &LsArgs) -> Result<(), Stop> {
    let client = connect(&args.target)?.patience(LOOK_MAX);
    let mut params = ListParams {
        prefix: args.prefix.clone().unwrap_or_default(),
        limit: LIST_LIMIT_MAX,
        ..ListParams::default()
    };
    let mut locks: Vec<LockBody> = Vec::new();
    loop {
        let page = client.locks(&params).await.map_err(|error| stop(&args.target, &error))?;
        locks.extend(page.locks.into_iter().filter(|lock| lock.held || lock.waiters > 0));
        params.page_token = page.next_page_token;
        if params.page_token.is_none() {
            break;
        }
    }
    match args.target.output {
        Format::Json => print_json(&locks),
        Format::Value => locks.iter().for_each(|lock| print(lock.lock.as_str())),
        Format::Table => {
            print(&table(["lock", "token", "held by", "for", "waiting"], locks.iter().map(row)));
        }
    }
    Ok(())
}

fn row(lock: &LockBody) -> [String; 5] {
    let none = || "-".to_owned();
    let holder = lock.holder();
    [
        lock.lock.to_string(),
        holder.map_or_else(none, |holder| holder.token.to_string()),
        holder.map_or_else(none, name_of),
        holder.map_or_else(none, |holder| for_people(holder.since_ms)),
        lock.waiters.to_string(),
    ]
}
