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
    assert_eq!(lost(&[0], &[Some(40_001)]), Some(40_000));
    assert_eq!(lost(&[0, 0, 0], &[Some(40_001); 3]), Some(40_000));
    // Only the growth of a lead counts.
    assert_eq!(lost(&[0, hour, -hour], &[0, hour, -hour].map(Some)), Some(0));
    assert_eq!(
        lost(&[0, hour, -hour], &[9_001, hour + 9_001, 9_001 - hour].map(Some)),
        Some(9_000)
    );
    // One wrong clock decides nothing.
    assert_eq!(lost(&[0; 3], &[9_001, 9_001, hour].map(Some)), Some(9_000));
    assert_eq!(lost(&[0; 3], &[9_001, 9_001, -hour].map(Some)), Some(9_000));
    assert_eq!(lost(&[0; 3], &[hour, 0, 0].map(Some)), Some(0));
    assert_eq!(lost(&[0; 5], &[hour, hour, 9_001, 0, 0].map(Some)), Some(9_000));
}

#[test]
fn a_voter_that_could_change_the_result_is_awaited() {
    let hour = HOUR.cast_signed();
    assert_eq!(lost(&[0; 3], &[Some(9_001), Some(9_001), None]), Some(9_000));
    assert_eq!(lost(&[0; 3], &[Some(9_001), Some(0), None]), None);
    assert_eq!(lost(&[0; 3], &[Some(9_001), Some(0), Some(9_001)]), Some(9_000));
    assert_eq!(lost(&[0; 3], &[Some(9_001), None, None]), None, "no majority");
    assert_eq!(lost(&[0; 2], &[Some(9_001); 3]), Some(9_000), "node 3 is not in the record");
    assert_eq!(lost(&[0; 2], &[Some(0), Some(9_001), Some(9_001)]), None);
    assert_eq!(lost(&[0; 5], &[Some(hour), Some(9_001), Some(9_001), Some(0), None]), Some(9_000));
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
    runs: bool,
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
    /// The least gain of a stamp on the fastest permitted time.
    least_gain: i128,
    stops: u64,
    jumps: u64,
    /// Restarted leaders.
    settlings: u64,
    /// The time that was lost when a leader gave up, milliseconds.
    forgotten: u64,
}

/// How far the wall clocks of nodes may be ahead of the true time at the beginning.
const TRUE_START: u64 = 1_000 * HOUR;

impl World {
    fn new(seed: u64) -> Self {
        let mut machine = Machine::new();
        let members = [1, 2, 3].map(NodeId).into();
        let level = FeatureLevel(2);
        let bootstrap = Command::Bootstrap { cluster_id: ClusterId(1), level, members };
        let session = OpenSession {
            session: SessionName::new("timed").unwrap(),
            ttl: None,
            anonymous: false,
            labels: holdfast_types::Labels::default(),
            password: None,
        };
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
            least_gain: i128::from(TRUE_START) * i128::from(SLEW),
            stops: 0,
            jumps: 0,
            settlings: 0,
            forgotten: 0,
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
        self.nodes[id] = SimulatedNode { ahead, process, runs, ..SimulatedNode::default() };
    }

    fn stop(&mut self, id: usize) {
        self.nodes[id].runs = false;
        self.leader = self.leader.filter(|leader| *leader != id);
    }

    /// A running node leads if a majority runs. It has applied all entries.
    fn elect(&mut self) {
        let running: Vec<_> = (0..3).filter(|id| self.nodes[*id].runs).collect();
        self.leader = None;
        if running.len() >= 2 {
            let at = usize::try_from(self.rng.below(running.len() as u64)).unwrap();
            self.catch_up(running[at]);
            self.leader = Some(running[at]);
        }
    }

    fn catch_up(&mut self, id: usize) {
        let now = self.instant();
        let node = &mut self.nodes[id];
        for (stamp, by) in &self.log[node.applied..] {
            node.time.applied(Stamp(*stamp), *by == id, now);
        }
        node.applied = self.log.len();
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
        self.catch_up(leader);
        (0..3).filter(|id| self.nodes[*id].runs).collect::<Vec<_>>().into_iter().for_each(|id| {
            self.catch_up(id);
        });
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
        let samples = replying.iter().filter(|id| self.nodes[**id].runs).map(|id| {
            let run = self.nodes[*id].process;
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
        let due = restarted || self.now - self.recorded_at >= 60_000;
        if !(gives_up || decided && due) {
            return;
        }
        if gives_up {
            self.forgotten = self.forgotten.max((TRUE_START + self.now).saturating_sub(log.0));
        }
        let readings = samples
            .into_iter()
            .map(|(node, sample)| (node, ClockReading { wall: sample.most, run: sample.run }));
        let jump = jump.filter(|_| decided);
        self.jumps += u64::from(matches!(jump, Some(TimeJump::Lost(_))));
        self.settlings += u64::from(!settled);
        let command = Command::RecordClocks { readings: readings.collect(), jump };
        self.append(leader, vec![command]);
        self.recorded_at = self.now;
        self.set.clear();
    }

    /// Whether this process of a node has run since the last record.
    fn is_settled(&self, id: usize) -> bool {
        let Some(record) = self.machine.clocks() else { return true };
        let lead = record.leads.get(&NodeId(id as u64 + 1));
        lead.is_some_and(|lead| lead.run == self.nodes[id].process)
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
        let silent = self.rng.below(12);
        let replying: Vec<_> =
            (0..3).filter(|id| Some(*id) == self.leader || *id as u64 != silent).collect();
        self.compare(&replying);
        let writes = self.rng.below(3) == 0;
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
        (0..3)
            .filter(|id| !world.nodes[*id].runs)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|id| world.start(id));
        world.elect();
        world.compare(&[0, 1, 2]);
        let passed = world.machine.now().0 - TRUE_START;
        let lost = 1_200 * world.settlings + world.forgotten;
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
