//! `PATCH /v1/node`: change the filter of this node's log for a time.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::parameters::node::{LOG, LOG_FOR};
use holdfast_api::{CallParams as _, ErrorCode, NodeLogBody, ParamError, Schemas, params};
use holdfast_types::{Right, millis};

use crate::access::HeadAccess;
use crate::body::BodyKind;
use crate::call::CallContext;
use crate::operation::{Example, Method, Operation, ResponseSpec, Scope};
use crate::reply::Reply;
use crate::routes::NODE;
use crate::status::HttpError;

pub(crate) static OPERATION: Operation = Operation {
    method: Method::Patch,
    scope: Scope::Node,
    access: HeadAccess::AnyOf(&[Right::ClusterOperate]),
    body: BodyKind::SMALL,
    summary: "Change the filter of this node's log for a time",
    description: "Afterwards the configured filter applies again. Only the node that receives the call changes its log.",
    params: SetLogParams::LIST,
    example: Example { query: "log=info,holdfast_raft=debug&for=10m", body: "" },
    answers: || {
        let about = "The filter that the node uses";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<NodeLogBody>)]
    },
    ..Operation::public("setNodeLog", &NODE, |call| set(call).boxed())
};

params! {
    struct SetLogParams {
        log: Option<String> = LOG,
        lasts: Duration = LOG_FOR,
    }
}

async fn set(call: &mut CallContext<'_>) -> Result<Reply, HttpError> {
    let SetLogParams { log, lasts } = call.params()?;
    let allowed = call.service().require(Right::ClusterOperate);
    allowed.map_err(|failure| call.error(failure))?;
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
