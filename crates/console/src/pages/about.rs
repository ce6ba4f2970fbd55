//! About: the version of the node, the feature level of the cluster, and the log of the node for ten minutes.

use std::future::ready;

use axum::http::Method;
use futures_util::FutureExt as _;
use holdfast_api::{ClusterBody, VersionBody};
use holdfast_types::Right;
use maud::{Markup, html};

use crate::call::{ApiCall, ApiResult};
use crate::layout::missing;
use crate::page::{ConsoleAction, ConsolePage, PageContent, PageRequest, PlannedChange};
use crate::text::visible;

pub(super) static PAGE: ConsolePage = ConsolePage {
    path: "about",
    title: "About",
    in_navigation: true,
    render: |request| render(request).boxed(),
};

pub(super) static SET_LOG: ConsoleAction =
    ConsoleAction { name: "set-log", plan: |request| ready(Ok(set_log(request))).boxed() };

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

async fn render(request: &PageRequest) -> ApiResult<PageContent> {
    let version: VersionBody = request.api.read("/version").await?;
    let cluster: ApiResult<ClusterBody> = request.api.read("/v1/cluster").await;
    let may_operate = request.may(Right::ClusterOperate, "").await;
    Ok(PageContent {
        title: "About".to_owned(),
        live: html! {
            (program(request, &version))
            @match &cluster { Ok(cluster) => (levels(cluster)), Err(problem) => (missing("the cluster", problem)) }
        },
        below: html! { @if may_operate { (log_form(request)) } (documents()) },
        ..PageContent::default()
    })
}

fn program(request: &PageRequest, version: &VersionBody) -> Markup {
    html! {
        dl id="about" {
            dt { "Version of this node" } dd data-field="version" { (version.version) @if let Some(commit) = &version.commit { " (" code { (visible(commit)) } ")" } }
            dt { "Address" } dd { code { (request.address) } }
            @if let Some(node) = request.api.place().node { dt { "Node" } dd { (node) } }
            dt { "Licence" } dd { "MIT or Apache-2.0" }
        }
    }
}

fn levels(cluster: &ClusterBody) -> Markup {
    html! {
        section aria-labelledby="levels-title" {
            h2 id="levels-title" { "Feature level" }
            p id="level" data-level=(cluster.level) { "The cluster " (visible(&cluster.cluster)) " has feature level " strong { (cluster.level) } "." }
            ul { @for node in &cluster.nodes {
                li { "Node " (node.id) ": version " (node.version.as_deref().unwrap_or("unknown"))
                    @if let Some(level) = node.level_max { ", knows levels up to " (level) } }
            } }
            p.quiet { code { "holdfast cluster level" } " raises the level when every node has the newer version." }
        }
    }
}

fn log_form(request: &PageRequest) -> Markup {
    let node = request.api.place().node;
    html! {
        section aria-labelledby="log-title" {
            h2 id="log-title" { "Log of " @match node { Some(node) => { "node " (node) } None => "this node" } }
            form method="get" action="act" class="filters" {
                input type="hidden" name="do" value=(SET_LOG.name);
                label for="log" { "For ten minutes" }
                select id="log" name="log" { @for level in LEVELS { option value=(level) selected[level == "debug"] { (level) } } }
                button type="submit" { "Continue" }
            }
        }
    }
}

fn documents() -> Markup {
    html! {
        section aria-labelledby="documents-title" {
            h2 id="documents-title" { "Documents" }
            ul {
                li { a href="../docs" { "Every call of the API" } }
                li { a href="../openapi.json" { "The description of the API as OpenAPI" } }
            }
        }
    }
}

fn set_log(request: &PageRequest) -> PlannedChange {
    let wanted = request.fields.get("log").unwrap_or_default();
    let level = LEVELS.into_iter().find(|level| *level == wanted).unwrap_or("debug");
    let query = vec![("log", level.to_owned()), ("for", "10m".to_owned())];
    let title = format!("Log with level {level}");
    let effect = html! { p { "This node logs with level " strong { (level) } " for ten minutes. Then the configured filter applies again." } };
    let call = ApiCall { method: Method::PATCH, path: "/v1/node".to_owned(), query };
    PlannedChange::new(title, "Change the log", effect, call, "about".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_its_version_and_its_highest_level() {
        let text = r#"{"cluster":"<b>shop","cluster_id":null,"level":2,"term":1,"leader":1,"nodes":[{"id":1,"role":"leader","votes":true,
            "http":"h:1","peer":"h:2","zookeeper":"h:3","applied_revision":1,"healthy":true,"version":"0.1.0","level_max":2}]}"#;
        let shown = levels(&serde_json::from_str(text).unwrap()).into_string();
        assert!(shown.contains("version 0.1.0, knows levels up to 2"), "{shown}");
        assert!(shown.contains(r#"data-level="2""#) && !shown.contains("<b>"), "{shown}");
    }
}
