//! Parameters of one node.

use std::time::Duration;

use crate::param::{Absent, Param};

/// The longest time of a filter.
const LOG_FOR_MAX: Duration = Duration::from_hours(24);
/// The longest filter, bytes.
const LOG_BYTES_MAX: usize = 1_024;

pub const LOG: Param = Param::bounded_text(
    "log",
    LOG_BYTES_MAX,
    "error, warn, info, debug, trace, or a filter such as info,holdfast_raft=debug; by default the configured filter",
);
pub const LOG_FOR: Param = Param::duration(
    "for",
    (Duration::from_secs(1), LOG_FOR_MAX),
    "The time after which the configured filter applies again",
)
.absent(Absent::Duration(Duration::from_mins(10)));
