//! The operations on the cluster and the node, and the pages about the API itself.

use axum::http::StatusCode;
use holdfast_api::{ClusterBody, ErrorCode, HealthBody, Keys, ReadyParams, Schemas, VersionBody};

use super::{Answer, Content, Operation, Reach};

/// An operation that takes nothing and that the node answers by itself.
fn here(id: &'static str, summary: &'static str, answers: Vec<Answer>) -> Operation {
    Operation {
        id,
        summary,
        about: "",
        keys: Keys::NONE,
        headers: &[],
        reach: Reach::Here,
        answers,
        codes: &[],
    }
}

pub(super) fn cluster() -> Operation {
    let about = "The cluster as this node sees it";
    let answer = Answer::json(StatusCode::OK, about, Schemas::of::<ClusterBody>);
    here("readCluster", "The nodes of the cluster, and who leads", vec![answer])
}

fn health(holds: &'static str, fails: &'static str) -> Vec<Answer> {
    vec![
        Answer::json(StatusCode::OK, holds, Schemas::of::<HealthBody>),
        Answer::json(StatusCode::SERVICE_UNAVAILABLE, fails, Schemas::of::<HealthBody>),
    ]
}

pub(super) fn live() -> Operation {
    let answers = health("Every check holds", "The process should be replaced");
    let keys = ReadyParams::LIVE_KEYS;
    Operation { keys, ..here("isLive", "Whether the process should go on", answers) }
}

pub(super) fn ready() -> Operation {
    let answers = health("Every check holds", "Calls should go to another node");
    let keys = ReadyParams::KEYS;
    Operation { keys, ..here("isReady", "Whether calls should come here", answers) }
}

pub(super) fn metrics() -> Operation {
    let text = Answer::empty(StatusCode::OK, "Everything that is counted")
        .or("application/openmetrics-text", Content::Text);
    Operation {
        codes: &[ErrorCode::Internal],
        ..here("readMetrics", "What the node has counted, as OpenMetrics text", vec![text])
    }
}

pub(super) fn version() -> Operation {
    let answer = Answer::json(StatusCode::OK, "What runs", Schemas::of::<VersionBody>);
    here("readVersion", "The release that runs", vec![answer])
}

pub(super) fn explain() -> Operation {
    let page = Answer::empty(StatusCode::OK, "The explanation")
        .or("text/plain", Content::Text)
        .or("text/html", Content::Text);
    Operation {
        codes: &[ErrorCode::NotFound],
        ..here("explainError", "What an error code means and what to do", vec![page])
    }
}

pub(super) fn openapi() -> Operation {
    let answer = Answer::json(
        StatusCode::OK,
        "This document",
        |_| serde_json::json!({ "type": "object", "required": ["openapi", "info", "paths"] }),
    );
    here("describeApi", "This description of the API", vec![answer])
}

pub(super) fn docs() -> Operation {
    let page = Answer::empty(StatusCode::OK, "The page").or("text/html", Content::Text);
    here("readDocs", "The description of the API as a page for people", vec![page])
}
