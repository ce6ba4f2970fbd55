//! One node: its health, metrics, recent figures, version and log, and the alarms that it knows of.

use std::future::ready;
use std::time::Duration;

use axum::http::StatusCode;
use holdfast_api::parameters::member::{LAST, LOG, LOG_FOR, METRIC, STEP};
use holdfast_api::{
    AlarmBody, AlarmsBody, CallParams as _, CheckBody, ErrorCode, HealthBody, NodeLogBody, Param,
    ParamError, RecentBody, RecentFigureBody, Schemas, VersionBody, format_time, params,
};
use holdfast_service::{Alarm, AlarmsView, Check, RecentFigures, ReportedAlarm};
use holdfast_types::{RecentMetric, Right, millis};
use prometheus_client::encoding::text::encode;

use crate::access::CallAccess;
use crate::body::BodyKind;
use crate::call::{CallContext, HandlerResult, accepts};
use crate::operation::{Content, Example, Method, Operation, ResponseSpec, Scope, handler};
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
        handler!(alarms),
    )
};

pub(crate) static RECENT: Operation = Operation {
    summary: "Read the figures of this node in the last 15 minutes",
    description: "The node keeps one value of each figure for each second, in memory. The figures of the whole cluster are about \
                  equal on every node. Percentiles are estimated from the buckets of the metric.",
    params: RecentParams::LIST,
    example: Example { query: "metric=grants&last=1m&step=10s", body: "" },
    answers: || ResponseSpec::ok("The figures", Schemas::of::<RecentBody>),
    ..Operation::node(
        "readRecent",
        &routes::RECENT,
        CallAccess::Right(Right::MetricsRead),
        |call| Box::pin(ready(recent(call))),
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
    errors: &[ErrorCode::InvalidArgument, ErrorCode::Internal],
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
        handler!(set_log),
    )
};

params! {
    struct LiveParams {
        _verbose: bool = VERBOSE,
    }

    struct ReadyParams {
        leader: bool = Param::flag("leader", "Fail unless this node is the leader"),
        _verbose: bool = VERBOSE,
    }

    struct RecentParams {
        metric: Option<&'static str> = METRIC,
        last: Duration = LAST,
        step: Duration = STEP,
    }

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
    health(call.state.service.health().live, None)
}

fn is_ready(call: &CallContext<'_>) -> HandlerResult {
    let ReadyParams { leader, .. } = call.params()?;
    let service = &call.state.service;
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
    let AlarmsView { alarms, unreachable } = call.state.service.alarms().await;
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

fn recent(call: &CallContext<'_>) -> HandlerResult {
    let RecentParams { metric, last, step } = call.params()?;
    call.require(Right::MetricsRead)?;
    let wanted = |of: &RecentMetric| metric.is_none_or(|metric| metric == of.as_str());
    let metrics: Vec<_> = RecentMetric::ALL.into_iter().filter(wanted).collect();
    let service = &call.state.service;
    let [rows, step] = [last, step].map(|time| usize::try_from(time.as_secs()).unwrap_or(1));
    let RecentFigures { ends_at, figures } = service.recent(&metrics, rows, step);
    let figures = figures.into_iter().map(|of| RecentFigureBody::new(of.metric, of.values));
    let body = RecentBody {
        node: service.node(),
        ends_at: ends_at.map(format_time),
        interval_ms: millis(Duration::from_secs(1)) * step as u64,
        figures: figures.collect(),
    };
    Ok(Reply::json(StatusCode::OK, &body))
}

fn metrics(call: &CallContext<'_>) -> HandlerResult {
    call.require(Right::MetricsRead)?;
    call.state.service.refresh_metrics();
    let mut text = String::new();
    encode(&mut text, &call.state.registry)
        .map_err(|error| internal(format!("cannot encode the metrics: {error}")))?;
    if accepts(&call.parts.headers, "application/openmetrics-text") {
        return Ok(Reply::made(OPENMETRICS, text.into()));
    }
    Ok(Reply::made(PROMETHEUS, prometheus_text(&text).into()))
}

/// Converts OpenMetrics text to the text format of Prometheus 0.0.4, for scrapers that do not ask for OpenMetrics. The samples are
/// the same: only the names and types in the comments differ. The text has no exemplars.
fn prometheus_text(text: &str) -> String {
    let mut converted = String::with_capacity(text.len());
    // The help of a metric precedes its type, which decides the name.
    let mut help = "";
    for line in text.lines() {
        if let Some(of) = line.strip_prefix("# HELP ") {
            help = of.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').unwrap_or((of, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            for piece in
                ["# HELP ", name, suffix, " ", help, "\n# TYPE ", name, suffix, " ", kind, "\n"]
            {
                converted.push_str(piece);
            }
            help = "";
        } else if !line.starts_with('#') {
            converted.push_str(line);
            converted.push('\n');
        }
    }
    converted
}

fn version(call: &CallContext<'_>) -> Reply {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let commit = call.state.config.commit.clone();
    Reply::json(StatusCode::OK, &VersionBody { version, commit })
}

async fn set_log(call: &mut CallContext<'_>) -> HandlerResult {
    let SetLogParams { log, lasts } = call.params()?;
    call.require(Right::ClusterOperate)?;
    let filter = &call.state.config.log_filter;
    let set = |log: Option<&str>| {
        let set = filter.set(log, lasts);
        set.map_err(|reason| ParamError::invalid("log", reason))
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
    let node = call.state.service.node();
    Ok(Reply::json(StatusCode::OK, &NodeLogBody { node, log, configured, ends_in_ms }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comments_have_the_names_of_the_samples() {
        let open = "# HELP a Calls.\n# TYPE a counter\na_total{x=\"# TYPE\"} 1\n# HELP b Version.\n# TYPE b info\nb_info{v=\"1\"} 1\n\
                    # HELP c_seconds Time.\n# TYPE c_seconds histogram\n# UNIT c_seconds seconds\nc_seconds_count 2\n\
                    # TYPE d unknown\nd 3\n# EOF\n";
        let expected = "# HELP a_total Calls.\n# TYPE a_total counter\na_total{x=\"# TYPE\"} 1\n# HELP b_info Version.\n\
                        # TYPE b_info gauge\nb_info{v=\"1\"} 1\n# HELP c_seconds Time.\n# TYPE c_seconds histogram\n\
                        c_seconds_count 2\n# HELP d \n# TYPE d untyped\nd 3\n";
        assert_eq!(prometheus_text(open), expected);
    }
}
