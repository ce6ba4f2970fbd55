//! Why no node answered a command: the views of all nodes, read in parallel after the failure.
//!
//! Bound: one call to each address, of at most a second.

use holdfast_api::{ClusterBody, NodeBody};
use holdfast_cli::arguments::{NodesArgs, called_nodes};
use holdfast_cli::exit::CommandFailure;

use crate::commands::doctor;

/// The role of a node that gives no answer.
const UNREACHABLE: &str = "unreachable";

/// Adds the cause to the failure of a command that no node answered.
pub(crate) fn explain(failure: CommandFailure) -> CommandFailure {
    let CommandFailure::NoAnswer { lead, reason, effect } = failure else { return failure };
    let cause = called_nodes().and_then(read_views).and_then(|views| cause(&views, &reason));
    match cause {
        // The cause says more than how long a call had no answer.
        Some(cause) => CommandFailure::NoAnswer { lead: None, reason: cause, effect },
        None => CommandFailure::NoAnswer { lead, reason, effect },
    }
}

/// An address, and the view of the cluster of the node there, or why there is none.
type View = (String, Result<ClusterBody, String>);

fn read_views(nodes: &NodesArgs) -> Option<Vec<View>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(doctor::views(nodes)).ok()
}

/// Returns what prevents an answer; `None` if the nodes work now. `reason` has the failures of the command's own calls.
fn cause(views: &[View], reason: &str) -> Option<String> {
    let known: Vec<&ClusterBody> =
        views.iter().filter_map(|(_, view)| view.as_ref().ok()).collect();
    if known.iter().any(|view| view.leader.is_some()) {
        return None;
    }
    let Some(view) = known.first() else {
        return Some(format!(
            "is the cluster running, and does --addr or HOLDFAST_ADDR name its nodes? {reason}"
        ));
    };
    let voters: Vec<&NodeBody> = view.nodes.iter().filter(|node| node.votes).collect();
    let silent: Vec<&NodeBody> =
        voters.iter().copied().filter(|node| node.role == UNREACHABLE).collect();
    if 2 * (voters.len() - silent.len()) > voters.len() {
        return Some("the nodes have no leader at the moment".to_owned());
    }
    let names: Vec<String> =
        silent.iter().map(|node| format!("node {} at {}", node.id, node.http)).collect();
    let (count, all, names) = (silent.len(), voters.len(), names.join(", "));
    Some(format!("no majority: {count} of {all} nodes do not answer ({names})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(leader: &str, roles: [&str; 3]) -> View {
        let node = |(role, id): (&str, u64)| {
            format!(
                r#"{{"id":{id},"role":"{role}","votes":true,"healthy":false,"applied_revision":9,"peer":"p{id}","http":"h{id}","zookeeper":"z{id}"}}"#
            )
        };
        let nodes: Vec<String> = roles.into_iter().zip(1..).map(node).collect();
        let json = format!(
            r#"{{"cluster":"c","cluster_id":null,"level":1,"term":3,"leader":{leader},"nodes":[{}]}}"#,
            nodes.join(",")
        );
        ("h1".to_owned(), Ok(serde_json::from_str(&json).unwrap()))
    }

    fn silent(address: &str) -> View {
        (address.to_owned(), Err("no answer within 1s".to_owned()))
    }

    #[test]
    fn a_lost_majority_is_named_with_its_nodes() {
        let (up, down) = ("follower", "unreachable");
        let views = [silent("h2"), view("null", [up, down, down])];
        let expected =
            "no majority: 2 of 3 nodes do not answer (node 2 at h2, node 3 at h3)".to_owned();
        assert_eq!(cause(&views, ""), Some(expected));
        let election = cause(&[view("null", [up, up, down])], "");
        assert_eq!(election, Some("the nodes have no leader at the moment".to_owned()));
        assert_eq!(cause(&[silent("h2"), view("3", [up, down, up])], ""), None);
        let none = cause(&[silent("h1")], "h1: the node ended its answer early").unwrap();
        assert!(none.ends_with("name its nodes? h1: the node ended its answer early"), "{none}");
    }
}
