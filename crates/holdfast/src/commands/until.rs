//! `holdfast wait`: sleeps until a lock is free, or until it is held, without taking it.
//!
//! It is told of changes, and then looks: whoever acts on the answer may find that it has changed again.

use std::time::{Duration, Instant};

use holdfast_api::parameters::watch;
use holdfast_api::{LockBody, Query, WatchBody, lock_path};
use holdfast_types::{LockName, Revision, ZnodePath};

use super::asking::{Ask, Asking};
use super::lock_name;
use crate::cli::{Format, WaitArgs};
use crate::exit::Stop;
use crate::output::print_json;

/// How long one node is asked to wait for a change.
const SLICE: Duration = Duration::from_secs(20);

pub(super) async fn run(args: &WaitArgs) -> Result<(), Stop> {
    let lock = lock_name(&args.name)?;
    let mut asking = Asking::new(&args.target, None)?;
    let until = args.timeout.map(|timeout| Instant::now() + timeout);
    loop {
        let body: LockBody = asking.json(&Ask::get(lock_path(&lock))).await?;
        if body.held == args.held {
            if matches!(args.target.output, Format::Json | Format::Jsonl) {
                print_json(&body);
            }
            return Ok(());
        }
        let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            let wanted = if args.held { "held" } else { "free" };
            return Err(Stop::NotAcquired(format!("{lock} is not {wanted} yet")));
        }
        change(&mut asking, &lock, body.revision.unwrap_or_default(), left.min(SLICE)).await?;
    }
}

/// Waits for something to happen to the lock after a revision.
async fn change(
    asking: &mut Asking,
    lock: &LockName,
    since: Revision,
    wait: Duration,
) -> Result<(), Stop> {
    let path = ZnodePath::of_lock(lock);
    let query = Query::default().with(&watch::PATH, &path).with(&watch::SINCE, &since);
    let ask = Ask::get(query.with(&watch::WAIT, &wait).target("/v1/watch"));
    asking.json::<WatchBody>(&Ask { wait, ..ask }).await.map(drop)
}
