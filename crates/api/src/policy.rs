//! Bodies of the policy of a lock, and of the cooldown and the shards that it causes.

use holdfast_types::{CooldownCause, FencingToken, LockPolicy, QueueOrder, SessionName, ShardView};
use serde::{Deserialize, Serialize};

/// The cooldown of a free lock, which is not granted until the cooldown ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CooldownBody {
    /// The cause.
    pub cause: CooldownCause,
    /// Milliseconds until the cooldown ends.
    pub ends_in_ms: u64,
}

/// The policy of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyBody {
    /// The total number of permits of a semaphore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The order of the queue.
    pub order: QueueOrder,
    /// The waiting time that one level of priority is worth.
    pub ageing_ms: u64,
    /// The delay before the next grant after a hold expires, is revoked or is broken.
    pub lock_delay_ms: u64,
    /// The minimum time between two grants.
    pub cooldown_ms: u64,
    /// Whether an acquire that would close a deadlock cycle is rejected.
    pub detect_deadlocks: bool,
    /// The number of shards of a sharded lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    /// A longer wait raises the alarm `lock-wait-long`; absent without an alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_alarm_ms: Option<u64>,
    /// An older hold raises the alarm `lock-hold-old`; absent without an alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_alarm_ms: Option<u64>,
}

impl PolicyBody {
    pub fn new(policy: LockPolicy) -> Self {
        let LockPolicy {
            limit,
            order,
            ageing_ms,
            lock_delay_ms,
            cooldown_ms,
            detect_deadlocks,
            shards,
            wait_alarm_ms,
            hold_alarm_ms,
        } = policy;
        let threshold = |ms: u64| (ms > 0).then_some(ms);
        Self {
            limit,
            order,
            ageing_ms,
            lock_delay_ms,
            cooldown_ms,
            detect_deadlocks,
            shards,
            wait_alarm_ms: threshold(wait_alarm_ms),
            hold_alarm_ms: threshold(hold_alarm_ms),
        }
    }
}

/// One shard of a sharded lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShardBody {
    /// The number of the shard, from 0. The shard is the lock NAME/NUMBER.
    pub shard: u32,
    /// Whether the shard has a holder.
    pub held: bool,
    /// The session of the first holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
    /// The fencing token of the first holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// The number of waiters.
    pub waiters: u32,
}

impl ShardBody {
    /// The bodies of all shards, from 0 on.
    pub(crate) fn all(views: Vec<ShardView>) -> Vec<Self> {
        let one = |(shard, view): (u32, ShardView)| {
            let ShardView { holder, holders, waiters } = view;
            let (session, token) = holder.unzip();
            Self { shard, held: holders > 0, session, token, waiters }
        };
        (0..).zip(views).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_held_shard_shows_a_session_and_a_token() {
        let me = SessionName::new("me").ok().map(|me| (me, FencingToken(7)));
        let held = ShardView { holder: me, holders: 1, waiters: 2 };
        let json = serde_json::to_string(&ShardBody::all(vec![ShardView::default(), held]));
        assert_eq!(
            json.unwrap(),
            r#"[{"shard":0,"held":false,"waiters":0},{"shard":1,"held":true,"session":"me","token":7,"waiters":2}]"#
        );
    }
}
