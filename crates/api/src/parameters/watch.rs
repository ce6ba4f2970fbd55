//! Parameters of watches.

use std::time::Duration;

use holdfast_types::{FencingToken, ZnodePath};

use super::WAIT_MAX;
use crate::param::{Absent, Param};

pub const PREFIX: Param = Param::text(
    "prefix",
    "Watch the paths that begin with this text: /cfg/ is everything below /cfg, / is everything. The path of a lock is \
     /locks/NAME. Either prefix or path is required",
);
pub const PATH: Param = Param::path(
    "path",
    ZnodePath::MAX_LEN - 1,
    "Watch this znode only. The leading '/' is optional",
);
pub const SINCE: Param = Param::number(
    "since",
    (0, FencingToken::END - 1),
    "Only changes after this revision, e.g. the revision of a response; by default the current revision",
)
.hint("send the \"revision\" of a response, or the id of an event");
pub const WAIT: Param = Param::duration(
    "wait",
    (Duration::ZERO, WAIT_MAX),
    "The maximum wait of a long poll for the first change",
)
.absent(Absent::Duration(Duration::from_secs(30)))
.hint("to wait longer, send the call again after the wait");
