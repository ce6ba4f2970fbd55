//! A million znodes: memory for each znode, time for each change, and the time to dump and load a snapshot. It prints
//! figures and asserts no bound.
//!
//! `cargo bench -p holdfast-machine --bench tree [-- <znodes>]`
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::hint::black_box;
use std::time::Instant;

use holdfast_codec::{Kind, decode, encode};
use holdfast_machine::{Machine, SnapshotPart};
use holdfast_types::{Caller, Command, Create, CreateKind, Entry, Multi, Op, Stamp, ZnodePath};

const BATCH: usize = 64;
/// The number of children of one directory.
const CHILDREN: usize = 1_000;

fn path(text: &str) -> ZnodePath {
    ZnodePath::new(text).unwrap()
}

fn multi(then: Vec<Op>) -> Command {
    Command::Multi(Multi { caller: Caller::default(), then, ..Multi::default() })
}

fn create(at: &str, data: Vec<u8>) -> Op {
    let (directory, name) = ZnodePath::for_create(at, false).unwrap();
    let (kind, acl) = (CreateKind::Persistent, None);
    Op::Create(Create {
        directory,
        name,
        data: data.into(),
        kind,
        sequential: false,
        acl,
        parents: false,
    })
}

fn name(n: usize) -> String {
    format!("/app/dir-{:04}/node-{:06}", n / CHILDREN, n)
}

/// Resident memory in bytes, or 0 if the kernel does not report it.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}

/// CPU time of this thread in nanoseconds, or 0 if the kernel does not report it.
fn on_cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Applies commands in batches and prints the CPU time of `apply` alone, without the creation of the commands.
fn measure(what: &str, machine: &mut Machine, commands: impl Iterator<Item = Command>) {
    let (mut commands, mut count, mut nanos) = (commands.peekable(), 0_u64, 0);
    while commands.peek().is_some() {
        let batch: Vec<_> = commands.by_ref().take(BATCH).collect();
        count += batch.len() as u64;
        let begun = on_cpu();
        let applied = machine.apply(Entry { stamped_at: Stamp(0), commands: batch });
        nanos += on_cpu() - begun;
        assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
    }
    println!("{what:<52} {count:>8} commands, {:>7} ns of CPU each", nanos / count.max(1));
}

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let (start, begun) = (Instant::now(), on_cpu());
    let result = run();
    let cpu = std::time::Duration::from_nanos(on_cpu() - begun);
    println!("{what:<52} {:>8.2?}, {cpu:>8.2?} of CPU", start.elapsed());
    result
}

fn main() {
    let znodes = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let mut machine = Machine::new();
    measure(
        "the top directory",
        &mut machine,
        std::iter::once(multi(vec![create("/app", vec![])])),
    );
    let directories = (0..znodes / CHILDREN).map(|n| format!("/app/dir-{n:04}"));
    measure("directories", &mut machine, directories.map(|at| multi(vec![create(&at, vec![])])));

    let before = resident();
    let creates = (0..znodes).map(|n| multi(vec![create(&name(n), Vec::new())]));
    measure("create, without data", &mut machine, creates);
    let bytes = resident().saturating_sub(before) / znodes;
    println!("{bytes} bytes of memory for each znode, with a name of {} bytes", name(0).len());

    let spread = |n: usize| (n * 7_919) % znodes;
    let sets = (0..znodes).map(|n| {
        let (path, data) = (path(&name(spread(n))), vec![7; 64]);
        multi(vec![Op::SetData { path, data: data.into(), version: None }])
    });
    measure("set, 64 bytes", &mut machine, sets);
    let bytes = resident().saturating_sub(before) / znodes;
    println!("{bytes} bytes of memory for each znode with 64 bytes of data");
    changes(&mut machine, znodes);
    snapshot(&machine);
    reads(&machine);
}

fn changes(machine: &mut Machine, znodes: usize) {
    let spread = |n: usize| path(&name((n * 7_919) % znodes));
    let check = |n| Op::Check { path: spread(n), version: None };
    let set = |n| Op::SetData { path: spread(n), data: vec![7; 64].into(), version: None };
    // The largest multis that a ZooKeeper client can send in 1 MiB: the commands behind them wait this long.
    let many = |n: usize| format!("/app/{n:05}");
    let creates = (0..10_001).map(|n| create(&many(n), Vec::new())).collect();
    measure("multi of 10,001 creates", machine, std::iter::once(multi(creates)));
    let delete = |n| Op::Delete { path: path(&many(n)), version: None, recursive: false };
    let deletes = (0..10_001).map(delete).collect();
    measure("multi of 10,001 deletes", machine, std::iter::once(multi(deletes)));
    let checks = (0..58_000).map(check).collect();
    measure("multi of 58,000 checks", machine, std::iter::once(multi(checks)));
    let some = 100_000.min(znodes);
    measure(
        "multi of a check and a set",
        machine,
        (0..some).map(|n| multi(vec![check(n), set(n)])),
    );
    let tens = (0..some / 10).map(|n| multi((0..10).map(|i| set(n * 10 + i)).collect()));
    measure("multi of ten sets", machine, tens);
    let quota = "/zookeeper/quota/app";
    let limits = b"count=5000000,bytes=-1=;countHardLimit=5000000".to_vec();
    let limits = create(&format!("{quota}/zookeeper_limits"), limits);
    if znodes < 1_000_000 - 2_000 {
        measure(
            "a quota on /app",
            machine,
            [multi(vec![create(quota, vec![]), limits])].into_iter(),
        );
        measure("set, 64 bytes, under a quota", machine, (0..some).map(|n| multi(vec![set(n)])));
    }
    let gone = |n: usize| {
        let path = path(&format!("/app/dir-{n:04}"));
        multi(vec![Op::Delete { path, version: None, recursive: true }])
    };
    measure("recursive delete of a thousand", machine, (0..10).map(gone));
}

fn snapshot(machine: &Machine) {
    println!("{:?}", machine.counts());
    let parts: Vec<SnapshotPart> = timed("dump", || machine.dump().collect());
    let encoded: Vec<Vec<u8>> = timed("encode the parts", || {
        parts.iter().map(|part| encode(Kind::SnapshotPart, part).unwrap()).collect()
    });
    let bytes: usize = encoded.iter().map(Vec::len).sum();
    println!("{} parts, {bytes} bytes", parts.len());
    drop(parts);
    let parts: Vec<SnapshotPart> = timed("decode the parts", || {
        encoded.iter().map(|part| decode(Kind::SnapshotPart, part).unwrap()).collect()
    });
    let loaded = timed("load, with every invariant checked", || Machine::load(parts).unwrap());
    let digests = timed("two state digests", || (loaded.state_digest(), machine.state_digest()));
    assert_eq!(digests.0, digests.1);
}

fn reads(machine: &Machine) {
    let directory = path("/app/dir-0011");
    timed("a list of a thousand", || black_box(machine.list(&directory, &[])).is_ok());
    let page = timed("a page of 100 of a thousand", || {
        machine.children_page(&directory, &[], Some("node-011500"), 100).unwrap()
    });
    assert_eq!(page.items.len(), 100);
    timed("a page of 1,000 of a subtree", || {
        machine.subtree(&path("/app"), Some(&directory), 1_000, &[]).unwrap().items.len()
    });
    timed("the number of descendants", || {
        machine.descendants(&ZnodePath::root(), &[]).unwrap().count()
    });
}
