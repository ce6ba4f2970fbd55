//! The rules of the log's time, in single steps and over random histories of nodes, leaders, clocks and restarts.

use super::*;

const HOUR: u64 = 3_600_000;

fn after(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

#[test]
fn the_first_stamp_of_a_cluster_is_the_wall_clock() {
    let (mut time, start) = (LogTime::default(), Instant::now());
    assert_eq!(time.read(start, Stamp(5 * HOUR)), Stamp(5 * HOUR));
    time.applied(Stamp(5 * HOUR), true, start);
    assert_eq!(time.read(after(start, 1_000), Stamp(9 * HOUR)), Stamp(5 * HOUR + 1_001));
}

#[test]
fn a_wall_clock_set_forward_ends_no_duration_early() {
    let (mut time, start) = (LogTime::default(), Instant::now());
    time.applied(Stamp(HOUR), true, start);
    assert_eq!(time.read(after(start, 2_000), Stamp(10 * HOUR)), Stamp(HOUR + 2_002));
}

#[test]
fn a_wall_clock_set_back_does_not_stop_the_log_time() {
    let (mut time, start) = (LogTime::default(), Instant::now());
    time.applied(Stamp(10 * HOUR), true, start);
    assert_eq!(time.read(after(start, 2_000), Stamp(HOUR)), Stamp(10 * HOUR + 1_998));
}

#[test]
fn a_small_difference_is_corrected_in_small_steps_too() {
    let (mut time, start) = (LogTime::default(), Instant::now());
    time.applied(Stamp(HOUR), true, start);
    let fast = |ms: u64| Stamp(HOUR + ms + 50);
    for ms in 1..=60_000 {
        time.read(after(start, ms), fast(ms));
    }
    assert_eq!(time.read(after(start, 60_000), fast(60_000)), fast(60_000));
}

#[test]
fn a_new_leader_continues_from_the_last_stamp_and_not_from_its_wall_clock() {
    for wall in [Stamp(HOUR), Stamp(9 * HOUR)] {
        let (mut time, start) = (LogTime::default(), Instant::now());
        time.applied(Stamp(5 * HOUR), false, start);
        let stamp = time.read(after(start, 4_000), wall);
        assert!(stamp.0.abs_diff(5 * HOUR + 4_000) <= 4, "{stamp:?} with wall clock {wall:?}");
    }
}

#[test]
fn a_late_entry_lengthens_no_remaining_time() {
    let (mut time, start) = (LogTime::default(), Instant::now());
    time.applied(Stamp(HOUR), false, start);
    // 200 ms late.
    time.applied(Stamp(HOUR + 800), false, after(start, 1_000));
    assert_eq!(time.read(after(start, 1_000), Stamp(HOUR)), Stamp(HOUR + 800));
    assert_eq!(time.reached(after(start, 1_000)).map(stamp), Some(Stamp(HOUR + 998)));
    // An earlier clock counts if it is earlier by a second or more.
    time.applied(Stamp(HOUR), false, after(start, 2_000));
    assert_eq!(time.reached(after(start, 2_000)).map(stamp), Some(Stamp(HOUR)));
}

#[test]
fn a_node_whose_time_is_ahead_goes_back_to_the_stamp_of_another() {
    let (mut time, start) = (LogTime::default(), Instant::now());
    time.applied(Stamp(9 * HOUR), true, start);
    time.applied(Stamp(HOUR), false, after(start, 1_000));
    let stamp = time.read(after(start, 2_000), Stamp(9 * HOUR));
    assert_eq!(stamp, Stamp(HOUR + 1_001), "a hold granted at the applied stamp lasts on");
    assert_eq!(time.setbacks, 1);
    // A delay of the network is no setback.
    time.applied(Stamp(HOUR + 1_900), false, after(start, 3_800));
    assert_eq!(
        (time.read(after(start, 3_800), Stamp(9 * HOUR)), time.setbacks),
        (Stamp(HOUR + 1_900), 1)
    );
}

/// A later leadership of the same process may begin with lost time.
#[test]
fn the_time_is_settled_for_one_leadership() {
    let stamps = Stamps::new(NodeId(1));
    let epoch = |term| LeaderEpoch { term, node: NodeId(1) };
    assert!(stamps.is_settled(epoch(1)), "nobody settles it");
    stamps.settle(None);
    assert!(!stamps.is_settled(epoch(1)));
    stamps.settle(Some(epoch(1)));
    assert!(stamps.is_settled(epoch(1)) && !stamps.is_settled(epoch(2)));
}

#[test]
fn a_leader_loses_no_time_by_applying_its_own_stamps_late() {
    let (mut time, start) = (LogTime::default(), Instant::now());
    time.applied(Stamp(HOUR), true, start);
    let stamp = time.read(after(start, 100), Stamp(HOUR + 100));
    time.applied(stamp, true, after(start, 700));
    assert_eq!(time.read(after(start, 1_000), Stamp(HOUR + 1_000)), Stamp(HOUR + 1_000));
}

#[test]
fn a_restarted_node_continues_from_its_own_last_stamp() {
    let (mut time, start) = (LogTime::default(), Instant::now());
    time.applied(Stamp(HOUR), true, start);
    time.applied(Stamp(HOUR + 500), true, after(start, 1));
    let stamp = time.read(after(start, 2_001), Stamp(90 * HOUR));
    assert_eq!(stamp, Stamp(HOUR + 2_502), "time in which no node ran does not count");
}

#[test]
fn threads_that_read_the_clock_in_another_order_gain_no_time() {
    let (mut time, start) = (LogTime::default(), Instant::now());
    time.applied(Stamp(HOUR), true, after(start, 1_000));
    assert_eq!(time.read(start, Stamp(HOUR)), Stamp(HOUR));
    assert_eq!(time.read(after(start, 2_000), Stamp(HOUR + 1_000)), Stamp(HOUR + 1_000));
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
}

/// An entry: its effective stamp, the true time of its stamp, and its node.
#[derive(Clone, Copy)]
struct Stamped {
    stamp: u64,
    at: u64,
    by: usize,
}

#[derive(Clone, Copy, Default)]
struct ClockedNode {
    time: LogTime,
    wall: u64,
    applied: usize,
}

/// Three nodes, one log, and a true time that is invisible to the nodes.
struct World {
    start: Instant,
    now: u64,
    log: Vec<Stamped>,
    nodes: [ClockedNode; 3],
    leader: usize,
}

impl World {
    fn new(rng: &mut Rng) -> Self {
        let mut nodes = [ClockedNode::default(); 3];
        for node in &mut nodes {
            node.wall = rng.below(HOUR * 100);
        }
        Self { start: Instant::now(), now: 0, log: Vec::new(), nodes, leader: 0 }
    }

    fn apply(&mut self, id: usize, upto: usize) {
        let now = after(self.start, self.now);
        let node = &mut self.nodes[id];
        for entry in &self.log[node.applied..upto.max(node.applied)] {
            node.time.applied(Stamp(entry.stamp), entry.by == id, now);
        }
        node.applied = upto.max(node.applied);
    }

    fn read(&mut self, id: usize) -> u64 {
        let now = after(self.start, self.now);
        let node = &mut self.nodes[id];
        node.time.read(now, Stamp(node.wall + self.now)).0
    }

    fn append(&mut self) -> Stamped {
        let before = self.log.last().map_or(0, |last| last.stamp);
        let stamp = self.read(self.leader).max(before);
        let entry = Stamped { stamp, at: self.now, by: self.leader };
        self.log.push(entry);
        entry
    }

    fn restart(&mut self, id: usize) {
        let applied = std::mem::take(&mut self.nodes[id].applied);
        self.nodes[id].time = LogTime::default();
        self.apply(id, applied);
    }

    fn lead(&mut self, id: usize) {
        self.leader = id;
        self.apply(id, self.log.len());
    }
}

/// With any wall clocks, leaders, restarts and slow nodes, a duration measured in stamps ends early by at most the
/// slew.
#[test]
fn no_two_stamps_differ_by_more_than_the_time_between_them_and_the_slew() {
    for seed in 1..200 {
        let mut rng = Rng(seed);
        let mut world = World::new(&mut rng);
        for _ in 0..200 {
            let longest = [10, 1_000, HOUR][usize::try_from(rng.below(3)).unwrap()];
            world.now += rng.below(longest);
            let id = usize::try_from(rng.below(3)).unwrap();
            match rng.below(8) {
                0 => world.nodes[id].wall = rng.below(HOUR * 100),
                1 => world.lead(id),
                2 => world.restart(id),
                3 => drop(world.read(id)),
                4 => {
                    let upto = rng.below(world.log.len() as u64 + 1);
                    world.apply(id, usize::try_from(upto).unwrap());
                }
                _ => {
                    world.apply(world.leader, world.log.len());
                    let last = world.append();
                    world.apply(last.by, world.log.len());
                    for entry in &world.log {
                        let (passed, real) = (last.stamp - entry.stamp, last.at - entry.at);
                        let most = real + real / u64::from(SLEW) + 2;
                        assert!(passed <= most, "seed {seed}: {passed} ms in {real} ms");
                    }
                }
            }
        }
    }
}

/// While nodes run and apply immediately, no duration ends later than by the slew and the rounding of stamps.
#[test]
fn nodes_that_run_and_apply_lose_no_time_across_leader_changes_and_clock_jumps() {
    for seed in 1..200 {
        let mut rng = Rng(seed);
        let mut world = World::new(&mut rng);
        let first = world.append();
        for id in 0..3 {
            world.apply(id, 1);
        }
        for step in 0..200 {
            world.now += rng.below(10_000);
            let id = usize::try_from(rng.below(3)).unwrap();
            match rng.below(3) {
                0 => world.nodes[id].wall = rng.below(HOUR * 100),
                1 => world.lead(id),
                _ => {
                    let last = world.append();
                    for id in 0..3 {
                        world.apply(id, world.log.len());
                    }
                    let (passed, real) = (last.stamp - first.stamp, last.at - first.at);
                    let shortest = real - real / u64::from(SLEW) - 2 - step;
                    assert!(passed >= shortest, "seed {seed}: {passed} ms in {real} ms");
                }
            }
        }
    }
}
