//! `GET /v1/recent`: the figures of this node in the last quarter of an hour.

use std::future::ready;
use std::time::Duration;

use axum::http::StatusCode;
use holdfast_api::parameters::member::{LAST, METRIC, STEP};
use holdfast_api::{CallParams as _, RecentBody, RecentFigureBody, Schemas, format_time, params};
use holdfast_service::RecentFigures;
use holdfast_types::{RecentMetric, Right, millis};

use crate::access::CallAccess;
use crate::call::{CallContext, HandlerResult};
use crate::operation::{Example, Operation, ResponseSpec};
use crate::reply::Reply;
use crate::routes;

pub(crate) static OPERATION: Operation = Operation {
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

params! {
    struct RecentParams {
        metric: Option<&'static str> = METRIC,
        last: Duration = LAST,
        step: Duration = STEP,
    }
}

fn recent(call: &CallContext<'_>) -> HandlerResult {
    let RecentParams { metric, last, step } = call.params()?;
    call.require(Right::MetricsRead)?;
    let wanted = |of: &RecentMetric| metric.is_none_or(|metric| metric == of.as_str());
    let metrics: Vec<_> = RecentMetric::ALL.into_iter().filter(wanted).collect();
    let service = call.state.service();
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
