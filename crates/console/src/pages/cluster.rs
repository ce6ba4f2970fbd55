//! The cluster: its members with their roles and their lag, and the changes in progress.
//!
//! Actions: transfer leadership, add, replace and remove a member. A change of the members runs the checks of the API first, as a
//! trial (`dry_run`), and shows their result.

use axum::http::{Method, StatusCode};
use futures_util::FutureExt as _;
use holdfast_api::{ClusterBody, ErrorCode, NodeBody};
use holdfast_types::{NodeId, Right};
use maud::{Markup, html};

use super::overview::health;
use crate::call::{ApiCall, ApiResult, problem};
use crate::fields::link;
use crate::layout::problem_box;
use crate::page::{ConsoleAction, ConsolePage, PageContent, PlannedChange};
use crate::request::PageRequest;
use crate::text::{grouped, name, visible};

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
        div class="cards" { @for node in &cluster.nodes { (card(&cluster, node, may_manage)) } }
    };
    let below = if may_manage && !request.is_update {
        add_form(&cluster)
    } else {
        html! {}
    };
    Ok(PageContent {
        title: format!("Cluster {}", cluster.cluster),
        above: html! {},
        live,
        below,
        revision: None,
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

fn card(cluster: &ClusterBody, node: &NodeBody, may_manage: bool) -> Markup {
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
    Ok(PlannedChange {
        title: format!("Make node {} the leader", node.id),
        button: "Transfer leadership",
        effect,
        call: ApiCall { method: Method::POST, path, query },
        takes_reason: false,
        typed: None,
        back: "cluster".to_owned(),
        has_secret: false,
    })
}

async fn add(request: &PageRequest) -> ApiResult<PlannedChange> {
    let query = MEMBER_FIELDS.iter();
    let query = query.filter_map(|field| Some((*field, request.fields.get(field)?.to_owned())));
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
    Ok(PlannedChange {
        title: "Add a member".to_owned(),
        button: "Add the member",
        effect,
        call,
        takes_reason: false,
        typed: None,
        back: "cluster".to_owned(),
        has_secret: true,
    })
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
    Ok(PlannedChange {
        title: format!("Remove node {}", node.id),
        button: "Remove the member",
        effect,
        call,
        takes_reason: true,
        typed: Some(format!("node {}", node.id)),
        back: "cluster".to_owned(),
        has_secret: false,
    })
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
                {"id":1,"role":"leader","votes":true,"http":"h1:1","peer":"h1:2","zookeeper":"h1:3","applied_revision":12,"healthy":true},
                {"id":2,"role":"follower","votes":true,"http":"h2:1","peer":"h2:2","zookeeper":"h2:3","applied_revision":9,"healthy":true},
                {"id":3,"role":"unreachable","votes":true,"http":"h3:1","peer":"h3:2","zookeeper":"h3:3","applied_revision":0,"healthy":false}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_member_shows_its_lag_and_only_a_manager_sees_actions() {
        let cluster = cluster();
        let of = |at: usize, may| card(&cluster, &cluster.nodes[at], may).into_string();
        assert!(of(1, false).contains("<dd>3 revisions</dd>"), "{}", of(1, false));
        assert!(!of(1, false).contains("act?"));
        assert!(of(1, true).contains("act?do=transfer-leadership&amp;to=2"), "{}", of(1, true));
        assert!(!of(0, true).contains("transfer-leadership"), "node 1 leads already");
        let gone = of(2, true);
        assert!(gone.contains("Not healthy") && !gone.contains("revisions"), "{gone}");
        assert!(!gone.contains("transfer-leadership"), "{gone}");
    }
}
