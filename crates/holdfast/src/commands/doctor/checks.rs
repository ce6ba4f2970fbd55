//! Evaluates the state that the probes have read. The functions are pure, so tests can cover every problem.
//!
//! The order of the findings is the order of the repairs.

use std::collections::BTreeSet;

use holdfast_api::{AlarmBody, AlarmsBody, ClusterBody, NodeBody};
use holdfast_cli::output::short_time;
use holdfast_service::{AlarmKind, CLOCK_OFFSET_MAX};

use super::Finding;
use super::probe::{ProbedAddress, ProbedNode};

/// Runs the checks that neither wait nor change state. `own_version` is the version of this program.
pub(super) fn check_all(all: &[ProbedAddress], own_version: &str) -> Vec<Finding> {
    let alarms = nodes(all).find_map(|(_, node)| node.alarms.as_ref());
    let mut found = Vec::new();
    for probed in all {
        found.extend(check_address(probed, alarms));
    }
    found.extend(check_cluster(all, alarms));
    found.extend(check_versions(all, own_version));
    found.extend(check_clock(all));
    found.extend(alarms.map(check_alarms).unwrap_or_default());
    found
}

/// Whether the nodes raise an alarm. Its condition is then no finding of another check.
fn is_raised(alarms: Option<&AlarmsBody>, kind: AlarmKind) -> bool {
    alarms.is_some_and(|body| body.alarms.iter().any(|alarm| alarm.name == kind.as_str()))
}

fn nodes(all: &[ProbedAddress]) -> impl Iterator<Item = (&str, &ProbedNode)> {
    all.iter().filter_map(|probed| Some((probed.address.as_str(), probed.node.as_ref().ok()?)))
}

fn views(all: &[ProbedAddress]) -> impl Iterator<Item = (&str, &ClusterBody)> {
    nodes(all).filter_map(|(address, node)| Some((address, node.cluster.as_ref().ok()?)))
}

/// Checks that the node replies and is ready.
fn check_address(probed: &ProbedAddress, alarms: Option<&AlarmsBody>) -> Vec<Finding> {
    let address = &probed.address;
    let node = match &probed.node {
        Ok(node) => node,
        Err(reason) => {
            let next = "start the node, or correct its address in --addr or HOLDFAST_ADDR";
            return vec![Finding::fail("answers", reason, next).at(address)];
        }
    };
    let took = short_time(holdfast_types::millis(node.took));
    let mut found = vec![Finding::ok("answers", format!("within {took}")).at(address)];
    found.extend(check_health(node, alarms).map(|finding| finding.at(address)));
    found
}

/// `None` if alarms have all reasons why the node is not ready.
fn check_health(node: &ProbedNode, alarms: Option<&AlarmsBody>) -> Option<Finding> {
    let health = match &node.ready {
        Ok(health) => health,
        Err(reason) => return Some(Finding::fail("ready", reason, "read the node's log")),
    };
    let mut failed = health.checks.iter().filter(|check| !check.ok).peekable();
    if failed.peek().is_none() {
        return Some(Finding::ok("ready", "storage, leader, serving"));
    }
    let failed: Vec<_> = failed
        .filter(|check| alarm_of(&check.name).is_none_or(|kind| !is_raised(alarms, kind)))
        .collect();
    let next = next_step(&failed.first()?.name);
    let found: Vec<String> =
        failed.iter().map(|check| format!("{}: {}", check.name, check.detail)).collect();
    Some(Finding::fail("ready", found.join("; "), next))
}

/// The alarm with the condition of a check of `/readyz`.
fn alarm_of(check: &str) -> Option<AlarmKind> {
    match check {
        "leader" => Some(AlarmKind::NoLeader),
        "disk" => Some(AlarmKind::DiskLow),
        "lag" => Some(AlarmKind::MemberLagging),
        _ => None,
    }
}

/// The section about a failed check of `/readyz`.
fn next_step(check: &str) -> String {
    let section = match (alarm_of(check), check) {
        (Some(kind), _) => kind.as_str(),
        (None, "storage") => "when-a-node-stops-itself",
        (None, _) => "health",
    };
    format!("see docs/operations.md#{section}, and the node's log")
}

/// Checks that all nodes belong to one cluster with a leader, that all members are healthy, and that `--addr` has all
/// members.
fn check_cluster(all: &[ProbedAddress], alarms: Option<&AlarmsBody>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (address, node) in nodes(all) {
        if let Err(reason) = &node.cluster {
            found.push(Finding::fail("cluster", reason, "read the node's log").at(address));
        }
    }
    let Some((_, first)) = views(all).next() else { return found };
    found.push(check_identity(all, first));
    if views(all).all(|(_, view)| is_same(view, first)) {
        found.extend(check_leader(all, first, alarms));
        found.extend(check_members(best_view(all).unwrap_or(first), alarms));
        found.extend(check_addresses(all, first));
    }
    found
}

/// Returns the most complete view of the cluster.
pub(super) fn best_view(all: &[ProbedAddress]) -> Option<&ClusterBody> {
    views(all).map(|(_, view)| view).max_by_key(|view| {
        (view.leader.is_some(), view.term, view.nodes.iter().filter(|node| node.healthy).count())
    })
}

fn members(view: &ClusterBody) -> BTreeSet<(u64, &str)> {
    view.nodes.iter().map(|node| (node.id.0, node.peer.as_str())).collect()
}

fn is_same(view: &ClusterBody, other: &ClusterBody) -> bool {
    view.cluster == other.cluster && !have_other_ids(view, other) && members(view) == members(other)
}

/// A node that waits for its bootstrap does not know the id yet.
fn have_other_ids(view: &ClusterBody, other: &ClusterBody) -> bool {
    view.cluster_id.is_some() && other.cluster_id.is_some() && view.cluster_id != other.cluster_id
}

/// Returns the name of the cluster, with its id if another cluster has the same name.
fn name(view: &ClusterBody, other: &ClusterBody) -> String {
    match &view.cluster_id {
        Some(id) if view.cluster == other.cluster && have_other_ids(view, other) => {
            format!("{} with the id {id}", view.cluster)
        }
        _ => view.cluster.clone(),
    }
}

fn check_identity(all: &[ProbedAddress], first: &ClusterBody) -> Finding {
    let others: Vec<String> = views(all)
        .filter(|(_, view)| !is_same(view, first))
        .map(|(address, view)| format!("{address} belongs to {}", name(view, first)))
        .collect();
    if others.is_empty() {
        let members = match first.nodes.len() {
            1 => "1 member".to_owned(),
            count => format!("{count} members"),
        };
        return Finding::ok("cluster", format!("{}, {members}", first.cluster));
    }
    let found = format!(
        "not one cluster: {}; the first node belongs to {}",
        others.join(", "),
        first.cluster
    );
    let next = "give the addresses of one cluster only; if these nodes should form one cluster, compare [[member]] and cluster in their files";
    Finding::fail("cluster", found, next)
}

fn check_leader(
    all: &[ProbedAddress],
    first: &ClusterBody,
    alarms: Option<&AlarmsBody>,
) -> Option<Finding> {
    let leaders: BTreeSet<_> =
        views(all).map(|(_, view)| (view.leader.map(|leader| leader.0), view.term)).collect();
    Some(match (leaders.len(), first.leader) {
        (1, None) if is_raised(alarms, AlarmKind::NoLeader) => return None,
        (1, Some(leader)) => Finding::ok("leader", format!("node {leader}, term {}", first.term)),
        (1, None) => Finding::fail(
            "leader",
            format!("none in term {}", first.term),
            "a majority of the members must run and reach each other: start the members that do not answer; holdfast explain no-leader",
        ),
        _ => {
            let views: Vec<String> = views(all)
                .map(|(address, view)| match view.leader {
                    Some(leader) => format!("{address}: node {leader} in term {}", view.term),
                    None => format!("{address}: none in term {}", view.term),
                })
                .collect();
            Finding::warn(
                "leader",
                views.join(", "),
                "repeat: an election may be in progress; if it persists, check the network between the nodes",
            )
        }
    })
}

/// `None` if the alarms have all members that are not healthy.
fn check_members(view: &ClusterBody, alarms: Option<&AlarmsBody>) -> Option<Finding> {
    let sick = view.nodes.iter().filter(|node| !node.healthy);
    // A member without a vote counts for no majority.
    let voters = view.nodes.iter().filter(|node| node.votes);
    let (all, healthy) = (voters.clone().count(), voters.filter(|node| node.healthy).count());
    let spare = healthy.saturating_sub(all / 2 + 1);
    let survives = format!("{healthy} of {all} voters healthy: survives the loss of {spare}");
    if sick.clone().next().is_some() {
        let is_silent =
            |node: &&NodeBody| alarms.is_some_and(|alarms| alarms.unreachable.contains(&node.id));
        let named: Vec<String> = sick
            .filter(|node| !is_silent(node))
            .map(|node| format!("node {} ({}) is {}", node.id, node.http, node.role))
            .collect();
        let next = "start the missing members before another one fails";
        let found = format!("{survives}; {}", named.join(", "));
        return (!named.is_empty()).then(|| Finding::warn("members", found, next));
    }
    Some(if all < 3 || all.is_multiple_of(2) {
        Finding::warn("members", survives, "run three or five nodes")
    } else {
        Finding::ok("members", survives)
    })
}

/// Warns about a single address: a client with the address of only one node fails with that node.
fn check_addresses(named: &[ProbedAddress], view: &ClusterBody) -> Option<Finding> {
    let is_https = named.iter().any(|probed| probed.address.starts_with("https://"));
    let scheme = if is_https { "https://" } else { "" };
    let all: Vec<_> = view.nodes.iter().map(|node| format!("{scheme}{}", node.http)).collect();
    if named.len() >= all.len() {
        return None;
    }
    let found = format!("{} of {} members are in --addr", named.len(), all.len());
    let next = format!(
        "use all addresses, clients skip a node that is down: HOLDFAST_ADDR={}",
        all.join(",")
    );
    Some(Finding::warn("addresses", found, next))
}

fn check_versions(all: &[ProbedAddress], own: &str) -> Option<Finding> {
    let shown = |node: &ProbedNode| match &node.version.commit {
        Some(commit) => format!("{} ({commit})", node.version.version),
        None => node.version.version.clone(),
    };
    let different: BTreeSet<String> = nodes(all).map(|(_, node)| shown(node)).collect();
    let first = different.first()?.clone();
    if different.len() > 1 {
        let each: Vec<String> =
            nodes(all).map(|(address, node)| format!("{address} {}", shown(node))).collect();
        let next = "finish the upgrade, one node at a time";
        return Some(Finding::warn("version", each.join(", "), next));
    }
    let running = nodes(all).next().map(|(_, node)| node.version.version.as_str());
    if running.is_some_and(|running| running != own) {
        let found = format!("the nodes run {first}, this program is {own}");
        return Some(Finding::warn(
            "version",
            found,
            "use the program of the same version as the nodes",
        ));
    }
    Some(Finding::ok("version", first))
}

/// Every alarm that `holdfast alarms` lists.
fn check_alarms(body: &AlarmsBody) -> Vec<Finding> {
    let mut found: Vec<Finding> = body.alarms.iter().map(alarm_finding).collect();
    if !body.unreachable.is_empty() {
        let silent: Vec<String> = body.unreachable.iter().map(ToString::to_string).collect();
        let silent = format!("no answer from node {}: its alarms are unknown", silent.join(","));
        found.push(Finding::warn("alarms", silent, "start the node, or check the network to it"));
    }
    if found.is_empty() { vec![Finding::ok("alarms", "none")] } else { found }
}

fn alarm_finding(alarm: &AlarmBody) -> Finding {
    let nodes: Vec<String> = alarm.nodes.iter().map(ToString::to_string).collect();
    let found = format!("{}: {} (node {})", alarm.name, alarm.detail, nodes.join(","));
    let next = format!("{}; holdfast explain {}", alarm.hint, alarm.name);
    match alarm.severity.as_str() {
        "critical" => Finding::fail("alarms", found, next),
        _ => Finding::warn("alarms", found, next),
    }
}

/// Compares the clock of this machine with those of the nodes; the nodes compare theirs themselves (`clock-skew`). Dates of
/// replies are whole seconds, so only a certain offset from every node is a warning.
fn check_clock(all: &[ProbedAddress]) -> Option<Finding> {
    let clocks = nodes(all).filter_map(|(address, node)| Some((address, node.clock?)));
    let (address, nearest) = clocks.min_by_key(|(_, offset)| offset.certain())?;
    let certain = nearest.certain();
    if certain > CLOCK_OFFSET_MAX {
        let direction = if nearest.at_least > 0 { "behind" } else { "ahead of" };
        let found = format!(
            "this machine is at least {} {direction} every node, {address} is the nearest",
            short_time(certain)
        );
        let next = "synchronize the clock of this machine: locks do not need it, but shown ages do";
        return Some(Finding::warn("clock", found, next));
    }
    let possible = nearest.at_least.unsigned_abs().max(nearest.at_most.unsigned_abs());
    Some(Finding::ok("clock", format!("at most {} from that of {address}", short_time(possible))))
}

#[cfg(test)]
mod tests;
