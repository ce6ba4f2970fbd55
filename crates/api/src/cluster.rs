//! Bodies of the cluster, a node's health and its version.

use holdfast_types::{NodeId, RecentMetric, RecentUnit, Revision, Zone};
use serde::{Deserialize, Serialize};

use crate::SealBody;

/// The cluster, as known to one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClusterBody {
    /// The name of the cluster.
    pub cluster: String,
    /// The random id of the cluster, 32 hexadecimal digits; null until the cluster is bootstrapped.
    pub cluster_id: Option<String>,
    /// The feature level of the cluster.
    pub level: u16,
    /// The current Raft term.
    pub term: u64,
    /// The leader; null during an election, without a quorum, and if the leader does not answer this node: then this view
    /// may be old.
    pub leader: Option<NodeId>,
    /// The seal; missing if the cluster is not sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<SealBody>,
    /// What the unfinished change of a member waits for; missing without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_waits_for: Option<String>,
    /// When the last complete backup was made; missing without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<String>,
    /// The members, ordered by id.
    pub nodes: Vec<NodeBody>,
}

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeBody {
    /// The node id.
    pub id: NodeId,
    /// `leader`, `follower`, `candidate`, `learner`, `standby`, `stopped` or `unreachable`.
    pub role: String,
    /// Whether the node votes.
    pub votes: bool,
    /// The address of its HTTP API.
    pub http: String,
    /// The address for other nodes.
    pub peer: String,
    /// The address of its ZooKeeper port.
    pub zookeeper: String,
    /// The failure domain; missing without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Zone>,
    /// The unfinished change: `invited`, `invitation expired`, `joining`, `changing its role` or `leaving`; missing without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The version of its program; missing if it is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The highest feature level that its program knows; missing if it is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level_max: Option<u16>,
    /// The last revision that the node applied; 0 if it is unreachable.
    pub applied_revision: Revision,
    /// Whether the node is reachable, has a leader, and has not failed.
    pub healthy: bool,
    /// Free bytes on the fullest disk of its data directory, log and snapshots; missing if it did not reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// The size of its log; missing if it did not reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// When the first certificate of its ports expires, an RFC 3339 time; missing without TLS, or if it did not reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_expires_at: Option<String>,
    /// The members that do not answer this node; empty if it did not reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cannot_reach: Vec<NodeId>,
}

/// The feature level of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FeatureLevelBody {
    /// The feature level.
    pub level: u16,
}

/// The filter of a node's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeLogBody {
    /// The node id.
    pub node: NodeId,
    /// The filter that the node uses.
    pub log: String,
    /// The filter of its configuration.
    pub configured: String,
    /// Milliseconds until the configured filter applies again; null if it applies.
    pub ends_in_ms: Option<u64>,
}

/// The health of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HealthBody {
    /// Whether every check passed.
    pub ok: bool,
    /// The checks.
    pub checks: Vec<CheckBody>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckBody {
    /// The name of the check.
    pub name: String,
    /// Whether the check passed.
    pub ok: bool,
    /// The result in words.
    pub detail: String,
}

impl HealthBody {
    /// The health that follows from the checks.
    pub fn new(checks: Vec<CheckBody>) -> Self {
        Self { ok: checks.iter().all(|check| check.ok), checks }
    }
}

/// The version of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VersionBody {
    /// The release.
    pub version: String,
    /// The source commit, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// The alarms of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlarmsBody {
    /// The alarms, the most urgent first.
    pub alarms: Vec<AlarmBody>,
    /// The members that did not reply; their own alarms are missing.
    pub unreachable: Vec<NodeId>,
}

/// A condition that an operator should end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlarmBody {
    /// The name of the alarm.
    pub name: String,
    /// `warning`, or `critical` if calls fail or state is in danger.
    pub severity: String,
    /// The nodes that raise the alarm.
    pub nodes: Vec<NodeId>,
    /// The fact.
    pub detail: String,
    /// What to do next.
    pub hint: String,
    /// The section of the documentation.
    pub docs: String,
}

/// The figures of one node in the last quarter of an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecentBody {
    /// The node that measured.
    pub node: NodeId,
    /// The time of the newest values by the node's clock, an RFC 3339 time; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<String>,
    /// The time between two values.
    pub interval_ms: u64,
    /// The figures.
    pub figures: Vec<RecentFigureBody>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecentFigureBody {
    /// The figure.
    pub metric: RecentMetric,
    /// The unit of the values.
    pub unit: RecentUnit,
    /// Whether the figure is of the whole cluster, and about equal on every node; otherwise it is of this node.
    pub of_cluster: bool,
    /// The values, the oldest first; null where the node has none: it was paused, or nothing of the kind happened.
    pub values: Vec<Option<u32>>,
}

impl RecentFigureBody {
    pub fn new(metric: RecentMetric, values: Vec<Option<u32>>) -> Self {
        Self { metric, unit: metric.unit(), of_cluster: metric.is_of_cluster(), values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_looks_as_specified() {
        let node = NodeBody {
            id: NodeId(1),
            role: "leader".to_owned(),
            votes: true,
            http: "127.0.0.1:7400".to_owned(),
            peer: "127.0.0.1:7401".to_owned(),
            zookeeper: "127.0.0.1:7402".to_owned(),
            zone: None,
            change: None,
            version: Some("0.1.0".to_owned()),
            level_max: Some(2),
            applied_revision: Revision(12),
            healthy: true,
            disk_free_bytes: Some(4_096),
            log_bytes: Some(512),
            certificate_expires_at: Some("2027-03-01T00:00:00Z".to_owned()),
            cannot_reach: vec![NodeId(3)],
        };
        let cluster = "holdfast".to_owned();
        let body = ClusterBody {
            cluster,
            cluster_id: Some("0c".to_owned()),
            level: 1,
            term: 3,
            leader: Some(NodeId(1)),
            seal: None,
            change_waits_for: None,
            last_backup: Some("2026-11-27T03:00:00Z".to_owned()),
            nodes: vec![node],
        };
        let expected = r#"{"cluster":"holdfast","cluster_id":"0c","level":1,"term":3,"leader":1,"last_backup":"2026-11-27T03:00:00Z","nodes":[{"id":1,"role":"leader","votes":true,"http":"127.0.0.1:7400","peer":"127.0.0.1:7401","zookeeper":"127.0.0.1:7402","version":"0.1.0","level_max":2,"applied_revision":12,"healthy":true,"disk_free_bytes":4096,"log_bytes":512,"certificate_expires_at":"2027-03-01T00:00:00Z","cannot_reach":[3]}]}"#;
        assert_eq!(serde_json::to_string(&body).unwrap(), expected);
    }

    #[test]
    fn one_failed_check_makes_the_node_unhealthy() {
        let check = |ok| CheckBody { name: "leader".to_owned(), ok, detail: String::new() };
        assert!(HealthBody::new(vec![check(true)]).ok);
        assert!(!HealthBody::new(vec![check(true), check(false)]).ok);
    }

    #[test]
    fn an_alarm_looks_as_specified() {
        let alarm = AlarmBody {
            name: "disk-low".to_owned(),
            severity: "warning".to_owned(),
            nodes: vec![NodeId(2)],
            detail: "900 MiB are free, the reserve is 64 MiB".to_owned(),
            hint: "free disk space".to_owned(),
            docs: "docs/operations.md#disk-low".to_owned(),
        };
        let body = AlarmsBody { alarms: vec![alarm], unreachable: vec![NodeId(3)] };
        let expected = r#"{"alarms":[{"name":"disk-low","severity":"warning","nodes":[2],"detail":"900 MiB are free, the reserve is 64 MiB","hint":"free disk space","docs":"docs/operations.md#disk-low"}],"unreachable":[3]}"#;
        assert_eq!(serde_json::to_string(&body).unwrap(), expected);
    }
}
