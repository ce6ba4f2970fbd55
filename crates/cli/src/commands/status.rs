//! `holdfast status`: the nodes of the cluster. `holdfast alarms`: the conditions that an operator should end.

use clap::Args;
use holdfast_api::{AlarmBody, AlarmsBody, ClusterBody};

use crate::arguments::ClusterArgs;
use crate::exit::CommandFailure;
use crate::output::{answer_rows, table};

/// Show the nodes of the cluster.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn run(args: StatusArgs) -> Result<(), CommandFailure> {
    let body = args.cluster.quick_client()?.cluster().await?;
    answer_rows(args.cluster.format(), &body, &body.nodes, [leader_http(&body)], &show(&body));
    match body.leader {
        Some(_) => Ok(()),
        None => Err(CommandFailure::failed(
            "the cluster has no leader: a majority of its nodes must run and reach each other",
        )),
    }
}

fn leader_http(cluster: &ClusterBody) -> &str {
    let leader = cluster.nodes.iter().find(|node| Some(node.id) == cluster.leader);
    leader.map_or("", |node| &node.http)
}

fn show(cluster: &ClusterBody) -> String {
    let leader = cluster.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string());
    let rows = cluster.nodes.iter().map(|node| {
        [
            node.id.to_string(),
            node.role.clone(),
            if node.healthy { "yes" } else { "no" }.to_owned(),
            node.applied_revision.to_string(),
            node.http.clone(),
            node.peer.clone(),
        ]
    });
    let nodes = table(["node", "role", "healthy", "applied", "http", "peer"], rows);
    let backup = cluster.last_backup.as_ref();
    let backup = backup.map(|at| format!(", last backup {at}")).unwrap_or_default();
    let (name, term) = (&cluster.cluster, cluster.term);
    format!("cluster {name}, term {term}, leader {leader}{backup}\n\n{nodes}")
}

/// List the alarms; exit code 1 for a warning, 2 for a critical one.
#[derive(Debug, Args)]
pub(crate) struct AlarmsArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) async fn alarms(args: AlarmsArgs) -> Result<(), CommandFailure> {
    let body = args.cluster.quick_client()?.alarms().await?;
    let names = body.alarms.iter().map(|alarm| &alarm.name);
    answer_rows(args.cluster.format(), &body, &body.alarms, names, &alarms_text(&body));
    match code(&body) {
        0 => Ok(()),
        code => Err(CommandFailure::Code(code, None)),
    }
}

/// A member that does not reply is a warning: its alarms are unknown.
fn code(body: &AlarmsBody) -> u8 {
    let is_critical = |alarm: &AlarmBody| alarm.severity == "critical";
    match body {
        body if body.alarms.iter().any(is_critical) => 2,
        body if body.alarms.is_empty() && body.unreachable.is_empty() => 0,
        _ => 1,
    }
}

fn alarms_text(body: &AlarmsBody) -> String {
    let mut parts = Vec::new();
    if body.alarms.is_empty() && body.unreachable.is_empty() {
        parts.push("no alarms".to_owned());
    } else if !body.alarms.is_empty() {
        let rows = body.alarms.iter().map(|alarm| {
            [
                alarm.severity.clone(),
                alarm.name.clone(),
                listed(&alarm.nodes),
                alarm.detail.clone(),
                alarm.hint.clone(),
            ]
        });
        parts.push(table(["", "alarm", "nodes", "found", "what to do"], rows));
    }
    if !body.unreachable.is_empty() {
        let nodes = listed(&body.unreachable);
        parts.push(format!("no answer from node {nodes}: its alarms are unknown"));
    }
    parts.join("\n\n")
}

fn listed(nodes: &[holdfast_types::NodeId]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use holdfast_types::NodeId;

    use super::*;

    fn alarm(severity: &str) -> AlarmBody {
        AlarmBody {
            name: "disk-low".to_owned(),
            severity: severity.to_owned(),
            nodes: vec![NodeId(1), NodeId(3)],
            detail: "900 MiB are free".to_owned(),
            hint: "free disk space".to_owned(),
            docs: "docs/operations.md#disk-low".to_owned(),
        }
    }

    #[test]
    fn the_exit_code_is_that_of_the_most_urgent_alarm() {
        let code_of = |alarms: &[AlarmBody], unreachable: &[NodeId]| {
            code(&AlarmsBody { alarms: alarms.to_vec(), unreachable: unreachable.to_vec() })
        };
        assert_eq!(code_of(&[], &[]), 0);
        assert_eq!(code_of(&[], &[NodeId(3)]), 1);
        assert_eq!(code_of(&[alarm("warning")], &[]), 1);
        assert_eq!(code_of(&[alarm("critical"), alarm("warning")], &[]), 2);
    }

    #[test]
    fn the_table_has_the_nodes_and_the_members_without_an_answer() {
        let text = alarms_text(&AlarmsBody {
            alarms: vec![alarm("warning")],
            unreachable: vec![NodeId(2)],
        });
        assert!(
            text.contains("warning  disk-low  1,3    900 MiB are free  free disk space"),
            "{text}"
        );
        assert!(text.ends_with("no answer from node 2: its alarms are unknown"), "{text}");
        let silent = alarms_text(&AlarmsBody { alarms: Vec::new(), unreachable: vec![NodeId(3)] });
        assert_eq!(silent, "no answer from node 3: its alarms are unknown");
        let none = alarms_text(&AlarmsBody { alarms: Vec::new(), unreachable: Vec::new() });
        assert_eq!(none, "no alarms");
    }
}
