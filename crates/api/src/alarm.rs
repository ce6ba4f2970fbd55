//! Bodies of the alarms.

use holdfast_types::NodeId;
use serde::{Deserialize, Serialize};

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

#[cfg(test)]
mod tests {
    use super::*;

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
