//! Wall clocks of the nodes in the log.

use serde::{Deserialize, Serialize};

use crate::Stamp;

/// The wall clock of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClockReading {
    pub wall: Stamp,
    /// A random number for each start of the process. A run measures time with its monotonic clock.
    pub run: u64,
}

/// Why the log's time jumps forward, and to which time. A majority of wall clocks shows at least this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeJump {
    /// This time has passed since the last record of the clocks, and no monotonic clock measured it.
    Lost(Stamp),
    /// The clocks show this time. The log jumps only while nothing in the state depends on its time.
    Unused(Stamp),
}
