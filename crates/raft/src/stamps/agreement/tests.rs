//! The rules of the comparison in single cases, and ten hours of random faults of clocks and nodes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use holdfast_machine::{ClockLead, Machine};
use holdfast_types::{
    ClockReading, ClusterId, Command, Entry, FeatureLevel, OpenSession, SessionName,
};

use super::super::LogTime;
use super::*;

const HOUR: u64 = 3_600_000;
const LOG: Stamp = Stamp(100 * HOUR);

fn sample(ahead_ms: i64, process: u64) -> ClockSample {
    let wall = Stamp(LOG.0.saturating_add_signed(ahead_ms));
    ClockSample { least: wall, most: wall, run: process }
}

/// The verdict of node 1 about the clocks of nodes 1, 2, …, whose leads were `leads` in a record of this moment.
/// A node without a clock does not reply.
fn verdict(leads: Option<&[i64]>, clocks: &[Option<i64>], leader_restarted: bool) -> ClockVerdict {
    let ids = (1..).map(NodeId);
    let run = |node: NodeId| u64::from(leader_restarted) * 10 + node.0;
    let record = leads.map(|leads| ClockRecord {
        at: LOG,
        leads: ids
            .clone()
            .zip(leads)
            .map(|(node, ms)| (node, ClockLead { ms: *ms, run: node.0 }))
            .collect(),
    });
    let voters: Vec<_> = ids.clone().take(clocks.len()).collect();
    let samples =
        ids.zip(clocks).filter_map(|(node, ahead)| Some((node, sample((*ahead)?, run(node)))));
    let (samples, record) = (&samples.collect(), record.as_ref());
    ClockComparison { leader: NodeId(1), voters: &voters, samples, log: LOG, record }.verdict()
}

/// The jump after a restart, milliseconds; `None` while the lost time is unknown.
fn lost(leads: &[i64], clocks: &[Option<i64>]) -> Option<u64> {
    let verdict = verdict(Some(leads), clocks, true);
    verdict.decided.then(|| match verdict.jump {
        Some(TimeJump::Lost(to)) => to.0 - LOG.0,
        Some(TimeJump::Unused(_)) | None => 0,
    })
}

#[test]
fn the_log_jumps_by_the_time_that_a_majority_measured() {
    let hour = HOUR.cast_signed();
    assert_eq!(lost(&[0], &[Some(40_001)]), Some(39_000));
    assert_eq!(lost(&[0, 0, 0], &[Some(40_001); 3]), Some(39_000));
    // Only the growth of a lead counts.
    assert_eq!(lost(&[0, hour, -hour], &[0, hour, -hour].map(Some)), Some(0));
    assert_eq!(
        lost(&[0, hour, -hour], &[9_001, hour + 9_001, 9_001 - hour].map(Some)),
        Some(8_000)
    );
    assert_eq!(lost(&[hour, hour, 0], &[hour + 9_001, hour + 9_001, 9_001].map(Some)), Some(8_000));
    // One wrong clock decides nothing.
    assert_eq!(lost(&[0; 3], &[9_001, 9_001, hour].map(Some)), Some(8_000));
    assert_eq!(lost(&[0; 3], &[9_001, 9_001, -hour].map(Some)), Some(8_000));
    assert_eq!(lost(&[0; 3], &[hour, 0, 0].map(Some)), Some(0));
    assert_eq!(lost(&[0; 5], &[hour, hour, 9_001, 0, 0].map(Some)), Some(8_000));
}

#[test]
fn a_voter_that_could_change_the_result_is_awaited() {
    let hour = HOUR.cast_signed();
    assert_eq!(lost(&[0; 3], &[Some(9_001), Some(9_001), None]), Some(8_000));
    assert_eq!(lost(&[0; 3], &[Some(9_001), Some(0), None]), None);
    assert_eq!(lost(&[0; 3], &[Some(9_001), Some(0), Some(9_001)]), Some(8_000));
    assert_eq!(lost(&[0; 3], &[Some(9_001), None, None]), None, "no majority");
    assert_eq!(lost(&[0; 2], &[Some(9_001); 3]), Some(8_000), "node 3 is not in the record");
    assert_eq!(lost(&[0; 2], &[Some(0), Some(9_001), Some(9_001)]), None);
    assert_eq!(lost(&[0; 5], &[Some(hour), Some(9_001), Some(9_001), Some(0), None]), Some(8_000));
}

#[test]
fn a_leader_that_ran_since_the_record_trusts_its_monotonic_clock() {
    let hour = HOUR.cast_signed();
    let to = Stamp(LOG.0 + HOUR);
    let found = verdict(Some(&[0; 3]), &[Some(hour); 3], false);
    assert_eq!((found.jump, found.decided), (Some(TimeJump::Unused(to)), true));
    let found = verdict(None, &[Some(hour); 3], true);
    assert_eq!((found.jump, found.decided), (Some(TimeJump::Unused(to)), true));
    let found = verdict(Some(&[0; 3]), &[Some(-hour); 3], true);
    assert_eq!((found.behind_ms, found.jump, found.decided), (Some(-hour), None, true));
}

/// A random number generator (xorshift).
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn node(&mut self) -> usize {
        usize::try_from(self.below(3)).unwrap()
    }
}

#[derive(Clone, Copy, Default)]
struct SimulatedNode {
    time: LogTime,
    /// How far its wall clock is ahead of the true time, milliseconds.
    ahead: i64,
    process: u64,
    /// The number of its run: a new one after a setback.
    run: u64,
    runs: bool,
    /// Whether it is cut off from the other nodes.
    is_cut: bool,
    /// Entries of the log that this process has applied.
    applied: usize,
}

/// Three nodes, one log, and a true time that is invisible to the nodes.
struct World {
    rng: Rng,
    start: Instant,
    /// The true time, milliseconds.
    now: u64,
    /// The time of the machine after each entry, and the leader that wrote it.
    log: Vec<(u64, usize)>,
    machine: Machine,
    nodes: [SimulatedNode; 3],
    leader: Option<usize>,
    /// The clocks that were set since the last record: at most one.
    set: BTreeSet<usize>,
    recorded_at: u64,
    /// The leader if it has recorded the clocks.
    recorded_by: Option<usize>,
    /// The least gain of a stamp on the fastest permitted time.
    least_gain: i128,
    stops: u64,
    jumps: u64,
    /// Restarted leaders.
    settlings: u64,
    /// The time that was lost when a leader gave up, milliseconds.
    forgotten: u64,
    /// The time by which leaders had applied entries late, without a setback, milliseconds.
    late: u64,
}

/// How far the wall clocks of nodes may be ahead of the true time at the beginning.
const TRUE_START: u64 = 1_000 * HOUR;

impl World {
    fn new(seed: u64) -> Self {
        let mut machine = Machine::new();
        let members = [1, 2, 3].map(NodeId).into();
        let level = FeatureLevel::FIRST;
        let bootstrap = Command::Bootstrap { cluster_id: ClusterId(1), level, members };
        let session = OpenSession::of(SessionName::new("timed").unwrap());
        let commands = vec![bootstrap, Command::OpenSession { open: session, attempt: None }];
        machine.apply(Entry { stamped_at: Stamp(TRUE_START), commands });
        let mut world = Self {
            rng: Rng(seed),
            start: Instant::now(),
            now: 0,
            log: vec![(TRUE_START, 0)],
            machine,
            nodes: [SimulatedNode::default(); 3],
            leader: None,
            set: BTreeSet::new(),
            recorded_at: 0,
            recorded_by: None,
            least_gain: i128::from(TRUE_START) * i128::from(SLEW),
            stops: 0,
            jumps: 0,
            settlings: 0,
            forgotten: 0,
            late: 0,
        };
        for (id, hours) in [0, 1, -1].into_iter().enumerate() {
            world.nodes[id].ahead = hours * HOUR.cast_signed();
            world.start(id);
        }
        world.elect();
        world.compare(&[0, 1, 2]);
        world
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }

    fn wall(&self, id: usize) -> Stamp {
        Stamp((TRUE_START + self.now).saturating_add_signed(self.nodes[id].ahead))
    }

    fn start(&mut self, id: usize) {
        let (ahead, process) = (self.nodes[id].ahead, self.rng.below(u64::MAX));
        let runs = true;
        let (run, is_cut) = (process, self.nodes[id].is_cut);
        self.nodes[id] =
            SimulatedNode { ahead, process, run, runs, is_cut, ..SimulatedNode::default() };
    }

    fn stop(&mut self, id: usize) {
        self.nodes[id].runs = false;
        self.leader = self.leader.filter(|leader| *leader != id);
    }

    /// Cuts a node off, or connects it again. A leader steps down.
    fn cut(&mut self, id: usize, is_cut: bool) {
        self.nodes[id].is_cut = is_cut;
        self.leader = self.leader.filter(|leader| *leader != id);
    }

    fn replies(&self, id: usize) -> bool {
        self.nodes[id].runs && !self.nodes[id].is_cut
    }

    /// A connected node leads if a majority is connected. It has applied all entries, some of them late.
    fn elect(&mut self) {
        let connected: Vec<_> = (0..3).filter(|id| self.replies(*id)).collect();
        self.leader = None;
        if connected.len() >= 2 {
            let at = usize::try_from(self.rng.below(connected.len() as u64)).unwrap();
            let (id, now) = (connected[at], self.instant());
            let free = self.nodes[id].time.last.map(|last| last.after(now));
            let setbacks = self.nodes[id].time.setbacks;
            self.catch_up(id, self.log.len());
            let last = self.nodes[id].time.last.map(|last| last.after(now));
            if let (Some(free), Some(last)) = (free, last)
                && self.nodes[id].time.setbacks == setbacks
            {
                self.late += holdfast_types::millis(free.saturating_sub(last));
            }
            (self.leader, self.recorded_by) = (Some(id), None);
        }
    }

    fn catch_up(&mut self, id: usize, upto: usize) {
        let now = self.instant();
        let node = &mut self.nodes[id];
        for (stamp, by) in self.log.get(node.applied..upto).unwrap_or_default() {
            node.time.applied(Stamp(*stamp), *by == id, now);
        }
        node.applied = node.applied.max(upto);
        node.run = node.process.wrapping_add(node.time.setbacks);
    }

    fn read(&mut self, id: usize) -> Stamp {
        let (now, wall) = (self.instant(), self.wall(id));
        self.nodes[id].time.read(now, wall)
    }

    /// Writes an entry of the leader, and asserts that no two stamps have gained more than the slew.
    fn append(&mut self, leader: usize, commands: Vec<Command>) {
        let stamped_at = self.read(leader);
        self.machine.apply(Entry { stamped_at, commands });
        let stamp = self.machine.now().0;
        self.log.push((stamp, leader));
        self.catch_up(leader, self.log.len());
        for id in 0..3 {
            // A follower learns from the next entry that this one is committed.
            let unknown = usize::from(self.rng.below(2) == 0);
            if self.replies(id) {
                self.catch_up(id, self.log.len() - unknown);
            }
        }
        let slew = i128::from(SLEW);
        let gain = i128::from(stamp) * slew - i128::from(self.now) * (slew + 1);
        let allowed = i128::from(3 + self.jumps);
        let early = gain - self.least_gain;
        assert!(early <= slew * allowed, "{} ms early after {} ms", early / slew, self.now);
        self.least_gain = self.least_gain.min(gain);
    }

    /// Compares the clocks of the nodes that reply, as the leader does.
    fn compare(&mut self, replying: &[usize]) {
        let Some(leader) = self.leader else { return };
        let log = self.read(leader);
        let samples = replying.iter().filter(|id| self.replies(**id)).map(|id| {
            let run = self.nodes[*id].run;
            (
                NodeId(*id as u64 + 1),
                ClockSample { least: self.wall(*id), most: self.wall(*id), run },
            )
        });
        let samples: BTreeMap<_, _> = samples.collect();
        let comparison = ClockComparison {
            leader: NodeId(leader as u64 + 1),
            voters: &[1, 2, 3].map(NodeId),
            samples: &samples,
            log,
            record: self.machine.clocks(),
        };
        let (ClockVerdict { jump, decided, .. }, restarted) =
            (comparison.verdict(), comparison.has_restarted());
        let settled = self.is_settled(leader);
        let gives_up = !settled && !decided && self.rng.below(3) == 0;
        let is_old = self.now - self.recorded_at >= 60_000;
        let due = restarted || is_old || self.recorded_by != Some(leader);
        if !(gives_up || decided && due) {
            return;
        }
        if gives_up {
            self.forgotten = self.forgotten.max((TRUE_START + self.now).saturating_sub(log.0));
        }
        // The clock of a silent node counts as set until it replies.
        self.set.retain(|id| !samples.contains_key(&NodeId(*id as u64 + 1)));
        let readings = samples
            .into_iter()
            .map(|(node, sample)| (node, ClockReading { wall: sample.most, run: sample.run }));
        let jump = jump.filter(|_| decided);
        self.jumps += u64::from(matches!(jump, Some(TimeJump::Lost(_))));
        self.settlings += u64::from(!settled);
        let command = Command::RecordClocks { readings: readings.collect(), jump };
        self.append(leader, vec![command]);
        (self.recorded_at, self.recorded_by) = (self.now, Some(leader));
    }

    /// Whether the monotonic clock of a node has measured the time since the last record.
    fn is_settled(&self, id: usize) -> bool {
        let Some(record) = self.machine.clocks() else { return true };
        let lead = record.leads.get(&NodeId(id as u64 + 1));
        lead.is_some_and(|lead| lead.run == self.nodes[id].run)
    }

    /// Sets a clock by up to two hours, unless another one was set since the last record.
    fn set_clock(&mut self) {
        let id = self.rng.node();
        if self.set.iter().all(|set| *set == id) {
            self.set.insert(id);
            self.nodes[id].ahead = self.rng.below(4 * HOUR).cast_signed() - 2 * HOUR.cast_signed();
        }
    }

    fn turn(&mut self) {
        self.now += self.rng.below(10_000);
        match self.rng.below(60) {
            0..4 => self.set_clock(),
            4..6 => self.elect(),
            6..8 => {
                let id = self.rng.node();
                self.stop(id);
            }
            8 => {
                (0..3).for_each(|id| self.stop(id));
                self.now += self.rng.below(HOUR);
                self.stops += 1;
                self.set_clock();
            }
            9 => {
                let (id, is_cut) = (self.rng.node(), self.rng.below(2) == 0);
                self.cut(id, is_cut);
            }
            10 => {
                (0..3).for_each(|id| self.cut(id, true));
                self.now += self.rng.below(HOUR);
                (0..3).for_each(|id| self.cut(id, false));
            }
            _ => {
                for id in 0..3 {
                    if !self.nodes[id].runs && self.rng.below(3) == 0 {
                        self.start(id);
                    }
                }
            }
        }
        if self.leader.is_none() {
            self.elect();
        }
        // A leader may write before it records the clocks.
        let writes = self.rng.below(3);
        self.write_if(writes == 0);
        let silent = self.rng.below(12);
        let replying: Vec<_> =
            (0..3).filter(|id| Some(*id) == self.leader || *id as u64 != silent).collect();
        self.compare(&replying);
        self.write_if(writes == 1);
    }

    /// Writes an entry of the leader, if its time is settled.
    fn write_if(&mut self, writes: bool) {
        if let Some(leader) = self.leader.filter(|leader| writes && self.is_settled(*leader)) {
            self.append(leader, Vec::new());
        }
    }
}

/// Clocks differ by an hour, any minority of them jumps, leaders change, and all nodes restart.
#[test]
fn in_ten_hours_of_faults_no_stamp_is_early_by_more_than_the_slew_and_no_time_is_lost() {
    let (mut jumps, mut stops) = (0, 0);
    for seed in 1..40 {
        let mut world = World::new(seed * 7_919);
        while world.now < 10 * HOUR {
            world.turn();
        }
        // All nodes run, and their clocks are not set any more.
        for id in 0..3 {
            world.cut(id, false);
            if !world.nodes[id].runs {
                world.start(id);
            }
        }
        world.now += 60_000;
        world.elect();
        while world.recorded_at != world.now {
            world.compare(&[0, 1, 2]);
        }
        let passed = world.machine.now().0 - TRUE_START;
        let lost = 2_200 * world.settlings + world.forgotten + world.late;
        let least = world.now - world.now / 500 - lost;
        assert!(
            passed >= least,
            "seed {seed}: {passed} ms of {} ms, {} stops",
            world.now,
            world.stops
        );
        (jumps, stops) = (jumps + world.jumps, stops + world.stops);
    }
    assert!(jumps > 100 && stops > 100, "{jumps} jumps after {stops} stops");
}
