//! The time after a restart of this node. Until a record of the clocks confirms the log's time, the node also counts the
//! time that its own wall clock has measured since the last record. So no access token is valid after its end.

use std::sync::atomic::{AtomicI64, Ordering};

use holdfast_machine::Machine;
use holdfast_types::{NodeId, Stamp};

/// No lead is known, or the log's time is confirmed.
const CONFIRMED: i64 = i64::MIN;

#[derive(Debug)]
pub(crate) struct RestartTime {
    node: NodeId,
    /// The number of this process's first run: one starts with the process, and one with each setback of its time.
    run: u64,
    /// The lead of this node's clock in the last record, milliseconds.
    lead_ms: AtomicI64,
}

impl RestartTime {
    pub(crate) fn new(node: NodeId, run: u64) -> Self {
        Self { node, run, lead_ms: AtomicI64::new(CONFIRMED) }
    }

    /// The number of the run after this many setbacks.
    pub(crate) fn run(&self, setbacks: u64) -> u64 {
        self.run.wrapping_add(setbacks)
    }

    fn is_own(&self, run: u64) -> bool {
        u32::try_from(run.wrapping_sub(self.run)).is_ok()
    }

    pub(crate) fn applied(&self, machine: &Machine) {
        let lead = machine.clocks().and_then(|record| record.leads.get(&self.node));
        let lead = lead.filter(|lead| !self.is_own(lead.run));
        self.lead_ms.store(lead.map_or(CONFIRMED, |lead| lead.ms), Ordering::Relaxed);
    }

    /// Returns the log's time, or the time by this node's wall clock if that is later and not refuted yet.
    pub(crate) fn at_least(&self, log: Stamp, wall: Stamp) -> Stamp {
        match self.lead_ms.load(Ordering::Relaxed) {
            CONFIRMED => log,
            lead => log.max(Stamp(wall.0.saturating_add_signed(lead.saturating_neg()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_types::{ClockReading, ClusterId, Command, Entry, FeatureLevel};

    use super::*;

    #[test]
    fn a_restarted_node_counts_its_own_clock_until_a_record_has_its_run() {
        let mut machine = Machine::new();
        let mut record = |wall, run| {
            let members = [NodeId(1)].into();
            let bootstrap = Command::Bootstrap {
                cluster_id: ClusterId(1),
                level: FeatureLevel::FIRST,
                members,
            };
            let readings = [(NodeId(1), ClockReading { wall: Stamp(wall), run })].into();
            let record = Command::RecordClocks { readings, jump: None };
            machine.apply(Entry { stamped_at: Stamp(1_000), commands: vec![bootstrap, record] });
            machine.clone()
        };
        let time = RestartTime::new(NodeId(1), 2);
        let read = |time: &RestartTime| time.at_least(Stamp(1_500), Stamp(9_000));
        assert_eq!(read(&time), Stamp(1_500), "without a record");
        time.applied(&record(1_200, 1));
        assert_eq!(read(&time), Stamp(8_800));
        assert_eq!(time.at_least(Stamp(9_500), Stamp(9_000)), Stamp(9_500));
        for setbacks in [0, 3] {
            time.applied(&record(1_200, 1));
            time.applied(&record(1_200, time.run(setbacks)));
            assert_eq!(read(&time), Stamp(1_500));
        }
    }
}
