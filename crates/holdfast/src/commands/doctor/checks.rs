//! Evaluates the state that the probes have read. The functions are pure, so tests can cover every problem.
//!
//! The order of the findings is the order of the repairs.

use std::collections::BTreeSet;

use holdfast_api::{AlarmBody, ClusterBody, NodeBody};
use holdfast_cli::output::short_time;

use super::finding::Finding;
use super::probe::{ClockOffset, ProbedAddress, ProbedNode};

/// Below this free disk space a node approaches its reserve (`storage.disk_reserve`), below which it rejects writes.
const DISK_WARN: u64 = 1 << 30;
/// Below this free disk space a node has reached the default reserve.
const DISK_FAIL: u64 = 64 << 20;
/// Above this offset between clocks, ages and histories are hard to compare, milliseconds.
const CLOCKS_APART_WARN: i64 = 1_000;

/// Runs the checks that neither wait nor change state. `own_version` is the version of this program.
pub(super) fn check_all(all: &[ProbedAddress], own_version: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for probed in all {
        found.extend(check_address(probed));
    }
    found.extend(check_cluster(all));
    found.extend(check_versions(all, own_version));
    found.extend(check_clocks(all));
    found.extend(check_alarms(all));
    found
}

fn nodes(all: &[ProbedAddress]) -> impl Iterator<Item = (&str, &ProbedNode)> {
    all.iter().filter_map(|probed| Some((probed.address.as_str(), probed.node.as_ref().ok()?)))
}

fn views(all: &[ProbedAddress]) -> impl Iterator<Item = (&str, &ClusterBody)> {
    nodes(all).filter_map(|(address, node)| Some((address, node.cluster.as_ref().ok()?)))
}

/// Checks that the node replies, is ready, and has free disk space.
fn check_address(probed: &ProbedAddress) -> Vec<Finding> {
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
    found.push(check_health(node).at(address));
    found.extend(node.disk_free.map(|free| check_disk(free).at(address)));
    found
}

fn check_health(node: &ProbedNode) -> Finding {
    let health = match &node.ready {
        Ok(health) => health,
        Err(reason) => return Finding::fail("ready", reason, "read the node's log"),
    };
    let failed: Vec<String> = health
        .checks
        .iter()
        .filter(|check| !check.ok)
        .map(|check| format!("{}: {}", check.name, check.detail))
        .collect();
    if failed.is_empty() {
        return Finding::ok("ready", "storage, leader, serving");
    }
    let first = health.checks.iter().find(|check| !check.ok);
    Finding::fail("ready", failed.join("; "), next_step(first.map_or("", |check| &check.name)))
}

/// The page about a failed check of `/readyz`.
fn next_step(check: &str) -> String {
    let page = match check {
        "storage" => "docs/operations.md#when-a-node-stops-itself",
        "leader" => "docs/operations.md#no-leader",
        "disk" => "docs/operations.md#a-full-disk",
        "lag" => "docs/operations.md#member-lagging",
        _ => "docs/operations.md#health",
    };
    format!("see {page}, and the node's log")
}

fn check_disk(free: u64) -> Finding {
    let found = format!("{} free", bytes(free));
    if free < DISK_FAIL {
        Finding::fail(
            "disk",
            found,
            "free disk space: below storage.disk_reserve the node rejects writes",
        )
    } else if free < DISK_WARN {
        Finding::warn("disk", found, "free disk space before storage.disk_reserve is reached")
    } else {
        Finding::ok("disk", found)
    }
}

/// Checks that all nodes belong to one cluster with a leader, that all members are healthy, and that `--addr` has all
/// members.
fn check_cluster(all: &[ProbedAddress]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (address, node) in nodes(all) {
        if let Err(reason) = &node.cluster {
            found.push(Finding::fail("cluster", reason, "read the node's log").at(address));
        }
    }
    let Some((_, first)) = views(all).next() else { return found };
    found.push(check_identity(all, first));
    if views(all).all(|(_, view)| is_same(view, first)) {
        found.push(check_leader(all, first));
        found.push(check_members(best_view(all).unwrap_or(first)));
        found.extend(check_addresses(all.len(), first));
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

fn check_leader(all: &[ProbedAddress], first: &ClusterBody) -> Finding {
    let leaders: BTreeSet<_> =
        views(all).map(|(_, view)| (view.leader.map(|leader| leader.0), view.term)).collect();
    match (leaders.len(), first.leader) {
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
    }
}

fn check_members(view: &ClusterBody) -> Finding {
    let all = view.nodes.len();
    let missing: Vec<&NodeBody> = view.nodes.iter().filter(|node| !node.healthy).collect();
    let healthy = all - missing.len();
    let spare = healthy.saturating_sub(all / 2 + 1);
    let survives = format!("{healthy} of {all} healthy: survives the loss of {spare}");
    if !missing.is_empty() {
        let named: Vec<String> = missing
            .iter()
            .map(|node| format!("node {} ({}) is {}", node.id, node.http, node.role))
            .collect();
        let next = "start the missing members before another one fails";
        return Finding::warn("members", format!("{survives}; {}", named.join(", ")), next);
    }
    if all < 3 || all.is_multiple_of(2) {
        return Finding::warn("members", survives, "run three or five nodes");
    }
    Finding::ok("members", survives)
}

/// Warns about a single address: a client with the address of only one node fails with that node.
fn check_addresses(named: usize, view: &ClusterBody) -> Option<Finding> {
    let all: Vec<&str> = view.nodes.iter().map(|node| node.http.as_str()).collect();
    if named >= all.len() {
        return None;
    }
    let found = format!("{named} of {} members are in --addr", all.len());
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
fn check_alarms(all: &[ProbedAddress]) -> Vec<Finding> {
    let Some(body) = nodes(all).find_map(|(_, node)| node.alarms.as_ref()) else {
        return Vec::new();
    };
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

/// Dates of replies are whole seconds, so only a certain offset is a warning.
fn check_clocks(all: &[ProbedAddress]) -> Option<Finding> {
    let here = ("this machine", ClockOffset { at_least: 0, at_most: 0 });
    let nodes = nodes(all).filter_map(|(address, node)| Some((address, node.clock?)));
    let clocks: Vec<_> = nodes.chain(Some(here)).collect();
    if clocks.len() < 2 {
        return None;
    }
    let (fast, first) = clocks.iter().max_by_key(|(_, offset)| offset.at_least)?;
    let (slow, last) = clocks.iter().min_by_key(|(_, offset)| offset.at_most)?;
    let certain = first.at_least - last.at_most;
    let possible = clocks.iter().map(|(_, offset)| offset.at_most).max()?
        - clocks.iter().map(|(_, offset)| offset.at_least).min()?;
    let shown = |ms: i64| short_time(u64::try_from(ms).unwrap_or(0));
    if certain > CLOCKS_APART_WARN {
        let found = format!("{fast} is at least {} ahead of {slow}", shown(certain));
        let next = "synchronize the clocks: locks do not need it, but ages, histories and znodes with a ttl do";
        return Some(Finding::warn("clocks", found, next));
    }
    Some(Finding::ok("clocks", format!("at most {} apart", shown(possible))))
}

/// `4.2 GiB`
fn bytes(count: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = UNITS.iter().find(|(_, shift)| count >> shift > 0);
    match fits {
        Some((unit, shift)) => {
            let tenths = (u128::from(count) * 10) >> shift;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{count} B"),
    }
}

#[cfg(test)]
mod tests;
