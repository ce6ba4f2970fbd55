//! The wall clocks of the members, as the leader compares them with the log's time. After a stop of all nodes, they show
//! how much time has passed.
//!
//! Only the lead of each clock counts, so clocks may differ by any constant. A member that does not reply keeps a lead: it
//! may lead next. The bound is one lead for each member.

use std::collections::BTreeMap;

use holdfast_types::{ClockReading, Member, NodeId, Reply, Stamp, TimeJump};
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
    /// The members that replied, and those that replied before.
    pub leads: BTreeMap<NodeId, ClockLead>,
}

impl Machine {
    /// The last record of the clocks; `None` in a new cluster.
    pub fn clocks(&self) -> Option<&ClockRecord> {
        self.clocks.as_ref()
    }

    /// Returns the time of the log after a jump. It never goes back.
    fn time_after(&self, jump: TimeJump) -> Stamp {
        match jump {
            // Without a record, the leads of the clocks are unknown.
            TimeJump::Lost(to) if self.clocks.is_some() => self.now.max(to),
            TimeJump::Unused(to) if !self.depends_on_time() => self.now.max(to),
            TimeJump::Lost(_) | TimeJump::Unused(_) => self.now,
        }
    }

    /// Records the clocks after a jump of the log's time to `now`. A silent member's lead grows by as much as the lead of
    /// any member that replied. So it is never too small, and the silent clock never shows more lost time than has passed.
    pub(crate) fn record_clocks(
        &mut self,
        readings: BTreeMap<NodeId, ClockReading>,
        jump: Option<TimeJump>,
    ) -> Reply {
        let before = self.now;
        self.now = jump.map_or(self.now, |jump| self.time_after(jump));
        let unused = match jump {
            Some(TimeJump::Unused(_)) => millis_between(self.now, before),
            Some(TimeJump::Lost(_)) | None => 0,
        };
        let lead = |(node, ClockReading { wall, run })| {
            (node, ClockLead { ms: millis_between(wall, self.now), run })
        };
        let replied: BTreeMap<_, _> = readings.into_iter().map(lead).collect();
        let former = self.clocks.take().map_or_else(BTreeMap::new, |record| record.leads);
        let growths = replied.iter().filter_map(|(node, lead)| {
            let former = former.get(node)?;
            Some(lead.ms.saturating_sub(former.ms).saturating_add(unused))
        });
        // Without a common member, the former leads say nothing about the present time of the log.
        let growth = growths.max().map(|most| most.max(0).saturating_sub(unused));
        let kept = former.into_iter().filter_map(|(node, lead)| {
            Some((node, ClockLead { ms: lead.ms.saturating_add(growth?), ..lead }))
        });
        let members = kept.chain(replied).filter(|(node, _)| self.member(*node).is_some());
        self.clocks = Some(ClockRecord { at: self.now, leads: members.collect() });
        Reply::ClocksRecorded
    }

    /// Whether a jump of the log's time could end something early.
    fn depends_on_time(&self) -> bool {
        let ends = |end: Stamp| end > self.now;
        let is_invited = |member: &Member| {
            member.invitation().is_some_and(|invitation| ends(invitation.expires_at))
        };
        // A hold without a lease can have a `min_hold`, and the records of ended sessions reject late calls.
        self.sessions.iter().next().is_some()
            || self
                .sessions
                .last_end()
                .is_some_and(|end| ends(Stamp(end.0.saturating_add(self.limits.tombstone_ms))))
            || self.next_timer().is_some()
            || self.auth.tokens.values().any(|token| token.expires_at.is_some_and(ends))
            || self.members().any(|(_, member)| is_invited(member))
            || self.anything_to_sweep(Stamp(0), Stamp(u64::MAX))
    }
}

fn millis_between(later: Stamp, earlier: Stamp) -> i64 {
    later.0.cast_signed().saturating_sub(earlier.0.cast_signed())
}
