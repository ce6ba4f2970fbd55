//! The cluster: its members with their roles and their lag, and the changes in progress.
//!
//! Actions: transfer leadership; add, change, replace and remove a member. A change of the members runs the checks of the API first, as a
//! trial (`dry_run`), and shows their result.

use axum::http::{Method, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::{ClusterBody, ErrorCode, NodeBody, parse_time};
use holdfast_types::{NodeId, Right, Stamp, VotingRole};
use maud::{Markup, html};

use super::overview::health;
use crate::call::{ApiCall, ApiResult, problem};
use crate::form::link;
use crate::layout::problem_box;
use crate::page::{ConsoleAction, ConsolePage, PageContent, PageRequest, PlannedChange};
use crate::text::{grouped, name, size, until, visible};

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "cluster",
    title: "Cluster",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

pub(super) static TRANSFER: ConsoleAction =
    ConsoleAction { name: "transfer-leadership", plan: |request| transfer(request).boxed() };
pub(super) static ADD: ConsoleAction =
    ConsoleAction { name: "add-member", plan: |request| add(request).boxed() };
pub(super) static SET: ConsoleAction =
    ConsoleAction { name: "set-member", plan: |request| set(request).boxed() };
pub(super) static REMOVE: ConsoleAction =
    ConsoleAction { name: "remove-member", plan: |request| remove(request).boxed() };

/// Parameters of a new member.
const MEMBER_FIELDS: [&str; 6] = ["peer", "http", "zookeeper", "zone", "role", "replaces"];

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let cluster: ClusterBody = request.api.read("/v1/cluster").await?;
    let may_manage = request.may(Right::ClusterManage, "").await;
    let live = html! {
        (health(&cluster))
        (facts(&cluster))
        h2 { "Members" }
        div class="cards" { @for node in &cluster.nodes { (card(&cluster, node, may_manage, request.now)) } }
    };
    let below = html! {
        @if may_manage && !request.is_update {
            section aria-labelledby="changes-title" {
                h2 id="changes-title" { "Changes of the members" }
                @for node in &cluster.nodes { (set_form(node)) }
                (add_form(&cluster))
            }
        }
    };
    Ok(PageContent {
        title: format!("Cluster {}", cluster.cluster),
        live,
        below,
        ..PageContent::default()
    })
}

fn facts(cluster: &ClusterBody) -> Markup {
    html! {
        dl id="facts" {
            dt { "term" } dd { (grouped(cluster.term)) }
            dt { "feature level" } dd { (cluster.level) }
            @if let Some(id) = &cluster.cluster_id { dt { "cluster id" } dd { code { (visible(id)) } } }
            dt { "last backup" } dd { @match &cluster.last_backup { Some(at) => (visible(&at.replace('T', " "))), None => "none" } }
            dt { "change in progress" } dd id="change-in-progress" {
                @match &cluster.change_waits_for { Some(wait) => (visible(wait)), None => "none" }
            }
        }
    }
}

fn card(cluster: &ClusterBody, node: &NodeBody, may_manage: bool, now: Stamp) -> Markup {
    let newest = cluster.nodes.iter().map(|node| node.applied_revision.0).max().unwrap_or_default();
    let is_reachable = node.role != "unreachable";
    let id = node.id.to_string();
    html! {
        article id={ "node-" (id) } data-node=(id) data-role=(node.role) class=[(!node.healthy).then_some("unhealthy")] {
            h3 { "Node " (id) ": " (node.role) }
            p { (if node.healthy { "Healthy" } else { "Not healthy" }) @if !node.votes { ", without a vote" } }
            dl {
                dt { "HTTP" } dd { (name(&node.http)) }
                dt { "peers" } dd { (name(&node.peer)) }
                dt { "ZooKeeper" } dd { (name(&node.zookeeper)) }
                @if let Some(zone) = &node.zone { dt { "zone" } dd { (name(zone.to_string())) } }
                @if is_reachable {
                    dt { "behind" } dd { (grouped(newest.saturating_sub(node.applied_revision.0))) " revisions" }
                    @if let Some(version) = &node.version { dt { "version" } dd { (visible(version)) } }
                    @if let Some(level) = node.level_max { dt { "knows level" } dd { (level) } }
                }
                (host(node, now))
                @if let Some(change) = &node.change { dt { "change" } dd { (visible(change)) } }
            }
            @if may_manage {
                p class="buttons" {
                    @if node.votes && cluster.leader != Some(node.id) && is_reachable {
                        a href=(link("act", &[("do", TRANSFER.name), ("to", &id)])) data-action="transfer-leadership" { "Make leader" }
                    }
                    a href=(link("act", &[("do", REMOVE.name), ("id", &id)])) data-action="remove-member" { "Remove" }
                }
            }
        }
    }
}

/// The machine of the node and its connections, if the node told them.
fn host(node: &NodeBody, now: Stamp) -> Markup {
    html! {
        @if let Some(free) = node.disk_free_bytes { dt { "disk" } dd { (size(free)) " free" } }
        @if let Some(log) = node.log_bytes {
            dt { "log" } dd { (size(log)) }
            dt { "reaches" } dd data-field="reaches" {
                @if node.cannot_reach.is_empty() { "every member" }
                @else { strong { "not " @for (at, id) in node.cannot_reach.iter().enumerate() { (if at > 0 { ", " } else { "" }) "node " (id) } } }
            }
        }
        @if let Some(at) = node.certificate_expires_at.as_deref().and_then(parse_time) {
            dt { "certificate" } dd { @if at <= now { strong { "expired" } } @else { "expires in " (until(at, now)) } }
        }
    }
}

/// The role, the addresses and the zone of a member, to change them.
fn set_form(node: &NodeBody) -> Markup {
    let zone = node.zone.as_ref().map(ToString::to_string).unwrap_or_default();
    let field = |field: &str, label: &str, value: &str| {
        html! {
            label for={ "set-" (node.id) "-" (field) } { (label) }
            input id={ "set-" (node.id) "-" (field) } name=(field) value=(value) autocomplete="off" spellcheck="false";
        }
    };
    html! {
        details {
            summary data-action="set-member" { "Change node " (node.id) ": role, addresses, zone" }
            form method="get" action="act" class="panel" {
                input type="hidden" name="do" value=(SET.name);
                input type="hidden" name="id" value=(node.id);
                label for={ "set-" (node.id) "-role" } { "Role" }
                select id={ "set-" (node.id) "-role" } name="role" {
                    option value="" { "as it is" }
                    @for role in VotingRole::ALL { option value=(role.as_str()) { (role.as_str()) } }
                }
                (field("peer", "Address for other nodes", &node.peer))
                (field("http", "Address of its HTTP API", &node.http))
                (field("zookeeper", "Address of its ZooKeeper port", &node.zookeeper))
                (field("zone", "Zone", &zone))
                div class="buttons" { button type="submit" { "Run the checks" } }
            }
        }
    }
}

fn add_form(cluster: &ClusterBody) -> Markup {
    let field = |field: &str, label: &str, example: &str, is_needed: bool| {
        html! {
            label for={ "add-" (field) } { (label) }
            input id={ "add-" (field) } name=(field) required[is_needed] placeholder=(example) autocomplete="off";
        }
    };
    html! {
        details id="add-member" {
            summary { "Add or replace a member" }
            form method="get" action="act" class="panel" {
                input type="hidden" name="do" value=(ADD.name);
                (field("peer", "Address for other nodes", "10.0.0.4:7401", true))
                (field("http", "Address of its HTTP API", "10.0.0.4:7400", true))
                (field("zookeeper", "Address of its ZooKeeper port", "10.0.0.4:7402", true))
                (field("zone", "Zone", "none", false))
                label for="add-replaces" { "Replaces" }
                select id="add-replaces" name="replaces" {
                    option value="" { "no member" }
                    @for node in &cluster.nodes { option value=(node.id) { "node " (node.id) } }
                }
                div class="buttons" { button type="submit" { "Run the checks" } }
            }
        }
    }
}

/// The member that the fields name.
async fn member(request: &PageRequest, field: &str) -> ApiResult<(ClusterBody, NodeBody)> {
    let cluster: ClusterBody = request.api.read("/v1/cluster").await?;
    let wanted = request.fields.get(field).and_then(|id| id.parse().ok()).map(NodeId);
    let found = cluster.nodes.iter().find(|node| Some(node.id) == wanted).cloned();
    let found = found.ok_or_else(|| {
        let code = (ErrorCode::NotFound, StatusCode::NOT_FOUND);
        problem(code, "the cluster has no such member", "open the page of the cluster again")
    })?;
    Ok((cluster, found))
}

async fn transfer(request: &PageRequest) -> ApiResult<PlannedChange> {
    let (cluster, node) = member(request, "to").await?;
    let present = cluster.leader.map_or_else(|| "no node".to_owned(), |id| format!("node {id}"));
    let effect = html! {
        ul {
            li { "Node " (node.id) " leads instead of " (present) "." }
            li { "Calls wait for the short time without a leader. No lock and no session is lost." }
        }
    };
    let query = vec![("to", node.id.to_string())];
    let path = "/v1/cluster/transfer".to_owned();
    let title = format!("Make node {} the leader", node.id);
    let call = ApiCall { method: Method::POST, path, query };
    Ok(PlannedChange::new(title, "Transfer leadership", effect, call, "cluster".to_owned()))
}

async fn add(request: &PageRequest) -> ApiResult<PlannedChange> {
    let query = MEMBER_FIELDS.iter();
    let query = query.filter_map(|field| Some((*field, request.fields.typed(field)?.to_owned())));
    let call =
        ApiCall { method: Method::POST, path: "/v1/members".to_owned(), query: query.collect() };
    let replaced = request.fields.get("replaces");
    let effect = html! {
        ul {
            li { "A join token is made for the new machine. It is valid for one hour, and appears once." }
            li { "The new node receives the whole log before it votes." }
            @if let Some(replaced) = replaced { li { "Node " (visible(replaced)) " leaves in the same step, and its id is never used again." } }
        }
        (checks(request, &call, false).await)
    };
    let title = "Add a member".to_owned();
    let change = PlannedChange::new(title, "Add the member", effect, call, "cluster".to_owned());
    Ok(PlannedChange { has_secret: true, ..change })
}

async fn set(request: &PageRequest) -> ApiResult<PlannedChange> {
    let (_, node) = member(request, "id").await?;
    let changes = changes_of(&node, |field| request.fields.typed(field));
    let path = format!("/v1/members/{}", node.id);
    let call = ApiCall { method: Method::PATCH, path, query: changes };
    let effect = html! {
        ul {
            @for (field, value) in &call.query { li { "The " (field) " of node " (node.id) " becomes " (name(value)) "." } }
            @if call.query.is_empty() { li { "Nothing changes." } }
        }
        (checks(request, &call, false).await)
    };
    let title = format!("Change node {}", node.id);
    Ok(PlannedChange::new(title, "Change the member", effect, call, "cluster".to_owned()))
}

/// The parameters whose fields differ from the member.
fn changes_of<'a>(
    node: &NodeBody,
    wanted: impl Fn(&str) -> Option<&'a str>,
) -> Vec<(&'static str, String)> {
    let zone = node.zone.as_ref().map(ToString::to_string).unwrap_or_default();
    let present = [
        ("role", ""),
        ("peer", &node.peer),
        ("http", &node.http),
        ("zookeeper", &node.zookeeper),
        ("zone", &zone),
    ];
    let changed = present.into_iter().filter_map(|(field, present)| {
        let wanted = wanted(field).filter(|wanted| !wanted.is_empty() && *wanted != present)?;
        Some((field, wanted.to_owned()))
    });
    changed.collect()
}

async fn remove(request: &PageRequest) -> ApiResult<PlannedChange> {
    let (_, node) = member(request, "id").await?;
    let path = format!("/v1/members/{}", node.id);
    let call = ApiCall { method: Method::DELETE, path, query: Vec::new() };
    let effect = html! {
        ul {
            li { "Node " (node.id) " (" (name(&node.http)) ") leaves the cluster and stops. Its id is never used again." }
            li { "The cluster has one member fewer: see whether it survives the loss of another." }
        }
        (checks(request, &call, true).await)
    };
    let title = format!("Remove node {}", node.id);
    let change = PlannedChange::new(title, "Remove the member", effect, call, "cluster".to_owned());
    Ok(PlannedChange { takes_reason: true, typed: Some(format!("node {}", node.id)), ..change })
}

/// The result of the API's checks, from a trial of the call.
async fn checks(request: &PageRequest, call: &ApiCall, takes_reason: bool) -> Markup {
    let mut trial = call.clone();
    trial.query.push(("dry_run", "true".to_owned()));
    if takes_reason {
        trial.query.push(("reason", "trial".to_owned()));
    }
    match request.api.change(&trial).await {
        Ok(_) => {
            html! { p id="checks" class="good" { "Checks: passed. The cluster allows the change now." } }
        }
        Err(refused) => {
            html! { div id="checks" { p class="bad" { "Checks: failed. The cluster refuses the change now." } (problem_box(&refused)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> ClusterBody {
        serde_json::from_str(
            r#"{"cluster":"c","cluster_id":"0c","level":1,"term":3,"leader":1,"nodes":[
                {"id":1,"role":"leader","votes":true,"http":"h1:1","peer":"h1:2","zookeeper":"h1:3","applied_revision":12,"healthy":true,
                 "disk_free_bytes":2147483648,"log_bytes":1048576,"certificate_expires_at":"2026-03-03T00:00:00Z","cannot_reach":[2,3]},
                {"id":2,"role":"follower","votes":true,"http":"h2:1","peer":"h2:2","zookeeper":"h2:3","applied_revision":9,"healthy":true},
                {"id":3,"role":"unreachable","votes":true,"http":"h3:1","peer":"h3:2","zookeeper":"h3:3","applied_revision":0,"healthy":false}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_member_shows_its_lag_and_only_a_manager_sees_actions() {
        let cluster = cluster();
        let now = parse_time("2026-03-01T00:00:00Z").unwrap();
        let of = |at: usize, may| card(&cluster, &cluster.nodes[at], may, now).into_string();
        assert!(of(1, false).contains("<dd>3 revisions</dd>"), "{}", of(1, false));
        assert!(!of(1, false).contains("act?"));
        assert!(of(1, true).contains("act?do=transfer-leadership&amp;to=2"), "{}", of(1, true));
        assert!(!of(0, true).contains("transfer-leadership"), "node 1 leads already");
        let leader = of(0, false);
        for shown in ["2.0 GiB free", "<dd>1.0 MiB</dd>", "not node 2, node 3", ">2 d 0 h</time>"] {
            assert!(leader.contains(shown), "{shown} in {leader}");
        }
        assert!(!of(1, false).contains("disk"), "an older node tells nothing");
        let gone = of(2, true);
        let form = set_form(&cluster.nodes[2]).into_string();
        assert!(form.contains(r#"name="peer" value="h3:2""#), "{form}");
        let filled = |field: &str| match field {
            "peer" => Some("h9:2"),
            "http" => Some("h3:1"),
            _ => Some(""),
        };
        assert_eq!(changes_of(&cluster.nodes[2], filled), [("peer", "h9:2".to_owned())]);
        assert!(gone.contains("Not healthy") && !gone.contains("revisions"), "{gone}");
        assert!(!gone.contains("transfer-leadership"), "{gone}");
    }
}
