//! The rules that span several keys, checked before anything is opened or bound.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_types::NodeId;

use super::source::Scalar;
use super::{Address, Config, ConfigError, Member};

/// More voters than this only make every commit slower.
const MEMBERS_MAX: usize = 7;

/// A cluster's name: letters, digits, `-`, `_` and `.`, at most 64.
pub(super) fn cluster_name(value: &Scalar) -> Result<String, String> {
    let wanted = "a name of letters, digits, '-', '_' and '.', at most 64, the same on all nodes";
    let name = value.text(wanted)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() > 64 || !name.chars().all(allowed) {
        return Err(format!("{name:?} is no name for a cluster: write {wanted}"));
    }
    Ok(name.to_owned())
}

/// The member that this node is.
pub(super) fn own(
    node: NodeId,
    members: &BTreeMap<NodeId, Member>,
) -> Result<&Member, ConfigError> {
    members.get(&node).ok_or_else(|| {
        let ids: Vec<String> = members.keys().map(ToString::to_string).collect();
        ConfigError::Inconsistent(format!(
            "node = {node} is not among the members ({}): set node (or HOLDFAST_NODE, or --node) to one of them, \
             or add a [[member]] block with id = {node}",
            ids.join(", ")
        ))
    })
}

/// The number of members, and that no address is used twice.
pub(super) fn members(config: &Config) -> Result<(), ConfigError> {
    let count = config.members.len();
    if count > MEMBERS_MAX {
        return Err(ConfigError::Inconsistent(format!(
            "{count} members are too many: every one of them slows every write down; use 3 or 5 \
             (at most {MEMBERS_MAX})"
        )));
    }
    if count.is_multiple_of(2) {
        return Err(ConfigError::Inconsistent(format!(
            "{count} members survive no more failures than {}: remove a [[member]] block or add one, \
             so that there are 3 or 5",
            count - 1
        )));
    }
    let mut seen: BTreeMap<&Address, String> = BTreeMap::new();
    for (id, member) in &config.members {
        let doors =
            [("http", &member.http), ("peer", &member.peer), ("zookeeper", &member.zookeeper)];
        for (door, address) in doors {
            let here = format!("{door} of member {id}");
            if let Some(other) = seen.insert(address, here.clone()) {
                return Err(ConfigError::Inconsistent(format!(
                    "{address} is both {other} and {here}: give each its own address"
                )));
            }
        }
    }
    Ok(())
}

/// That elections can neither starve nor storm.
pub(super) fn timing(config: &Config) -> Result<(), ConfigError> {
    let Config { heartbeat, election_min, election_max, .. } = config;
    let refuse = |problem: String| Err(ConfigError::Inconsistent(problem));
    if *heartbeat < Duration::from_millis(10) {
        return refuse(format!(
            "raft.heartbeat = \"{heartbeat:?}\" is below what a network keeps up: use 10ms or more (the default is 150ms)"
        ));
    }
    if *election_min < *heartbeat * 3 {
        return refuse(format!(
            "raft.election_min = \"{election_min:?}\" is less than three heartbeats of {heartbeat:?}: a single late \
             one would cost the leadership; raise it to {:?} or more, or lower raft.heartbeat",
            *heartbeat * 3
        ));
    }
    if *election_max < *election_min + *heartbeat {
        return refuse(format!(
            "raft.election_max = \"{election_max:?}\" leaves no room above raft.election_min = \"{election_min:?}\": \
             nodes would stand for election together; raise it to {:?} or more",
            *election_min * 2
        ));
    }
    if *election_max > Duration::from_mins(1) {
        return refuse(format!(
            "raft.election_max = \"{election_max:?}\" would leave a cluster without a leader for over a minute: \
             use 60s or less (the default is 750ms)"
        ));
    }
    Ok(())
}
