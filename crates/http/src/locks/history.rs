//! `GET /v1/history/{name}`: the past holds of a lock.

use std::time::Duration;

use holdfast_api::parameters::lock::AT;
use holdfast_api::parameters::{LIMIT, STALE};
use holdfast_api::{
    CallParams as _, ErrorCode, HistoryBody, Param, ParamError, ParamValue, PastHoldBody,
    Rfc3339Time, Schemas, format_duration, named_owner, params, parse_duration, parse_time,
};
use holdfast_service::{HistoryRequest, LockHistory, PastHold};
use holdfast_types::{HolderView, Revision, Stamp, millis};

use crate::access::LOCK_READ;
use crate::call::{CallContext, HandlerResult, read_mode};
use crate::operation::{Operation, ResponseSpec, handler};
use crate::routes::HISTORY;

pub(crate) static OPERATION: Operation = Operation {
    summary: "Read the past holds of a lock: holder, token, times, and the cause of each end",
    description: "The response has the holds that this node recorded. No hold that ended after the revision complete_since_revision is missing.",
    params: HistoryParams::LIST,
    answers: || ResponseSpec::ok("The history", Schemas::of::<HistoryBody>),
    errors: &[ErrorCode::ShardsMismatch],
    ..Operation::read("readHistory", &HISTORY, LOCK_READ, handler!(history))
};

params! {
    struct HistoryParams {
        at: Option<HistoryTime> = AT,
        limit: usize = LIMIT,
        stale: bool = STALE,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HistoryTime {
    At(Stamp),
    Ago(Duration),
}

impl HistoryTime {
    fn stamp(self, now: Stamp) -> Stamp {
        match self {
            Self::At(stamp) => stamp,
            Self::Ago(ago) => Stamp(now.0.saturating_sub(millis(ago))),
        }
    }
}

impl ParamValue for HistoryTime {
    fn parse(param: &Param, text: &str) -> Result<Self, ParamError> {
        let stamp = text.parse().ok().map(Stamp).or_else(|| parse_time(text));
        let time = stamp.map(Self::At).or_else(|| parse_duration(text).ok().map(Self::Ago));
        time.ok_or_else(|| {
            let detail = format!("'{}' is not a valid time", param.name);
            ParamError::invalid(param.name, detail).hint(param.hint)
        })
    }

    fn to_text(&self) -> String {
        match self {
            Self::At(stamp) => stamp.0.to_string(),
            Self::Ago(ago) => format_duration(*ago),
        }
    }
}

async fn history(call: &mut CallContext<'_>) -> HandlerResult {
    let lock = call.lock()?;
    let HistoryParams { at, limit, stale } = call.params()?;
    let at = at.map(|at| at.stamp(call.now()));
    let request = HistoryRequest { lock, at, limit };
    call.ok(call.service().history(request, read_mode(stale)), history_body).await
}

fn history_body(history: LockHistory, revision: Revision) -> HistoryBody {
    let LockHistory { lock, holders, holds, complete_after } = history;
    let present = holders.into_iter().map(present_hold);
    let holds = present.chain(holds.into_iter().map(past_hold)).collect();
    HistoryBody { lock, holds, complete_since_revision: complete_after, revision }
}

fn present_hold(holder: HolderView) -> PastHoldBody {
    PastHoldBody {
        token: holder.token,
        session: holder.session,
        owner: named_owner(holder.owner),
        granted_at: Rfc3339Time(holder.granted_at),
        ended_at: None,
        ended_revision: None,
        cause: None,
    }
}

fn past_hold(hold: PastHold) -> PastHoldBody {
    PastHoldBody {
        token: hold.token,
        session: hold.session,
        owner: named_owner(hold.owner),
        granted_at: Rfc3339Time(hold.since),
        ended_at: Some(Rfc3339Time(hold.until)),
        ended_revision: Some(hold.ended_in),
        cause: Some(hold.cause.as_str().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_stamp_a_date_or_an_age() {
        let read = |query: &str| HistoryParams::from_query(query).map(|params| params.at);
        assert_eq!(read("at=1500").unwrap(), Some(HistoryTime::At(Stamp(1_500))));
        assert_eq!(read("at=1970-01-01T00:00:02Z").unwrap(), Some(HistoryTime::At(Stamp(2_000))));
        let ago = read("at=5m").unwrap().unwrap();
        assert_eq!(ago.stamp(Stamp(301_000)), Stamp(1_000));
        assert_eq!(read("").unwrap(), None);
        for query in ["at=yesterday", "at=-1", "limit=0"] {
            assert_eq!(read(query).unwrap_err().code, ErrorCode::InvalidArgument, "{query}");
        }
        for time in [HistoryTime::At(Stamp(7)), HistoryTime::Ago(Duration::from_secs(90))] {
            assert_eq!(HistoryTime::parse(&AT, &time.to_text()).unwrap(), time);
        }
    }
}
