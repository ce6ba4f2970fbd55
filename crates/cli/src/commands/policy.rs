//! `holdfast policy`: shows and changes the policy of a lock.

use std::time::Duration;

use clap::{Args, ValueEnum};
use holdfast_api::{CooldownBody, CountOrNone, PolicyBody};
use holdfast_client::Client;
use holdfast_types::{CooldownCause, LockName, LockPolicy, PolicyChange, QueueOrder, millis};

use super::calls;
use super::lock_text::cooldown_text;
use crate::arguments::{OneLockArgs, duration};
use crate::exit::CommandFailure;
use crate::output::{answer, facts, short_time, write_stderr};

/// Show the policy of a lock, or change it for all callers at once.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(flatten)]
    lock: OneLockArgs,
    /// The number of permits: the lock becomes a semaphore. A number below the permits in use revokes none of them.
    #[arg(long, value_name = "N|none", value_parser = count_or_none)]
    limit: Option<CountOrNone>,
    /// The number of shards; `none` makes it a plain lock. Only while no shard is in use.
    #[arg(long, value_name = "N|none", value_parser = count_or_none)]
    shards: Option<CountOrNone>,
    /// The queue order for new waiters.
    #[arg(long, value_enum)]
    order: Option<OrderArg>,
    /// The waiting time that equals one level of priority; 10s by default.
    #[arg(long, value_name = "TIME", value_parser = duration_or_off)]
    ageing: Option<Duration>,
    /// How long the lock stays unavailable after the loss of a holder, which may still be working; `off` for no delay.
    #[arg(long, value_name = "TIME", value_parser = duration_or_off)]
    lock_delay: Option<Duration>,
    /// The minimum time between two grants; `off` for none.
    #[arg(long, value_name = "TIME", value_parser = duration_or_off)]
    cooldown: Option<Duration>,
    /// Whether an acquire that would close a deadlock cycle is rejected.
    #[arg(long, value_name = "true|false")]
    detect_deadlocks: Option<bool>,
    /// A longer wait raises the alarm `lock-wait-long`; `off` for none.
    #[arg(long, value_name = "TIME", value_parser = duration_or_off)]
    wait_alarm: Option<Duration>,
    /// An older hold raises the alarm `lock-hold-old`; `off` for none.
    #[arg(long, value_name = "TIME", value_parser = duration_or_off)]
    hold_alarm: Option<Duration>,
}

/// The order of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OrderArg {
    /// By arrival.
    Fifo,
    /// Exclusive before shared requests.
    WriterFirst,
    /// Shared before exclusive requests.
    ReaderFirst,
}

/// Parses a duration, or `off`, which the policy output shows for zero.
fn duration_or_off(text: &str) -> Result<Duration, String> {
    if text == "off" { Ok(Duration::ZERO) } else { duration(text) }
}

fn count_or_none(text: &str) -> Result<CountOrNone, String> {
    match text.parse() {
        _ if text == "none" => Ok(CountOrNone(None)),
        Ok(count) if count > 0 => Ok(CountOrNone(Some(count))),
        Ok(_) | Err(_) => Err(format!("{text} is neither a number from 1 on nor none")),
    }
}

pub(crate) async fn run(args: PolicyArgs) -> Result<(), CommandFailure> {
    let OneLockArgs { name, cluster } = &args.lock;
    let client = cluster.client()?;
    let order = args.order.map(|order| match order {
        OrderArg::Fifo => QueueOrder::Fifo,
        OrderArg::WriterFirst => QueueOrder::WriterFirst,
        OrderArg::ReaderFirst => QueueOrder::ReaderFirst,
    });
    let policy = PolicyChange {
        order,
        ageing_ms: args.ageing.map(millis),
        lock_delay_ms: args.lock_delay.map(millis),
        cooldown_ms: args.cooldown.map(millis),
        detect_deadlocks: args.detect_deadlocks,
        limit: args.limit.map(|limit| limit.0),
        shards: args.shards.map(|shards| shards.0),
        wait_alarm_ms: args.wait_alarm.map(millis),
        hold_alarm_ms: args.hold_alarm.map(millis),
    };
    let body = if policy == PolicyChange::default() {
        // A change would create the lock; a read does not.
        let body = client.lock_state(name).await?;
        body.policy.unwrap_or_else(|| PolicyBody::new(LockPolicy::DEFAULT))
    } else {
        calls::closing(&client, client.set_policy(name, &policy)).await?
    };
    answer(cluster.format(), &body, body.order.as_str(), &policy_text(&body));
    if args.cooldown.is_some() {
        report_min_hold(&client, name).await;
    }
    Ok(())
}

/// A `min_hold` is an option of the last holder, so no change of the policy ends it.
async fn report_min_hold(client: &Client, name: &LockName) {
    let Ok(body) = client.lock_state(name).await else { return };
    let is_min_hold = |cooldown: &CooldownBody| cooldown.cause == CooldownCause::MinHold;
    if let Some(text) =
        cooldown_text(&body).filter(|_| body.cooldown.as_ref().is_some_and(is_min_hold))
    {
        write_stderr(&format!(
            "holdfast: {name} is {text}, which the policy does not change: holdfast unlock {name} --force --reason TEXT ends it"
        ));
    }
}

fn policy_text(body: &PolicyBody) -> String {
    let time = |ms: u64| if ms == 0 { "off".to_owned() } else { short_time(ms) };
    let limit = body.limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let deadlocks = if body.detect_deadlocks { "rejected" } else { "not detected" };
    let rows = [
        ("limit", limit),
        ("shards", body.shards.map_or_else(|| "none".to_owned(), |shards| shards.to_string())),
        ("order", body.order.as_str().to_owned()),
        ("ageing", time(body.ageing_ms)),
        ("lock delay", time(body.lock_delay_ms)),
        ("cooldown", time(body.cooldown_ms)),
        ("deadlocks", deadlocks.to_owned()),
        ("wait alarm", time(body.wait_alarm_ms.unwrap_or(0))),
        ("hold alarm", time(body.hold_alarm_ms.unwrap_or(0))),
    ];
    facts(["setting", "value"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_command::parse;

    #[test]
    fn a_time_of_the_policy_can_be_off() {
        let args = parse::<PolicyArgs>("policy a --cooldown off --wait-alarm off").unwrap();
        assert_eq!([args.cooldown, args.wait_alarm], [Some(Duration::ZERO); 2]);
        let error = parse::<PolicyArgs>("policy a --cooldown never").unwrap_err();
        assert_eq!(error.matches("write whole numbers").count(), 1, "{error}");
    }
}
