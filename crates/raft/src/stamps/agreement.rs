//! What a majority of the wall clocks shows about the log's time.
//!
//! One wrong clock decides nothing: a value counts if a majority of the voters shows at least this value. Nodes that run
//! measure time with monotonic clocks, so their wall clocks may jump. Wall clocks measure only the time before the
//! leader's run began, and only by how much their leads on the log's time have grown since the last record. A leader
//! writes no command of a client before: a timed rule that began in between would end early.
//! The code is pure: all clocks are arguments.

use std::collections::BTreeMap;

use holdfast_machine::ClockRecord;
use holdfast_types::{NodeId, Stamp, TimeJump};

use super::SLEW;

/// The log's time slews below this difference, milliseconds.
const JUMP_MIN: i64 = 1_000;

/// The wall clock of a node at the moment of the comparison, which lies between these two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSample {
    pub least: Stamp,
    pub most: Stamp,
    pub run: u64,
}

/// A comparison of the clocks with the log's time.
#[derive(Clone, Copy, Debug)]
pub struct ClockComparison<'a> {
    pub leader: NodeId,
    pub voters: &'a [NodeId],
    /// The members that replied, among them the leader.
    pub samples: &'a BTreeMap<NodeId, ClockSample>,
    pub log: Stamp,
    pub record: Option<&'a ClockRecord>,
}

/// The result of a [`ClockComparison`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockVerdict {
    /// How far the log's time is behind the clocks of a majority, milliseconds; negative if it is ahead. `None` without
    /// replies of a majority.
    pub behind_ms: Option<i64>,
    pub jump: Option<TimeJump>,
    /// False while the lost time is unknown: a record would forget it.
    pub decided: bool,
}

impl ClockComparison<'_> {
    pub fn verdict(&self) -> ClockVerdict {
        let offset = |sample: &ClockSample| difference(sample.least, self.log);
        let behind_ms = self.agreed(|_, sample| Some(offset(sample))).map(|agreed| agreed.least);
        let lost = self.record.filter(|_| !self.leader_ran()).map(|record| {
            // The log's time may have slewed towards the clocks by this since the record.
            let slewed = difference(self.log, record.at).max(0) / i64::from(SLEW) + 1;
            let agreed = self.agreed(|node, sample| {
                let grown = offset(sample).saturating_sub(record.leads.get(&node)?.ms);
                Some(grown.saturating_sub(slewed).max(0))
            });
            let is_certain = |agreed: &AgreedValue| agreed.most - agreed.least < JUMP_MIN;
            // A leader may have lost up to `JUMP_MIN` without a setback, and durations may have begun since.
            agreed.filter(is_certain).map(|agreed| agreed.least.saturating_sub(JUMP_MIN))
        });
        let at = |ms: i64| Stamp(self.log.0.saturating_add_signed(ms));
        let jump = match (lost, behind_ms) {
            (Some(Some(lost)), _) if lost > 0 => Some(TimeJump::Lost(at(lost))),
            (_, Some(behind)) if behind >= JUMP_MIN => Some(TimeJump::Unused(at(behind))),
            (_, _) => None,
        };
        ClockVerdict { behind_ms, jump, decided: lost != Some(None) }
    }

    /// Whether a node has restarted since the record, or is not in it.
    pub fn has_restarted(&self) -> bool {
        self.samples.iter().any(|(node, sample)| {
            let lead = self.record.and_then(|record| record.leads.get(node));
            lead.is_none_or(|lead| lead.run != sample.run)
        })
    }

    /// Whether the leader's monotonic clock has measured the whole time since the record.
    fn leader_ran(&self) -> bool {
        let run = self.samples.get(&self.leader).map(|sample| sample.run);
        let lead = self.record.and_then(|record| record.leads.get(&self.leader));
        lead.is_some_and(|lead| Some(lead.run) == run)
    }

    /// The value that a majority of voters reaches, with the least and the greatest values of the voters that did not
    /// reply; `None` without replies of a majority.
    fn agreed(&self, value: impl Fn(NodeId, &ClockSample) -> Option<i64>) -> Option<AgreedValue> {
        let values = self.voters.iter();
        let values = values.filter_map(|node| value(*node, self.samples.get(node)?));
        let mut values: Vec<i64> = values.collect();
        values.sort_unstable_by_key(|value| std::cmp::Reverse(*value));
        let (majority, missing) = (self.voters.len() / 2 + 1, self.voters.len() - values.len());
        let least = *values.get(majority - 1)?;
        let most = majority.checked_sub(missing + 1).and_then(|at| values.get(at)).copied();
        Some(AgreedValue { least, most: most.unwrap_or(i64::MAX).max(least) })
    }
}

#[derive(Clone, Copy, Debug)]
struct AgreedValue {
    least: i64,
    most: i64,
}

fn difference(later: Stamp, earlier: Stamp) -> i64 {
    later.0.cast_signed().saturating_sub(earlier.0.cast_signed())
}

#[cfg(test)]
mod tests;
