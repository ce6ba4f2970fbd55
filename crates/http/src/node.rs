//! One node: its health, metrics, version and log, and the alarms that it knows of.

mod prometheus_text;

use std::future::ready;
use std::time::Duration;

use axum::http::StatusCode;
use holdfast_api::parameters::member::{LOG, LOG_FOR};
use holdfast_api::{
    AlarmBody, AlarmsBody, CallParams as _, CheckBody, ErrorCode, HealthBody, NodeLogBody, Param,
    ParamError, Schemas, VersionBody, params,
};
use holdfast_service::{Alarm, AlarmsView, Check, ReportedAlarm};
use holdfast_types::{Right, millis};
use prometheus_client::encoding::text::encode;

use crate::access::CallAccess;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Content, Example, Method, Operation, ResponseSpec, Scope};
use crate::reply::Reply;
use crate::routes;
use crate::status::internal;

/// The page with a section for each alarm.
const ALARMS_PAGE: &str = "docs/operations.md";

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

const VERBOSE: Param = Param::flag("verbose", "Has no effect: the response lists every check");

pub(crate) static LIVE: Operation = Operation {
    summary: "Check whether the process is alive",
    params: LiveParams::LIST,
    answers: || health_answers("A check failed: restart the process"),
    ..Operation::node("isLive", &routes::LIVE, CallAccess::Public, |call| {
        Box::pin(ready(Ok(live(call))))
    })
};

pub(crate) static READY: Operation = Operation {
    summary: "Check whether the node accepts calls",
    params: ReadyParams::LIST,
    answers: || health_answers("A check failed: send calls to another node"),
    ..Operation::node("isReady", &routes::READY, CallAccess::Public, |call| {
        Box::pin(ready(is_ready(call)))
    })
};

pub(crate) static ALARMS: Operation = Operation {
    summary: "List the alarms of all nodes, with the next step for each",
    description: "An alarm is computed from the present state and blocks nothing. It ends when its cause has ended. The leader \
                  reports what it knows about its followers.",
    answers: || {
        let about = "The alarms, the most urgent first; an empty list if there is none";
        ResponseSpec::ok(about, Schemas::of::<AlarmsBody>)
    },
    ..Operation::node(
        "listAlarms",
        &routes::ALARMS,
        CallAccess::Right(Right::ClusterRead),
        |call| Box::pin(alarms(call)),
    )
};

pub(crate) static METRICS: Operation = Operation {
    // A scraper may add its own query parameters.
    scope: Scope::Static,
    summary: "Read the metrics of the node as text of Prometheus, or of OpenMetrics if Accept names it",
    answers: || {
        let answer = ResponseSpec::empty(StatusCode::OK, "The metrics of the node");
        let text = answer.or("text/plain", Content::Text);
        vec![text.or("application/openmetrics-text", Content::Text)]
    },
    errors: &[ErrorCode::Internal],
    ..Operation::node(
        "readMetrics",
        &routes::METRICS,
        CallAccess::Right(Right::MetricsRead),
        |call| Box::pin(ready(metrics(call))),
    )
};

pub(crate) static VERSION: Operation = Operation {
    summary: "Read the version of the running node",
    answers: || ResponseSpec::ok("The version", Schemas::of::<VersionBody>),
    ..Operation::node("readVersion", &routes::VERSION, CallAccess::Public, |call| {
        Box::pin(ready(Ok(version(call))))
    })
};

pub(crate) static SET_LOG: Operation = Operation {
    method: Method::Patch,
    body: BodyKind::SMALL,
    summary: "Change the filter of this node's log for a time",
    description: "Afterwards the configured filter applies again. Only the node that receives the call changes its log.",
    params: SetLogParams::LIST,
    example: Example { query: "log=info,holdfast_raft=debug&for=10m", body: "" },
    answers: || ResponseSpec::ok("The filter that the node uses", Schemas::of::<NodeLogBody>),
    ..Operation::node(
        "setNodeLog",
        &routes::NODE,
        CallAccess::Right(Right::ClusterOperate),
        |call| Box::pin(set_log(call)),
    )
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

params! {
    struct SetLogParams {
        log: Option<String> = LOG,
        lasts: Duration = LOG_FOR,
    }
}

fn health_answers(failed: &'static str) -> Vec<ResponseSpec> {
    vec![
        ResponseSpec::json(StatusCode::OK, "Every check passed", Schemas::of::<HealthBody>),
        ResponseSpec::json(StatusCode::SERVICE_UNAVAILABLE, failed, Schemas::of::<HealthBody>),
    ]
}

fn live(call: &CallContext<'_>) -> Reply {
    health(call.state.service().health().live, None)
}

fn is_ready(call: &CallContext<'_>) -> HandlerResult {
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

async fn alarms(call: &CallContext<'_>) -> HandlerResult {
    call.require(Right::ClusterRead)?;
    let AlarmsView { alarms, unreachable } = call.state.service().alarms().await;
    let alarms = alarms.into_iter().map(alarm_body).collect();
    Ok(Reply::json(StatusCode::OK, &AlarmsBody { alarms, unreachable }))
}

fn alarm_body(ReportedAlarm { alarm, nodes }: ReportedAlarm) -> AlarmBody {
    let Alarm { kind, severity, detail } = alarm;
    AlarmBody {
        name: kind.as_str().to_owned(),
        severity: severity.as_str().to_owned(),
        nodes,
        detail,
        hint: kind.next_step().to_owned(),
        docs: format!("{ALARMS_PAGE}#{}", kind.as_str()),
    }
}

fn metrics(call: &CallContext<'_>) -> HandlerResult {
    call.require(Right::MetricsRead)?;
    call.state.service().refresh_metrics();
    let mut text = String::new();
    encode(&mut text, call.state.registry())
        .map_err(|error| internal(format!("cannot encode the metrics: {error}")))?;
    if call.accepts("application/openmetrics-text") {
        return Ok(Reply::text_as(OPENMETRICS, text));
    }
    Ok(Reply::text_as(PROMETHEUS, prometheus_text::of_openmetrics(&text)))
}

fn version(call: &CallContext<'_>) -> Reply {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let commit = call.state.config().commit.clone();
    Reply::json(StatusCode::OK, &VersionBody { version, commit })
}

async fn set_log(call: &mut CallContext<'_>) -> HandlerResult {
    let SetLogParams { log, lasts } = call.params()?;
    call.require(Right::ClusterOperate)?;
    let filter = &call.state.config().log_filter;
    let set = |log: Option<&str>| {
        let set = filter.set(log, lasts);
        set.map_err(|reason| ParamError::of("log", ErrorCode::InvalidArgument, reason))
    };
    // A wrong filter leaves no record, and a change without a record ends at once.
    set(log.as_deref())?;
    if let Err(failure) = call.service().record_log_change(log.clone(), lasts).await {
        set(None)?;
        return Err(call.error(failure));
    }
    let configured = filter.configured().to_owned();
    let ends_in_ms = log.is_some().then(|| millis(lasts));
    let log = log.unwrap_or_else(|| configured.clone());
    let by = call.service().shown_caller();
    tracing::info!(target: "audit", action = "set-log", filter = log, ends_in_ms, by, "the filter of the log was changed");
    let node = call.state.service().node();
    Ok(Reply::json(StatusCode::OK, &NodeLogBody { node, log, configured, ends_in_ms }))
}
