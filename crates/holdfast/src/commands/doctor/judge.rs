//! What is to be thought of what was seen: pure, so that every illness can be shown to it.
//!
//! Owns the thresholds and the advice. The order of the findings is that in which to mend them.

use std::collections::BTreeSet;

use holdfast_api::{ClusterBody, NodeBody};

use super::super::for_people;
use super::finding::Finding;
use super::look::{Ahead, Node, Seen};

/// With less free disk than this a node is soon at its reserve (`storage.disk_reserve`), below which it appends nothing.
const DISK_WARN: u64 = 1 << 30;
/// Below this it certainly is, unless the reserve was made smaller.
const DISK_FAIL: u64 = 64 << 20;
/// Clocks that are certainly further apart make ages and histories hard to read, milliseconds.
const CLOCKS_APART_WARN: i64 = 1_000;

/// Everything that can be said without waiting and without changing anything.
pub(super) fn judge(all: &[Seen], ours: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for seen in all {
        found.extend(of_address(seen));
    }
    found.extend(of_cluster(all));
    found.extend(of_versions(all, ours));
    found.extend(of_clocks(all));
    found
}

fn nodes(all: &[Seen]) -> impl Iterator<Item = (&str, &Node)> {
    all.iter().filter_map(|seen| Some((seen.address.as_str(), seen.node.as_ref().ok()?)))
}

fn views(all: &[Seen]) -> impl Iterator<Item = (&str, &ClusterBody)> {
    nodes(all).filter_map(|(address, node)| Some((address, node.cluster.as_ref().ok()?)))
}

/// Reached, healthy, with room on its disk.
fn of_address(seen: &Seen) -> Vec<Finding> {
    let address = &seen.address;
    let node = match &seen.node {
        Ok(node) => node,
        Err(why) => {
            let next = "start the node, or correct its address in --addr or HOLDFAST_ADDR";
            return vec![Finding::fail("answers", why, next).at(address)];
        }
    };
    let ms = holdfast_types::millis(node.took);
    let mut found = vec![Finding::ok("answers", format!("within {}", for_people(ms))).at(address)];
    found.push(of_health(node).at(address));
    found.extend(node.disk_free.map(|free| of_disk(free).at(address)));
    found
}

fn of_health(node: &Node) -> Finding {
    let health = match &node.ready {
        Ok(health) => health,
        Err(why) => return Finding::fail("ready", why, "look at the node's log"),
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
    let next = "look at the node's log; docs/operations.md says what its messages mean";
    Finding::fail("ready", failed.join("; "), next)
}

fn of_disk(free: u64) -> Finding {
    let found = format!("{} free", bytes(free));
    if free < DISK_FAIL {
        Finding::fail("disk", found, "make room: below storage.disk_reserve it appends nothing")
    } else if free < DISK_WARN {
        Finding::warn("disk", found, "make room before storage.disk_reserve is reached")
    } else {
        Finding::ok("disk", found)
    }
}

/// One cluster, with a leader, as many members as it should have, all of them named.
fn of_cluster(all: &[Seen]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (address, node) in nodes(all) {
        if let Err(why) = &node.cluster {
            found.push(Finding::fail("cluster", why, "look at the node's log").at(address));
        }
    }
    let Some((_, first)) = views(all).next() else { return found };
    found.push(of_identity(all, first));
    if views(all).all(|(_, view)| is_same(view, first)) {
        found.push(of_leader(all, first));
        found.push(of_members(best(all).unwrap_or(first)));
        found.extend(of_names(all.len(), first));
    }
    found
}

/// The view that reaches most.
pub(super) fn best(all: &[Seen]) -> Option<&ClusterBody> {
    views(all).map(|(_, view)| view).max_by_key(|view| {
        (view.leader.is_some(), view.term, view.nodes.iter().filter(|node| node.healthy).count())
    })
}

fn members(view: &ClusterBody) -> BTreeSet<(u64, &str)> {
    view.nodes.iter().map(|node| (node.id.0, node.peer.as_str())).collect()
}

fn is_same(view: &ClusterBody, other: &ClusterBody) -> bool {
    view.cluster == other.cluster && members(view) == members(other)
}

fn of_identity(all: &[Seen], first: &ClusterBody) -> Finding {
    let others: Vec<String> = views(all)
        .filter(|(_, view)| !is_same(view, first))
        .map(|(address, view)| format!("{address} is of {}", view.cluster))
        .collect();
    if others.is_empty() {
        let members = match first.nodes.len() {
            1 => "1 member".to_owned(),
            several => format!("{several} members"),
        };
        return Finding::ok("cluster", format!("{}, {members}", first.cluster));
    }
    let found =
        format!("not one cluster: {}; the first is of {}", others.join(", "), first.cluster);
    let next = "name the nodes of one cluster only; if they should be one, compare [[member]] and cluster in their files";
    Finding::fail("cluster", found, next)
}

fn of_leader(all: &[Seen], first: &ClusterBody) -> Finding {
    let told: BTreeSet<_> =
        views(all).map(|(_, view)| (view.leader.map(|leader| leader.0), view.term)).collect();
    match (told.len(), first.leader) {
        (1, Some(leader)) => Finding::ok("leader", format!("node {leader}, term {}", first.term)),
        (1, None) => Finding::fail(
            "leader",
            format!("none in term {}", first.term),
            "a majority of the members must run and reach each other: start those that do not answer",
        ),
        _ => {
            let told: Vec<String> = views(all)
                .map(|(address, view)| match view.leader {
                    Some(leader) => format!("{address} says node {leader} in term {}", view.term),
                    None => format!("{address} says none in term {}", view.term),
                })
                .collect();
            Finding::warn(
                "leader",
                told.join(", "),
                "ask again: an election may be under way; if it stays so, look at the network between them",
            )
        }
    }
}

fn of_members(view: &ClusterBody) -> Finding {
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
        let next = "start what is missing, before another one goes";
        return Finding::warn("members", format!("{survives}; {}", named.join(", ")), next);
    }
    if all < 3 || all.is_multiple_of(2) {
        return Finding::warn("members", survives, "run three or five nodes");
    }
    Finding::ok("members", survives)
}

/// Whoever names one node only is lost with it.
fn of_names(named: usize, view: &ClusterBody) -> Option<Finding> {
    let all: Vec<&str> = view.nodes.iter().map(|node| node.http.as_str()).collect();
    if named >= all.len() {
        return None;
    }
    let found = format!("{named} of {} members are named here", all.len());
    let next =
        format!("name them all, one that is down is passed over: HOLDFAST_ADDR={}", all.join(","));
    Some(Finding::warn("addresses", found, next))
}

fn of_versions(all: &[Seen], ours: &str) -> Option<Finding> {
    let shown = |node: &Node| match &node.version.commit {
        Some(commit) => format!("{} ({commit})", node.version.version),
        None => node.version.version.clone(),
    };
    let different: BTreeSet<String> = nodes(all).map(|(_, node)| shown(node)).collect();
    let first = different.first()?.clone();
    if different.len() > 1 {
        let each: Vec<String> =
            nodes(all).map(|(address, node)| format!("{address} {}", shown(node))).collect();
        let next = "finish the upgrade, one node after the other";
        return Some(Finding::warn("version", each.join(", "), next));
    }
    let theirs = nodes(all).next().map(|(_, node)| node.version.version.as_str());
    if theirs.is_some_and(|theirs| theirs != ours) {
        let found = format!("the nodes run {first}, this program is {ours}");
        return Some(Finding::warn("version", found, "use the program of the nodes' version"));
    }
    Some(Finding::ok("version", first))
}

/// Clocks are told in whole seconds, so only what is certain is complained about.
fn of_clocks(all: &[Seen]) -> Option<Finding> {
    let here = ("this machine", Ahead { at_least: 0, at_most: 0 });
    let told = nodes(all).filter_map(|(address, node)| Some((address, node.ahead?)));
    let clocks: Vec<_> = told.chain(Some(here)).collect();
    if clocks.len() < 2 {
        return None;
    }
    let (fast, first) = clocks.iter().max_by_key(|(_, ahead)| ahead.at_least)?;
    let (slow, last) = clocks.iter().min_by_key(|(_, ahead)| ahead.at_most)?;
    let certain = first.at_least - last.at_most;
    let possible = clocks.iter().map(|(_, ahead)| ahead.at_most).max()?
        - clocks.iter().map(|(_, ahead)| ahead.at_least).min()?;
    let people = |ms: i64| for_people(u64::try_from(ms).unwrap_or(0));
    if certain > CLOCKS_APART_WARN {
        let found = format!("{fast} is at least {} ahead of {slow}", people(certain));
        let next =
            "synchronise them: locks do not need it, but ages, histories and znodes with a ttl do";
        return Some(Finding::warn("clocks", found, next));
    }
    Some(Finding::ok("clocks", format!("at most {} apart", people(possible))))
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
