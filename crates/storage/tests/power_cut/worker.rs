//! The worker process: opens the store, reports its content, and works until the campaign kills it.
//!
//! It reports on its standard output, one line each, starting with `@`. For the found state: `purged`, `meta`,
//! `record`, `snapshot`, `file` and finally `open`. Then `ops N` before it may submit operation N, and `ack N` when
//! every durable operation up to N is acknowledged. Snapshots (`snapping`, `snapped`) and small files (`filing`,
//! `filed`) use the same scheme. `fail` is a store that does not open.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use holdfast_storage::{
    DirectoryDisk, Disk, Log, LogOptions, SegmentFile, Snapshots, StoreError, read_file, write_file,
};
use parking_lot::{Condvar, Mutex};

use crate::campaign::Mutation;
use crate::model::{Model, Op, Rng, Sizes, fill};

pub(crate) const DIR: &str = "HOLDFAST_WORKER_DIR";
pub(crate) const SEED: &str = "HOLDFAST_WORKER_SEED";
pub(crate) const MUTATION: &str = "HOLDFAST_WORKER_MUTATION";
/// The number of the next snapshot and small file.
pub(crate) const NEXT: &str = "HOLDFAST_WORKER_NEXT";

pub(crate) fn main() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let variable = |name: &str| std::env::var(name).expect("set by the campaign");
    let seed: u64 = variable(SEED).parse().expect("a number");
    let next: u64 = variable(NEXT).parse().expect("a number");
    let mutation = Mutation::parse(&variable(MUTATION));
    match Store::open(Path::new(&dir), seed, mutation) {
        Ok(store) => store.work(seed, next),
        Err(error) => say(&format!("fail {error}")),
    }
    // The campaign ends this process.
    loop {
        thread::park();
    }
}

fn say(line: &str) {
    // The first line break ends any output of the test harness.
    let line = format!("\n@{line}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("the campaign listens");
}

/// The sizes of an operation stream, determined by its seed.
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
    mutation: Option<Mutation>,
}

impl Store {
    fn open(dir: &Path, seed: u64, mutation: Option<Mutation>) -> Result<Self, StoreError> {
        let log_dir = dir.join("log");
        // Half of the runs have small segments, so they fill, create and remove many.
        let segment_bytes =
            if seed % 16 < 8 { 128 << 10 } else { LogOptions::default().segment_bytes };
        let options = LogOptions { segment_bytes, ..LogOptions::default() };
        let log = match mutation {
            Some(Mutation::WriteWithoutSync) => {
                let disk = DirectoryDisk::open(&log_dir)?;
                Log::with_disk_and_options(Mutated { inner: disk, is_late: false }, options)?
            }
            Some(Mutation::WriteLate) => {
                let disk = DirectoryDisk::open(&log_dir)?;
                Log::with_disk_and_options(Mutated { inner: disk, is_late: true }, options)?
            }
            _ => Log::open(&log_dir, options)?,
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
        Ok(Self { log, model, snapshots, identity, mutation })
    }

    fn work(self, seed: u64, next: u64) {
        let Self { log, model, snapshots, identity, mutation } = self;
        let files = thread::spawn(move || {
            // Half of the runs write snapshots concurrently with the log.
            if seed % 8 < 4 || mutation == Some(Mutation::SnapshotWithoutSync) {
                write_snapshots(&snapshots, &identity, mutation, next);
            }
        });
        if mutation != Some(Mutation::SnapshotWithoutSync) {
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

/// Submits operations to the log, with up to a window in flight, until one fails.
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

fn write_snapshots(snapshots: &Snapshots, identity: &Path, mutation: Option<Mutation>, next: u64) {
    for number in next.. {
        say(&format!("snapping {number}"));
        if write_snapshot(snapshots, identity, mutation, number).is_err() {
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
    mutation: Option<Mutation>,
    number: u64,
) -> Result<(), StoreError> {
    if mutation == Some(Mutation::SnapshotWithoutSync) {
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

/// The mutation: a whole snapshot, renamed into place without a sync. The worker creates it with the store in another
/// directory, and copies it.
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
    let io = |error: std::io::Error| StoreError::Misuse { detail: error.to_string() };
    written.map_err(io)?;
    for entry in fs::read_dir(&dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path != whole {
            fs::remove_file(path).map_err(io)?;
        }
    }
    Ok(())
}

/// A disk whose syncs have no effect, and one of its segments. If `is_late`, a write reaches the file only with the
/// next write.
struct Mutated<T> {
    inner: T,
    is_late: bool,
}

/// The delayed write.
struct MutatedSegment {
    file: Arc<dyn SegmentFile>,
    is_late: bool,
    late: Mutex<Option<(u64, Bytes)>>,
}

impl Mutated<DirectoryDisk> {
    fn segment(&self, file: Arc<dyn SegmentFile>) -> Arc<dyn SegmentFile> {
        Arc::new(MutatedSegment { file, is_late: self.is_late, late: Mutex::default() })
    }
}

impl Disk for Mutated<DirectoryDisk> {
    fn segments(&self) -> Result<Vec<u32>, StoreError> {
        self.inner.segments()
    }

    fn open(&self, number: u32) -> Result<Arc<dyn SegmentFile>, StoreError> {
        self.inner.open(number)
    }

    fn create(&self, number: u32, content: &[u8]) -> Result<Arc<dyn SegmentFile>, StoreError> {
        self.inner.create(number, content).map(|file| self.segment(file))
    }

    fn remove(&self, number: u32) -> Result<(), StoreError> {
        self.inner.remove(number)
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }

    fn raise_watermark(&self, frames: u64) -> Result<(), StoreError> {
        self.inner.raise_watermark(frames)
    }
}

impl MutatedSegment {
    fn write_late(&self) -> Result<(), StoreError> {
        let late = self.late.lock().take();
        late.map_or(Ok(()), |(offset, bytes)| self.file.write_at(offset, &bytes))
    }
}

impl SegmentFile for MutatedSegment {
    fn read_all(&self) -> Result<Bytes, StoreError> {
        self.file.read_all()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, StoreError> {
        self.write_late()?;
        self.file.read_at(offset, len)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        if !self.is_late {
            return self.file.write_at(offset, bytes);
        }
        self.write_late()?;
        *self.late.lock() = Some((offset, Bytes::copy_from_slice(bytes)));
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
