//! The campaign repeats: start a worker, let it work, cut the power or kill it, start the next worker, check the
//! reported state.
//!
//! A store survives up to a dozen cuts before the campaign creates a new one. After a kill the next worker runs on the
//! same mount. The state that it reads counts as acknowledged, because a node builds on it.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::lab::Lab;
use crate::model::{History, Model, Op, Rng};
use crate::worker;

const IMAGE_BYTES: u64 = 192 << 20;
/// The time limit for a worker to open its store.
const OPEN_TIMEOUT: Duration = Duration::from_mins(1);
const CUTS_A_LIFE_MAX: u64 = 12;

/// A bug that the campaign must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// The log writes, and never calls `fdatasync`.
    WriteWithoutSync,
    /// The log acknowledges before it writes.
    WriteLate,
    /// A snapshot is renamed into place without a sync.
    SnapshotWithoutSync,
}

impl Mutation {
    const ALL: [Self; 3] = [Self::WriteWithoutSync, Self::WriteLate, Self::SnapshotWithoutSync];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mutation| format!("{mutation:?}") == name)
    }
}

/// A forbidden behaviour of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreFailure {
    /// An acknowledged operation is missing, or the store has an operation that was never requested.
    Lost(String),
    WouldNotOpen(String),
}

/// The result, in the format of the documentation.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) cuts: u64,
    kills: u64,
    records: u64,
    snapshots: u64,
    pub(crate) faults: Vec<StoreFailure>,
    /// The number of the cut before the first fault.
    pub(crate) first_fault: Option<u64>,
    seconds: f64,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost =
            self.faults.iter().filter(|fault| matches!(fault, StoreFailure::Lost(_))).count();
        let shut = self.faults.len() - lost;
        writeln!(
            f,
            "| power cuts | kills | acknowledged records | acknowledged snapshots | acknowledged lost | would not open | seconds |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        let Self { cuts, kills, records, snapshots, seconds, .. } = self;
        write!(f, "| {cuts} | {kills} | {records} | {snapshots} | {lost} | {shut} | {seconds:.0} |")
    }
}

/// The reports of a worker.
#[derive(Clone, Default)]
struct WorkerReports {
    found: Model,
    found_snapshot: u64,
    found_file: u64,
    opened: bool,
    failed: Option<String>,
    ended: bool,
    ops: usize,
    acknowledged: usize,
    /// The highest started number, and the highest acknowledged number.
    snapshots: (u64, u64),
    files: (u64, u64),
}

/// A running worker and the thread that reads its reports.
struct Worker {
    child: Child,
    heard: Arc<(Mutex<WorkerReports>, Condvar)>,
    listener: JoinHandle<()>,
    seed: u64,
    /// Whether the state that it found was checked.
    judged: bool,
}

pub(crate) struct Campaign {
    lab: Option<Lab>,
    /// The directory of a store without a lab.
    home: tempfile::TempDir,
    mutation: Option<Mutation>,
    rng: Rng,
    /// The expected state of the store.
    history: History,
    snapshots: (u64, u64),
    files: (u64, u64),
    cuts_left: u64,
    /// The store has failed; the campaign checks it no further.
    broken: bool,
    stores: u64,
    table: Table,
    begun: Instant,
}

impl Campaign {
    /// A campaign of power cuts; the error names the missing requirement.
    pub(crate) fn new(mutation: Option<Mutation>, seed: u64) -> Result<Self, String> {
        let lab = Lab::new(IMAGE_BYTES)?;
        Ok(Self { lab: Some(lab), mutation, ..Self::without_power(seed) })
    }

    /// A campaign of kills only, which runs on every system.
    pub(crate) fn without_power(seed: u64) -> Self {
        Self {
            lab: None,
            home: tempfile::tempdir().expect("directory"),
            mutation: None,
            rng: Rng(seed),
            history: History::default(),
            snapshots: (0, 0),
            files: (0, 0),
            cuts_left: CUTS_A_LIFE_MAX,
            broken: false,
            stores: 0,
            table: Table::default(),
            begun: Instant::now(),
        }
    }

    /// Cuts the power (or kills) `cuts` times, or until `enough` returns `true` for the faults so far.
    pub(crate) fn run(&mut self, cuts: u64, enough: impl Fn(&[StoreFailure]) -> bool) {
        for number in 1..=cuts {
            self.round();
            if number % 250 == 0 {
                println!("after {number} cuts:\n{}", self.sum());
            }
            if enough(&self.table.faults) {
                return;
            }
        }
    }

    /// Checks the state after the last cut, and returns the table.
    pub(crate) fn end(mut self) -> Table {
        self.look();
        self.sum();
        self.table
    }

    fn look(&mut self) {
        if !self.broken {
            let mut worker = self.start();
            self.open(&mut worker);
            self.stop(worker);
        }
    }

    fn sum(&mut self) -> &Table {
        self.table.seconds = self.begun.elapsed().as_secs_f64();
        &self.table
    }

    fn round(&mut self) {
        if self.broken || self.cuts_left == 0 {
            self.look();
            self.replace_store();
        }
        self.cuts_left -= 1;
        let mut worker = self.start();
        // One cut in six may occur while the worker opens the store.
        if self.rng.one_in(6) {
            self.pause(90);
        } else if self.open(&mut worker) {
            self.pause(100);
            if self.lab.is_some() && self.rng.one_in(4) {
                worker = self.kill_and_start(worker);
            }
        }
        if let Some(lab) = &mut self.lab {
            lab.cut().expect("the power is cut");
            self.table.cuts += 1;
        } else {
            self.table.kills += 1;
        }
        self.stop(worker);
        if let Some(lab) = &mut self.lab {
            lab.restart().expect("the disk is there again");
        }
    }

    fn kill_and_start(&mut self, worker: Worker) -> Worker {
        self.stop(worker);
        self.table.kills += 1;
        let mut next = self.start();
        if self.open(&mut next) {
            self.pause(40);
        }
        next
    }

    /// Lets the worker run for a random time before the cut.
    fn pause(&mut self, ms_max: u64) {
        thread::sleep(Duration::from_micros(self.rng.between(0, ms_max * 1000)));
    }

    fn replace_store(&mut self) {
        if let Some(lab) = &mut self.lab {
            lab.format().expect("a new file system");
        }
        self.stores += 1;
        self.broken = false;
        self.history = History::default();
        self.snapshots = (0, 0);
        self.files = (0, 0);
        self.cuts_left = self.rng.between(1, CUTS_A_LIFE_MAX);
    }

    fn dir(&self) -> PathBuf {
        let base = self.lab.as_ref().map_or(self.home.path(), Lab::dir);
        base.join(format!("store-{}", self.stores))
    }

    fn start(&mut self) -> Worker {
        let next = self.snapshots.0.max(self.files.0) + 1;
        Worker::start(&self.dir(), self.rng.next(), self.mutation, next)
    }

    /// Waits until the store is open and checks its content.
    fn open(&mut self, worker: &mut Worker) -> bool {
        let heard = worker.wait_open();
        if !heard.opened {
            let why = heard.failed.unwrap_or_else(|| "the worker ended or hung".to_owned());
            self.fault(StoreFailure::WouldNotOpen(why));
            return false;
        }
        worker.judged = true;
        self.check_against_history(&heard);
        !self.broken
    }

    /// Checks the state that a worker found against the history, and continues from that state.
    fn check_against_history(&mut self, heard: &WorkerReports) {
        if let Err(verdict) = self.history.check_against_history(&heard.found) {
            return self.fault(StoreFailure::Lost(verdict));
        }
        let numbers = [
            ("snapshot", heard.found_snapshot, self.snapshots),
            ("file", heard.found_file, self.files),
        ];
        for (detail, found, (begun, acknowledged)) in numbers {
            if found < acknowledged || found > begun {
                let verdict =
                    format!("{detail} {found} found, {acknowledged} acknowledged, {begun} begun");
                return self.fault(StoreFailure::Lost(verdict));
            }
        }
        self.snapshots = (heard.found_snapshot, heard.found_snapshot);
        self.files = (heard.found_file, heard.found_file);
        self.history = History { start: heard.found.clone(), ..History::default() };
    }

    fn fault(&mut self, fault: StoreFailure) {
        println!("cut {} of store {}: {fault:?}", self.table.cuts, self.stores);
        self.table.first_fault.get_or_insert(self.table.cuts);
        self.table.faults.push(fault);
        self.broken = true;
    }

    /// Kills the worker and adds its reports to the history.
    fn stop(&mut self, worker: Worker) {
        let (seed, judged) = (worker.seed, worker.judged);
        let heard = worker.kill();
        if heard.opened && !judged {
            self.check_against_history(&heard);
        }
        if heard.opened && !self.broken {
            self.continue_history(seed, &heard);
        }
    }

    fn continue_history(&mut self, seed: u64, heard: &WorkerReports) {
        let (sizes, _) = worker::sizes(seed);
        let mut rng = Rng(seed);
        let mut model = self.history.start.clone();
        for number in 0..heard.ops {
            let op = Op::random(&mut rng, &model, sizes);
            model.apply(&op);
            if let Op::Append { lengths, .. } = &op
                && number < heard.acknowledged
            {
                self.table.records += lengths.len() as u64;
            }
            self.history.ops.push(op);
        }
        self.history.acknowledged = heard.acknowledged;
        self.table.snapshots += heard.snapshots.1.saturating_sub(self.snapshots.1);
        let later = |old: (u64, u64), new: (u64, u64)| (old.0.max(new.0), old.1.max(new.1));
        self.snapshots = later(self.snapshots, heard.snapshots);
        self.files = later(self.files, heard.files);
    }
}

impl Worker {
    fn start(dir: &Path, seed: u64, mutation: Option<Mutation>, next: u64) -> Self {
        std::fs::create_dir_all(dir).expect("directory");
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["--exact", "worker", "--nocapture", "--test-threads=1"])
            .env(worker::DIR, dir)
            .env(worker::SEED, seed.to_string())
            .env(
                worker::MUTATION,
                mutation.map_or_else(String::new, |mutation| format!("{mutation:?}")),
            )
            .env(worker::NEXT, next.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a worker");
        let heard: Arc<(Mutex<WorkerReports>, Condvar)> = Arc::default();
        let (out, shared) = (child.stdout.take().expect("a pipe"), Arc::clone(&heard));
        let listener = thread::spawn(move || listen(out, &shared));
        Self { child, heard, listener, seed, judged: false }
    }

    fn wait_open(&self) -> WorkerReports {
        let deadline = Instant::now() + OPEN_TIMEOUT;
        let mut heard = self.heard.0.lock();
        while !heard.opened && !heard.ended && heard.failed.is_none() {
            if self.heard.1.wait_until(&mut heard, deadline).timed_out() {
                break;
            }
        }
        heard.clone()
    }

    fn kill(mut self) -> WorkerReports {
        self.child.kill().and_then(|()| self.child.wait()).expect("the worker is killed");
        self.listener.join().expect("the listener");
        self.heard.0.lock().clone()
    }
}

fn listen(out: ChildStdout, shared: &(Mutex<WorkerReports>, Condvar)) {
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        if let Some(said) = line.strip_prefix('@') {
            shared.0.lock().take(said);
            shared.1.notify_all();
        }
    }
    shared.0.lock().ended = true;
    shared.1.notify_all();
}

impl WorkerReports {
    fn take(&mut self, said: &str) {
        let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
        if word == "fail" {
            self.failed = Some(rest.to_owned());
            return;
        }
        let numbers: Vec<u64> =
            rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let first = || usize::try_from(numbers[0]).expect("a count");
        match (word, &numbers[..]) {
            ("open", []) => self.opened = true,
            ("purged", [index]) => self.found.purged = Some(*index),
            ("meta", [_, value]) => {
                self.found.metas[first()] = Some(Bytes::copy_from_slice(&value.to_le_bytes()));
            }
            ("record", [index, length, sum]) => {
                let sum = u32::try_from(*sum).expect("a checksum");
                self.found.records.insert(*index, (*length, sum));
            }
            ("snapshot", [number]) => self.found_snapshot = *number,
            ("file", [number]) => self.found_file = *number,
            ("ops", [_]) => self.ops = first(),
            ("ack", [_]) => self.acknowledged = first(),
            ("snapping", [number]) => self.snapshots.0 = *number,
            ("snapped", [number]) => self.snapshots.1 = *number,
            ("filing", [number]) => self.files.0 = *number,
            ("filed", [number]) => self.files.1 = *number,
            // The kill may truncate the last line.
            _ => {}
        }
    }
}
