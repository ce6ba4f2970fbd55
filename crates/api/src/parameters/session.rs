//! Parameters of sessions.

use std::time::Duration;

use holdfast_types::FencingToken;

use super::WAIT_MAX;
use crate::param::{Absent, Param};

/// The longest reason of a forced close, bytes.
const REASON_BYTES_MAX: usize = 512;

pub const EVENTS_WAIT: Param = Param::duration(
    "wait",
    (Duration::ZERO, WAIT_MAX),
    "How long to wait for events of the session; the answer comes with the first",
)
.absent(Absent::Duration(Duration::ZERO))
.hint("to wait longer, send the call again when the wait has passed");
pub const EVENTS_SINCE: Param = Param::number(
    "since",
    (0, FencingToken::END - 1),
    "Only events after this revision, the revision of the answer before",
)
.hint("pass the \"revision\" of an answer");
pub const FORCE: Param = Param::flag("force", "Close a session of another client. Needs reason");
pub const REASON: Param = Param::bounded_text(
    "reason",
    REASON_BYTES_MAX,
    "Why an operator closes a session of another client; written into the audit trail. Needs force",
);
pub const INCARNATION: Param = Param::number(
    "incarnation",
    (1, FencingToken::END - 1),
    "The incarnation of the session to close, from the answer that opened it. A copy of the call that arrives when a new \
     session of that id is open changes nothing",
);
