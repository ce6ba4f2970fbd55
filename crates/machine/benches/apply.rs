//! Commands applied per second on one core: acquire and release over many locks and over one, with named and anonymous
//! sessions, with and without a frozen view. It prints figures and asserts no bound.
//!
//! `cargo bench -p holdfast-machine --bench apply`
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::hint::black_box;
use std::time::Instant;

use holdfast_machine::Machine;
use holdfast_types::{
    Acquire, Command, Entry, LockName, OpenSession, Owner, Release, ReleaseTarget, SessionName,
    Stamp,
};

const LOCKS: usize = 10_000;
const BATCH: usize = 64;
const ROUNDS: usize = 20;

fn session(name: &str, anonymous: bool) -> OpenSession {
    let session = SessionName::new(name).unwrap();
    OpenSession { anonymous, ..OpenSession::of(session) }
}

fn acquire(lock: &str, name: &str, anonymous: bool) -> Command {
    let lock = LockName::new(lock).unwrap();
    let open = session(name, anonymous);
    Command::Acquire(Acquire::new(lock, open, Owner::unnamed()))
}

fn release(lock: &str, name: &str) -> Command {
    Command::Release(Release {
        locks: LockName::new(lock).unwrap().into(),
        session: SessionName::new(name).unwrap(),
        owner: Owner::unnamed(),
        target: ReleaseTarget::AnyEntry,
    })
}

/// Applies the commands in batches and prints the rate. All entries exist before the measurement.
fn measure(what: &str, machine: &mut Machine, commands: Vec<Command>) {
    let count = commands.len();
    let mut entries = Vec::with_capacity(count / BATCH + 1);
    let mut commands = commands.into_iter().peekable();
    while commands.peek().is_some() {
        let stamped_at = Stamp(entries.len() as u64);
        entries.push(Entry { stamped_at, commands: commands.by_ref().take(BATCH).collect() });
    }
    let (start, begun) = (Instant::now(), on_cpu());
    for entry in entries {
        black_box(machine.apply(entry));
    }
    let nanos = start.elapsed().as_nanos() / u128::try_from(count).unwrap();
    let cpu = on_cpu()
        .zip(begun)
        .map_or(nanos, |(end, begin)| u128::from(end - begin) / u128::try_from(count).unwrap());
    let rate = 1_000_000_000 / cpu.max(1);
    println!("{what:<44} {count:>7} commands {nanos:>6} ns each, {cpu:>6} ns of CPU: {rate:>8} /s");
}

/// CPU time of this thread in nanoseconds, if the kernel reports it.
fn on_cpu() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_whitespace().next()?.parse().ok()
}

fn spread(anonymous: bool, name: impl Fn(usize, usize) -> String) -> Vec<Command> {
    let mut commands = Vec::new();
    for round in 0..ROUNDS {
        for chunk in (0..LOCKS).collect::<Vec<_>>().chunks(32) {
            let lock = |i: usize| format!("orders/{:05}", (i * 7_919) % LOCKS);
            commands.extend(chunk.iter().map(|i| acquire(&lock(*i), &name(round, *i), anonymous)));
            commands.extend(chunk.iter().map(|i| release(&lock(*i), &name(round, *i))));
        }
    }
    commands
}

fn main() {
    let mut machine = Machine::new();
    let named = |_: usize, i: usize| format!("client-{i:05}");
    measure("many locks, first use, a session for each lock", &mut machine, spread(false, named));
    measure("many locks, a session for each lock", &mut machine, spread(false, named));
    let few = |_: usize, i: usize| format!("client-{:05}", i % 64);
    measure("many locks, 64 sessions", &mut machine, spread(false, few));
    let anonymous = |round: usize, i: usize| format!("anonymous-{round}-{i:05}");
    measure("many locks, anonymous sessions", &mut machine, spread(true, anonymous));

    let mut hot = Vec::new();
    for i in 0..16 {
        hot.push(acquire("hot", &format!("client-{i:05}"), false));
    }
    for i in 0..100_000 {
        let name = format!("client-{:05}", i % 16);
        hot.push(release("hot", &name));
        hot.push(acquire("hot", &name, false));
    }
    measure("one lock, 16 queued sessions", &mut machine, hot);

    let renewals = (0..200_000).map(|i| acquire("hot", &format!("client-{:05}", i % 16), false));
    measure("one lock, repeated acquires", &mut machine, renewals.collect());

    let enqueue = (0..10_000).map(|i| acquire("crowded", &format!("client-{i:05}"), false));
    measure("a queue of 10,000", &mut machine, enqueue.collect());
    let repeat = (0..10_000).map(|i| acquire("crowded", &format!("client-{i:05}"), false));
    measure("a queue of 10,000, repeated acquires", &mut machine, repeat.collect());
    let release_all = (0..10_000).map(|i| release("crowded", &format!("client-{i:05}")));
    measure("a queue of 10,000, each granted and released", &mut machine, release_all.collect());

    let mut frozen = Vec::new();
    for _ in 0..4 {
        frozen.push(machine.clone());
        let commands = spread(false, named).into_iter().take(LOCKS * 2).collect();
        measure("many locks, first round with a frozen view", &mut machine, commands);
    }
    drop(frozen);
    snapshots(&mut machine);
}

fn snapshots(machine: &mut Machine) {
    for lock in 0..100_000 {
        let command = acquire(&format!("held/{lock:06}"), &format!("holder-{lock:06}"), false);
        black_box(machine.apply(Entry { stamped_at: Stamp(0), commands: vec![command] }));
    }
    println!("{:?}", machine.counts());
    let start = Instant::now();
    let parts: Vec<_> = machine.dump().collect();
    println!("dump: {} parts in {:?}", parts.len(), start.elapsed());
    let start = Instant::now();
    let loaded = Machine::load(parts).unwrap();
    println!("load, with every invariant checked: {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(black_box(loaded.state_digest()), machine.state_digest());
    println!("two state digests: {:?}", start.elapsed());
    let start = Instant::now();
    let page = machine.locks(&holdfast_machine::LockFilter::default(), None, 1_000, |_| true);
    println!("a page of {} locks: {:?}", page.items.len(), start.elapsed());
    let held = holdfast_machine::LockFilter { waiting: true, ..Default::default() };
    let start = Instant::now();
    let page = machine.locks(&held, None, 1_000, |_| true);
    println!("a scan for locks with waiters: {} found, {:?}", page.items.len(), start.elapsed());
}
