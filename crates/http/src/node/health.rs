//! `GET /livez` and `GET /readyz`: whether a supervisor should restart the node, and whether it should receive calls.

use std::future::ready;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{CallParams as _, CheckBody, HealthBody, Param, Schemas, params};
use holdfast_service::Check;

use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes;
use crate::status::HttpError;

const VERBOSE: Param = Param::flag("verbose", "Has no effect: the response lists every check");

pub(crate) static LIVE: Operation = Operation {
    summary: "Check whether the process is alive",
    params: LiveParams::LIST,
    answers: || answers("A check failed: restart the process"),
    ..Operation::public("isLive", &routes::LIVE, |call| ready(Ok(live(call))).boxed())
};

pub(crate) static READY: Operation = Operation {
    summary: "Check whether the node accepts calls",
    params: ReadyParams::LIST,
    answers: || answers("A check failed: send calls to another node"),
    ..Operation::public("isReady", &routes::READY, |call| ready(is_ready(call)).boxed())
};

params! {
    struct LiveParams {
        _verbose: bool = VERBOSE,
    }
}

params! {
    struct ReadyParams {
        leader: bool = Param::flag("leader", "Fail unless this node is the leader"),
        _verbose: bool = VERBOSE,
    }
}

fn answers(failed: &'static str) -> Vec<ResponseSpec> {
    vec![
        ResponseSpec::json(StatusCode::OK, "Every check passed", Schemas::of::<HealthBody>),
        ResponseSpec::json(StatusCode::SERVICE_UNAVAILABLE, failed, Schemas::of::<HealthBody>),
    ]
}

fn live(call: &CallContext<'_>) -> Reply {
    health(call.state.service().health().live, None)
}

fn is_ready(call: &CallContext<'_>) -> Result<Reply, HttpError> {
    let ReadyParams { leader, .. } = call.params()?;
    let service = call.state.service();
    let leads = leader.then(|| {
        let ok = service.leader() == Some(service.node());
        let detail = if ok { "this node leads" } else { "this node does not lead" };
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
