//! `GET /metrics`: every metric of the node as text, of OpenMetrics if the scraper asks for it, else of Prometheus.

use std::future::ready;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::ErrorCode;
use holdfast_types::Right;
use prometheus_client::encoding::text::encode;

use super::prometheus_text;
use crate::call::CallContext;
use crate::operation::{Content, Operation, ResponseSpec, Scope};
use crate::reply::Reply;
use crate::routes::METRICS;
use crate::status::{HttpError, internal};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) static OPERATION: Operation = Operation {
    // A scraper may add its own query parameters.
    scope: Scope::Scraped,
    summary: "Read the metrics of the node as text of Prometheus, or of OpenMetrics if Accept names it",
    answers: || {
        let answer = ResponseSpec::empty(StatusCode::OK, "The metrics of the node");
        let text = answer.or("text/plain", Content::Text);
        vec![text.or("application/openmetrics-text", Content::Text)]
    },
    errors: &[ErrorCode::Internal],
    ..Operation::public("readMetrics", &METRICS, |call| ready(metrics(call)).boxed())
};

fn metrics(call: &CallContext<'_>) -> Result<Reply, HttpError> {
    let allowed = call.service().require(Right::MetricsRead);
    allowed.map_err(|failure| call.error(failure))?;
    call.state.service().refresh_metrics();
    let mut text = String::new();
    encode(&mut text, call.state.registry())
        .map_err(|error| internal(format!("cannot encode the metrics: {error}")))?;
    if call.accepts("application/openmetrics-text") {
        return Ok(Reply::text_as(OPENMETRICS, text));
    }
    Ok(Reply::text_as(PROMETHEUS, prometheus_text::of_openmetrics(&text)))
}
