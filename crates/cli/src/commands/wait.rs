//! `holdfast wait`: waits until a lock is free, or until it is held, without acquiring it.
//!
//! The state may change again before the caller acts on it.

use std::time::{Duration, Instant};

use clap::Args;
use holdfast_api::Query;
use holdfast_api::parameters::watch;
use holdfast_types::ZnodePath;

use super::watch::{WAIT, changes};
use crate::arguments::{Format, OneLockArgs, duration};
use crate::exit::CommandFailure;
use crate::output::answer;

/// A wait that is not longer also limits the time to look for a node.
const SHORT: Duration = Duration::from_secs(3);

/// Wait until a lock is free, or held, without acquiring it.
#[derive(Debug, Args)]
#[group(id = "wanted", multiple = false, args = ["free", "held"])]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    lock: OneLockArgs,
    /// Until the lock is free, which is the default.
    #[arg(long)]
    free: bool,
    /// Until the lock is held.
    #[arg(long)]
    held: bool,
    /// How long to wait; by default without limit. Exit code 75 at a timeout.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
}

pub(crate) async fn run(args: WaitArgs) -> Result<(), CommandFailure> {
    let OneLockArgs { name, cluster } = &args.lock;
    let is_short = args.wait.is_some_and(|wait| wait <= SHORT);
    let client = if is_short { cluster.quick_client() } else { cluster.client() }?;
    let until = args.wait.map(|wait| Instant::now() + wait);
    loop {
        let body = client.lock_state(name).await?;
        if body.held == args.held {
            if matches!(cluster.format(), Format::Json | Format::Jsonl) {
                answer(cluster.format(), &body, "", "");
            }
            return Ok(());
        }
        let left = until.map_or(WAIT, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            let wanted = if args.held { "held" } else { "free" };
            return Err(CommandFailure::NotAcquired(format!("{name} is not {wanted} yet")));
        }
        let query = Query::default().with(&watch::PATH, &ZnodePath::of_lock(name));
        changes(
            &client,
            query,
            Vec::new(),
            Some(body.revision.unwrap_or_default()),
            left.min(WAIT),
        )
        .await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_command::parse;

    #[test]
    fn a_wait_is_for_one_of_two_states() {
        let args = parse::<WaitArgs>("wait a --free --wait 1s").unwrap();
        assert!(args.free && !args.held && args.wait == Some(Duration::from_secs(1)));
        assert!(!parse::<WaitArgs>("wait a").unwrap().held);
        assert!(parse::<WaitArgs>("wait a --free --held").is_err());
    }
}
