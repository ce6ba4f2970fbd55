//! What a node says about itself and the cluster, and about calls that nothing answers.

use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method, StatusCode};
use prometheus_client::encoding::text::encode;

use holdfast_api::{
    CheckBody, ClusterBody, ErrorCode, HealthBody, Keys, NodeBody, Problem, ReadyParams,
    VersionBody,
};
use holdfast_service::{Check, ClusterMember, ClusterView, Role};

use crate::exchange::Exchange;
use crate::reply::Reply;
use crate::routes::nearest;
use crate::status::{Fault, internal, sealed};

/// What `/metrics` is written in.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /v1/cluster`
pub(crate) async fn cluster(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    exchange.fields(&Keys::NONE)?;
    let ClusterView { cluster, term, leader, nodes } = exchange.front.service().cluster().await;
    let nodes = nodes.into_iter().map(member).collect();
    Ok(Reply::json(StatusCode::OK, &ClusterBody { cluster, term, leader, nodes }))
}

fn member(view: ClusterMember) -> NodeBody {
    let role = match view.role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Candidate => "candidate",
        Role::Learner => "learner",
        Role::Stopped => "stopped",
        Role::Unreachable => "unreachable",
    };
    NodeBody {
        id: view.id,
        role: role.to_owned(),
        http: view.http,
        peer: view.peer,
        zookeeper: view.zookeeper,
        applied: view.applied,
        healthy: view.healthy,
    }
}

/// `GET /livez`
pub(crate) fn live(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    exchange.query(&ReadyParams::LIVE_KEYS)?;
    Ok(health(exchange.front.service().health().live, None))
}

/// `GET /readyz`
pub(crate) fn ready(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    let params = ReadyParams::parse(&exchange.fields(&ReadyParams::KEYS)?);
    let service = exchange.front.service();
    let leads = params.leader.then(|| {
        let (leader, node) = (service.leader(), service.node());
        let ok = leader == Some(node);
        let detail = if ok { "this node leads" } else { "another node leads, or none" };
        CheckBody { name: "leads".to_owned(), ok, detail: detail.to_owned() }
    });
    Ok(health(service.health().ready, leads))
}

fn health(checks: Vec<Check>, more: Option<CheckBody>) -> Reply {
    let body = |Check { name, ok, detail }| CheckBody { name: name.to_owned(), ok, detail };
    let health = HealthBody::new(checks.into_iter().map(body).chain(more).collect());
    let status = if health.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Reply::json(status, &health)
}

/// `GET /metrics`
pub(crate) fn metrics(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    exchange.front.service().refresh_metrics();
    let mut text = String::new();
    encode(&mut text, exchange.front.registry())
        .map_err(|error| internal(format!("metrics without form: {error}")))?;
    Ok(Reply::text_as(OPENMETRICS, text))
}

/// `GET /version`
pub(crate) fn version(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    exchange.fields(&Keys::NONE)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let commit = exchange.front.config().commit.clone();
    Ok(Reply::json(StatusCode::OK, &VersionBody { version, commit }))
}

/// A path that exists, with a method it does not take; the router adds the header Allow, which is all that OPTIONS wants.
pub(crate) fn wrong_method(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    if exchange.parts.method == Method::OPTIONS {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    }
    let (method, path) = (exchange.parts.method.as_str(), exchange.parts.uri.path());
    let detail = format!("'{}' does not take {}", shown(path), shown(method));
    let hint = "the header Allow lists what it takes";
    Err(sealed(Problem::new(ErrorCode::MethodNotAllowed, 0, detail).hint(hint)))
}

/// A path that does not exist, or `OPTIONS *`: what the node takes at all.
pub(crate) fn no_such_path(exchange: &Exchange<'_>) -> Result<Reply, Fault> {
    let path = exchange.parts.uri.path();
    if exchange.parts.method == Method::OPTIONS && path == "*" {
        let methods = HeaderValue::from_static("GET,HEAD,PUT,POST,DELETE,OPTIONS");
        return Ok(Reply::empty(StatusCode::NO_CONTENT).with_header(ALLOW, methods));
    }
    let mut missing = Problem::new(ErrorCode::NotFound, 0, format!("no path '{}'", shown(path)));
    if let Some(near) = nearest(path) {
        missing.facts.nearest = Some(near.into());
        missing = missing.hint(format!("did you mean {near}?"));
    }
    Err(sealed(missing))
}

/// At most 128 bytes, for a message.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(128)]
}
