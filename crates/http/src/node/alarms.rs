//! `GET /v1/alarms`: the conditions that an operator should end.

use axum::http::StatusCode;
use futures_util::FutureExt as _;
use holdfast_api::{AlarmBody, AlarmsBody, Schemas};
use holdfast_service::{Alarm, AlarmsView, ReportedAlarm};
use holdfast_types::Right;

use crate::call::CallContext;
use crate::operation::{Operation, ResponseSpec, Scope};
use crate::reply::Reply;
use crate::routes::ALARMS;
use crate::status::HttpError;

/// The page with a section for each alarm.
const PAGE: &str = "docs/operations.md";

pub(crate) static OPERATION: Operation = Operation {
    scope: Scope::Node,
    summary: "List the alarms of all nodes, with the next step for each",
    description: "An alarm is computed from the present state and blocks nothing. It ends when its cause has ended. The leader \
                  reports what it knows about its followers.",
    answers: || {
        let about = "The alarms, the most urgent first; an empty list if there is none";
        vec![ResponseSpec::json(StatusCode::OK, about, Schemas::of::<AlarmsBody>)]
    },
    ..Operation::public("listAlarms", &ALARMS, |call| alarms(call).boxed())
};

async fn alarms(call: &CallContext<'_>) -> Result<Reply, HttpError> {
    let allowed = call.service().require(Right::ClusterRead);
    allowed.map_err(|failure| call.error(failure))?;
    let AlarmsView { alarms, unreachable } = call.state.service().alarms().await;
    let alarms = alarms.into_iter().map(body).collect();
    Ok(Reply::json(StatusCode::OK, &AlarmsBody { alarms, unreachable }))
}

fn body(ReportedAlarm { alarm, nodes }: ReportedAlarm) -> AlarmBody {
    let Alarm { kind, severity, detail } = alarm;
    AlarmBody {
        name: kind.as_str().to_owned(),
        severity: severity.as_str().to_owned(),
        nodes,
        detail,
        hint: kind.next_step().to_owned(),
        docs: format!("{PAGE}#{}", kind.as_str()),
    }
}
