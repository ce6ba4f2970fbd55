//! Parameters of sessions.

use std::time::Duration;

use holdfast_types::{Attempt, FencingToken, Reason};

use super::WAIT_MAX;
use crate::param::{Absent, Param};

pub const OPEN_ATTEMPT: Param = Param::number(
    "attempt",
    (1, Attempt::MAX.0),
    "The number of the call, larger than all earlier attempts of the session. A copy that arrives after a newer attempt \
     changes neither ttl nor labels, and one that arrives after the end of the session gets 409",
);
pub const EVENTS_WAIT: Param = Param::duration(
    "wait",
    (Duration::ZERO, WAIT_MAX),
    "The maximum wait for an event of the session; the call returns at the first event",
)
.absent(Absent::Duration(Duration::ZERO))
.hint("to wait longer, send the call again after the wait");
pub const EVENTS_SINCE: Param = Param::number(
    "since",
    (0, FencingToken::END - 1),
    "Only events after this revision, which is the revision of the previous response",
)
.hint("send the \"revision\" of a response");
pub const FORCE: Param =
    Param::flag("force", "Close the session of another client, as an operator. Requires reason");
pub const REASON: Param = Param::bounded_text(
    "reason",
    Reason::MAX_LEN,
    "The reason of the operator, for the audit trail. Requires force",
);
pub const CLOSED_INCARNATION: Param = Param::number(
    "incarnation",
    (1, FencingToken::END - 1),
    "The incarnation of the session to close, from the response that opened it. A late copy of the call does not close \
     a newer session with the same id",
);
