//! Bodies of sharded locks.

use serde::{Deserialize, Serialize};

use holdfast_types::{FencingToken, SessionName, ShardView};

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
