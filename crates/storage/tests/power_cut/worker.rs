//! The process that dies: opens the store, says what it finds, and works until it is killed.
//!
//! Reports on its standard output, one line each, beginning with `@`: `purged`, `meta`, `record`, `snapshot`, `file`
//! and at last `open` for what it found; then `ops N` before it may have asked for operation N, `ack N` when every durable
//! operation up to N is acknowledged, and the same for snapshots (`snapping`, `snapped`) and small files. `fail` is a store
//! that does not open.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use holdfast_storage::{
    Engine, JournaledEngine, Log, LogOptions, Order, Snapshots, StoreError, Visit, WriteBatch,
    read_file, write_file,
};
use parking_lot::{Condvar, Mutex};

use crate::campaign::Plant;
use crate::model::{Model, Op, Rng, Sizes, fill};

pub(crate) const DIR: &str = "HOLDFAST_WORKER_DIR";
pub(crate) const SEED: &str = "HOLDFAST_WORKER_SEED";
pub(crate) const PLANT: &str = "HOLDFAST_WORKER_PLANT";
/// The number of the next snapshot and small file.
pub(crate) const NEXT: &str = "HOLDFAST_WORKER_NEXT";

pub(crate) fn main() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let variable = |name: &str| std::env::var(name).expect("set by the campaign");
    let seed: u64 = variable(SEED).parse().expect("a number");
    let next: u64 = variable(NEXT).parse().expect("a number");
    let plant = Plant::parse(&variable(PLANT));
    match Store::open(Path::new(&dir), plant) {
        Ok(store) => store.work(seed, next),
        Err(error) => say(&format!("fail {error}")),
    }
    // The test that started this process ends it.
    loop {
        thread::park();
    }
}

fn say(line: &str) {
    // The first line break ends whatever the test harness has printed.
    let line = format!("\n@{line}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the campaign listens");
}

/// What an operation stream is like, by its seed.
pub(crate) fn sizes(seed: u64) -> (Sizes, u64) {
    match seed % 4 {
        0 => (Sizes { records_max: 4, length_max: 400, one_huge_in: u64::MAX, keep: 300 }, 1),
        1 => (Sizes { records_max: 12, length_max: 4_000, one_huge_in: 200, keep: 300 }, 16),
        2 => (Sizes { records_max: 8, length_max: 20_000, one_huge_in: 12, keep: 100 }, 8),
        _ => (Sizes { records_max: 40, length_max: 24_000, one_huge_in: 6, keep: 40 }, 64),
    }
}

struct Store {
    log: Log,
    model: Model,
    snapshots: Snapshots,
    identity: PathBuf,
    plant: Option<Plant>,
}

impl Store {
    fn open(dir: &Path, plant: Option<Plant>) -> Result<Self, StoreError> {
        let log_dir = dir.join("log");
        let log = match plant {
            Some(Plant::FlushOnly | Plant::NoBarrier) => {
                fs::create_dir_all(&log_dir).expect("directory");
                let inner = JournaledEngine::open(&log_dir, 8 << 20)?;
                Log::with_engine(PlantedEngine { inner, flush: plant == Some(Plant::FlushOnly) })?
            }
            _ => Log::open(&log_dir, LogOptions::default())?,
        };
        let model = Model::observe(&log)?;
        report(&model);
        let snapshots = Snapshots::open(&dir.join("snapshots"))?;
        if let Some(snapshot) = snapshots.latest()? {
            let number = u64::from_le_bytes(snapshot.meta()[..].try_into().expect("eight bytes"));
            let parts: Result<Vec<Bytes>, StoreError> = snapshot.parts().collect();
            assert!(parts? == snapshot_parts(number), "snapshot {number} has another content");
            say(&format!("snapshot {number}"));
        }
        let identity = dir.join("identity");
        if let Some(content) = read_file(&identity)? {
            say(&format!(
                "file {}",
                u64::from_le_bytes(content[..].try_into().expect("eight bytes"))
            ));
        }
        say("open");
        Ok(Self { log, model, snapshots, identity, plant })
    }

    fn work(self, seed: u64, next: u64) {
        let Self { log, model, snapshots, identity, plant } = self;
        let files = thread::spawn(move || {
            // Half of the runs have snapshots written beside the log.
            if seed % 8 < 4 || plant == Some(Plant::SnapshotWithoutSync) {
                write_snapshots(&snapshots, &identity, plant, next);
            }
        });
        if plant != Some(Plant::SnapshotWithoutSync) {
            write_log(&log, model, seed);
        }
        files.join().expect("the snapshots");
    }
}

fn report(model: &Model) {
    if let Some(purged) = model.purged {
        say(&format!("purged {purged}"));
    }
    for (number, meta) in model.metas.iter().enumerate() {
        if let Some(bytes) = meta {
            let value = u64::from_le_bytes(bytes[..].try_into().expect("eight bytes"));
            say(&format!("meta {number} {value}"));
        }
    }
    for (index, (length, sum)) in &model.records {
        say(&format!("record {index} {length} {sum}"));
    }
}

/// Works on the log with up to a window of operations under way, until one fails.
fn write_log(log: &Log, mut model: Model, seed: u64) {
    let (sizes, window) = sizes(seed);
    let mut rng = Rng(seed);
    let under_way = Arc::new((Mutex::new(UnderWay::default()), Condvar::new()));
    for number in 1.. {
        let op = Op::random(&mut rng, &model, sizes);
        model.apply(&op);
        let mut state = under_way.0.lock();
        while state.count >= window && !state.failed {
            under_way.1.wait(&mut state);
        }
        if state.failed {
            return;
        }
        state.count += 1;
        drop(state);
        if number % 8 == 1 {
            say(&format!("ops {}", number + 7));
        }
        let (shared, durable) = (Arc::clone(&under_way), op.is_durable());
        let done = move |result: Result<(), StoreError>| {
            if result.is_ok() && durable {
                say(&format!("ack {number}"));
            }
            let mut state = shared.0.lock();
            state.count -= 1;
            state.failed |= result.is_err();
            shared.1.notify_one();
        };
        op.submit(log, Box::new(done)).expect("the window is smaller than the queue");
    }
}

#[derive(Default)]
struct UnderWay {
    count: u64,
    failed: bool,
}

fn write_snapshots(snapshots: &Snapshots, identity: &Path, plant: Option<Plant>, next: u64) {
    for number in next.. {
        say(&format!("snapping {number}"));
        if write_snapshot(snapshots, identity, plant, number).is_err() {
            return;
        }
        say(&format!("snapped {number}"));
        say(&format!("filing {number}"));
        if write_file(identity, &number.to_le_bytes()).is_err() {
            return;
        }
        say(&format!("filed {number}"));
    }
}

fn write_snapshot(
    snapshots: &Snapshots,
    identity: &Path,
    plant: Option<Plant>,
    number: u64,
) -> Result<(), StoreError> {
    if plant == Some(Plant::SnapshotWithoutSync) {
        return write_unsynced(identity, number);
    }
    let mut writer = snapshots.begin(&format!("n-{number}"))?;
    for part in snapshot_parts(number) {
        writer.write_part(&part)?;
    }
    writer.finish(&number.to_le_bytes()).map(drop)
}

fn snapshot_parts(number: u64) -> Vec<Bytes> {
    let mut rng = Rng(number);
    (0..number % 4).map(|part| fill(number ^ part << 32, rng.between(0, 300_000))).collect()
}

/// The planted bug: a whole snapshot, renamed into place, and never synced. It is made with the store itself in a
/// directory beside, and copied.
fn write_unsynced(identity: &Path, number: u64) -> Result<(), StoreError> {
    let dir = identity.with_file_name("snapshots");
    let beside = tempfile::tempdir().expect("directory");
    let source = Snapshots::open(beside.path())?;
    let mut writer = source.begin("n")?;
    for part in snapshot_parts(number) {
        writer.write_part(&part)?;
    }
    let raw = writer.finish(&number.to_le_bytes())?.raw();
    let bytes = raw.read_at(0, usize::MAX)?;
    let (partial, whole) = (dir.join("x.partial"), dir.join(format!("{number:016x}-n.snap")));
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, &whole));
    let io = |error: std::io::Error| StoreError::Misuse { what: error.to_string() };
    written.map_err(io)?;
    for entry in fs::read_dir(&dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path != whole {
            fs::remove_file(path).map_err(io)?;
        }
    }
    Ok(())
}

/// The planted bug in the log: a barrier that is none.
struct PlantedEngine {
    inner: JournaledEngine,
    /// Whether it is at least sled's own `flush`.
    flush: bool,
}

impl Engine for PlantedEngine {
    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.inner.write(batch)
    }

    fn sync(&self) -> Result<(), StoreError> {
        if self.flush { self.inner.flush() } else { Ok(()) }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key)
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        order: Order,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.inner.scan(from, to, order, visit)
    }
}
