//! The wall clocks of the members, as the leader compares them with the log's time. After a stop of all nodes, they show
//! how much time has passed.
//!
//! Only the lead of each clock counts, so clocks may differ by any constant. The bound is one lead for each member.

use std::collections::BTreeMap;

use holdfast_types::{ClockReading, Member, NodeId, Stamp, TimeJump};
use serde::{Deserialize, Serialize};

use crate::Machine;

/// How far a wall clock was ahead of the log's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClockLead {
    /// Milliseconds; negative if the clock was behind.
    pub ms: i64,
    pub run: u64,
}

/// The last record of the clocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClockRecord {
    pub at: Stamp,
    /// The members that replied.
    pub leads: BTreeMap<NodeId, ClockLead>,
}

impl Machine {
    /// The last record of the clocks; `None` in a new cluster, and below feature level 2.
    pub fn clocks(&self) -> Option<&ClockRecord> {
        self.clocks.as_ref()
    }

    /// Returns the time of the log after a jump. It never goes back.
    pub(crate) fn time_after(&self, jump: TimeJump) -> Stamp {
        match jump {
            // Without a record, the leads of the clocks are unknown.
            TimeJump::Lost(to) if self.clocks.is_some() => self.now.max(to),
            TimeJump::Unused(to) if !self.depends_on_time() => self.now.max(to),
            TimeJump::Lost(_) | TimeJump::Unused(_) => self.now,
        }
    }

    pub(crate) fn record_clocks(&mut self, readings: BTreeMap<NodeId, ClockReading>) {
        let members = readings.into_iter().filter(|(node, _)| self.member(*node).is_some());
        let lead = |(node, ClockReading { wall, run })| {
            let ms = wall.0.cast_signed().saturating_sub(self.now.0.cast_signed());
            (node, ClockLead { ms, run })
        };
        self.clocks = Some(ClockRecord { at: self.now, leads: members.map(lead).collect() });
    }

    /// Whether a jump of the log's time could end something early.
    fn depends_on_time(&self) -> bool {
        let ends = |end: Stamp| end > self.now;
        let is_invited = |member: &Member| {
            member.invitation().is_some_and(|invitation| ends(invitation.expires_at))
        };
        self.leases().next().is_some()
            || self.next_timer().is_some()
            || self.auth.tokens.values().any(|token| token.expires_at.is_some_and(ends))
            || self.members().any(|(_, member)| is_invited(member))
            || self.anything_to_sweep(Stamp(0), Stamp(u64::MAX))
    }
}
