//! Parameters of watches.

use std::time::Duration;

use holdfast_types::{FencingToken, ZnodePath};

use super::WAIT_MAX;
use crate::param::{Absent, Param};

pub const PREFIX: Param = Param::text(
    "prefix",
    "Watch the paths that begin with this text: /cfg/ is everything below cfg, / is everything. A lock is its \
     directory, /locks/NAME. This or path is required",
);
pub const PATH: Param = Param::path(
    "path",
    ZnodePath::MAX_LEN - 1,
    "Watch this node alone. The first '/' is optional, and counts",
);
pub const SINCE: Param = Param::number(
    "since",
    (0, FencingToken::END - 1),
    "Only changes after this revision, the revision of any answer; without it, from now on",
)
.hint("pass the \"revision\" of an answer, or the id of an event");
pub const WAIT: Param = Param::duration(
    "wait",
    (Duration::ZERO, WAIT_MAX),
    "How long a long poll waits for the first change",
)
.absent(Absent::Duration(Duration::from_secs(30)))
.hint("to wait longer, send the call again when the wait has passed");
